//! Layouts: the meaning of the bits of a payload, as data.
//!
//! The Wireshark dissector ([`super::dissector`]) and the tables of the docs are generated from them. Fields are listed
//! in the order of the bits, without gaps; those of a header come from its [`super::header`]. The set of messages,
//! their lengths and their rules exist twice: here as data and in the formats' readers as code. That both agree is
//! tested on random and on damaged packets (`systems/registry/tests/registry/dissector.rs`).

use super::header::Bits;

/// The encoding of a field. Multi-byte values are in network order unless the name says little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned number.
    Uint,
    /// An unsigned number, little-endian; whole bytes.
    UintLittle,
    /// A number in two's complement; whole bytes.
    Int,
    /// An IEEE 754 number of 32 bits.
    Float,
    /// An IEEE 754 number of 32 bits, little-endian.
    FloatLittle,
    /// One bit that is set or not.
    Flag,
    /// Unused bits.
    Unused,
}

impl Kind {
    /// Returns the name in the dissector's tables and the docs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Uint => "uint",
            Kind::UintLittle => "uint LE",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::FloatLittle => "float LE",
            Kind::Flag => "flag",
            Kind::Unused => "unused",
        }
    }
}

/// Some bits of a payload. Fields of one format with the same name have the same encoding everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in filters.
    pub name: &'static str,
    /// Number of bits.
    pub bits: usize,
    /// Encoding.
    pub kind: Kind,
    /// Names of values.
    pub names: &'static [(u64, &'static str)],
    /// One-line description.
    pub about: &'static str,
}

impl Field {
    const fn new(name: &'static str, bits: usize, kind: Kind, about: &'static str) -> Self {
        Field { name, bits, kind, names: &[], about }
    }

    /// A field that is decoded as a value of `T`.
    pub const fn of<T: Bits>(name: &'static str, bits: usize, about: &'static str) -> Self {
        Self::new(name, bits, T::KIND, about).named(T::NAMES)
    }

    /// An unsigned number.
    pub const fn uint(name: &'static str, bits: usize, about: &'static str) -> Self {
        Self::new(name, bits, Kind::Uint, about)
    }

    /// Returns the field as little-endian.
    pub const fn little(self) -> Self {
        let kind = match self.kind {
            Kind::Uint => Kind::UintLittle,
            Kind::Float => Kind::FloatLittle,
            _ => panic!("layouts have no little-endian kind of this"),
        };
        Field { kind, ..self }
    }

    /// One bit.
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, 1, Kind::Flag, about)
    }

    /// Unused bits.
    pub const fn unused(bits: usize) -> Self {
        Self::new("", bits, Kind::Unused, "")
    }

    /// Returns the field with names of values.
    pub const fn named(self, names: &'static [(u64, &'static str)]) -> Self {
        Field { names, ..self }
    }

    /// Reads it from bit `first` on; `None` if the payload is too short.
    pub fn read(&self, payload: &[u8], first: usize) -> Option<Value> {
        let raw = payload.get(first / 8..(first + self.bits).div_ceil(8))?;
        let whole = raw.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
        let after = (8 - (first + self.bits) % 8) % 8;
        let bits = (whole >> after) as u64 & (u64::MAX >> (64 - self.bits));
        let swapped = bits.swap_bytes() >> (64 - self.bits);
        Some(match self.kind {
            Kind::Uint | Kind::Flag | Kind::Unused => Value::Int(bits.into()),
            Kind::UintLittle => Value::Int(swapped.into()),
            Kind::Int => Value::Int(((bits << (64 - self.bits)) as i64 >> (64 - self.bits)).into()),
            Kind::Float => Value::Float(bits as u32),
            Kind::FloatLittle => Value::Float(swapped as u32),
        })
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number, or 0 and 1 for flags.
    Int(i128),
    /// The bits of an f32.
    Float(u32),
}

/// A condition on fields of a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The field is not 0.
    NotZero(&'static str),
    /// The field is at most this number.
    AtMost(&'static str, u64),
    /// The first is less than the second.
    Below(&'static str, &'static str),
    /// Both are 0, or neither is.
    Together(&'static str, &'static str),
}

/// The number of items of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The value of a field.
    Field(&'static str),
    /// A constant.
    Fixed(usize),
    /// As many as there is room for, up to a maximum.
    ToEnd(usize),
}

/// The content after a message's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// Repeated fields.
    Items {
        /// Their name.
        name: &'static str,
        /// Their number.
        count: Count,
        /// Fields of each item; together whole bytes.
        fields: &'static [Field],
    },
    /// Bytes up to the end.
    Bytes {
        /// Their name.
        name: &'static str,
        /// Their maximum number.
        most: usize,
    },
}

/// The content that may follow a message in its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Nothing,
    /// Padding, up to this payload length.
    PaddingTo(usize),
    /// Anything.
    Anything,
}

/// One kind of packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Name, in one word or two.
    pub name: &'static str,
    /// Values of fields that identify it; among messages that share them, the length decides.
    pub when: &'static [(&'static str, u64)],
    /// Fields after the head of the format, in groups so that messages can share some.
    pub groups: &'static [&'static [Field]],
    /// Conditions on its fields.
    pub rules: &'static [Rule],
    /// The content after the fields.
    pub rest: Rest,
    /// Fields after that, at the end of the message; empty if anything may follow.
    pub tail: &'static [Field],
    /// The content that may follow.
    pub after: After,
}

/// A message that consists of the head only.
pub const PLAIN: Message =
    Message { name: "", when: &[], groups: &[], rules: &[], rest: Rest::Nothing, tail: &[], after: After::Nothing };

/// All packets of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Ranges of UDP ports of the format: traffic to or from them is ours.
    pub ports: &'static [(u16, u16)],
    /// UDP ports of our packets that other programs use for other purposes.
    pub shared_ports: &'static [u16],
    /// Whether a packet that decodes is certainly ours, on any port.
    pub telling: bool,
    /// Fields shown in the summary line of a packet, in this order, if present; flags only if set.
    pub summary: &'static [&'static str],
    /// Common fields at the beginning of every packet.
    pub head: &'static [Field],
    /// Conditions on every message.
    pub rules: &'static [Rule],
    /// The messages; the first that matches is taken.
    pub messages: &'static [Message],
}

/// A field at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its first bit, from the beginning of the payload.
    pub first: usize,
    /// The field.
    pub field: &'static Field,
}

/// A field with its place and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The field and its place.
    pub placed: Placed,
    /// Its value.
    pub value: Value,
}

/// A decoded payload.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<'a> {
    /// The matching message.
    pub message: &'static Message,
    /// Its fields.
    pub fields: Vec<Read>,
    /// The fields of each item.
    pub items: Vec<Vec<Read>>,
    /// Bytes up to the end, if the message has such.
    pub bytes: &'a [u8],
}

impl Decoded<'_> {
    /// Returns a field's value.
    pub fn value(&self, name: &str) -> Option<Value> {
        value(&self.fields, name)
    }
}

fn value(fields: &[Read], name: &str) -> Option<Value> {
    fields.iter().find(|read| read.placed.field.name == name).map(|read| read.value)
}

fn number(fields: &[Read], name: &str) -> Option<i128> {
    match value(fields, name)? {
        Value::Int(number) => Some(number),
        Value::Float(_) => None,
    }
}

/// Places fields one after the other, starting at bit `first`.
pub fn place(fields: impl Iterator<Item = &'static Field>, mut first: usize) -> Vec<Placed> {
    fields
        .map(|field| {
            let placed = Placed { first, field };
            first += field.bits;
            placed
        })
        .collect()
}

/// Returns the total number of bits of the fields.
pub fn bits<'a>(fields: impl Iterator<Item = &'a Field>) -> usize {
    fields.map(|field| field.bits).sum()
}

fn read(placed: &[Placed], payload: &[u8]) -> Option<Vec<Read>> {
    let known = placed.iter().filter(|placed| placed.field.kind != Kind::Unused);
    known.map(|&placed| Some(Read { placed, value: placed.field.read(payload, placed.first)? })).collect()
}

impl Message {
    /// Returns its fields, including those of the format's head.
    pub fn fields(&self, layout: &Layout) -> Vec<Placed> {
        place(layout.head.iter().chain(self.groups.iter().copied().flatten()), 0)
    }

    /// Returns the number of bytes of its fields.
    pub fn fixed_bytes(&self, layout: &Layout) -> usize {
        bits(layout.head.iter().chain(self.groups.iter().copied().flatten())) / 8
    }

    /// Returns the number of bytes of the fields at its end.
    pub fn tail_bytes(&self) -> usize {
        bits(self.tail.iter()) / 8
    }

    fn decode<'a>(&'static self, layout: &Layout, payload: &'a [u8]) -> Option<Decoded<'a>> {
        let mut fields = read(&self.fields(layout), payload)?;
        let is = |(name, wanted): &(&str, u64)| number(&fields, name) == Some(i128::from(*wanted));
        let obeyed = layout.rules.iter().chain(self.rules).all(|rule| obeys(rule, &fields) == Some(true));
        if !self.when.iter().all(is) || !obeyed {
            return None;
        }
        let fixed = self.fixed_bytes(layout);
        let room = (payload.len() - fixed).checked_sub(self.tail_bytes())?;
        let (items, bytes, used) = match self.rest {
            Rest::Nothing => (Vec::new(), &[][..], 0),
            Rest::Bytes { most, .. } => (Vec::new(), payload[fixed..].get(..room.min(most))?, room.min(most)),
            Rest::Items { count, fields: of_item, .. } => {
                let size = bits(of_item.iter()) / 8;
                let count = match count {
                    Count::Field(name) => usize::try_from(number(&fields, name)?).ok()?,
                    Count::Fixed(count) => count,
                    Count::ToEnd(most) => (room / size).min(most),
                };
                let item = |i: usize| read(&place(of_item.iter(), (fixed + i * size) * 8), payload);
                ((0..count).map(item).collect::<Option<Vec<_>>>()?, &[][..], count * size)
            }
        };
        let ends = match self.after {
            After::Nothing => used == room,
            After::PaddingTo(length) => used == room || (used < room && payload.len() <= length),
            After::Anything => used <= room,
        };
        fields.extend(read(&place(self.tail.iter(), (fixed + used) * 8), payload)?);
        ends.then_some(Decoded { message: self, fields, items, bytes })
    }
}

fn obeys(rule: &Rule, fields: &[Read]) -> Option<bool> {
    Some(match rule {
        Rule::NotZero(name) => number(fields, name)? != 0,
        Rule::AtMost(name, most) => number(fields, name)? <= i128::from(*most),
        Rule::Below(less, more) => number(fields, less)? < number(fields, more)?,
        Rule::Together(one, other) => (number(fields, one)? != 0) == (number(fields, other)? != 0),
    })
}

impl Layout {
    /// Decodes a payload; `None` if it is not a valid message. Slow: for tests and tools.
    pub fn decode<'a>(&self, payload: &'a [u8]) -> Option<Decoded<'a>> {
        self.messages.iter().find_map(|message| message.decode(self, payload))
    }
}
