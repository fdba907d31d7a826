//! A file of an execution trace: its container and its nodes.
//!
//! A message is its length as a varint, then its bytes; the first is the metadata, each other a node
//! (`schema/protobuf/et_def.proto` of mlcommons/chakra, and the `protolib.py` that writes the files).

use std::fs::File;
use std::io::{BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::protobuf::{Fields, Value};
use crate::pcap::PACKED;
use crate::{Error, Result};

/// Most bytes of a message: what claims more is damage.
const MESSAGE_MAX: u64 = 16 << 20;
/// Most nodes of a file, which are held in memory.
const NODES_MAX: usize = 1 << 24;
/// Most dependencies of all nodes of a file, which are held in memory, too: a byte of the file may be one.
const DEPS_MAX: usize = 1 << 26;
/// Most characters of the name of a process group.
const GROUP_MAX: usize = 256;

/// Types of nodes that send.
pub(super) const SEND: u64 = 5;
pub(super) const RECEIVE: u64 = 6;
pub(super) const COLLECTIVE: u64 = 7;

/// A node: what it waits for, and what it sends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) kind: u64,
    /// Microseconds; 0 where it was not recorded.
    pub(super) start: u64,
    pub(super) duration: u64,
    /// Nodes that must have ended.
    pub(super) deps: Vec<u64>,
    pub(super) comm_type: Option<i128>,
    pub(super) comm_size: Option<i128>,
    pub(super) group: Option<String>,
    /// Whether it only launches on the host what another node does.
    pub(super) on_host: bool,
}

/// How many dependencies are held, and how many may be.
struct Held {
    deps: usize,
    most: usize,
}

impl Held {
    fn add(&mut self, more: usize) -> Result<(), String> {
        self.deps = self.deps.saturating_add(more);
        if self.deps > self.most {
            return Err(format!("there are more than {} dependencies; cut the trace", self.most));
        }
        Ok(())
    }
}

/// All nodes of a file, in its order, with the byte at which each begins.
pub(super) fn nodes(path: &Path) -> Result<Vec<(u64, Node)>> {
    nodes_of(path, DEPS_MAX)
}

/// The same with at most `most` dependencies.
fn nodes_of(path: &Path, most: usize) -> Result<Vec<(u64, Node)>> {
    let mut held = Held { deps: 0, most };
    let mut messages = Messages::open(path)?;
    let mut nodes = Vec::new();
    let mut first = true;
    while let Some((at, message)) = messages.next()? {
        let damaged = |what: String| Error::data(path, format!("byte {at}{}: {what}", messages.unpacked));
        if std::mem::take(&mut first) {
            metadata(&message).map_err(damaged)?;
            continue;
        }
        if nodes.len() >= NODES_MAX {
            return Err(damaged(format!("there are more than {NODES_MAX} nodes; cut the trace")));
        }
        nodes.push((at, node(&message, &mut held).map_err(damaged)?));
    }
    if first {
        return Err(Error::data(path, "it is empty; an execution trace begins with its metadata"));
    }
    Ok(nodes)
}

/// Messages of a file, one after the other.
struct Messages {
    path: PathBuf,
    source: BufReader<Box<dyn Read>>,
    offset: u64,
    unpacked: &'static str,
}

impl Messages {
    fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let mut head = Vec::new();
        file.by_ref().take(2).read_to_end(&mut head).map_err(Error::io("read", path))?;
        let packed = head == PACKED[0];
        let whole = Cursor::new(head).chain(file);
        let (source, unpacked): (Box<dyn Read>, _) = if packed {
            (Box::new(flate2::read::MultiGzDecoder::new(whole)), " of what gzip unpacks")
        } else {
            (Box::new(whole), "")
        };
        Ok(Messages { path: path.to_owned(), source: BufReader::new(source), offset: 0, unpacked })
    }

    /// The next message and the byte at which it begins; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let at = self.offset;
        let Some(length) = self.length(at)? else { return Ok(None) };
        if length > MESSAGE_MAX {
            return Err(self.damage(at, format!("a message of {length} bytes; they have at most {MESSAGE_MAX}")));
        }
        // What is there is held, not what is claimed.
        let mut message = Vec::new();
        let read = self.source.by_ref().take(length).read_to_end(&mut message);
        read.map_err(|error| self.failure(error))?;
        self.offset += message.len() as u64;
        if (message.len() as u64) < length {
            let left = message.len();
            return Err(
                self.damage(at, format!("a message of {length} bytes, where {left} are left; is it truncated?"))
            );
        }
        Ok(Some((at, message)))
    }

    fn length(&mut self, at: u64) -> Result<Option<u64>> {
        let mut length = 0;
        for i in 0..10 {
            let mut byte = [0];
            let got = loop {
                match self.source.read(&mut byte) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            match got.map_err(|error| self.failure(error))? {
                0 if i == 0 => return Ok(None),
                0 => return Err(self.damage(at, "the length of a message is cut off".into())),
                _ => {}
            }
            self.offset += 1;
            length |= u64::from(byte[0] & 0x7f) << (7 * i);
            if byte[0] & 0x80 == 0 {
                return Ok(Some(length));
            }
        }
        Err(self.damage(at, "a length that does not end".into()))
    }

    /// What unpacking finds wrong is damage; the rest is the system's.
    fn failure(&self, error: std::io::Error) -> Error {
        if self.unpacked.is_empty() || error.raw_os_error().is_some() {
            return Error::io("read", &self.path)(error);
        }
        self.damage(self.offset, format!("it cannot be unpacked: {error}"))
    }

    fn damage(&self, at: u64, what: String) -> Error {
        Error::data(&self.path, format!("byte {at}{}: {what}", self.unpacked))
    }
}

/// Whether the first message is metadata. Its first field is a text, that of a node a number.
fn metadata(message: &[u8]) -> Result<(), String> {
    let why = |what: String| format!("no metadata of an execution trace: {what}");
    let mut fields = Fields::new(message);
    while let Some((field, value)) = fields.next().map_err(why)? {
        if matches!(field, 1 | 2) {
            value.bytes(if field == 1 { "version" } else { "attr" }).map_err(why)?;
        }
    }
    Ok(())
}

/// The node in a message.
fn node(message: &[u8], held: &mut Held) -> Result<Node, String> {
    let mut node = Node::default();
    let within = |id: u64, what: String| format!("node {id}: {what}");
    let mut fields = Fields::new(message);
    while let Some((field, value)) = fields.next().map_err(|what| within(node.id, what))? {
        let taken = take(&mut node, field, value, held);
        taken.map_err(|what| within(node.id, what))?;
    }
    Ok(node)
}

fn take(node: &mut Node, field: u64, value: Value, held: &mut Held) -> Result<(), String> {
    match field {
        1 => node.id = value.number("id")?,
        3 => node.kind = value.number("type")?,
        // Numbers that repeat are packed, or fields of their own.
        4 | 5 => match value {
            Value::Bytes(bytes) => {
                // The last byte of a number has no highest bit.
                let count = bytes.iter().filter(|byte| **byte < 0x80).count();
                held.add(count)?;
                node.deps.reserve(count);
                let mut packed = Fields::new(bytes);
                while !packed.is_empty() {
                    node.deps.push(packed.varint()?);
                }
            }
            other => {
                held.add(1)?;
                node.deps.push(other.number("ctrl_deps or data_deps")?);
            }
        },
        6 => node.start = value.number("start_time_micros")?,
        7 => node.duration = value.number("duration_micros")?,
        10 => attribute(node, value.bytes("attr")?)?,
        _ => {}
    }
    Ok(())
}

/// Takes an attribute, if it is one that matters.
fn attribute(node: &mut Node, message: &[u8]) -> Result<(), String> {
    let (mut name, mut content) = (&b""[..], None);
    let mut fields = Fields::new(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = value.bytes("name of an attribute")?,
            // Texts and lists among them; the last of a union counts.
            3..=32 => content = Some((field, value)),
            _ => {}
        }
    }
    let number = || {
        let wrong = || format!("attribute {} is no whole number", String::from_utf8_lossy(name));
        content.and_then(|(field, value)| whole(field, value)).ok_or_else(wrong)
    };
    match name {
        b"comm_type" => node.comm_type = Some(number()?),
        b"comm_size" => node.comm_size = Some(number()?),
        b"is_cpu_op" => node.on_host = number()? != 0,
        b"pg_name" => {
            let group = match content {
                Some((29, Value::Bytes(text))) => String::from_utf8_lossy(text).into_owned(),
                _ => number()?.to_string(),
            };
            if group.len() > GROUP_MAX {
                return Err(format!("attribute pg_name has {} bytes; at most {GROUP_MAX}", group.len()));
            }
            node.group = Some(group);
        }
        _ => {}
    }
    Ok(())
}

/// The whole number in a union's field: signed, zigzag or fixed, as the field says.
fn whole(field: u64, value: Value) -> Option<i128> {
    Some(match (field, value) {
        (7, Value::Varint(n)) => i128::from(n as i32),
        (9, Value::Varint(n)) => i128::from(n as i64),
        (11 | 13 | 27, Value::Varint(n)) => i128::from(n),
        (15 | 17, Value::Varint(n)) => i128::from((n >> 1) as i64 ^ -((n & 1) as i64)),
        (19, Value::Fixed32(n)) => i128::from(n),
        (21, Value::Fixed64(n)) => i128::from(n),
        (23, Value::Fixed32(n)) => i128::from(n as i32),
        (25, Value::Fixed64(n)) => i128::from(n as i64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_all_nodes_together_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.0.et");
        // Metadata; a node with three packed dependencies, one of two bytes; a node with one in a field of its own.
        let messages = [&[0x0a, 1, b'1'][..], &[0x08, 1, 0x22, 4, 0, 0x80, 1, 9], &[0x08, 2, 0x28, 7]];
        let bytes: Vec<u8> = messages.iter().flat_map(|m| [&[m.len() as u8][..], *m].concat()).collect();
        std::fs::write(&path, bytes).unwrap();
        let deps: Vec<_> = nodes_of(&path, 4).unwrap().into_iter().map(|(_, node)| node.deps).collect();
        assert_eq!(deps, [vec![0u64, 128, 9], vec![7]]);
        for (most, place) in [(3, "node 2"), (2, "node 1"), (0, "node 1")] {
            let message = nodes_of(&path, most).unwrap_err().to_string();
            let what = format!("{place}: there are more than {most} dependencies; cut the trace");
            assert!(message.contains(&what), "{message}");
        }
    }
}
