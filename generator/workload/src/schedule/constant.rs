//! Periodic workers: each has its period, with jitter if asked for, from a random phase of it or all from 0 on.

use super::merge::Merged;
use super::speed::Written;
use super::{Pace, Schedule, Speed, Timeline};
use crate::Result;
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::seed::{Seed, unit};

/// `kind = "constant"`.
pub struct Constant;

impl Named for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }
    fn about(&self) -> &'static str {
        "periodic workers with jitter: each gap varies by up to ± jitter of the period"
    }
}

settings! {
    /// What it reads from `[schedule]`, beside its speed.
    struct Settings {
        /// Maximum relative jitter of a gap, as a share of the period.
        jitter: f64 = 0.0 in 0.0..=1.0;
        /// Initial phase of workers within their period.
        phase: Option<bool> said "\"random\"" of [("random", true, "anywhere"), ("zero", false, "all together")];
    }
}

impl Schedule for Constant {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS, Written::KEYS]
    }

    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
        let Settings { jitter, phase } = Settings::read(section)?;
        let random = phase.unwrap_or(true);
        let speed = Speed::read(section)?;
        let gap = |stream: &mut _, jitter: f64| 1.0 + jitter * (2.0 * unit(stream) - 1.0);
        Ok(Box::new(Merged::new(section, pace, speed, (gap, jitter), random, seed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MS;

    fn collect(jitter: f64, speed: (&str, &str), updates: u32) -> Vec<(i64, u32)> {
        let mut section = Section::of("schedule", &[("jitter", jitter.into()), (speed.0, speed.1.into())]);
        let pace = Pace { period: vec![1.0, 2.0, 0.5], updates, update_bits: 2048 };
        let mut timeline = Constant.open(&mut section, &pace, Seed(7)).unwrap();
        std::iter::from_fn(|| timeline.next()).collect()
    }

    #[test]
    fn periods_are_kept_and_times_are_in_order() {
        let times = collect(0.0, ("period", "100ms"), 50);
        assert_eq!(times.len(), 150);
        assert!(times.is_sorted());
        for (worker, period) in [(0, 100 * MS), (1, 200 * MS), (2, 50 * MS)] {
            let own: Vec<_> = times.iter().filter(|x| x.1 == worker).map(|x| x.0).collect();
            assert!(own.windows(2).all(|w| (w[1] - w[0] - period).abs() <= 1), "worker {worker}");
            assert!(own[0] < period);
        }
    }

    #[test]
    fn workers_may_all_begin_at_0() {
        let mut section = Section::of("schedule", &[("period", "243.84ns".into()), ("phase", "zero".into())]);
        let pace = Pace { period: vec![1.0; 3], updates: 20_000, update_bits: 2048 };
        let mut timeline = Constant.open(&mut section, &pace, Seed(7)).unwrap();
        for i in 0..60_000u32 {
            assert_eq!(timeline.next(), Some((i64::from(i / 3) * 243_840, i % 3)));
        }
        assert_eq!(timeline.next(), None);
        let mut section = Section::of("schedule", &[("period", "1us".into()), ("phase", "zeor".into())]);
        let message = Constant.open(&mut section, &pace, Seed(7)).err().unwrap().to_string();
        assert!(message.contains("did you mean \"zero\""), "{message}");
    }

    #[test]
    fn the_run_has_the_offered_rate_on_the_mean() {
        let times = collect(0.3, ("offered", "60Gbps"), 500);
        let seconds = (times.last().unwrap().0 - times[0].0) as f64 / 1e12;
        let rate = 1500.0 * 2048.0 / seconds;
        assert!((rate / 60e9 - 1.0).abs() < 1e-3, "{rate}");
    }
}
