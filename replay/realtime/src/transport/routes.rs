//! Routes of all tables, of IPv4 and IPv6, from the kernel over rtnetlink.
//!
//! `/proc/net/route` has the main table only.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::link;

/// Message types (linux/netlink.h, linux/rtnetlink.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Flags: a dump request; the list changed while it was read.
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Bytes of the header of a message, of a route, of an attribute, and of a next hop.
const HEAD: usize = 16;
const ROUTE: usize = 12;
const ATTRIBUTE: usize = 4;
const NEXT_HOP: usize = 8;
/// Attributes of a route.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_NH_ID: u16 = 30;
/// A route to unicast addresses.
const RTN_UNICAST: u8 = 1;
/// Receive buffer; the kernel's messages are at most half of it.
const ROOM: usize = 64 << 10;
/// Maximum attempts to read the list without concurrent changes.
const TRIES: u32 = 10;

/// The interface of a route by a nexthop object, if the kernel does not name it: any.
pub(super) const ANY: u32 = 0;

/// A route to unicast addresses through an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The first address.
    pub to: IpAddr,
    /// Prefix length.
    pub bits: u8,
    /// Number of its table.
    pub table: u32,
    /// Number of its interface, or 0 for any.
    pub interface: u32,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Route { to, bits, table, interface } = self;
        match table {
            253 => write!(f, "{to}/{bits} in table default")?,
            254 => write!(f, "{to}/{bits} in table main")?,
            255 => write!(f, "{to}/{bits} in table local")?,
            table => write!(f, "{to}/{bits} in table {table}")?,
        }
        match *interface {
            ANY => write!(f, " by a nexthop object (sysctl net.ipv4.nexthop_compat_mode=1 names its interface)"),
            _ => Ok(()),
        }
    }
}

/// Returns all routes in the network namespace of this thread.
pub fn all() -> io::Result<Vec<Route>> {
    for _ in 0..TRIES {
        if let Some(routes) = dump()? {
            return Ok(routes);
        }
    }
    Err(io::Error::other("the routes change faster than they can be read"))
}

/// Reads the list once; `None` if it changed meanwhile.
fn dump() -> io::Result<Option<Vec<Route>>> {
    let mut socket = link::route_socket()?;
    let mut request = [0; HEAD + ROUTE];
    request[..4].copy_from_slice(&((HEAD + ROUTE) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    socket.write_all(&request)?;
    let (mut room, mut routes) = (vec![0; ROOM], Vec::new());
    let mut steady = true;
    loop {
        let len = socket.read(&mut room)?;
        match parse(&room[..len], &mut routes)? {
            Progress::More { changed } => steady &= !changed,
            Progress::Done { changed } => return Ok((steady && !changed).then_some(routes)),
        }
    }
}

/// The state of the dump after a datagram of the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    More { changed: bool },
    Done { changed: bool },
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Extracts the routes from a datagram.
fn parse(datagram: &[u8], routes: &mut Vec<Route>) -> io::Result<Progress> {
    let (mut rest, mut changed) = (datagram, false);
    while let (Some(len), Some(kind), Some(flags)) = (word(rest, 0), half(rest, 4), half(rest, 6)) {
        let len = len as usize;
        let Some(body) = rest.get(HEAD..len) else { break };
        changed |= flags & NLM_F_DUMP_INTR != 0;
        match kind {
            NLMSG_DONE => return Ok(Progress::Done { changed }),
            NLMSG_ERROR => {
                let code = word(body, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            RTM_NEWROUTE => route(body, routes),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    if rest.is_empty() { Ok(Progress::More { changed }) } else { Err(io::Error::other("a message is cut")) }
}

/// Returns attributes, or next hops with a header of `head` bytes: each begins with its length.
fn pieces(mut rest: &[u8], head: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = usize::from(half(rest, 0)?);
        let piece = rest.get(..len).filter(|_| len >= head)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(piece)
    })
}

/// Adds a route, once for each of its interfaces. With `net.ipv4.nexthop_compat_mode=0` the kernel names only the nexthop object.
fn route(body: &[u8], routes: &mut Vec<Route>) {
    let Some((head, rest)) = body.split_at_checked(ROUTE) else { return };
    let (family, bits, kind) = (i32::from(head[0]), head[1], head[7]);
    let mut to = match family {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return,
    };
    if kind != RTN_UNICAST {
        return;
    }
    let (mut table, mut through, mut by_object) = (u32::from(head[4]), Vec::new(), false);
    for attribute in pieces(rest, ATTRIBUTE) {
        let value = &attribute[ATTRIBUTE..];
        match half(attribute, 2) {
            Some(RTA_DST) if value.len() == 4 => {
                to = <[u8; 4]>::try_from(value).map_or(to, IpAddr::from);
            }
            Some(RTA_DST) if value.len() == 16 => {
                to = <[u8; 16]>::try_from(value).map_or(to, IpAddr::from);
            }
            Some(RTA_TABLE) => table = word(value, 0).unwrap_or(table),
            Some(RTA_OIF) => through.extend(word(value, 0)),
            Some(RTA_MULTIPATH) => through.extend(pieces(value, NEXT_HOP).filter_map(|hop| word(hop, 4))),
            Some(RTA_NH_ID) => by_object = true,
            _ => {}
        }
    }
    if by_object && through.is_empty() {
        through.push(ANY);
    }
    routes.extend(through.into_iter().map(|interface| Route { to, bits, table, interface }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (ATTRIBUTE + value.len()) as u16;
        let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let len = (HEAD + body.len()) as u32;
        [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
    }

    fn body(family: i32, bits: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let head = [family as u8, bits, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
        [&head[..], &attributes.concat()].concat()
    }

    #[test]
    fn a_datagram_says_where_routes_lead_in_which_table() {
        let index = |n: u32| attribute(RTA_OIF, &n.to_ne_bytes());
        let hop = |n: u32| [&[8, 0, 0, 0][..], &n.to_ne_bytes()].concat();
        let datagram = [
            message(RTM_NEWROUTE, 2, &body(libc::AF_INET, 0, RTN_UNICAST, &[index(3)])),
            message(
                RTM_NEWROUTE,
                2,
                &body(
                    libc::AF_INET6,
                    3,
                    RTN_UNICAST,
                    &[
                        attribute(RTA_TABLE, &1000u32.to_ne_bytes()),
                        attribute(RTA_DST, &"2000::".parse::<Ipv6Addr>().unwrap().octets()),
                        attribute(RTA_MULTIPATH, &[hop(4), hop(5)].concat()),
                    ],
                ),
            ),
            // Broadcast, unreachable, and multicast routing.
            message(RTM_NEWROUTE, 2, &body(libc::AF_INET, 32, 3, &[index(3)])),
            message(RTM_NEWROUTE, 2, &body(libc::AF_INET6, 0, 7, &[index(1)])),
            message(RTM_NEWROUTE, 2, &body(128, 0, RTN_UNICAST, &[index(3)])),
        ]
        .concat();
        let mut routes = Vec::new();
        assert_eq!(parse(&datagram, &mut routes).unwrap(), Progress::More { changed: false });
        let text: Vec<_> = routes.iter().map(|route| format!("{route} via {}", route.interface)).collect();
        assert_eq!(
            text,
            ["0.0.0.0/0 in table main via 3", "2000::/3 in table 1000 via 4", "2000::/3 in table 1000 via 5"]
        );
        let done = message(NLMSG_DONE, NLM_F_DUMP_INTR, &[0; 4]);
        assert_eq!(parse(&done, &mut routes).unwrap(), Progress::Done { changed: true });
        let refused = message(NLMSG_ERROR, 0, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(parse(&refused, &mut routes).unwrap_err().raw_os_error(), Some(libc::EPERM));
        for cut in 1..datagram.len() {
            let whole = parse(&datagram[..cut], &mut Vec::new()).is_ok();
            assert!(!whole || datagram[..cut].len().is_multiple_of(4), "{cut}");
        }
    }

    #[test]
    fn a_route_by_a_nexthop_object_without_its_interface_is_through_any() {
        let object = || attribute(RTA_NH_ID, &7u32.to_ne_bytes());
        let named = [object(), attribute(RTA_OIF, &3u32.to_ne_bytes())];
        let datagram = [
            message(RTM_NEWROUTE, 2, &body(libc::AF_INET, 0, RTN_UNICAST, &[object()])),
            message(RTM_NEWROUTE, 2, &body(libc::AF_INET6, 0, RTN_UNICAST, &named)),
        ]
        .concat();
        let mut routes = Vec::new();
        assert_eq!(parse(&datagram, &mut routes).unwrap(), Progress::More { changed: false });
        assert_eq!(routes.iter().map(|route| route.interface).collect::<Vec<_>>(), [ANY, 3]);
        assert!(routes[0].to_string().starts_with("0.0.0.0/0 in table main by a nexthop object ("), "{}", routes[0]);
        assert_eq!(routes[1].to_string(), "::/0 in table main");
    }

    #[test]
    fn this_host_lists_its_routes() {
        let routes = all().unwrap();
        // Every IPv4 route of the main table in the other list is in this one.
        let text = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        let of = |line: &str| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let number = |at: usize| u32::from_str_radix(columns[at], 16).unwrap().swap_bytes();
            (columns[3] != "0200").then(|| (IpAddr::from(Ipv4Addr::from(number(1))), number(7).count_ones() as u8))
        };
        for (to, bits) in text.lines().skip(1).filter_map(of) {
            assert!(routes.iter().any(|route| (route.to, route.bits) == (to, bits)), "{to}/{bits} in {routes:?}");
        }
    }
}
