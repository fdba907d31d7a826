//! The difference of the starts of a run's senders.

use pktgen_core::Result;
use pktgen_core::time::{NS, Time};

use super::agreement::error_ns;
use super::parts::{PARTS, Part};
use crate::driver::real_time::FIRST_LATE;

/// The largest difference between the first frames of two senders, each relative to its due time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skew {
    /// The difference in ns.
    pub ns: u64,
    /// The earlier and the later sender.
    pub between: [String; 2],
    /// Maximum error in ns; 0 with one clock, none if unknown.
    pub uncertainty_ns: Option<u64>,
    /// Whether both times are of one clock.
    pub one_clock: bool,
}

impl Skew {
    /// Computes it for the parts that are senders, if two of them sent frames with deadlines. The user may have stated
    /// the offset of their hosts' clocks.
    pub(super) fn of(parts: &[Part], one_host: bool, stated: Option<Time>) -> Result<Option<Self>> {
        let mut senders = Vec::new();
        for part in parts.iter().filter(|part| part.name() == PARTS[0] && part.began()) {
            if let Ok(late_ns) = part.fact(FIRST_LATE).parse::<i64>() {
                senders.push((part.anchor_ns(parts)? + late_ns, part));
            }
        }
        let first = senders.iter().min_by_key(|(t, _)| *t);
        let last = senders.iter().max_by_key(|(t, _)| *t);
        let (Some((from, first)), Some((to, last))) = (first, last) else { return Ok(None) };
        let one_clock = one_host || first.fact("clock.boot_id") == last.fact("clock.boot_id");
        let uncertainty_ns = match (one_clock, stated) {
            (true, _) => Some(0),
            (false, Some(stated)) => Some((stated / NS).max(0) as u64),
            (false, None) => error_ns(first).zip(error_ns(last)).map(|(a, b)| a + b),
        };
        let between = [first.label(), last.label()];
        Ok((senders.len() > 1).then_some(Skew { ns: (to - from) as u64, between, uncertainty_ns, one_clock }))
    }

    /// Returns facts for the manifest.
    pub(super) fn facts(&self) -> [(String, String); 3] {
        [
            ("skew.start_ns".into(), self.ns.to_string()),
            ("skew.between".into(), self.between.join(" and ")),
            ("skew.uncertainty_ns".into(), self.uncertainty_ns.map_or("unknown".into(), |ns| ns.to_string())),
        ]
    }
}

impl std::fmt::Display for Skew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        write!(f, "senders began {:.1} us apart, ", us(self.ns))?;
        match self.uncertainty_ns {
            _ if self.one_clock => write!(f, "by one clock")?,
            Some(ns) => write!(f, "give or take {:.1} us", us(ns))?,
            None => write!(f, "by their wall clocks, whose agreement is unknown")?,
        }
        write!(f, ": {} and {}", self.between[0], self.between[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_nothing_is_not_one_clock() {
        let said = |one_clock: bool, uncertainty_ns: Option<u64>| {
            let between = ["rank 0".to_owned(), "rank 1".to_owned()];
            Skew { ns: 4_800, between, uncertainty_ns, one_clock }.to_string()
        };
        assert_eq!(said(true, Some(0)), "senders began 4.8 us apart, by one clock: rank 0 and rank 1");
        assert!(said(false, Some(0)).contains("apart, give or take 0.0 us: "), "{}", said(false, Some(0)));
        assert!(said(false, None).contains("by their wall clocks"), "{}", said(false, None));
    }
}
