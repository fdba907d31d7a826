//! The one error type of the library crates.
//!
//! A message names what was attempted, on what, the value, the permitted range, and the key or flag to change. The
//! variant decides the exit code of the binary.

use std::path::{Path, PathBuf};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors, by who can correct them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An impossible request of the user: change the named key or flag (exit code 2).
    #[error("{0}")]
    Config(String),
    /// A file or folder could not be read or written (exit code 1; 2 if a file to read is missing or may not be read).
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted, as a verb: "read", "create".
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The content of a file is invalid (exit code 2).
    #[error("{path}: {what}", path = path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        what: String,
    },
    /// The run ended regularly but is not valid (exit code 1).
    #[error("{0}")]
    Invalid(String),
    /// This host lacks a capability; the message names the remedy (exit code 3).
    #[error("{0}")]
    Host(String),
}

impl Error {
    /// A configuration error.
    pub fn config(message: impl Into<String>) -> Self {
        Error::Config(message.into())
    }

    /// An error about the content of `path`; an I/O error if `what` contains the text of a system error, as decoders report it.
    pub fn data(path: &Path, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        match what.contains(" (os error ") {
            true if path.is_dir() => Error::Data { path, what: "it is a folder, and a file is asked for".to_owned() },
            true => Error::Io { action: "process", path, source: std::io::Error::other(what) },
            false => Error::Data { path, what },
        }
    }

    /// Wraps an I/O error with the action and the path; for use with `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }

    /// Returns the exit code of the binary for this error: design §6.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Config(_) | Error::Data { .. } => 2,
            Error::Io { action, source, .. } if is_named_wrongly(action, source) => 2,
            Error::Io { .. } | Error::Invalid(_) => 1,
            Error::Host(_) => 3,
        }
    }
}

/// Returns whether the error is due to the path: another one might be readable.
fn is_named_wrongly(action: &str, source: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    (action.starts_with("read") || action.starts_with("open"))
        && matches!(source.kind(), NotFound | IsADirectory | NotADirectory | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_wrongly() {
        let code = |action, kind: std::io::ErrorKind| Error::io(action, Path::new("x"))(kind.into()).exit_code();
        assert_eq!(code("read", std::io::ErrorKind::NotFound), 2);
        assert_eq!(code("open trace", std::io::ErrorKind::IsADirectory), 2);
        assert_eq!(code("read", std::io::ErrorKind::Interrupted), 1);
        assert_eq!(code("create", std::io::ErrorKind::PermissionDenied), 1);
    }

    #[test]
    fn what_the_system_refused_is_no_fault_of_the_content() {
        let path = Path::new("sent.parquet");
        let refused = std::io::Error::from_raw_os_error(24);
        let error = Error::data(path, format!("Parquet argument error: External: {refused}"));
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().starts_with("cannot process sent.parquet: Parquet"), "{error}");
        assert_eq!(Error::data(path, "its footer is damaged").exit_code(), 2);
        let folder = Error::data(&std::env::temp_dir(), "External: Is a directory (os error 21)");
        assert!(folder.exit_code() == 2 && folder.to_string().ends_with("it is a folder, and a file is asked for"));
    }
}
