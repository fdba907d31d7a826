//! Trials of performance: frames that workers send by a paced schedule, and an account of what came back in time.

use pktgen_core::time::{SECOND, Time};

use super::{ProbeGround, ProbeMemory};

/// What a performance clause measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMeasure {
    /// The highest rate without too much loss (RFC 9971).
    Throughput,
    /// The longest burst without loss (RFC 9004).
    Burst,
    /// From the last frame in that a frame out needs to that frame, at shares of the throughput.
    Latency,
    /// How long losses last after an overload (RFC 2544, 26.5).
    Overload,
    /// How long it takes until all have a window of results that were lost.
    Repeats,
    /// What another job at its limit costs.
    Isolation,
    /// What becomes of updates of clusters whose workers share.
    Sharing,
    /// How old the receiver's model is at rates below and above the throughput.
    Age,
}

/// Frames at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPhase {
    /// How many are due.
    pub count: u64,
    /// Time between two, in picoseconds.
    pub gap_ps: f64,
    /// How long it is.
    pub length: Time,
}

impl LoadPhase {
    /// So many packets per second for so long.
    pub fn rate(pps: f64, length: Time) -> Self {
        let gap_ps = SECOND as f64 / pps;
        LoadPhase { count: (length as f64 / gap_ps) as u64, gap_ps, length }
    }

    /// So many at once.
    pub fn burst(count: u64) -> Self {
        LoadPhase { count, gap_ps: 0.0, length: 1 }
    }
}

/// What is offered in a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedLoad {
    /// One phase after the other.
    pub phases: Vec<LoadPhase>,
    /// The job that sends, counted from 0.
    pub job: usize,
    /// Whether several workers of a cluster send.
    pub shares: bool,
    /// Contents differ between trials with different numbers.
    pub draw: u64,
}

impl OfferedLoad {
    /// One phase, of the first job or of one worker per cluster.
    pub fn of(phase: LoadPhase, draw: u64) -> Self {
        OfferedLoad { phases: vec![phase], job: 0, shares: false, draw }
    }

    /// How long it is.
    pub fn length(&self) -> Time {
        self.phases.iter().map(|phase| phase.length).sum()
    }

    /// How many frames are due.
    pub fn count(&self) -> u64 {
        self.phases.iter().map(|phase| phase.count).sum()
    }

    /// When the n-th frame is due; none behind the last.
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

/// Times, of which a share is kept where they are many.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySample {
    kept: Vec<Time>,
    every: u64,
    seen: u64,
    range: Option<(Time, Time)>,
}

/// Times that are kept at most.
const KEPT: usize = 1 << 18;

impl Default for LatencySample {
    fn default() -> Self {
        LatencySample { kept: Vec::with_capacity(KEPT), every: 1, seen: 0, range: None }
    }
}

impl LatencySample {
    /// Adds one.
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

    /// The smallest and the largest of all; none without any.
    pub fn range(&self) -> Option<(Time, Time)> {
        self.range
    }

    /// The time that this share is not above (nearest rank), of those that are kept.
    pub fn quantile(&mut self, share: f64) -> Option<Time> {
        let rank = (share * self.kept.len() as f64).ceil() as usize;
        let at = rank.max(1).min(self.kept.len()).checked_sub(1)?;
        Some(*self.kept.select_nth_unstable(at).1)
    }
}

/// What came of a trial. What is of no other kind was lost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadAccount {
    /// Frames that were due.
    pub offered: u64,
    /// Those of them that are in right results which all receivers had in time; of updates: that left unmerged, as they were.
    pub forwarded: u64,
    /// Those that their workers could not send, since they waited for results.
    pub unsent: u64,
    /// Those in frames that left and were not right.
    pub wrong: u64,
    /// Updates that left in a frame with others.
    pub merged: u64,
    /// Updates that a newer one of their worker replaced.
    pub replaced: u64,
    /// Updates that did not leave, where it does not show whether they were replaced or lost.
    pub untold: u64,
    /// When the last of those that did not come through was due.
    pub last_lost: Option<Time>,
    /// When the last frame came back.
    pub last_back: Option<Time>,
    /// From the last frame that a frame out needs to its arrival.
    pub latency: LatencySample,
    /// Age-of-Model of each cluster over the schedule, in picoseconds; empty where nothing has an age.
    pub ages: Vec<f64>,
}

impl LoadAccount {
    /// Those of no other kind.
    pub fn lost(&self) -> u64 {
        self.offered - self.forwarded - self.unsent - self.wrong - self.merged - self.replaced - self.untold
    }

    /// Share that was not forwarded.
    pub fn loss(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { 1.0 - self.forwarded as f64 / self.offered as f64 }
    }
}

/// The workers of a trial. Times are since its begin.
pub trait LoadWorkers {
    /// Since when the next frame may leave, or when it may; none if nothing may before something comes back.
    fn next(&mut self) -> Option<Time>;

    /// That frame, which arrives at the device now: port and bytes.
    fn send(&mut self, t: Time) -> (u16, &[u8]);

    /// A frame that left the device.
    fn take(&mut self, t: Time, port: u16, bytes: &[u8]);

    /// Whether everything that can come back has.
    fn is_complete(&self) -> bool;

    /// What came of it so far.
    fn account(&mut self) -> LoadAccount;

    /// Frames that ask for what is missing and let nothing be under way in the device: port and bytes of each; none if nothing is.
    fn asks(&mut self) -> Vec<(u16, Vec<u8>)>;

    /// Keeps in which state the device was left.
    fn leave(&mut self, memory: &mut ProbeMemory);
}

/// Makes the workers of a trial, or says why there are none.
type MakeWorkers = fn(&ProbeGround, &ProbeMemory, OfferedLoad) -> Result<Box<dyn LoadWorkers>, String>;

/// How devices of a system are loaded.
#[derive(Debug)]
pub struct LoadModel {
    /// What is offered, in words.
    pub unit: &'static str,
    /// Frames of the longest burst that its workers can send at once, and why no more.
    pub longest: fn(&ProbeGround, &ProbeMemory) -> (u64, &'static str),
    /// The frames that go together: bursts are multiples of it.
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
            let at = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            prop_assert_eq!(own.quantile(share), Some(sorted[at - 1]));
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
