//! Names of interfaces that a process has taken for launched devices: of two processes with the same names each would take away what the
//! other made.
//!
//! A name is held by a socket of the network namespace, as the interface is, and until the process ends: a sweep makes its
//! interfaces anew for every run.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};

use super::kernel::peer_pid;

/// What this process holds.
static HELD: Mutex<Vec<(String, UnixListener)>> = Mutex::new(Vec::new());

/// Takes a name for this process; else the process that has it, if the kernel names it.
pub(super) fn hold(interface: &str) -> Result<(), Option<i32>> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.iter().any(|(name, _)| name == interface) {
        return Ok(());
    }
    let Ok(address) = SocketAddr::from_abstract_name(format!("pktgen-interface-{interface}")) else { return Ok(()) };
    match UnixListener::bind_addr(&address) {
        Ok(listener) => held.push((interface.to_owned(), listener)),
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            return Err(UnixStream::connect_addr(&address).ok().and_then(|stream| peer_pid(&stream)));
        }
        // Without the lock the kernel refuses the name all the same, where the interface exists.
        Err(_) => {}
    }
    Ok(())
}
