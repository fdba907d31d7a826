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
use pktgen_core::time::{MS, Time};

use super::{Rows, book_row, sent_row, value};

/// Rows of the first stream that are compared, before and behind the newest one that a row of the second follows.
const REACH: u64 = 1 << 20;

/// Of a hundred rows that are compared, those that do not count, since a damaged packet may name any update.
const DAMAGED_PERCENT: u64 = 1;
/// Of the largest differences, those that are kept at least.
const KEPT: usize = 1 << 14;
/// Where clocks are apart, another update is early by as much as the earliest, give or take this; a damaged packet is alone.
const NEAR: Time = 100 * MS;

/// A row of a stream that is compared: its update and time.
type Event = Option<(PacketId, Time)>;
/// A stream and its reader.
type Stream = (&'static str, fn(&RecordBatch, usize) -> Option<(Time, Event)>);

/// Rows that lie before those that they follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Early {
    /// Rows that lie earlier by more than the bound; 0 if they are so few that damaged packets may be the reason.
    pub(crate) rows: u64,
    /// The largest difference without as many rows as damaged packets may be.
    pub(crate) most: Time,
    /// The largest difference that one of another update is near.
    pub(crate) largest: Time,
}

/// Rows that are compared one after the other.
#[derive(Default)]
struct Comparison {
    compared: u64,
    /// The first update of which a row was compared, and whether rows of others were.
    of: Option<PacketId>,
    several: bool,
    /// Rows that are earlier by more than the bound.
    beyond: u64,
    /// The largest differences above 0, with the updates.
    kept: BinaryHeap<Reverse<(Time, PacketId)>>,
}

impl Comparison {
    fn add(&mut self, update: PacketId, by: Time, bound: Time) {
        self.compared += 1;
        self.several |= *self.of.get_or_insert(update) != update;
        self.beyond += u64::from(by > bound);
        let most = KEPT.max(self.damaged() + 1);
        if by > 0 && (self.kept.len() < most || self.kept.peek().is_some_and(|least| by > least.0.0)) {
            self.kept.push(Reverse((by, update)));
            if self.kept.len() > most {
                self.kept.pop();
            }
        }
    }

    /// Compares the rows of the second stream with those of the first that they follow.
    fn compare(&mut self, first: Stream, second: Stream, dir: &Path, bound: Time) -> Result<()> {
        let (mut first, mut second) = (Rows::open(dir, first.0, first.1)?, Rows::open(dir, second.0, second.1)?);
        // As the books of a device without any: nothing of the second stream could be compared.
        if first.time()?.is_none() {
            return Ok(());
        }
        let mut known: HashMap<PacketId, (u64, Time)> = HashMap::new();
        let mut order: VecDeque<PacketId> = VecDeque::new();
        let (mut read, mut newest) = (0u64, 0u64);
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
            self.add(update, before.saturating_sub(t), bound);
        }
        Ok(())
    }

    /// Returns the rows that damaged packets may be.
    fn damaged(&self) -> usize {
        (self.compared * DAMAGED_PERCENT / 100).max(1) as usize
    }

    fn end(self) -> Early {
        let damaged = self.damaged();
        let rows = if self.beyond > damaged as u64 { self.beyond } else { 0 };
        let kept = self.kept.into_sorted_vec();
        // Room for more came after differences were left out.
        let most = kept.get(damaged).or(kept.last().filter(|_| rows > 0)).map_or(0, |row| row.0.0);
        let is_alone = |(place, row): &(usize, &Reverse<(Time, PacketId)>)| {
            let mut near = kept[place + 1..].iter().take_while(|next| row.0.0 - next.0.0 <= NEAR);
            near.all(|next| next.0.1 == row.0.1)
        };
        // A single update has none beside it.
        let largest = kept.iter().enumerate().find(|row| !self.several || !is_alone(row)).map_or(0, |(_, row)| row.0.0);
        Early { rows, most, largest }
    }
}

/// Returns the arrivals of the run in `dir` before their transmission, counting those earlier by more than `bound`.
pub(crate) fn arrivals(dir: &Path, bound: Time) -> Result<Early> {
    let mut comparison = Comparison::default();
    comparison.compare((SENT, transmission), (RECEIVED, arrival), dir, bound)?;
    Ok(comparison.end())
}

/// Returns the largest time by which rows of the books lie before the transmissions that they follow, or arrivals before departures, if
/// one of another update is near.
pub(crate) fn at_device(dir: &Path) -> Result<Time> {
    let mut comparison = Comparison::default();
    comparison.compare((SENT, transmission), (BOOKS, at_any), dir, Time::MAX)?;
    comparison.compare((BOOKS, departure), (RECEIVED, arrival), dir, Time::MAX)?;
    Ok(comparison.end().largest)
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
    use pktgen_core::time::SECOND;

    use super::*;

    /// A row far before all others is of a damaged packet, also where the clocks are apart.
    #[test]
    fn a_row_that_no_other_is_near_does_not_count() {
        for (apart, largest) in [(-20, 0), (3 * SECOND, 3 * SECOND)] {
            let mut comparison = Comparison::default();
            let update = |row| PacketId::new(0, row, 0);
            (0..1000)
                .for_each(|row| comparison.add(update(row), if row == 7 { 60 * SECOND } else { apart }, Time::MAX));
            // The device has two rows of it.
            comparison.add(update(7), 60 * SECOND - MS, Time::MAX);
            assert_eq!(comparison.end().largest, largest);
        }
        let mut one = Comparison::default();
        one.add(PacketId::new(0, 0, 0), SECOND, Time::MAX);
        assert_eq!(one.end().largest, SECOND, "a run of one update");
    }

    #[test]
    fn a_few_rows_that_damaged_packets_may_be_do_not_count() {
        let of = |differences: &mut dyn Iterator<Item = Time>| {
            let mut comparison = Comparison::default();
            (0..).zip(differences).for_each(|(row, by)| comparison.add(PacketId::new(0, row, 0), by, 3));
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
        assert_eq!((large.rows, large.most, large.largest), (3_984_000, 989, 999));
        // Of the first half, most differences were left out while fewer rows had been compared.
        let ended = of(&mut (0..4_000_000).map(|row| if row < 2_000_000 { 20_000 } else { -20 }));
        assert_eq!((ended.rows, ended.most), (2_000_000, 20_000));
        assert_eq!(of(&mut (0..4_000_000).map(|row| if row % 200 == 7 { 9 } else { -20 })).rows, 0);
    }
}
