//! Refusal of input that may have no end: named pipes, sockets and devices are refused before they are read.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::{Error, Result};

/// Refuses a path that exists and is not a file or a folder. Missing paths are left to the caller that opens them.
pub fn check_regular(path: &Path) -> Result<()> {
    let Ok(kind) = path.metadata().map(|about| about.file_type()) else { return Ok(()) };
    let what = if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        return Ok(());
    };
    Err(Error::data(path, format!("it is {what}, not a regular file; copy what it gives into a file, and name that")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_refused_and_files_are_not() {
        let message = check_regular(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(message.exit_code(), 2);
        assert!(message.to_string().starts_with("/dev/zero: it is a device, not a regular file"), "{message}");
        let folder = tempfile::tempdir().unwrap();
        assert!(check_regular(folder.path()).is_ok());
        assert!(check_regular(&folder.path().join("none")).is_ok());
    }
}
