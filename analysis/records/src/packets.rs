//! The packets of a run, one entry of 26 bytes per transmission, found by their ids without a hash map where sequence numbers are dense.
//!
//! Called by [`crate::fates`]. Packets of one worker are numbered in blocks of 64 sequence numbers, so that the number
//! determines the worker, and a table per worker contains the numbers: 28 bytes per packet in total. Other packets
//! (retransmissions, gaps, implausible numbers) are numbered individually and found by a map. Times are stored exactly:
//! as spans of 40 bits, with longer ones in a separate map.

use std::collections::BTreeMap;

use pktgen_core::index::{Index, NOWHERE};
use pktgen_core::record::PacketId;
use pktgen_core::{Error, Result};

use crate::columns::SentColumns;
use crate::fates::{Fate, is_update};

/// Number of sequence numbers in a block, as a power of two.
const BLOCK_LOG: u32 = 6;
const BLOCK: usize = 1 << BLOCK_LOG;
/// Memory per transmission in bytes, including blocks and tables.
pub(crate) const BYTES: u64 = size_of::<Packet>() as u64 + 2;

/// State of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// There is no such packet.
    Absent = 0,
    /// It travels under its own id, with its members.
    Open = 1,
    /// It is a member of another packet.
    Joined = 2,
    /// It was delivered.
    Delivered = 3,
    /// It ended in another way.
    Ended = 4,
}

const STATES: [State; 8] = {
    use State::{Absent, Delivered, Ended, Joined, Open};
    [Absent, Open, Joined, Delivered, Ended, Absent, Absent, Absent]
};
/// Bits of the packet's state byte.
const STATE: u8 = 7;
const UPDATE: u8 = 1 << 3;
const REPEATED: u8 = 1 << 4;

/// A span in 40 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed)]
struct Span(u32, u8);

const NONE: Span = Span(u32::MAX, u8::MAX);
/// Marks a span that is too long for 40 bits and stored separately.
const FAR: Span = Span(u32::MAX - 1, u8::MAX);

impl Span {
    #[inline]
    fn of(ps: i64) -> Option<Span> {
        let (low, high) = (ps as u32, ps >> 32);
        (0..i64::from(u8::MAX)).contains(&high).then_some(Span(low, high as u8))
    }

    #[inline]
    fn ps(self) -> i64 {
        i64::from(self.1) << 32 | i64::from(self.0)
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(C, packed)]
struct Packet {
    /// Generation time.
    t_gen: i64,
    /// Span from generation to its first bit; [`NONE`] if it was withheld.
    sent: Span,
    /// Span from generation to its arrival at its present device.
    arrived: Span,
    /// The next packet in the circular list of packets that travel together.
    next: u32,
    /// The device that has it.
    node: u16,
    /// Code of its fate.
    fate: u8,
    state: u8,
}

const ABSENT: Packet = Packet { t_gen: 0, sent: NONE, arrived: NONE, next: NOWHERE, node: 0, fate: 0, state: 0 };

/// The packets in a block.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// The worker, or [`NOWHERE`] for individually numbered packets.
    worker: u32,
    /// The first sequence number, or the index of the first packet in [`PacketTable::loose`].
    first: u32,
}

/// See the module documentation. The numbers of packets do not follow their order in files.
#[derive(Debug, Default)]
pub(crate) struct PacketTable {
    all: Vec<Packet>,
    blocks: Vec<Block>,
    /// By worker, the first number of each of its blocks in the order of sequence numbers.
    places: Vec<Vec<u32>>,
    /// Individually numbered packets: id and worker.
    loose: Vec<(u64, u32)>,
    /// The numbers of these packets by id, and the first number of the block that is being filled.
    by_id: Index,
    loose_at: u32,
    /// Spans that are too long, by packet number: those of sending and of arrival.
    far: [BTreeMap<u32, i64>; 2],
    /// Number of rows read.
    rows: u64,
    /// Number of ids shared by two rows.
    twice: u64,
    last_attempt: u8,
}

impl PacketTable {
    /// Adds transmissions.
    pub(crate) fn read(&mut self, sent: &SentColumns) -> Result<()> {
        for row in 0..sent.worker.len() {
            let (worker, seq, attempt) = (sent.worker[row], sent.seq[row], sent.attempt[row]);
            let number = self.place(worker, seq, attempt)?;
            let t_gen = sent.t_gen_ps[row];
            let update = if is_update(sent.cluster[row]) { UPDATE } else { 0 };
            let repeated = if attempt > 0 { REPEATED } else { 0 };
            let packet = &mut self.all[number as usize];
            *packet = Packet { t_gen, next: number, state: State::Open as u8 | update | repeated, ..ABSENT };
            packet.sent = match sent.t_sent_ps[row] {
                None => NONE,
                Some(t) => Span::of(t.wrapping_sub(t_gen)).unwrap_or_else(|| {
                    self.far[0].insert(number, t);
                    FAR
                }),
            };
        }
        Ok(())
    }

    /// Assigns a number to a transmission.
    fn place(&mut self, worker: u32, seq: u32, attempt: u8) -> Result<u32> {
        self.rows += 1;
        self.last_attempt = self.last_attempt.max(attempt);
        let id = PacketId::new(worker, seq, attempt).0;
        if let Some(known) = self.number(id) {
            // Two rows with one id cannot be distinguished later: the id refers to the later one.
            self.twice += 1;
            return self.move_away(known);
        }
        let (block, within) = ((seq >> BLOCK_LOG) as usize, seq & (BLOCK as u32 - 1));
        if attempt == 0 && self.may_have(worker, block) {
            if self.places.len() <= worker as usize {
                self.places.resize(worker as usize + 1, Vec::new());
            }
            let own = &mut self.places[worker as usize];
            if own.len() <= block {
                own.resize(block + 1, NOWHERE);
            }
            if own[block] == NOWHERE {
                own[block] = self.all.len() as u32;
                self.open(Block { worker, first: seq - within })?;
            }
            return Ok(self.places[worker as usize][block] + within);
        }
        let number = self.loose_number(id, worker)?;
        self.by_id.insert(id, number);
        Ok(number)
    }

    /// Whether a block is worth its memory: damaged rows do not make tables grow.
    fn may_have(&self, worker: u32, block: usize) -> bool {
        let room = 2 * self.rows as usize + (1 << 16);
        if worker as usize >= room.min(PacketId::WORKERS_MAX as usize) {
            return false;
        }
        let own = self.places.get(worker as usize).map_or(&[][..], Vec::as_slice);
        own.get(block).is_some_and(|place| *place != NOWHERE)
            || (block < 2 * own.len() + 64 && self.all.len() <= 3 * self.rows as usize + (1 << 16))
    }

    fn open(&mut self, block: Block) -> Result<()> {
        if self.all.len() >= NOWHERE as usize - BLOCK {
            return Err(Error::config(format!("a run of more than {} transmissions is not analysed", u32::MAX)));
        }
        self.blocks.push(block);
        self.all.resize(self.all.len() + BLOCK, ABSENT);
        Ok(())
    }

    fn loose_number(&mut self, id: u64, worker: u32) -> Result<u32> {
        let at = self.loose.len();
        if at.is_multiple_of(BLOCK) {
            self.open(Block { worker: NOWHERE, first: at as u32 })?;
            self.loose_at = (self.all.len() - BLOCK) as u32;
        }
        self.loose.push((id, worker));
        Ok(self.loose_at + (at % BLOCK) as u32)
    }

    /// Frees the id of packet `known` for a new row by giving the packet another number that no id leads to.
    fn move_away(&mut self, known: u32) -> Result<u32> {
        let (id, worker) = (self.id(known), self.worker(known));
        let number = self.loose_number(id.0, worker)?;
        self.all[number as usize] = Packet { next: number, ..self.all[known as usize] };
        if let Some(t) = self.far[0].remove(&known) {
            self.far[0].insert(number, t);
        }
        Ok(known)
    }

    /// Returns the number of the packet with `id`.
    #[inline]
    pub(crate) fn number(&self, id: u64) -> Option<u32> {
        let named = PacketId(id);
        if named.attempt() == 0 {
            let (block, within) = ((named.seq() >> BLOCK_LOG) as usize, named.seq() & (BLOCK as u32 - 1));
            let place = self.places.get(named.worker() as usize).and_then(|own| own.get(block));
            if let Some(number) = place.filter(|place| **place != NOWHERE).map(|place| place + within)
                && self.state(number) != State::Absent
            {
                return Some(number);
            }
        }
        if self.loose.is_empty() { None } else { self.by_id.get(&id).copied() }
    }

    /// Returns a limit of packet numbers.
    pub(crate) fn numbers(&self) -> usize {
        self.all.len()
    }

    /// Returns the highest attempt of all packets.
    pub(crate) fn last_attempt(&self) -> u8 {
        self.last_attempt
    }

    /// Returns the number of repeated ids.
    pub(crate) fn twice(&self) -> u64 {
        self.twice
    }

    /// Returns the worker of a packet.
    #[inline]
    pub(crate) fn worker(&self, number: u32) -> u32 {
        let block = self.blocks[(number >> BLOCK_LOG) as usize];
        match block.worker {
            NOWHERE => self.loose[(block.first + number % BLOCK as u32) as usize].1,
            worker => worker,
        }
    }

    /// Returns the id of a packet.
    pub(crate) fn id(&self, number: u32) -> PacketId {
        let (block, within) = (self.blocks[(number >> BLOCK_LOG) as usize], number % BLOCK as u32);
        match block.worker {
            NOWHERE => PacketId(self.loose[(block.first + within) as usize].0),
            worker => PacketId::new(worker, block.first + within, 0),
        }
    }

    #[inline]
    pub(crate) fn state(&self, number: u32) -> State {
        STATES[usize::from(self.all[number as usize].state & STATE)]
    }

    #[inline]
    pub(crate) fn set_state(&mut self, number: u32, state: State) {
        let packet = &mut self.all[number as usize];
        packet.state = packet.state & !STATE | state as u8;
    }

    #[inline]
    pub(crate) fn fate(&self, number: u32) -> Fate {
        let packet = self.all[number as usize];
        // Without events, only the send time shows whether it was withheld.
        if packet.fate == 0 && packet.sent == NONE { Fate::Withheld } else { Fate::coded(packet.fate) }
    }

    /// Records that an event mentions the packet, which proves that it was sent, regardless of its send time.
    #[inline]
    pub(crate) fn mention(&mut self, number: u32) {
        if self.fate(number) == Fate::Withheld {
            self.set_fate(number, Fate::InFlight);
        }
    }

    #[inline]
    pub(crate) fn set_fate(&mut self, number: u32, fate: Fate) {
        self.all[number as usize].fate = fate.code();
    }

    /// Whether it belongs to a cluster, not to background traffic.
    #[inline]
    pub(crate) fn is_update(&self, number: u32) -> bool {
        self.all[number as usize].state & UPDATE != 0
    }

    /// Whether it is a later attempt of an update.
    pub(crate) fn is_repeated(&self, number: u32) -> bool {
        self.all[number as usize].state & REPEATED != 0
    }

    /// Returns its generation time.
    #[inline]
    pub(crate) fn t_gen(&self, number: u32) -> i64 {
        self.all[number as usize].t_gen
    }

    /// Returns the time of its first bit; `None` if it was withheld.
    #[inline]
    pub(crate) fn t_sent(&self, number: u32) -> Option<i64> {
        let packet = self.all[number as usize];
        self.time(number, packet, packet.sent, 0)
    }

    #[inline]
    fn time(&self, number: u32, packet: Packet, span: Span, which: usize) -> Option<i64> {
        if span == NONE {
            None
        } else if span == FAR {
            self.far[which].get(&number).copied()
        } else {
            Some(packet.t_gen.wrapping_add(span.ps()))
        }
    }

    /// Records an event in a device: the first one is the arrival of the last bit.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u32, (node, t): (u16, i64)) {
        let packet = &mut self.all[number as usize];
        if packet.arrived != NONE && packet.node == node {
            return;
        }
        packet.node = node;
        packet.arrived = Span::of(t.wrapping_sub(packet.t_gen)).unwrap_or_else(|| {
            self.far[1].insert(number, t);
            FAR
        });
    }

    /// Records the departure from its present device; returns the time of arrival there.
    #[inline]
    pub(crate) fn depart(&mut self, number: u32) -> Option<i64> {
        let packet = self.all[number as usize];
        let since = self.time(number, packet, packet.arrived, 1);
        if packet.arrived == FAR {
            self.far[1].remove(&number);
        }
        self.all[number as usize].arrived = NONE;
        since
    }

    /// Joins the circular lists of two packets in different lists.
    #[inline]
    pub(crate) fn join(&mut self, a: u32, b: u32) {
        let (of_a, of_b) = (self.all[a as usize].next, self.all[b as usize].next);
        (self.all[a as usize].next, self.all[b as usize].next) = (of_b, of_a);
    }

    /// Returns the next packet in its circular list.
    #[inline]
    pub(crate) fn next(&self, number: u32) -> u32 {
        self.all[number as usize].next
    }

    /// Returns all packets.
    pub(crate) fn present(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.all.len() as u32).filter(|number| self.state(*number) != State::Absent)
    }
}
