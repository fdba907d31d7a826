//! The state of a switch in pieces that fit into packets, so that a controller can move it to a standby switch (LIBRA
//! §3.6, "Failover mechanism"). The layout of registers is not included, since it is configured in advance.
//!
//! A piece contains its kind and sets absolute values, so it may arrive repeatedly. A job's first piece must arrive before those with its
//! results, which are refused otherwise; all others arrive in any order. The switch that takes over begins with [`Libra::forget`].

use crate::format::control::PIECE_MAX;
use crate::format::{HOT_PAIR, RESULT_PAIRS, emit_hot, hot_pairs};
use pktgen_core::record::PacketId;

use super::Libra;
use super::ranks::Ranks;
use super::results::Kept;

/// Maximum length of a piece's contents without its header.
const CONTENT_MAX: usize = PIECE_MAX - 24;

/// First byte of a piece.
mod tag {
    pub const JOB: u8 = 0;
    pub const REGISTERS: u8 = 1;
    pub const WORKER: u8 = 2;
    pub const RECORD: u8 = 3;
    pub(crate) const RESULT: u8 = 4;
    pub(crate) const FILTER: u8 = 5;
}

/// Writes a piece.
struct Writer(Vec<u8>);

impl Writer {
    fn new(tag: u8) -> Self {
        Writer(vec![tag])
    }
    fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }
    fn short(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }
    fn set(self, ranks: &Ranks) -> Self {
        ranks.0.iter().fold(self, |writer, word| writer.number(*word))
    }
    fn maybe(self, number: Option<u64>) -> Self {
        let flag = u32::from(number.is_some());
        self.short(flag).number(number.unwrap_or(0))
    }
    fn pairs(mut self, pairs: &[(u32, f32)]) -> Self {
        let from = self.0.len();
        self.0.resize(from + pairs.len() * HOT_PAIR, 0);
        emit_hot(pairs, &mut self.0[from..]);
        self
    }
}

/// Parses a piece.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }
    fn short(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }
    fn set(&mut self) -> Option<Ranks> {
        Some(Ranks([self.number()?, self.number()?, self.number()?, self.number()?]))
    }
    fn maybe(&mut self) -> Option<Option<u64>> {
        let (flag, number) = (self.short()?, self.number()?);
        Some((flag != 0).then_some(number))
    }
}

impl Libra {
    /// Returns its state: registers, records, ends, and results without acknowledgement.
    pub(super) fn state(&self) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        for (number, job) in (0u32..).zip(&self.jobs) {
            let opener = job.opener.map(|packet| packet.0);
            let first = job.results.iter().next().map_or(job.results.next(), |(number, _)| number);
            let piece = Writer::new(tag::JOB).short(number).maybe(opener).set(&job.ended);
            pieces.push(piece.short(first).short(job.results.next()).maybe(job.finished.map(u64::from)));
            let set: Vec<_> = job.registers.iter().filter(|(_, value)| value.to_bits() != 0).collect();
            let registers = set.chunks(CONTENT_MAX / HOT_PAIR);
            pieces.extend(registers.map(|pairs| Writer::new(tag::REGISTERS).short(number).pairs(pairs)));
            for (result, kept) in job.results.iter() {
                let (part, parts) = kept.part;
                let piece = Writer::new(tag::RESULT).short(number).short(result).maybe(kept.opener.map(|p| p.0));
                let piece = piece.short(u32::from(part) << 16 | u32::from(parts)).short(kept.iteration);
                let piece = piece.set(&kept.missing);
                let piece = piece.short(kept.attempt.into()).number(kept.due.cast_unsigned());
                pieces.push(piece.pairs(kept.pairs()));
            }
            let words = job.bloom.as_ref().map_or(&[][..], |bloom| &bloom.words);
            for (at, words) in (0u32..).zip(words.chunks(CONTENT_MAX / 8)) {
                if words.iter().any(|word| *word != 0) {
                    let piece = Writer::new(tag::FILTER).short(number).short(at * (CONTENT_MAX / 8) as u32);
                    pieces.push(words.iter().fold(piece, |piece, word| piece.number(*word)));
                }
            }
        }
        self.records(&mut pieces);
        pieces.into_iter().map(|writer| writer.0).collect()
    }

    fn records(&self, pieces: &mut Vec<Writer>) {
        for (worker, member) in (0u32..).zip(&self.members) {
            let (floor, top) = member.record.bounds();
            let ended = member.ended.map(u64::from);
            let piece = Writer::new(tag::WORKER).short(worker).short(floor).short(top).maybe(ended);
            pieces.push(piece.short(u32::from(member.record.is_open())));
            let numbers: Vec<u32> = (member.record.span().0..top).collect();
            for numbers in numbers.chunks(CONTENT_MAX) {
                let mut piece = Writer::new(tag::RECORD).short(worker).short(numbers[0]);
                piece.0.extend(numbers.iter().map(|number| member.record.raw(*number)));
                pieces.push(piece);
            }
        }
    }

    /// Forgets everything, so that pieces of another switch's state may follow.
    pub(super) fn forget(&mut self) {
        self.timers.clear();
        let fresh = super::Job::all(self.jobs.len() as u16, &self.place, &self.known, &self.settings);
        self.jobs = fresh;
        let worker = |worker| super::Member::new(worker, &self.place, &self.known, &self.settings);
        self.members = (0..self.known.sparse.workers()).map(worker).collect();
    }

    /// Takes over a piece of another switch's state; returns false if it is invalid or from a switch with another configuration.
    pub(super) fn restore(&mut self, piece: &[u8]) -> bool {
        let Some((tag, content)) = piece.split_first() else { return false };
        let mut reader = Reader(content);
        let Some(whose) = reader.short() else { return false };
        match *tag {
            tag::JOB => self.restore_job(whose, &mut reader),
            tag::REGISTERS => self.restore_registers(whose, &reader),
            tag::RESULT => self.restore_result(whose, &mut reader),
            tag::FILTER => self.restore_filter(whose, &mut reader),
            tag::WORKER => self.restore_worker(whose, &mut reader),
            tag::RECORD => self.restore_record(whose, &mut reader),
            _ => None,
        }
        .is_some()
    }

    fn restore_job(&mut self, job: u32, reader: &mut Reader) -> Option<()> {
        let job = self.jobs.get_mut(job as usize)?;
        let (opener, ended, first, next) = (reader.maybe()?, reader.set()?, reader.short()?, reader.short()?);
        let finished = reader.maybe()?.map(|iteration| iteration as u32);
        job.opener = opener.map(PacketId);
        job.ended = ended;
        job.finished = finished;
        job.results.span(first, next).then_some(())
    }

    fn restore_registers(&mut self, job: u32, reader: &Reader) -> Option<()> {
        let job = self.jobs.get_mut(job as usize)?;
        hot_pairs(reader.0).for_each(|(index, value)| job.registers.set(index, value));
        Some(())
    }

    fn restore_result(&mut self, number: u32, reader: &mut Reader) -> Option<()> {
        let job = self.jobs.get_mut(number as usize)?;
        let (result, opener, parts, iteration) = (reader.short()?, reader.maybe()?, reader.short()?, reader.short()?);
        let (missing, attempt, due) = (reader.set()?, reader.short()?.min(255) as u8, reader.number()?.cast_signed());
        let pairs: Vec<_> = hot_pairs(reader.0).take(RESULT_PAIRS).collect();
        let part = ((parts >> 16) as u16, parts as u16);
        let mut kept = Kept::new(opener.map(PacketId), (part, iteration), missing, due, &pairs);
        kept.attempt = attempt;
        let again = job.results.get(result).is_some();
        job.results.restore(result, kept).then_some(())?;
        if !again {
            self.timers.push(due, number as u16, result, attempt);
        }
        Some(())
    }

    fn restore_filter(&mut self, job: u32, reader: &mut Reader) -> Option<()> {
        let from = reader.short()? as usize;
        let words = &mut self.jobs.get_mut(job as usize)?.bloom.as_mut()?.words;
        for word in words.get_mut(from..)? {
            let Some(moved) = reader.number() else { break };
            *word = moved;
        }
        reader.0.is_empty().then_some(())
    }

    fn restore_worker(&mut self, worker: u32, reader: &mut Reader) -> Option<()> {
        let member = self.members.get_mut(worker as usize)?;
        let (floor, top, ended) = (reader.short()?, reader.short()?, reader.maybe()?);
        if reader.short()? != 0 {
            member.record.open(self.known.window);
        }
        member.ended = ended.map(|iteration| iteration as u32);
        member.record.set_bounds(floor, top).then_some(())
    }

    fn restore_record(&mut self, worker: u32, reader: &mut Reader) -> Option<()> {
        let member = self.members.get_mut(worker as usize)?;
        let from = reader.short()?;
        (0u32..).zip(reader.0).for_each(|(i, raw)| member.record.set_raw(from.wrapping_add(i), *raw));
        Some(())
    }
}
