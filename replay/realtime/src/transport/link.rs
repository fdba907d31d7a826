//! Properties of a network interface: index, MTU, state, and drop counters.
//!
//! Read when a port is opened, and for its counters; never per frame. All in the network namespace of the opening thread. An open
//! interface is known by its index: its name may change, and be given to another.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use pktgen_core::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use super::ethtool;

/// Kernel counters of all interfaces, in the namespace of the opening thread, wherever they are read later.
const COUNTERS: &str = "/proc/thread-self/net/dev";
/// Bytes of an Ethernet header, which the MTU excludes.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// First bytes of a hardware address that the kernel returns by name.
pub(super) const ADDRESS_MAX: usize = 14;

/// Request for the card's stamping configuration.
const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;

/// Number of checks for a missing carrier, and pause between them: the kernel may hold the news back for a second, and longer where many
/// interfaces change.
const CARRIER_TRIES: u32 = 300;
const CARRIER_PAUSE: Duration = Duration::from_millis(10);

/// Frames that an interface lost, by its own count, over all its users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    /// On the way in.
    pub receive: u64,
    /// On the way out.
    pub send: u64,
}

/// Number of an interface in its namespace, and the first bytes of its hardware address, with zeros after a shorter one.
pub(super) type Identity = (u32, [u8; ADDRESS_MAX]);

/// An interface that is up.
#[derive(Debug)]
pub struct Interface {
    name: String,
    index: u32,
    mtu: usize,
    /// Asks about it in its namespace.
    socket: OwnedFd,
    counters: File,
    text: String,
    start: Drops,
}

impl Interface {
    /// Opens it by name; refuses one that is absent or down.
    pub fn open(name: &str) -> Result<Self> {
        let c_name = CString::new(name).map_err(|_| Error::config(format!("{name:?} is no interface name")))?;
        // SAFETY: a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(Error::Host(format!("this host cannot use interface {name}: there is none of that name here")));
        }
        let why = |e: io::Error| Error::Host(format!("this host cannot ask for the state of {name}: {e}"));
        wait_until_up(name)?;
        // SAFETY: reads the member that SIOCGIFMTU fills.
        let mtu = unsafe { query(name, libc::SIOCGIFMTU as _).map_err(why)?.ifr_ifru.ifru_mtu } as usize;
        let path = Path::new(COUNTERS);
        let counters = File::open(path).map_err(Error::io("open", path))?;
        let (socket, text, start) = (inet_socket().map_err(why)?, String::new(), Drops::default());
        let mut interface = Interface { name: name.to_owned(), index, mtu, socket, counters, text, start };
        // Guards read the system's folder of an interface, which has its own name.
        let own = interface.current_name().map_err(why)?;
        if own != name {
            return Err(Error::Host(format!("{name} is another name of the interface {own}: use {own}")));
        }
        interface.start = interface.totals().map_err(Error::io("read", path))?;
        Ok(interface)
    }

    /// Returns the name by which it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its number in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the name of its driver.
    pub fn driver(&self) -> Option<String> {
        ethtool::driver(&self.name)
    }

    /// Returns the largest frame that it sends, from the Ethernet header on.
    pub fn frame_max(&self) -> usize {
        self.mtu + ETHERNET_HEADER
    }

    /// Fails if it is down, or gone from its namespace.
    pub(super) fn check_up(&self) -> io::Result<()> {
        let name = self.current_name()?;
        // SAFETY: all addresses in the request are null.
        let request = unsafe { query_by(self.socket.as_fd(), &name, libc::SIOCGIFFLAGS as _, |_| {}) }?;
        // SAFETY: reads the member that SIOCGIFFLAGS fills.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        if flags & libc::IFF_UP == 0 { Err(io::Error::from_raw_os_error(libc::ENETDOWN)) } else { Ok(()) }
    }

    /// Returns its name now; fails if it is gone from its namespace.
    fn current_name(&self) -> io::Result<String> {
        let set = |request: &mut libc::ifreq| request.ifr_ifru.ifru_ifindex = self.index as libc::c_int;
        // SAFETY: all addresses in the request are null; the kernel reads the number and writes a name that ends with a zero.
        unsafe {
            let request = query_by(self.socket.as_fd(), "", libc::SIOCGIFNAME as _, set)?;
            Ok(CStr::from_ptr(request.ifr_name.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// Returns the drops since it was opened; `None` if its counters cannot be read, as when it is gone.
    pub fn drops(&mut self) -> Option<Drops> {
        let now = self.totals().ok()?;
        Some(Drops {
            receive: now.receive.saturating_sub(self.start.receive),
            send: now.send.saturating_sub(self.start.send),
        })
    }

    /// Returns the frames that it has sent, by its own count over all users; `None` if it is gone.
    pub fn sent(&mut self) -> Option<u64> {
        self.numbers().ok().map(|numbers| numbers[9])
    }

    fn totals(&mut self) -> io::Result<Drops> {
        self.numbers().map(|numbers| Drops { receive: numbers[3], send: numbers[11] })
    }

    fn numbers(&mut self) -> io::Result<[u64; 16]> {
        let name = self.current_name()?;
        self.text.clear();
        self.counters.rewind()?;
        self.counters.read_to_string(&mut self.text)?;
        numbers_of(&self.text, &name).ok_or_else(|| io::Error::other(format!("it does not list {name}")))
    }
}

/// The current stamping of a card (`hwtstamp_config`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// Whether marked frames are stamped on their way out (`tx_type`).
    pub sent: bool,
    /// The filter of arriving frames that are stamped (`rx_filter`).
    pub filter: u32,
}

/// Returns the current stamping of an interface's card; `None` if its driver does not support it.
pub fn stamping(interface: &str) -> Option<Stamping> {
    // Flags, stamping of sent frames, receive filter.
    let mut config = [0u32; 3];
    let set = |request: &mut libc::ifreq| request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: the kernel writes a configuration, three words, to `config`, which outlives the call.
    unsafe { query_with(interface, SIOCGHWTSTAMP, set) }.ok()?;
    Some(Stamping { sent: config[1] > 0, filter: config[2] })
}

/// Finds an interface in the text of `/proc/net/dev`: eight numbers for receiving, eight for sending; in both groups
/// the second number is frames, the fourth drops.
fn numbers_of(text: &str, name: &str) -> Option<[u64; 16]> {
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut numbers = [0; 16];
    let mut words = line.split_ascii_whitespace();
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
}

/// Returns all interfaces in the network namespace of this thread, by name.
pub(super) fn all() -> io::Result<BTreeMap<String, Identity>> {
    let mut numbers = Vec::new();
    // SAFETY: the library makes a list, which is given back once. Its last entry has the number 0; the names of the others end with a zero.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut next = list;
        while (*next).if_index != 0 {
            let name = std::ffi::CStr::from_ptr((*next).if_name).to_string_lossy().into_owned();
            if is_interface(&name) {
                numbers.push((name, (*next).if_index));
            }
            next = next.add(1);
        }
        libc::if_freenameindex(list);
    }
    // One that was removed meanwhile has no address.
    let identified = |(name, number): (String, u32)| {
        let request = query(&name, libc::SIOCGIFHWADDR as _).ok()?;
        // SAFETY: reads the member that SIOCGIFHWADDR fills.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        Some((name, (number, address.map(|byte| byte as u8))))
    };
    Ok(numbers.into_iter().filter_map(identified).collect())
}

/// Returns whether a name of `if_nameindex` is that of an interface: musl also lists labels of addresses, such as `w0:1`, to whose requests
/// the kernel answers for the interface. No interface has a colon in its name.
fn is_interface(name: &str) -> bool {
    !name.contains(':')
}

/// Returns the interface with this address; `None` if this host has no such address.
pub(crate) fn interface_of(address: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the kernel's answer is put into a list that the library makes, whose head is written to `first`.
    if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
        return None;
    }
    let (mut next, mut found) = (first, None);
    while found.is_none() && !next.is_null() {
        // SAFETY: an entry of the list, which lives until it is given back below. Where it has an address, that is of the family
        // that it says; its name ends with a zero.
        unsafe {
            let entry = &*next;
            if !entry.ifa_addr.is_null() && address_at(entry.ifa_addr) == Some(address) {
                found = Some(std::ffi::CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned());
            }
            next = entry.ifa_next;
        }
    }
    // SAFETY: the list that was made above, given back once.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// Returns the address in a socket address.
///
/// # Safety
///
/// `at` points to a socket address of the family that it says.
unsafe fn address_at(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: what the caller promises.
    unsafe {
        match i32::from((*at).sa_family) {
            libc::AF_INET => {
                let v4 = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                Some(Ipv6Addr::from(at.cast::<libc::sockaddr_in6>().read_unaligned().sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// Opens a netlink socket for route requests, in the network namespace of this thread.
pub(crate) fn route_socket() -> io::Result<File> {
    // SAFETY: no addresses among the arguments; a non-negative result is a new descriptor.
    unsafe {
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(OwnedFd::from_raw_fd(fd))) }
    }
}

/// Refuses an interface that is down. The kernel reports a carrier shortly after an interface came up, so a missing one
/// is awaited for a bounded time.
fn wait_until_up(name: &str) -> Result<()> {
    let mut why = "";
    for _ in 0..CARRIER_TRIES {
        let request = query(name, libc::SIOCGIFFLAGS as _)
            .map_err(|e| Error::Host(format!("this host cannot ask for the state of {name}: {e}")))?;
        // SAFETY: reads the member that SIOCGIFFLAGS fills.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        why = match (flags & libc::IFF_UP, flags & libc::IFF_RUNNING) {
            (0, _) => "it is down; ip link set up",
            (_, 0) => "it has no carrier; connect it, or set its peer up",
            _ => return Ok(()),
        };
        if flags & libc::IFF_UP == 0 {
            break;
        }
        std::thread::sleep(CARRIER_PAUSE);
    }
    Err(Error::Host(format!("this host cannot send on {name}: {why}")))
}

/// Queries the kernel about an interface by name.
fn query(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    // SAFETY: all addresses in the request are null.
    unsafe { query_with(name, what, |_| {}) }
}

/// Queries with more of the request filled in.
///
/// # Safety
///
/// If the kernel reads or writes memory for `what`, `fill` sets its address, and it outlives the call.
pub(super) unsafe fn query_with(
    name: &str,
    what: libc::Ioctl,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    // SAFETY: what the caller promises.
    unsafe { query_by(inet_socket()?.as_fd(), name, what, fill) }
}

/// Opens a socket for requests, in the network namespace of this thread.
fn inet_socket() -> io::Result<OwnedFd> {
    // SAFETY: no addresses among the arguments; a non-negative result is a new descriptor.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Queries in the network namespace of `socket`.
///
/// # Safety
///
/// As [`query_with`].
unsafe fn query_by(
    socket: BorrowedFd<'_>,
    name: &str,
    what: libc::Ioctl,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    fill(&mut request);
    // SAFETY: the kernel reads the name and fills a union member of an ifreq that outlives the call, or the memory that
    // it points to, which the caller promises.
    if unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9       10   11   12   13    14      15         16
 veth0:   10556     128    0   70    0     0          0         0     9000      100    0    5    0     0       0          0
";

    #[test]
    fn finds_the_drops_of_an_interface() {
        let found = |name| numbers_of(TEXT, name).map(|numbers| (numbers[3], numbers[9], numbers[11]));
        assert_eq!(found("lo"), Some((4, 10, 12)));
        assert_eq!(found("veth0"), Some((70, 100, 5)));
        assert_eq!(found("veth"), None);
    }

    #[test]
    fn every_interface_has_its_number() {
        let all = all().unwrap();
        let names: Vec<_> = all.keys().map(String::as_str).collect();
        assert!(!names.is_empty());
        for (name, (number, _)) in &all {
            let c_name = CString::new(name.as_str()).unwrap();
            // SAFETY: a C string that outlives the call.
            let known = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
            // It may have been removed meanwhile.
            assert!([0, *number].contains(&known), "{name}: {number}, {known}; {names:?}");
        }
    }

    #[test]
    fn labels_of_addresses_are_no_interfaces() {
        let names = ["lo", "w0", "w0:1", "eth0.5", "eth0.5:web"];
        assert_eq!(names.map(is_interface), [true, true, false, true, false]);
    }

    /// The name of an open interface may change, and another may get it.
    #[test]
    fn an_open_interface_is_known_by_its_index() {
        let mut interface = Interface::open("lo").unwrap();
        interface.name = "pktgen-none".into();
        assert!(interface.sent().is_some() && interface.drops().is_some());
        interface.check_up().unwrap();
        interface.index = i32::MAX as u32;
        assert_eq!((interface.sent(), interface.drops()), (None, None));
        interface.check_up().unwrap_err();
    }

    /// The kernel takes labels and alternative names for it, which guards of its routes and queues do not find.
    #[test]
    fn another_name_of_an_interface_is_refused() {
        let why = Interface::open("lo:1").expect_err("a label").to_string();
        assert!(why.contains("lo:1 is another name of the interface lo: use lo"), "{why}");
    }

    #[test]
    fn an_absent_interface_is_refused_by_name() {
        let error = Interface::open("pktgen-none").expect_err("there is none");
        assert!(error.to_string().contains("pktgen-none"), "{error}");
    }
}
