//! The XDP program that redirects frames of an interface to AF_XDP sockets, by queue.

use super::bpf::{Attach, BpfLink, BpfProgram, Map, host_error};
use super::insn::{CTX_RX_QUEUE, Code, R1, R2, R3, REDIRECT_MAP, XDP_PASS};
use super::link::Interface;
use pktgen_core::{Error, Result};
use std::io;
use std::os::fd::RawFd;

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
        let link = program.attach(interface.index(), attach).map_err(|e| {
            let name = interface.name();
            let what = format!("attach an XDP program to {name} ({attach:?})");
            match e.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => Error::Host(format!(
                    "this host cannot {what}: another program is attached; ip link set dev {name} xdp off"
                )),
                Some(libc::EOPNOTSUPP) => Error::Host(format!(
                    "this host cannot {what}: its driver has no XDP; attach = \"generic\" works everywhere"
                )),
                _ => host_error(&what, &e),
            }
        })?;
        Ok(Redirect { _link: link, _program: program, sockets })
    }

    /// Redirects frames of `queue` to this socket from now on, until it is closed.
    pub fn add(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.sockets.set(queue, socket as u32)
    }
}
