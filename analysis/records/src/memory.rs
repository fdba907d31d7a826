//! Limits the memory of the analysis of a run: estimated before anything is read.
//!
//! Called by [`crate::run`] and [`crate::resolved`]. The table of packets grows with the run and must fit into memory;
//! the numbers for quantiles also grow but spill to a file.

use std::num::NonZeroU64;
use std::path::Path;

use pktgen_core::record::{LANES, Manifest, RECEIVED, SENT};
use pktgen_core::{Error, Result};

use crate::packets;
use crate::stream::{Streams, rows_of};

/// Memory for decoding and everything that does not grow with a run.
const FIXED: u64 = 256 << 20;
/// Bytes per update of a run to a goal: when it was first represented.
const GOAL: u64 = 48;
/// Bytes per row of the whole columns that are held if packets have lanes.
const WHOLE: u64 = 160;
/// Minimum size of numbers, in bytes, before any spill; small in tests.
const HELD_MIN: u64 = if cfg!(test) { 1 << 10 } else { 16 << 20 };

/// A limit in bytes, half of the machine's memory by default, and the number of concurrent analyses that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryBound {
    all: Option<u64>,
    among: Option<NonZeroU64>,
}

impl MemoryBound {
    /// Half of the machine's memory.
    pub const HALF: MemoryBound = MemoryBound { all: None, among: None };

    /// Creates a limit in bytes.
    pub const fn bytes(bytes: u64) -> MemoryBound {
        MemoryBound { all: Some(bytes), among: None }
    }

    /// Creates a limit in MiB; half of the machine's memory without a number.
    pub fn mib(mib: Option<u32>) -> MemoryBound {
        MemoryBound { all: mib.map(|mib| u64::from(mib) << 20), among: None }
    }

    /// Returns the share of one of `count` concurrent analyses.
    pub fn shared_by(self, count: usize) -> MemoryBound {
        MemoryBound { among: NonZeroU64::new(self.among().saturating_mul(count.max(1) as u64)), ..self }
    }

    fn among(self) -> u64 {
        self.among.map_or(1, NonZeroU64::get)
    }

    /// Returns the limit of one analysis in bytes.
    pub fn bound(self) -> u64 {
        self.of_all() / self.among()
    }

    /// Returns the limit of all analyses that share it in bytes.
    pub fn of_all(self) -> u64 {
        self.all.unwrap_or_else(|| of_machine() / 2)
    }

    /// Refuses a run whose packets do not fit into memory.
    pub(crate) fn check(self, dir: &Path, manifest: &Manifest) -> Result<()> {
        let rows = rows_of(dir, SENT)? as u64;
        let mut needed = FIXED + HELD_MIN + rows * packets::BYTES;
        if manifest.goal.is_some() {
            needed += rows * GOAL;
        }
        if manifest.lanes.is_some() && dir.join(format!("{LANES}.parquet")).exists() {
            needed += (rows + rows_of(dir, RECEIVED)? as u64) * WHOLE;
        }
        let bound = self.bound();
        if rows < SMALL_ROWS || needed <= bound {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        Err(Error::config(format!(
            "{}: the analysis of {rows} transmissions takes {} MiB of memory, more than the {} MiB of --memory; give it --memory {}, \
             or run with capture.records = \"every:N\"",
            dir.display(),
            mib(needed),
            mib(bound),
            mib(needed)
        )))
    }

    /// Returns how many numbers may be held in addition to the packets.
    pub(crate) fn held_max(self, streams: &Streams) -> Result<usize> {
        let Streams::Files(dir) = streams else { return Ok(usize::MAX) };
        let rows = rows_of(dir, SENT)? as u64;
        let left = self.bound().saturating_sub(FIXED + rows * packets::BYTES).max(HELD_MIN);
        // Lists grow by doubling, and the numbers read back take memory, too.
        Ok((left / 16) as usize)
    }
}

/// Runs with fewer transmissions are never refused; few in tests.
const SMALL_ROWS: u64 = if cfg!(test) { 100 } else { 1 << 20 };

/// Returns the memory of this machine in bytes; 8 GiB if unknown.
pub fn of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    total.map_or(8 << 30, |kib: u64| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small_run;
    use crate::{Analysis, Options};

    #[test]
    fn what_does_not_fit_is_refused_with_what_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        small_run(true, 1_000_000).write(dir.path());
        let open = |memory| Analysis::open(dir.path(), Options { memory, ..Options::default() }).map(drop);
        let fault = open(MemoryBound::mib(Some(200))).unwrap_err().to_string();
        assert!(fault.contains("160 transmissions takes 257 MiB") && fault.contains("give it --memory 257"), "{fault}");
        assert!(open(MemoryBound::mib(Some(257))).is_ok());
        let shared = MemoryBound::bytes(12).shared_by(3);
        assert_eq!((shared.bound(), shared.of_all(), shared.shared_by(2).bound()), (4, 12, 2));
    }
}
