//! Opening packet sockets: the calls that `af_packet` makes once, and their error messages.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::receive_batch::ReceiveBatch;
use super::stamps::Stamps;
use super::{Fanout, SETCAP, safety, socket};
use pktgen_core::{Error, Result};

/// PACKET_FANOUT_FLAG_IGNORE_OUTGOING.
const IGNORE_OUTGOING: u32 = 0x4000;

/// Facts about an interface.
pub struct InterfaceFacts {
    /// Its number.
    pub index: i32,
    /// Largest packet, without the Ethernet header.
    pub mtu: usize,
}

/// A packet socket that receives nothing until it is bound.
pub fn socket(interface: &str) -> Result<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd >= 0 {
        // SAFETY: the descriptor is new and nobody else's.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            Error::Host(format!("this host cannot: af_packet on {interface} needs CAP_NET_RAW; {SETCAP}"))
        }
        Some(libc::EAFNOSUPPORT) => Error::Host(format!(
            "this host cannot: its kernel has no packet sockets (CONFIG_PACKET), which af_packet on {interface} needs"
        )),
        _ => Error::io("open a packet socket for", Path::new(interface))(error),
    })
}

/// Looks up the interface, and refuses one that cannot carry Ethernet frames now.
pub fn examine(socket: &OwnedFd, interface: &str) -> Result<InterfaceFacts> {
    let missing = || {
        Error::Host(format!(
            "there is no interface {interface} in this network namespace; `ip -br link` lists those there are"
        ))
    };
    let name = CString::new(interface).map_err(|_| missing())?;
    // SAFETY: the name ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(missing());
    }
    // SAFETY: a C struct of bytes, integers and pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    let mut ask = |what: libc::c_ulong| {
        // SAFETY: these requests read the name, which ends with a zero, as the kernel's limit for names leaves room for
        // it, and write the union behind it, which holds each of their answers.
        let code = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &mut request) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(request.ifr_ifru) }
    };
    let io = || Error::io("examine", Path::new(interface));
    // SAFETY: each request says which member of the union it wrote.
    let (flags, kind, mtu) = unsafe {
        let flags = i32::from(ask(libc::SIOCGIFFLAGS).map_err(io())?.ifru_flags);
        let kind = ask(libc::SIOCGIFHWADDR).map_err(io())?.ifru_hwaddr.sa_family;
        (flags, kind, ask(libc::SIOCGIFMTU).map_err(io())?.ifru_mtu)
    };
    if flags & libc::IFF_UP == 0 {
        return Err(Error::Host(format!(
            "this host cannot: interface {interface} is down; ip link set {interface} up"
        )));
    }
    safety::check_ethernet(interface, u32::from(kind))?;
    Ok(InterfaceFacts { index: index as i32, mtu: mtu as usize })
}

/// Binds a socket to an interface, to receive frames of `protocol` (in network order; 0 for none).
pub fn bind(socket: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: a C struct of integers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index;
    let bytes = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to an address of that length, which the kernel reads during the call.
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A socket for all frames of an interface except our own, as they were on the wire, with their VLAN tags.
pub(crate) struct AllFrames {
    socket: File,
    batch: ReceiveBatch,
}

impl AllFrames {
    /// Opens it for frames of at most `frame_max` bytes; longer ones are cut.
    pub(crate) fn open(interface: &str, frame_max: usize) -> Result<Self> {
        let io = |action| Error::io(action, Path::new(interface));
        let opened = socket(interface)?;
        let index = examine(&opened, interface)?.index;
        socket::set_option(opened.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32)
            .map_err(io("leave out our own frames on"))?;
        // The kernel takes VLAN tags out of frames, and says here what they were.
        socket::set_option(opened.as_fd(), libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32)
            .map_err(io("ask for VLAN tags of"))?;
        listen_to_all(&opened, index).map_err(io("switch to promiscuous mode"))?;
        bind(&opened, index, (libc::ETH_P_ALL as u16).to_be()).map_err(io("bind a packet socket to"))?;
        Ok(AllFrames { socket: File::from(opened), batch: ReceiveBatch::new(frame_max, Stamps::None) })
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.socket.write(frame).map(drop)
    }

    /// Takes frames that wait, a batch at most; returns their number.
    pub(crate) fn take(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let got = loop {
            match self.batch.receive(&self.socket, socket::BATCH) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                got => break got.unwrap_or(0),
            }
        };
        for slot in 0..got {
            let notice = self.batch.notice(slot);
            each(self.batch.whole(slot, &notice).0);
        }
        got
    }
}

impl AsFd for AllFrames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Enables promiscuous mode while the socket is open: the kernel counts such requests, so nothing is left behind.
pub(crate) fn listen_to_all(socket: &OwnedFd, index: i32) -> io::Result<()> {
    let wish = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, wish)
}

/// Joins a group of sockets that share arriving frames of an interface, or creates one; returns its number. Kernels
/// from 4.20 on exclude our own frames for a whole group only, so that is a flag here.
pub fn join(socket: &OwnedFd, group: Option<u16>, fanout: Fanout) -> io::Result<u16> {
    let kind = match fanout {
        Fanout::Hash => libc::PACKET_FANOUT_HASH,
        Fanout::Queue => libc::PACKET_FANOUT_QM,
    };
    let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let value = u32::from(group.unwrap_or(0)) | (kind | unique | IGNORE_OUTGOING) << 16;
    socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value)?;
    let [joined] = socket::option::<1>(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok(joined as u16)
}

/// Removes the filter of [`keep_only`].
pub(crate) fn keep_all(socket: &OwnedFd) -> io::Result<()> {
    socket::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32)
}

/// Makes the kernel keep the first `bytes` of each frame, by a filter of one instruction.
pub(crate) fn keep_only(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    let mut code = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: bytes }];
    let program = libc::sock_fprog { len: 1, filter: code.as_mut_ptr() };
    socket::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}
