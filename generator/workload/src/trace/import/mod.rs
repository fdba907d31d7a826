//! Importers: files of other tools as traces (docs/import.md).
//!
//! Each importer reads one form and pushes updates into a [`Sink`], which holds them against the rules of traces. The
//! trace gets its name when all is good; before, and after any error, there is nothing. `columns` has what forms with
//! columns share.

mod arrow;
mod chakra;
mod columns;
mod csv;
mod parquet;
mod pcap;
mod sink;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::manifest::{TraceManifest, file_hash};
use super::rules::frame_of;
use super::write::refuse_same;
use crate::pcap::packing;
use crate::registry::{Named, find};
use crate::regular::check_regular;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::{FRAME_MIN, elements_in};
use crate::wire::{Format, Formats};
use crate::{Error, Result};
use sink::Sink;

const GZIP: &str = "gzip";
const ZSTANDARD: &str = "Zstandard";
/// Packings of files, by [`packing`]: name, and the command that unpacks them.
static PACKINGS: [(&str, &str); 2] = [(GZIP, "gunzip"), (ZSTANDARD, "unzstd")];

/// What was derived, left out or passed over, for the manifest: a name and words for each.
type Notes = BTreeMap<String, String>;

/// What the caller chooses.
#[derive(Clone, Copy)]
pub struct ImportOptions {
    /// The frame size where neither the file nor an update's values say it.
    pub bytes: u32,
    /// Messages are cut into frames of at most so many bytes; without, one that needs more than a frame is refused.
    pub split: Option<u32>,
    /// The wire format of captured packets; without, their ports say it.
    pub wire: Option<&'static dyn Format>,
    /// The wire formats that there are.
    pub formats: Formats,
    /// Clusters are process groups; without, all are in cluster 0.
    pub by_group: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions { bytes: 256, split: None, wire: None, formats: &[], by_group: false }
    }
}

impl ImportOptions {
    /// Flags that were given and say something to few importers only.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [("--split", self.split.is_some()), ("--wire", self.wire.is_some()), ("--by-group", self.by_group)]
            .into_iter()
            .filter_map(|(flag, given)| given.then_some(flag))
    }
}

/// A form of files that can become a trace.
pub trait Importer: Named + Sync {
    /// Extensions by which it is recognised, in lower case, where first bytes ([`begins`](Self::begins)) say nothing; may be empty.
    /// Of two importers with one extension the first in [`IMPORTERS`] reads the file.
    fn extensions(&self) -> &'static [&'static str];

    /// Whether a file that begins so looks like its own, whatever its name.
    fn begins(&self, _head: &[u8]) -> bool {
        false
    }

    /// Whether it takes several files at once.
    fn several(&self) -> bool {
        false
    }

    /// Names of the packings of [`PACKINGS`] that it unpacks.
    fn unpacks(&self) -> &'static [&'static str] {
        &[]
    }

    /// Which of [`ImportOptions::given`] it uses.
    fn flags(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads `inputs` into `sink`, in the order of time.
    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes>;
}

/// Every importer, by name.
pub static IMPORTERS: &[&dyn Importer] = &[&parquet::Parquet, &csv::Csv, &arrow::Arrow, &pcap::Pcap, &chakra::Chakra];

/// Makes the trace `output` of `inputs`, which are of the form `format`, or of the one that first bytes or extension say.
/// A file that breaks a rule of [`check`](super::check) is refused; on any error nothing is left behind, and a trace that
/// was there stays as it was.
pub fn convert(
    inputs: &[PathBuf],
    output: &Path,
    format: Option<&str>,
    options: &ImportOptions,
    licence: &str,
) -> Result<TraceManifest> {
    let first = inputs.first().ok_or_else(|| Error::config("there is no input; name a file"))?;
    for input in inputs {
        check_regular(input)?;
        refuse_same(input, output)?;
    }
    let importer = match format {
        Some(name) => find(IMPORTERS, "importer", name, "--format")?,
        None => recognise(first)?,
    };
    if inputs.len() > 1 && !importer.several() {
        return Err(Error::config(format!(
            "{} files were given; {} takes one at a time: convert each, and name all in workload.trace",
            inputs.len(),
            importer.name()
        )));
    }
    if let Some(flag) = options.given().find(|flag| !importer.flags().contains(flag)) {
        let users: Vec<_> = IMPORTERS.iter().filter(|i| i.flags().contains(&flag)).map(|i| i.name()).collect();
        return Err(Error::config(format!(
            "{flag}: {} has no use for it, only {}; leave it out, or name the form with --format",
            importer.name(),
            users.join(", ")
        )));
    }
    inputs.iter().try_for_each(|input| refuse_packed(importer, input))?;
    let hashes = inputs.iter().map(|input| file_hash(input)).collect::<Result<Vec<_>>>()?;
    let mut sink = Sink::create(output)?;
    let mut details = importer.read(inputs, options, &mut sink)?;
    let names: Vec<_> = inputs.iter().map(|input| name_of(input)).collect();
    details.insert("importer".to_owned(), importer.name().to_owned());
    details.insert("from".to_owned(), names.join(", "));
    details.insert("from_sha256".to_owned(), hashes.join(", "));
    sink.finish(first, details, licence)
}

/// The importer for a file, by its first bytes, else by its extension: a name may be wrong.
pub fn recognise(path: &Path) -> Result<&'static dyn Importer> {
    let head = head_of(path)?;
    if let Some(importer) = IMPORTERS.iter().find(|importer| importer.begins(&head)) {
        return Ok(*importer);
    }
    let (name, _) = unpacked_name(path);
    let extension = Path::new(&name).extension().unwrap_or_default().to_string_lossy().into_owned();
    IMPORTERS.iter().find(|i| i.extensions().contains(&extension.as_str())).copied().ok_or_else(|| {
        let known = IMPORTERS.iter().map(|i| match i.extensions() {
            [] => i.name().to_owned(),
            some => format!("{} (.{})", i.name(), some.join(", .")),
        });
        Error::data(
            path,
            format!(
                "neither its first bytes nor the extension \"{extension}\" say what it is; name it with --format; there \
                 are: {}",
                known.collect::<Vec<_>>().join(", ")
            ),
        )
    })
}

/// The first bytes of a file.
fn head_of(path: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.take(16).read_to_end(&mut head).map_err(Error::io("read", path))?;
    Ok(head)
}

/// Refuses a packed file that `importer` does not unpack.
fn refuse_packed(importer: &dyn Importer, path: &Path) -> Result<()> {
    let head = head_of(path)?;
    match packing(&head).map(|at| PACKINGS[at]) {
        Some((packing, command)) if !importer.unpacks().contains(&packing) => {
            let name = importer.name();
            let what =
                format!("it is packed by {packing}, and {name} does not unpack that; unpack it first: {command}");
            Err(Error::data(path, what))
        }
        _ => Ok(()),
    }
}

/// A file's name in lower case without what says how it is packed, and whether something said so.
fn unpacked_name(path: &Path) -> (String, bool) {
    let name = name_of(path).to_lowercase();
    match name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")) {
        Some(inner) => (inner.to_owned(), true),
        None => (name, false),
    }
}

/// A file's name, for people.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What was not in a file as a trace has it.
#[derive(Default)]
struct Altered {
    /// Updates that got the size of `--bytes`.
    sized: u64,
    /// Numbers that 32 bits do not hold.
    rounded: Cell<u64>,
    /// Updates whose frames have room for more gradients than there are, and updates without any.
    repeated: u64,
    without: u64,
    /// Updates.
    updates: u64,
}

impl Altered {
    fn see(&mut self, bytes: u32, keys: usize, values: usize) {
        self.updates += 1;
        self.without += u64::from(values == 0);
        self.repeated += u64::from(keys == 0 && values > 0 && elements_in(bytes as usize) > values);
    }

    fn note(&self, bytes: u32, notes: &mut Notes) {
        if self.repeated > 0 {
            let text = format!("the values of {} updates, whose frames have room for more", self.repeated);
            notes.insert("repeated".to_owned(), text);
        }
        if self.without > 0 && self.without < self.updates {
            let text = format!("gradients of {} updates without values, beside updates that have some", self.without);
            notes.insert("made_up".to_owned(), text);
        }
        if self.sized > 0 {
            let text = format!("{bytes} for {} updates without a size, keys or values (--bytes)", self.sized);
            notes.insert("bytes".to_owned(), text);
        }
        if self.rounded.get() > 0 {
            notes.insert("rounded".to_owned(), format!("to 32 bits: {} of the numbers", self.rounded.get()));
        }
    }
}

/// The frame that `values` need, or `bytes` without any. Pairs with keys are cut into frames by who sends them: as many as a frame
/// has room for, at 8 bytes each.
fn frame_for(keys: usize, values: usize, bytes: u32) -> Result<u32, String> {
    if keys > 0 {
        return Ok((HEAD + 8 * keys).clamp(FRAME_MIN, FRAME_MAX) as u32);
    }
    let wanted = if values == 0 { bytes as usize } else { frame_of(values) };
    if (FRAME_MIN..=FRAME_MAX).contains(&wanted) {
        Ok(wanted as u32)
    } else {
        Err(format!("{values} values need a frame of {wanted} bytes; frames have {FRAME_MIN} to {FRAME_MAX}"))
    }
}

/// Counts as words, largest kinds first as they are given: `3 ack, 1 result`; none if all are 0.
fn counted<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<String> {
    let some: Vec<_> = counts.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
    (!some.is_empty()).then(|| some.join(", "))
}
