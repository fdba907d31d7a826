//! One stream on disk: Arrow IPC during the run, Parquet when finished. In virtual time the Parquet is written beside
//! the IPC, which is kept for a killed run; in real time it is made at the end, so that no wire waits for a core.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{AsArray, Int64Array, RecordBatch};
use pktgen_core::arrow::compute::interleave_record_batch;
use pktgen_core::arrow::datatypes::{Int64Type, Schema};
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::quiet::attempt;
use pktgen_core::record::{Edition, FileDigests, Row, STREAMS};
use pktgen_core::time::Time;
use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result, footer};
use serde::Deserialize;

use crate::driver::real_time::drop_privileges;

/// Rows per batch and per row group.
const BATCH: usize = 1 << 12;

/// Maximum number of batches that wait for the disk before the run has to wait.
const AHEAD: usize = 4;
/// The same for streams that are compressed during the run.
const AHEAD_OF_COLUMNS: usize = 16;

/// Key of the run in the schema of a stream during its run. The finished streams of identical runs are identical, and do not have it.
const RUN: &str = "pktgen.run";

/// Returns the run whose manifest is in `dir`: the time of its creation; `None` if that is unknown.
fn run_of(dir: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Run {
        created_unix_ns: u64,
    }
    let text = std::fs::read(dir.join("manifest.json")).ok()?;
    serde_json::from_slice(&text).ok().map(|run: Run| run.created_unix_ns.to_string())
}

/// A stream being written. Whole batches go to a thread of the stream, which converts them to columns; the driver waits
/// only if the disk is slower than the run.
pub(super) struct Stream<R: Row> {
    name: &'static str,
    path: PathBuf,
    rows: Vec<R>,
    /// Whether Parquet is written during the run.
    at_once: bool,
    writer: Option<Writer>,
    background: Option<Background<R>>,
}

type Writer = StreamWriter<BufWriter<File>>;
type Background<R> = (SyncSender<Vec<R>>, JoinHandle<Result<Open>>);

/// The files of a stream being written.
struct Open {
    running: Writer,
    finished: Option<Columns>,
}

/// Returns the path of a stream during its run.
pub(super) fn running_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.arrows"))
}

/// Returns the path of a stream after its run.
fn finished_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.parquet"))
}

/// Converts a failed write to an I/O error, regardless of the reporting layer.
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
        let mut schema = R::schema().as_ref().clone();
        schema.metadata.extend(run_of(dir).map(|run| (RUN, run)));
        let mut writer = StreamWriter::try_new(BufWriter::with_capacity(1 << 20, file), &schema)
            .map_err(|e| write_error(&path, &e))?;
        // The schema is on disk from the start: a run that is killed early leaves an empty, valid stream.
        writer.flush().map_err(|e| write_error(&path, &e))?;
        Ok(Stream { name, path, rows: Vec::new(), at_once: false, writer: Some(writer), background: None })
    }

    /// Sets whether its Parquet is written during the run.
    pub(super) fn at_once(self, at_once: bool) -> Self {
        Stream { at_once, ..self }
    }

    /// Appends a row.
    #[inline]
    pub(super) fn push(&mut self, row: &R) -> Result<()> {
        self.rows.push(*row);
        if self.rows.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Starts the thread now, on the caller's cores, instead of with the first whole batch.
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
        // The thread ends early only if it failed: its error is returned.
        if gone { self.join().map(drop) } else { Ok(()) }
    }

    /// Ends the thread and takes the files back.
    fn join(&mut self) -> Result<Open> {
        let Some((sender, handle)) = self.background.take() else {
            // Neither here nor with a thread: writing has failed.
            let running = self.writer.take().ok_or_else(|| write_error(&self.path, &"an earlier write failed"))?;
            return Ok(Open { running, finished: None });
        };
        drop(sender);
        handle.join().unwrap_or_else(|_| Err(write_error(&self.path, &"the writer stopped unexpectedly")))
    }

    /// Ends the stream; does not convert it to Parquet.
    pub(super) fn end(self) -> Result<()> {
        self.end_running().map(drop)
    }

    fn end_running(mut self) -> Result<Option<Columns>> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let mut open = self.join()?;
        open.running.finish().map_err(|e| write_error(&self.path, &e))?;
        Ok(open.finished)
    }

    /// Ends the stream and converts it to Parquet, whose digest is added to `files`; then removes the IPC file.
    pub(super) fn finish(self, dir: &Path, files: &mut FileDigests) -> Result<u64> {
        // A stream of one batch is written to Parquet directly, as are most runs of a sweep.
        if self.background.is_none() && self.writer.is_some() {
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

/// The work of a stream's thread.
fn write_batches<R: Row>(path: &Path, mut open: Open, batches: impl Iterator<Item = Vec<R>>) -> Result<Open> {
    for rows in batches {
        let batch = batch::<R>(path, &rows)?;
        let whole = open.file().metadata().map(|file| file.len());
        if let Err(error) = open.running.write(&batch).and_then(|()| open.running.flush()) {
            // A part of a batch is of no use, and on a full disk the manifest needs its room.
            let file = open.file().try_clone();
            drop(open);
            drop(file.and_then(|file| file.set_len(whole?)));
            return Err(write_error(path, &error));
        }
        if let Some(columns) = &mut open.finished {
            columns.write(&batch)?;
        }
    }
    Ok(open)
}

impl Open {
    /// Returns the file of the running stream.
    fn file(&self) -> &File {
        self.running.get_ref().get_ref()
    }
}

/// Converts the IPC file of a stream to Parquet, up to its last whole batch. Returns the number of rows.
pub(super) fn convert<R: Row>(dir: &Path, files: &mut FileDigests) -> Result<u64> {
    let path = running_path(dir, R::STREAM.name);
    let rows = write_parquet::<R>(dir, running_batches::<R>(&path)?.map(Ok), files)?;
    std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    Ok(rows)
}

/// Returns the whole batches of a stream that is or was being written. The decoder panics on some damage: the stream ends there.
fn running_batches<R: Row>(path: &Path) -> Result<impl Iterator<Item = RecordBatch> + use<R>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let opened = attempt(|| StreamReader::try_new(std::io::BufReader::new(file), None));
    let mut reader = opened
        .ok_or_else(|| Error::data(path, "not an Arrow stream: its schema is damaged"))?
        .map_err(|e| Error::data(path, format!("not an Arrow stream: {e}")))?;
    let (schema, run) = (reader.schema(), path.parent().and_then(run_of));
    if let (Some(of), Some(run)) = (schema.metadata().get(RUN), run)
        && *of != run
    {
        let what = format!(
            "it is of another run than manifest.json beside it ({RUN} is {of}, created_unix_ns is {run}); move it out of the \
             folder"
        );
        return Err(Error::data(path, what));
    }
    let current = as_current::<R>(path, &reader.schema())?;
    let foreign = |_| Error::data(path, format!("its columns are not those of \"{}\"", R::STREAM.name));
    current(RecordBatch::new_empty(reader.schema())).map_err(foreign)?;
    // A killed run ends in the middle of a batch; those before it are whole.
    Ok(std::iter::from_fn(move || current(attempt(|| reader.next()).flatten()?.ok()?).ok()).fuse())
}

/// Returns a conversion of batches of the file at `path` to the current schema; an error if its columns do not match.
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

/// Merges the IPC file of a stream and another one, called `other`, into one Parquet file by their first column, the
/// time; at equal times `other`'s rows come last. The order within each is kept. Returns the number of rows.
pub(super) fn convert_both<R: Row>(dir: &Path, other: &str, files: &mut FileDigests) -> Result<u64> {
    let paths = [running_path(dir, R::STREAM.name), running_path(dir, other)];
    let head = |path: &Path| Head::new(running_batches::<R>(path)?.map(Ok), R::times);
    let rows = write_merged::<R, _>(dir, vec![head(&paths[0])?, head(&paths[1])?], files)?;
    for path in &paths {
        std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(rows)
}

/// A stream being merged: its current batch and position.
struct Head<I> {
    batches: I,
    batch: Option<RecordBatch>,
    /// The times of the batch, and the function that extracts them.
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

    /// Loads the next batch with rows.
    fn turn(&mut self) -> Result<()> {
        self.at = 0;
        let has_rows = |batch: &Result<RecordBatch>| batch.as_ref().is_ok_and(|batch| batch.num_rows() > 0);
        self.batch = self.batches.find(|batch| batch.is_err() || has_rows(batch)).transpose()?;
        self.times = self.batch.as_ref().and_then(self.times_of);
        Ok(())
    }

    /// Returns the time of its next row, at least that of any earlier row; `None` at the end.
    fn time(&mut self) -> Option<Time> {
        self.latest = self.latest.max(self.times.as_ref()?.value(self.at));
        Some(self.latest)
    }

    /// Skips the next row; returns whether it was the last of its batch.
    fn pass(&mut self) -> bool {
        self.at += 1;
        self.batch.as_ref().is_some_and(|batch| self.at == batch.num_rows())
    }
}

/// Writes merged streams as the Parquet file of `R` in `dir`.
fn write_merged<R: Row, I>(dir: &Path, mut heads: Vec<Head<I>>, files: &mut FileDigests) -> Result<u64>
where
    I: Iterator<Item = Result<RecordBatch>>,
{
    let path = finished_path(dir, R::STREAM.name);
    write_parquet::<R>(dir, std::iter::from_fn(|| next_merged(&mut heads, &path).transpose()), files)
}

/// Returns the next rows of all streams, until one of their batches ends.
fn next_merged<I>(heads: &mut Vec<Head<I>>, path: &Path) -> Result<Option<RecordBatch>>
where
    I: Iterator<Item = Result<RecordBatch>>,
{
    // Ended streams have no rows, and must not count in the indices below.
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

/// Copies a finished stream of the run dirs `from` to `to`, with its first column, the time, shifted by `shift`.
/// Several are merged by time; at equal times rows of earlier dirs come first. Without any, the stream is empty.
pub(super) fn merge_shifted<R: Row>(from: &[(&Path, Time)], to: &Path, files: &mut FileDigests) -> Result<u64> {
    if let [(from, shift)] = from {
        return write_parquet::<R>(to, shifted::<R>(from, *shift)?, files);
    }
    let head = |(from, shift): &(&Path, Time)| Head::new(shifted::<R>(from, *shift)?, R::times);
    write_merged::<R, _>(to, from.iter().map(head).collect::<Result<_>>()?, files)
}

/// Removes the file of a stream that is finished by now; returns its `rows`.
pub(super) fn removed(path: &Path, rows: u64) -> Result<u64> {
    std::fs::remove_file(path).map_err(Error::io("remove", path)).map(|()| rows)
}

/// Returns the number of rows of a finished stream.
pub(super) fn finished_rows<R: Row>(dir: &Path) -> Result<u64> {
    let path = finished_path(dir, R::STREAM.name);
    let builder = open_finished(&path)?;
    Ok(builder.metadata().file_metadata().num_rows().max(0) as u64)
}

/// Refuses files in `dir` that have the name of a finished stream and other columns: the run did not write them.
pub(crate) fn check_finished(dir: &Path) -> Result<()> {
    for stream in &STREAMS {
        let path = finished_path(dir, stream.name);
        if !path.exists() {
            continue;
        }
        let builder = open_finished(&path)?;
        let schema = builder.schema();
        let edition = Edition::of(&path, stream.name, schema).map_err(|fault| Error::data(&path, fault))?;
        let columns = edition.columns(schema);
        let has = |name: &str| columns.contains(&name);
        if columns.len() != stream.columns.len() || !stream.columns.iter().all(|column| has(column.name)) {
            let what = format!(
                "its columns are not those of \"{}\", so it is not of this run; move it out of the folder",
                stream.name
            );
            return Err(Error::data(&path, what));
        }
    }
    Ok(())
}

/// Opens a finished stream for reading.
fn open_finished(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    footer::check(&file, path, footer::OUR_ROWS)?;
    // The decoder panics on some damage.
    attempt(|| ParquetRecordBatchReaderBuilder::try_new(file))
        .ok_or_else(|| Error::data(path, "its footer is damaged"))?
        .map_err(|e| Error::data(path, e.to_string()))
}

/// Returns the batches of a finished stream, with their first column shifted by `shift`.
fn shifted<R: Row>(from: &Path, shift: Time) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<R>> {
    let path = finished_path(from, R::STREAM.name);
    let builder = open_finished(&path)?;
    let schema = builder.schema().clone();
    let mut reader = attempt(|| builder.with_batch_size(BATCH).build())
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

/// A Parquet file being written; it gets its name when it is complete.
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

    /// Ends the file; adds its digest to `files`. Returns the number of rows.
    fn finish<R: Row>(self, files: &mut FileDigests) -> Result<u64> {
        let digest = self.writer.into_inner().map_err(|e| write_error(&self.path, &e))?.finish()?;
        files.insert(format!("{}.parquet", R::STREAM.name), digest);
        Ok(self.rows)
    }
}

/// Writes batches as the Parquet file of `R` in `dir`; adds its digest to `files`. Returns the number of rows.
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
