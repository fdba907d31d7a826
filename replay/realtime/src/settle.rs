//! Settling the account of a run in real time from its records: the fates of all updates, and the correctness of all sums.
//!
//! The three streams are merged in the order of time (at equal times, sent rows before books before received rows) and
//! passed to the ledger, with the gradients that the source recomputes.

pub(crate) mod early;
mod sums;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use pktgen_core::arrow::array::{Array, AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{
    ArrowPrimitiveType, Float32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pktgen_core::record::{
    Action, BOOKS, Book, FileDigests, Heat, Manifest, Name, PAYLOADS, PacketId, RECEIVED, RESULTS, Reason, SENT, SumOk,
};
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::update::elements_in;
use pktgen_workload::lanes::Layout;
use pktgen_workload::workload::{Source, Update, raw};

use crate::capture::Names;
use crate::endpoint::rounds::PartialResults;
use crate::ledger::{Carried, DuePacket, Ledger, Proven, Receipt, head_digest};
use sums::Open;
pub(crate) use sums::{SumFound, WrongSum};

/// Maximum bytes of updates whose rows may come later than those of younger ones: of a sender that is behind, or was killed.
const AHEAD_BYTES: usize = 1 << 30;
/// What the map needs beside the values of one.
const AHEAD_EACH: usize = 96;

/// The settled account of a run.
pub struct Settled {
    /// The account, not yet closed.
    pub ledger: Ledger,
    /// Packets whose gradients equal the sum of their members', bit for bit, and those that do not.
    pub sums: [u64; 2],
    /// Rows of `sent` that are unknown to the source.
    pub unknown: u64,
    /// Digests of streams that settling wrote.
    pub files: FileDigests,
    /// By row of `received`: packets whose sums only lanes can prove.
    open: Vec<Open>,
}

/// A received packet and its verdict.
pub(crate) struct PacketSeen<'a> {
    /// Row of `received`.
    pub(crate) row: usize,
    /// Its record.
    pub(crate) received: &'a ReceivedRow,
    /// Its expected content, if known.
    pub(crate) expected: Option<DuePacket>,
    /// Whether its content is correct.
    pub(crate) verdict: SumOk,
    /// Whether nobody sent it, or it had already ended.
    pub(crate) strange: bool,
    /// Whether it had arrived before.
    pub(crate) again: bool,
    /// Whether it is of one update and differs from it (device without books).
    pub(crate) damaged: bool,
}

/// The lanes of a run whose sums they may prove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LanesOf {
    layout: Layout,
    /// Whether times have the tolerance of clocks that run by themselves.
    real_time: bool,
}

impl LanesOf {
    /// Returns those of a run with lanes and a device without books.
    pub(crate) fn checkable(manifest: &Manifest) -> Option<Self> {
        let layout = manifest.lanes.filter(|_| manifest.external.is_some())?;
        Some(LanesOf { layout, real_time: manifest.is_real_time() })
    }
}

/// Called with received packets.
type Watch<'a> = Option<&'a mut dyn FnMut(PacketSeen)>;

/// Settles the account of the run in `dir`, whose workers sent what `source` makes. Clocks of its parts may be `slack` apart: sent rows
/// are replayed earlier by this than books, and books earlier than received rows. Only the order within a stream matters.
pub fn settle(dir: &Path, source: &mut dyn Source, ledger: Ledger, slack: Time) -> Result<Settled> {
    let mut names = ledger.is_nameless().then(|| Names::create(dir)).transpose()?;
    let mut settled =
        replay(dir, source, ledger, slack, &mut |name| names.as_mut().map_or(Ok(()), |names| names.push(name)), None)?;
    names.map_or(Ok(()), |names| names.finish(dir, &mut settled.files))?;
    Ok(settled)
}

/// Returns the number of frames with results that workers had, by the rows of the run in `dir`: those of the workers that one frame
/// reaches have one time. Copies of one block that were read at once count once, and further partial results of a block are no copies.
pub(crate) fn frames_again(dir: &Path) -> Result<u64> {
    if !dir.join(format!("{RESULTS}.parquet")).exists() {
        return Ok(0);
    }
    let (mut rows, mut frames) = (Rows::open(dir, RESULTS, result_row)?, HashSet::new());
    let mut partial = PartialResults::default();
    while rows.time()?.is_some() {
        if let Some((t, Some(row))) = rows.next()
            && partial.is_copy((row.worker, row.packet), row.degraded, row.again)
        {
            frames.insert((row.job, row.seq, t));
        }
    }
    Ok(frames.len() as u64)
}

/// Settles again, calling `watch` with every received packet; writes nothing.
pub(crate) fn settle_watched(
    dir: &Path,
    source: &mut dyn Source,
    ledger: Ledger,
    slack: Time,
    watch: &mut dyn FnMut(PacketSeen),
) -> Result<Settled> {
    replay(dir, source, ledger, slack, &mut |_| Ok(()), Some(watch))
}

/// Passes the rows of the run in `dir` to the ledger.
fn replay(
    dir: &Path,
    source: &mut dyn Source,
    ledger: Ledger,
    slack: Time,
    name: &mut dyn FnMut(&Name) -> Result<()>,
    mut watch: Watch,
) -> Result<Settled> {
    let heads = ledger.compares_heads();
    let mut sent = Rows::open(dir, SENT, if heads { sent_row_with_head } else { sent_row })?;
    let mut books = Rows::open(dir, BOOKS, book_row)?;
    let mut received = Rows::open(dir, RECEIVED, if heads { received_row_with_head } else { received_row })?;
    let mut settled = Settled { ledger, sums: [0; 2], unknown: 0, files: FileDigests::new(), open: Vec::new() };
    let mut gradients = Gradients::new(source);
    loop {
        let early = |t: Option<Time>, slacks: Time| t.map(|t| t - slacks * slack);
        let times = [early(sent.time()?, 2), early(books.time()?, 1), received.time()?];
        let Some((stream, _)) = times.iter().enumerate().filter_map(|(i, t)| Some((i, (*t)?))).min_by_key(|(_, t)| *t)
        else {
            break;
        };
        match stream {
            0 => {
                if let Some((_, row)) = sent.next() {
                    let workers = settled.ledger.workers();
                    if row.worker as usize >= workers {
                        let what = format!("worker {} sent, and the run has {workers} workers", row.worker);
                        return Err(Error::data(&dir.join(format!("{SENT}.parquet")), what));
                    }
                    settled.sent(&row, &mut gradients);
                }
            }
            1 => {
                if let Some((_, row)) = books.next() {
                    settled.ledger.book(&row);
                }
            }
            _ => {
                if let Some((_, row)) = received.next() {
                    name(&settled.received(&row, &mut watch))?;
                }
            }
        }
    }
    Ok(settled)
}

impl Settled {
    /// Records a packet; returns its id, if packets carry none.
    fn received(&mut self, row: &ReceivedRow, watch: &mut Watch) -> Name {
        let ReceivedRow { packet, count, seq, heat, part, last, digest, sum_ok, head, .. } = *row;
        let carried = Carried::Digest(digest.unwrap_or_default());
        let receipt = Receipt { packet, count, seq, heat, part, last, judged: sum_ok, head, carried };
        let nameless = self.ledger.is_nameless();
        let expected = watch.as_ref().filter(|_| !nameless).and_then(|_| self.ledger.expected(&receipt));
        let (strangers, repeated, damaged) = (self.ledger.strangers(), self.ledger.repeated(), self.ledger.damaged());
        let (verdict, named) = match nameless {
            true => self.ledger.received_unnamed(packet.worker(), digest.unwrap_or_default()),
            false => (self.ledger.received(&receipt), None),
        };
        let (again, damaged) = (self.ledger.repeated() > repeated, self.ledger.damaged() > damaged);
        if let Some(watch) = watch {
            // Packets judged on arrival have no digest.
            let verdict = if digest.is_some() { verdict } else { row.sum_ok };
            // What a forwarding device without books delivers is what the worker sent.
            let unknown = nameless && named.is_none() && self.ledger.unseen_clusters().is_some();
            let strange = self.ledger.strangers() > strangers || unknown && self.ledger.says_it_is_one(count);
            watch(PacketSeen { row: self.open.len(), received: row, expected, verdict, strange, again, damaged });
        }
        match verdict {
            SumOk::Yes => self.sums[0] += 1,
            SumOk::No => self.sums[1] += 1,
            SumOk::Unknown => {}
        }
        let says_one = self.ledger.says_it_is_one(row.count);
        self.open.push(match verdict {
            // The ledger counted it neither as unchecked nor as an update that differs.
            SumOk::Unknown if again && !(damaged && says_one) => Open::No,
            SumOk::Unknown if says_one => Open::Single,
            SumOk::Unknown => Open::Sum,
            _ => Open::No,
        });
        let (packet, count) = named.unzip();
        Name { t_recv: row.t_recv, packet, count: count.unwrap_or(0) }
    }

    /// Checks sums that only lanes can prove, for a device without books whose packets' payloads were kept. `source`
    /// recomputes what was sent.
    pub(crate) fn check_by_lanes(&mut self, dir: &Path, lanes: LanesOf, source: &mut dyn Source) -> Result<()> {
        let Some(proven) = self.by_lanes(dir, lanes, source, &mut |_| ())? else { return Ok(()) };
        self.sums[0] += proven.right + proven.unsaid;
        self.sums[1] += proven.wrong + proven.wrong_single;
        self.ledger.proven(&proven);
        Ok(())
    }

    /// Calls `found` with packets of a device without books that only lanes judge, if they differ from their claim.
    pub(crate) fn found_by_lanes(
        &self,
        dir: &Path,
        lanes: LanesOf,
        source: &mut dyn Source,
        found: &mut dyn FnMut(SumFound),
    ) -> Result<Proven> {
        Ok(self.by_lanes(dir, lanes, source, found)?.unwrap_or_default())
    }

    /// Returns what lanes prove; `None` without lanes or kept payloads.
    fn by_lanes(
        &self,
        dir: &Path,
        LanesOf { layout, real_time }: LanesOf,
        source: &mut dyn Source,
        found: &mut dyn FnMut(SumFound),
    ) -> Result<Option<Proven>> {
        let kept = dir.join(format!("{PAYLOADS}.parquet")).exists();
        let clusters = self.ledger.unseen_clusters().filter(|_| kept && layout.proves_sums());
        let proven = clusters
            .map(|cluster_of| sums::check(dir, &layout, cluster_of, real_time, &self.open, source, found))
            .transpose()?;
        // A layout without a header does not say how many updates a packet holds.
        Ok(match self.ledger.is_nameless() {
            true => proven.map(|proven| Proven { miscounted: 0, overcounted: 0, ..proven }),
            false => proven,
        })
    }

    fn sent(&mut self, row: &SentRow, gradients: &mut Gradients) {
        let packet = PacketId::new(row.worker, row.seq, row.attempt);
        let values = if self.ledger.knows_content() { Some(&[][..]) } else { gradients.of(row) };
        let Some(values) = values else {
            self.unknown += 1;
            return;
        };
        if row.left {
            self.ledger.sent_with_head(packet, row.heat, row.head, values);
        } else {
            match row.attempt {
                0 => self.ledger.withheld(row.worker),
                _ => self.ledger.withheld_again(row.worker),
            }
        }
    }
}

/// The gradients of updates: withheld updates are recorded before earlier ones that wait to be sent, so a few gradients
/// are kept until their row comes; and each worker's newest, for its further attempts.
struct Gradients<'a> {
    source: &'a mut dyn Source,
    ahead: HashMap<(u32, u32), Vec<u8>>,
    /// Of `ahead`.
    bytes: usize,
    newest: HashMap<u32, (u32, Vec<u8>)>,
}

impl<'a> Gradients<'a> {
    fn new(source: &'a mut dyn Source) -> Self {
        Gradients { source, ahead: HashMap::new(), bytes: 0, newest: HashMap::new() }
    }

    fn of(&mut self, row: &SentRow) -> Option<&[u8]> {
        if row.attempt == 0 {
            let values = self.first(row.worker, row.seq)?;
            self.newest.insert(row.worker, (row.seq, values));
        }
        self.newest.get(&row.worker).filter(|(seq, _)| *seq == row.seq).map(|(_, values)| &values[..])
    }

    fn first(&mut self, worker: u32, seq: u32) -> Option<Vec<u8>> {
        if let Some(values) = self.ahead.remove(&(worker, seq)) {
            self.bytes -= values.len() + AHEAD_EACH;
            return Some(values);
        }
        while self.bytes <= AHEAD_BYTES {
            let update = *self.source.peek()?;
            let values = taken(self.source, &update);
            if (update.worker, update.seq) == (worker, seq) {
                return Some(values);
            }
            self.bytes += values.len() + AHEAD_EACH;
            self.ahead.insert((update.worker, update.seq), values);
        }
        None
    }
}

/// Takes the next update of the source; returns the content that is compared on arrival.
fn taken(source: &mut dyn Source, update: &Update) -> Vec<u8> {
    if source.known().raw.is_some() {
        let mut frame = vec![0; update.bytes as usize];
        source.take(&mut frame);
        return raw::content(&frame);
    }
    let mut values = vec![0; elements_in(update.bytes as usize) * 4];
    source.take(&mut values);
    values
}

/// The columns of `sent` that settling needs.
struct SentRow {
    worker: u32,
    seq: u32,
    attempt: u8,
    heat: Option<Heat>,
    left: bool,
    head: u64,
}

/// A stream's rows with their times, one batch in memory.
struct Rows<T> {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    batch: Option<RecordBatch>,
    at: usize,
    row: fn(&RecordBatch, usize) -> Option<(Time, T)>,
    head: Option<(Time, T)>,
    latest: Time,
}

impl<T> Rows<T> {
    fn open(dir: &Path, name: &str, row: fn(&RecordBatch, usize) -> Option<(Time, T)>) -> Result<Self> {
        let (path, reader) = open(dir, name)?;
        Ok(Rows { path, reader, batch: None, at: 0, row, head: None, latest: Time::MIN })
    }

    /// Returns the time of the next row, at least that of the previous one; `None` at the end.
    fn time(&mut self) -> Result<Option<Time>> {
        while self.head.is_none() {
            let Some(batch) = self.batch.as_ref().filter(|batch| self.at < batch.num_rows()) else {
                match self.reader.next() {
                    None => return Ok(None),
                    Some(batch) => {
                        self.batch = Some(batch.map_err(|e| Error::data(&self.path, e.to_string()))?);
                        self.at = 0;
                    }
                }
                continue;
            };
            let row = (self.row)(batch, self.at)
                .ok_or_else(|| Error::data(&self.path, "a column is missing or of another type"))?;
            self.at += 1;
            self.latest = self.latest.max(row.0);
            self.head = Some((self.latest, row.1));
        }
        Ok(self.head.as_ref().map(|head| head.0))
    }

    fn next(&mut self) -> Option<(Time, T)> {
        self.head.take()
    }
}

/// Opens a finished stream of the run in `dir`.
fn open(dir: &Path, name: &str) -> Result<(PathBuf, ParquetRecordBatchReader)> {
    let path = dir.join(format!("{name}.parquet"));
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(1 << 14).build())
        .map_err(|e| Error::data(&path, e.to_string()))?;
    Ok((path, reader))
}

/// Returns its batches.
fn batches(dir: &Path, name: &str) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let (path, reader) = open(dir, name)?;
    Ok(reader.map(move |batch| batch.map_err(|e| Error::data(&path, e.to_string()))))
}

fn value<P: ArrowPrimitiveType>(batch: &RecordBatch, name: &str, row: usize) -> Option<Option<P::Native>> {
    let column = batch.column_by_name(name)?.as_primitive_opt::<P>()?;
    Some((!column.is_null(row)).then(|| column.value(row)))
}

fn sent_row(batch: &RecordBatch, row: usize) -> Option<(Time, SentRow)> {
    let left = value::<Int64Type>(batch, "t_sent_ps", row)?;
    let due = value::<Int64Type>(batch, "t_due_ps", row)??;
    let sent = SentRow {
        worker: value::<UInt32Type>(batch, "worker", row)??,
        seq: value::<UInt32Type>(batch, "seq", row)??,
        attempt: value::<UInt8Type>(batch, "attempt", row)??,
        heat: heat(batch, row)?,
        left: left.is_some(),
        head: 0,
    };
    Some((left.unwrap_or(due), sent))
}

/// Returns the same with the digest of the header.
fn sent_row_with_head(batch: &RecordBatch, row: usize) -> Option<(Time, SentRow)> {
    let (t, sent) = sent_row(batch, row)?;
    Some((t, SentRow { head: head(batch, "t_gen_ps", row)?, ..sent }))
}

/// Returns the digest of the header of an update with its generation time in this column.
fn head(batch: &RecordBatch, generation: &str, row: usize) -> Option<u64> {
    let cluster = value::<UInt16Type>(batch, "cluster", row)?;
    let reward = value::<Float32Type>(batch, "reward", row)?;
    Some(head_digest(cluster, value::<Int64Type>(batch, generation, row)??, reward))
}

/// A result at a worker.
struct ResultRow {
    worker: u32,
    job: u16,
    seq: u32,
    packet: PacketId,
    degraded: bool,
    again: bool,
}

/// Returns the result; versions without the column recorded none that its worker had, and the first one has no jobs.
fn result_row(batch: &RecordBatch, row: usize) -> Option<(Time, Option<ResultRow>)> {
    let t = value::<Int64Type>(batch, "t_recv_ps", row)??;
    let Some(again) = batch.column_by_name("again") else { return Some((t, None)) };
    let result = ResultRow {
        worker: value::<UInt32Type>(batch, "worker", row)??,
        job: value::<UInt16Type>(batch, "job", row)??,
        seq: value::<UInt32Type>(batch, "seq", row)??,
        packet: PacketId(value::<UInt64Type>(batch, "packet", row)??),
        degraded: batch.column_by_name("degraded")?.as_boolean_opt()?.value(row),
        again: again.as_boolean_opt()?.value(row),
    };
    Some((t, Some(result)))
}

fn heat(batch: &RecordBatch, row: usize) -> Option<Option<Heat>> {
    let code = value::<UInt8Type>(batch, "heat", row)?;
    code.map_or(Some(None), |code| Heat::ALL.get(usize::from(code)).copied().map(Some))
}

fn book_row(batch: &RecordBatch, row: usize) -> Option<(Time, Book)> {
    let t = value::<Int64Type>(batch, "t_ps", row)??;
    let book = Book {
        t,
        node: value::<UInt16Type>(batch, "node", row)??,
        packet_in: PacketId(value::<UInt64Type>(batch, "packet_in", row)??),
        action: *Action::ALL.get(usize::from(value::<UInt8Type>(batch, "action", row)??))?,
        packet_out: value::<UInt64Type>(batch, "packet_out", row)?.map(PacketId),
        reason: match value::<UInt8Type>(batch, "reason", row)? {
            Some(code) => Some(*Reason::ALL.get(usize::from(code))?),
            None => None,
        },
    };
    Some((t, book))
}

/// The columns of `received` that settling needs.
pub(crate) struct ReceivedRow {
    pub(crate) t_recv: Time,
    pub(crate) packet: PacketId,
    pub(crate) count: u16,
    pub(crate) digest: Option<u64>,
    seq: u32,
    sum_ok: SumOk,
    heat: Option<Heat>,
    part: Option<u32>,
    last: bool,
    head: u64,
}

#[cfg(test)]
impl ReceivedRow {
    /// Returns the row of a packet of updates.
    pub(crate) fn of(t_recv: Time, packet: PacketId, count: u16, digest: Option<u64>) -> Self {
        let (sum_ok, heat, part) = (SumOk::Unknown, None, None);
        ReceivedRow { t_recv, packet, count, digest, seq: packet.seq(), sum_ok, heat, part, last: false, head: 0 }
    }
}

fn received_row(batch: &RecordBatch, row: usize) -> Option<(Time, ReceivedRow)> {
    let packet = PacketId(value::<UInt64Type>(batch, "packet", row)??);
    let count = value::<UInt16Type>(batch, "count", row)??;
    let seq = value::<UInt32Type>(batch, "newest_seq", row)??;
    let (heat, part) = (heat(batch, row)?, value::<UInt32Type>(batch, "part", row)?);
    let last = batch.column_by_name("last")?.as_boolean_opt()?;
    let last = last.is_valid(row) && last.value(row);
    let digest = value::<UInt64Type>(batch, "digest", row)?;
    let sum_ok = *SumOk::ALL.get(usize::from(value::<UInt8Type>(batch, "sum_ok", row)??))?;
    let t_recv = value::<Int64Type>(batch, "t_recv_ps", row)??;
    Some((t_recv, ReceivedRow { t_recv, packet, count, digest, seq, sum_ok, heat, part, last, head: 0 }))
}

/// Returns the same with the digest of the header.
fn received_row_with_head(batch: &RecordBatch, row: usize) -> Option<(Time, ReceivedRow)> {
    let (t, received) = received_row(batch, row)?;
    Some((t, ReceivedRow { head: head(batch, "newest_gen_ps", row)?, ..received }))
}

#[cfg(test)]
mod tests;
