//! Arrow IPC, files and streams, with the columns of a trace.
//!
//! A file is a stream between two marks, with a footer that repeats where its batches are, so both are read as a stream.
//! The decoder reserves what a message claims, and asserts on some damage: claims are held against the file's length
//! before it sees them.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::arrow::ipc::reader::StreamReader;
use crate::arrow::ipc::root_as_message;

use super::columns::{Rows, strangers};
use super::sink::Sink;
use super::{ImportOptions, Importer, Notes};
use crate::quiet::attempt;
use crate::registry::Named;
use crate::{Error, Result};

/// A file's first and last bytes.
const MAGIC: &[u8] = b"ARROW1";
/// The first with the least padding behind it, and how far zeros may reach: the arrow crate pads to 64 bytes.
const MAGIC_BYTES: usize = 8;
const PADDING_MAX: usize = 64;
/// What a message begins with since 2019.
const CONTINUES: [u8; 4] = [0xff; 4];
/// Most bytes of a message's head, which has no data.
const HEAD_MAX: u64 = 16 << 20;

/// The importer.
pub struct Arrow;

impl Named for Arrow {
    fn name(&self) -> &'static str {
        "arrow"
    }
    fn about(&self) -> &'static str {
        "Arrow IPC, file or stream, uncompressed, with the columns of a trace as parquet takes them"
    }
}

impl Importer for Arrow {
    fn extensions(&self) -> &'static [&'static str] {
        &["arrow", "arrows", "ipc", "feather"]
    }

    fn begins(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC) || head.starts_with(&CONTINUES)
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let mut notes = Notes::new();
        for input in inputs {
            let damaged = |what: String| Error::data(input, format!("damaged, or no Arrow IPC: {what}"));
            let mut file = File::open(input).map_err(Error::io("open", input))?;
            let start = check(&mut file, input)?;
            file.seek(SeekFrom::Start(start)).map_err(Error::io("read", input))?;
            let gave_up = || damaged("its messages contradict each other".into());
            let reader = attempt(|| StreamReader::try_new(BufReader::new(file), None)).ok_or_else(gave_up)?;
            let mut reader = reader.map_err(|e| damaged(e.to_string()))?;
            let ignored = strangers(&reader.schema(), input)?;
            let mut rows = Rows::new(input, options.bytes);
            while let Some(batch) = attempt(|| reader.next()).ok_or_else(gave_up)? {
                rows.push(&batch.map_err(|e| damaged(e.to_string()))?, sink)?;
            }
            rows.note(ignored, &mut notes);
        }
        Ok(notes)
    }
}

/// Refuses a file whose messages claim more than it holds. Returns where the first one begins.
fn check(file: &mut File, path: &Path) -> Result<u64> {
    let io = || Error::io("read", path);
    let length = file.metadata().map_err(io())?.len();
    let damaged = |at: u64, what: String| Err(Error::data(path, format!("damaged at byte {at}: {what}")));
    let mut begin = Vec::new();
    file.by_ref().take(PADDING_MAX as u64).read_to_end(&mut begin).map_err(io())?;
    let named = begin.len() >= MAGIC_BYTES && begin.starts_with(MAGIC);
    if named {
        let mut magic = [0; MAGIC.len()];
        file.seek(SeekFrom::End(-(MAGIC.len() as i64))).map_err(io())?;
        file.read_exact(&mut magic).map_err(io())?;
        if magic != MAGIC {
            return damaged(length, "it does not end as an Arrow file does; is it truncated?".into());
        }
    }
    // No message begins with zeros.
    let zeros = begin.iter().skip(MAGIC_BYTES).take_while(|byte| **byte == 0).count();
    let start = if named { (MAGIC_BYTES + zeros / 8 * 8) as u64 } else { 0 };
    let mut at = start;
    while at < length {
        file.seek(SeekFrom::Start(at)).map_err(io())?;
        let mut word = [0; 4];
        let mut number = || file.read_exact(&mut word).map(|()| word);
        let Ok(first) = number() else { return damaged(at, "it ends within a message".into()) };
        let size = if first == CONTINUES { number() } else { Ok(first) };
        let Ok(size) = size else { return damaged(at, "it ends within a message".into()) };
        let (size, before) = (i32::from_le_bytes(size), if first == CONTINUES { 8 } else { 4 });
        if size == 0 {
            return Ok(start);
        }
        let left = length - at - before.min(length - at);
        let claim = u64::try_from(size).ok().filter(|size| *size <= left.min(HEAD_MAX));
        let Some(size) = claim else {
            return damaged(at, format!("a message with a head of {size} bytes, where {left} are left"));
        };
        let mut head = vec![0; size as usize];
        file.read_exact(&mut head).map_err(io())?;
        let body = match attempt(|| root_as_message(&head).map(|message| message.bodyLength())) {
            Some(Ok(body)) => body,
            _ => return damaged(at, "no message of Arrow IPC".into()),
        };
        let left = left - size;
        let Some(body) = u64::try_from(body).ok().filter(|body| *body <= left) else {
            return damaged(at, format!("a message with a body of {body} bytes, where {left} are left"));
        };
        at += before + size + body;
    }
    Ok(start)
}
