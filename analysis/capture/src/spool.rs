//! Copies captures from pipes to temporary files, since a capture is read more than once.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pktgen_core::{Error, Result};
use pktgen_wire::pcap::no_capture;

use super::CapturePlan;

/// Denotes standard input.
const STDIN: &str = "-";
/// A pipe that delivers nothing for this long is reported.
const WAIT: Duration = Duration::from_secs(3);
const CHUNK: usize = 64 << 10;
/// Number of bytes that identify a capture.
const HEAD: usize = 4;

/// Whether a capture at `path` can be read only once: standard input, or a pipe.
pub(super) fn is_stream(path: &Path) -> bool {
    path.as_os_str() == STDIN || path.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
}

/// Copies of captures from pipes, deleted when dropped. The files have no names, so nothing remains however the process ends.
#[derive(Default)]
pub struct Spool {
    _files: Vec<File>,
    /// Paths of the copies and of their sources.
    copies: Vec<(PathBuf, PathBuf)>,
}

/// Messages of a copying thread.
enum Told {
    /// The first bytes arrived.
    First,
    /// Everything was copied, or copying failed.
    End(Result<()>),
}

impl Spool {
    /// Copies all paths in `plan` that are not files concurrently and replaces them by the copies. `waiting` is called
    /// once for each path from which nothing arrives.
    pub fn fill(plan: &mut CapturePlan, waiting: &mut dyn FnMut(&Path)) -> Result<Spool> {
        let paths = || plan.server.iter().chain(&plan.sender);
        let streams: Vec<PathBuf> = paths().filter(|path| is_stream(path)).cloned().collect();
        if streams.is_empty() {
            return Ok(Spool::default());
        }
        if let Some(twice) = streams.iter().enumerate().find(|(i, path)| streams[..*i].contains(path)) {
            return Err(Error::config(format!("{}: a pipe can be read only once", twice.1.display())));
        }
        let (mut files, mut copies) = (Vec::new(), Vec::new());
        for from in streams {
            let file = tempfile::tempfile().map_err(Error::io("create", Path::new("a temporary file")))?;
            copies.push((PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), from));
            files.push(file);
        }
        copy_all(&files, &copies, waiting)?;
        for path in plan.server.iter_mut().chain(&mut plan.sender) {
            if let Some((copy, _)) = copies.iter().find(|(_, from)| from == path) {
                path.clone_from(copy);
            }
        }
        Ok(Spool { _files: files, copies })
    }

    /// Replaces paths of copies in `text` by the paths that were given.
    pub fn renamed(&self, text: &str) -> String {
        let named = |text: String, (copy, from): &(PathBuf, PathBuf)| {
            text.replace(&*copy.to_string_lossy(), &from.to_string_lossy())
        };
        self.copies.iter().fold(text.to_owned(), named)
    }

    /// Does the same for the path of an error.
    pub fn renamed_error(&self, error: Error) -> Error {
        let given =
            |path: PathBuf| self.copies.iter().find(|(copy, _)| *copy == path).map_or(path, |(_, from)| from.clone());
        match error {
            Error::Data { path, what } => Error::Data { path: given(path), what },
            Error::Io { action, path, source } => Error::Io { action, path: given(path), source },
            other => other,
        }
    }
}

fn copy_all(files: &[File], copies: &[(PathBuf, PathBuf)], waiting: &mut dyn FnMut(&Path)) -> Result<()> {
    let (tell, told) = channel();
    for (i, (file, (copy, from))) in files.iter().zip(copies).enumerate() {
        let (from, to, tell) = (from.clone(), file.try_clone().map_err(Error::io("copy to", copy))?, tell.clone());
        // Not joined: after an error it may block for ever.
        std::thread::spawn(move || {
            let ended = copy_one(i, &from, to, &tell);
            let _ = tell.send((i, Told::End(ended)));
        });
    }
    let (mut quiet, mut open): (Vec<usize>, usize) = ((0..copies.len()).collect(), copies.len());
    while open > 0 {
        match told.recv_timeout(WAIT) {
            Ok((i, Told::First)) => quiet.retain(|other| *other != i),
            Ok((_, Told::End(ended))) => {
                ended?;
                open -= 1;
            }
            Err(RecvTimeoutError::Timeout) => quiet.drain(..).for_each(|i| waiting(&copies[i].1)),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

fn copy_one(i: usize, from: &Path, mut to: File, tell: &Sender<(usize, Told)>) -> Result<()> {
    let mut source: Box<dyn Read> = if from.as_os_str() == STDIN {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(from).map_err(Error::io("open", from))?)
    };
    let (mut chunk, mut first, mut head) = (vec![0; CHUNK], true, Vec::new());
    loop {
        let n = match source.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("read", from)(error)),
        };
        if std::mem::take(&mut first) {
            let _ = tell.send((i, Told::First));
        }
        // A stream that is not a capture may never end.
        if head.len() < HEAD {
            head.extend_from_slice(&chunk[..n.min(HEAD)]);
            if let Some(what) = no_capture(&head) {
                return Err(Error::data(from, what));
            }
        }
        to.write_all(&chunk[..n]).map_err(Error::io("copy", from))?;
    }
}
