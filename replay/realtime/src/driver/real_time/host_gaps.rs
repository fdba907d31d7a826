//! Frames delayed by the host: the sending thread lost its core, while it waited or during a call.
//!
//! The evidence is the thread's own clock readings. While it waits it reads the clock every few ten ns; if two successive readings are far
//! apart, it did not run. A call that submits frames takes its usual time, unless the kernel or the hypervisor did something else in it.
//! Sleep, listening and frames that are not ready never count as delays by the host.

use pktgen_core::time::{NS, Time};

/// Minimum distance of readings, beyond the work between them, that shows that the thread did not run.
const GAP: Time = 1000 * NS;

/// The thread's activity since the last reading of the clock.
#[derive(Debug, Default)]
enum Since {
    /// An activity of arbitrary length.
    #[default]
    Anything,
    /// Waiting only.
    Wait(Time),
    /// One call, which submitted this number of frames.
    Call(Time, usize),
}

/// The gaps of one thread.
#[derive(Debug, Default)]
pub(super) struct HostGaps {
    since: Since,
    /// The usual duration of a call with one frame; 0 if there was none.
    call: Time,
    /// Time that the thread did not run, as long as frames due then remain; 0 otherwise.
    gap: Time,
}

impl HostGaps {
    /// Records a reading of the clock.
    #[inline]
    pub(super) fn read(&mut self, now: Time) {
        match std::mem::take(&mut self.since) {
            Since::Wait(before) if now - before > GAP => self.gap = now - before,
            Since::Call(before, frames) => self.called(now - before, frames),
            _ => {}
        }
    }

    /// Records the duration of a call.
    #[inline]
    fn called(&mut self, took: Time, frames: usize) {
        if frames == 1 {
            // Adapts quickly downwards and slowly upwards, since rare durations are not usual.
            self.call += match took - self.call {
                _ if self.call == 0 => took,
                less @ ..0 => less / 8,
                more => more.min(self.call) / 64,
            };
        }
        // In a call with several frames, each costs less.
        let beyond = took - self.call * frames as Time;
        if self.call > 0 && beyond > GAP {
            self.gap += beyond;
        }
    }

    /// Records that nothing was due at `now`: there is no backlog. `only_waits`: the thread only waits until the next reading.
    #[inline]
    pub(super) fn idle(&mut self, now: Time, only_waits: bool) {
        self.gap = 0;
        self.since = if only_waits { Since::Wait(now) } else { Since::Anything };
    }

    /// Records that frames were submitted at `now`, with no other activity until the next reading.
    #[inline]
    pub(super) fn submitted(&mut self, now: Time, frames: usize) {
        self.since = Since::Call(now, frames);
    }

    /// Records other activity before the next reading.
    #[inline]
    pub(super) fn listens(&mut self) {
        self.since = Since::Anything;
    }

    /// Records that frames are not ready, or that the wire accepts none: later delays are not due to the host.
    #[inline]
    pub(super) fn forget(&mut self) {
        (self.since, self.gap) = (Since::Anything, 0);
    }

    /// Returns whether a gap explains this lateness; a backlog that grows beyond the gap is due to slow sending.
    #[inline]
    pub(super) fn explains(&self, late: Time) -> bool {
        self.gap > 0 && late <= self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates frames due every `step` ns, each sent by a call of `call` ns, by a thread that reads every 50 ns and
    /// loses its core during `gaps` (from, to). Returns, per frame, its lateness and whether it is due to the host.
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
        // 95 us without the core: the frames due then, and those due while these leave.
        let frames = sent(1000, 10_000, 1500, &[(501_000, 596_000)]);
        let by_host: Vec<usize> = (0..1000).filter(|i| frames[*i].1).collect();
        assert_eq!(by_host, (51..=61).collect::<Vec<_>>());
        assert!(frames.iter().all(|(late, by_host)| *by_host || *late <= 50));
        // A gap in which nothing is due delays nothing.
        assert!(sent(100, 100_000, 1500, &[(220_000, 260_000)]).iter().all(|(late, by_host)| *late <= 50 && !by_host));
        // Up to 1 us is not a gap.
        assert!(sent(100, 10_000, 1500, &[(209_500, 210_300)]).iter().all(|(_, by_host)| !by_host));
    }

    #[test]
    fn calls_that_are_slow_are_not_the_hosts() {
        let slow = sent(200, 1000, 1500, &[]);
        assert!(slow.iter().all(|(_, by_host)| !by_host) && slow[199].0 > 50_000);
        // Nor after a gap: lateness beyond its length is due to the calls.
        let slow = sent(2000, 1000, 1500, &[(-500, 20_000)]);
        let last = (0..2000).rev().find(|i| slow[*i].1).unwrap();
        assert!(slow[last].0 <= 20_550 && slow[last + 1].0 > 20_000 && last < 100, "{last}: {:?}", slow[last]);
        // A longer call counts by its excess.
        let in_call = sent(100, 10_000, 1500, &[(500_700, 560_000)]);
        let by_host: Vec<usize> = (0..100).filter(|i| in_call[*i].1).collect();
        assert_eq!(by_host, (51..=56).collect::<Vec<_>>());
        // A wire that becomes permanently slow is slow, regardless of its past.
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
        // Sleep is not a gap.
        host.idle(0, false);
        host.read(50_000 * NS);
        assert!(!host.explains(NS));
    }
}
