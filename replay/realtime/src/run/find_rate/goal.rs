//! Load classification and conditional throughput of RFC 9971 (Multiple Loss Ratio Search): what several trials at one load say
//! about it, where each loses another share. Definitions only; which loads are tried is up to the search.

use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a load must keep to (RFC 9971, "Search Goal").
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

/// What a trial lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialLoss {
    /// How long it was: its Trial Duration, and its Trial Effective Duration as well.
    pub duration_ps: Time,
    /// Trial Loss Ratio.
    pub loss: f64,
}

/// What trials say about their load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClass {
    /// It keeps to the goal, whatever further trials might say.
    Lower,
    /// It does not, whatever they might say.
    Upper,
    /// Further trials decide.
    Undecided,
}

/// Times are whole numbers of picoseconds, shares of them are not: half of one is no time.
const ROUNDING: f64 = 0.5;

/// Time of trials, by length and loss.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    full_low: Time,
    full_high: Time,
    short_low: Time,
    short_high: Time,
}

impl SearchGoal {
    /// Refuses what is no goal.
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

    /// What trials at one load say about it (RFC 9971, "Load Classification Code"). Short high-loss trials count as far as
    /// short low-loss ones do not balance them; what is missing of the sum counts as low loss, and as high loss.
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

    /// What gets through of a load of `pps` (RFC 9971, "Conditional Throughput Code"): the loss ratio that full-length trials
    /// exceed for no more than the allowed share of the time, what is missing of the sum being taken for full loss. It is
    /// called the throughput at the relevant lower bound only. None without a full-length trial.
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
