//! Digests of written files, to find damage before numbers are shown.
//!
//! `manifest.json` lists the files of its run dir with their sizes and SHA-256; `sweep.json` lists the manifests. Each of
//! them ends with a digest of its own text.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::row::STREAMS;
use super::verdict::Note;
use crate::regular::check_regular;
use crate::{Error, Result};

/// Text before the digest in a JSON file, and after it.
const KEY: &[u8] = b",\n  \"digest\": \"sha256:";
const END: &[u8] = b"\"\n}\n";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;
/// Files of the frames of an interface; the finished one is last.
pub const FRAME_FILES: [&str; 2] = ["frames.arrows", "frames.parquet"];
/// Beginnings of manifest entries that differ between identical runs; the end of an entry of several lines.
const OWN: [&[u8]; 3] = [b"  \"created_unix_ns\": ", b"  \"command\": ", b"  \"digest\": "];
const LIST_END: &[u8] = b"  ]";
/// Size of the read buffer, in bytes.
const BUFFER: usize = 1 << 18;

/// Length and hash of a file at the time of writing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// The files of a folder by their names in it.
pub type FileDigests = BTreeMap<String, FileDigest>;

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A writer that hashes what is written through it.
pub struct Hashing<W> {
    inner: W,
    hash: Option<Sha256>,
    bytes: u64,
}

impl<W> Hashing<W> {
    /// Starts a hash over what will be written to `inner`.
    pub fn new(inner: W) -> Self {
        Hashing { inner, hash: Some(Sha256::new()), bytes: 0 }
    }

    /// Passes writes through without hashing.
    pub fn pass(inner: W) -> Self {
        Hashing { inner, hash: None, bytes: 0 }
    }

    /// Returns the digest of everything written, once; `None` if it was not hashed.
    pub fn digest(&mut self) -> Option<FileDigest> {
        let hash = self.hash.take()?;
        Some(FileDigest { bytes: self.bytes, sha256: hex(&hash.finalize()) })
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.inner.write(bytes)?;
        if let Some(hash) = &mut self.hash {
            hash.update(&bytes[..n]);
            self.bytes += n as u64;
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the current digest of the file at `path`.
pub fn file_digest(path: &Path) -> Result<FileDigest> {
    check_regular(path)?;
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer).map_err(Error::io("read", path))? {
            0 => return Ok(FileDigest { bytes, sha256: hex(&hash.finalize()) }),
            n => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

/// Refuses files of `dir` whose content does not match `files`.
pub fn check_files(dir: &Path, files: &FileDigests) -> Result<()> {
    for (name, said) in files {
        let path = dir.join(name);
        if !path.exists() {
            return Err(Error::Invalid(format!(
                "{}: it is missing, and the manifest lists it; restore it, or --no-verify to do without it",
                path.display()
            )));
        }
        let found = file_digest(&path)?;
        if found != *said {
            return Err(changed(&path, &found.sha256, &said.sha256, "the manifest"));
        }
    }
    Ok(())
}

/// Refuses files of streams in `dir` that `files`, the list of the manifest `text`, does not list, among the streams that `is_read`: the
/// run did not write them. Manifests of older versions, of runs in progress and of captures that were cut list nothing and may have
/// streams; those of studies list nothing and have none.
pub fn check_listed(dir: &Path, text: &[u8], files: &FileDigests, is_read: impl Fn(&str) -> bool) -> Result<()> {
    let is_listed = !files.is_empty() || is_study(text);
    let read = STREAMS.iter().filter(|stream| is_listed && is_read(stream.name));
    let frames = FRAME_FILES.into_iter().filter(|_| is_listed && is_read("frames"));
    let mut names = read.map(|stream| format!("{}.parquet", stream.name)).chain(frames.map(str::to_owned));
    match names.find(|name| !files.contains_key(name) && dir.join(name).exists()) {
        None => Ok(()),
        Some(name) => Err(Error::Invalid(format!(
            "{}: the manifest does not list it, so it is not of this run; move it out of the folder, or --no-verify to read \
             it all the same",
            dir.join(name).display()
        ))),
    }
}

/// Whether the manifest `text` is of a study.
fn is_study(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        study: Option<String>,
    }
    serde_json::from_slice::<Kind>(text).is_ok_and(|kind| kind.study.is_some())
}

/// An error for a file whose digest `found` differs from `said`, which `by` states.
fn changed(path: &Path, found: &str, said: &str, by: &str) -> Error {
    Error::Invalid(format!(
        "{}: its content is not what was written (sha256 {found}, {by} says {said}); restore it, or --no-verify to read it \
         all the same",
        path.display()
    ))
}

/// Splits a sealed JSON file into the text before its digest, and the digest.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_suffix(END)?;
    let (text, digest) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
    Some((text.strip_suffix(KEY)?, digest))
}

/// Appends to `text`, a JSON object with at least one entry, a digest of itself; replaces an existing one.
pub fn seal(text: &str) -> String {
    let body = match split(text.as_bytes()) {
        Some((body, _)) => &text[..body.len()],
        None => text.trim_end().strip_suffix('}').unwrap_or(text).trim_end(),
    };
    let digest = hex(&Sha256::digest(body.as_bytes()));
    let (key, end) = (String::from_utf8_lossy(KEY), String::from_utf8_lossy(END));
    format!("{body}{key}{digest}{end}")
}

/// Returns whether the JSON file at `path`, with content `text`, ends with a digest of itself; refuses a wrong one.
pub fn is_sealed(path: &Path, text: &[u8]) -> Result<bool> {
    let Some((body, said)) = split(text) else { return Ok(false) };
    let found = hex(&Sha256::digest(body));
    if found.as_bytes() == said {
        return Ok(true);
    }
    Err(changed(path, &found, &String::from_utf8_lossy(said), "its digest"))
}

/// Compares the run dir `dir`, with manifest `text` and its list `files`, with its digests.
pub fn verify_run(dir: &Path, text: &[u8], files: &FileDigests) -> Result<Verified> {
    let path = dir.join("manifest.json");
    match (is_sealed(&path, text)?, files.is_empty()) {
        (true, _) => {
            check_files(dir, files)?;
            check_listed(dir, text, files, |_| true).map(|()| Verified::Whole)
        }
        (false, true) => Ok(Verified::NoDigests),
        (false, false) => Err(unsealed(&path)),
    }
}

/// Whether a run whose manifest is `text` and lists `files` has digests to compare; a study lists no files, and ends with one.
pub fn digests_of(text: &[u8], files: &FileDigests) -> Verified {
    if split(text).is_none() && files.is_empty() { Verified::NoDigests } else { Verified::Whole }
}

/// The same for a run dir whose manifest was read elsewhere.
pub fn verify_dir(dir: &Path) -> Result<Verified> {
    #[derive(Deserialize)]
    struct Listed {
        #[serde(default)]
        files: FileDigests,
    }
    let path = dir.join("manifest.json");
    let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let listed: Listed =
        serde_json::from_slice(&text).map_err(|e| Error::data(&path, format!("it is not JSON: {e}")))?;
    verify_run(dir, &text, &listed.files)
}

/// An error for the JSON file at `path`, which must end with a digest of itself and does not.
pub fn unsealed(path: &Path) -> Error {
    Error::Invalid(format!(
        "{}: its content is not what was written (its last line has no digest of it); restore it, or --no-verify to read it \
         all the same",
        path.display()
    ))
}

/// Returns the digest of a manifest's `text` for `sweep.json`: equal for identical runs, whenever they were made.
pub fn manifest_digest(text: &[u8]) -> String {
    let (mut hash, mut inside) = (Sha256::new(), false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let own = OWN.iter().any(|own| line.starts_with(own));
        if !own && !inside {
            hash.update(line);
        }
        inside = if own { line.ends_with(b"[\n") } else { inside && !line.starts_with(LIST_END) };
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Whether the files of a run were compared with their digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// All files were compared and are unchanged.
    #[default]
    Whole,
    /// There are no digests.
    NoDigests,
    /// The user disabled the check.
    Waived,
}

impl Verified {
    /// Returns the note for readers of the numbers; `None` if everything was compared.
    pub const fn note(self) -> Option<Note> {
        match self {
            Verified::Whole => None,
            Verified::NoDigests => Some(Note::Unverified {}),
            Verified::Waived => Some(Note::NotVerified {}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_of_a_sealed_text_is_noticed() {
        let path = Path::new("x.json");
        let sealed = seal("{\n  \"a\": 1,\n  \"b\": {\n    \"c\": \"x\"\n  }\n}\n");
        assert!(is_sealed(path, sealed.as_bytes()).unwrap());
        assert_eq!(seal(&sealed), sealed);
        assert!(serde_json::from_str::<serde_json::Value>(&sealed).is_ok());
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut bytes = sealed.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(!matches!(is_sealed(path, &bytes), Ok(true)), "byte {at} bit {bit}");
            }
        }
        assert!(!is_sealed(path, b"{\n  \"a\": 1\n}\n").unwrap());
        assert!(!is_sealed(path, b"").unwrap());
        let message = is_sealed(path, sealed.replace(": 1", ": 2").as_bytes()).unwrap_err();
        assert_eq!(message.exit_code(), 1);
        assert!(message.to_string().starts_with("x.json: its content is not what was written (sha256 "), "{message}");
    }

    #[test]
    fn a_study_has_a_digest_without_files() {
        let (text, files) = ("{\n  \"seed\": 1\n}\n", FileDigests::default());
        assert_eq!(digests_of(text.as_bytes(), &files), Verified::NoDigests);
        assert_eq!(digests_of(seal(text).as_bytes(), &files), Verified::Whole);
    }

    #[test]
    fn a_manifest_made_later_has_the_same_digest_in_the_sweep() {
        let text = |at: u32, seed: u32| {
            let command = ["  \"command\": [".to_owned(), format!("    \"{at}\""), "  ],".to_owned()].join("\n");
            seal(&format!("{{\n  \"created_unix_ns\": {at},\n{command}\n  \"seed\": {seed}\n}}\n"))
        };
        assert_eq!(manifest_digest(text(1, 1).as_bytes()), manifest_digest(text(2, 1).as_bytes()));
        assert_ne!(manifest_digest(text(1, 1).as_bytes()), manifest_digest(text(1, 2).as_bytes()));
        assert_ne!(text(1, 1), text(2, 1));
    }

    #[test]
    fn files_are_compared_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut out = Hashing::new(File::create(&path).unwrap());
        out.write_all(b"hello ").unwrap();
        out.write_all(b"world").unwrap();
        let digest = out.digest().unwrap();
        assert_eq!(digest, file_digest(&path).unwrap());
        assert_eq!(digest.bytes, 11);
        let files = FileDigests::from([("a".to_owned(), digest)]);
        assert!(check_files(folder.path(), &files).is_ok());
        std::fs::write(&path, "hello worle").unwrap();
        assert!(check_files(folder.path(), &files).unwrap_err().to_string().contains("the manifest says"));
        std::fs::remove_file(&path).unwrap();
        assert!(check_files(folder.path(), &files).unwrap_err().to_string().contains("it is missing"));
    }

    #[test]
    fn streams_that_no_list_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["sent.parquet", "mine.parquet", "fates.parquet", "states.csv"] {
            std::fs::write(path(name), name).unwrap();
        }
        let files = FileDigests::from([("sent.parquet".to_owned(), file_digest(&path("sent.parquet")).unwrap())]);
        let manifest = seal("{\n  \"seed\": 1\n}\n");
        let verified = |files: &FileDigests| verify_run(folder.path(), manifest.as_bytes(), files);
        assert_eq!(verified(&files).unwrap(), Verified::Whole);
        std::fs::write(path("states.parquet"), "of another run").unwrap();
        let refusal = verified(&files).unwrap_err();
        assert_eq!(refusal.exit_code(), 1);
        assert!(refusal.to_string().contains("states.parquet: the manifest does not list it"), "{refusal}");
        assert!(check_listed(folder.path(), manifest.as_bytes(), &files, |stream| stream == "sent").is_ok());
        assert_eq!(verified(&FileDigests::new()).unwrap(), Verified::Whole, "a list of an older version");
        let study = seal("{\n  \"seed\": 1,\n  \"study\": \"soar\"\n}\n");
        let none = FileDigests::new();
        let refusal = verify_run(folder.path(), study.as_bytes(), &none).unwrap_err().to_string();
        assert!(refusal.contains(".parquet: the manifest does not list it"), "{refusal}");
        assert!(check_listed(folder.path(), study.as_bytes(), &none, |stream| stream == "lanes").is_ok());
        std::fs::remove_file(path("states.parquet")).unwrap();
        for name in FRAME_FILES {
            std::fs::write(path(name), "of a capture").unwrap();
            let refusal = verified(&files).unwrap_err().to_string();
            assert!(refusal.contains(&format!("{name}: the manifest does not list it")), "{refusal}");
            assert_eq!(verified(&FileDigests::new()).unwrap(), Verified::Whole, "a capture in progress");
            std::fs::remove_file(path(name)).unwrap();
        }
    }
}
