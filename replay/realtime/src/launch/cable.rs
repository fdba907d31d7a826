//! Cables of a launched device: pairs of interfaces, one end here and one in the device's network namespace; by
//! rtnetlink, as `ip link` does it.

use std::fs::File;
use std::io::{self, Read, Write};

use super::kernel::route_socket;

/// Message types and flags (linux/rtnetlink.h, linux/netlink.h).
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// Interface attributes (linux/if_link.h).
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const NETWORK_OF_PROCESS: u16 = 19;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;
/// Interface flag: up.
const UP: u32 = 1;
/// Bytes of a message header.
const HEAD: usize = 16;
/// Maximum length of an interface name.
pub(super) const NAME_MAX: usize = 15;

/// A message being written.
struct Message(Vec<u8>);

impl Message {
    /// A message about an interface; `up` also brings it up.
    fn new(kind: u16, flags: u16, up: bool) -> Message {
        let mut message = Message(vec![0; 4]);
        message.0.extend(kind.to_ne_bytes());
        message.0.extend((flags | REQUEST | ACKNOWLEDGE).to_ne_bytes());
        message.0.extend([0; 8]);
        message.link(up);
        message
    }

    /// Appends the fixed part before the attributes of an interface.
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

    /// Appends a nested attribute.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Sends it, and returns the kernel's answer.
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

/// A cable: the names of its ends here and in the device's namespace, and its MTU.
pub(super) struct Cable<'a> {
    pub(super) here: &'a str,
    pub(super) there: &'a str,
    pub(super) mtu: u32,
}

/// Creates a cable into the network namespace of a process.
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

/// Returns whether the network of this thread has an interface of this name.
pub(super) fn exists(interface: &str) -> bool {
    let names = |line: &str| line.trim_start().strip_prefix(interface).is_some_and(|rest| rest.starts_with(':'));
    std::fs::read_to_string("/proc/thread-self/net/dev").ok().is_none_or(|text| text.lines().any(names))
}

/// Brings an interface up; suppresses the kernel's own IPv6 traffic on it, if possible.
pub(super) fn take_up(interface: &str) -> io::Result<()> {
    // A kernel without IPv6 has no such file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1");
    let mut message = Message::new(NEW_LINK, 0, true);
    message.text(NAME, interface);
    message.send(&mut route_socket()?)
}

/// Removes an interface, and with it the other end of the cable.
pub(super) fn unplug(interface: &str) -> io::Result<()> {
    let mut message = Message::new(DELETE_LINK, 0, false);
    message.text(NAME, interface);
    message.send(&mut route_socket()?)
}
