//! Frames that are late by the host: the thread that sends them was kept from its core, while it waited or in a call.
//!
//! The evidence is the thread's own readings of the clock, which it makes anyway. While it waits it does nothing else, every some ten ns; where
//! two readings in a row are far apart, it did not run. A call that submits frames lasts as long as such calls usually do, or the kernel or the
//! hypervisor did something else in it. Sleep, listening and frames that are not ready are never the host's here.

use pktgen_core::time::{NS, Time};

/// Readings this far apart, beyond what was to be done between them, show that the thread did not run.
const GAP: Time = 1000 * NS;

/// What the thread did since the clock was last read.
#[derive(Debug, Default)]
enum Since {
    /// Something that may last.
    #[default]
    Anything,
    /// It only waited.
    Wait(Time),
    /// One call, which submitted so many frames.
    Call(Time, usize),
}

/// What the readings of one thread show.
#[derive(Debug, Default)]
pub(super) struct HostGaps {
    since: Since,
    /// How long a call with one frame usually lasts; 0 if there was none.
    call: Time,
    /// How long the thread did not run, while frames that were due then remain; 0 if none do.
    gap: Time,
}

impl HostGaps {
    /// The clock was read.
    #[inline]
    pub(super) fn read(&mut self, now: Time) {
        match std::mem::take(&mut self.since) {
            Since::Wait(before) if now - before > GAP => self.gap = now - before,
            Since::Call(before, frames) => self.called(now - before, frames),
            _ => {}
        }
    }

    /// A call lasted so long.
    #[inline]
    fn called(&mut self, took: Time, frames: usize) {
        if frames == 1 {
            // Soon down, slowly up: what is rare is not usual.
            self.call += match took - self.call {
                _ if self.call == 0 => took,
                less @ ..0 => less / 8,
                more => more.min(self.call) / 64,
            };
        }
        // Of several each costs less.
        let beyond = took - self.call * frames as Time;
        if self.call > 0 && beyond > GAP {
            self.gap += beyond;
        }
    }

    /// Nothing was due at `now`: there is no backlog. Whether the thread `only_waits` until the next reading.
    #[inline]
    pub(super) fn idle(&mut self, now: Time, only_waits: bool) {
        self.gap = 0;
        self.since = if only_waits { Since::Wait(now) } else { Since::Anything };
    }

    /// Frames were submitted at `now`, and nothing else is done until the next reading.
    #[inline]
    pub(super) fn submitted(&mut self, now: Time, frames: usize) {
        self.since = Since::Call(now, frames);
    }

    /// Something else is done until the next reading, too.
    #[inline]
    pub(super) fn listens(&mut self) {
        self.since = Since::Anything;
    }

    /// Frames are not ready, or the wire takes none: what is late from now on is not late by the host.
    #[inline]
    pub(super) fn forget(&mut self) {
        (self.since, self.gap) = (Since::Anything, 0);
    }

    /// Whether a gap explains that a frame leaves late by this: a backlog that grows beyond the gap is of frames that leave too slowly.
    #[inline]
    pub(super) fn explains(&self, late: Time) -> bool {
        self.gap > 0 && late <= self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends frames that are due every `step` ns, each in a call of `call` ns, by a thread that reads every 50 ns and is kept from its core
    /// during `gaps` (from, to). Returns per frame how late it left and whether by the host.
    fn sent(frames: i64, step: i64, call: i64, gaps: &[(i64, i64)]) -> Vec<(i64, bool)> {
        let (mut host, mut now, mut out) = (HostGaps::default(), -1000, Vec::new());
        let run = |now: i64, by: i64| {
            let end = now + by;
            gaps.iter()
                .find(|(from, to)| (now..end).contains(from) && to > from)
                .map_or(end, |(from, to)| end + to - from)
        };
        while out.len() < frames as usize {
            let due = out.len() as i64 * step;
            host.read(now * NS);
            if now < due {
                host.idle(now * NS, true);
                now = run(now, 50);
                continue;
            }
            out.push((now - due, host.explains((now - due) * NS)));
            host.submitted(now * NS, 1);
            now = run(now, call);
        }
        out
    }

    #[test]
    fn frames_due_in_a_gap_and_its_backlog_are_late_by_the_host_and_no_others() {
        let quiet = sent(1000, 10_000, 1500, &[]);
        assert!(quiet.iter().all(|(late, by_host)| *late <= 50 && !by_host));
        // 95 us without the core: the frames due then, and those that are due while these leave.
        let frames = sent(1000, 10_000, 1500, &[(501_000, 596_000)]);
        let by_host: Vec<usize> = (0..1000).filter(|i| frames[*i].1).collect();
        assert_eq!(by_host, (51..=61).collect::<Vec<_>>());
        assert!(frames.iter().all(|(late, by_host)| *by_host || *late <= 50));
        // A gap in which nothing is due makes nothing late.
        assert!(sent(100, 100_000, 1500, &[(220_000, 260_000)]).iter().all(|(late, by_host)| *late <= 50 && !by_host));
        // Up to 1 us is no gap.
        assert!(sent(100, 10_000, 1500, &[(209_500, 210_300)]).iter().all(|(_, by_host)| !by_host));
    }

    #[test]
    fn calls_that_are_slow_are_not_the_hosts() {
        let slow = sent(200, 1000, 1500, &[]);
        assert!(slow.iter().all(|(_, by_host)| !by_host) && slow[199].0 > 50_000);
        // Nor after a gap: what is later than it was long is late by the calls.
        let slow = sent(2000, 1000, 1500, &[(-500, 20_000)]);
        let last = (0..2000).rev().find(|i| slow[*i].1).unwrap();
        assert!(slow[last].0 <= 20_550 && slow[last + 1].0 > 20_000 && last < 100, "{last}: {:?}", slow[last]);
        // But a call that lasts longer than others, by the part that is longer.
        let in_call = sent(100, 10_000, 1500, &[(500_700, 560_000)]);
        let by_host: Vec<usize> = (0..100).filter(|i| in_call[*i].1).collect();
        assert_eq!(by_host, (51..=56).collect::<Vec<_>>());
        // A wire that becomes slow for good is slow, whatever it was before.
        let mut host = HostGaps::default();
        let mut of_host = |took: Time| {
            host.submitted(0, 1);
            host.read(took * NS);
            let found = host.gap > 0;
            host.idle(0, false);
            found
        };
        assert!(!(0..100).any(|_| of_host(1000)) && of_host(4000));
        assert!((0..1000).any(|_| !of_host(4000)) && !of_host(4000));
    }

    #[test]
    fn a_wire_that_takes_nothing_ends_a_backlog() {
        let mut host = HostGaps::default();
        host.idle(0, true);
        host.read(9000 * NS);
        assert!(host.explains(8000 * NS) && !host.explains(9001 * NS));
        host.forget();
        assert!(!host.explains(0));
        // Asleep is no gap.
        host.idle(0, false);
        host.read(50_000 * NS);
        assert!(!host.explains(NS));
    }
}
