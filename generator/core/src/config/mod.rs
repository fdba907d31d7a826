//! Experiment files: reading, layering, and keys that are checked as they are used.
//!
//! [`Document`] is the merged tree of file, environment and flags; every value remembers where it
//! came from. A [`Section`] hands values out with their defaults, and closing it refuses keys that
//! no code reads, with the nearest key that exists. So each extension reads its own keys and the
//! list of valid keys is always the list of keys that are read. [`settings!`] writes such a reader from a list of keys.

mod document;
mod key;
mod section;
mod setting;
mod sweep;
mod value;

pub use document::{Document, Origin, SECTIONS, UNNAMED, Unused};
pub use key::{Choice, Key, KeyTables, choices, names, names_of};
pub use section::{FromValue, Section};
pub use setting::{above, above_to, settings, spans, takes, words, written};
pub use sweep::{Run, Sweep, is_of_whole_sweep, with_variants};
pub use value::{Entry, Table, Value};
