//! Errors with their place in a statement.

use pktgen_core::Error;
use sqlparser::tokenizer::Location;

/// Returns an error about what stands at `place`.
pub(crate) fn at(place: Location, what: impl std::fmt::Display) -> Error {
    Error::config(format!("SQL, line {}, column {}: {what}", place.line, place.column))
}
