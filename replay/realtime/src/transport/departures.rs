//! Actual departures of frames, by stamps that the kernel or a card makes of some of them.
//!
//! Used by `af_packet` and `udp`. Every n-th frame is marked in the call that sends it (SO_TIMESTAMPING as a control
//! message), and its stamp is read from the socket's error queue before the next one is marked: only one is under way
//! at a time. After a stamp was given up, none is marked for a second, in which it may still come: so a stamp is never
//! ambiguous. If n is 0 there is no [`Sampler`], and sending is not affected.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::stamps::{Notes, Stamps};
use super::{End, TransportPlan, socket};
use crate::clock;

/// A marked frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The monotonic clock just before the sending call.
    pub call_ns: i64,
    /// Its departure, in ns of the stamps' clock; none if unknown.
    pub stamp_ns: Option<i64>,
}

/// The departures found by all wires of a run: each adds them when its frames are counted.
#[derive(Debug, Clone, Default)]
pub struct Departures(Arc<Mutex<Vec<Departure>>>);

impl Departures {
    /// Takes all departures.
    pub fn take(&self) -> Vec<Departure> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Maximum number of departures kept per socket. At the maximum every second one is removed, and from then on half as many are marked.
const KEPT: usize = 1 << 16;
/// Wait after which a missing stamp is given up.
const PATIENCE_NS: i64 = 10_000_000;
/// Time without marked frames after that: the number of a late stamp does not tell its frame, since refused frames may have used numbers.
const REST_NS: i64 = 1_000_000_000;
/// While a stamp is awaited, the error queue is checked after this number of frames.
const LOOK: u64 = 64;
/// Origin of an error-queue entry that is a stamp (SO_EE_ORIGIN_TIMESTAMPING).
const ORIGIN: u8 = 4;
/// Offsets in `struct sock_extended_err`: the origin, and the number of the marked frame.
const ORIGIN_AT: usize = 4;
const KEY_AT: usize = 12;
/// A packet socket's message with such an entry (PACKET_TX_TIMESTAMP).
const PACKET_TX_TIMESTAMP: i32 = 16;

/// Marks frames of a socket, and reads their stamps.
pub(super) struct Sampler {
    stamps: Stamps,
    every: u64,
    /// Frames before the next marked one.
    left: u64,
    /// The marked frame under way: time just before its call.
    open: Option<i64>,
    /// No frame is marked before this time.
    rests_until: i64,
    /// The clock just before the current call.
    call_ns: i64,
    /// Number of the next marked frame, counted by the kernel; lower ones are done.
    key: u32,
    found: Vec<Departure>,
    kept: usize,
    all: Departures,
}

/// The marked frame of a call, and its flags.
pub(super) type Mark = Option<(usize, u32)>;

impl TransportPlan {
    /// Returns the source of departure stamps at this end: of updates, at the workers.
    fn departures_at(&self, end: End) -> Stamps {
        match (end, self.sent_stamps_every, self.stamps) {
            (End::Workers, 1.., Stamps::Card) => Stamps::Card,
            (End::Workers, 1.., _) => Stamps::Kernel,
            _ => Stamps::None,
        }
    }

    /// Returns the source of departure stamps of this process's workers.
    pub(crate) fn departure_stamps(&self) -> Stamps {
        self.departures_at(End::Workers)
    }
}

impl Sampler {
    /// Makes the sampler of the sending socket at `end`, if its frames are to be marked.
    pub(super) fn of(plan: &TransportPlan, end: End) -> Option<Self> {
        match plan.departures_at(end) {
            Stamps::None => None,
            stamps => Some(Sampler::new(stamps, plan.sent_stamps_every.into(), KEPT, plan.departures.clone())),
        }
    }

    fn new(stamps: Stamps, every: u64, kept: usize, all: Departures) -> Self {
        let found = Vec::with_capacity(kept);
        Sampler { stamps, every, left: 0, open: None, rests_until: 0, call_ns: 0, key: 0, found, kept, all }
    }

    /// Lets the socket report stamps of marked frames, numbered from 0.
    pub(super) fn ask(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let told = match self.stamps {
            Stamps::Card => libc::SOF_TIMESTAMPING_RAW_HARDWARE,
            _ => libc::SOF_TIMESTAMPING_SOFTWARE,
        };
        let flags = told | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        socket::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
    }

    /// Chooses the frame to be marked among the next `frames`. Called just before they are sent.
    #[inline]
    pub(super) fn mark(&mut self, socket: BorrowedFd<'_>, frames: usize) -> Mark {
        if self.left >= frames as u64 { None } else { self.choose(socket) }
    }

    #[cold]
    fn choose(&mut self, socket: BorrowedFd<'_>) -> Mark {
        self.collect(socket);
        self.call_ns = clock::monotonic_ns();
        if self.open.is_some_and(|call_ns| self.call_ns - call_ns >= PATIENCE_NS) {
            self.give_up();
            self.rests_until = self.call_ns + REST_NS;
        }
        if self.open.is_some() || self.call_ns < self.rests_until {
            self.left += LOOK.min(self.every);
            return None;
        }
        let flags = match self.stamps {
            Stamps::Card => libc::SOF_TIMESTAMPING_TX_HARDWARE,
            _ => libc::SOF_TIMESTAMPING_TX_SOFTWARE,
        };
        Some((self.left as usize, flags))
    }

    /// Records that `taken` of the frames passed to `mark` were taken.
    #[inline]
    pub(super) fn sent(&mut self, taken: usize, mark: Mark) {
        match mark {
            Some((at, _)) if at < taken => {
                self.open = Some(self.call_ns);
                self.left = self.every.saturating_sub((taken - at) as u64);
            }
            _ => self.left = self.left.saturating_sub(taken as u64),
        }
    }

    /// Reads stamps from the socket's error queue: while it is not empty, waits for arrivals end at once.
    pub(super) fn collect(&mut self, socket: BorrowedFd<'_>) {
        let mut room = [0; 256];
        while let Ok(Some(len)) = socket::take_error(socket, &mut room) {
            self.tell(&room[..len.min(room.len())]);
        }
    }

    /// Handles an entry of the error queue, given by its control messages.
    fn tell(&mut self, notes: &[u8]) {
        let (mut stamp, mut key) = (None, None);
        for (level, kind, content) in Notes(notes) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp = self.stamps.read(content),
                (libc::SOL_IP, libc::IP_RECVERR)
                | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP)
                    if content.get(ORIGIN_AT) == Some(&ORIGIN) =>
                {
                    key = content.get(KEY_AT..).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_ne_bytes(*bytes));
                }
                _ => {}
            }
        }
        let (Some(stamp), Some(key)) = (stamp, key) else { return };
        // Lower numbers were given up. Higher ones were used for frames that the kernel then did not take.
        if key.wrapping_sub(self.key) >= 1 << 31 {
            return;
        }
        self.key = key.wrapping_add(1);
        // Otherwise it is the late stamp of a frame that was given up.
        if let Some(call_ns) = self.open.take() {
            self.keep(Departure { call_ns, stamp_ns: i64::try_from(stamp).ok() });
        }
    }

    fn give_up(&mut self) {
        if let Some(call_ns) = self.open.take() {
            self.key = self.key.wrapping_add(1);
            self.keep(Departure { call_ns, stamp_ns: None });
        }
    }

    fn keep(&mut self, departure: Departure) {
        if self.found.len() == self.kept {
            let mut number = 0;
            self.found.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = self.every.saturating_mul(2);
        }
        self.found.push(departure);
    }

    /// Adds the departures to those of the run. Called when the frames are counted, after the last one.
    pub(super) fn hand_over(&mut self, socket: BorrowedFd<'_>) {
        self.collect(socket);
        self.give_up();
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.found);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::super::stamps::testing::{note, times};
    use super::*;

    /// An entry of the error queue: the stamp of the marked frame with this number.
    fn entry(key: u32, ns: i64, origin: u8) -> Vec<u8> {
        let mut error = [0; 16];
        error[ORIGIN_AT] = origin;
        error[KEY_AT..].copy_from_slice(&key.to_ne_bytes());
        let stamp = note(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &times([0, ns, 0, 0, 0, 0]));
        [stamp, note(libc::SOL_IP, libc::IP_RECVERR, &error)].concat()
    }

    fn sampler(every: u64, kept: usize) -> Sampler {
        Sampler::new(Stamps::Kernel, every, kept, Departures::default())
    }

    /// Frames are sent in calls of any size, some of which take fewer: every n-th frame is marked, for any division.
    #[test]
    fn every_nth_frame_is_marked() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sampler = sampler(10, 100);
        let (mut number, mut marked) = (0, Vec::new());
        for (offered, taken) in [(1, 1), (4, 4), (30, 5), (30, 6), (3, 0), (5, 5), (12, 12), (40, 3)] {
            let mark = sampler.mark(socket.as_fd(), offered);
            sampler.sent(taken, mark);
            if let Some((at, _)) = mark.filter(|(at, _)| *at < taken) {
                marked.push(number + at);
                sampler.tell(&entry(marked.len() as u32 - 1, 5, ORIGIN));
            }
            number += taken;
        }
        assert_eq!((marked, sampler.found.len()), (vec![0, 10, 20, 30], 4));
    }

    #[test]
    fn a_stamp_is_of_the_frame_that_is_under_way() {
        let mut sampler = sampler(1, 100);
        let open = |sampler: &mut Sampler, call_ns| {
            sampler.call_ns = call_ns;
            sampler.sent(1, Some((0, 0)));
        };
        open(&mut sampler, 100);
        sampler.tell(&entry(0, 150, 1));
        assert!(sampler.found.is_empty(), "an error, and no stamp");
        sampler.give_up();
        open(&mut sampler, 200);
        sampler.tell(&entry(0, 160, ORIGIN));
        assert_eq!(sampler.found.len(), 1, "it is late, and of the frame before");
        sampler.tell(&entry(1, 260, ORIGIN));
        open(&mut sampler, 300);
        // The kernel numbered a frame that it did not take.
        sampler.tell(&entry(3, 370, ORIGIN));
        let found: Vec<_> = sampler.found.iter().map(|found| (found.call_ns, found.stamp_ns)).collect();
        assert_eq!(found, [(100, None), (200, Some(260)), (300, Some(370))]);
    }

    /// Number 0 was used for a refused frame, and the stamp of the next one, number 1, is late.
    #[test]
    fn a_late_stamp_after_a_refused_frame_is_of_no_later_frame() {
        let mut sampler = sampler(1, 100);
        let open = |sampler: &mut Sampler, call_ns| {
            sampler.call_ns = call_ns;
            sampler.sent(1, Some((0, 0)));
        };
        open(&mut sampler, 100);
        sampler.give_up();
        sampler.tell(&entry(1, 160, ORIGIN));
        open(&mut sampler, 300);
        sampler.tell(&entry(1, 160, ORIGIN));
        assert_eq!(sampler.found.len(), 1, "the number is done");
        sampler.tell(&entry(2, 310, ORIGIN));
        let found: Vec<_> = sampler.found.iter().map(|found| (found.call_ns, found.stamp_ns)).collect();
        assert_eq!(found, [(100, None), (300, Some(310))]);
    }

    #[test]
    fn nothing_is_marked_while_a_stamp_may_be_late() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sampler = sampler(1, 100);
        sampler.open = Some(clock::monotonic_ns() - PATIENCE_NS);
        assert_eq!(sampler.mark(socket.as_fd(), 1000), None);
        assert_eq!((sampler.open, sampler.found.len()), (None, 1));
        assert_eq!(sampler.rests_until, sampler.call_ns + REST_NS);
        sampler.rests_until = sampler.call_ns;
        assert!(sampler.mark(socket.as_fd(), 1000).is_some());
    }

    #[test]
    fn more_than_are_kept_become_fewer_over_the_same_time() {
        let mut sampler = sampler(3, 4);
        (0..6).for_each(|call_ns| sampler.keep(Departure { call_ns, stamp_ns: None }));
        let calls: Vec<_> = sampler.found.iter().map(|found| found.call_ns).collect();
        assert_eq!((calls, sampler.every, sampler.found.capacity()), (vec![0, 2, 4, 5], 6, 4));
    }
}
