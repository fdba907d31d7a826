//! The settings in `[endpoint]` of workers of synchronous training, for any protocol.

use std::sync::Arc;

use pktgen_core::config::Section;
use pktgen_core::record::Training;
use pktgen_core::time::{HORIZON, SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload::Source;

use super::keys::Trained;
use crate::endpoint::{Facts, refuse_traffic_beside};

/// The reaction of a worker to iterations that were completed without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// It computes every iteration, and stays late for ever, unless the others wait for it.
    Compute,
    /// It skips an iteration if it has all its results at its beginning.
    Skip,
    /// As [`Skip`](Self::Skip); it also joins the others in the first iteration without all results: it is ready when
    /// they are, with its gradients.
    Join,
    /// As [`Skip`](Self::Skip); it also stops computing when the last result of the iteration arrives.
    Abandon,
}

/// The rule for blocks that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Any window of blocks may be without results (Trio §4).
    Outstanding,
    /// A block waits for the result of the block one window earlier, whose slot in the device it uses.
    Slots,
    /// No block leaves a window or more after the oldest without a result.
    Sliding,
}

impl Order {
    /// Returns whether results are of all workers of a job, so that none precedes a contribution.
    pub(super) fn needs_all(self) -> bool {
        self != Order::Outstanding
    }
}

/// Adaptation of the window to marks in results: once per window it is halved, or grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowControl {
    /// Growth in packets.
    pub step: u32,
}

/// The settings of all workers of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Blocks that may be outstanding.
    pub window: u32,
    /// The rule for blocks that may leave.
    pub order: Order,
    /// Adaptation of the window, if any; `window` is then its maximum.
    pub control: Option<WindowControl>,
    /// Whether blocks are sent again at once, each once, when results of later ones arrive first.
    pub gaps: bool,
    /// The reaction to iterations that were completed without a worker.
    pub missed: Missed,
    /// The unit of straggler delays.
    pub typical: Time,
    /// Whether the unit is the worker's measured iteration time, once there is one.
    pub measured: bool,
    /// Time without a result after which a block is sent again; none if never.
    pub retransmit: Option<Time>,
    /// Parameters for the manifest.
    pub training: Training,
}

impl Settings {
    /// Reads `missed`, `typical` and `iterations_to_target` from `[endpoint]`.
    pub fn read(section: &mut Section, facts: &Facts, dense: &Dense, window: u32, order: Order) -> Result<Self> {
        let missed = Trained::missed(section)?;
        let measured = Trained::typical(section)?;
        if measured && dense.typical().is_some() {
            let place = section.place("typical");
            return Err(Error::config(format!(
                "{place}: workers measure what workload.typical gives; give one of them"
            )));
        }
        let iterations_to_target = Trained::iterations_to_target(section)?;
        let ideal = ideal(dense, facts.host_rate_bps);
        Ok(Settings {
            window,
            order,
            control: None,
            gaps: false,
            missed,
            typical: dense.typical().unwrap_or(ideal),
            measured,
            retransmit: None,
            training: Training {
                model: dense.model().to_owned(),
                jobs: dense.jobs(),
                workers: dense.workers_per_job(),
                iterations: dense.iterations(),
                blocks: dense.blocks(),
                elements: dense.elements_total(),
                compute_ps: dense.compute(),
                host_rate_bps: facts.host_rate_bps,
                ideal_ps: ideal,
                window,
                timeout_ps: None,
                iterations_to_target,
            },
        })
    }
}

/// Returns the time of an iteration over an ideal network: computation, then a ring of n workers that each send
/// 2(n−1)/n of the model (§6.1 "Ideal setup").
fn ideal(dense: &Dense, rate_bps: u64) -> Time {
    let n = u128::from(dense.workers_per_job().max(1));
    let bits = u128::from(dense.elements_total()) * 32 * 2 * (n - 1);
    let sending = bits * SECOND as u128 / (n * u128::from(rate_bps.max(1)));
    dense.compute() + sending.min(HORIZON as u128) as Time
}

/// Returns the dense workload that synchronous workers need.
pub fn dense_of(source: &dyn Source, who: &str) -> Result<Arc<Dense>> {
    let dense = source.known().dense().ok_or_else(|| {
        Error::config(format!(
            "endpoint.workers = \"{who}\" sends the blocks of a model in iterations: it needs workload.kind = \"dense\", once and unedited \
             (no trace, repeat, moves, stop, speed or background traffic)"
        ))
    })?;
    refuse_traffic_beside(source, who)?;
    Ok(dense)
}
