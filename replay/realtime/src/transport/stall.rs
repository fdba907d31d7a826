//! Detection of a wire that accepts no frames, and the error that ends the run.
//!
//! Time alone is not evidence: a process paused by its host or a signal has not tried to send. So the measure is the
//! number of short time spans with a refusal, without any accepted frame in between; a pause is one span, and restarts
//! the count if it is long. The cost for an accepted frame is one store per call.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pktgen_core::Error;

use super::interface_counts::InterfaceReading;
use crate::clock::Stopwatch;

/// Minimum time until a wire that accepts nothing ends its run.
pub(crate) const LIMIT: Duration = Duration::from_secs(1);
/// Refusals within this time count as one.
const SPAN: Duration = Duration::from_millis(50);
/// Required spans with a refusal if every attempt is answered at once: together [`LIMIT`].
const SPANS: u32 = 20;
/// Required spans if answers come from another host, which sends about one per second.
const ANSWERS: u32 = 3;
/// Refusals further apart than this are not consecutive.
const GAP: Duration = Duration::from_secs(2);

/// Consecutive refusals.
#[derive(Debug)]
pub(super) struct Stall {
    watch: Stopwatch,
    /// Required spans with refusals.
    needed: u32,
    /// Spans so far; 0 if the last frame was taken.
    spans: u32,
    /// Beginning of the first span, and of the last.
    first: Duration,
    last: Duration,
    attempts: u64,
}

impl Stall {
    /// For a wire whose kernel answers at once.
    pub(super) fn new() -> Self {
        Self::after(SPANS)
    }

    /// For answers of another host.
    pub(super) fn of_answers() -> Self {
        Self::after(ANSWERS)
    }

    fn after(needed: u32) -> Self {
        let zero = Duration::ZERO;
        Stall { watch: Stopwatch::start(), needed, spans: 0, first: zero, last: zero, attempts: 0 }
    }

    /// Records that a frame was taken.
    #[inline]
    pub(super) fn taken(&mut self) {
        self.spans = 0;
    }

    /// Returns whether the last frame was refused.
    pub(super) fn refuses(&self) -> bool {
        self.spans > 0
    }

    /// Records a refused attempt. Returns whether the wire counts as stalled.
    #[cold]
    pub(super) fn refused(&mut self) -> bool {
        self.refused_at(self.watch.elapsed())
    }

    fn refused_at(&mut self, now: Duration) -> bool {
        if self.spans == 0 || now.saturating_sub(self.last) > GAP {
            (self.spans, self.first, self.last, self.attempts) = (1, now, now, 1);
            return false;
        }
        self.attempts += 1;
        if now.saturating_sub(self.last) >= SPAN {
            (self.spans, self.last) = (self.spans + 1, now);
        }
        self.spans >= self.needed && now.saturating_sub(self.first) >= LIMIT
    }

    /// Describes the attempts, for a message.
    fn tried(&self) -> String {
        let seconds = self.last.saturating_sub(self.first).as_secs_f64();
        format!("{} attempts to send refused in {seconds:.1} s, none taken", self.attempts)
    }

    /// Returns the error for an interface that accepts no frames, the first of which has `bytes`; `before` has its counters at opening.
    pub(super) fn of_interface(&self, before: &Card, why: &io::Error, bytes: usize) -> Error {
        let Card { name, .. } = before;
        let (counted, up) = before.counted();
        let advice = match up {
            true => format!(
                "does its other end take frames of {bytes} bytes (MTU {} at least)? Does its driver drop them (ip -s link show \
                 dev {name})?",
                bytes.saturating_sub(14)
            ),
            false => format!("connect the cable, or set the other end up (ip link show dev {name})"),
        };
        Error::Host(format!("{name} takes no frames: {} ({why}); {counted}; {advice}", self.tried()))
    }

    /// Returns the error for an address to which nothing can be sent.
    pub(super) fn of_path(&self, peer: SocketAddr, why: &io::Error) -> Error {
        Error::Host(format!(
            "the path to {peer} takes no frames: {} ({why}); check the route to it (ip route get {}) and filters",
            self.tried(),
            peer.ip()
        ))
    }

    /// Returns the error for an address where no process receives.
    pub(super) fn of_peer(&self, peer: SocketAddr) -> Error {
        let seconds = self.last.saturating_sub(self.first).as_secs_f64();
        Error::Host(format!(
            "{peer} takes no frames: its host refused them for {seconds:.1} s ({} times), as nothing receives at that port; start \
             the part that does first, or correct transport.addresses",
            self.attempts
        ))
    }
}

/// An interface, and its counters at opening.
#[derive(Debug)]
pub(super) struct Card {
    name: String,
    before: Option<InterfaceReading>,
}

impl Card {
    /// Reads its counters.
    pub(super) fn open(name: &str) -> Self {
        Card { name: name.to_owned(), before: InterfaceReading::of(name) }
    }

    /// Returns its counts since then, for a message, and whether it is up.
    fn counted(&self) -> (String, bool) {
        match self.before.as_ref().map(|before| before.since("")) {
            Some(counts) => (counts.to_string(), counts.state == "up" || counts.state == "unknown"),
            None => ("its counters cannot be read".to_owned(), true),
        }
    }

    /// Returns the error for an interface that fails during a run.
    #[cold]
    pub(super) fn failed(&self, action: &str, why: &io::Error) -> Error {
        let name = &self.name;
        let (counted, _) = self.counted();
        Error::Host(format!("{name}: cannot {action}: {why}; {counted}; check that it is up (ip link show dev {name})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Returns when refusals every `step` ms, from `from` on, end the run.
    fn ends(stall: &mut Stall, from: u64, step: u64) -> Option<u64> {
        (0..100_000).map(|i| from + i * step).take_while(|t| *t < from + 60_000).find(|t| stall.refused_at(ms(*t)))
    }

    #[test]
    fn refusals_without_a_frame_taken_end_a_run_after_a_second() {
        for step in [1, 7, 20, 49] {
            let at = ends(&mut Stall::new(), 0, step).unwrap();
            assert!((1000..2000).contains(&at), "{step}: {at}");
        }
        // Attempts that are rare, because the process rarely runs, take longer, but as many are needed.
        assert_eq!(ends(&mut Stall::new(), 0, 500), Some(19 * 500));
        assert_eq!(ends(&mut Stall::new(), 0, 2001), None, "not in a row");
    }

    #[test]
    fn a_pause_accuses_nobody() {
        let mut stall = Stall::new();
        assert!((0..900).all(|t| !stall.refused_at(ms(t))));
        // Stopped for 1.5 s or 3 s: one more span, or the count restarts.
        assert!(!stall.refused_at(ms(2400)));
        let mut stall = Stall::new();
        assert!((0..900).all(|t| !stall.refused_at(ms(t))));
        assert!(!stall.refused_at(ms(3900)));
        assert!(stall.refuses() && ends(&mut stall, 3901, 1) >= Some(4900));
        let mut stall = Stall::new();
        assert!((0..5).all(|t| !stall.refused_at(ms(t))) && !stall.refused_at(ms(1900)), "two spans in 1.9 s");
    }

    #[test]
    fn rare_answers_of_another_host_end_a_run_as_well() {
        assert_eq!(ends(&mut Stall::of_answers(), 0, 1000), Some(2000));
        assert_eq!(ends(&mut Stall::of_answers(), 0, 60), Some(1020));
    }

    proptest! {
        /// A wire that accepts a frame at least once in 900 ms goes on, for any number of refusals.
        #[test]
        fn backpressure_ends_nothing(gaps in prop::collection::vec((1u64..900, 0usize..50), 1..100)) {
            let (mut stall, mut t) = (Stall::new(), 0);
            for (gap, refusals) in gaps {
                for i in 0..refusals as u64 {
                    prop_assert!(!stall.refused_at(ms(t + gap * i / refusals as u64)));
                }
                t += gap;
                stall.taken();
                prop_assert!(!stall.refuses());
            }
        }
    }
}
