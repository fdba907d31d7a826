//! Load classification and conditional throughput of RFC 9971 (Multiple Loss Ratio Search): conclusions from several
//! trials at one load with different losses. Definitions only; the choice of loads is up to the search.

use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The requirement on a load (RFC 9971, "Search Goal").
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchGoal {
    /// Goal Loss Ratio: a trial that loses more is a high-loss one.
    pub loss: f64,
    /// Goal Exceed Ratio: share of the time that high-loss trials may take.
    pub exceed: f64,
    /// Goal Final Trial Duration: shorter trials are short ones.
    pub trial_ps: Time,
    /// Goal Duration Sum: time of full-length trials that decides.
    pub sum_ps: Time,
}

/// Length and loss of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialLoss {
    /// Its Trial Duration, which is also its Trial Effective Duration.
    pub duration_ps: Time,
    /// Trial Loss Ratio.
    pub loss: f64,
}

/// The classification of a load by its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClass {
    /// It meets the goal, regardless of further trials.
    Lower,
    /// It misses the goal, regardless of further trials.
    Upper,
    /// Further trials decide.
    Undecided,
}

/// Times are integers of picoseconds, shares of them are not: a difference below this is rounding.
const ROUNDING: f64 = 0.5;

/// Total time of trials, by length and loss.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    full_low: Time,
    full_high: Time,
    short_low: Time,
    short_high: Time,
}

impl SearchGoal {
    /// Refuses invalid goals.
    pub(super) fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.loss) {
            return Err(Error::config(format!("--loss {}: from 0 to below 1 are possible with --exceed", self.loss)));
        }
        if !(0.0..1.0).contains(&self.exceed) {
            return Err(Error::config(format!("--exceed {}: from 0 to below 1 are possible", self.exceed)));
        }
        if self.sum_ps < self.trial_ps {
            return Err(Error::config(format!(
                "--sum {}s: it is at least a trial, {}s",
                self.sum_ps as f64 / SECOND as f64,
                self.trial_ps as f64 / SECOND as f64
            )));
        }
        Ok(())
    }

    fn sums(&self, trials: &[TrialLoss]) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            *match (trial.duration_ps >= self.trial_ps, trial.loss > self.loss) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            } += trial.duration_ps;
        }
        sums
    }

    /// Classifies a load by its trials (RFC 9971, "Load Classification Code"). Short high-loss trials count as far as
    /// short low-loss ones do not balance them; the missing part of the sum is taken both as low and as high loss.
    pub(super) fn classify(&self, trials: &[TrialLoss]) -> LoadClass {
        let Sums { full_low, full_high, short_low, short_high } = self.sums(trials);
        let balancing = short_low as f64 * (self.exceed / (1.0 - self.exceed));
        let high = full_high as f64 + (short_high as f64 - balancing).max(0.0);
        let whole = (full_low as f64 + high).max(self.sum_ps as f64);
        let allowed = whole * self.exceed;
        match (high <= allowed + ROUNDING, whole - full_low as f64 <= allowed + ROUNDING) {
            (true, true) => LoadClass::Lower,
            (false, false) => LoadClass::Upper,
            _ => LoadClass::Undecided,
        }
    }

    /// Returns the conditional throughput of a load of `pps` (RFC 9971, "Conditional Throughput Code"): based on the loss ratio that
    /// full-length trials exceed for at most the allowed share of the time; the missing part of the sum counts as full loss. It is called
    /// throughput at the relevant lower bound only. `None` without a full-length trial.
    pub(super) fn throughput(&self, pps: f64, trials: &[TrialLoss]) -> Option<f64> {
        let mut full: Vec<_> = trials.iter().filter(|trial| trial.duration_ps >= self.trial_ps).collect();
        full.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let sum: Time = full.iter().map(|trial| trial.duration_ps).sum();
        let mut remaining = sum.max(self.sum_ps) as f64 * (1.0 - self.exceed);
        let mut quantile = full.first()?.loss;
        for trial in full {
            if remaining <= ROUNDING {
                break;
            }
            quantile = trial.loss;
            remaining -= trial.duration_ps as f64;
        }
        let loss = if remaining > ROUNDING { 1.0 } else { quantile };
        Some(pps * (1.0 - loss))
    }
}

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
