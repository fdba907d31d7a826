//! CAPTURES: metrics of frames recorded on a wire, without a run dir.
//!
//! This crate contains the reading of captures, the metrics that can be computed from them in bounded memory, and the export of their
//! updates as tables. It contains neither definitions of metrics that run dirs have, too (`pktgen-records`), nor reports. It must not
//! print or use `unsafe`; invalid input gives an error message, never a panic.
//!
//! Called by the CLI's `analyze`. [`input`] converts the packets of a file into [`Event`]s, [`merge`] combines several files into one
//! stream in the order of time, [`meter`] adds them up in bounded memory, and [`lines`] outputs the metrics of a run dir as far as a
//! capture can give them, with [`notes`] about those that it cannot. [`clock`] decides whether times of the two sides may be compared.
//! [`tables`] exports the updates, and [`replay`] reads them again. The numbers are computed by the same code as those of run dirs:
//! [`pktgen_records::age::Sums`], [`pktgen_records::quantile`] and the metrics' own functions. docs/analyze.md has the definitions.
#![forbid(unsafe_code)]

mod addresses;
pub mod clock;
mod flow;
mod frames;
pub mod input;
mod lines;
mod merge;
mod meter;
mod notes;
mod numbers;
mod recent;
pub mod replay;
pub mod spool;
mod sums;
pub mod tables;
mod window;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_core::record::digest::Verified;
use pktgen_core::shard::Shard;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::sight::Sight;
use pktgen_wire::wire::{Format, Formats};

use serde::{Deserialize, Serialize};

use addresses::SourceNumbers;
use clock::{Anchor, Clocks, Offset};
use input::{Input, InputFacts};
pub use lines::DEFINITIONS;
use lines::Facts;
use merge::Merge;
use meter::Meter;
pub use notes::CODES;
use pktgen_records::line::Measured;
use tables::{Tables, TablesPlan};

/// Where a capture was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// At the workers.
    Sender,
    /// At the parameter server.
    Server,
}

impl Side {
    /// Both sides.
    pub const ALL: [Side; 2] = [Side::Sender, Side::Server];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Server => "server",
        }
    }
}

/// A packet of a known protocol or of background traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time in ps since the anchor, in the senders' clock.
    pub t: i64,
    /// Side at which it was captured.
    pub side: Side,
    /// Length of its frame.
    pub bytes: u32,
    /// Index of its format.
    pub format: u8,
    /// Contents of its header.
    pub sight: Sight,
    /// Digest of the first values of a result whose header several sums may share; source address of a contribution without a worker, or its
    /// number over IPv6; otherwise 0.
    pub content: u32,
}

impl Event {
    /// Returns the worker of a contribution, or the address of one that names none.
    fn sender(&self) -> Option<u32> {
        self.sight.worker.or((self.content != 0).then_some(self.content))
    }
}

/// Captures to analyse, with options.
#[derive(Clone)]
pub struct CapturePlan {
    /// All known formats.
    pub formats: Formats,
    /// Captures at the parameter server.
    pub server: Vec<PathBuf>,
    /// Captures where workers send.
    pub sender: Vec<PathBuf>,
    /// The format of all packets; `None` to use ports and headers.
    pub format: Option<&'static dyn Format>,
    /// Origin of generation times.
    pub anchor: Option<Anchor>,
    /// How far the server's clock is ahead of the senders'.
    pub offset: Option<Offset>,
    /// The device only forwards and drops, so missing packets were lost.
    pub forwards: bool,
    /// Restricts the analysis to the clusters of this shard.
    pub shard: Shard,
    /// Exports the updates as tables.
    pub tables: Option<TablesPlan>,
    /// Maximum number of bytes of numbers in memory; further ones go to a temporary file.
    pub memory: usize,
    /// Reads run dirs of recorded interfaces without checking the digests of their files.
    pub no_verify: bool,
}

/// Default maximum number of bytes of numbers in memory.
pub(crate) const MEMORY: usize = 256 << 20;

impl CapturePlan {
    /// Creates a plan with default options.
    pub fn new(formats: Formats, server: Vec<PathBuf>, sender: Vec<PathBuf>) -> Self {
        CapturePlan {
            formats,
            server,
            sender,
            format: None,
            anchor: None,
            offset: None,
            forwards: false,
            shard: Shard::WHOLE,
            tables: None,
            memory: MEMORY,
            no_verify: false,
        }
    }

    /// Compares the files in run dirs with their digests; returns the result by folder.
    fn verify(&self) -> Result<Checked> {
        let dirs = self.server.iter().chain(&self.sender).filter(|path| path.is_dir());
        let check = |dir: &PathBuf| if self.no_verify { Ok(Verified::Waived) } else { frames::verify(dir) };
        dirs.map(|dir| check(dir).map(|verified| (dir.clone(), verified))).collect()
    }

    /// Opens all files of one side.
    fn open(&self, side: Side) -> Result<Vec<Input>> {
        let files = if side == Side::Sender { &self.sender } else { &self.server };
        files.iter().map(|path| Input::open(path, side, self.formats, self.format)).collect()
    }
}

/// Returns whether `path` is a capture: a file, a pipe, or the run dir of a recorded interface.
pub fn is_capture(path: &Path) -> bool {
    path.is_file() || spool::is_stream(path) || frames::is_recording(path)
}

/// Whether the files of run dirs were compared with their digests.
type Checked = BTreeMap<PathBuf, Verified>;

/// Number of packets between two calls of `progress`.
const TELL_EVERY: u64 = 1 << 18;

/// Analyses captures. `progress` is called with the number of bytes read from all files and their total.
pub fn analyze_captures(plan: &CapturePlan, progress: &mut dyn FnMut(u64, u64)) -> Result<Measured> {
    if plan.server.is_empty() && plan.sender.is_empty() {
        return Err(Error::config("no capture was given"));
    }
    let checked = plan.verify()?;
    let clocks = Clocks::find(plan, progress)?;
    let measured = match analyze_in_order(plan, (&clocks, &checked), opened(plan, &clocks)?, progress)? {
        Some(measured) => Some(measured),
        // Most captures are in order, so sorting is tried only after a failure.
        None => analyze_in_order(plan, (&clocks, &checked), sorted(plan, &clocks, progress)?, progress)?,
    };
    measured.ok_or_else(|| Error::Invalid("a capture is another than a moment before".into()))
}

/// Opens all files, with times counted from the clocks' anchors.
fn opened(plan: &CapturePlan, clocks: &Clocks) -> Result<Vec<Input>> {
    let mut inputs = plan.open(Side::Server)?;
    inputs.extend(plan.open(Side::Sender)?);
    let sources = SourceNumbers::default();
    for input in &mut inputs {
        input.use_clocks(clocks);
        input.use_sources(&sources);
    }
    Ok(inputs)
}

/// Opens all files and sorts each by time, as far as memory allows.
fn sorted(plan: &CapturePlan, clocks: &Clocks, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Input>> {
    progress(0, 0);
    let mut inputs = opened(plan, clocks)?;
    let mut room = plan.memory / size_of::<Event>();
    for (input, scanned) in inputs.iter_mut().zip(opened(plan, clocks)?) {
        if scanned.lacks_order() {
            room -= input.sort(room);
        }
    }
    Ok(inputs)
}

/// Analyses the files unless one is not in the order of time.
fn analyze_in_order(
    plan: &CapturePlan,
    (clocks, checked): (&Clocks, &Checked),
    inputs: Vec<Input>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Measured>> {
    let total: u64 = inputs.iter().filter_map(Input::file_bytes).sum();
    let mut merge = Merge::new(inputs);
    let mut meter = Meter::new(plan.formats, !plan.sender.is_empty(), plan.memory);
    meter.leave_order(clocks.is_unrelated());
    let mut tables = plan.tables.as_ref().map(|tables| Tables::create(tables, plan.formats)).transpose()?;
    let (mut seen, mut told) = (0u64, 0);
    let mut batch = Vec::new();
    loop {
        merge.next(&mut batch);
        if merge.is_unordered() {
            tables.map_or(Ok(()), Tables::discard)?;
            return Ok(None);
        }
        if batch.is_empty() {
            break;
        }
        meter.allow_early(input::early_within_ps(clocks, merge.resolutions_at_server()));
        for (place, event) in batch.iter().enumerate() {
            seen += 1;
            if plan.shard != Shard::WHOLE && !plan.shard.takes(event.sight.cluster.into()) {
                continue;
            }
            meter.read_file(merge.file_of(place));
            meter.add(event)?;
            if let Some(tables) = &mut tables {
                tables.add(event, seen)?;
            }
        }
        if seen - told >= TELL_EVERY {
            told = seen;
            progress(merge.bytes_read(), total);
        }
    }
    progress(total, total);
    meter.compare_sides();
    let mut inputs = merge.into_inputs();
    input::compare_addresses(&mut inputs);
    let facts = |input: Input| {
        let verified = checked.get(input.path()).copied().unwrap_or_default();
        input.into_facts(verified)
    };
    let inputs: Vec<InputFacts> = inputs.into_iter().map(facts).collect();
    if let Some(tables) = tables {
        tables.finish(plan.shard, clocks, inputs.clone(), &meter.totals)?;
    }
    let facts = Facts {
        sides: [!plan.sender.is_empty(), !plan.server.is_empty()],
        forwards: plan.forwards,
        shard: (plan.shard != Shard::WHOLE).then(|| plan.shard.to_string()),
        format: plan.format.map(|format| format.name()),
        clocks,
        inputs: &inputs,
    };
    lines::measured(&facts, meter).map(Some)
}
