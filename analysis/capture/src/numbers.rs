//! Numbers of updates whose packets carry no generation time, but mark retransmissions (ATP) or count them (Libra): finds copies and
//! updates that come again.
//!
//! Called by [`super::meter`]. Memory is constant per sender.

use std::collections::VecDeque;

use pktgen_core::index::IdMap;
use pktgen_core::time::{SECOND, Time};
use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::{AttemptMarks, Sight};

use super::Event;
use super::window::{Known, Window};

/// Maximum distance behind the last number at which the same number is a copy; numbers began anew if it is further behind.
const STEPS_BACK: u32 = 16;
/// A retransmission this far ahead of the last number is of an update from before numbers began anew.
const AHEAD: u32 = 1024;
/// Packets cut before their key have 16 bits of the number, which begins at 0 again after as many.
const LAP: u32 = 65_535;

/// What a sender's numbers tell of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// The same first transmission was seen before. Copies of retransmissions are not known: a packet cut before its key has
    /// only a mark.
    pub(super) is_copy: bool,
    /// Whether its update was seen before, in any transmission.
    pub(super) update: Known,
    /// The number was seen before, too far back for a copy: it counts as another update.
    pub(super) is_anew: bool,
}

/// Identifies an update by its sender and number, the same in all its transmissions. Of packets cut before their key only a part of
/// the number is known.
pub(super) fn update_of(event: &Event, sender: u32) -> u64 {
    let Sight { cluster, seq, .. } = event.sight;
    let own = u64::from(sender) << 32 | u64::from(cluster) << 16 | u64::from(seq % LAP);
    own ^ u64::from(event.format).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The latest numbers of a sender.
#[derive(Default)]
struct Numbers {
    /// Highest number of a first transmission.
    last: Option<u32>,
    /// Added to numbers that began at 0 again.
    base: u32,
    first: Window,
    updates: Window,
}

impl Numbers {
    /// Returns the whole number of a packet: after the end of a lap, 0 comes next and nothing began anew.
    fn whole(&self, seq: u32) -> u32 {
        let Some(last) = self.last else { return seq };
        let (number, step) = (self.base.saturating_add(seq), last.saturating_sub(self.base));
        let end = LAP - AHEAD..LAP;
        if seq < AHEAD && end.contains(&step) {
            return number.saturating_add(LAP);
        }
        let is_before = self.base > 0 && step < AHEAD && end.contains(&seq);
        if is_before { number - LAP } else { number }
    }

    fn see(&mut self, sight: &Sight) -> Seen {
        // There are no generation times to compare.
        const GENERATION: i64 = 0;
        let mut seq = self.whole(sight.seq);
        if sight.attempt > 0 {
            let is_old = self.last.is_some_and(|last| seq > last.saturating_add(AHEAD));
            let update = if is_old { Known::Late } else { self.updates.see(seq, GENERATION) };
            return Seen { is_copy: false, update, is_anew: false };
        }
        let back = self.last.map_or(0, |last| last.saturating_sub(seq));
        let mut known = self.first.see(seq, GENERATION);
        let is_anew = known != Known::New && back > STEPS_BACK;
        if is_anew {
            *self = Numbers::default();
            seq = sight.seq;
            known = self.first.see(seq, GENERATION);
        }
        self.last = self.last.max(Some(seq));
        self.base = self.base.max(seq - sight.seq);
        let update = self.updates.see(seq, GENERATION);
        Seen { is_copy: known == Known::Again, update, is_anew }
    }
}

/// Numbers of all senders at one side. Sums of some members are told apart by how many these are.
#[derive(Default)]
pub(super) struct Senders(IdMap<(u8, u16, u32, u16), Numbers>);

impl Senders {
    /// Records a packet with an update; without a sender it is taken as new.
    pub(super) fn see(&mut self, event: &Event) -> Seen {
        let Some(sender) = event.sender() else {
            return Seen { is_copy: false, update: Known::New, is_anew: false };
        };
        let key = (event.format, event.sight.cluster, sender, event.sight.count);
        self.0.entry(key).or_default().see(&event.sight)
    }
}

/// How many packets of its sender a copy may be behind.
const LATEST: usize = 256;
/// How long after its original a copy may be: a later packet with the same number is of another run.
const COPY_WITHIN: Time = SECOND;

/// The latest packets of a sender, by number and attempt.
#[derive(Default)]
struct Latest {
    /// With the time of the original.
    known: IdMap<(u32, u8), Time>,
    order: VecDeque<(u32, u8)>,
}

impl Latest {
    /// Records a packet; returns whether it is a copy.
    fn see(&mut self, packet: (u32, u8), t: Time) -> bool {
        if let Some(original) = self.known.get_mut(&packet) {
            let is_copy = t.saturating_sub(*original) <= COPY_WITHIN;
            if !is_copy {
                *original = t;
            }
            return is_copy;
        }
        self.known.insert(packet, t);
        self.order.push_back(packet);
        if self.order.len() > LATEST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

/// The latest packets of all senders whose packets have an exact attempt. Their numbers need no order: a sender may count for each of
/// its receivers.
#[derive(Default)]
pub(super) struct LatestPackets(IdMap<(u8, u16, u32), Latest>);

impl LatestPackets {
    /// Records a packet with an update; returns whether it is a copy of one of its sender's latest. Without a sender or an exact
    /// attempt it is none.
    pub(super) fn see(&mut self, event: &Event, formats: Formats) -> bool {
        let Sight { cluster, seq, attempt, .. } = event.sight;
        let shown = formats.get(usize::from(event.format)).map(|format| format.facts().transmissions);
        let is_exact = matches!(shown, Some(AttemptMarks::Numbered(most)) if attempt <= most);
        let Some(sender) = event.sender().filter(|_| is_exact) else { return false };
        self.0.entry((event.format, cluster, sender)).or_default().see((seq, attempt), event.t)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_wire::wire::sight::What;

    use super::*;

    fn sight(seq: u32, attempt: u8) -> Sight {
        Sight {
            what: What::Update,
            cluster: 1,
            worker: Some(1),
            seq,
            round: 0,
            attempt,
            generation: None,
            count: 1,
            elements: 62,
        }
    }

    fn seen(numbers: &mut Numbers, seq: u32, attempt: u8) -> (bool, bool) {
        let Seen { is_copy, update, .. } = numbers.see(&sight(seq, attempt));
        (is_copy, update == Known::Again)
    }

    /// Whether numbers that are not copies came before.
    fn began_anew(numbers: &mut Numbers, seq: u32, attempt: u8) -> bool {
        numbers.see(&sight(seq, attempt)).is_anew
    }

    #[test]
    fn numbers_that_came_before_are_told() {
        let mut numbers = Numbers::default();
        assert!((0..100).all(|seq| !began_anew(&mut numbers, seq, 0)));
        // A copy, a retransmission, and a late copy, after which numbers go on.
        assert!(!began_anew(&mut numbers, 90, 0) && !began_anew(&mut numbers, 20, 1));
        assert!(began_anew(&mut numbers, 40, 0) && !began_anew(&mut numbers, 100, 0));
        // Packets cut before their key: 16 bits of the number. Another run begins earlier.
        for (end, told) in [(LAP - 1, false), (LAP - 2 * AHEAD, true)] {
            let mut numbers = Numbers::default();
            assert!((0..=end).all(|seq| !began_anew(&mut numbers, seq, 0)));
            assert_eq!(began_anew(&mut numbers, 0, 0), told, "{end}");
            assert!((1..=end).all(|seq| !began_anew(&mut numbers, seq, 0)), "{end}");
        }
    }

    #[test]
    fn copies_and_retransmissions_are_known() {
        let mut numbers = Numbers::default();
        for seq in 0..3000 {
            assert_eq!(seen(&mut numbers, seq, 0), (false, false), "{seq}");
            assert_eq!(seen(&mut numbers, seq, 0), (true, true), "{seq}");
            assert_eq!(seen(&mut numbers, seq, 1), (false, true), "{seq}");
        }
        // The first transmission was lost, and comes after the second.
        assert_eq!(seen(&mut numbers, 3001, 1), (false, false));
        assert_eq!(seen(&mut numbers, 3001, 0), (false, true));
        // Late, and never seen.
        numbers = Numbers::default();
        assert_eq!(seen(&mut numbers, 100, 0), (false, false));
        assert_eq!(seen(&mut numbers, 50, 0), (false, false));
        assert_eq!(seen(&mut numbers, 50, 1), (false, true));
    }

    /// Packets cut before their key: around the end of a lap, each update has two transmissions.
    #[test]
    fn retransmissions_are_known_over_the_end_of_a_lap() {
        let mut numbers = Numbers::default();
        let cut = |number: u32| number % LAP;
        for number in LAP - 200..2 * LAP + 200 {
            // Every tenth first transmission was lost.
            if number % 10 > 0 {
                assert_eq!(seen(&mut numbers, cut(number), 0), (false, false), "{number}");
            }
            if number >= LAP - 150 {
                let late = number - 50;
                assert_eq!(seen(&mut numbers, cut(late), 1), (false, late % 10 > 0), "{number}");
            }
        }
    }

    #[test]
    fn a_copy_is_near_its_original() {
        let (mut latest, packets) = (Latest::default(), LATEST as u32);
        assert!((0..packets).all(|seq| !latest.see((seq, 0), 0)));
        assert!(latest.see((0, 0), 0) && !latest.see((0, 1), 0), "another transmission is no copy");
        // The first one is forgotten: a second run has the numbers of the first.
        assert!(!latest.see((0, 0), 0) && latest.see((0, 1), 0));
        assert_eq!((latest.known.len(), latest.order.len()), (LATEST, LATEST));
    }

    #[test]
    fn short_runs_in_one_capture_have_no_copies_of_each_other() {
        let mut latest = Latest::default();
        for run in 0..3 {
            let begins = run * 2 * COPY_WITHIN;
            assert!((0..9).all(|seq| !latest.see((seq, 0), begins + Time::from(seq))), "run {run}");
            assert!(latest.see((8, 0), begins + 9), "run {run}");
        }
        assert_eq!((latest.known.len(), latest.order.len()), (9, 9));
    }

    /// Packets cut before their key have 16 bits of the number; a second run has the numbers of the first.
    #[test]
    fn numbers_that_begin_anew_are_no_copies() {
        for end in [40, 2000, 65_535] {
            let mut numbers = Numbers::default();
            for round in 0..3 {
                for seq in 0..end {
                    assert_eq!(seen(&mut numbers, seq, 0), (false, false), "{end} {round} {seq}");
                    // A retransmission from before the numbers began at 0 again is of an update that was seen.
                    if end == LAP && round > 0 && seq == 3 {
                        assert_eq!(seen(&mut numbers, end - 1, 1), (false, true), "{round}");
                    }
                }
            }
        }
    }
}
