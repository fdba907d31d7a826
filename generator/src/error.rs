//! The one error type of the library crates.
//!
//! A message says what was attempted, on what, the value, the allowed range, and the key or flag to
//! change. The class decides the exit code of the binary.

use std::path::{Path, PathBuf};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, by who can mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user asked for something that cannot be: change the named key or flag (exit code 2).
    #[error("{0}")]
    Config(String),
    /// A file or folder could not be read or written (exit code 1).
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted, as a verb: "read", "create".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file was read but its content is not what it should be (exit code 2).
    #[error("{path}: {what}", path = path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        what: String,
    },
    /// The run went on to its end but is not valid (exit code 1).
    #[error("{0}")]
    Invalid(String),
    /// This host cannot do it; the message names the remedy (exit code 3).
    #[error("{0}")]
    Host(String),
}

impl Error {
    /// A configuration error.
    pub fn config(message: impl Into<String>) -> Self {
        Error::Config(message.into())
    }

    /// An error about the content of `path`.
    pub fn data(path: &Path, what: impl Into<String>) -> Self {
        Error::Data { path: path.to_owned(), what: what.into() }
    }

    /// Wraps an I/O error with the action and the path; for use with `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }

    /// Exit code of the binary for this error: design §6.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Config(_) | Error::Data { .. } => 2,
            Error::Io { .. } | Error::Invalid(_) => 1,
            Error::Host(_) => 3,
        }
    }
}
