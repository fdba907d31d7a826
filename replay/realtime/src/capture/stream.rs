//! One stream on disk: Arrow IPC while running, Parquet when finished. In virtual time the Parquet is written beside the IPC, which is there for a run that is killed;
//! in real time it is made at the end, so that no wire waits for a core.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{AsArray, Int64Array, RecordBatch};
use pktgen_core::arrow::compute::interleave_record_batch;
use pktgen_core::arrow::datatypes::{Int64Type, Schema};
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::quiet::attempt;
use pktgen_core::record::{Edition, FileDigests, Row};
use pktgen_core::time::Time;
use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result, footer};

use crate::driver::real_time::drop_privileges;

/// Rows per batch and per row group.
const BATCH: usize = 1 << 12;

/// Batches that may wait for the disk before the run does.
const AHEAD: usize = 4;
/// And for columns that are compressed.
const AHEAD_OF_COLUMNS: usize = 16;

/// A stream that is being written. Whole batches go to a thread of the stream's own, which makes columns of
/// them; the driver waits for the disk only when the disk is slower than the run.
pub(super) struct Stream<R: Row> {
    name: &'static str,
    path: PathBuf,
    rows: Vec<R>,
    /// Parquet is written while the run is under way.
    at_once: bool,
    writer: Option<Writer>,
    background: Option<Background<R>>,
}

type Writer = StreamWriter<BufWriter<File>>;
type Background<R> = (SyncSender<Vec<R>>, JoinHandle<Result<Open>>);

/// The files of a stream that is being written.
struct Open {
    running: Writer,
    finished: Option<Columns>,
}

/// Where a stream is while its run is under way.
pub(super) fn running_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.arrows"))
}

/// Where a stream is when its run is finished.
fn finished_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.parquet"))
}

/// A failed write is an I/O error whatever layer reports it.
fn write_error(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Io { action: "write", path: path.to_owned(), source: std::io::Error::other(error.to_string()) }
}

impl<R: Row> Stream<R> {
    /// Creates the stream in `dir`.
    pub(super) fn create(dir: &Path) -> Result<Self> {
        Self::create_as(dir, R::STREAM.name)
    }

    /// Creates it under another name than that of its finished stream.
    pub(super) fn create_as(dir: &Path, name: &'static str) -> Result<Self> {
        let path = running_path(dir, name);
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        let mut writer = StreamWriter::try_new(BufWriter::with_capacity(1 << 20, file), &R::schema())
            .map_err(|e| write_error(&path, &e))?;
        // The schema is on disk from the start: a run that is killed early leaves an empty stream, not rubbish.
        writer.flush().map_err(|e| write_error(&path, &e))?;
        Ok(Stream { name, path, rows: Vec::new(), at_once: false, writer: Some(writer), background: None })
    }

    /// Whether its Parquet is written while the run is under way, not at the end.
    pub(super) fn at_once(self, at_once: bool) -> Self {
        Stream { at_once, ..self }
    }

    /// Appends a row.
    #[inline]
    pub(super) fn push(&mut self, row: &R) -> Result<()> {
        self.rows.push(*row);
        if self.rows.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Starts the thread now instead of with the first whole batch: on the cores of the caller.
    pub(super) fn start(&mut self) -> Result<()> {
        if let Some(running) = self.writer.take() {
            let (sender, batches) = sync_channel(if self.at_once { AHEAD_OF_COLUMNS } else { AHEAD });
            let path = self.path.clone();
            let dir = path.parent().filter(|_| self.at_once);
            let open = Open { running, finished: dir.map(Columns::create::<R>).transpose()? };
            // Its file is open.
            let work = move || {
                drop_privileges(&[]).map_err(Error::io("give up the rights of the writer of", &path))?;
                write_batches::<R>(&path, open, batches.iter())
            };
            let thread = std::thread::Builder::new().name(self.name.into());
            let handle = thread.spawn(work).map_err(Error::io("start the writer of", &self.path))?;
            self.background = Some((sender, handle));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.start()?;
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(BATCH));
        let gone = self.background.as_ref().is_none_or(|(sender, _)| sender.send(rows).is_err());
        // The thread ends early only if it failed: its error is the answer.
        if gone { self.join().map(drop) } else { Ok(()) }
    }

    /// Ends the thread and takes the files back.
    fn join(&mut self) -> Result<Option<Open>> {
        let Some((sender, handle)) = self.background.take() else {
            return Ok(self.writer.take().map(|running| Open { running, finished: None }));
        };
        drop(sender);
        match handle.join() {
            Ok(open) => open.map(Some),
            Err(_) => Err(write_error(&self.path, &"the writer stopped unexpectedly")),
        }
    }

    /// Ends the stream, not yet as Parquet where that is not written already.
    pub(super) fn end(self) -> Result<()> {
        self.end_running().map(drop)
    }

    fn end_running(mut self) -> Result<Option<Columns>> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let Some(mut open) = self.join()? else { return Ok(None) };
        open.running.finish().map_err(|e| write_error(&self.path, &e))?;
        Ok(open.finished)
    }

    /// Ends the stream and turns it into Parquet, whose digest joins `files`; the IPC file goes when the Parquet is complete.
    pub(super) fn finish(self, dir: &Path, files: &mut FileDigests) -> Result<u64> {
        // A stream that fitted one batch goes straight to Parquet: most runs of a sweep do.
        if self.background.is_none() {
            let rows = self.rows.len() as u64;
            write_parquet::<R>(dir, std::iter::once(batch::<R>(&self.path, &self.rows)), files)?;
            std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))?;
            return Ok(rows);
        }
        let path = self.path.clone();
        let Some(columns) = self.end_running()? else { return convert::<R>(dir, files) };
        let rows = columns.finish::<R>(files)?;
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(rows)
    }
}

fn batch<R: Row>(path: &Path, rows: &[R]) -> Result<RecordBatch> {
    RecordBatch::try_new(R::schema(), R::arrays(rows)).map_err(|e| write_error(path, &e))
}

/// What the thread of a stream does.
fn write_batches<R: Row>(path: &Path, mut open: Open, batches: impl Iterator<Item = Vec<R>>) -> Result<Open> {
    for rows in batches {
        let batch = batch::<R>(path, &rows)?;
        open.running.write(&batch).map_err(|e| write_error(path, &e))?;
        open.running.flush().map_err(|e| write_error(path, &e))?;
        if let Some(columns) = &mut open.finished {
            columns.write(&batch)?;
        }
    }
    Ok(open)
}

/// Turns the IPC file of a stream into Parquet, up to its last whole batch. Returns the rows.
pub(super) fn convert<R: Row>(dir: &Path, files: &mut FileDigests) -> Result<u64> {
    let path = running_path(dir, R::STREAM.name);
    let rows = write_parquet::<R>(dir, running_batches::<R>(&path)?.map(Ok), files)?;
    std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    Ok(rows)
}

/// The whole batches of a stream that is or was being written. The decoder panics on some damage: the stream ends there.
fn running_batches<R: Row>(path: &Path) -> Result<impl Iterator<Item = RecordBatch> + use<R>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let opened = attempt(|| StreamReader::try_new(std::io::BufReader::new(file), None));
    let mut reader = opened
        .ok_or_else(|| Error::data(path, "not an Arrow stream: its schema is damaged"))?
        .map_err(|e| Error::data(path, format!("not an Arrow stream: {e}")))?;
    let current = as_current::<R>(path, &reader.schema())?;
    let foreign = |_| Error::data(path, format!("its columns are not those of \"{}\"", R::STREAM.name));
    current(RecordBatch::new_empty(reader.schema())).map_err(foreign)?;
    // A killed run ends in the middle of a batch: what is before it is whole.
    Ok(std::iter::from_fn(move || current(attempt(|| reader.next()).flatten()?.ok()?).ok()).fuse())
}

/// Makes batches of the file at `path` ones of the current schema; an error says that its columns are others.
fn as_current<R: Row>(
    path: &Path,
    schema: &Schema,
) -> Result<impl Fn(RecordBatch) -> std::result::Result<RecordBatch, ArrowError> + use<R>> {
    let edition = Edition::of(path, R::STREAM.name, schema).map_err(|fault| Error::data(path, fault))?;
    let names: Vec<_> = R::STREAM.columns.iter().map(|column| column.name).collect();
    Ok(move |batch| {
        let batch = edition.read(batch, &names)?;
        match batch.schema().fields() == R::schema().fields() {
            true => Ok(batch),
            false => Err(ArrowError::SchemaError("its columns are others".into())),
        }
    })
}

/// Turns the IPC file of a stream and one beside it, called `other`, into one Parquet file by their first column, which is
/// time; at equal times `other`'s rows come last. The order within each stays. Returns the rows.
pub(super) fn convert_both<R: Row>(dir: &Path, other: &str, files: &mut FileDigests) -> Result<u64> {
    let paths = [running_path(dir, R::STREAM.name), running_path(dir, other)];
    let head = |path: &Path| Head::new(running_batches::<R>(path)?.map(Ok), R::times);
    let rows = write_merged::<R, _>(dir, vec![head(&paths[0])?, head(&paths[1])?], files)?;
    for path in &paths {
        std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(rows)
}

/// A stream that is merged: the batch that it has got to, and where in it.
struct Head<I> {
    batches: I,
    batch: Option<RecordBatch>,
    /// Its times, and what says them of a batch.
    times: Option<Int64Array>,
    times_of: fn(&RecordBatch) -> Option<Int64Array>,
    at: usize,
    latest: Time,
}

impl<I: Iterator<Item = Result<RecordBatch>>> Head<I> {
    fn new(batches: I, times_of: fn(&RecordBatch) -> Option<Int64Array>) -> Result<Self> {
        let mut head = Head { batch: None, times: None, times_of, batches, at: 0, latest: Time::MIN };
        head.turn()?;
        Ok(head)
    }

    /// Takes up the next batch that has rows.
    fn turn(&mut self) -> Result<()> {
        self.at = 0;
        let has_rows = |batch: &Result<RecordBatch>| batch.as_ref().is_ok_and(|batch| batch.num_rows() > 0);
        self.batch = self.batches.find(|batch| batch.is_err() || has_rows(batch)).transpose()?;
        self.times = self.batch.as_ref().and_then(self.times_of);
        Ok(())
    }

    /// The time of its next row; none at its end. No row comes before one that precedes it.
    fn time(&mut self) -> Option<Time> {
        self.latest = self.latest.max(self.times.as_ref()?.value(self.at));
        Some(self.latest)
    }

    /// Passes the next row; true if that was the last of its batch.
    fn pass(&mut self) -> bool {
        self.at += 1;
        self.batch.as_ref().is_some_and(|batch| self.at == batch.num_rows())
    }
}

/// Writes streams as the Parquet file of `C` in `dir`.
fn write_merged<R: Row, I>(dir: &Path, mut heads: Vec<Head<I>>, files: &mut FileDigests) -> Result<u64>
where
    I: Iterator<Item = Result<RecordBatch>>,
{
    let path = finished_path(dir, R::STREAM.name);
    write_parquet::<R>(dir, std::iter::from_fn(|| next_merged(&mut heads, &path).transpose()), files)
}

/// The next rows of all streams: until one of their batches ends.
fn next_merged<I>(heads: &mut Vec<Head<I>>, path: &Path) -> Result<Option<RecordBatch>>
where
    I: Iterator<Item = Result<RecordBatch>>,
{
    // Those that have ended have no rows, and no place among those whose rows are taken.
    heads.retain(|head| head.batch.is_some());
    let mut rows = Vec::new();
    let ended = loop {
        let times = heads.iter_mut().enumerate().filter_map(|(i, head)| Some((head.time()?, i)));
        let Some((_, from)) = times.min() else { return Ok(None) };
        rows.push((from, heads[from].at));
        if heads[from].pass() {
            break from;
        }
    };
    let batches: Vec<&RecordBatch> = heads.iter().filter_map(|head| head.batch.as_ref()).collect();
    let merged = interleave_record_batch(&batches, &rows).map_err(|e| write_error(path, &e))?;
    heads[ended].turn()?;
    Ok(Some(merged))
}

/// Copies a finished stream of the run dirs `from` into `to`, its first column, which is its time, `shift` later; by their
/// times if there are several, at equal times the rows of the first first. Of none it is empty.
pub(super) fn merge_shifted<R: Row>(from: &[(&Path, Time)], to: &Path, files: &mut FileDigests) -> Result<u64> {
    if let [(from, shift)] = from {
        return write_parquet::<R>(to, shifted::<R>(from, *shift)?, files);
    }
    let head = |(from, shift): &(&Path, Time)| Head::new(shifted::<R>(from, *shift)?, R::times);
    write_merged::<R, _>(to, from.iter().map(head).collect::<Result<_>>()?, files)
}

/// The batches of a finished stream, their first column `shift` later.
fn shifted<R: Row>(from: &Path, shift: Time) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<R>> {
    let path = finished_path(from, R::STREAM.name);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    footer::check(&file, &path, footer::OUR_ROWS)?;
    // The decoder panics on some damage.
    let opened = attempt(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        Ok::<_, ParquetError>((builder.schema().clone(), builder.with_batch_size(BATCH).build()?))
    });
    let (schema, mut reader) = opened
        .ok_or_else(|| Error::data(&path, "its footer is damaged"))?
        .map_err(|e| Error::data(&path, e.to_string()))?;
    let current = as_current::<R>(&path, &schema)?;
    let damaged = move |e: &dyn std::fmt::Display| Error::data(&path, e.to_string());
    let batches = std::iter::from_fn(move || attempt(|| reader.next()).unwrap_or(Some(Err(broken()))));
    Ok(batches.map(move |batch| {
        let batch = batch.and_then(&current).map_err(|e| damaged(&e))?;
        let times = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let times = times.ok_or_else(|| damaged(&"its first column is no time"))?;
        let later = times.unary::<_, Int64Type>(|t| t.saturating_add(shift));
        let mut columns = batch.columns().to_vec();
        columns[0] = Arc::new(later);
        RecordBatch::try_new(R::schema(), columns).map_err(|e| damaged(&e))
    }))
}

fn broken() -> ArrowError {
    ArrowError::ParquetError("its pages contradict its schema".into())
}

/// A Parquet file that is being written; it gets its name when it is whole.
struct Columns {
    path: PathBuf,
    writer: ArrowWriter<WholeFile>,
    rows: u64,
}

impl Columns {
    fn create<R: Row>(dir: &Path) -> Result<Self> {
        let path = finished_path(dir, R::STREAM.name);
        let file = WholeFile::create(&path)?;
        let level = ZstdLevel::try_new(1).map_err(|e| write_error(&path, &e))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(1 << 20))
            .build();
        let writer = ArrowWriter::try_new(file, R::schema(), Some(properties)).map_err(|e| write_error(&path, &e))?;
        Ok(Columns { path, writer, rows: 0 })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| write_error(&self.path, &e))
    }

    /// Ends the file; its digest joins `files`. Returns the rows.
    fn finish<R: Row>(self, files: &mut FileDigests) -> Result<u64> {
        let digest = self.writer.into_inner().map_err(|e| write_error(&self.path, &e))?.finish()?;
        files.insert(format!("{}.parquet", R::STREAM.name), digest);
        Ok(self.rows)
    }
}

/// Writes batches as the Parquet file of `R` in `dir`; its digest joins `files`. Returns the rows.
fn write_parquet<R: Row>(
    dir: &Path,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    files: &mut FileDigests,
) -> Result<u64> {
    let mut columns = Columns::create::<R>(dir)?;
    for batch in batches {
        columns.write(&batch?)?;
    }
    columns.finish::<R>(files)
}
