//! The XDP program that redirects frames of an interface to AF_XDP sockets, by queue.

use super::bpf::{Attach, BpfLink, BpfProgram, Map, host_error};
use super::insn::{CTX_RX_QUEUE, Code, R1, R2, R3, REDIRECT_MAP, XDP_PASS};
use super::link::Interface;
use super::safety;
use pktgen_core::{Error, Result};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// The redirecting program of an interface; detached when the last port drops it.
#[derive(Debug)]
pub(crate) struct Redirect {
    _link: BpfLink,
    _program: BpfProgram,
    sockets: Map,
}

impl Redirect {
    /// Loads and attaches it, for queues below `queues`.
    pub fn attach(interface: &Interface, attach: Attach, queues: u32) -> Result<Self> {
        let sockets = Map::of_sockets(queues)?;
        // Frames of queues without a socket pass to the network stack, by the last argument.
        let mut code = Code::new();
        code.load_u32(R2, R1, CTX_RX_QUEUE);
        code.load_map(R1, sockets.fd());
        code.set(R3, XDP_PASS);
        code.call(REDIRECT_MAP);
        code.exit();
        let program = BpfProgram::load("pktgen_redirect", code.insns(), true)?;
        let attached = program.attach(interface.index(), attach);
        let link = attached.map_err(|e| refusal(Path::new("/"), interface.name(), attach, &e))?;
        Ok(Redirect { _link: link, _program: program, sockets })
    }

    /// Redirects frames of `queue` to this socket from now on, until it is closed.
    pub fn add(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.sockets.set(queue, socket as u32)
    }
}

/// Returns why the program cannot be attached to interface `name` of the host with this root, and the remedy.
fn refusal(root: &Path, name: &str, attach: Attach, error: &io::Error) -> Error {
    let what = format!("attach an XDP program to {name} ({attach:?})");
    let (why, remedy) = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            ("another program is attached".to_owned(), format!("ip link set dev {name} xdp off"))
        }
        Some(libc::EOPNOTSUPP) => (
            "its driver has no XDP".to_owned(),
            "use af_packet: transport.kind = \"af_packet\", or --kind af_packet of pktgen capture".to_owned(),
        ),
        // Of the kernel's drivers, veth refuses it so.
        Some(libc::ENOSPC) => safety::too_few_queues(root, name),
        _ => return host_error(&what, error),
    };
    Error::Host(format!("this host cannot {what}: {why}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_a_remedy() {
        let root = tempfile::tempdir().unwrap();
        let said = |code| {
            let error = refusal(root.path(), "w0", Attach::Driver, &io::Error::from_raw_os_error(code));
            assert_eq!(error.exit_code(), 3);
            error.to_string()
        };
        assert!(said(libc::EBUSY).ends_with("another program is attached; ip link set dev w0 xdp off"));
        let none = said(libc::EOPNOTSUPP);
        assert!(none.contains("no XDP; use af_packet: transport.kind = \"af_packet\", or --kind"), "{none}");
        let full = said(libc::ENOSPC);
        assert!(full.contains("fewer receive queues") && full.contains("ethtool -L w0 rx N"), "{full}");
    }
}
