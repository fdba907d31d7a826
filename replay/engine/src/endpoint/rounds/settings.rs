//! What workers of synchronous training are told by `[endpoint]`, whatever protocol they speak.

use std::sync::Arc;

use pktgen_core::config::Section;
use pktgen_core::record::Training;
use pktgen_core::time::{HORIZON, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload::Source;

use crate::endpoint::Facts;

/// What a worker does about iterations that went on without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// It computes every iteration, and is late for ever after, unless the others wait for it.
    Compute,
    /// An iteration of which it has all results when it would begin is passed over.
    Skip,
    /// The same, and the first of which it has not all is the one that the others are in: it is ready when they are, with what it has.
    Join,
    /// As [`Skip`](Self::Skip); it also stops computing when the last result of the iteration arrives.
    Abandon,
}

/// Which blocks may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A window of blocks may be without results, whichever they are (Trio §4).
    Outstanding,
    /// A block waits for the result of the one a window before it, whose slot of the device it takes.
    Slots,
    /// No block leaves a window or more after the oldest without a result.
    Sliding,
}

impl Order {
    /// Returns whether results are of all workers of a job, so that none comes before a contribution.
    pub(super) fn needs_all(self) -> bool {
        self != Order::Outstanding
    }
}

/// How a window follows the marks of results: once a window it halves, or grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowControl {
    /// By so many packets it grows.
    pub step: u32,
}

/// The rules of all workers of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Blocks that may be outstanding.
    pub window: u32,
    /// Which blocks may leave.
    pub order: Order,
    /// Does the window change? `window` is then its largest.
    pub control: Option<WindowControl>,
    /// Are blocks sent again at once, each once, when results of later ones come before theirs?
    pub gaps: bool,
    /// About iterations that went on without a worker.
    pub missed: Missed,
    /// What delays are multiples of.
    pub typical: Time,
    /// Are they multiples of what a worker measured, once it has?
    pub measured: bool,
    /// After how long without a result a block is sent again; none if never.
    pub retransmit: Option<Time>,
    /// For the manifest.
    pub training: Training,
}

impl Settings {
    /// Reads `missed`, `typical` and `iterations_to_target` from `[endpoint]`.
    pub fn read(section: &mut Section, facts: &Facts, dense: &Dense, window: u32, order: Order) -> Result<Self> {
        let missed: String = section.get("missed", "skip")?;
        let missed = match missed.as_str() {
            "compute" => Missed::Compute,
            "skip" => Missed::Skip,
            "join" => Missed::Join,
            "abandon" => Missed::Abandon,
            other => {
                return Err(Error::config(format!(
                    "{}: \"{other}\" is not known; there are: skip (an iteration whose results are all there is passed over), \
                     join (the same, and what it has goes into the one that the others are in), compute (every iteration is computed), abandon (computing ends when all results are there)",
                    section.place("missed")
                )));
            }
        };
        let measured = section.choose("typical", "formula", &[("formula", false), ("measured", true)])?;
        if measured && dense.typical().is_some() {
            let place = section.place("typical");
            return Err(Error::config(format!(
                "{place}: workers measure what workload.typical gives; give one of them"
            )));
        }
        let iterations_to_target = section.get_opt("iterations_to_target")?;
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

/// An iteration over an ideal network: computation, then a ring of n workers that each send 2(n−1)/n of the model
/// (§6.1 "Ideal setup").
fn ideal(dense: &Dense, rate_bps: u64) -> Time {
    let n = u128::from(dense.workers_per_job().max(1));
    let bits = u128::from(dense.elements_total()) * 32 * 2 * (n - 1);
    let sending = bits * SECOND as u128 / (n * u128::from(rate_bps.max(1)));
    dense.compute() + sending.min(HORIZON as u128) as Time
}

/// The dense workload that synchronous workers need.
pub fn dense_of(source: &dyn Source, who: &str) -> Result<Arc<Dense>> {
    source.known().dense().ok_or_else(|| {
        Error::config(format!(
            "endpoint.workers = \"{who}\" sends the blocks of a model in iterations: it needs workload.kind = \"dense\", once and unedited \
             (no trace, repeat, moves, stop, speed or background traffic)"
        ))
    })
}

/// Reads an optional span above 0.
pub fn read_span(section: &mut Section, key: &str) -> Result<Option<Time>> {
    match section.get_opt::<Span>(key)? {
        Some(span) if span.ps() <= 0 => Err(Error::config(format!("{}: {span} is not above 0", section.place(key)))),
        span => Ok(span.map(Span::ps)),
    }
}
