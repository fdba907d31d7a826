//! Interface names that a process reserves for launched devices: two processes with the same names would remove each other's interfaces.
//!
//! A name is reserved by a socket of the network namespace, to which the interface belongs as well, until the process
//! ends: a sweep makes its interfaces anew for every run.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};

use super::kernel::peer_pid;

/// Names reserved by this process.
static HELD: Mutex<Vec<(String, UnixListener)>> = Mutex::new(Vec::new());

/// Reserves a name for this process; an error contains the process that holds it, if the kernel names it.
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
        // Without the lock, the kernel still refuses the name if the interface exists.
        Err(_) => {}
    }
    Ok(())
}
