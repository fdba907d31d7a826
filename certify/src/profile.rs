//! Profiles: which parts of a suite are carried out, and how long the trials are.

use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_engine::clause::{Clause, LoadMeasure};
use pktgen_realtime::run::SearchGoal;

use crate::measure::{AGED, SHARES};
use crate::settings::CertifySettings;

/// Maximum number of loads of a search, for estimates: doubling and halving.
const LOADS: Time = 30;
/// Bursts of one search, for estimates.
const BURSTS: Time = 14;

/// The parts of a suite to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertifyProfile {
    /// All clauses of correctness.
    #[default]
    Correctness,
    /// Clauses of correctness, at most twice each, and the throughput.
    Quick,
    /// All clauses, with the durations of the RFCs.
    Full,
}

impl CertifyProfile {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        ["correctness", "quick", "full"][self as usize]
    }

    /// Returns whether a certificate of all its clauses can state that a device conforms.
    pub(crate) fn is_conformance(self) -> bool {
        self != CertifyProfile::Quick
    }

    /// Returns whether it includes this clause.
    pub(crate) fn has(self, clause: &Clause) -> bool {
        match (self, clause.measure) {
            (_, None) | (CertifyProfile::Full, _) => true,
            (CertifyProfile::Quick, Some(measure)) => measure == LoadMeasure::Throughput,
            (CertifyProfile::Correctness, Some(_)) => false,
        }
    }

    /// Returns the default number of repeats of a clause.
    pub(crate) fn repeats(self, clause: &Clause) -> u32 {
        if self == CertifyProfile::Quick { clause.repeats.min(2) } else { clause.repeats }
    }
}

/// How performance is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasurePlan {
    /// The goal for a rate.
    pub goal: SearchGoal,
    /// Maximum distance between the bounds of the throughput, as a share of the lower one.
    pub precision: f64,
    /// The first rate to try, per second.
    pub from_pps: f64,
    /// Whether trials that are too short for the throughput are lengthened.
    pub may_lengthen: bool,
    /// How long after a trial missing frames are awaited.
    pub wait: Time,
    /// Goal for the throughput, per second.
    pub throughput: Option<f64>,
    /// Goal for the 99th percentile of the latency at half the throughput.
    pub latency: Option<Time>,
    /// Goal for the shortest burst.
    pub burst: Option<u64>,
    /// Goal for the longest recovery.
    pub recovery: Option<Time>,
}

impl MeasurePlan {
    /// Returns the plan of a profile and settings.
    pub fn new(profile: CertifyProfile, settings: &CertifySettings, on_wires: bool) -> Self {
        let is_full = profile == CertifyProfile::Full;
        let trial = match (is_full, on_wires) {
            (true, true) => 60 * SECOND,
            (true, false) => 100 * MS,
            (false, true) => SECOND,
            (false, false) => 10 * MS,
        };
        let trial = settings.trial.map_or(trial, Span::ps);
        let exceed = settings.exceed.unwrap_or(if is_full { 0.5 } else { 0.0 });
        // ETSI TST009: two trials, of which one may lose more; else RFC 2544's one.
        let sum = settings.sum.map_or(if exceed > 0.0 { 2 * trial } else { trial }, Span::ps);
        MeasurePlan {
            goal: SearchGoal { loss: settings.loss, exceed, trial_ps: trial, sum_ps: sum },
            precision: settings.precision.unwrap_or(if is_full { 0.01 } else { 0.05 }),
            from_pps: settings.from,
            may_lengthen: settings.trial.is_none() && !on_wires,
            wait: if is_full { 2 * SECOND } else { 200 * MS },
            throughput: settings.throughput,
            latency: settings.latency.map(Span::ps),
            burst: settings.burst,
            recovery: settings.recovery.map(Span::ps),
        }
    }

    /// Returns the same plan with trials `times` times as long.
    pub(crate) fn longer(&self, times: Time) -> Self {
        let SearchGoal { trial_ps, sum_ps, .. } = self.goal;
        MeasurePlan { goal: SearchGoal { trial_ps: trial_ps * times, sum_ps: sum_ps * times, ..self.goal }, ..*self }
    }

    /// How long a performance clause takes at most, in the device's time; 0 of a clause of correctness.
    pub(crate) fn estimate(&self, clause: &Clause, repeats: u32) -> Time {
        let (trial, wait, repeats) = (self.goal.trial_ps, self.wait, Time::from(repeats));
        match clause.measure {
            None => 0,
            Some(LoadMeasure::Throughput) => LOADS * (self.goal.sum_ps + self.goal.sum_ps / trial.max(1) * wait),
            Some(LoadMeasure::Burst) => repeats * BURSTS * wait,
            Some(LoadMeasure::Latency) => SHARES.len() as Time * repeats * (trial + wait),
            Some(LoadMeasure::Overload) => repeats * (2 * trial + wait),
            Some(LoadMeasure::Repeats) => repeats * wait,
            Some(LoadMeasure::Isolation) => 2 * (trial + wait),
            Some(LoadMeasure::Sharing) => trial + wait,
            Some(LoadMeasure::Age) => AGED.len() as Time * repeats * (trial + wait),
        }
    }
}
