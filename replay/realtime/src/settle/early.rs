//! How far rows of a joined run lie before the rows that they follow: at least so far apart are the clocks of its parts.
//!
//! Rows are compared by worker and sequence number, with the earliest attempt: no attempt is earlier than the first.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::arrow::array::RecordBatch;
use pktgen_core::arrow::datatypes::{Int64Type, UInt64Type};
use pktgen_core::record::{Action, BOOKS, PacketId, RECEIVED, SENT};
use pktgen_core::time::Time;

use super::{Rows, book_row, sent_row, value};

/// Rows of the first stream that are compared, before and behind the newest one that a row of the second follows.
const REACH: u64 = 1 << 20;

/// A row of a stream that is compared: its update and time.
type Event = Option<(PacketId, Time)>;

/// Rows that lie before those that they follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Early {
    /// Their number, of rows that lie earlier by more than the bound.
    pub(crate) rows: u64,
    /// The largest difference; 0 without such rows.
    pub(crate) most: Time,
}

/// Returns the arrivals of the run in `dir` before their transmission, counting those earlier by more than `bound`.
pub(crate) fn arrivals(dir: &Path, bound: Time) -> Result<Early> {
    compared(Rows::open(dir, SENT, transmission)?, Rows::open(dir, RECEIVED, arrival)?, bound)
}

/// Returns the largest time by which rows of the books lie before the transmissions that they follow, or arrivals before departures.
pub(crate) fn at_device(dir: &Path) -> Result<Time> {
    let behind = compared(Rows::open(dir, SENT, transmission)?, Rows::open(dir, BOOKS, at_any)?, Time::MAX)?;
    let ahead = compared(Rows::open(dir, BOOKS, departure)?, Rows::open(dir, RECEIVED, arrival)?, Time::MAX)?;
    Ok(behind.most.max(ahead.most))
}

fn compared(mut first: Rows<Event>, mut second: Rows<Event>, bound: Time) -> Result<Early> {
    let mut known: HashMap<PacketId, (u64, Time)> = HashMap::new();
    let mut order: VecDeque<PacketId> = VecDeque::new();
    let (mut read, mut newest, mut early) = (0u64, 0u64, Early::default());
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
        let by = before.saturating_sub(t);
        early.rows += u64::from(by > bound);
        early.most = early.most.max(by);
    }
    Ok(early)
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
