//! Reads the rows of tables: the only file of this crate that reads records, runs and captures.
//!
//! Called by [`crate::scan`], part by part, for the columns that a query needs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pktgen_core::record::digest::{check_files, check_listed, is_sealed, unsealed};
use pktgen_core::record::{Manifest, NAMES, PacketId, SENT};
use pktgen_core::{Error, Result};
use pktgen_records::batches::Batches;
use pktgen_records::fates::frame_bytes;
use pktgen_records::frame::frame;
use pktgen_records::labels::NUMBERS;
use pktgen_records::run::{RunData, named_generations, open_manifest};
use pktgen_records::stream_file::StreamFile;
use pktgen_records::{Line, Options, analyze_run_with};
use polars::prelude::*;

use crate::fates;
use crate::tables::{GENERATED, Kind, LABELS, Made, QueryColumn as Asked};

/// Number of rows decoded at a time.
const ROWS: usize = 1 << 16;
/// Maximum memory per transmission of the generation times of named packets, while they are read.
const NAMED_BYTES: u64 = 64;

/// When the packets of a run were generated.
type Generations = Arc<Vec<Option<i64>>>;
/// Takes a batch; returns false if no more are needed.
pub(crate) type Sink<'a> = dyn FnMut(DataFrame) -> Result<bool> + 'a;

/// The rows of a table from one file or run.
pub(crate) enum Part {
    /// A stream of a run.
    Stream(Stream),
    /// Fates of a run's packets.
    Fates { dir: PathBuf, no_verify: bool },
    /// The metrics of a run.
    Metrics { dir: PathBuf, no_verify: bool },
    /// Rows in memory.
    Rows(DataFrame),
    /// A part of the tables of a capture: its columns by name, and the names of the formats.
    Capture { path: PathBuf, cluster: i64, formats: Vec<String> },
}

/// A stream of a run, whose file is opened only once.
pub(crate) struct Stream {
    path: PathBuf,
    name: &'static str,
    file: OnceLock<StreamFile>,
    /// The run dir of packets without ids, which their contents name, and whether its digests are ignored.
    named_in: Option<(PathBuf, bool)>,
    /// When these packets were generated, while it is needed. Locked while these times are read.
    generations: Mutex<Option<Generations>>,
}

impl Stream {
    pub(crate) fn new(path: PathBuf, name: &'static str) -> Stream {
        Stream { path, name, file: OnceLock::new(), named_in: None, generations: Mutex::new(None) }
    }

    /// Takes the generation times of the rows from the names in the run dir `dir`; without any, these times are empty.
    pub(crate) fn named_in(self, dir: PathBuf, no_verify: bool) -> Stream {
        Stream { named_in: Some((dir, no_verify)), ..self }
    }

    /// Whether these columns have the values of the file.
    pub(crate) fn is_of_file<'a>(&self, columns: impl IntoIterator<Item = &'a Asked>) -> bool {
        self.named_in.is_none() || !columns.into_iter().any(is_generated)
    }

    /// Returns the generation times of all rows; `None` if they are those of the file.
    fn generations(&self) -> Result<Option<Generations>> {
        let Some((dir, no_verify)) = &self.named_in else { return Ok(None) };
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = generations.as_ref() {
            return Ok(Some(known.clone()));
        }
        if !no_verify {
            let (text, manifest) = open_manifest(dir)?;
            check_streams(dir, &text, &manifest, &[NAMES, SENT])?;
        }
        // Without names, as of runs that were not settled, none is known.
        let found = match named_generations(dir)? {
            Some(found) => found,
            None => vec![None; self.file()?.rows()],
        };
        Ok(Some(generations.insert(Arc::new(found)).clone()))
    }

    pub(crate) fn file(&self) -> Result<&StreamFile> {
        if self.file.get().is_none() {
            // Another thread may have opened it meanwhile.
            let _ = self.file.set(StreamFile::open(&self.path, self.name)?);
        }
        let unopened = || Error::Invalid(format!("{} was not opened; please report this", self.path.display()));
        self.file.get().ok_or_else(unopened)
    }
}

fn is_generated(column: &Asked) -> bool {
    column.name == GENERATED
}

/// Refuses changed and unlisted files of these streams of the run in `dir`, whose manifest has this text.
pub(crate) fn check_streams(dir: &Path, text: &str, manifest: &Manifest, names: &[&str]) -> Result<()> {
    let path = dir.join("manifest.json");
    if !is_sealed(&path, text.as_bytes())? && !manifest.files.is_empty() {
        return Err(unsealed(&path));
    }
    let read = |file: &str| file.strip_suffix(".parquet").is_some_and(|stream| names.contains(&stream));
    let files = manifest.files.iter().filter(|(file, _)| read(file));
    check_files(dir, &files.map(|(file, digest)| (file.clone(), digest.clone())).collect())?;
    check_listed(dir, text.as_bytes(), &manifest.files, |stream| names.contains(&stream))
}

/// Returns the number of transmissions of the run in `dir`; 0 if it has no records of them.
fn transmissions(dir: &Path) -> Result<u64> {
    let path = dir.join(format!("{SENT}.parquet"));
    if path.exists() { Ok(StreamFile::open(&path, SENT)?.rows() as u64) } else { Ok(0) }
}

impl Part {
    /// Returns the number of pieces that can be read separately: row groups.
    pub(crate) fn pieces(&self) -> Result<usize> {
        match self {
            Part::Stream(stream) => Ok(stream.file()?.footer().num_row_groups()),
            _ => Ok(1),
        }
    }

    /// Returns the number of rows; `None` if it is known only after reading.
    pub(crate) fn rows(&self) -> Result<Option<u64>> {
        match self {
            Part::Stream(stream) => Ok(Some(stream.file()?.rows() as u64)),
            Part::Fates { dir, .. } => transmissions(dir).map(Some),
            Part::Rows(frame) => Ok(Some(frame.height() as u64)),
            Part::Metrics { .. } | Part::Capture { .. } => Ok(None),
        }
    }

    /// Returns the number of rows of one of its pieces, if known without reading.
    pub(crate) fn counted(&self, piece: usize) -> Result<Option<usize>> {
        match self {
            Part::Stream(stream) => Ok(Some(stream.file()?.footer().row_group(piece).num_rows().max(0) as usize)),
            _ => Ok(None),
        }
    }

    /// Returns the memory that reading these columns needs in addition to its rows, in bytes.
    pub(crate) fn held(&self, columns: &[Asked]) -> Result<u64> {
        match self {
            Part::Fates { dir, .. } | Part::Metrics { dir, .. } => transmissions(dir).map(frame_bytes),
            Part::Stream(stream) => match &stream.named_in {
                Some((dir, _)) if !stream.is_of_file(columns) => transmissions(dir).map(|sent| NAMED_BYTES * sent),
                _ => Ok(0),
            },
            _ => Ok(0),
        }
    }

    /// Frees what its pieces share, after the last one.
    pub(crate) fn free(&self) {
        if let Part::Stream(stream) = self {
            *stream.generations.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Passes `columns` of one of its pieces to `sink`, batch by batch.
    pub(crate) fn read(&self, piece: usize, columns: &[&Asked], sink: &mut Sink) -> Result<()> {
        match self {
            Part::Stream(stream) => read_stream(stream, piece, columns, sink),
            Part::Fates { dir, no_verify } => fates::read(&RunData::open_with(dir, *no_verify)?, columns, sink),
            Part::Metrics { dir, no_verify } => {
                let options = Options { no_verify: *no_verify, ..Options::default() };
                in_slices(of_lines(&analyze_run_with(dir, options)?.lines, columns).map_err(broken)?, sink)
            }
            Part::Rows(frame) => {
                let names = columns.iter().map(|column| column.name.as_str());
                in_slices(frame.select(names).map_err(broken)?, sink)
            }
            Part::Capture { path, cluster, formats } => {
                let mut batches = Batches::open(path)?;
                while let Some(batch) = batches.next_batch()? {
                    let rows = batch.num_rows();
                    let own = frame(batch).map_err(|fault| Error::data(path, fault.to_string()))?;
                    let cell = |asked: &&Asked| match asked.name.as_str() {
                        "cluster" => Ok(Column::new_scalar("cluster".into(), Scalar::from(*cluster), rows)),
                        "format" => named(path, &own, asked, "format", |code| formats.get(code).map(String::as_str), 0),
                        "format_code" => made(path, &own, &Asked { made: Made::Of("format"), ..(**asked).clone() }, 0),
                        // Tables of version 1 lack this column.
                        "content" if own.column("content").is_err() => {
                            let none = Column::new_scalar("content".into(), Scalar::from(0i64), rows);
                            cast(path, &none, "content", &data_type(asked.kind))
                        }
                        _ => made(path, &own, asked, 0),
                    };
                    let cells = columns.iter().map(cell).collect::<Result<Vec<_>>>()?;
                    if !sink(DataFrame::new(rows, cells).map_err(broken)?)? {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Converts a polars error about data in memory.
pub(crate) fn broken(fault: PolarsError) -> Error {
    Error::Invalid(format!("the query failed inside polars: {fault}; please report this"))
}

fn in_slices(frame: DataFrame, sink: &mut Sink) -> Result<()> {
    let mut from = 0;
    while from < frame.height() && sink(frame.slice(from as i64, ROWS))? {
        from += ROWS;
    }
    Ok(())
}

fn read_stream(stream: &Stream, group: usize, columns: &[&Asked], sink: &mut Sink) -> Result<()> {
    let file = stream.file()?;
    let (path, mut wanted) = (file.path(), Vec::<&'static str>::new());
    let named = if stream.is_of_file(columns.iter().copied()) { None } else { stream.generations()? };
    for column in columns {
        let sources: &[&'static str] = match &column.made {
            Made::Of(source) | Made::Names(source, _) | Made::Codes(source, _) | Made::Bits(source, ..) => &[*source],
            Made::Packet => &["worker", "seq", "attempt"],
            Made::Otherwise => &[],
        };
        wanted.extend(sources.iter().filter(|source| !wanted.contains(*source)).copied().collect::<Vec<_>>());
    }
    let mut at = (0..group).map(|group| file.footer().row_group(group).num_rows() as usize).sum::<usize>();
    let mut batches = file.read(&wanted, Some(group), ROWS)?;
    while let Some(batch) = batches.next_batch()? {
        let rows = batch.num_rows();
        let own = frame(batch).map_err(|fault| Error::data(path, fault.to_string()))?;
        let cell = |column: &&Asked| match &named {
            Some(known) if is_generated(column) => match known.get(at..at + rows) {
                Some(known) => Ok(Column::new(GENERATED.into(), known.to_vec())),
                None => Err(Error::data(path, format!("it has more rows than {NAMES}; copy the whole run dir"))),
            },
            _ => made(path, &own, column, at),
        };
        let cells = columns.iter().map(cell).collect::<Result<Vec<_>>>()?;
        at += rows;
        if !sink(DataFrame::new(rows, cells).map_err(broken)?)? {
            break;
        }
    }
    Ok(())
}

/// Computes the column `asked` from columns of the file; its first row is row `at` there.
pub(crate) fn made(path: &Path, own: &DataFrame, asked: &Asked, at: usize) -> Result<Column> {
    let name = PlSmallStr::from_str(&asked.name);
    let numbers = |source: &str| -> Result<UInt64Chunked> {
        let column = source_column(path, own, source, Kind::Unsigned, false)?;
        column.u64().cloned().map_err(broken)
    };
    match asked.made {
        Made::Of(source) => Ok(source_column(path, own, source, asked.kind, asked.optional)?.with_name(name)),
        Made::Names(source, names) => named(path, own, asked, source, |code| names.get(code).copied(), at),
        Made::Codes(source, names) => {
            let codes = checked(path, own, source, Kind::Unsigned, asked.optional)?;
            let codes = cast(path, codes, source, &DataType::UInt32)?.with_name(name);
            let known = codes.u32().map_err(broken)?;
            if known.max().is_some_and(|most| most as usize >= names.len()) {
                let row = known.iter().position(|code| code.is_some_and(|code| code as usize >= names.len()));
                let row = row.unwrap_or_default();
                let code = known.get(row).unwrap_or_default();
                return Err(Error::data(
                    path,
                    format!("row {}: {source} {code} is not known; update pktgen", at + row),
                ));
            }
            Ok(codes)
        }
        Made::Packet => {
            let [workers, seqs, attempts] = ["worker", "seq", "attempt"].map(numbers);
            let (workers, seqs, attempts) = (workers?, seqs?, attempts?);
            let parts = workers.into_no_null_iter().zip(seqs.into_no_null_iter()).zip(attempts.into_no_null_iter());
            let ids = parts.map(|((worker, seq), attempt)| PacketId::new(worker as u32, seq as u32, attempt as u8).0);
            Ok(UInt64Chunked::from_iter_values(name, ids).into_column())
        }
        Made::Bits(source, from, bits) => {
            let values = numbers(source)?;
            let cells = values.into_no_null_iter().map(|value| (value >> from & ((1 << bits) - 1)) as i64);
            Ok(Int64Chunked::from_iter_values(name, cells).into_column())
        }
        Made::Otherwise => Ok(source_column(path, own, &asked.name, asked.kind, asked.optional)?),
    }
}

/// Returns a column of a file, converted to the type of its table.
fn source_column(path: &Path, own: &DataFrame, source: &str, kind: Kind, optional: bool) -> Result<Column> {
    cast(path, checked(path, own, source, kind, optional)?, source, &data_type(kind))
}

fn cast(path: &Path, column: &Column, source: &str, to: &DataType) -> Result<Column> {
    if column.dtype() == to {
        return Ok(column.clone());
    }
    column.strict_cast(to).map_err(|fault| Error::data(path, format!("column \"{source}\": {fault}")))
}

/// Returns a column of a file after checking that the table's type can hold it.
fn checked<'a>(path: &Path, own: &'a DataFrame, source: &str, kind: Kind, optional: bool) -> Result<&'a Column> {
    let column = own.column(source).map_err(|_| Error::data(path, format!("it has no column \"{source}\"")))?;
    let found = column.dtype();
    let fits = match kind {
        Kind::Integer | Kind::Unsigned => found.is_integer(),
        Kind::Float => found.is_primitive_numeric(),
        Kind::Boolean => found.is_bool(),
        Kind::Text => found.is_string(),
    };
    if !fits {
        let what =
            format!("column \"{source}\" holds {found:?}, not {}; is this a stream of a pktgen run?", kind.name());
        return Err(Error::data(path, what));
    }
    let empty = column.null_count();
    if empty > 0 && !optional {
        return Err(Error::data(path, format!("column \"{source}\" has {empty} empty values but must have none")));
    }
    Ok(column)
}

/// Returns the names of the codes of a column.
fn named<'a>(
    path: &Path,
    own: &DataFrame,
    asked: &Asked,
    source: &str,
    name_of: impl Fn(usize) -> Option<&'a str>,
    at: usize,
) -> Result<Column> {
    let codes = source_column(path, own, source, Kind::Unsigned, asked.optional)?;
    let codes = codes.u64().map_err(broken)?;
    let mut cells = StringChunkedBuilder::new(PlSmallStr::from_str(&asked.name), codes.len());
    for (row, code) in codes.iter().enumerate() {
        let name = code.map(|code| {
            let unknown =
                || Error::data(path, format!("row {}: {source} {code} is not known; update pktgen", at + row));
            name_of(code as usize).ok_or_else(unknown)
        });
        cells.append_option(name.transpose()?);
    }
    Ok(cells.finish().into_column())
}

/// Returns the polars type.
pub(crate) const fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Integer => DataType::Int64,
        Kind::Unsigned => DataType::UInt64,
        Kind::Float => DataType::Float64,
        Kind::Text => DataType::String,
        Kind::Boolean => DataType::Boolean,
    }
}

/// Converts lines of metrics to rows.
fn of_lines(lines: &[Line], columns: &[&Asked]) -> PolarsResult<DataFrame> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let number = |value: &serde_json::Value| text(value).parse::<i64>().ok();
    let has_column = |label: &String, value: &serde_json::Value| {
        LABELS.contains(&label.as_str()) && (!NUMBERS.contains(&label.as_str()) || number(value).is_some())
    };
    let cells = columns.iter().map(|column| {
        let name = column.name.as_str();
        let texts = |cell: &dyn Fn(&Line) -> Option<String>| {
            Column::new(name.into(), lines.iter().map(cell).collect::<Vec<Option<String>>>())
        };
        match name {
            "metric" => texts(&|line| Some(line.metric.to_string())),
            "unit" => texts(&|line| Some(line.unit.to_string())),
            "value" => Column::new(name.into(), lines.iter().map(|line| line.value).collect::<Vec<_>>()),
            "key" => texts(&Line::key),
            "other" => texts(&|line| {
                let others = line.labels.iter().filter(|(label, value)| !has_column(label, value));
                let others: Vec<_> = others.map(|(label, value)| format!("{label}={}", text(value))).collect();
                (!others.is_empty()).then(|| others.join(" "))
            }),
            _ if NUMBERS.contains(&name) => {
                let number = |line: &Line| line.labels.get(name).and_then(number);
                Column::new(name.into(), lines.iter().map(number).collect::<Vec<_>>())
            }
            _ => texts(&|line| line.labels.get(name).map(text)),
        }
    });
    DataFrame::new(lines.len(), cells.collect())
}
