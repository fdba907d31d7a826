//! A simple encoder of captures, for tests: everything that the formats permit, in either byte order, and the packets
//! that a reader must find.

use proptest::prelude::*;

use super::Stamp;

/// A packet that a reader must return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedPacket {
    pub section: u32,
    pub interface: u32,
    pub time: Option<Stamp>,
    pub len: u32,
    pub bytes: Vec<u8>,
}

/// A capture, with the ends of its records or blocks, and the packets up to each end.
#[derive(Debug, Clone, Default)]
pub(crate) struct EncodedCapture {
    pub file: Vec<u8>,
    pub ends: Vec<usize>,
    pub packets: Vec<(usize, ExpectedPacket)>,
}

impl EncodedCapture {
    /// Returns the packets that end within the first `length` bytes.
    pub fn within(&self, length: usize) -> Vec<ExpectedPacket> {
        self.packets.iter().filter(|(end, _)| *end <= length).map(|(_, packet)| packet.clone()).collect()
    }
}

/// Content of a packet.
#[derive(Debug, Clone)]
pub struct Given {
    pub ticks: u64,
    pub bytes: Vec<u8>,
    /// Bytes that were not kept.
    pub cut: u32,
}

pub fn given() -> impl Strategy<Value = Given> {
    let ticks = prop_oneof![0u64..4_000_000_000_000_000_000, any::<u64>(), Just(0)];
    (ticks, prop::collection::vec(any::<u8>(), 0..40), prop_oneof![Just(0u32), 1u32..3000])
        .prop_map(|(ticks, bytes, cut)| Given { ticks, bytes, cut })
}

fn u16s(big: bool, value: u16) -> [u8; 2] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn u32s(big: bool, value: u32) -> [u8; 4] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// Encodes pcap; the ticks of a packet are microseconds or nanoseconds since 1970.
pub(crate) fn classic(big: bool, nano: bool, packets: &[Given]) -> EncodedCapture {
    let mut made = EncodedCapture::default();
    let magic = if nano { 0xa1b23c4d } else { 0xa1b2c3d4 };
    made.file.extend(u32s(big, magic));
    made.file.extend([u16s(big, 2), u16s(big, 4)].concat());
    for word in [0, 0, 65535, 1] {
        made.file.extend(u32s(big, word));
    }
    made.ends.push(made.file.len());
    for given in packets {
        let parts = if nano { 1_000_000_000 } else { 1_000_000u64 };
        let seconds = (given.ticks / parts) as u32;
        let fraction = (given.ticks % parts) as u32;
        let (kept, len) = (given.bytes.len() as u32, given.bytes.len() as u32 + given.cut);
        for word in [seconds, fraction, kept, len] {
            made.file.extend(u32s(big, word));
        }
        made.file.extend(&given.bytes);
        made.ends.push(made.file.len());
        let ps =
            (u128::from(seconds) * u128::from(parts) + u128::from(fraction)) * (1_000_000_000_000 / u128::from(parts));
        let time = Some(Stamp::from_unix_ps(ps as i128));
        made.packets.push((
            made.file.len(),
            ExpectedPacket { section: 0, interface: 0, time, len, bytes: given.bytes.clone() },
        ));
    }
    made
}

/// An interface of a section.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    pub resolution: Option<u8>,
    pub offset: Option<i64>,
    pub snap: u32,
    pub name: Option<String>,
}

/// A block of a section.
#[derive(Debug, Clone)]
pub enum Block {
    Enhanced { interface: usize, given: Given, options: bool },
    Obsolete { interface: usize, given: Given },
    Simple { given: Given },
    Unknown { kind: u32, words: usize },
}

#[derive(Debug, Clone)]
pub struct Section {
    pub big: bool,
    pub interfaces: Vec<Described>,
    pub blocks: Vec<Block>,
    pub options: bool,
}

pub fn section() -> impl Strategy<Value = Section> {
    let resolution = prop_oneof![Just(6u8), Just(9), Just(12), 0u8..20, 128u8..192];
    let described = (
        prop::option::of(resolution),
        prop::option::of(-4_000_000_000i64..4_000_000_000),
        prop_oneof![Just(0u32), 1u32..60],
        prop::option::of("[a-z0-9]{0,9}"),
    )
        .prop_map(|(resolution, offset, snap, name)| Described { resolution, offset, snap, name });
    let block = prop_oneof![
        4 => (any::<prop::sample::Index>(), given(), any::<bool>())
            .prop_map(|(at, given, options)| Block::Enhanced { interface: at.index(1 << 20), given, options }),
        1 => (any::<prop::sample::Index>(), given()).prop_map(|(at, given)| Block::Obsolete { interface: at.index(1 << 20), given }),
        1 => given().prop_map(|given| Block::Simple { given }),
        1 => (prop_oneof![Just(4u32), Just(5), Just(10), 0x4000_0000u32..], 0usize..20)
            .prop_map(|(kind, words)| Block::Unknown { kind, words }),
    ];
    let parts =
        (any::<bool>(), prop::collection::vec(described, 1..4), prop::collection::vec(block, 0..8), any::<bool>());
    parts.prop_map(|(big, interfaces, mut blocks, options)| {
        for block in &mut blocks {
            if let Block::Enhanced { interface, .. } | Block::Obsolete { interface, .. } = block {
                *interface %= interfaces.len();
            }
        }
        Section { big, interfaces, blocks, options }
    })
}

fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [u16s(big, code), u16s(big, value.len() as u16)].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0xee);
    bytes
}

/// Reference computation of a time: ticks of 10⁻ⁿ or 2⁻ⁿ seconds, plus whole seconds.
fn time(described: &Described, ticks: u64) -> Stamp {
    let resolution = described.resolution.unwrap_or(6);
    let n = u32::from(resolution & 0x7f);
    let per_second = if resolution < 128 { 10u128.pow(n) } else { 1u128 << n };
    let ps = u128::from(ticks) * 1_000_000_000_000 / per_second;
    Stamp::from_unix_ps(ps as i128 + i128::from(described.offset.unwrap_or(0)) * 1_000_000_000_000)
}

/// Encodes pcapng.
pub fn ng(sections: &[Section]) -> EncodedCapture {
    let mut made = EncodedCapture::default();
    for (number, section) in sections.iter().enumerate() {
        let big = section.big;
        let mut body = u32s(big, 0x1a2b3c4d).to_vec();
        body.extend([u16s(big, 1), u16s(big, 0)].concat());
        body.extend([0xff; 8]);
        if section.options {
            body.extend(option(big, 1, b"a comment"));
            body.extend(option(big, 4, b"x"));
        }
        block(&mut made, big, 0x0a0d0d0a, &body);
        for described in &section.interfaces {
            let mut body = [u16s(big, 1), u16s(big, 0)].concat();
            body.extend(u32s(big, described.snap));
            if let Some(name) = &described.name {
                body.extend(option(big, 2, name.as_bytes()));
            }
            if let Some(resolution) = described.resolution {
                body.extend(option(big, 9, &[resolution]));
            }
            if let Some(offset) = described.offset {
                body.extend(option(big, 14, &if big { offset.to_be_bytes() } else { offset.to_le_bytes() }));
            }
            body.extend(option(big, 0, &[]));
            block(&mut made, big, 1, &body);
        }
        for item in &section.blocks {
            packet(&mut made, number as u32, section, item);
        }
    }
    made
}

fn block(made: &mut EncodedCapture, big: bool, kind: u32, body: &[u8]) {
    let length = u32s(big, body.len() as u32 + 12);
    made.file.extend([&u32s(big, kind)[..], &length, body, &length].concat());
    made.ends.push(made.file.len());
}

fn packet(made: &mut EncodedCapture, number: u32, section: &Section, item: &Block) {
    let big = section.big;
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0xdd);
        bytes
    };
    let words = |list: &[u32]| list.iter().flat_map(|word| u32s(big, *word)).collect::<Vec<_>>();
    let (high, low) = match item {
        Block::Enhanced { given, .. } | Block::Obsolete { given, .. } => {
            ((given.ticks >> 32) as u32, given.ticks as u32)
        }
        _ => (0, 0),
    };
    let expect = |made: &mut EncodedCapture, interface: usize, time, len: u32, bytes: &[u8]| {
        let packet = ExpectedPacket { section: number, interface: interface as u32, time, len, bytes: bytes.to_vec() };
        made.packets.push((made.file.len(), packet));
    };
    match item {
        Block::Enhanced { interface, given, options } => {
            let (kept, len) = (given.bytes.len() as u32, given.bytes.len() as u32 + given.cut);
            let mut body = words(&[*interface as u32, high, low, kept, len]);
            body.extend(padded(&given.bytes));
            if *options {
                body.extend(option(big, 2, &[1, 0, 0, 0]));
                body.extend(option(big, 0, &[]));
            }
            block(made, big, 6, &body);
            expect(made, *interface, Some(time(&section.interfaces[*interface], given.ticks)), len, &given.bytes);
        }
        Block::Obsolete { interface, given } => {
            let (kept, len) = (given.bytes.len() as u32, given.bytes.len() as u32 + given.cut);
            let mut body = [u16s(big, *interface as u16), u16s(big, 3)].concat();
            body.extend(words(&[high, low, kept, len]));
            body.extend(padded(&given.bytes));
            block(made, big, 2, &body);
            expect(made, *interface, Some(time(&section.interfaces[*interface], given.ticks)), len, &given.bytes);
        }
        Block::Simple { given } => {
            // The kept length follows only from the first interface's snap length.
            let snap = section.interfaces[0].snap as usize;
            let kept = if snap == 0 { given.bytes.len() } else { given.bytes.len().min(snap) };
            let len = if snap == 0 || kept < snap { kept as u32 } else { kept as u32 + given.cut };
            let mut body = words(&[len]);
            body.extend(padded(&given.bytes[..kept]));
            block(made, big, 3, &body);
            expect(made, 0, None, len, &given.bytes[..kept]);
        }
        Block::Unknown { kind, words } => block(made, big, *kind, &vec![0x5a; 4 * words]),
    }
}
