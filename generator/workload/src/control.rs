//! OLAF's transmission control: whether a worker may send its update now (§5, "Worker-side Protocol").
//!
//! One definition for the endpoint that acts by it and for the verifier that reasons about it.

use crate::time::{HORIZON, SECOND, Time};

/// The rule's parameters, the same for all workers of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendingRule {
    /// ΔT: feedback older than this is obsolete.
    pub threshold: Time,
    /// v: how much the probability grows per second of age beyond ΔT.
    pub slope: f64,
}

impl SendingRule {
    /// With v = 1/ΔT, "urgency" (§5).
    pub fn urgent(threshold: Time) -> Self {
        SendingRule { threshold, slope: SECOND as f64 / threshold as f64 }
    }

    /// With v = ΔT in seconds, "fair allocation" (§5).
    pub fn fair(threshold: Time) -> Self {
        SendingRule { threshold, slope: threshold as f64 / SECOND as f64 }
    }

    /// P_s with `active` clusters at a queue of `capacity` slots, `age` after the last ACK: 1 without congestion
    /// (capacity ≥ active), else `min(capacity/active + f(age), 1)`. It never falls as `age` grows.
    #[inline]
    pub fn probability(&self, active: u16, capacity: u32, age: Time) -> f64 {
        if capacity >= u32::from(active) {
            return 1.0;
        }
        let beyond = (age - self.threshold).max(0) as f64 / SECOND as f64;
        (f64::from(capacity) / f64::from(active) + self.slope * beyond).min(1.0)
    }

    /// The least age at which [`probability`](Self::probability) is 1, if that is within the range of time.
    pub fn certain_from(&self, active: u16, capacity: u32) -> Option<Time> {
        let certain = |age| self.probability(active, capacity, age) >= 1.0;
        let (mut low, mut high) = (0, HORIZON);
        if !certain(high) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if certain(middle) { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MS;
    use proptest::prelude::*;

    #[test]
    fn follows_the_paper() {
        let rule = SendingRule::urgent(400 * MS);
        for (active, capacity, age, expected) in [
            (8, 8, 0, 1.0),
            (9, 8, 0, 8.0 / 9.0),
            (10, 5, 400 * MS, 0.5),
            (10, 5, 500 * MS, 0.75),
            (10, 5, 600 * MS, 1.0),
            (10, 5, 900 * MS, 1.0),
        ] {
            let p = rule.probability(active, capacity, age);
            assert!((p - expected).abs() < 1e-12, "{active} {capacity} {age}: {p}");
        }
        let fair = SendingRule::fair(400 * MS).probability(10, 5, 900 * MS);
        assert!((fair - 0.7).abs() < 1e-12, "0.5 + 0.4/s · 0.5 s: {fair}");
    }

    proptest! {
        #[test]
        fn certainty_begins_where_it_says(threshold in 1i64..3 * SECOND, active in 0u16..40, capacity in 0u32..40, urgent: bool) {
            let rule = if urgent { SendingRule::urgent(threshold) } else { SendingRule::fair(threshold) };
            match rule.certain_from(active, capacity) {
                None => prop_assert!(rule.probability(active, capacity, HORIZON) < 1.0),
                Some(from) => {
                    prop_assert!(rule.probability(active, capacity, from) >= 1.0);
                    prop_assert!(from == 0 || rule.probability(active, capacity, from - 1) < 1.0);
                }
            }
        }
    }
}
