//! Settings as tables of keys: [`settings!`] generates the struct, its reader, and the list of keys for docs and messages from one table.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

use super::section::{FromValue, Section};
use super::value::Value;
use crate::time::Time;
use crate::units::Span;
use crate::{Error, Result};

/// The range above `least`, without it.
pub const fn above<T>(least: T) -> (Bound<T>, Bound<T>) {
    (Bound::Excluded(least), Bound::Unbounded)
}

/// The range above `least`, without it, up to and including `most`.
pub const fn above_to<T>(least: T, most: T) -> (Bound<T>, Bound<T>) {
    (Bound::Excluded(least), Bound::Included(most))
}

/// Converts a range of times to the same range of spans.
pub fn spans(range: impl RangeBounds<Time>) -> (Bound<Span>, Bound<Span>) {
    let span = |time: &Time| Span::from_ps(*time);
    (range.start_bound().map(span), range.end_bound().map(span))
}

/// The longest number without an exponent.
const DIGITS_MAX: usize = "-9223372036854775808".len();

/// Returns a value as it may be written: longer numbers with an exponent.
fn said<T: Display + ?Sized>(value: &T) -> String {
    let text = value.to_string();
    match text.parse::<f64>() {
        Ok(number) if text.len() > DIGITS_MAX => format!("{number:e}"),
        _ => text,
    }
}

/// Returns a range in words, for messages and docs.
pub fn words<T: Display>(range: &impl RangeBounds<T>) -> String {
    let least = match range.start_bound() {
        Bound::Included(least) => Some((said(least), false)),
        Bound::Excluded(least) => Some((said(least), true)),
        Bound::Unbounded => None,
    };
    let most = match range.end_bound() {
        Bound::Included(most) => Some(format!("at most {}", said(most))),
        Bound::Excluded(most) => Some(format!("below {}", said(most))),
        Bound::Unbounded => None,
    };
    match (least, range.end_bound(), most) {
        (Some((least, false)), Bound::Included(most), _) => format!("{least} to {}", said(most)),
        (Some((least, false)), _, None) => format!("{least} or more"),
        (Some((least, true)), _, None) => format!("above {least}"),
        (Some((least, false)), _, Some(most)) => format!("at least {least} and {most}"),
        (Some((least, true)), _, Some(most)) => format!("above {least} and {most}"),
        (None, _, most) => most.unwrap_or_default(),
    }
}

/// Returns a default as TOML.
pub fn written<T: Into<Value>>(value: T) -> String {
    value.into().to_toml()
}

impl Section {
    /// Refuses values of `key` outside `range`; `why`, unless empty, is appended to the message.
    pub fn within<'a, T: Display + PartialOrd + 'a>(
        &self,
        key: &str,
        values: impl IntoIterator<Item = &'a T>,
        range: &impl RangeBounds<T>,
        why: &str,
    ) -> Result<()> {
        match values.into_iter().find(|value| !range.contains(value)) {
            Some(value) => Err(self.beyond(key, value, range, why)),
            None => Ok(()),
        }
    }

    /// The refusal of a value of `key` outside `range`.
    pub(super) fn beyond<T: Display>(
        &self,
        key: &str,
        value: &dyn Display,
        range: &impl RangeBounds<T>,
        why: &str,
    ) -> Error {
        let (place, value, gap) = (self.place(key), said(value), if why.is_empty() { "" } else { "; " });
        let wrong = match (range.start_bound(), range.end_bound()) {
            (Bound::Unbounded, Bound::Included(most)) => format!("above {}", said(most)),
            (Bound::Included(_), Bound::Included(_)) => format!("not from {}", words(range)),
            _ => format!("not {}", words(range)),
        };
        Error::config(format!("{place}: {value} is {wrong}{gap}{why}"))
    }

    /// Returns the factor `value` of `key`, at most [`f32::MAX`], as a 32-bit float; refuses those that become 0 or lose digits.
    pub fn factor(&self, key: &str, value: f64) -> Result<f32> {
        let factor = value as f32;
        match factor.is_normal() {
            true => Ok(factor),
            false => Err(Error::config(format!(
                "{}: {value:e} is no normal number of 32 bits, which are {:e} or more; raise it",
                self.place(key),
                f32::MIN_POSITIVE
            ))),
        }
    }
}

/// Returns the expected form of this type, or of a list of it.
pub fn takes<T: FromValue>(list: bool) -> String {
    if list { format!("a list, each {}", T::takes()) } else { T::takes() }
}

/// The keys that a component reads from a section of an experiment file, in the order of reading. Each ends with `;`
/// and has one of these forms:
///
/// - `key: Type = default`: read with [`FromValue`], or the default if it is not written;
/// - `key: Option<Type>`: `None` if it is not written;
/// - `key: Vec<Type> = ["a", "b"]`: a list;
/// - `key: Type = "name" of [("name", value, "explanation"), …]`: one of these by name ([`Choice`]), or an
///   `Option<Type>`.
///
/// `in range, "why"` may follow: values must be in the range ([`above`], [`spans`]), and the message ends with `why`, which is optional.
/// `said "words"` after the default replaces it in docs. The key's `#[doc]` is its description in docs.
///
/// `struct Name { … }` generates the struct, `Name::read(section)` and `Name::KEYS`; with `struct Name(more: Type) { … }` defaults may
/// depend on further arguments of `read`, and must be `said`. `keys Name { … }` generates one function per key, named after it, for keys
/// that are not always read; with `key: Type said "words"` the default is its second argument.
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $table:ident $(($($more:ident: $given:ty),+))? { $(
        $(#[doc = $about:literal])+
        $key:ident: $outer:ident $(<$inner:ident>)? $(= $default:tt)? $(said $words:literal)? $(of $choices:tt)?
            $(in $range:expr $(, $why:literal)?)?;
    )+ }) => {
        $(#[$meta])*
        $vis struct $table {
            $($(#[doc = $about])+ pub $key: $outer $(<$inner>)?,)+
        }

        impl $table {
            /// All keys that are read.
            $vis const KEYS: &'static [$crate::config::Key] = &[$($crate::settings!(@key [$($about)+] $key
                [$outer $(<$inner>)?] [$(= $default)?] [$(said $words)?] [$(of $choices)?] [$(in $range)?])),+];

            /// Reads them.
            #[allow(unused_parens)]
            $vis fn read(section: &mut $crate::config::Section $($(, $more: $given)+)?) -> $crate::Result<Self> {
                Ok($table { $($key: {
                    let read = $crate::settings!(@read section $key [$outer $(<$inner>)?] [$(= $default)?] [$(of $choices)?]);
                    let value = $crate::settings!(@ranged section $key read [$outer $(<$inner>)?]
                        [$(in $range, concat!($($why)?))?])?;
                    $($crate::settings!(@within section $key value [$outer] $range, concat!($($why)?));)?
                    value
                },)+ })
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis keys $table:ident { $(
        $(#[doc = $about:literal])+
        $key:ident: $outer:ident $(<$inner:ident>)? $(= $default:tt)? $(said $words:literal)? $(of $choices:tt)?
            $(in $range:expr $(, $why:literal)?)?;
    )+ }) => {
        $(#[$meta])*
        $vis struct $table;

        #[allow(unused_parens)]
        impl $table {
            /// All keys that are read.
            $vis const KEYS: &'static [$crate::config::Key] = &[$($crate::settings!(@key [$($about)+] $key
                [$outer $(<$inner>)?] [$(= $default)?] [$(said $words)?] [$(of $choices)?] [$(in $range)?])),+];

            $($crate::settings!(@function [$vis] [$(#[doc = $about])+] $key [$outer $(<$inner>)?] [$(= $default)?] [$(of $choices)?]
                [$(in $range, concat!($($why)?))?]);)+
        }
    };
    (@function [$vis:vis] [$($doc:tt)+] $key:ident [Option<$type:ident>] [] [] $range:tt) => {
        $($doc)+
        #[allow(dead_code)]
        $vis fn $key(section: &mut $crate::config::Section) -> $crate::Result<Option<$type>> {
            let value = section.get_opt::<$type>(stringify!($key))?;
            $crate::settings!(@checked section $key value [Option] $range)
        }
    };
    (@function [$vis:vis] [$($doc:tt)+] $key:ident [$type:ident] [] [] $range:tt) => {
        $($doc)+
        #[allow(dead_code)]
        $vis fn $key(section: &mut $crate::config::Section, default: impl Into<$crate::config::Value>) -> $crate::Result<$type> {
            let read = section.get::<$type>(stringify!($key), default);
            let value = $crate::settings!(@ranged section $key read [$type] $range)?;
            $crate::settings!(@checked section $key value [$type] $range)
        }
    };
    (@function [$vis:vis] [$($doc:tt)+] $key:ident [$outer:ident $(<$inner:ident>)?] $default:tt $choices:tt $range:tt) => {
        $($doc)+
        #[allow(dead_code)]
        $vis fn $key(section: &mut $crate::config::Section) -> $crate::Result<$outer $(<$inner>)?> {
            let read = $crate::settings!(@read section $key [$outer $(<$inner>)?] $default $choices);
            let value = $crate::settings!(@ranged section $key read [$outer $(<$inner>)?] $range)?;
            $crate::settings!(@checked section $key value [$outer] $range)
        }
    };
    (@checked $section:ident $key:ident $value:ident $type:tt []) => {
        Ok($value)
    };
    (@checked $section:ident $key:ident $value:ident $type:tt [in $range:expr, $why:expr]) => {{
        $crate::settings!(@within $section $key $value $type $range, $why);
        Ok($value)
    }};
    (@ranged $section:ident $key:ident $read:ident $type:tt []) => {
        $read
    };
    (@ranged $section:ident $key:ident $read:ident [$outer:ident $(<$inner:ident>)?] [in $range:expr, $why:expr]) => {
        $section.or_beyond::<$crate::settings!(@base $outer $($inner)?), _>(stringify!($key), $read, &$range, $why)
    };
    (@base $outer:ident $inner:ident) => {
        $inner
    };
    (@base $type:ident) => {
        $type
    };
    (@read $section:ident $key:ident [Option<$type:ident>] [] []) => {
        $section.get_opt::<$type>(stringify!($key))
    };
    (@read $section:ident $key:ident [Option<$type:ident>] [] [of $choices:tt]) => {
        match $section.get_opt::<String>(stringify!($key))? {
            Some(name) => $section.choose::<$type>(stringify!($key), &name, &$choices).map(Some),
            None => Ok(None),
        }
    };
    (@read $section:ident $key:ident [Vec<$type:ident>] [= $default:tt] []) => {
        $section.get_list::<$type>(stringify!($key), &$default)
    };
    (@read $section:ident $key:ident [$type:ident] [= $default:tt] []) => {
        $section.get::<$type>(stringify!($key), $default)
    };
    (@read $section:ident $key:ident [$type:ident] [= $default:tt] [of $choices:tt]) => {
        $section.choose::<$type>(stringify!($key), $default, &$choices)
    };
    (@within $section:ident $key:ident $value:ident [Option] $range:expr, $why:expr) => {
        $section.within(stringify!($key), &$value, &$range, $why)?
    };
    (@within $section:ident $key:ident $value:ident [Vec] $range:expr, $why:expr) => {
        $section.within(stringify!($key), &$value, &$range, $why)?
    };
    (@within $section:ident $key:ident $value:ident [$type:ident] $range:expr, $why:expr) => {
        $section.within(stringify!($key), [&$value], &$range, $why)?
    };
    (@key [$($about:literal)+] $key:ident $type:tt $default:tt $said:tt $choices:tt $range:tt) => {
        $crate::config::Key::new(stringify!($key), concat!($($about),+), $crate::settings!(@default $type $default $said),
            $crate::settings!(@range $type $choices $range))
    };
    (@default $type:tt $default:tt [said $words:literal]) => {
        || $words.to_owned()
    };
    (@default [Option<$type:ident>] [] []) => {
        || "none".to_owned()
    };
    (@default [Vec<$type:ident>] [= $default:tt] []) => {
        || $crate::config::written::<&[&str]>(&$default)
    };
    (@default [$type:ident] [= $default:tt] []) => {
        || { #[allow(unused_parens)] $crate::config::written($default) }
    };
    (@range $type:tt [of $choices:tt] []) => {
        || $crate::config::names(&$choices)
    };
    (@range [Vec<$type:ident>] [] [in $range:expr]) => {
        || format!("a list, each {}", $crate::config::words(&$range))
    };
    (@range $type:tt [] [in $range:expr]) => {
        || $crate::config::words(&$range)
    };
    (@range [Option<$type:ident>] [] []) => {
        || $crate::config::takes::<$type>(false)
    };
    (@range [Vec<$type:ident>] [] []) => {
        || $crate::config::takes::<$type>(true)
    };
    (@range [$type:ident] [] []) => {
        || $crate::config::takes::<$type>(false)
    };
}
pub use settings;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;
    use crate::units::Rate;

    const MOST: u16 = 8192;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Way {
        Up,
        Down,
    }

    settings! {
        /// One of every kind.
        #[derive(Debug, PartialEq)]
        struct Every(workers: u32) {
            /// Slots of a set.
            pool: u16 = 512 in 1..=MOST, "registers hold no more";
            /// Of two
            /// lines.
            latency: Span = "1us" in spans(..=SECOND);
            /// Until.
            until: Option<Span> in above(Span::from_ps(0));
            /// Rates.
            rates: Vec<Rate> = ["1Gbps", "2Gbps"];
            /// Where to.
            way: Way = "up" of [("up", Way::Up, "towards the server"), ("down", Way::Down, "")];
            /// Updates that make a step.
            batch: u32 = (workers * 2) said "twice as many as workers";
            /// Share.
            share: f64 = 0.5 in above_to(0.0, 1.0);
            /// Bits.
            bits: u32 = (1 << 17);
            /// Checks.
            check: bool = true;
        }
    }

    settings! {
        /// Read one by one.
        keys Single {
            /// How often.
            times: u32 = 3 in 1..=9;
            /// Whose.
            name: Option<String>;
            /// As many as others have.
            slots: u32 said "as others" in 1..=9;
            /// Each of them.
            factors: Vec<f64> = [] in above(0.0);
        }
    }

    #[test]
    fn a_table_reads_what_it_lists() {
        let mut section = Section::of("x", &[("way", "down".into()), ("until", "2s".into())]);
        let read = Every::read(&mut section, 4).unwrap();
        let wanted = Every {
            pool: 512,
            latency: Span::from_ps(1_000_000),
            until: Some(Span::from_ps(2 * SECOND)),
            rates: vec![Rate::from_bps(1_000_000_000), Rate::from_bps(2_000_000_000)],
            way: Way::Down,
            batch: 8,
            share: 0.5,
            bits: 1 << 17,
            check: true,
        };
        assert_eq!(read, wanted);
        let names: Vec<_> = Every::KEYS.iter().map(|key| key.name).collect();
        assert_eq!(section.asked(), names);
        assert_eq!((Single::times(&mut section).unwrap(), Single::name(&mut section).unwrap()), (3, None));
        assert_eq!(section.asked()[names.len()..], ["times", "name"]);
        assert!(Single::slots(&mut section, 9u32).is_ok_and(|slots| slots == 9));
    }

    #[test]
    fn keys_say_what_a_user_may_write() {
        let said: Vec<_> = Every::KEYS.iter().chain(Single::KEYS).map(|key| (key.default(), key.range())).collect();
        let wanted = [
            ("512", "1 to 8192"),
            ("\"1us\"", "at most 1s"),
            ("none", "above 0ps"),
            ("[\"1Gbps\", \"2Gbps\"]", "a list, each a rate"),
            ("\"up\"", "up (towards the server), down"),
            ("twice as many as workers", "a whole number from 0 to 4294967295"),
            ("0.5", "above 0 and at most 1"),
            ("131072", "a whole number from 0 to 4294967295"),
            ("true", "true or false"),
            ("3", "1 to 9"),
            ("none", "a text"),
            ("as others", "1 to 9"),
            ("[]", "a list, each above 0"),
        ];
        assert_eq!(said, wanted.map(|(default, range)| (default.to_owned(), range.to_owned())));
        assert_eq!(Every::KEYS[1].about, "Of two lines.");
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let message = |key: &str, value: Value| {
            let mut section = Section::of("x", &[(key, value)]);
            let read = Every::read(&mut section, 4).map(drop).and(Single::times(&mut section).map(drop));
            read.unwrap_err().to_string()
        };
        assert_eq!(message("pool", 0.into()), "x.pool: 0 is not from 1 to 8192; registers hold no more");
        assert_eq!(message("latency", "2s".into()), "x.latency: 2s is above 1s");
        assert_eq!(message("until", "0s".into()), "x.until: 0ps is not above 0ps");
        assert_eq!(message("share", 0.0.into()), "x.share: 0 is not above 0 and at most 1");
        assert_eq!(message("times", 10.into()), "x.times: 10 is not from 1 to 9");
        let way = "x.way: \"dawn\" is not known, did you mean \"down\"?; there are: up (towards the server), down";
        assert_eq!(message("way", "dawn".into()), way);
        assert_eq!(words(&(1..)), "1 or more");
        // A whole number of so many digits could not be written.
        assert_eq!(words(&(-1e30..=1e30)), "-1e30 to 1e30");
        assert_eq!(words(&(i64::MIN..=i64::MAX)), "-9223372036854775808 to 9223372036854775807");
        assert_eq!(u64::takes(), "a whole number from 0 to 9223372036854775807");
        assert_eq!(message("share", (-f64::from_bits(1)).into()), "x.share: -5e-324 is not above 0 and at most 1");
        assert_eq!((words(&(..=3)), words(&(0..3))), ("at most 3".into(), "at least 0 and below 3".into()));
    }
}
