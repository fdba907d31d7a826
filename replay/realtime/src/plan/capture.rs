//! `[capture]`: what a run records, and when it ends.

use pktgen_core::config::Document;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::Population;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use crate::capture::Records;
use crate::endpoint::WorkerKind;

/// `[capture]`.
pub struct Capture {
    /// Rows that are recorded.
    pub records: Records,
    /// Whether workers' states are recorded.
    pub states: bool,
    /// Whether the packets at the server are captured.
    pub pcap: bool,
    /// Cut-off time of the run.
    pub until: Time,
    /// Represented updates per worker at the server that end the run, if any.
    pub goal: Option<u32>,
}

impl Capture {
    /// Checks that the run can end, and reach its goal.
    pub(super) fn checked(self, endless: bool, workers: &Population, kind: &dyn WorkerKind) -> Result<Self> {
        if self.goal.is_some() && kind.behaviour().synchronous {
            return Err(Error::config(format!(
                "capture.goal counts updates at a server, and endpoint.workers = \"{}\" has none; use workload.iterations",
                kind.name()
            )));
        }
        if endless && self.goal.is_none() && self.until == NEVER {
            return Err(Error::config(
                "workload.repeat = 0 has no end: give capture.goal, capture.until, schedule.stop, or a number of passes",
            ));
        }
        if self.goal.is_some() && workers.cluster_of.iter().all(|cluster| *cluster == NO_CLUSTER) {
            return Err(Error::config("capture.goal needs workers that send updates; this workload has none"));
        }
        Ok(self)
    }
}

/// Reads the section.
pub(super) fn read_capture(document: &mut Document) -> Result<Capture> {
    let mut section = document.section("capture")?;
    let records: String = section.get("records", Records::Full.to_string())?;
    let records = records.parse().map_err(|e| Error::config(format!("{}: {e}", section.place("records"))))?;
    let states = section.get("states", false)?;
    let pcap = section.get("pcap", false)?;
    let until: Option<Span> = section.get_opt("until")?;
    let goal: Option<u32> = section.get_opt("goal")?;
    if goal == Some(0) {
        return Err(Error::config(format!("{}: a goal of 0 updates is reached at once", section.place("goal"))));
    }
    document.close(section)?;
    Ok(Capture { records, states, pcap, until: until.map_or(NEVER, Span::ps), goal })
}
