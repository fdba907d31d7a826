//! Workers with independent exponential gaps.

use super::merge::Merged;
use super::speed::Written;
use super::{Pace, Schedule, Speed, Timeline};
use crate::Result;
use crate::config::{KeyTables, Section};
use crate::registry::Named;
use crate::seed::{Seed, unit};

/// `kind = "poisson"`.
pub(crate) struct Poisson;

impl Named for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }
    fn about(&self) -> &'static str {
        "workers with independent exponential gaps"
    }
}

impl Schedule for Poisson {
    fn keys(&self) -> KeyTables {
        &[Written::KEYS]
    }

    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
        let speed = Speed::read(section)?;
        let gap = |stream: &mut _, _: f64| -(1.0 - unit(stream)).ln();
        Ok(Box::new(Merged::new(section, pace, speed, (gap, 0.0), true, seed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut section = Section::of("schedule", &[("period", "1us".into())]);
        let pace = Pace { period: vec![1.0], updates: 20_000, update_bits: 8 };
        let mut timeline = Poisson.open(&mut section, &pace, Seed(1)).unwrap();
        let times: Vec<_> = std::iter::from_fn(|| timeline.next()).map(|x| x.0 as f64 / 1e6).collect();
        let gaps: Vec<_> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.03 && (variance - 1.0).abs() < 0.08, "{mean} {variance}");
    }
}
