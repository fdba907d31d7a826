//! Atomic writing of files: written under a temporary name, hashed on the way, then renamed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::record::{FileDigest, Hashing, hex};
use crate::{Error, Result};

/// Ending of temporary names. No user's file has it, so a file with such a name was left by a killed process.
const ENDING: &str = ".pktgen.partial";
/// Largest number of links from a path to its file, as the kernel follows.
const LINKS: usize = 40;

/// A file being written. If it is dropped before [`WholeFile::finish`], nothing is left behind and an existing file is unchanged.
pub struct WholeFile {
    out: BufWriter<Hashing<File>>,
    /// The final name.
    path: PathBuf,
    /// The temporary name; none for what is written directly.
    partial: Option<PathBuf>,
}

impl WholeFile {
    /// Begins the file `path`.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(opened) = open_direct(path) {
            let file = opened.map_err(Error::io("create", path))?;
            return Ok(WholeFile { out: BufWriter::new(Hashing::new(file)), path: path.to_owned(), partial: None });
        }
        Self::replace(&end_of_links(path))
    }

    /// Begins the file `path`, which replaces what has the name, also a link.
    pub fn replace(path: &Path) -> Result<Self> {
        let (file, partial) = beside(path)?;
        Ok(WholeFile { out: BufWriter::new(Hashing::new(file)), path: path.to_owned(), partial: Some(partial) })
    }

    /// Writes the rest of the content to the file. Returns the digest of the content, once.
    pub fn digest(&mut self) -> Result<FileDigest> {
        self.out.flush().map_err(Error::io("write", &self.path))?;
        Ok(self.out.get_mut().digest().unwrap_or_default())
    }

    /// Gives the file its final name. Returns the digest of its content, unless [`WholeFile::digest`] did before.
    pub fn finish(mut self) -> Result<FileDigest> {
        let digest = self.digest()?;
        if let Some(partial) = &self.partial {
            std::fs::rename(partial, &self.path).map_err(Error::io("rename", partial))?;
        }
        self.partial = None;
        Ok(digest)
    }
}

/// Opens devices, pipes and files behind descriptors, such as `/dev/stdout`, which are written directly; `None` for other paths. What
/// such a file holds stays, and others go on writing after what is written.
fn open_direct(path: &Path) -> Option<io::Result<File>> {
    let entry = entry_of_proc(path);
    if let Some(number) = entry.as_deref().and_then(own_descriptor) {
        // Opened again, a file would be written from another place.
        return Some(duplicate(number));
    }
    let is_special = path.metadata().is_ok_and(|about| !about.is_file());
    (is_special || entry.is_some()).then(|| File::options().append(true).open(path))
}

/// Returns the number of the descriptor of this process that `entry` of /proc stands for.
fn own_descriptor(entry: &Path) -> Option<RawFd> {
    let (folder, process) = (entry.parent()?, Path::new("/proc/self").canonicalize().ok()?);
    // Each thread has a folder of the same descriptors.
    let is_own = folder.starts_with(process) && folder.ends_with("fd") && entry.is_symlink();
    entry.file_name()?.to_str()?.parse::<RawFd>().ok().filter(|number| is_own && *number >= 0)
}

/// Duplicates a descriptor: both have one position in the file.
#[expect(unsafe_code, reason = "a descriptor that others opened has no owner here, only a number")]
fn duplicate(number: RawFd) -> io::Result<File> {
    // SAFETY: not -1, and borrowed for one call, which fails if the descriptor was closed.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    descriptor.try_clone_to_owned().map(File::from)
}

/// Returns the name of a file written to `path`: the target of a link is replaced, not the link, also if it does not exist yet.
pub fn end_of_links(path: &Path) -> PathBuf {
    let end = path.canonicalize().ok().or_else(|| followed(path).filter(|_| path.is_symlink()));
    end.unwrap_or_else(|| path.to_owned())
}

/// Follows links to an entry of /proc, which stands for an open file; `None` if they lead elsewhere.
pub fn entry_of_proc(path: &Path) -> Option<PathBuf> {
    followed(path).filter(|end| end.parent().is_some_and(|folder| folder.starts_with("/proc")))
}

/// Follows links up to an entry of /proc, or a name that is no link; `None` if there are too many, or a folder does not exist.
fn followed(path: &Path) -> Option<PathBuf> {
    let mut path = Path::new(".").join(path);
    for _ in 0..=LINKS {
        let folder = path.parent()?.canonicalize().ok()?;
        path = folder.join(path.file_name()?);
        match path.read_link() {
            Ok(next) if !folder.starts_with("/proc") => path = folder.join(next),
            _ => return Some(path),
        }
    }
    None
}

/// Opens an empty file beside `path` and locks it against other writers; reuses files left by killed processes.
pub fn beside(path: &Path) -> Result<(File, PathBuf)> {
    let options = File::options().read(true).write(true).clone();
    let named = |stem: &Path, middle: &str| {
        let mut name = stem.to_owned().into_os_string();
        name.push(middle);
        name.push(ENDING);
        PathBuf::from(name)
    };
    let is_too_long = |fault: &io::Error| fault.kind() == ErrorKind::InvalidFilename;
    let fits = |path: &Path| !path.symlink_metadata().is_err_and(|fault| is_too_long(&fault));
    let mut stem = path.to_owned();
    let mut partial = named(&stem, "");
    for other in 1.. {
        let opened = match options.clone().create_new(true).open(&partial) {
            Err(fault) if fault.kind() == ErrorKind::AlreadyExists => left_behind(&partial, &options),
            // A short name, if the final one is not too long itself: always the same one, so that it is reused, too.
            Err(fault) if is_too_long(&fault) && stem == path && fits(path) => {
                let name = path.file_name().unwrap_or_default();
                stem = path.with_file_name(hex(&Sha256::digest(name.as_encoded_bytes())));
                partial = named(&stem, "");
                continue;
            }
            created => Some(created.map_err(Error::io("create", &partial))?),
        };
        // Another process may be writing it, or have renamed it to its final name between open and lock.
        let is_free = |file: &File| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && is_at(file, &partial);
        if let Some(file) = opened.filter(is_free) {
            file.set_len(0).map_err(Error::io("write", &partial))?;
            return Ok((file, partial));
        }
        partial = named(&stem, &format!(".{}-{other}", std::process::id()));
    }
    Err(Error::Invalid(format!("{}: too many others write it", path.display())))
}

/// Opens the existing file `partial`; `None` for links and whatever else is no file, and for files that cannot be written.
fn left_behind(partial: &Path, options: &OpenOptions) -> Option<File> {
    partial.symlink_metadata().ok()?.is_file().then(|| options.open(partial).ok())?
}

/// Returns whether `file` still has this name, itself and not by a link: another process may have renamed or removed it.
fn is_at(file: &File, name: &Path) -> bool {
    let place = |about: std::fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(place).is_some_and(|own| name.symlink_metadata().ok().map(place) == Some(own))
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // If this fails too, the original error matters more.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// Writes `content` to `path` atomically. Returns its digest.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<FileDigest> {
    let mut file = WholeFile::create(path)?;
    file.write_all(content.as_ref()).map_err(Error::io("write", path))?;
    file.finish()
}

/// Copies the file `from` to `to` atomically. Returns its digest.
pub fn copy_whole(from: &Path, to: &Path) -> Result<FileDigest> {
    let mut file = File::open(from).map_err(Error::io("open", from))?;
    let mut copy = WholeFile::create(to)?;
    std::io::copy(&mut file, &mut copy).map_err(Error::io("copy", from))?;
    copy.finish()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "before").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let digest = write_whole(&path, "after").unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), digest.bytes), (&b"after"[..], 5));
        let copy = folder.path().join("b.txt");
        assert_eq!(copy_whole(&path, &copy).unwrap(), digest);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn several_at_once_write_whole_files_and_the_last_has_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        // Left by a killed process.
        std::fs::write(folder.path().join("a.txt.pktgen.partial"), "half of it, and longer").unwrap();
        let (mut one, mut two) = (WholeFile::create(&path).unwrap(), WholeFile::create(&path).unwrap());
        one.write_all(b"one").unwrap();
        two.write_all(b"two two").unwrap();
        two.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two two");
        one.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        let write = |letter: u8| {
            for round in 1..200 {
                write_whole(&path, vec![letter; 10 * round]).unwrap();
                let text = std::fs::read(&path).unwrap();
                assert!(!text.is_empty() && text.iter().all(|byte| *byte == text[0]), "{text:?}");
            }
        };
        std::thread::scope(|scope| (b'a'..b'e').for_each(|letter| drop(scope.spawn(move || write(letter)))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_of_others_beside_it_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.txt.partial"), "of a user").unwrap();
        std::fs::write(at("target"), "behind a link").unwrap();
        symlink(at("target"), at("a.txt.pktgen.partial")).unwrap();
        symlink(at("absent"), at("b.txt.pktgen.partial")).unwrap();
        std::fs::create_dir(at("c.txt.pktgen.partial")).unwrap();
        for name in ["a.txt", "b.txt", "c.txt"] {
            write_whole(&at(name), "whole").unwrap();
            assert_eq!(std::fs::read(at(name)).unwrap(), b"whole");
        }
        assert_eq!(std::fs::read(at("a.txt.partial")).unwrap(), b"of a user");
        assert_eq!(std::fs::read(at("target")).unwrap(), b"behind a link");
        assert!(at("a.txt.pktgen.partial").is_symlink() && !at("absent").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 8);
    }

    #[test]
    fn names_are_as_long_as_the_file_system_allows() {
        let folder = tempfile::tempdir().unwrap();
        for letters in [240, 241, 255] {
            let path = folder.path().join("a".repeat(letters));
            let (mut one, two) = (WholeFile::create(&path).unwrap(), WholeFile::create(&path).unwrap());
            one.write_all(b"one").unwrap();
            drop(two);
            one.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"one");
            write_whole(&path, "two").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"two");
        }
        assert!(WholeFile::create(&folder.path().join("a".repeat(256))).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn files_with_long_names_that_killed_processes_left_are_reused() {
        let folder = tempfile::tempdir().unwrap();
        let reused = |letter: &str| {
            let path = folder.path().join(letter.repeat(250));
            let left = WholeFile::create(&path).unwrap().partial.clone().unwrap();
            std::fs::write(&left, "half of it, and longer").unwrap();
            let mut file = WholeFile::create(&path).unwrap();
            assert_eq!(file.partial.as_ref(), Some(&left));
            file.write_all(b"whole").unwrap();
            file.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"whole");
            left
        };
        assert_ne!(reused("a"), reused("b"), "each file has its own, in every process");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn devices_and_links_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.txt"), folder.path().join("link"));
        std::fs::write(&path, "before").unwrap();
        symlink(&path, &link).unwrap();
        write_whole(&link, "after").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        // By way of another link, to a file that does not exist yet.
        let [first, second, new] = ["first", "second", "new.txt"].map(|name| folder.path().join(name));
        symlink("second", &first).unwrap();
        symlink("new.txt", &second).unwrap();
        write_whole(&first, "new").unwrap();
        assert!(first.is_symlink() && second.is_symlink());
        assert_eq!(std::fs::read(&new).unwrap(), b"new");
        // Links that lead nowhere are replaced.
        let [round, astray] = ["round", "astray"].map(|name| folder.path().join(name));
        symlink("round", &round).unwrap();
        symlink("absent/a.txt", &astray).unwrap();
        for link in [&round, &astray] {
            write_whole(link, "own").unwrap();
            assert!(!link.is_symlink() && std::fs::read(link).unwrap() == b"own", "{}", link.display());
        }
        write_whole(Path::new("/dev/null"), "x").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        let full = write_whole(Path::new("/dev/full"), "x").unwrap_err();
        assert_eq!(
            (full.exit_code(), full.to_string().starts_with("cannot write /dev/full: No space left")),
            (1, true)
        );
    }

    #[test]
    fn a_file_behind_a_descriptor_is_written_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.txt"), folder.path().join("link"));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"before").unwrap();
        let number = file.as_raw_fd();
        symlink(format!("/proc/self/fd/{number}"), &link).unwrap();
        write_whole(&link, " one").unwrap();
        write_whole(Path::new(&format!("/proc/thread-self/fd/{number}")), " two").unwrap();
        file.write_all(b" after").unwrap();
        assert!(is_at(&file, &path) && link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"before one two after");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
