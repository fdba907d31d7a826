//! Performance trials: frames that workers send by a paced schedule, and an account of the results that arrive in time.

use pktgen_core::quantile::nearest_rank;
use pktgen_core::time::{SECOND, Time};

use super::{ProbeGround, ProbeMemory};

/// The quantity that a performance clause measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMeasure {
    /// The highest rate without too much loss (RFC 9971).
    Throughput,
    /// The longest burst without loss (RFC 9004).
    Burst,
    /// The time from the last frame in on which a frame out depends to that frame, at shares of the throughput.
    Latency,
    /// The duration of losses after an overload (RFC 2544, 26.5).
    Overload,
    /// The time until all workers have a window of results that were lost.
    Repeats,
    /// The effect of another job at its limit.
    Isolation,
    /// The fates of updates of clusters with several sending workers.
    Sharing,
    /// The age of the receiver's model at rates below and above the throughput.
    Age,
}

/// Frames at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPhase {
    /// Number of due frames.
    pub count: u64,
    /// Time between two frames, in picoseconds.
    pub gap_ps: f64,
    /// Its duration.
    pub length: Time,
}

impl LoadPhase {
    /// A phase of `pps` packets per second during `length`.
    pub fn rate(pps: f64, length: Time) -> Self {
        let gap_ps = SECOND as f64 / pps;
        LoadPhase { count: (length as f64 / gap_ps) as u64, gap_ps, length }
    }

    /// A phase of `count` frames at once.
    pub fn burst(count: u64) -> Self {
        LoadPhase { count, gap_ps: 0.0, length: 1 }
    }
}

/// The load offered in a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedLoad {
    /// Successive phases.
    pub phases: Vec<LoadPhase>,
    /// The sending job, counted from 0.
    pub job: usize,
    /// Whether several workers of a cluster send.
    pub shares: bool,
    /// Number of the draw: trials with different numbers have different contents.
    pub draw: u64,
}

impl OfferedLoad {
    /// A load of one phase, by the first job or by one worker per cluster.
    pub fn of(phase: LoadPhase, draw: u64) -> Self {
        OfferedLoad { phases: vec![phase], job: 0, shares: false, draw }
    }

    /// Returns its duration.
    pub fn length(&self) -> Time {
        self.phases.iter().map(|phase| phase.length).sum()
    }

    /// Returns the number of due frames.
    pub fn count(&self) -> u64 {
        self.phases.iter().map(|phase| phase.count).sum()
    }

    /// Returns when the n-th frame is due; `None` after the last.
    pub fn due(&self, n: u64) -> Option<Time> {
        let (mut from, mut n) = (0, n);
        for phase in &self.phases {
            if n < phase.count {
                return Some(from + (n as f64 * phase.gap_ps) as Time);
            }
            (from, n) = (from + phase.length, n - phase.count);
        }
        None
    }
}

/// A sample of times, thinned out if there are many.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySample {
    kept: Vec<Time>,
    every: u64,
    seen: u64,
    range: Option<(Time, Time)>,
}

/// Maximum number of times kept.
const KEPT: usize = 1 << 18;

impl Default for LatencySample {
    fn default() -> Self {
        LatencySample { kept: Vec::with_capacity(KEPT), every: 1, seen: 0, range: None }
    }
}

impl LatencySample {
    /// Adds a time.
    pub fn add(&mut self, time: Time) {
        let (low, high) = self.range.unwrap_or((time, time));
        self.range = Some((low.min(time), high.max(time)));
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == KEPT {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(time);
            }
        }
        self.seen += 1;
    }

    /// Returns the smallest and the largest of all times; `None` without any.
    pub fn range(&self) -> Option<(Time, Time)> {
        self.range
    }

    /// Returns the quantile `share` (nearest rank) of the times that are kept.
    pub fn quantile(&mut self, share: f64) -> Option<Time> {
        let at = nearest_rank(share, self.kept.len()) - 1;
        (!self.kept.is_empty()).then(|| *self.kept.select_nth_unstable(at).1)
    }
}

/// The outcome of a trial. Frames of no other kind were lost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadAccount {
    /// Frames that were due.
    pub offered: u64,
    /// Due frames contained in correct results that all receivers had in time; for updates: those that left unmerged and unchanged.
    pub forwarded: u64,
    /// Due frames that their workers could not send because they waited for results.
    pub unsent: u64,
    /// Due frames in departed frames with wrong content.
    pub wrong: u64,
    /// Updates that left in a frame with others.
    pub merged: u64,
    /// Updates that were replaced by a newer one of their worker.
    pub replaced: u64,
    /// Updates that did not leave; it is not visible whether they were replaced or lost.
    pub untold: u64,
    /// Due time of the last frame that did not come through.
    pub last_lost: Option<Time>,
    /// Arrival of the last frame that came back.
    pub last_back: Option<Time>,
    /// Times from the last frame in on which a frame out depends to the arrival of the latter.
    pub latency: LatencySample,
    /// Age-of-Model of each cluster over the schedule, in picoseconds; empty if the system has no ages.
    pub ages: Vec<f64>,
}

impl LoadAccount {
    /// Returns the number of lost frames: those of no other kind.
    pub fn lost(&self) -> u64 {
        self.offered - self.forwarded - self.unsent - self.wrong - self.merged - self.replaced - self.untold
    }

    /// Returns the share that was not forwarded.
    pub fn loss(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { 1.0 - self.forwarded as f64 / self.offered as f64 }
    }
}

/// The workers of a trial. Times are relative to its beginning.
pub trait LoadWorkers {
    /// Returns the time from which the next frame may leave; `None` if nothing may leave before a frame comes back.
    fn next(&mut self) -> Option<Time>;

    /// Sends that frame, which arrives at the device now; returns port and bytes.
    fn send(&mut self, t: Time) -> (u16, &[u8]);

    /// Processes a frame that left the device.
    fn take(&mut self, t: Time, port: u16, bytes: &[u8]);

    /// Returns whether everything that can come back has arrived.
    fn is_complete(&self) -> bool;

    /// Returns the account so far.
    fn account(&mut self) -> LoadAccount;

    /// Returns frames that request missing results, so that nothing stays under way in the device: port and bytes of
    /// each; empty if complete.
    fn asks(&mut self) -> Vec<(u16, Vec<u8>)>;

    /// Stores the state in which the device was left.
    fn leave(&mut self, memory: &mut ProbeMemory);

    /// Returns the lateness of a bench from which on its late frames may be lost in a device that keeps to the schedule.
    fn apart(&self) -> Time {
        Time::MAX
    }
}

/// Makes the workers of a trial; the error states why there are none.
type MakeWorkers = fn(&ProbeGround, &ProbeMemory, OfferedLoad) -> Result<Box<dyn LoadWorkers>, String>;

/// The load of devices of a system.
#[derive(Debug)]
pub struct LoadModel {
    /// Description of the unit of load.
    pub unit: &'static str,
    /// Returns the maximum number of frames that its workers can send in a burst, and the limiting reason.
    pub longest: fn(&ProbeGround, &ProbeMemory) -> (u64, &'static str),
    /// Returns the number of frames that belong together: bursts are multiples of it.
    pub step: fn(&ProbeGround) -> u64,
    /// Makes the workers of a trial.
    pub open: MakeWorkers,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::time::MS;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_sorted_times(times in prop::collection::vec(0i64..1000, 1..200), share in 0.0f64..=1.0) {
            let mut own = LatencySample::default();
            times.iter().for_each(|time| own.add(*time));
            let mut sorted = times.clone();
            sorted.sort_unstable();
            prop_assert_eq!(own.quantile(share), Some(sorted[nearest_rank(share, sorted.len()) - 1]));
            prop_assert_eq!(own.range(), Some((sorted[0], sorted[sorted.len() - 1])));
        }
    }

    #[test]
    fn of_many_times_an_even_share_is_kept() {
        let mut own = LatencySample::default();
        let count = 5 * KEPT as i64;
        (0..count).for_each(|time| own.add(time));
        assert_eq!(
            (own.kept[1], own.kept[2], own.range()),
            (own.every as Time, 2 * own.every as Time, Some((0, count - 1)))
        );
        let middle = own.quantile(0.5).unwrap();
        assert!((middle - count / 2).abs() <= own.every as Time, "{middle}");
        assert_eq!(LatencySample::default().quantile(0.5), None);
    }

    #[test]
    fn phases_follow_each_other() {
        let phases = vec![LoadPhase::rate(2000.0, 2 * MS), LoadPhase::rate(1000.0, 2 * MS)];
        let load = OfferedLoad { phases, ..OfferedLoad::of(LoadPhase::burst(0), 0) };
        let due: Vec<_> = (0..7).map_while(|n| load.due(n)).collect();
        assert_eq!(due, [0, MS / 2, MS, 3 * MS / 2, 2 * MS, 3 * MS]);
        assert_eq!((load.count(), load.length()), (6, 4 * MS));
        assert_eq!((0..3).map(|n| LoadPhase::burst(3).count > n).filter(|is| *is).count(), 3);
    }
}
