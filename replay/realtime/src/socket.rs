//! Listening sockets with a path: the path exists only once connecting succeeds, and never replaces an existing one.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens at `path`, for this user only; an error of kind `AlreadyExists` if the path exists.
///
/// Between binding and listening a socket refuses connections, and before its mode is set it is open to all: it gets its name after both.
///
/// # Errors
/// Those of the file system, and of paths that are too long for a socket.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let nest = path.with_file_name(format!(".{name}.{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&nest)?;
    let inside = nest.join("s");
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, Permissions::from_mode(0o600))?;
        // Not by renaming, which would replace an existing file.
        fs::hard_link(&inside, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&inside);
    let _ = fs::remove_dir(&nest);
    bound
}
