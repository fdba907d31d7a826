//! The entries of the `sweep.json` of a shard beyond those of a whole sweep.
//!
//! A shard's folder holds a second file, [`PLANNED`]: the `sweep.json` of the whole sweep, byte by byte. Joining all
//! shards puts it in place, so that it is never generated in a second way.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hex;
use crate::shard::Shard;

/// The file beside the `sweep.json` of a shard that holds the `sweep.json` of the whole sweep.
pub const PLANNED: &str = "planned.json";

/// The planned sweep to which the runs of a folder belong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepShard {
    /// The shard, as `3/16`; none if several were joined and the sweep is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Number of shards of the sweep.
    pub of: u64,
    /// Runs of the whole sweep.
    pub planned: usize,
    /// [`plan_hash`] of the whole sweep.
    pub plan_hash: String,
    /// Tool version and commit that made the runs.
    pub tool: String,
}

impl SweepShard {
    /// Returns the shard of run number `index`, from 0, of the whole sweep.
    pub fn taking(&self, index: usize) -> Result<Shard, String> {
        Shard::taking(index as u64, self.of)
    }

    /// Returns a sentence for readers of the numbers; `runs` are in the folder.
    pub fn sentence(&self, runs: usize) -> String {
        let planned = self.planned;
        match &self.shard {
            Some(shard) => format!(
                "PART: shard {shard} of a sweep, {runs} of its {planned} runs; pktgen merge joins the shards to the whole."
            ),
            None => format!(
                "INCOMPLETE: {runs} of the {planned} planned runs of the sweep, {} are missing; intervals of points that \
                 lack seeds are wider than planned.",
                planned.saturating_sub(runs)
            ),
        }
    }
}

/// Hashes what two shards must have in common: the text of the whole `sweep.json` (axes, runs, seeds, report, published values) and the
/// resolved configuration of every point. Each part is hashed with its length, so that boundaries cannot shift.
pub fn plan_hash<'a>(planned: &'a str, points: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in std::iter::once(planned).chain(points) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_wherever_plans_do() {
        let hash = |planned: &str, points: &[&str]| plan_hash(planned, points.iter().copied());
        let plans: [(&str, &[&str]); 6] =
            [("a", &["b", "c"]), ("a", &["c", "b"]), ("a", &["bc"]), ("a", &["", "bc"]), ("ab", &["c"]), ("", &[])];
        let hashes: std::collections::BTreeSet<_> =
            plans.iter().map(|(planned, points)| hash(planned, points)).collect();
        assert_eq!(hashes.len(), plans.len());
        assert_eq!(hash("a", &["b", "c"]), hash("a", &["b", "c"]));
        assert_eq!(hash("", &[]).len(), 64);
    }

    #[test]
    fn a_part_says_so() {
        let part = |shard: Option<&str>| SweepShard {
            shard: shard.map(str::to_owned),
            of: 16,
            planned: 1000,
            plan_hash: String::new(),
            tool: String::new(),
        };
        assert!(part(Some("3/16")).sentence(63).starts_with("PART: shard 3/16 of a sweep, 63 of its 1000 runs"));
        assert!(part(None).sentence(937).starts_with("INCOMPLETE: 937 of the 1000 planned runs of the sweep, 63 are"));
        assert_eq!(part(None).taking(17).unwrap().to_string(), "2/16");
    }
}
