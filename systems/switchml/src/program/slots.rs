//! The registers of one job: slots in two sets, as in the public P4 program. The program calls it for every packet with a known sender.
//!
//! A packet for one set sets its worker's bit there and clears it in the other set: reuse of a slot by a worker shows
//! that it has the previous result. There are no other versions; the packet's number is only echoed. A duplicate so
//! late that its worker has moved on is therefore added as if it were new, removes the worker's bit from the set in
//! progress, and makes the sums of both sets wrong. Clients whose windows are clocked by results, on links that keep
//! the order, never send one. `check` (our choice) refuses all packets that could do this, on any network.

use crate::format::Header;
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_wire::wire::integers::{add_values, set_values};

use pktgen_engine::frame::Frame;
use pktgen_engine::target::books::Books;

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was added to the sum.
    Kept,
    /// It was added to the sum and completes it: the result goes to every worker.
    Last,
    /// It already was in the sum, which is complete: the result goes to its worker once more.
    Answer,
    /// It already was in the sum, which is incomplete.
    Duplicate,
    /// Its worker already has the result, or cannot have advanced this far.
    Stale,
}

/// One slot of one set.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Workers whose last packet for the slot was for this set.
    bitmap: u32,
    /// Sources whose packet is in `members`.
    held: u32,
    /// Packet number of the sum; meaningless before the first packet.
    number: u32,
    /// Number of missing packets; 0 before the first one and when the sum is complete.
    left: u8,
    used: bool,
    exponents: [i8; 2],
    /// The packet that represents the last result.
    result: PacketId,
}

const EMPTY: Cell =
    Cell { bitmap: 0, held: 0, number: 0, left: 0, used: false, exponents: [0; 2], result: PacketId(0) };

/// The slots of one job.
pub(super) struct Slots {
    workers: u8,
    elements: usize,
    check: bool,
    /// By slot and set.
    cells: Vec<Cell>,
    sums: Vec<i32>,
    /// By cell and source: the packet in the sum.
    members: Vec<PacketId>,
    in_use: u64,
    /// Maximum number of incomplete sums at once.
    pub(super) in_use_max: u64,
    /// Number of packets whose sum was overwritten: 0 with `check`.
    pub(super) overwritten: u64,
}

/// Returns the index of a packet's cell.
#[inline]
fn index(header: &Header) -> usize {
    usize::from(header.slot) * 2 + usize::from(header.set)
}

impl Slots {
    /// Creates `pool` slots in each set for `workers` workers, at most [`WORKERS_MAX`](crate::format::WORKERS_MAX).
    pub(super) fn new(pool: u16, elements: u16, workers: u8, check: bool) -> Self {
        let cells = usize::from(pool) * 2;
        Slots {
            workers,
            elements: usize::from(elements),
            check,
            cells: vec![EMPTY; cells],
            sums: vec![0; cells * usize::from(elements)],
            members: vec![PacketId(0); cells * usize::from(workers)],
            in_use: 0,
            in_use_max: 0,
            overwritten: 0,
        }
    }

    /// Processes a packet of the source with this index in the job, for an existing slot. Rows are at `frame.t`; a
    /// packet that is in no sum gets none here.
    pub(super) fn offer(
        &mut self,
        source: u8,
        header: &Header,
        frame: &Frame,
        values: &[u8],
        books: &mut Books,
    ) -> Verdict {
        let (at, bit) = (index(header), 1u32 << source);
        if self.check && self.is_stale(at, bit, header.packet) {
            return Verdict::Stale;
        }
        // One access to the pair of bitmaps (bitmap_checker.p4).
        let before = self.cells[at].bitmap;
        self.cells[at].bitmap |= bit;
        self.cells[at ^ 1].bitmap &= !bit;
        if before & bit != 0 {
            return if self.cells[at].left == 0 { Verdict::Answer } else { Verdict::Duplicate };
        }
        let last = self.count(at);
        books.passes(frame.t, frame, Action::Queued);
        self.add(at, before == 0, header, values, frame, books);
        self.remember(at, source, frame, books);
        if last {
            self.close(at, frame, books);
            return Verdict::Last;
        }
        Verdict::Kept
    }

    /// With `check`: whether the packet would be added to a sum other than its own.
    ///
    /// Numbers grow along a slot, so a sum is identified by its number. Refused are a number that differs from that of the sum in
    /// progress; a number that is not newer than a complete one's, or is equal although its worker has moved on; a newer number while a
    /// worker may still request the complete sum; and a packet that would remove a contribution to a sum in progress in the other set.
    fn is_stale(&self, at: usize, bit: u32, number: u32) -> bool {
        let (cell, other) = (&self.cells[at], &self.cells[at ^ 1]);
        let refused = match (cell.left != 0, cell.number == number) {
            _ if !cell.used => false,
            (true, same) => !same,
            (false, true) => cell.bitmap & bit == 0,
            (false, false) => cell.bitmap != 0 || number.wrapping_sub(cell.number) > i32::MAX as u32,
        };
        refused || (other.left != 0 && other.bitmap & bit != 0)
    }

    /// Counts a new packet; returns whether it is the last one (workers_counter.p4, including jobs of one worker).
    fn count(&mut self, at: usize) -> bool {
        let cell = &mut self.cells[at];
        let before = cell.left;
        cell.left = if before == 0 { self.workers - 1 } else { before - 1 };
        let last = before == 1 || self.workers == 1;
        if before == 0 && !last {
            self.in_use += 1;
            self.in_use_max = self.in_use_max.max(self.in_use);
        } else if before == 1 {
            self.in_use -= 1;
        }
        last
    }

    /// Overwrites the registers with the first packet and adds the others, with wrap-around.
    fn add(&mut self, at: usize, first: bool, header: &Header, values: &[u8], frame: &Frame, books: &mut Books) {
        let sums = &mut self.sums[at * self.elements..][..self.elements];
        let cell = &mut self.cells[at];
        let [e0, e1] = &mut cell.exponents;
        (cell.number, cell.used) = (header.packet, true);
        if !first {
            add_values(sums, values);
            (*e0, *e1) = ((*e0).max(header.exponent), (*e1).max(header.attempt));
            return;
        }
        set_values(sums, values);
        (*e0, *e1) = (header.exponent, header.attempt);
        // Sources in the sum removed their bits: their contributions are lost.
        let members = &self.members[at * usize::from(self.workers)..];
        for source in bits(std::mem::take(&mut cell.held)) {
            books.dropped(frame.t, &Frame { packet: members[source], ..*frame }, Reason::Stale, None);
            self.overwritten += 1;
        }
    }

    fn remember(&mut self, at: usize, source: u8, frame: &Frame, books: &mut Books) {
        let cell = &mut self.cells[at];
        let member = &mut self.members[at * usize::from(self.workers) + usize::from(source)];
        if cell.held & (1 << source) != 0 {
            // Without `check`: both are in the sum.
            books.yields(frame.t, *member, Action::Merged, frame.packet);
        }
        *member = frame.packet;
        cell.held |= 1 << source;
    }

    /// Completes the sum: the packet of the lowest source represents all.
    fn close(&mut self, at: usize, frame: &Frame, books: &mut Books) {
        let members = &self.members[at * usize::from(self.workers)..];
        let cell = &mut self.cells[at];
        let mut sources = bits(std::mem::take(&mut cell.held));
        if let Some(lowest) = sources.next() {
            cell.result = members[lowest];
        }
        sources.for_each(|source| books.yields(frame.t, members[source], Action::Merged, cell.result));
    }

    /// Returns the answer to a packet: the packet that represents the result, its header, and the sum.
    pub(super) fn answer(&self, asked: &Header) -> (PacketId, Header, &[i32]) {
        let at = index(asked);
        let cell = &self.cells[at];
        let [exponent, attempt] = cell.exponents;
        (cell.result, Header { exponent, attempt, ..*asked }, &self.sums[at * self.elements..][..self.elements])
    }
}

/// Returns the indices of the bits that are set, from the lowest.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(lowest)
    })
}
