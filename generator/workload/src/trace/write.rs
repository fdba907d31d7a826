//! Writing traces, and synthesising them from a workload.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, UInt16Array, UInt32Array, UInt64Array,
};
use crate::arrow::buffer::{NullBuffer, OffsetBuffer};
use crate::arrow::datatypes::Field;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::manifest::{TraceManifest, manifest_path};
use super::rules::Rules;
use super::schema::trace_schema;
use crate::whole::{WholeFile, entry_of_proc};
use crate::wire::update;
use crate::workload::{Source, Update};
use crate::{Error, Result};

/// Refuses to write a trace over the file that it is made from.
pub(super) fn refuse_same(input: &Path, output: &Path) -> Result<()> {
    match (input.canonicalize(), output.canonicalize()) {
        (Ok(a), Ok(b)) if a == b => {
            Err(Error::config(format!("{}: is the input and the output; choose another output", output.display())))
        }
        _ => Ok(()),
    }
}

/// Rows per batch.
const BATCH: usize = 8192;
/// Values per batch, so that rows of thousands of values do not pile up.
const BATCH_VALUES: usize = 1 << 22;
/// Encoded bytes of a row group after which the next begins: the encoder holds the whole one it is in.
const GROUP_BYTES: usize = 1 << 25;

/// Writes a trace, then its manifest. The file appears under its name only when it is complete; a writer that is
/// dropped before leaves nothing behind.
pub struct Writer {
    path: PathBuf,
    writer: ArrowWriter<WholeFile>,
    updates: Vec<Update>,
    values: Vec<f32>,
    offsets: Vec<i32>,
    keys: Vec<u64>,
    key_offsets: Vec<i32>,
    rows: u64,
}

impl Writer {
    /// Creates the file beside `path`.
    pub fn create(path: &Path) -> Result<Self> {
        // The finished file is renamed over the name: never over a folder or a device.
        for path in [path, &manifest_path(path)] {
            if path.exists() && !path.is_file() {
                return Err(Error::config(format!(
                    "{}: exists and is not a file; choose another name",
                    path.display()
                )));
            }
            // That of the manifest is longer than that of the trace.
            match path.symlink_metadata() {
                Err(fault) if fault.kind() == ErrorKind::InvalidFilename => {
                    return Err(Error::io("create", path)(fault));
                }
                _ => {}
            }
            if entry_of_proc(path).is_some() {
                return Err(Error::config(format!(
                    "{}: leads to an open file, and a trace is a file with its manifest beside it; choose another name",
                    path.display()
                )));
            }
        }
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
            return Err(Error::config(format!(
                "{}: traces are written as Parquet, not CSV; choose a name that ends in .parquet",
                path.display()
            )));
        }
        let level = ZstdLevel::try_new(3).map_err(|e| Error::data(path, e.to_string()))?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let writer = ArrowWriter::try_new(WholeFile::replace(path)?, trace_schema(), Some(properties))
            .map_err(|e| Error::data(path, format!("cannot start the trace: {e}")))?;
        Ok(Writer {
            path: path.to_owned(),
            writer,
            updates: Vec::new(),
            values: Vec::new(),
            offsets: vec![0],
            keys: Vec::new(),
            key_offsets: vec![0],
            rows: 0,
        })
    }

    /// Appends an update with its values (none: an empty slice).
    pub fn push(&mut self, update: &Update, values: &[f32]) -> Result<()> {
        self.push_pairs(update, &[], values)
    }

    /// Appends an update with its values and their keys (none: an empty slice).
    pub fn push_pairs(&mut self, update: &Update, keys: &[u64], values: &[f32]) -> Result<()> {
        self.updates.push(*update);
        self.keys.extend_from_slice(keys);
        self.key_offsets.push(self.keys.len() as i32);
        self.values.extend_from_slice(values);
        self.offsets.push(self.values.len() as i32);
        // Neither offset can leave 32 bits.
        if self.updates.len() >= BATCH || self.values.len().max(self.keys.len()) > BATCH_VALUES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.updates.is_empty() {
            return Ok(());
        }
        let updates = std::mem::take(&mut self.updates);
        self.rows += updates.len() as u64;
        let values = Float32Array::from(std::mem::take(&mut self.values));
        let values = lists(std::mem::replace(&mut self.offsets, vec![0]), Arc::new(values));
        let keys = UInt64Array::from(std::mem::take(&mut self.keys));
        let keys = lists(std::mem::replace(&mut self.key_offsets, vec![0]), Arc::new(keys));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(updates.iter().map(|u| u.t_gen).collect::<Int64Array>()),
            Arc::new(UInt16Array::from_iter_values(updates.iter().map(|u| u.cluster))),
            Arc::new(UInt32Array::from_iter_values(updates.iter().map(|u| u.worker))),
            Arc::new(UInt32Array::from_iter_values(updates.iter().map(|u| u.seq))),
            Arc::new(UInt32Array::from_iter_values(updates.iter().map(|u| u.bytes))),
            Arc::new(updates.iter().map(|u| u.reward).collect::<Float32Array>()),
            Arc::new(keys),
            Arc::new(values),
            Arc::new(updates.iter().map(|u| u.iteration).collect::<UInt32Array>()),
        ];
        let fail = |e: &dyn std::fmt::Display| Error::data(&self.path, format!("cannot write the trace: {e}"));
        let batch = RecordBatch::try_new(trace_schema(), columns).map_err(|e| fail(&e))?;
        self.writer.write(&batch).map_err(|e| write_error(&self.path, e))?;
        if self.writer.in_progress_size() > GROUP_BYTES {
            self.writer.flush().map_err(|e| write_error(&self.path, e))?;
        }
        Ok(())
    }

    /// Ends the file, writes the manifest beside it, and gives both their names: the old trace keeps no manifest, then the new one
    /// gets its own.
    pub fn finish(mut self, origin: &str, details: BTreeMap<String, String>, licence: &str) -> Result<TraceManifest> {
        self.flush()?;
        let Writer { path, writer, rows, .. } = self;
        let mut trace = writer.into_inner().map_err(|e| write_error(&path, e))?;
        let manifest = TraceManifest {
            version: 1,
            origin: origin.to_owned(),
            details,
            licence: licence.to_owned(),
            sha256: trace.digest()?.sha256,
            updates: rows,
        };
        let place = manifest_path(&path);
        let mut described = WholeFile::replace(&place)?;
        described.write_all(manifest.text(&place)?.as_bytes()).map_err(Error::io("write", &place))?;
        // A trace without a manifest is readable, one with another's is not: a process killed here leaves the former.
        match std::fs::remove_file(&place) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io("remove", &place)(e)),
            _ => {}
        }
        trace.finish()?;
        described.finish()?;
        Ok(manifest)
    }
}

/// A column of lists; an empty one is null.
fn lists(offsets: Vec<i32>, numbers: ArrayRef) -> ListArray {
    let present: NullBuffer = offsets.windows(2).map(|w| w[1] > w[0]).collect::<Vec<_>>().into();
    let item = Arc::new(Field::new("item", numbers.data_type().clone(), false));
    ListArray::new(item, OffsetBuffer::new(offsets.into()), numbers, Some(present))
}

/// A full disk and the like are I/O errors wherever they surface.
fn write_error(path: &Path, error: parquet::errors::ParquetError) -> Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(source) => Error::Io { action: "write", path: path.to_owned(), source: *source },
            Err(inner) => Error::data(path, format!("cannot write the trace: {inner}")),
        },
        other => Error::Io { action: "write", path: path.to_owned(), source: std::io::Error::other(other.to_string()) },
    }
}

/// Writes everything a source has into `path`; `with_values` keeps the gradients too. Refuses what cannot be replayed.
pub fn synthesise(
    source: &mut dyn Source,
    path: &Path,
    with_values: bool,
    details: BTreeMap<String, String>,
    progress: &mut dyn FnMut(u64),
) -> Result<TraceManifest> {
    if source.known().raw.is_some() {
        return Err(Error::config(
            "workload.kind = \"raw\": a trace has updates, and raw frames are none; record them as a capture (capture.pcap = true)",
        ));
    }
    let mut writer = Writer::create(path)?;
    let mut rules = Rules::default();
    let mut bytes = Vec::new();
    let mut values = Vec::new();
    let mut rows = 0;
    while let Some(update) = source.peek().copied() {
        let plain = update.cluster == crate::record::NO_CLUSTER || !with_values;
        bytes.resize(if plain { 0 } else { update::elements_in(update.bytes as usize) * 4 }, 0);
        source.take(&mut bytes);
        values.clear();
        values.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        rules.update(&update, &values);
        rules.reward(&update);
        if let Some(what) = rules.problems().first() {
            return Err(no_trace(what));
        }
        writer.push(&update, &values)?;
        rows += 1;
        if rows % BATCH as u64 == 0 {
            progress(rows);
        }
    }
    if let Some(why) = source.failure() {
        return Err(Error::data(path, why));
    }
    if let Some(what) = rules.finish().1.first() {
        return Err(no_trace(what));
    }
    writer.finish("synthesised", details, "CC0-1.0")
}

/// The refusal of a workload that makes no trace by the rules.
fn no_trace(what: &str) -> Error {
    Error::config(format!(
        "[workload]: its trace could not be replayed: {what}; leave workload.moves out, and let every worker and flow send before \
         schedule.stop or the end"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::trace::file_hash;

    #[test]
    fn a_writer_that_is_dropped_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("t.parquet");
        let writer = Writer::create(&path).unwrap();
        assert_eq!(files(), 1);
        drop(writer);
        assert_eq!(files(), 0);
        Writer::create(&path).unwrap().finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
        assert_eq!(files(), 2, "the trace and its manifest");
        let message = Writer::create(&folder.path().join("t.CSV")).err().unwrap().to_string();
        assert!(message.contains(".parquet"), "{message}");
        assert_eq!(files(), 2);
        // Names have at most 255 bytes, and a manifest's is 14 longer than its trace's.
        let long = |bytes: usize| Writer::create(&folder.path().join("t".repeat(bytes)));
        assert!(long(242).err().unwrap().to_string().contains("manifest.json: File name too long"));
        assert_eq!(files(), 2);
        long(241).unwrap().finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
        assert_eq!(files(), 4);
    }

    #[test]
    fn files_of_killed_writers_are_reused_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let path = at("t.parquet");
        // Of a user, or of an older version.
        let others = [at("t.parquet.partial"), at("t.parquet.manifest.json.partial")];
        for text in ["", "PAR1 and some pages", "{\"version\": 1}\n"] {
            others.iter().for_each(|other| std::fs::write(other, text).unwrap());
            for left in ["t.parquet.pktgen.partial", "t.parquet.manifest.json.pktgen.partial"] {
                std::fs::write(at(left), "half").unwrap();
            }
            let manifest = Writer::create(&path).unwrap().finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
            assert_eq!((files(), file_hash(&path).unwrap()), (4, manifest.sha256.clone()), "{text:?}");
            assert_eq!(TraceManifest::load(&path).unwrap(), Some(manifest));
            others.iter().for_each(|other| assert_eq!(std::fs::read(other).unwrap(), text.as_bytes()));
        }
        // Each of two writers has its own.
        let (one, two) = (Writer::create(&path).unwrap(), Writer::create(&path).unwrap());
        assert_eq!(files(), 6);
        drop((one, two));
        assert_eq!(files(), 4);
    }

    #[test]
    fn a_link_is_replaced_and_one_to_an_open_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("target"), "before").unwrap();
        symlink(at("target"), at("t.parquet")).unwrap();
        Writer::create(&at("t.parquet")).unwrap().finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
        assert_eq!(std::fs::read(at("target")).unwrap(), b"before");
        assert!(!at("t.parquet").is_symlink());
        // Held open by this process, as a file behind a shell's redirection.
        symlink("/proc/self/exe", at("out")).unwrap();
        let message = Writer::create(&at("out")).err().unwrap().to_string();
        assert!(message.contains("out: leads to an open file"), "{message}");
        assert!(at("out").is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_trace_whose_replacement_ends_between_the_names_has_no_manifest_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let (path, manifest) = (folder.path().join("t.parquet"), folder.path().join("t.parquet.manifest.json"));
        Writer::create(&path).unwrap().finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
        let writer = Writer::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(writer.finish("recorded", BTreeMap::new(), "MIT").is_err());
        assert!(!manifest.exists(), "the trace has its name before its manifest");
    }

    #[test]
    fn a_trace_is_replaced_with_its_manifest_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (path, manifest) = (folder.path().join("t.parquet"), folder.path().join("t.parquet.manifest.json"));
        std::fs::write(&path, "before").unwrap();
        let writer = Writer::create(&path).unwrap();
        std::fs::create_dir(&manifest).unwrap();
        assert!(writer.finish("recorded", BTreeMap::new(), "CC0-1.0").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        // Known before, nothing is written at all.
        let message = Writer::create(&path).err().unwrap().to_string();
        assert!(message.contains("t.parquet.manifest.json: exists and is not a file"), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_replayed_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let workers = "[workload]\nclusters = 2\nworkers_per_cluster = 1\nupdates = 9\n";
        let period = "[schedule]\nperiod = \"1us\"\n";
        let raw = "[workload]\nkind = \"raw\"\n[schedule]\noffered = \"1Gbps\"\n".to_owned();
        for (text, part) in [
            (
                format!("{workers}[[workload.moves]]\nat = \"2us\"\nworker = 0\ncluster = 1\n{period}"),
                "clusters 0 and 1",
            ),
            (format!("{workers}cluster_periods = [1000.0, 1.0]\n{period}stop = \"2us\"\n"), "dense"),
            (raw, "raw"),
        ] {
            let mut document = crate::config::Document::parse(&text, "x.toml").unwrap();
            let mut source = crate::workload::open(&mut document, crate::seed::Seed(1)).unwrap().source;
            let error = synthesise(source.as_mut(), &path, true, BTreeMap::new(), &mut |_| {}).expect_err(part);
            assert!(matches!(error, Error::Config(_)) && error.to_string().contains(part), "{error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
