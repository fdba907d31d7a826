//! Checks of the sizes that a Parquet file declares, before it is decoded: decoders allocate memory for the declared
//! sizes of lists, pages and row groups, and a failed allocation aborts the program. Refuses compressions that are not read, too:
//! for the decoder they are damage.
//!
//! Reads Thrift's compact protocol: the whole footer, then the header of every page. Other defects are left to the
//! decoder, which has messages for them. Called wherever a Parquet file is opened.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Error, Result};

/// Maximum size of an uncompressed page, in bytes. Writers aim at 1 MiB.
const PAGE_MAX: i64 = 256 << 20;
/// Upper bound of a page header in bytes, including the minimum and maximum of long texts.
const PAGE_HEAD: usize = 64 << 10;
/// Maximum nesting of structures; the format has six levels.
const DEPTH_MAX: usize = 24;
/// Maximum rows of a row group in our streams, which have 2²⁰.
pub const OUR_ROWS: i64 = 1 << 24;
/// Maximum rows of a row group in any file.
pub const ANY_ROWS: i64 = 1 << 31;

/// Compressions that the decoder is built without, by their Thrift numbers.
const UNREAD_CODECS: [(i64, &str); 2] = [(3, "LZO"), (4, "Brotli")];

/// Paths of Thrift field numbers, from the outermost structure inwards.
mod field {
    pub(crate) const GROUP_ROWS: [i16; 2] = [4, 3];
    pub const CHUNK: [i16; 3] = [4, 1, 3];
    pub(crate) const CHUNK_CODEC: [i16; 4] = [4, 1, 3, 4];
    pub(crate) const CHUNK_SIZE: [i16; 4] = [4, 1, 3, 7];
    pub(crate) const CHUNK_DATA: [i16; 4] = [4, 1, 3, 9];
    pub(crate) const CHUNK_DICTIONARY: [i16; 4] = [4, 1, 3, 11];
    pub(crate) const PAGE_UNPACKED: [i16; 1] = [2];
    pub(crate) const PAGE_PACKED: [i16; 1] = [3];
    pub(crate) const PAGE_VALUES: [[i16; 2]; 3] = [[5, 1], [7, 1], [8, 1]];
}

/// The bytes of one column of a row group.
#[derive(Default)]
struct Chunk {
    codec: i64,
    size: i64,
    data: i64,
    dictionary: Option<i64>,
}

/// Refuses a file whose footer or pages declare impossible sizes, such as row groups of more than `rows` rows, or whose compression is
/// not read.
pub fn check(file: &File, path: &Path, rows: i64) -> Result<()> {
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    let mut tail = [0; 8];
    if length < 12 || file.read_exact_at(&mut tail, length - 8).is_err() || &tail[4..] != b"PAR1" {
        return Ok(());
    }
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let Some(start) = (length - 8).checked_sub(footer) else { return Ok(()) };
    let mut bytes = vec![0; footer as usize];
    file.read_exact_at(&mut bytes, start).map_err(Error::io("read", path))?;
    let refused = |what: String| Err(Error::data(path, format!("a damaged Parquet file: {what}")));
    let (mut chunks, mut most) = (Vec::<Chunk>::new(), 0);
    let walked = Walk { bytes: &bytes, at: 0 }.structure(&mut Vec::new(), &mut |path, value| {
        let (chunk, value) = match (chunks.last_mut(), value) {
            (_, None) if path == field::CHUNK => return chunks.push(Chunk::default()),
            (_, Some(value)) if path == field::GROUP_ROWS => return most = value.max(most),
            (Some(chunk), Some(value)) => (chunk, value),
            _ => return,
        };
        match path {
            p if p == field::CHUNK_CODEC => chunk.codec = value,
            p if p == field::CHUNK_SIZE => chunk.size = value,
            p if p == field::CHUNK_DATA => chunk.data = value,
            p if p == field::CHUNK_DICTIONARY => chunk.dictionary = Some(value),
            _ => {}
        }
    });
    if walked.is_none() {
        return refused("its footer claims more than it holds".into());
    }
    if most > rows {
        return refused(format!("a row group of {most} rows; at most {rows} are believed"));
    }
    if let Some((_, codec)) = UNREAD_CODECS.iter().find(|(id, _)| chunks.iter().any(|chunk| chunk.codec == *id)) {
        let advice = "write it uncompressed, or with Snappy, gzip, LZ4 or Zstandard";
        return Err(Error::data(path, format!("it is compressed with {codec}, which is not read; {advice}")));
    }
    for chunk in &chunks {
        // A column without values may have a dictionary only, and data offset 0.
        let starts = [chunk.dictionary, Some(chunk.data)].into_iter().flatten().filter(|at| *at != 0);
        let from = starts.min().unwrap_or(0);
        let to = from.checked_add(chunk.size).filter(|to| from >= 0 && chunk.size >= 0 && *to as u64 <= start);
        let Some(to) = to else { return refused(format!("{} bytes of a column at byte {from}", chunk.size)) };
        if let Err(what) = pages(file, from as u64..to as u64, rows) {
            return refused(what);
        }
    }
    Ok(())
}

/// Checks the pages of a column.
fn pages(file: &File, range: std::ops::Range<u64>, rows: i64) -> std::result::Result<(), String> {
    let mut at = range.start;
    let mut bytes = vec![0; PAGE_HEAD.min((range.end - range.start) as usize)];
    while at < range.end {
        let room = bytes.len().min((range.end - at) as usize);
        // Most headers are short.
        let mut found = None;
        for part in [room.min(512), room] {
            file.read_exact_at(&mut bytes[..part], at).map_err(|e| e.to_string())?;
            found = page(&bytes[..part]);
            if found.is_some() {
                break;
            }
        }
        let (head, unpacked, packed, values) = found.ok_or_else(|| format!("no page at byte {at}"))?;
        if !(0..=PAGE_MAX).contains(&unpacked) || packed < 0 || values > rows {
            return Err(format!(
                "a page at byte {at} of {packed} bytes, {unpacked} unpacked, and {values} values; at most {PAGE_MAX} bytes and \
                 {rows} values are believed"
            ));
        }
        at += head as u64 + packed as u64;
    }
    Ok(())
}

/// Returns the size of a page's header, of the page uncompressed and compressed, and its number of values.
fn page(bytes: &[u8]) -> Option<(usize, i64, i64, i64)> {
    let mut walk = Walk { bytes, at: 0 };
    let (mut unpacked, mut packed, mut values) = (0, 0, 0);
    walk.structure(&mut Vec::new(), &mut |path, value| match (path, value) {
        (p, Some(value)) if p == field::PAGE_UNPACKED => unpacked = value,
        (p, Some(value)) if p == field::PAGE_PACKED => packed = value,
        (p, Some(value)) if field::PAGE_VALUES.iter().any(|own| p == own) => values = value,
        _ => {}
    })?;
    Some((walk.at, unpacked, packed, values))
}

/// Called with the path of every structure that begins, and with the path and value of every integer.
type Seen<'s> = &'s mut dyn FnMut(&[i16], Option<i64>);

/// A walk over Thrift's compact protocol; `None` where a declared size exceeds the remaining bytes.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn pass(&mut self, n: u64) -> Option<()> {
        let left = (self.bytes.len() - self.at) as u64;
        self.at += n.min(left) as usize;
        (n <= left).then_some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads a varint: seven bits per byte, lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a zigzag varint: the sign is in the lowest bit.
    fn signed(&mut self) -> Option<i64> {
        self.number().map(|n| (n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn structure(&mut self, path: &mut Vec<i16>, seen: Seen) -> Option<()> {
        if path.len() > DEPTH_MAX {
            return None;
        }
        seen(path, None);
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.signed()? as i16,
                step => id.wrapping_add(step.into()),
            };
            path.push(id);
            // The value of a boolean is in the field header.
            if ![1, 2].contains(&(head & 0xf)) {
                self.value(head & 0xf, path, seen)?;
            }
            path.pop();
        }
    }

    fn value(&mut self, kind: u8, path: &mut Vec<i16>, seen: Seen) -> Option<()> {
        match kind {
            1..=3 => self.pass(1),
            4..=6 => {
                let value = self.signed()?;
                seen(path, Some(value));
                Some(())
            }
            7 => self.pass(8),
            8 => {
                let length = self.number()?;
                self.pass(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.number()? } else { (head >> 4).into() };
                self.values(count, &[head & 0xf], path, seen)
            }
            11 => match self.number()? {
                0 => Some(()),
                count => {
                    let kinds = self.byte()?;
                    self.values(count, &[kinds >> 4, kinds & 0xf], path, seen)
                }
            },
            12 => self.structure(path, seen),
            13 => self.pass(16),
            _ => None,
        }
    }

    /// Reads `count` values of each of `kinds`; every one takes at least one byte.
    fn values(&mut self, count: u64, kinds: &[u8], path: &mut Vec<i16>, seen: Seen) -> Option<()> {
        if path.len() > DEPTH_MAX || count > (self.bytes.len() - self.at) as u64 {
            return None;
        }
        // Nested lists count towards the depth, too.
        let lists = kinds.iter().any(|kind| (9..=11).contains(kind));
        for kind in (0..count).flat_map(|_| kinds) {
            path.extend(lists.then_some(0));
            self.value(*kind, path, seen)?;
            path.truncate(path.len() - usize::from(lists));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths and integers that a walk reported.
    type Told = Vec<(Vec<i16>, Option<i64>)>;

    fn walk(bytes: &[u8]) -> (Option<()>, Told) {
        let mut seen = Vec::new();
        let end =
            Walk { bytes, at: 0 }.structure(&mut Vec::new(), &mut |path, value| seen.push((path.to_vec(), value)));
        (end, seen)
    }

    #[test]
    fn fields_are_known_by_their_paths() {
        // 1: -3; 2: list of two structures with 1: 7 and 3: true; 4: "ab".
        let bytes = [0x15, 5, 0x19, 0x2c, 0x15, 14, 0x21, 0, 0x15, 14, 0x21, 0, 0x28, 2, b'a', b'b', 0];
        let (end, seen) = walk(&bytes);
        assert_eq!(end, Some(()));
        let expected: [(&[i16], Option<i64>); 6] =
            [(&[], None), (&[1], Some(-3)), (&[2], None), (&[2, 1], Some(7)), (&[2], None), (&[2, 1], Some(7))];
        assert_eq!(seen, expected.map(|(path, value)| (path.to_vec(), value)));
        for short in 0..bytes.len() {
            assert_eq!(walk(&bytes[..short]).0, None, "cut at {short}");
        }
    }

    #[test]
    fn compressions_that_are_not_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let refused = |codec: u8| {
            // 4: list of a row group with 1: list of a column with 3: structure with 4: the compression.
            let footer = [0x49, 0x1c, 0x19, 0x1c, 0x3c, 0x45, codec << 1, 0, 0, 0, 0];
            let file = [&b"PAR1"[..], &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
            std::fs::write(&path, file).unwrap();
            check(&File::open(&path).unwrap(), &path, ANY_ROWS).err().map(|e| e.to_string())
        };
        // Uncompressed, Snappy, gzip, LZ4, Zstandard, LZ4_RAW.
        for codec in [0, 1, 2, 5, 6, 7] {
            assert_eq!(refused(codec), None, "codec {codec}");
        }
        for (codec, name) in [(3, "LZO"), (4, "Brotli")] {
            let message = refused(codec).unwrap();
            assert!(message.contains(&format!("compressed with {name}")) && message.contains("Zstandard"), "{message}");
        }
    }

    #[test]
    fn claims_beyond_the_end_are_refused() {
        assert_eq!(walk(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]).0, None, "four billion structures");
        assert_eq!(walk(&[0x18, 0xff, 0xff, 0xff, 0x0f, b'a', 0]).0, None, "a text that is longer");
        assert_eq!(walk(&[0x1c; 100]).0, None, "structures without end");
        assert_eq!(walk(&[0x19; 100]).0, None, "lists of lists");
        assert_eq!(
            walk(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]).0,
            None,
            "a long number"
        );
    }
}
