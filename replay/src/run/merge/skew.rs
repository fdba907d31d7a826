//! How far apart the senders of a run began.

use pktgen_generator::Result;

use super::parts::{PARTS, Part};
use crate::driver::real_time::FIRST_LATE;

/// The largest difference between the first frames of two senders, each by when it was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skew {
    /// In ns.
    pub ns: u64,
    /// The earlier and the later.
    pub between: [String; 2],
    /// How far it may be wrong, in ns; 0 by one clock, none if nobody knows.
    pub uncertainty_ns: Option<u64>,
}

/// The fact of a part that says how far its wall clock may be wrong, in ns.
const CLOCK_ERROR: &str = "clock.error_ns";

impl Skew {
    /// Of the parts that are senders, if two of them sent something by their deadlines.
    pub(super) fn of(parts: &[Part], one_host: bool) -> Result<Option<Self>> {
        let mut senders = Vec::new();
        for part in parts.iter().filter(|part| part.name() == PARTS[0] && part.began()) {
            if let Ok(late_ns) = part.fact(FIRST_LATE).parse::<i64>() {
                senders.push((part.anchor_ns(one_host)? + late_ns, part));
            }
        }
        let first = senders.iter().min_by_key(|(t, _)| *t);
        let last = senders.iter().max_by_key(|(t, _)| *t);
        let (Some((from, first)), Some((to, last))) = (first, last) else { return Ok(None) };
        let error = |part: &Part| part.fact(CLOCK_ERROR).parse::<u64>().ok();
        let uncertainty_ns = if one_host { Some(0) } else { error(first).zip(error(last)).map(|(a, b)| a + b) };
        let between = [first.label(), last.label()];
        Ok((senders.len() > 1).then_some(Skew { ns: (to - from) as u64, between, uncertainty_ns }))
    }

    /// For the manifest.
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
            Some(0) => write!(f, "by one clock")?,
            Some(ns) => write!(f, "give or take {:.1} us", us(ns))?,
            None => write!(f, "as far as their wall clocks agree, and how far that is nobody knows")?,
        }
        write!(f, ": {} and {}", self.between[0], self.between[1])
    }
}
