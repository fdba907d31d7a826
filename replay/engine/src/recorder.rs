//! Where rows go while a run is under way.

use pktgen_core::Result;
use pktgen_core::record::{Book, Iteration, Received, Reply, Sent, State};
use pktgen_core::time::Time;

/// Where rows go while a run is under way.
pub trait Recorder {
    /// An update left its worker.
    fn sent(&mut self, row: &Sent) -> Result<()>;
    /// `frame`, of the row that comes next, leaves its worker at `leaves`; it is `now`, before which none leaves any more.
    fn left(&mut self, _now: Time, _leaves: Time, _frame: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A device did something.
    fn book(&mut self, row: &Book) -> Result<()>;
    /// A worker under transmission control learned or decided something.
    fn state(&mut self, _row: &State) -> Result<()> {
        Ok(())
    }
    /// An iteration of synchronous training ended.
    fn iteration(&mut self, _row: &Iteration) -> Result<()> {
        Ok(())
    }
    /// A worker of synchronous training got a result.
    fn reply(&mut self, _row: &Reply) -> Result<()> {
        Ok(())
    }
    /// A packet reached the server; `frame` is all of it.
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()>;
}
