//! Settings: a key with its default, its range and what it means, written once.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

use super::section::{FromValue, Section};
use crate::{Error, Result};

/// A key of a section, as a user reads of it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The value where it is not written, as an experiment file has it; empty if there is none.
    pub default: fn() -> String,
    /// The values that it may have; empty if its type alone limits them.
    pub range: fn() -> String,
    /// What it is.
    pub about: &'static str,
}

impl Section {
    /// [`allow`](Self::allow) of lists of settings.
    pub fn allow_keys(&mut self, lists: &[&[Key]]) {
        lists.iter().copied().flatten().for_each(|key| self.allow(&[key.name]));
    }
}

/// A range in words.
pub fn describe<T: Display>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Unbounded, Bound::Unbounded) => String::new(),
        (Bound::Included(least), Bound::Unbounded) => format!("{least} or more"),
        (Bound::Excluded(least), Bound::Unbounded) => format!("above {least}"),
        (Bound::Unbounded, Bound::Included(most)) => format!("up to {most}"),
        (Bound::Unbounded, Bound::Excluded(most)) => format!("below {most}"),
        (Bound::Included(least), Bound::Included(most)) => format!("{least} to {most}"),
        (Bound::Included(least), Bound::Excluded(most)) => format!("{least} to below {most}"),
        (Bound::Excluded(least), Bound::Included(most)) => format!("above {least} to {most}"),
        (Bound::Excluded(least), Bound::Excluded(most)) => format!("above {least} to below {most}"),
    }
}

/// The value of `key`, if it is in `range`; else an error that says why.
pub fn within<T: PartialOrd>(
    section: &Section,
    key: &str,
    value: T,
    range: &impl RangeBounds<T>,
    why: impl Fn(&T) -> String,
) -> Result<T> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(Error::config(format!("{}: {}", section.place(key), why(&value))))
}

/// Reads a key that has no default, and checks it where it is written.
pub fn optional<T: FromValue + PartialOrd>(
    section: &mut Section,
    key: &str,
    range: &impl RangeBounds<T>,
    why: impl Fn(&T) -> String,
) -> Result<Option<T>> {
    section.get_opt(key)?.map(|value| within(section, key, value, range, why)).transpose()
}

/// What is read from a section: the struct, `read`, which reads its keys in their order, and `KEYS`, the list of them for
/// [`Section::allow_keys`] and for pages. Arguments that `read` takes beside the section stand behind the name of the struct.
/// A key has a doc comment, ends with `;` and is one of:
///
/// - `name: Type = default`: any value of the type;
/// - `name: Type = default in range`: one of a range; `=> |value| message` behind it says in other words what is wrong;
/// - `name: Type = default of [("choice", value), …]`: one of these names;
/// - `name: Option<Type> if written`: none where it is not written; `in range => |value| message` behind it as above;
/// - `name: Type = "default" in "range" by function`: read by a function of the section and of the arguments.
///
/// A default is a literal, or an expression in parentheses.
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(($($arg:ident: $arg_type:ty),*))? { $($body:tt)* }) => {
        $crate::settings!(@ [$(#[$meta])* $vis struct $name ($($($arg: $arg_type),*)?) ($($($arg)*)?)] [] $($body)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: $type:ty = $default:tt; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, $type,
            [$crate::config::Value::from($default).to_toml()] [String::new()]
            [plain $default] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: $type:ty = $default:tt in $range:literal by $by:path; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, $type,
            [String::from($default)] [String::from($range)]
            [by $by] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: $type:ty = $default:tt in $range:expr; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, $type,
            [$crate::config::Value::from($default).to_toml()] [$crate::config::describe::<$type>(&($range))]
            [inside $default, $range] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: $type:ty = $default:tt in $range:expr => $why:expr; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, $type,
            [$crate::config::Value::from($default).to_toml()] [$crate::config::describe::<$type>(&($range))]
            [within $default, $type, $range, $why] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: $type:ty = $default:tt of [$(($choice:literal, $value:expr)),+ $(,)?]; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, $type,
            [$crate::config::Value::from($default).to_toml()] [[$(concat!("\"", $choice, "\"")),+].join(", ")]
            [choose $default, [$(($choice, $value)),+]] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: Option<$type:ty> if written; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, Option<$type>, [String::new()] [String::new()]
            [written] }] $($rest)*);
    };
    (@ $head:tt [$($done:tt)*] $(#[doc = $about:literal])+ $key:ident: Option<$type:ty> if written in $range:expr => $why:expr; $($rest:tt)*) => {
        $crate::settings!(@ $head [$($done)* { [$($about)+] $key, Option<$type>,
            [String::new()] [$crate::config::describe::<$type>(&($range))]
            [optional $type, $range, $why] }] $($rest)*);
    };
    (@ [$(#[$meta:meta])* $vis:vis struct $name:ident ($($arg:ident: $arg_type:ty),*) $args:tt]
        [$({ [$($about:literal)+] $key:ident, $type:ty, [$default:expr] [$range:expr] $read:tt })*]
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $about])+ $vis $key: $type,)*
        }

        impl $name {
            /// The keys that are read, in this order.
            $vis const KEYS: &'static [$crate::config::Key] = &[$($crate::config::Key {
                name: stringify!($key),
                default: || $default,
                range: || $range,
                about: concat!($($about),+).trim_ascii(),
            }),*];

            /// Reads them.
            $vis fn read(section: &mut $crate::config::Section $(, $arg: $arg_type)*) -> $crate::Result<Self> {
                Ok($name { $($key: $crate::settings!(@read section $args $key $read),)* })
            }
        }
    };
    (@read $section:ident $args:tt $key:ident [plain $default:tt]) => {
        $section.get(stringify!($key), $default)?
    };
    (@read $section:ident ($($arg:ident)*) $key:ident [by $by:path]) => {
        $by($section $(, $arg)*)?
    };
    (@read $section:ident $args:tt $key:ident [inside $default:tt, $range:expr]) => {
        $section.get_in(stringify!($key), $default, $range)?
    };
    (@read $section:ident $args:tt $key:ident [within $default:tt, $type:ty, $range:expr, $why:expr]) => {{
        let value: $type = $section.get(stringify!($key), $default)?;
        $crate::config::within($section, stringify!($key), value, &($range), $why)?
    }};
    (@read $section:ident $args:tt $key:ident [choose $default:tt, $choices:expr]) => {
        $section.choose(stringify!($key), $default, &$choices)?
    };
    (@read $section:ident $args:tt $key:ident [written]) => {
        $section.get_opt(stringify!($key))?
    };
    (@read $section:ident $args:tt $key:ident [optional $type:ty, $range:expr, $why:expr]) => {
        $crate::config::optional::<$type>($section, stringify!($key), &($range), $why)?
    };
}
pub use settings;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::time::SECOND;
    use crate::units::Span;

    const MOST: u16 = 8;

    settings! {
        /// A key of every kind.
        #[derive(Debug, Clone, PartialEq)]
        struct Every(parity: u32) {
            /// Checks
            /// what it reads.
            check: bool = true;
            /// Slots.
            pool: u16 = 4 in 1..=MOST;
            /// Blocks.
            room: u16 = (MOST / 2) in 1..=MOST => |room| format!("room for {room}; give 1 to {MOST}");
            /// Order of packets.
            order: i32 = "random" of [("random", 1), ("reversed", 2)];
            /// Time in the pipeline.
            latency: Span = "1us" in ..=Span::from_ps(SECOND) => |latency| format!("{latency} is above 1s");
            /// A note.
            note: Option<String> if written;
            /// When a block is given up.
            timeout: Option<Span> if written in (Bound::Excluded(Span::from_ps(0)), Bound::Unbounded) => |_| "it must be above 0".into();
            /// Values of a packet.
            elements: u32 = "as the parity says" in "even or odd" by elements;
        }
    }

    fn elements(section: &mut Section, parity: u32) -> Result<u32> {
        section.get("elements", parity)
    }

    #[test]
    fn keys_say_what_is_read() {
        let mut section = Section::of("x", &[]);
        let read = Every::read(&mut section, 1).unwrap();
        let latency = "1us".parse().unwrap();
        let expected =
            Every { check: true, pool: 4, room: 4, order: 1, latency, note: None, timeout: None, elements: 1 };
        assert_eq!(read, expected);
        let names: Vec<_> = Every::KEYS.iter().map(|key| key.name).collect();
        assert_eq!(section.asked(), names);
        let texts: Vec<_> = Every::KEYS.iter().map(|key| ((key.default)(), (key.range)(), key.about)).collect();
        let text = |default: &str, range: &str, about| (default.to_owned(), range.to_owned(), about);
        assert_eq!(
            texts,
            [
                text("true", "", "Checks what it reads."),
                text("4", "1 to 8", "Slots."),
                text("4", "1 to 8", "Blocks."),
                text("\"random\"", "\"random\", \"reversed\"", "Order of packets."),
                text("\"1us\"", "up to 1s", "Time in the pipeline."),
                text("", "", "A note."),
                text("", "above 0ps", "When a block is given up."),
                text("as the parity says", "even or odd", "Values of a packet."),
            ]
        );
    }

    #[test]
    fn values_out_of_range_are_named() {
        let message =
            |key, value: Value| Every::read(&mut Section::of("x", &[(key, value)]), 1).unwrap_err().to_string();
        assert_eq!(message("pool", 9.into()), "x.pool: 9 is not from 1 to 8");
        assert_eq!(message("room", 9.into()), "x.room: room for 9; give 1 to 8");
        assert_eq!(message("latency", "2s".into()), "x.latency: 2s is above 1s");
        assert_eq!(message("timeout", "0s".into()), "x.timeout: it must be above 0");
        assert_eq!(message("order", "none".into()), "x.order: \"none\" is not known; there are: random, reversed");
        let mut section = Section::of("x", &[("note", "a".into()), ("timeout", "1ms".into()), ("pool", 8.into())]);
        let read = Every::read(&mut section, 2).unwrap();
        assert_eq!((read.note.as_deref(), read.timeout.map(Span::ps), read.pool), (Some("a"), Some(SECOND / 1000), 8));
    }

    #[test]
    fn ranges_are_words() {
        assert_eq!(describe::<u8>(&(..)), "");
        assert_eq!(describe(&(2..)), "2 or more");
        assert_eq!(describe(&(..2)), "below 2");
        assert_eq!(describe(&(1..2)), "1 to below 2");
        assert_eq!(describe(&(Bound::Excluded(0.5), Bound::Included(1.0))), "above 0.5 to 1");
        assert_eq!(describe(&(Bound::Excluded(0.5), Bound::Excluded(1.0))), "above 0.5 to below 1");
    }
}
