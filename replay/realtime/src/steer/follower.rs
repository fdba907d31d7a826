//! Propagation of changes to the threads of a run: each has a separate ring, and checks one number per batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pktgen_core::time::{MS, Time};
use pktgen_wire::wire::frame::{HEAD, has_udp_checksum, set_udp_checksum};
use pktgen_wire::wire::update::Header;
use rtrb::{Consumer, Producer, RingBuffer};

use super::warp::{Warp, WarpPiece};
use crate::frame::{BURST, Frame, Pool};

/// Maximum number of changes that wait for a thread.
pub(super) const WAITING: usize = 256;
/// Maximum number of frames of a batch with shifted generation times.
pub(crate) const COPIES: usize = 256;
/// Time for which a cap accumulates credit, to be used at once: a thread polls only periodically.
const CREDIT: Time = MS;
/// Seconds per picosecond.
const PS: f64 = 1e-12;

/// The publishing end of a thread's ring.
pub(super) struct Publisher(Producer<WarpPiece>);

impl Publisher {
    pub(super) fn has_room(&self) -> bool {
        self.0.slots() > 0
    }

    pub(super) fn push(&mut self, piece: WarpPiece) {
        // There is room, and this is the only producer.
        let _ = self.0.push(piece);
    }
}

/// The reading end of a thread's ring.
struct Changes {
    published: Arc<AtomicU64>,
    taken: u64,
    ring: Consumer<WarpPiece>,
}

impl Changes {
    fn open(published: &Arc<AtomicU64>) -> (Publisher, Self) {
        let (producer, ring) = RingBuffer::new(WAITING);
        (Publisher(producer), Changes { published: published.clone(), taken: 0, ring })
    }

    /// Returns the next change; without one, costs only the check of one number.
    #[inline]
    fn next(&mut self) -> Option<WarpPiece> {
        if self.published.load(Ordering::Relaxed) == self.taken {
            return None;
        }
        let piece = self.ring.pop().ok()?;
        self.taken += 1;
        Some(piece)
    }
}

/// The state of a thread that moves frames of a schedule.
pub(crate) struct Follower {
    changes: Changes,
    warp: Warp,
    /// Whether frames so far leave when they are scheduled.
    straight: bool,
    copies: Option<Copies>,
}

impl Follower {
    pub(super) fn open(published: &Arc<AtomicU64>, held: bool) -> (Publisher, Self) {
        let (publisher, changes) = Changes::open(published);
        let warp = Warp::new(WarpPiece::first(held), 2 * WAITING);
        (publisher, Follower { changes, warp, straight: !held, copies: None })
    }

    /// Sets that its frames, of at most `frame_bytes` bytes, carry their generation times.
    pub(crate) fn dating(self, frame_bytes: usize) -> Self {
        Follower { copies: Some(Copies { bytes: vec![0; frame_bytes * COPIES], frame_bytes }), ..self }
    }

    /// Reads the changes up to now; frames scheduled before `t` have left.
    #[inline]
    pub(crate) fn look(&mut self, t: Time) {
        while let Some(piece) = self.changes.next() {
            self.warp.add(piece);
            self.straight = false;
        }
        if !self.straight {
            self.warp.forget(t);
        }
    }

    /// Returns the latest time of the schedule that is due at `now`.
    #[inline]
    pub(crate) fn reach(&self, now: Time) -> Time {
        if self.straight { now } else { self.warp.reach(now) }
    }

    /// Returns the due time of what is scheduled for `t`.
    #[inline]
    pub(crate) fn due(&self, t: Time) -> Time {
        if self.straight { t } else { self.warp.due(t) }
    }

    /// Returns whether all frames are held at `now`.
    #[inline]
    pub(crate) fn holds(&self, now: Time) -> bool {
        !self.straight && self.warp.speed(now) == 0.0
    }

    /// Returns whether frames are due at other times than scheduled.
    #[inline]
    pub(crate) fn moves(&self) -> bool {
        !self.straight
    }

    /// Returns whether its frames are copied.
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        !self.straight && self.copies.is_some()
    }

    /// Returns copies of the frames with shifted generation times, if they are shifted; at most [`COPIES`].
    #[inline]
    pub(crate) fn dated(&mut self, pool: &Pool, frames: &[Frame]) -> Option<&Copies> {
        if self.straight {
            return None;
        }
        let copies = self.copies.as_mut()?;
        for (room, frame) in copies.bytes.chunks_exact_mut(copies.frame_bytes).zip(frames) {
            let made = pool.frame(frame);
            let copy = &mut room[..made.len()];
            copy.copy_from_slice(made);
            Header::date(&mut copy[HEAD..], self.warp.due(frame.t));
            if has_udp_checksum(copy) {
                set_udp_checksum(copy);
            }
        }
        Some(copies)
    }
}

/// Frames with shifted generation times.
pub(crate) struct Copies {
    bytes: Vec<u8>,
    frame_bytes: usize,
}

impl Copies {
    /// Returns the frame with this number and length.
    #[inline]
    pub(crate) fn frame(&self, number: usize, bytes: usize) -> &[u8] {
        &self.bytes[number * self.frame_bytes..][..bytes]
    }
}

/// The limit on departing frames of a thread of workers that react.
pub(crate) struct Cap {
    changes: Changes,
    /// Changes that are not in force yet.
    coming: Warp,
    /// Frames per picosecond; infinite without a cap.
    rate: f64,
    /// When the next frame may leave.
    next: Time,
}

impl Cap {
    pub(super) fn open(published: &Arc<AtomicU64>, held: bool) -> (Publisher, Self) {
        let (publisher, changes) = Changes::open(published);
        let rate = if held { 0.0 } else { f64::INFINITY };
        (publisher, Cap { changes, coming: Warp::new(Cap::piece(0, rate), 2 * WAITING), rate, next: 0 })
    }

    /// Makes a piece with this many frames per second from `at` on.
    pub(super) fn piece(at: Time, pps: f64) -> WarpPiece {
        WarpPiece { schedule: at, run: at, speed: pps }
    }

    /// Returns how many frames may leave at `now`.
    #[inline]
    pub(crate) fn allowed(&mut self, now: Time) -> usize {
        while let Some(piece) = self.changes.next() {
            self.coming.add(piece);
        }
        let present = self.coming.speed(now);
        if present != self.rate {
            self.coming.forget(now);
            // Within one interval of the new rate: the former one may have put the next frame beyond any run.
            let interval = (1.0 / (present * PS)) as Time;
            (self.rate, self.next) = (present, self.next.clamp(now, now.saturating_add(interval)));
        }
        if self.rate == f64::INFINITY {
            return BURST;
        }
        if self.rate == 0.0 || now < self.next {
            return 0;
        }
        self.next = self.next.max(now - CREDIT);
        (((now - self.next) as f64 * self.rate * PS) as usize + 1).min(BURST)
    }

    /// Records that `frames` frames left.
    #[inline]
    pub(crate) fn left(&mut self, frames: usize) {
        if self.rate > 0.0 && self.rate < f64::INFINITY {
            // A rate near 0 has its next frame beyond any run.
            self.next = self.next.saturating_add((frames as f64 / (self.rate * PS)) as Time);
        }
    }

    /// Returns when the next frame was allowed to leave; long ago without a cap.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        if self.rate == f64::INFINITY { Time::MIN } else { self.next }
    }

    /// Returns when the next frame may leave; while frames are held this is unknown, and the next check is returned.
    #[inline]
    pub(crate) fn next(&self, now: Time) -> Time {
        match self.rate {
            0.0 => now + CREDIT,
            f64::INFINITY => now,
            _ => self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::time::{NEVER, SECOND};

    use super::*;

    fn publish(publisher: &mut Publisher, published: &AtomicU64, piece: WarpPiece) {
        publisher.push(piece);
        published.fetch_add(1, Ordering::Release);
    }

    #[test]
    fn a_follower_warps_from_the_first_change_on() {
        let published = Arc::new(AtomicU64::new(0));
        let (mut publisher, mut follower) = Follower::open(&published, false);
        follower.look(0);
        assert_eq!((follower.reach(5), follower.due(5)), (5, 5));
        publish(&mut publisher, &published, WarpPiece::first(false).then(10, 0.0));
        follower.look(5);
        assert_eq!((follower.reach(9), follower.reach(12), follower.due(10)), (9, 9, NEVER));
        assert!(publisher.has_room());
        (0..WAITING).for_each(|_| publisher.push(WarpPiece::first(false)));
        assert!(!publisher.has_room());
    }

    #[test]
    fn a_raised_cap_does_not_wait_for_the_former_one() {
        let published = Arc::new(AtomicU64::new(0));
        let (mut publisher, mut cap) = Cap::open(&published, false);
        publish(&mut publisher, &published, Cap::piece(0, 0.001));
        assert_eq!(cap.allowed(1), 1);
        cap.left(1);
        assert_eq!(cap.allowed(SECOND), 0);
        publish(&mut publisher, &published, Cap::piece(SECOND, 1000.0));
        assert_eq!(cap.allowed(SECOND), 0);
        assert!(cap.allowed(SECOND + 2 * MS) > 0);
    }

    #[test]
    fn a_cap_lets_as_many_leave_as_it_says() {
        let published = Arc::new(AtomicU64::new(0));
        let (mut publisher, mut cap) = Cap::open(&published, false);
        assert_eq!(cap.allowed(1), BURST);
        publish(&mut publisher, &published, Cap::piece(SECOND, 1000.0));
        assert_eq!(cap.allowed(SECOND - 1), BURST);
        let mut left = 0;
        // Polled every 100 us for a second, and then not polled for another second.
        for i in 0..10_000 {
            let allowed = cap.allowed(SECOND + i * MS / 10);
            cap.left(allowed);
            left += allowed;
        }
        assert!((999..=1001).contains(&left), "{left}");
        assert!(cap.allowed(3 * SECOND) <= 2, "what was not used is gone");
        publish(&mut publisher, &published, Cap::piece(3 * SECOND, 0.0));
        assert_eq!((cap.allowed(3 * SECOND), cap.next(3 * SECOND)), (0, 3 * SECOND + MS));
        publish(&mut publisher, &published, Cap::piece(4 * SECOND, f64::INFINITY));
        assert_eq!((cap.allowed(4 * SECOND - 1), cap.allowed(4 * SECOND)), (0, BURST));
    }
}
