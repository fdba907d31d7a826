//! Cables of a device: pairs of interfaces, one end here and one in the device's network; by rtnetlink, as `ip link` does it.

use std::fs::File;
use std::io::{self, Read, Write};

use super::kernel::route_socket;

/// Kinds of messages, and flags of them (linux/rtnetlink.h, linux/netlink.h).
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// Attributes of an interface (linux/if_link.h).
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const NETWORK_OF_PROCESS: u16 = 19;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;
/// Flag of an interface that is up.
const UP: u32 = 1;
/// Bytes of the head of a message.
const HEAD: usize = 16;
/// Longest name of an interface.
pub(super) const NAME_MAX: usize = 15;

/// A message that is being written.
struct Message(Vec<u8>);

impl Message {
    /// About an interface: `up` also takes it up.
    fn new(kind: u16, flags: u16, up: bool) -> Message {
        let mut message = Message(vec![0; 4]);
        message.0.extend(kind.to_ne_bytes());
        message.0.extend((flags | REQUEST | ACKNOWLEDGE).to_ne_bytes());
        message.0.extend([0; 8]);
        message.link(up);
        message
    }

    /// What stands before the attributes of an interface.
    fn link(&mut self, up: bool) {
        let flags = if up { UP } else { 0 };
        self.0.extend([0; 8]);
        self.0.extend(flags.to_ne_bytes());
        self.0.extend(flags.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |message| message.0.extend(value));
    }

    fn text(&mut self, kind: u16, value: &str) {
        self.nest(kind, |message| message.0.extend(value.bytes().chain([0])));
    }

    /// An attribute made of others.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Sends it, and returns what the kernel says.
    fn send(mut self, socket: &mut File) -> io::Result<()> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        socket.write_all(&self.0)?;
        let mut answer = [0; 4096];
        let got = socket.read(&mut answer)?;
        match answer[..got].get(HEAD..HEAD + 4).map(|code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]])) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::other("the kernel's answer is cut")),
        }
    }
}

/// A cable: the name of its end here, that of its end in the device's network, and the longest packet on it.
pub(super) struct Cable<'a> {
    pub(super) here: &'a str,
    pub(super) there: &'a str,
    pub(super) mtu: u32,
}

/// Makes a cable into the network of a process.
pub(super) fn plug(cable: &Cable<'_>, process: u32) -> io::Result<()> {
    let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, false);
    message.text(NAME, cable.here);
    message.attribute(MTU, &cable.mtu.to_ne_bytes());
    message.nest(LINK_INFO, |info| {
        info.attribute(INFO_KIND, b"veth");
        info.nest(INFO_DATA, |data| {
            data.nest(PEER, |peer| {
                peer.link(false);
                peer.text(NAME, cable.there);
                peer.attribute(MTU, &cable.mtu.to_ne_bytes());
                peer.attribute(NETWORK_OF_PROCESS, &process.to_ne_bytes());
            });
        });
    });
    message.send(&mut route_socket()?)
}

/// Takes an interface of this thread's network up; the kernel sends nothing of its own over it, where it can be told so.
pub(super) fn take_up(interface: &str) -> io::Result<()> {
    // A kernel without IPv6 has no such file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1");
    let mut message = Message::new(NEW_LINK, 0, true);
    message.text(NAME, interface);
    message.send(&mut route_socket()?)
}

/// Removes an interface; with it goes the cable's other end.
pub(super) fn unplug(interface: &str) -> io::Result<()> {
    let mut message = Message::new(DELETE_LINK, 0, false);
    message.text(NAME, interface);
    message.send(&mut route_socket()?)
}
