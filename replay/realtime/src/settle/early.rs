//! How far rows of a joined run lie before the rows that they follow: at least so far apart are the clocks of its parts.
//!
//! Rows are compared by worker and sequence number, with the earliest attempt: no attempt is earlier than the first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::arrow::array::RecordBatch;
use pktgen_core::arrow::datatypes::{Int64Type, UInt64Type};
use pktgen_core::record::{Action, BOOKS, PacketId, RECEIVED, SENT};
use pktgen_core::time::Time;

use super::{Rows, book_row, sent_row, value};

/// Rows of the first stream that are compared, before and behind the newest one that a row of the second follows.
const REACH: u64 = 1 << 20;

/// Of a hundred rows that are compared, those that do not count, since a damaged packet may name any update.
const DAMAGED_PERCENT: u64 = 1;
/// Of the largest differences, those that are kept.
const KEPT: usize = 1 << 14;

/// A row of a stream that is compared: its update and time.
type Event = Option<(PacketId, Time)>;

/// Rows that lie before those that they follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Early {
    /// Rows that lie earlier by more than the bound; 0 if they are so few that damaged packets may be the reason.
    pub(crate) rows: u64,
    /// The largest difference without as many rows as damaged packets may be.
    pub(crate) most: Time,
    /// The largest difference.
    pub(crate) largest: Time,
}

/// Rows that are compared one after the other.
#[derive(Default)]
struct Comparison {
    compared: u64,
    /// Rows that are earlier by more than the bound.
    beyond: u64,
    /// The largest differences above 0.
    kept: BinaryHeap<Reverse<Time>>,
    largest: Time,
}

impl Comparison {
    fn add(&mut self, by: Time, bound: Time) {
        self.compared += 1;
        self.beyond += u64::from(by > bound);
        self.largest = self.largest.max(by);
        if by > 0 && (self.kept.len() < KEPT || self.kept.peek().is_some_and(|least| by > least.0)) {
            self.kept.push(Reverse(by));
            if self.kept.len() > KEPT {
                self.kept.pop();
            }
        }
    }

    fn end(self) -> Early {
        let damaged = (self.compared * DAMAGED_PERCENT / 100).max(1);
        let rows = if self.beyond > damaged { self.beyond } else { 0 };
        let most = self.kept.into_sorted_vec().get((damaged as usize).min(KEPT - 1)).map_or(0, |by| by.0);
        Early { rows, most, largest: self.largest }
    }
}

/// Returns the arrivals of the run in `dir` before their transmission, counting those earlier by more than `bound`.
pub(crate) fn arrivals(dir: &Path, bound: Time) -> Result<Early> {
    compared(Rows::open(dir, SENT, transmission)?, Rows::open(dir, RECEIVED, arrival)?, bound)
}

/// Returns the largest time by which rows of the books lie before the transmissions that they follow, or arrivals before departures.
pub(crate) fn at_device(dir: &Path) -> Result<Time> {
    let behind = compared(Rows::open(dir, SENT, transmission)?, Rows::open(dir, BOOKS, at_any)?, Time::MAX)?;
    let ahead = compared(Rows::open(dir, BOOKS, departure)?, Rows::open(dir, RECEIVED, arrival)?, Time::MAX)?;
    Ok(behind.largest.max(ahead.largest))
}

fn compared(mut first: Rows<Event>, mut second: Rows<Event>, bound: Time) -> Result<Early> {
    let mut known: HashMap<PacketId, (u64, Time)> = HashMap::new();
    let mut order: VecDeque<PacketId> = VecDeque::new();
    let (mut read, mut newest, mut comparison) = (0u64, 0u64, Comparison::default());
    while second.time()?.is_some() {
        let Some((_, Some((update, t)))) = second.next() else { continue };
        while !known.contains_key(&update) && read < newest + REACH && first.time()?.is_some() {
            if let Some((_, Some((update, t)))) = first.next() {
                known.entry(update).or_insert((read, t));
                order.push_back(update);
                read += 1;
            }
        }
        let Some((at, before)) = known.get(&update).copied() else { continue };
        newest = newest.max(at);
        while read - order.len() as u64 + REACH < newest {
            let (oldest, update) = (read - order.len() as u64, order.pop_front());
            let is_first = |update: &PacketId| known.get(update).is_some_and(|(at, _)| *at == oldest);
            if let Some(update) = update.filter(is_first) {
                known.remove(&update);
            }
        }
        comparison.add(before.saturating_sub(t), bound);
    }
    Ok(comparison.end())
}

/// Returns the id of the first attempt.
fn update_of(packet: PacketId) -> PacketId {
    PacketId::new(packet.worker(), packet.seq(), 0)
}

fn transmission(batch: &RecordBatch, row: usize) -> Option<(Time, Event)> {
    let (t, sent) = sent_row(batch, row)?;
    Some((t, sent.left.then(|| (PacketId::new(sent.worker, sent.seq, 0), t))))
}

fn at_any(batch: &RecordBatch, row: usize) -> Option<(Time, Event)> {
    let (t, book) = book_row(batch, row)?;
    Some((t, Some((update_of(book.packet_in), t))))
}

fn departure(batch: &RecordBatch, row: usize) -> Option<(Time, Event)> {
    let (t, book) = book_row(batch, row)?;
    Some((t, (book.action == Action::Departed).then(|| (update_of(book.packet_in), t))))
}

fn arrival(batch: &RecordBatch, row: usize) -> Option<(Time, Event)> {
    let t = value::<Int64Type>(batch, "t_recv_ps", row)??;
    let packet = PacketId(value::<UInt64Type>(batch, "packet", row)??);
    Some((t, Some((update_of(packet), t))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_rows_that_damaged_packets_may_be_do_not_count() {
        let of = |differences: &mut dyn Iterator<Item = Time>| {
            let mut comparison = Comparison::default();
            differences.for_each(|by| comparison.add(by, 3));
            comparison.end()
        };
        let few = of(&mut (0..1000).map(|row| if row % 100 == 7 { 1_000_000 } else { -20 }));
        assert_eq!(few, Early { rows: 0, most: 0, largest: 1_000_000 });
        let all = of(&mut (0..1000).map(|row| if row % 100 == 7 { 1_000_000 } else { 5 }));
        assert_eq!(all, Early { rows: 1000, most: 5, largest: 1_000_000 });
        let many = of(&mut (0..1000).map(|row| if row % 50 == 7 { 9 } else { -20 }));
        assert_eq!(many, Early { rows: 20, most: 9, largest: 9 });
        // More rows than differences are kept: one in a hundred is 40,000.
        let large = of(&mut (0..4_000_000).map(|row| row % 1000));
        assert_eq!((large.rows, large.most, large.largest), (3_984_000, 995, 999));
        assert_eq!(of(&mut (0..4_000_000).map(|row| if row % 200 == 7 { 9 } else { -20 })).rows, 0);
    }
}
