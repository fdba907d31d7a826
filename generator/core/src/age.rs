//! The Age-of-Model sawtooth as an exact integer accumulator.
//!
//! Used by live views, and as the oracle of the polars expressions in analysis. The definition is
//! design §4: the age of a cluster or worker (a "flow" here) at time t is `t − max{generation of its updates delivered by t}`; it
//! starts at 0 with the flow's first generation; a delivery older than the freshest changes nothing.

use crate::time::Time;

/// Age of one flow, fed with generations and deliveries in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Sawtooth {
    start: Option<Time>,
    fresh: Time,
    now: Time,
    /// Twice the integral of the age, in ps².
    twice_area: i128,
    /// Sum of the peaks, in ps.
    peak_sum: i128,
    peak_max: Time,
    peaks: u64,
    deliveries: u64,
}

impl Sawtooth {
    /// The flow generated an update at `t`; the first one starts the clock at age 0.
    pub fn generated(&mut self, t: Time) {
        if self.start.is_none() {
            self.start = Some(t);
            self.fresh = t;
            self.now = t;
        }
        self.advance(t);
    }

    /// An update generated at `generation` was delivered at `t`.
    pub fn delivered(&mut self, t: Time, generation: Time) {
        self.advance(t);
        self.deliveries += 1;
        if generation > self.fresh {
            let peak = t - self.fresh;
            self.peak_sum += i128::from(peak);
            self.peak_max = self.peak_max.max(peak);
            self.peaks += 1;
            self.fresh = generation;
        }
    }

    /// Whether anything was generated.
    pub fn started(&self) -> bool {
        self.start.is_some()
    }

    /// Time passes up to `t`.
    pub fn advance(&mut self, t: Time) {
        if t > self.now && self.start.is_some() {
            let (a, b) = (i128::from(self.now - self.fresh), i128::from(t - self.fresh));
            self.twice_area += b * b - a * a;
            self.now = t;
        }
    }

    /// Age at `t`, or at the last time seen if that is later, in ps.
    pub fn age_at(&self, t: Time) -> Time {
        t.max(self.now) - self.fresh
    }

    /// Time average of the age up to the last time seen, in ps; none before any time has passed.
    pub fn mean(&self) -> Option<f64> {
        let window = self.now - self.start?;
        (window > 0).then(|| self.twice_area as f64 / 2.0 / window as f64)
    }

    /// Mean of the peaks (the age just before each delivery that lowers it), in ps; none without one.
    pub fn peak_mean(&self) -> Option<f64> {
        (self.peaks > 0).then(|| self.peak_sum as f64 / self.peaks as f64)
    }

    /// The largest peak, in ps.
    pub fn peak_max(&self) -> Time {
        self.peak_max
    }

    /// Deliveries, those that changed nothing included.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sawtooth_by_hand() {
        // Generated 0, 10, 20; delivered 5 (gen 0), 15 (gen 10), 40 (gen 20), window to 40.
        let mut saw = Sawtooth::default();
        saw.generated(0);
        saw.delivered(5, 0);
        saw.generated(10);
        saw.delivered(15, 10);
        saw.generated(20);
        saw.delivered(40, 20);
        // Age runs 0→15, drops to 5, runs 5→30.
        assert_eq!(saw.mean(), Some((15.0 * 15.0 / 2.0 + (30.0 * 30.0 - 25.0) / 2.0) / 40.0));
        assert_eq!(saw.peak_mean(), Some((15.0 + 30.0) / 2.0));
        assert_eq!((saw.peak_max(), saw.age_at(0), saw.age_at(50)), (30, 20, 30));
    }

    proptest! {
        // Brute force: sample the age at every half picosecond of a short run.
        #[test]
        fn agrees_with_brute_force(mut events in prop::collection::vec((0i64..60, 0i64..60), 1..20)) {
            for (t, generation) in &mut events {
                *generation = (*generation).min(*t);
            }
            events.sort();
            let mut saw = Sawtooth::default();
            saw.generated(0);
            for &(t, generation) in &events {
                saw.delivered(t, generation);
            }
            let end = events.last().unwrap().0;
            let mut area = 0.0;
            for step in 0..end {
                let fresh = events.iter().filter(|(t, _)| *t <= step).map(|(_, g)| *g).max().unwrap_or(0);
                area += (step - fresh) as f64 + 0.5;
            }
            if end > 0 {
                prop_assert!((saw.mean().unwrap() - area / end as f64).abs() < 1e-9);
            }
        }
    }
}
