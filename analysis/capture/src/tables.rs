//! Exports the updates of captures as tables: `sent/run=NAME/cluster=3/part-0.parquet`, and beside them `tables.json`,
//! which describes their source.
//!
//! A part has the rows of one cluster in the order of time. `event` numbers the packets of the whole capture, so the
//! joined tables of several shards equal those of an export without shards: [`super::replay`] reads them back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use pktgen_core::arrow::ipc::writer::FileWriter;
use pktgen_core::column::Data::{Int64, UInt8, UInt16, UInt32, UInt64};
use pktgen_core::column::{Column, StreamTable};
use pktgen_core::record::digest::{FileDigests, check_files, file_digest, is_sealed, seal, unsealed};
use pktgen_core::shard::Shard;
use pktgen_core::whole::{WholeFile, write_whole};
use pktgen_core::{Error, Result};
use pktgen_records::fates::is_update;
use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::{Delivery, What};
use serde::{Deserialize, Serialize};

use super::clock::Clocks;
use super::input::{BACKGROUND, InputFacts};
use super::meter::Totals;
use super::{Event, Side};

/// Version of the tables; readers refuse newer ones.
pub const VERSION: u32 = 2;
/// Name of the file that describes the tables.
pub(crate) const INDEX: &str = "tables.json";
/// Maximum number of rows of all clusters in memory before they are written.
const HELD: usize = 1 << 20;

/// File format of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableForm {
    /// Parquet, compressed with Zstandard.
    Parquet,
    /// Arrow IPC files.
    Arrow,
}

impl TableForm {
    /// All formats.
    pub const ALL: [TableForm; 2] = [TableForm::Parquet, TableForm::Arrow];

    /// Returns the name, which is also the file extension.
    pub const fn name(self) -> &'static str {
        match self {
            TableForm::Parquet => "parquet",
            TableForm::Arrow => "arrow",
        }
    }
}

/// Where and how tables are written.
#[derive(Debug, Clone)]
pub struct TablesPlan {
    /// The folder, which must be new or empty.
    pub dir: PathBuf,
    /// Name of the run in the tables.
    pub run: String,
    /// Their file format.
    pub form: TableForm,
}

/// Description of a folder of tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TablesIndex {
    /// [`VERSION`].
    pub version: u32,
    /// Name of the run.
    pub run: String,
    /// File format of the tables.
    pub form: TableForm,
    /// Shard index and number of shards; `None` for all clusters.
    pub shard: Option<(u64, u64)>,
    /// Relation of the clocks.
    pub clocks: Clocks,
    /// The captures.
    pub inputs: Vec<InputFacts>,
    /// Names of the formats, indexed by the number in rows.
    #[serde(default = "first_formats")]
    pub formats: Vec<String>,
    /// Packets of these clusters by side, format and kind.
    pub kinds: BTreeMap<String, u64>,
    /// Background traffic by side.
    pub background: [u64; 2],
    /// Whether the server's captures have contributions of a worker that the senders' captures lack.
    #[serde(default)]
    pub unsent_workers: bool,
    /// Contributions that another of the senders' captures had before.
    #[serde(default)]
    pub elsewhere: u64,
    /// Formats of jobs of which the server's captures have contributions and no result.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub silent_jobs: BTreeSet<String>,
    /// Digests of the parts, by their paths in the folder. Earlier versions listed none.
    #[serde(default, skip_serializing_if = "FileDigests::is_empty")]
    pub files: FileDigests,
}

/// Returns the meaning of format numbers in old tables whose index does not list it.
fn first_formats() -> Vec<String> {
    ["olaf", "trio_ml", "switchml", "libra", "olaf_strict", "switchml_roce", "atp_ml"].map(str::to_owned).into()
}

/// Rows of one cluster at one side.
#[derive(Default)]
struct Rows {
    event: Vec<u64>,
    t_ps: Vec<i64>,
    gen_ps: Vec<Option<i64>>,
    worker: Vec<Option<u32>>,
    seq: Vec<u32>,
    round: Vec<u16>,
    attempt: Vec<u8>,
    count: Vec<u16>,
    bytes: Vec<u32>,
    elements: Vec<u16>,
    format: Vec<u8>,
    content: Vec<u32>,
}

/// Whether a character is allowed in folder names on every platform.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Tables that are being written.
pub(super) struct Tables {
    formats: Formats,
    plan: TablesPlan,
    rows: BTreeMap<(Side, u16), (Rows, usize)>,
    held: usize,
    files: FileDigests,
}

impl Tables {
    /// Creates the folder, which must be new or empty.
    pub(super) fn create(plan: &TablesPlan, formats: Formats) -> Result<Self> {
        let dir = &plan.dir;
        if plan.run.is_empty() || !plan.run.chars().all(is_plain) {
            let run = &plan.run;
            return Err(Error::config(format!(
                "--run \"{run}\": letters, digits, \"-\", \"_\" and \".\" are a folder's name everywhere"
            )));
        }
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        if fs::read_dir(dir).map_err(Error::io("read", dir))?.next().is_some() {
            return Err(Error::config(format!("--tables {}: the folder is not empty; name a new one", dir.display())));
        }
        Ok(Tables { formats, plan: plan.clone(), rows: BTreeMap::new(), held: 0, files: FileDigests::new() })
    }

    /// Stores an event that sends or delivers updates; `number` counts all events.
    pub(super) fn add(&mut self, event: &Event, number: u64) -> Result<()> {
        let sight = &event.sight;
        if !is_update(sight.cluster)
            || event.format == BACKGROUND
            || kept(self.formats, event.side, event.format) != sight.what
        {
            return Ok(());
        }
        let (rows, _) = self.rows.entry((event.side, sight.cluster)).or_default();
        rows.event.push(number);
        rows.t_ps.push(event.t);
        rows.gen_ps.push(sight.generation);
        rows.worker.push(sight.worker);
        rows.seq.push(sight.seq);
        rows.round.push(sight.round);
        rows.attempt.push(sight.attempt);
        rows.count.push(sight.count);
        rows.bytes.push(event.bytes);
        rows.elements.push(sight.elements);
        rows.format.push(event.format);
        rows.content.push(event.content);
        self.held += 1;
        if self.held >= HELD { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.held = 0;
        for (&(side, cluster), (rows, parts)) in &mut self.rows {
            if rows.event.is_empty() {
                continue;
            }
            let dir = folder(&self.plan.dir, side, &self.plan.run, cluster);
            fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
            let path = dir.join(format!("part-{parts}.{}", self.plan.form.name()));
            write_part(&path, self.plan.form, side, std::mem::take(rows))?;
            self.files.insert(name_in(&self.plan.dir, &path), file_digest(&path)?);
            *parts += 1;
        }
        Ok(())
    }

    /// Removes the written files.
    pub(super) fn discard(self) -> Result<()> {
        for dir in Side::ALL.map(|side| self.plan.dir.join(side_folder(side))) {
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &dir)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the remaining rows, and the index last: a folder without an index is incomplete.
    pub(super) fn finish(
        mut self,
        shard: Shard,
        clocks: &Clocks,
        inputs: Vec<InputFacts>,
        totals: &Totals,
    ) -> Result<()> {
        self.write()?;
        let index = TablesIndex {
            version: VERSION,
            run: self.plan.run.clone(),
            form: self.plan.form,
            shard: (shard != Shard::WHOLE).then(|| (shard.index(), shard.of())),
            clocks: clocks.clone(),
            inputs,
            formats: self.formats.iter().map(|format| format.name().to_owned()).collect(),
            kinds: totals.named_kinds(),
            background: totals.background,
            unsent_workers: totals.unsent_workers,
            elsewhere: totals.elsewhere,
            silent_jobs: totals.silent_jobs.clone(),
            files: self.files,
        };
        index.write(&self.plan.dir)
    }
}

impl TablesIndex {
    /// Writes the index into `dir`.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(INDEX);
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::data(&path, e.to_string()))?;
        write_whole(&path, seal(&text)).map(drop)
    }

    /// Refuses tables in `dir` with missing, changed or additional parts.
    pub fn verify(&self, dir: &Path) -> Result<()> {
        let path = dir.join(INDEX);
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        match (is_sealed(&path, &text)?, self.files.is_empty()) {
            // Of an earlier version, which listed no parts.
            (false, true) => return Ok(()),
            (false, false) => return Err(unsealed(&path)),
            (true, _) => check_files(dir, &self.files)?,
        }
        let own = format!("run={}", self.run);
        for side in Side::ALL {
            let side = dir.join(side_folder(side));
            let is_other = |folder: &PathBuf| {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("run=") && *name != *own
            };
            if let Some(other) = folders(&side)?.into_iter().find(is_other) {
                return Err(Error::Invalid(format!(
                    "{}: {INDEX} is of {own} and does not list it; remove it, or --no-verify to leave it out",
                    other.display()
                )));
            }
            for cluster in folders(&side.join(&own))? {
                for entry in fs::read_dir(&cluster).map_err(Error::io("read", &cluster))? {
                    let part = entry.map_err(Error::io("read", &cluster))?.path();
                    if !self.files.contains_key(&name_in(dir, &part)) {
                        return Err(Error::Invalid(format!(
                            "{}: {INDEX} does not list it; remove it, or --no-verify to read it all the same",
                            part.display()
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the index of `dir`.
    pub fn read(dir: &Path) -> Result<TablesIndex> {
        let path = dir.join(INDEX);
        let index: TablesIndex = pktgen_records::run::read_json(&path, "a folder of tables")?;
        match index.version {
            ..=VERSION => Ok(index),
            newer => {
                Err(Error::data(&path, format!("it is of version {newer}, and this pktgen reads up to {VERSION}")))
            }
        }
    }
}

/// Returns the path of a part relative to its folder of tables.
fn name_in(dir: &Path, part: &Path) -> String {
    part.strip_prefix(dir).unwrap_or(part).to_string_lossy().into_owned()
}

/// Returns the folders in `dir`, sorted; empty if `dir` does not exist.
pub(super) fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(dir).map_err(Error::io("read", dir))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}

/// Returns which packets of a format become rows at a side.
pub(super) fn kept(formats: Formats, side: Side, format: u8) -> What {
    let delivery = formats.get(usize::from(format)).map_or(Delivery::Updates, |format| format.delivery());
    match (side, delivery) {
        (Side::Server, Delivery::Results | Delivery::ResultsOfAll) => What::Result,
        _ => What::Update,
    }
}

/// Names of the folders of the two sides.
pub(super) const fn side_folder(side: Side) -> &'static str {
    match side {
        Side::Sender => "sent",
        Side::Server => "received",
    }
}

/// Returns the folder of a cluster, named as expected by engines that support partitions.
pub(super) fn folder(dir: &Path, side: Side, run: &str, cluster: u16) -> PathBuf {
    dir.join(side_folder(side)).join(format!("run={run}")).join(format!("cluster={cluster}"))
}

const EVENT: Column =
    Column::new("event", UInt64, "number", "Number of the packet in the whole capture, in the order of time.");
const ATTEMPT: Column = Column::new("attempt", UInt8, "number", "0 for the first transmission, then 1, 2 and so on.");
const ROUND: Column = Column::new(
    "round",
    UInt16,
    "number",
    "With cluster, number and format the sum that a packet is of: its iteration, or the slot that the device reuses; else 0.",
);
const COUNT: Column = Column::new("count", UInt16, "updates", "How many updates its content represents.");
const BYTES: Column = Column::new("bytes", UInt32, "bytes", "Length of the frame on the wire.");
const ELEMENTS: Column = Column::new("elements", UInt16, "count", "Gradients in it.");
const FORMAT: Column =
    Column::new("format", UInt8, "number", "Its wire format: position in `formats` of `tables.json`, from 0.");

const CONTENT: Column = Column::new(
    "content",
    UInt32,
    "number",
    "Of a result that says its sources: a digest (FNV-1a) of its first 64 bytes of values, by which copies are known; of a contribution without a worker: its source address (of IPv6 a number from 4026531840 on); else 0.",
);

static SENT: [Column; 12] = [
    EVENT,
    Column::new("t_sent_ps", Int64, "ps", "When it was captured, since the anchor, in the senders' clock."),
    Column::maybe("t_gen_ps", Int64, "ps", "When the update was generated; empty if the format does not carry it."),
    Column::maybe("worker", UInt32, "number", "Worker; empty if neither payload nor address says."),
    Column::new("seq", UInt32, "number", "Number of the update at its worker."),
    ROUND,
    ATTEMPT,
    COUNT,
    BYTES,
    ELEMENTS,
    FORMAT,
    CONTENT,
];

static RECEIVED: [Column; 12] = [
    EVENT,
    Column::new("t_recv_ps", Int64, "ps", "When it was captured, since the anchor, in the senders' clock."),
    Column::maybe(
        "newest_gen_ps",
        Int64,
        "ps",
        "When the newest member was generated; empty if the format does not carry it.",
    ),
    Column::maybe(
        "newest_worker",
        UInt32,
        "number",
        "Worker of the newest member; empty if neither payload nor address says.",
    ),
    Column::new("newest_seq", UInt32, "number", "Number of the newest member at its worker."),
    ROUND,
    ATTEMPT,
    COUNT,
    BYTES,
    ELEMENTS,
    FORMAT,
    CONTENT,
];

/// The tables with their columns; folders add `run` and `cluster`.
pub static TABLES: [StreamTable; 2] = [
    StreamTable {
        name: "tables/sent",
        row: "an update where workers send (`pktgen analyze --tables`)",
        columns: &SENT,
    },
    StreamTable {
        name: "tables/received",
        row: "a packet with updates at the server (`pktgen analyze --tables`)",
        columns: &RECEIVED,
    },
];

/// Returns the columns of a side, named like those of the run dir's streams if there are such.
pub(super) fn columns(side: Side) -> &'static [Column; 12] {
    match side {
        Side::Sender => &SENT,
        Side::Server => &RECEIVED,
    }
}

fn write_part(path: &Path, form: TableForm, side: Side, rows: Rows) -> Result<()> {
    let arrays: [ArrayRef; 12] = [
        Arc::new(UInt64Array::from(rows.event)),
        Arc::new(Int64Array::from(rows.t_ps)),
        Arc::new(Int64Array::from(rows.gen_ps)),
        Arc::new(UInt32Array::from(rows.worker)),
        Arc::new(UInt32Array::from(rows.seq)),
        Arc::new(UInt16Array::from(rows.round)),
        Arc::new(UInt8Array::from(rows.attempt)),
        Arc::new(UInt16Array::from(rows.count)),
        Arc::new(UInt32Array::from(rows.bytes)),
        Arc::new(UInt16Array::from(rows.elements)),
        Arc::new(UInt8Array::from(rows.format)),
        Arc::new(UInt32Array::from(rows.content)),
    ];
    let named = columns(side).iter().zip(arrays).map(|(column, array)| (column.name, array, column.optional));
    let failed = |error: String| Error::data(path, format!("it could not be written: {error}"));
    let batch = RecordBatch::try_from_iter_with_nullable(named).map_err(|e| failed(e.to_string()))?;
    let file = WholeFile::create(path)?;
    let file = match form {
        TableForm::Parquet => {
            let zstd = ZstdLevel::try_new(1).map_err(|e| failed(e.to_string()))?;
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(zstd)).build();
            let mut writer =
                ArrowWriter::try_new(file, batch.schema(), Some(properties)).map_err(|e| failed(e.to_string()))?;
            writer.write(&batch).map_err(|e| failed(e.to_string()))?;
            writer.into_inner().map_err(|e| failed(e.to_string()))?
        }
        TableForm::Arrow => {
            let mut writer = FileWriter::try_new(file, &batch.schema()).map_err(|e| failed(e.to_string()))?;
            writer.write(&batch).map_err(|e| failed(e.to_string()))?;
            writer.into_inner().map_err(|e| failed(e.to_string()))?
        }
    };
    file.finish().map(drop)
}
