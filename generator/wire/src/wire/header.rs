//! Headers as tables of fields: [`header!`] generates the struct, its reader, its writer and the layout from one table.
//!
//! Fields are listed in the order of their bits, so the place of a field is the sum of the widths before it. Places are
//! constants: the generated code compiles to loads and stores at fixed offsets after one length check. The slow reader
//! by layout ([`Field::read`]) is its reference model.

use super::layout::{Field, Kind, Value};

/// A type whose values are encoded in the lowest bits of a number.
pub trait Bits: Copy {
    /// Kind in layouts.
    const KIND: Kind;
    /// Names of values.
    const NAMES: &'static [(u64, &'static str)] = &[];
    /// Decodes bits; `None` if they have no meaning.
    fn decode(bits: u64) -> Option<Self>;
    /// Encodes a value.
    fn encode(self) -> u64;
}

macro_rules! numbers {
    ($($kind:ident: $($type:ty)+;)+) => {$($(
        impl Bits for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn decode(bits: u64) -> Option<Self> {
                Some(bits as $type)
            }
            #[inline(always)]
            fn encode(self) -> u64 {
                self as u64
            }
        }
    )+)+};
}

numbers! {
    Uint: u8 u16 u32 u64;
    Int: i8 i32 i64;
}

impl Bits for bool {
    const KIND: Kind = Kind::Flag;
    #[inline(always)]
    fn decode(bits: u64) -> Option<Self> {
        Some(bits != 0)
    }
    #[inline(always)]
    fn encode(self) -> u64 {
        self.into()
    }
}

impl Bits for f32 {
    const KIND: Kind = Kind::Float;
    #[inline(always)]
    fn decode(bits: u64) -> Option<Self> {
        Some(f32::from_bits(bits as u32))
    }
    #[inline(always)]
    fn encode(self) -> u64 {
        self.to_bits().into()
    }
}

/// Returns the number of bytes that hold a field, and the bits after it in the last one.
const fn around(first: usize, bits: usize) -> (usize, usize) {
    let bytes = (first + bits).div_ceil(8) - first / 8;
    (bytes, (first / 8 + bytes) * 8 - first - bits)
}

/// Reads the `BITS` (1 to 64) bits from bit `FIRST` on, which span at most 8 bytes.
#[inline(always)]
pub fn read<const FIRST: usize, const BITS: usize, const LITTLE: bool>(bytes: &[u8]) -> u64 {
    let ((len, after), from) = (const { around(FIRST, BITS) }, FIRST / 8);
    let mut word = [0; 8];
    word[8 - len..].copy_from_slice(&bytes[from..from + len]);
    let value = (u64::from_be_bytes(word) >> after) & (u64::MAX >> (64 - BITS));
    if LITTLE { value.swap_bytes() >> (64 - BITS) } else { value }
}

/// Writes the lowest `BITS` bits of a value. Earlier bits of the first byte are kept, later ones of the last byte become 0.
#[inline(always)]
pub fn write<const FIRST: usize, const BITS: usize, const LITTLE: bool>(bytes: &mut [u8], value: u64) {
    let ((len, after), from) = (const { around(FIRST, BITS) }, FIRST / 8);
    let value = if LITTLE { value.swap_bytes() >> (64 - BITS) } else { value & (u64::MAX >> (64 - BITS)) };
    let before = if FIRST.is_multiple_of(8) { 0 } else { bytes[from] };
    bytes[from..from + len].copy_from_slice(&(value << after).to_be_bytes()[8 - len..]);
    bytes[from] |= before;
}

/// A field at its place, for reading or writing it alone.
pub struct At<const FIRST: usize, const BITS: usize, const LITTLE: bool>;

impl<const FIRST: usize, const BITS: usize, const LITTLE: bool> At<FIRST, BITS, LITTLE> {
    /// Returns its value; `None` if its bits have no meaning.
    #[inline(always)]
    pub fn get<T: Bits>(self, bytes: &[u8]) -> Option<T> {
        T::decode(read::<FIRST, BITS, LITTLE>(bytes))
    }

    /// Writes it; see [`write`].
    #[inline(always)]
    pub fn put(self, bytes: &mut [u8], value: impl Bits) {
        write::<FIRST, BITS, LITTLE>(bytes, value.encode());
    }
}

/// Returns the total number of bits of the fields.
pub const fn width(fields: &[Field]) -> usize {
    let (mut sum, mut i) = (0, 0);
    while i < fields.len() {
        sum += fields[i].bits;
        i += 1;
    }
    sum
}

/// Returns whether the field that consists of these fields is little-endian.
pub const fn is_little(fields: &[Field]) -> bool {
    matches!(fields[0].kind, Kind::UintLittle | Kind::FloatLittle)
}

/// Concatenates tables.
pub const fn joined<const N: usize>(tables: &[&[Field]]) -> [Field; N] {
    let mut all = [Field::unused(1); N];
    let (mut table, mut i, mut n) = (0, 0, 0);
    while table < tables.len() {
        if i == tables[table].len() {
            (table, i) = (table + 1, 0);
        } else {
            all[n] = tables[table][i];
            (i, n) = (i + 1, n + 1);
        }
    }
    all
}

/// Returns the index and the first bit of the field with this name. Evaluated at compile time, where a wrong name is an error.
pub const fn find(fields: &[Field], name: &str) -> (usize, usize) {
    let (mut at, mut first, name) = (0, 0, name.as_bytes());
    loop {
        let (field, mut i) = (fields[at].name.as_bytes(), 0);
        while field.len() == name.len() && i < name.len() && field[i] == name[i] {
            i += 1;
        }
        if i == name.len() && field.len() == name.len() {
            return (at, first);
        }
        (at, first) = (at + 1, first + fields[at].bits);
    }
}

/// Appends names and values of the fields that make up the lowest bits of a number.
pub fn split(fields: &[Field], bits: u64, out: &mut Vec<(&'static str, Value)>) {
    let free = 64 - width(fields);
    let bytes = (if is_little(fields) { bits.swap_bytes() } else { bits << free }).to_be_bytes();
    let mut first = 0;
    for field in fields {
        let value = field.read(&bytes, first).filter(|_| field.kind != Kind::Unused);
        out.extend(value.map(|value| (field.name, value)));
        first += field.bits;
    }
}

/// Names and values of fields, in the order of their bits.
pub type Fields = Vec<(&'static str, Value)>;

/// The interface of all headers made by [`header!`].
pub trait Group {
    /// Returns the number of bytes of the header.
    fn bytes(&self) -> usize;
    /// Writes the header to the beginning of `payload`; panics if it is too short.
    fn put(&self, payload: &mut [u8]);
    /// Returns the values of its fields, without open ones, for tests.
    fn fields(&self) -> Fields;
}

/// Returns the place of the field of a header with this name.
#[macro_export]
macro_rules! at {
    ($header:ident.$name:ident) => {{
        const PLACE: (usize, usize) = $crate::wire::header::find($header::FIELDS, stringify!($name));
        const OWN: $crate::wire::layout::Field = $header::FIELDS[PLACE.0];
        $crate::wire::header::At::<{ PLACE.1 }, { OWN.bits }, { $crate::wire::header::is_little(&[OWN]) }>
    }};
}
pub use at;

/// A header, field by field in the order of the bits. Each entry ends with `;` and has one of these forms:
///
/// - `name: Type, bits, "about"`: a member of the struct ([`Bits`]); `le` before it: little-endian;
/// - `name: Type = [fields]`: a member that layouts show as these fields; `via (decode, encode)` after it: functions
///   that convert its bits, `None` if they have no meaning, and back;
/// - `fixed name: bits = value, "about"`: always this `u64`; a packet with another value is not read;
/// - `open name: bits, "about", names`: written and read elsewhere, here 0;
/// - `unused bits`: written as 0, ignored when read;
/// - `beside name: Type, "about"`: a member outside the header: has its type's default when read.
#[macro_export]
macro_rules! header {
    ($(#[$meta:meta])* $vis:vis struct $header:ident { $($body:tt)* }) => {
        $crate::header!(@ [$(#[$meta])* $vis struct $header] (0) [] [] $($body)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt unused $bits:literal; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + $bits)
            [$($done)* { ($first) [Field::unused($bits)] open 0 }] $beside $($rest)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt open $name:ident: $bits:literal, $about:literal, $names:expr; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + $bits)
            [$($done)* { ($first) [Field::uint(stringify!($name), $bits, $about).named($names)] open 0 }] $beside $($rest)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt fixed $name:ident: $bits:literal = $value:expr, $about:literal; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + $bits)
            [$($done)* { ($first) [Field::uint(stringify!($name), $bits, $about)] fixed ($value) }] $beside $($rest)*);
    };
    (@ $head:tt $first:tt $done:tt [$($beside:tt)*] beside $name:ident: $type:ty, $about:literal; $($rest:tt)*) => {
        $crate::header!(@ $head $first $done [$($beside)* { $about, $name, $type }] $($rest)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt le $name:ident: $type:ty, $bits:literal, $about:literal; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + $bits) [$($done)* { ($first)
            [Field::of::<$type>(stringify!($name), $bits, $about).little()]
            member [doc = $about] $name, $type, ($crate::wire::header::Bits::decode, $crate::wire::header::Bits::encode) }] $beside $($rest)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt $name:ident: $type:ty, $bits:literal, $about:literal; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + $bits) [$($done)* { ($first)
            [Field::of::<$type>(stringify!($name), $bits, $about)]
            member [doc = $about] $name, $type, ($crate::wire::header::Bits::decode, $crate::wire::header::Bits::encode) }] $beside $($rest)*);
    };
    (@ $head:tt $first:tt $done:tt $beside:tt #[$about:meta] $name:ident: $type:ty = $own:tt; $($rest:tt)*) => {
        $crate::header!(@ $head $first $done $beside #[$about] $name: $type = $own
            via ($crate::wire::header::Bits::decode, $crate::wire::header::Bits::encode); $($rest)*);
    };
    (@ $head:tt ($first:expr) [$($done:tt)*] $beside:tt #[$about:meta] $name:ident: $type:ty = $own:tt via $via:tt; $($rest:tt)*) => {
        $crate::header!(@ $head ($first + width(&$own))
            [$($done)* { ($first) $own member [$about] $name, $type, $via }] $beside $($rest)*);
    };
    (@ [$(#[$meta:meta])* $vis:vis struct $header:ident] ($bits:expr)
        [$({ ($first:expr) $own:tt $(open $open:literal)? $(fixed ($value:expr))?
            $(member [$doc:meta] $name:ident, $type:ty, ($decode:expr, $encode:expr))? })*]
        [$({ $beside_about:literal, $beside:ident, $beside_type:ty })*]
    ) => {
        $(#[$meta])*
        $vis struct $header {
            $($(#[$doc] pub $name: $type,)?)*
            $(#[doc = $beside_about] pub $beside: $beside_type,)*
        }

        const _: () = {
            use $crate::wire::header::{Fields, Group, is_little, joined, read, split, width, write};
            use $crate::wire::layout::Field;

            impl $header {
                /// Bytes of the header.
                pub const BYTES: usize = ($bits) / 8;
                /// Its fields, for layouts.
                pub const FIELDS: &'static [Field] = &joined::<{ 0 $(+ $own.len())* }>(&[$(&$own),*]);

                /// Reads it from the beginning of a payload; `None` if that is shorter, or belongs to another packet.
                #[inline(always)]
                fn get(payload: &[u8]) -> Option<Self> {
                    let bytes: &[u8; $header::BYTES] = payload.first_chunk()?;
                    $($(if read::<{ $first }, { width(&$own) }, false>(bytes) != $value {
                        return None;
                    })?)*
                    Some($header {
                        $($($name: $decode(read::<{ $first }, { width(&$own) }, { is_little(&$own) }>(bytes))?,)?)*
                        $($beside: Default::default(),)*
                    })
                }
            }

            impl Group for $header {
                fn bytes(&self) -> usize {
                    $header::BYTES
                }

                #[inline(always)]
                fn put(&self, payload: &mut [u8]) {
                    let Some(bytes) = payload.first_chunk_mut::<{ $header::BYTES }>() else {
                        panic!("the buffer is shorter than its header")
                    };
                    $(write::<{ $first }, { width(&$own) }, { is_little(&$own) }>(
                        bytes, $($open)? $($value)? $($encode(self.$name))?);)*
                }

                fn fields(&self) -> Fields {
                    let mut out = Fields::new();
                    $($(split(&$own, $value, &mut out);)? $(split(&$own, $encode(self.$name), &mut out);)?)*
                    out
                }
            }
        };
    };
}
pub use header;

/// Values of a field, each with its number, its name in layouts, and a description.
#[macro_export]
macro_rules! values {
    ($(#[$meta:meta])* $vis:vis enum $kind:ident { $($entry:ident = $code:literal, $name:literal $(, $about:literal)?;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $kind {
            $($(#[doc = $about])? $entry = $code,)*
        }

        impl $kind {
            /// Returns the name in layouts.
            pub const fn name(self) -> &'static str {
                match self {
                    $($kind::$entry => $name,)*
                }
            }
        }

        impl $crate::wire::header::Bits for $kind {
            const KIND: $crate::wire::layout::Kind = $crate::wire::layout::Kind::Uint;
            const NAMES: &'static [(u64, &'static str)] = &[$(($code, $name)),*];

            #[inline(always)]
            fn decode(bits: u64) -> Option<Self> {
                match bits {
                    $($code => Some($kind::$entry),)*
                    _ => None,
                }
            }

            #[inline(always)]
            fn encode(self) -> u64 {
                self as u64
            }
        }
    };
}
pub use values;

#[cfg(test)]
mod tests {
    use super::super::layout::Value;
    use super::*;
    use proptest::prelude::*;

    header! {
        /// A field of every kind.
        #[derive(Debug, Clone, Copy, PartialEq)]
        struct Every {
            fixed version: 4 = 5, "x";
            open kind: 4, "x", &[];
            a: u8, 3, "x";
            unused 2;
            b: bool, 1, "x";
            c: u16, 10, "x";
            le d: u16, 16, "x";
            e: i64, 64, "x";
            le f: f32, 32, "x";
            /// Two in one.
            g: u32 = [Field::uint("high", 24, "x"), Field::uint("low", 8, "x")];
            unused 4;
            h: u16, 12, "x";
            i: u32, 24, "x";
            j: i8, 8, "x";
            beside k: u8, "x";
        }
    }

    proptest! {
        #[test]
        fn a_header_says_what_its_layout_says(mut bytes in prop::collection::vec(any::<u8>(), Every::BYTES..40)) {
            bytes[0] = 0x50 | (bytes[0] & 15);
            let header = Every::get(&bytes).unwrap();
            let (mut naive, mut first) = (Fields::new(), 0);
            for field in Every::FIELDS {
                let value = field.read(&bytes, first).unwrap();
                naive.extend((!["", "kind"].contains(&field.name)).then_some((field.name, value)));
                first += field.bits;
            }
            prop_assert_eq!((header.fields(), first / 8), (naive, Every::BYTES));
            let mut again = vec![0xa5; bytes.len()];
            at!(Every.kind).put(&mut again, 0u8);
            header.put(&mut again);
            again[0] |= bytes[0] & 15;
            let used = |at: usize, byte: u8| match at { 1 => byte & 0b1110_0111, 21 => byte & 15, _ => byte };
            for (at, byte) in bytes.iter().enumerate() {
                let wanted = if at < Every::BYTES { used(at, *byte) } else { 0xa5 };
                prop_assert_eq!(again[at], wanted, "byte {}", at);
            }
            bytes[0] ^= 0x10;
            prop_assert!(Every::get(&bytes).is_none() && Every::get(&again[..Every::BYTES - 1]).is_none());
        }
    }

    #[test]
    fn fields_alone_are_where_the_header_has_them() {
        let mut bytes = [0; Every::BYTES];
        at!(Every.e).put(&mut bytes, -2i64);
        at!(Every.d).put(&mut bytes, 0x0102u16);
        assert_eq!(bytes[..13], [0, 0, 0, 2, 1, 255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(
            Every { f: 1.0, g: 0x0102_0304, ..header() }.fields()[6..9],
            [("f", Value::Float(1f32.to_bits())), ("high", Value::Int(0x01_0203)), ("low", Value::Int(4)),]
        );
    }

    fn header() -> Every {
        Every { a: 0, b: false, c: 0, d: 0, e: 0, f: 0.0, g: 0, h: 0, i: 0, j: 0, k: 0 }
    }
}
