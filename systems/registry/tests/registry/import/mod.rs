//! Tests of importers: files made by code other than the readers, and damaged files, whose errors name the damage.

mod arrow;
mod chakra;
mod csv;
mod examples;
mod pcap;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_core::Result;
use pktgen_registry::all;
use pktgen_workload::trace::{IMPORTERS, ImportOptions, convert, recognise};

/// Notes on derived, omitted and skipped data.
type Notes = BTreeMap<String, String>;
use pktgen_workload::trace::{Reader, check};
use pktgen_workload::workload::Update;

/// Updates with their values.
type Rows = Vec<(Update, Vec<f32>)>;

/// A folder with input files.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Folder { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns a folder with one file.
    fn with(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = Folder::new();
        std::fs::write(folder.path(name), bytes).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }

    /// Returns the updates that [`read`] finds in the imported inputs, and the notes.
    fn import(&self, names: &[&str], options: &ImportOptions) -> Result<(Rows, Notes)> {
        let inputs: Vec<_> = names.iter().map(|name| self.path(name)).collect();
        let output = self.path("out.parquet");
        let manifest = convert(&inputs, &output, None, options, "CC0-1.0")?;
        assert_eq!(check(&output)?.updates, manifest.updates);
        Ok((read(&output), manifest.details))
    }

    /// Asserts that the inputs are refused with these words, and that neither they nor an existing trace changes.
    fn refuses(&self, names: &[&str], options: &ImportOptions, words: &[&str]) {
        let before = self.count();
        let message = self.import(names, options).expect_err(&words.join(" ")).to_string();
        for word in words {
            assert!(message.contains(word), "\"{word}\" is not in: {message}");
        }
        assert_eq!(self.count(), before, "{message}: nothing is left behind");
        std::fs::write(self.path("out.parquet"), "a trace").unwrap();
        assert!(self.import(names, options).is_err());
        assert_eq!(std::fs::read(self.path("out.parquet")).unwrap(), b"a trace", "{message}");
        std::fs::remove_file(self.path("out.parquet")).unwrap();
        assert_eq!(self.count(), before, "{message}");
    }
}

/// Returns all updates of a trace with their values.
fn read(path: &Path) -> Rows {
    let mut reader = Reader::open(path).unwrap();
    let mut all = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        all.extend(block.updates.iter().enumerate().map(|(i, update)| (*update, block.values(i).to_vec())));
    }
    all
}

/// Returns updates of four workers in two clusters: odd times, rewards and sizes, and values that are not round numbers.
fn story(rows: u32) -> Rows {
    let row = |i: u32| {
        let worker = [0, 1, 0, 2, 3, 1][i as usize % 6];
        let before = (0..i).filter(|before| [0, 1, 0, 2, 3, 1][*before as usize % 6] == worker).count() as u32;
        let elements = 1 + (i * 7) % 40;
        let values = (0..elements).map(|e| (f64::from(i * 64 + e) / 3.0 - 40.0) as f32).collect();
        let update = Update {
            t_gen: i64::from(i) * 1_234_567_891 + i64::from(i % 3),
            cluster: (worker / 2) as u16,
            worker,
            seq: before,
            bytes: 72 + elements * 4 + i % 4,
            reward: Some(f32::sin(i as f32)),
            iteration: None,
        };
        (update, values)
    };
    (0..rows).map(row).collect()
}

#[test]
fn a_form_is_known_by_first_bytes_then_by_extension() {
    let by = |name: &str, bytes: &[u8]| {
        let folder = Folder::with(name, bytes);
        recognise(&folder.path(name)).map(|importer| importer.name()).map_err(|e| e.to_string())
    };
    for (name, bytes, importer) in [
        ("a.csv", &b"PAR1"[..], "parquet"),
        ("a.et", b"\xa1\xb2\xc3\xd4", "pcap"),
        ("a.parquet", b"t_ps,cluster", "parquet"),
        ("A.CSV", b"", "csv"),
        ("a.pq", b"", "parquet"),
        ("a.feather", b"", "arrow"),
        ("a.pcap.gz", b"", "pcap"),
        ("a.pcapng.zst", b"", "pcap"),
        ("a.7.et", b"", "chakra"),
        ("a.0.et.gz", b"", "chakra"),
        ("a", b"PAR1", "parquet"),
        ("a.bin", b"ARROW1\0\0", "arrow"),
        ("a", b"\xff\xff\xff\xff\x10\0\0\0", "arrow"),
        ("a", b"\x0a\x0d\x0d\x0a", "pcap"),
        ("a", b"\xa1\xb2\xc3\xd4", "pcap"),
        ("a", b"\x4d\x3c\xb2\xa1", "pcap"),
    ] {
        assert_eq!(by(name, bytes), Ok(importer.to_owned()).map(|_: String| importer), "{name}");
    }
    let message = by("a.txt", b"t_ps,cluster").unwrap_err();
    assert!(message.contains("\"txt\"") && message.contains("--format") && message.contains("csv (.csv)"), "{message}");
}

#[test]
fn flags_and_files_that_a_form_does_not_take_are_refused() {
    let folder = Folder::with("a.csv", "t_ps,cluster,worker\n0,0,0\n");
    std::fs::copy(folder.path("a.csv"), folder.path("b.csv")).unwrap();
    let plain = ImportOptions::default();
    folder.refuses(&["a.csv", "b.csv"], &plain, &["2 files", "csv takes one at a time"]);
    folder.refuses(&["a.csv"], &ImportOptions { split: Some(900), ..plain }, &["--split", "only chakra"]);
    folder.refuses(&["a.csv"], &ImportOptions { by_group: true, ..plain }, &["--by-group", "only chakra"]);
    folder.refuses(
        &["a.csv"],
        &ImportOptions { wire: Some(all().protocols.formats[0]), ..plain },
        &["--wire", "only pcap"],
    );
    let convert = |format| {
        convert(&[folder.path("a.csv")], &folder.path("t.parquet"), Some(format), &plain, "none")
            .map_err(|e| e.to_string())
    };
    let message = convert("pcapp").unwrap_err();
    assert!(message.contains("--format") && message.contains("did you mean \"pcap\""), "{message}");
    assert!(convert("chakra").unwrap_err().contains("byte 0"));
    assert_eq!(folder.count(), 2);
    assert_eq!(convert("csv").unwrap().updates, 1);
}

#[test]
fn packed_files_are_refused_by_forms_that_do_not_unpack_them() {
    let (gzip, zstandard) = (&b"\x1f\x8b\x08\0"[..], &b"\x28\xb5\x2f\xfd"[..]);
    let plain = ImportOptions::default();
    for (name, bytes, what) in [
        ("a.csv.gz", gzip, "it is packed by gzip, and csv does not unpack that; unpack it first: gunzip"),
        ("a.csv", gzip, "it is packed by gzip, and csv does not unpack that"),
        (
            "a.parquet.zst",
            zstandard,
            "it is packed by Zstandard, and parquet does not unpack that; unpack it first: unzstd",
        ),
        ("a.arrows.gz", gzip, "it is packed by gzip, and arrow does not unpack that"),
        ("a.0.et.zst", zstandard, "it is packed by Zstandard, and chakra does not unpack that"),
    ] {
        Folder::with(name, bytes).refuses(&[name], &plain, &[what]);
    }
    // Forms that unpack read on.
    for (name, bytes) in [("a.0.et.gz", gzip), ("a.pcap.gz", gzip), ("a.pcap.zst", zstandard)] {
        let why = Folder::with(name, bytes).import(&[name], &plain).unwrap_err().to_string();
        assert!(!why.contains("it is packed"), "{why}");
    }
    // A name may be wrong.
    let folder = Folder::with("a.csv.gz", "t_ps,cluster,worker\n0,0,0\n");
    assert_eq!(folder.import(&["a.csv.gz"], &plain).unwrap().0.len(), 1);
}

#[test]
fn pipes_are_refused_before_they_are_read() {
    let folder = Folder::new();
    // Opening a pipe that has no writer would block for ever.
    for importer in IMPORTERS {
        let input = folder.path(&format!("pipe.{}", importer.extensions().first().unwrap_or(&importer.name())));
        assert!(std::process::Command::new("mkfifo").arg(&input).status().unwrap().success());
        let options = ImportOptions::default();
        for format in [None, Some(importer.name())] {
            let message =
                convert(std::slice::from_ref(&input), &folder.path("out.parquet"), format, &options, "").unwrap_err();
            assert!(message.to_string().contains("it is a named pipe, not a regular file"), "{message}");
        }
    }
}
