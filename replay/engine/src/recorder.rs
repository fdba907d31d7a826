//! Sinks of rows during a run.

use pktgen_core::Result;
use pktgen_core::record::{Book, Iteration, Received, Reply, Sent, State};
use pktgen_core::time::Time;

/// A sink of rows during a run.
pub trait Recorder {
    /// Records that an update left its worker.
    fn sent(&mut self, row: &Sent) -> Result<()>;
    /// Notes that `frame`, which belongs to the next row, leaves its worker at `leaves`; no later frame leaves before `now`.
    fn left(&mut self, _now: Time, _leaves: Time, _frame: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Records a device's action.
    fn book(&mut self, row: &Book) -> Result<()>;
    /// Records a state or decision of a worker under transmission control.
    fn state(&mut self, _row: &State) -> Result<()> {
        Ok(())
    }
    /// Records the end of an iteration of synchronous training.
    fn iteration(&mut self, _row: &Iteration) -> Result<()> {
        Ok(())
    }
    /// Records a result at a worker of synchronous training.
    fn reply(&mut self, _row: &Reply) -> Result<()> {
        Ok(())
    }
    /// Records a packet at the server; `frame` is the whole frame.
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()>;
}
