//! Arrow IPC, files and streams, with the columns of a trace.
//!
//! A file has a footer that says where its batches are, and is read by that: what lies before them some tools write in forms of their own.
//! The decoder reserves what a message claims, and asserts on some damage: claims are held against the file's length
//! before it sees them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::arrow::ipc::reader::{FileReader, StreamReader};
use crate::arrow::ipc::{root_as_footer, root_as_message};

use super::columns::{Rows, strangers};
use super::sink::Sink;
use super::{ImportOptions, Importer, Notes};
use crate::quiet::attempt;
use crate::registry::Named;
use crate::{Error, Result};

/// A file's first and last bytes.
const MAGIC: &[u8] = b"ARROW1";
/// The first with its padding, and the last with the footer's length before it.
const MAGIC_BYTES: u64 = 8;
const FOOTER_END: u64 = 4 + MAGIC.len() as u64;
/// What a message begins with since 2019.
const CONTINUES: [u8; 4] = [0xff; 4];
/// Messages are padded to this number of bytes; an end marker may be, too.
const PADDING_MAX: u64 = 8;
/// Most bytes of a message's head, which has no data.
const HEAD_MAX: u64 = 16 << 20;

/// The importer.
pub struct Arrow;

impl Named for Arrow {
    fn name(&self) -> &'static str {
        "arrow"
    }
    fn about(&self) -> &'static str {
        "Arrow IPC, file or stream, uncompressed, with the same columns as parquet"
    }
}

impl Importer for Arrow {
    fn extensions(&self) -> &'static [&'static str] {
        &["arrow", "arrows", "ipc", "feather"]
    }

    fn begins(&self, head: &[u8]) -> bool {
        let length = |rest: &[u8]| rest.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length)));
        let is_length = |rest| length(rest).is_some_and(|length| length > 0 && length <= HEAD_MAX);
        head.starts_with(MAGIC) || head.strip_prefix(&CONTINUES).is_some_and(is_length)
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let mut notes = Notes::new();
        for input in inputs {
            let damaged = |what: String| Error::data(input, format!("damaged, or no Arrow IPC: {what}"));
            let mut file = File::open(input).map_err(Error::io("open", input))?;
            let mut begin = [0; MAGIC.len()];
            let is_file = file.read_exact(&mut begin).is_ok() && begin == MAGIC;
            if !check(&mut file, input, is_file)? {
                let told = format!("{}: no end marker; it may lack its last batches", input.display());
                notes.insert("end".to_owned(), told);
            }
            file.rewind().map_err(Error::io("read", input))?;
            let gave_up = || damaged("its messages contradict each other".into());
            let (schema, mut batches): (_, Box<dyn Iterator<Item = _>>) = match is_file {
                true => {
                    let reader = attempt(|| FileReader::try_new_buffered(file, None)).ok_or_else(gave_up)?;
                    let reader = reader.map_err(|e| damaged(e.to_string()))?;
                    (reader.schema(), Box::new(reader))
                }
                false => {
                    let reader = attempt(|| StreamReader::try_new_buffered(file, None)).ok_or_else(gave_up)?;
                    let reader = reader.map_err(|e| damaged(e.to_string()))?;
                    (reader.schema(), Box::new(reader))
                }
            };
            let ignored = strangers(&schema, input)?;
            let mut rows = Rows::new(input, options.bytes);
            while let Some(batch) = attempt(|| batches.next()).ok_or_else(gave_up)? {
                rows.push(&batch.map_err(|e| damaged(e.to_string()))?, sink)?;
            }
            rows.note(ignored, &mut notes);
        }
        Ok(notes)
    }
}

/// Refuses a file whose messages claim more than it holds, and what is compressed; returns whether its end shows that it is whole.
fn check(file: &mut File, path: &Path, is_file: bool) -> Result<bool> {
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    let mut checked = Checked { file, path, length };
    if is_file { checked.blocks().map(|()| true) } else { checked.messages() }
}

/// A file that is held against what it says.
struct Checked<'a> {
    file: &'a mut File,
    path: &'a Path,
    length: u64,
}

impl Checked<'_> {
    fn damaged<T>(&self, at: u64, what: &str) -> Result<T> {
        Err(Error::data(self.path, format!("damaged at byte {at}: {what}")))
    }

    fn read(&mut self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(at)).map_err(Error::io("read", self.path))?;
        let mut read = vec![0; bytes as usize];
        self.file.read_exact(&mut read).map_err(Error::io("read", self.path))?;
        Ok(read)
    }

    /// A file: its footer says where its messages are. What lies between them is for nobody.
    fn blocks(&mut self) -> Result<()> {
        let length = self.length;
        let Some(end) = length.checked_sub(FOOTER_END).filter(|end| *end >= MAGIC_BYTES) else {
            return self.damaged(length, "it ends within its beginning");
        };
        let tail = self.read(end, FOOTER_END)?;
        if &tail[4..] != MAGIC {
            return self.damaged(length, "it does not end as an Arrow file does; is it truncated?");
        }
        let size = i32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
        let claim = u64::try_from(size).ok().filter(|size| *size <= (end - MAGIC_BYTES).min(HEAD_MAX));
        let Some(size) = claim else { return self.damaged(end, &format!("a footer of {size} bytes")) };
        let (start, footer) = (end - size, self.read(end - size, size)?);
        let blocks = attempt(|| {
            let footer = root_as_footer(&footer).ok()?;
            let all = [footer.dictionaries(), footer.recordBatches()].into_iter().flatten().flatten();
            Some(all.map(|block| (block.offset(), block.metaDataLength(), block.bodyLength())).collect::<Vec<_>>())
        });
        let Some(blocks) = blocks.flatten() else { return self.damaged(start, "no footer of Arrow IPC") };
        for (at, head, body) in blocks {
            let number = |n: i64| u64::try_from(n).ok();
            let known =
                number(at).zip(number(head.into())).zip(number(body)).map(|((at, head), body)| (at, head, body));
            let fits = |(at, head, body): &(u64, u64, u64)| {
                let end = at.checked_add(*head).and_then(|end| end.checked_add(*body));
                *at >= MAGIC_BYTES && *head >= 8 && *head <= HEAD_MAX && end.is_some_and(|end| end <= start)
            };
            let Some((at, head, body)) = known.filter(fits) else {
                return self.damaged(start, &format!("a message of {head} and {body} bytes at byte {at}"));
            };
            let bytes = self.read(at, head)?;
            let before = if bytes.starts_with(&CONTINUES) { 8 } else { 4 };
            let claimed = self.body(at, &bytes[before..])?;
            if claimed > body {
                return self.damaged(at, &format!("a message with a body of {claimed} bytes, where {body} are left"));
            }
        }
        Ok(())
    }

    /// A stream: one message after the other.
    /// Returns whether the stream has its end marker.
    fn messages(&mut self) -> Result<bool> {
        let mut at = 0;
        while at < self.length {
            let left = self.length - at;
            let word = self.read(at, left.min(8))?;
            let before = if word.starts_with(&CONTINUES) { 8 } else { 4 };
            let Some(size) = word.get(before - 4..before) else { return self.damaged(at, "it ends within a message") };
            let size = i32::from_le_bytes([size[0], size[1], size[2], size[3]]);
            if size == 0 {
                self.nothing_after(at + before as u64)?;
                return Ok(true);
            }
            let left = left - before as u64;
            let claim = u64::try_from(size).ok().filter(|size| *size <= left.min(HEAD_MAX));
            let Some(size) = claim else {
                return self.damaged(at, &format!("a message with a head of {size} bytes, where {left} are left"));
            };
            let head = self.read(at + before as u64, size)?;
            let (body, left) = (self.body(at, &head)?, left - size);
            if body > left {
                return self.damaged(at, &format!("a message with a body of {body} bytes, where {left} are left"));
            }
            at += before as u64 + size + body;
        }
        Ok(false)
    }

    /// Refuses a stream that goes on after its end marker, which ends at `end`: readers stop there.
    fn nothing_after(&mut self, end: u64) -> Result<()> {
        let more = self.length - end;
        let is_padding = more < PADDING_MAX && self.read(end, more)?.iter().all(|byte| *byte == 0);
        if is_padding {
            return Ok(());
        }
        self.damaged(
            end,
            &format!("{more} bytes after the end of the stream; if they are another stream, convert each as a file of its own"),
        )
    }

    /// How long the body of a message at `at` is, by its head.
    fn body(&self, at: u64, head: &[u8]) -> Result<u64> {
        let known = attempt(|| {
            let message = root_as_message(head).ok()?;
            let of_dictionary = || message.header_as_dictionary_batch()?.data();
            let batch = message.header_as_record_batch().or_else(of_dictionary);
            Some((message.bodyLength(), batch.and_then(|batch| batch.compression()).map(|packed| packed.codec())))
        });
        let Some((body, codec)) = known.flatten() else { return self.damaged(at, "no message of Arrow IPC") };
        if let Some(codec) = codec {
            return Err(Error::data(
                self.path,
                format!(
                    "it is compressed ({codec:?}), and only uncompressed Arrow IPC is read: write it with compression = \"uncompressed\", or \
                     as Parquet"
                ),
            ));
        }
        match u64::try_from(body) {
            Ok(body) => Ok(body),
            Err(_) => self.damaged(at, &format!("a message with a body of {body} bytes")),
        }
    }
}
