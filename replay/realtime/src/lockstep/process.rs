//! The process of the device: started with the path of a socket, or by hand; ended with the run.
#![expect(unsafe_code, reason = "asks the kernel to end the device with the run")]

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use pktgen_core::time::NS;
use pktgen_core::{Error, Result};
use tempfile::TempDir;

use super::Lockstep;
use crate::clock::Stopwatch;
use crate::driver::real_time::drop_privileges;
use crate::socket;

/// Environment variable with the path of the device's socket.
const VARIABLE: &str = "PKTGEN_LOCKSTEP";
/// Interval of checks whether the device has connected, or has ended.
const LOOK: Duration = Duration::from_millis(1);

/// A connected device.
pub(super) struct Process {
    /// Its name in messages.
    pub(super) name: String,
    /// Its connection.
    pub(super) stream: UnixStream,
    /// Timeout for an answer.
    pub(super) timeout: Duration,
    child: Option<Running>,
}

/// A child process that is ended with its run.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // With what a wrapper started. Not once it was waited for: then the number may be another group's.
        if let Ok(None) = self.0.try_wait() {
            // SAFETY: takes numbers only; the group is that of our child, which is not yet waited for.
            unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A socket whose path is removed on drop, together with its folder if that was made for it.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl Socket {
    /// Opens a socket at the path that the user chose, or at a new one that only this user can reach.
    fn of(chosen: Option<&String>) -> Result<Socket> {
        if let Some(path) = chosen {
            return Socket::at(path.into(), None);
        }
        // Never a name that a killed run may have left.
        let folder = tempfile::Builder::new()
            .prefix("pktgen-lockstep-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
        Socket::at(folder.path().join("socket"), Some(folder))
    }

    fn at(path: PathBuf, folder: Option<TempDir>) -> Result<Socket> {
        let listener = socket::listen(&path).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Error::config(format!(
                "target.lockstep.socket {}: it is there already; choose another, or remove it if no run uses it",
                path.display()
            )),
            _ => Error::Host(format!("target.lockstep.socket {}: it cannot be bound: {e}", path.display())),
        })?;
        Ok(Socket { listener, path, _folder: folder })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Process {
    /// Starts the device, if configured, and waits until it has connected.
    pub(super) fn start(lockstep: &Lockstep) -> Result<Process> {
        let timeout = Duration::from_nanos((lockstep.timeout.ps() / NS).max(1) as u64);
        let socket = Socket::of(lockstep.socket.as_ref())?;
        socket.listener.set_nonblocking(true).map_err(Error::io("listen at", &socket.path))?;
        let mut child = match &lockstep.command[..] {
            [] => None,
            words => Some(Running(spawn(words, &socket.path)?)),
        };
        let name = lockstep.command.first().map_or("the device", String::as_str).to_owned();
        let stream = accept(&socket.listener, &name, &mut child, timeout)?;
        Ok(Process { name, stream, timeout, child })
    }

    /// Returns how the device ended, if it does within its timeout.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let (child, since) = (self.child.as_mut()?, Stopwatch::start());
        loop {
            match child.0.try_wait() {
                Ok(None) if since.elapsed() < self.timeout => std::thread::sleep(LOOK),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }

    /// Returns whether it is a child of this process.
    pub(super) fn is_own(&self) -> bool {
        self.child.is_some()
    }
}

/// Starts the command. The device ends with the thread that runs the experiment, however that ends, and has none of our privileges.
fn spawn(words: &[String], socket: &Path) -> Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(VARIABLE, socket).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let end_with_us = || {
        drop_privileges(&[])?;
        // SAFETY: takes numbers only; concerns the child, between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: only system calls that are allowed between fork and exec; nothing is allocated.
    unsafe { command.pre_exec(end_with_us) };
    command.spawn().map_err(|e| {
        Error::Host(format!(
            "target.lockstep.command: {} cannot be started: {e}; give a path, or a program of PATH",
            words[0]
        ))
    })
}

/// Waits for the device's connection.
fn accept(listener: &UnixListener, name: &str, child: &mut Option<Running>, timeout: Duration) -> Result<UnixStream> {
    let since = Stopwatch::start();
    let refused = |e: io::Error| Error::Host(format!("target.lockstep: the connection of {name} failed: {e}"));
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(refused)?;
                stream.set_read_timeout(Some(timeout)).map_err(refused)?;
                stream.set_write_timeout(Some(timeout)).map_err(refused)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(refused(e)),
        }
        if let Some(Ok(Some(status))) = child.as_mut().map(|child| child.0.try_wait()) {
            return Err(Error::Host(format!(
                "target.lockstep: {name} ended before it connected ({status}); it has to connect to the socket whose path is in \
                 {VARIABLE}"
            )));
        }
        if since.elapsed() >= timeout {
            return Err(Error::Host(format!(
                "target.lockstep: {name} did not connect within {timeout:?}; it has to connect to the socket whose path is in \
                 {VARIABLE} (target.lockstep.timeout)"
            )));
        }
        std::thread::sleep(LOOK);
    }
}
