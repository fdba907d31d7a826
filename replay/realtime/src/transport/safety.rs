//! Checks of interfaces before they are opened, so that traffic stays in the test network.
//!
//! An interface leads to the internet if routes through it cover an eighth of the internet's unicast addresses, in any table: a default
//! route, or several that together replace one (`0.0.0.0/1` and `128.0.0.0/1`). Routes of an interface above it (a bridge, a bond, a VLAN)
//! or below it count as its own, and so do those of a bridge at the other end of a veth, those of interfaces above the lower interface of a
//! macvlan, also below a bridge or bond, and routes by nexthop objects whose interface the kernel does not name. Routing rules are ignored: a
//! table that no rule names counts as well.
//!
//! `/sys` lists the interfaces of the network namespace in which it was mounted, netlink the routes of this thread's namespace. Interfaces are
//! refused unless both are the same, and if a file that tells where they lead cannot be read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use pktgen_core::{Error, Result};

use super::link::{self, Identity};
use super::queues;
use super::routes::{self, Route};

/// Flag of an interface that is up.
const IFF_UP: u32 = 1;
/// Routes to this fraction of the internet's unicast addresses count as a default route.
const PART: u128 = 8;
/// Comparisons of the interfaces in `/sys` with those of the kernel, and pause between them: some may be added or removed meanwhile.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The consequence of unknown routes.
const UNCHECKED: &str =
    "with transport.allow_default_route = true (capture: --allow-default-route) that is not checked";

/// The source of a host's routes.
pub type RouteTable<'a> = &'a dyn Fn() -> io::Result<Vec<Route>>;

/// Refuses an interface that does not exist, is not up, or carries the host's default route: frames sent there could
/// leave the test network.
pub(super) fn check(interface: &str, allow_default_route: bool) -> Result<()> {
    check_namespace()?;
    check_in(Path::new("/"), &routes::all, interface, allow_default_route)
}

/// Refuses interfaces if `/sys` shows those of another network namespace, or none: all that is read of one there would be of another.
pub fn check_namespace() -> Result<()> {
    check_namespace_in(Path::new("/"), &link::all)
}

/// Performs [`check_namespace`] for a host whose files are below `root`, and whose kernel has these interfaces.
fn check_namespace_in(root: &Path, all: &dyn Fn() -> io::Result<BTreeMap<String, Identity>>) -> Result<()> {
    for _ in 0..TRIES {
        // Without netlink no routes can be read either, and the check of the routes reports that.
        let Ok(own) = all() else { return Ok(()) };
        if own == shown(root) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(Error::Host(
        "/sys/class/net does not list the interfaces of this network namespace (after nsenter --net it lists those of another one), so \
         nothing is known about them; use ip netns exec NAMESPACE pktgen ..., or mount the right one: unshare --mount sh -c \
         'mount -t sysfs sysfs /sys && exec pktgen ...'"
            .to_owned(),
    ))
}

/// Returns the interfaces that `/sys` shows, by name.
fn shown(root: &Path) -> BTreeMap<String, Identity> {
    let entries = fs::read_dir(root.join("sys/class/net")).into_iter().flatten().flatten();
    let identified = |entry: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let (number, text) = (read("ifindex")?.trim().parse::<u32>().ok()?, read("address")?);
        let mut address = [0; link::ADDRESS_MAX];
        // An interface without an address has an empty line.
        for (to, byte) in address.iter_mut().zip(text.trim().split(':')) {
            *to = u8::from_str_radix(byte, 16).unwrap_or(0);
        }
        Some((entry.file_name().to_string_lossy().into_owned(), (number, address)))
    };
    entries.filter_map(identified).collect()
}

/// Returns the link rate of the interface, in bit/s; `None` if it is unknown.
pub(crate) fn link_bps(interface: &str) -> Option<u64> {
    link_bps_in(Path::new("/"), interface)
}

/// Performs [`link_bps`] for a host whose files are below `root`.
pub(super) fn link_bps_in(root: &Path, interface: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("sys/class/net").join(interface).join("speed")).ok()?;
    // In Mbit/s; -1 if unknown.
    text.trim().parse::<u64>().ok().filter(|mbps| *mbps > 0).map(|mbps| mbps * 1_000_000)
}

/// Performs [`check`] for a host whose files are below `root`.
pub fn check_in(root: &Path, routes: RouteTable, interface: &str, allow_default_route: bool) -> Result<()> {
    check_usable_in(root, interface)?;
    if allow_default_route {
        return Ok(());
    }
    match way_out(root, routes, interface, RouteReach::Send)? {
        Some(way) => Err(Error::Host(format!(
            "interface {interface} carries the host's default route ({way}), so a test could flood a network; use another, or \
             set transport.allow_default_route = true if that is what you want"
        ))),
        None => Ok(()),
    }
}

/// Refuses an interface that does not exist, is not up, or carries no Ethernet frames.
pub(super) fn check_usable(interface: &str) -> Result<()> {
    check_namespace()?;
    check_usable_in(Path::new("/"), interface)
}

/// Performs [`check_usable`] for a host whose files are below `root`.
fn check_usable_in(root: &Path, interface: &str) -> Result<()> {
    let plain = !interface.is_empty() && !interface.contains('/') && interface != "." && interface != "..";
    let folder = root.join("sys/class/net").join(interface);
    if !plain || !folder.is_dir() {
        return Err(Error::Host(format!(
            "there is no interface \"{interface}\"; `ip -br link` lists those there are; name them in transport.interfaces"
        )));
    }
    let flags = fs::read_to_string(folder.join("flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
    if flags & IFF_UP == 0 {
        return Err(Error::Host(format!("interface {interface} is not up; ip link set {interface} up")));
    }
    check_ethernet_in(root, interface)
}

/// Performs [`check_ethernet`] with the type of an interface of a host whose files are below `root`, if it is known.
pub fn check_ethernet_in(root: &Path, interface: &str) -> Result<()> {
    let text = fs::read_to_string(root.join("sys/class/net").join(interface).join("type")).ok();
    let kind = text.and_then(|text| text.trim().parse().ok());
    kind.map_or(Ok(()), |kind| check_ethernet(interface, kind))
}

/// Refuses an interface of a type (`ARPHRD_…`) whose frames have no Ethernet header.
pub(super) fn check_ethernet(interface: &str, kind: u32) -> Result<()> {
    if [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].map(u32::from).contains(&kind) {
        return Ok(());
    }
    Err(Error::Host(format!(
        "interface {interface} carries no Ethernet frames (its type is {kind}); use another, such as a TAP instead of a \
         TUN"
    )))
}

/// Refuses an interface whose default route this host would lose if `what` takes arriving frames.
pub(super) fn check_taking(interface: &str, what: &str, allow_default_route: bool) -> Result<()> {
    if allow_default_route {
        return Ok(());
    }
    match way_out(Path::new("/"), &routes::all, interface, RouteReach::Take)? {
        Some(way) => Err(Error::Host(format!(
            "interface {interface} carries the host's default route ({way}), and {what} would take all of its frames away from \
             the host; use --kind af_packet, another interface, or --allow-default-route if that is what you want"
        ))),
        None => Ok(()),
    }
}

/// The operation at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteReach {
    /// Frames are sent: they leave by the interfaces below, share its link with those above and, without a tag, with those beside it, and
    /// pass on to a bridge at the other end of a veth.
    Send,
    /// Arriving frames are taken: interfaces above do not get them.
    Take,
}

/// Routes by which an interface leads to the internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayOut {
    /// The widest route.
    route: Route,
    /// Number of further routes; 0 if one is sufficient.
    more: usize,
    /// Covered percentage of the unicast addresses.
    percent: u32,
    /// The interface of the routes, and its relation; none if it is the checked interface.
    through: Option<(String, &'static str)>,
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.route)?;
        if self.more > 0 {
            let family = if self.route.to.is_ipv4() { "IPv4" } else { "IPv6" };
            write!(f, " and {} more: {} % of {family}'s unicast addresses", self.more, self.percent)?;
        }
        match &self.through {
            Some((name, place)) => write!(f, ", through {name} {place} it"),
            None => Ok(()),
        }
    }
}

/// Returns the routes to the internet through `interface`, or through those above and below it; `None` without any.
pub fn way_out(root: &Path, routes: RouteTable, interface: &str, reach: RouteReach) -> Result<Option<WayOut>> {
    let table = routes().map_err(|e| {
        Error::Host(format!(
            "the routes of this host cannot be read ({e}), and {interface} may carry the default route; {UNCHECKED}"
        ))
    })?;
    let mut stack = vec![(interface.to_owned(), None)];
    stack.extend(beside(root, interface, "upper_")?.into_iter().map(|name| (name, Some("above"))));
    if reach == RouteReach::Send {
        let (below, mut beyond) = (beside(root, interface, "lower_")?, Vec::new());
        // The other end itself only passes frames to this host, which sends them nowhere by its default route.
        for name in std::iter::once(interface).chain(below.iter().map(String::as_str)) {
            if let Some(end) = peer(root, name)? {
                beyond.extend(beside(root, &end, "upper_")?);
            }
        }
        let siblings = siblings(root, interface)?;
        stack.extend(below.into_iter().map(|name| (name, Some("below"))));
        stack.extend(siblings.into_iter().map(|name| (name, Some("beside"))));
        stack.extend(beyond.into_iter().map(|name| (name, Some("at the other end of"))));
    }
    for (name, place) in stack {
        let Some(number) = number_in(root, &name, "ifindex")? else { continue };
        for v4 in [true, false] {
            let leads = |route: &Route| route.interface == number || route.interface == routes::ANY;
            let own: Vec<_> = table.iter().filter(|route| leads(route) && route.to.is_ipv4() == v4).collect();
            let wide = |routes: &[&Route]| {
                let (covered, all) = coverage(routes, v4);
                (covered * PART >= all).then_some((covered * 100 / all) as u32)
            };
            let Some(widest) = own.iter().min_by_key(|route| route.bits) else { continue };
            if let Some(percent) = wide(&own) {
                let more = if wide(&[widest]).is_some() { 0 } else { own.len() - 1 };
                let through = place.map(|place| (name, place));
                return Ok(Some(WayOut { route: **widest, more, percent, through }));
            }
        }
    }
    Ok(None)
}

/// Returns the names of all interfaces on one side of `interface`, the nearest first: `"upper_"` or `"lower_"`.
fn beside(root: &Path, interface: &str, side: &str) -> Result<Vec<String>> {
    Ok(along(root, interface, side, &|_| true)?.split_off(1))
}

/// Returns the name of `interface` and of those on one side of it, the nearest first, as far as `passes` is true of those before.
fn along(root: &Path, interface: &str, side: &str, passes: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let (mut found, mut at) = (vec![interface.to_owned()], 0);
    while let Some(name) = found.get(at) {
        at += 1;
        if !passes(name) {
            continue;
        }
        let all = names_in(&root.join("sys/class/net").join(name))?;
        let names = all.iter().filter_map(|entry| Some(entry.strip_prefix(side)?.to_owned()));
        let mut new: Vec<_> = names.filter(|name| !found.contains(name)).collect();
        new.sort();
        found.append(&mut new);
    }
    Ok(found)
}

/// Returns the names in a folder of interfaces, or of one of them; none if it does not exist.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let text = |name: OsString| name.into_string().map_err(|name| unknown(folder, &format!("{name:?} is not UTF-8")));
    match entries {
        Ok(entries) => entries.into_iter().map(|entry| text(entry.file_name())).collect(),
        Err(_) if !folder.is_dir() => Ok(Vec::new()),
        Err(error) => Err(unknown(folder, &error)),
    }
}

/// Returns the error for a file or folder that tells where frames go, and that cannot be read.
fn unknown(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::Host(format!("{}: {why}, so frames may reach the host's default route; {UNCHECKED}", path.display()))
}

/// Returns the names of the interfaces above the lower interface of each macvlan, macvtap or ipvlan by which frames leave without a tag:
/// `interface` itself, or one below it.
fn siblings(root: &Path, interface: &str) -> Result<Vec<String>> {
    let untagged = |name: &str| !has_tag(root, name);
    let mut ways = along(root, interface, "lower_", &untagged)?;
    ways.retain(|name| untagged(name));
    let mut siblings = Vec::new();
    for name in ways {
        let Some(link) = number_in(root, &name, "iflink")? else { continue };
        for lower in beside(root, &name, "lower_")? {
            if number_in(root, &lower, "ifindex")? == Some(link) {
                siblings.extend(beside(root, &lower, "upper_")?);
            }
        }
    }
    Ok(siblings)
}

/// Returns whether frames leave an interface with a tag or a header of its own (VLAN, VXLAN, port of a switch). The kernel states a type of
/// these, and of bridges and bonds, which add none; it states none of macvlans. Without a type there is no tag, and more is checked.
fn has_tag(root: &Path, interface: &str) -> bool {
    let text = fs::read_to_string(root.join("sys/class/net").join(interface).join("uevent")).unwrap_or_default();
    let mut kinds = text.lines().filter_map(|line| line.strip_prefix("DEVTYPE="));
    kinds.any(|kind| !["bridge", "bond"].contains(&kind))
}

/// Returns the name of the other end of a veth: two interfaces that name each other. `None` for other interfaces, and in another namespace.
pub fn other_end(root: &Path, interface: &str) -> Option<String> {
    peer(root, interface).ok().flatten()
}

/// Does the same; refuses what cannot be read.
fn peer(root: &Path, interface: &str) -> Result<Option<String>> {
    let (own, other) = (number_in(root, interface, "ifindex")?, number_in(root, interface, "iflink")?);
    // An interface with none below it names itself.
    if own.is_none() || other.is_none() || own == other {
        return Ok(None);
    }
    for name in names_in(&root.join("sys/class/net"))? {
        if number_in(root, &name, "ifindex")? == other && number_in(root, &name, "iflink")? == own {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns why a veth has no XDP, and the remedy: the kernel attaches programs to one if it has as many receive queues as its other end has
/// send queues.
pub fn too_few_queues(root: &Path, interface: &str) -> (String, String) {
    let count = |name: &str| queues::count(&root.join("sys/class/net"), name).ok();
    let peer = other_end(root, interface);
    let peer = peer.as_deref().and_then(|name| Some((name, count(name)?.1)));
    match (count(interface), peer) {
        (Some((has, _)), Some((peer, needed))) => (
            format!(
                "{interface} has fewer receive queues ({has}) than {peer}, its other end, has send queues ({needed})"
            ),
            format!("sudo ethtool -L {interface} rx {needed}; or sudo ethtool -L {peer} tx {has}"),
        ),
        _ => (
            format!("{interface} has fewer receive queues than its other end has send queues"),
            format!(
                "sudo ethtool -L {interface} rx N, with the number of the other end: ethtool -l PEER in its namespace"
            ),
        ),
    }
}

/// Returns the number in a file of an interface; none if there is no such interface, or no longer.
fn number_in(root: &Path, interface: &str, file: &str) -> Result<Option<u32>> {
    let folder = root.join("sys/class/net").join(interface);
    let path = folder.join(file);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        // The kernel's answers for an interface that is being removed.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) => return Ok(None),
        Err(_) if !folder.is_dir() => return Ok(None),
        Err(error) => return Err(unknown(&path, &error)),
    };
    let number = text.trim();
    number.parse().map(Some).map_err(|_| unknown(&path, &format!("\"{number}\" is not a number")))
}

/// Returns how many of the internet's unicast addresses these routes of one family cover together, and their total:
/// 224/3 of IPv4, 2000::/3 of IPv6, in units of the first 64 bits.
fn coverage(routes: &[&Route], v4: bool) -> (u128, u128) {
    let range = if v4 { (0, 0xe0 << 56) } else { (0x20 << 56, 0x40 << 56) };
    let mut spans: Vec<(u128, u128)> = routes.iter().map(|route| span(route)).collect();
    spans.sort_unstable();
    let (mut covered, mut at) = (0, range.0);
    for (from, to) in spans {
        let (from, to) = (from.max(at), to.min(range.1));
        if to > from {
            covered += to - from;
            at = to;
        }
    }
    (covered, range.1 - range.0)
}

/// Returns the first address of a route, and the first after it.
fn span(route: &Route) -> (u128, u128) {
    let first = match route.to {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 32,
        IpAddr::V6(ip) => u128::from(ip) >> 64,
    };
    (first, first + (1 << (64 - u32::from(route.bits).min(64))))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn route(text: &str, interface: u32) -> Route {
        let (to, bits) = text.split_once('/').unwrap();
        Route { to: to.parse().unwrap(), bits: bits.parse().unwrap(), table: 254, interface }
    }

    /// Files of interfaces: number, name, flags, and interfaces above.
    fn host(interfaces: &[(u32, &str, &str, &[&str])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join("sys/class/net").join(name);
        for (number, name, flags, uppers) in interfaces {
            fs::create_dir_all(folder(name)).unwrap();
            fs::write(folder(name).join("flags"), flags).unwrap();
            for file in ["ifindex", "iflink"] {
                fs::write(folder(name).join(file), format!("{number}\n")).unwrap();
            }
            for upper in *uppers {
                fs::create_dir_all(folder(name).join(format!("upper_{upper}"))).unwrap();
                fs::create_dir_all(folder(upper).join(format!("lower_{name}"))).unwrap();
            }
        }
        root
    }

    #[test]
    fn only_interfaces_that_are_up_and_lead_nowhere_else() {
        let root = host(&[
            (1, "eth0", "0x1003\n", &[]),
            (2, "eth1", "0x1003\n", &[]),
            (3, "down0", "0x1002\n", &[]),
            (4, "six0", "0x1003\n", &[]),
            (5, "tun0", "0x1003\n", &[]),
        ]);
        for (name, kind) in [("eth0", "1\n"), ("tun0", "65534\n")] {
            fs::write(root.path().join("sys/class/net").join(name).join("type"), kind).unwrap();
        }
        fs::write(root.path().join("sys/class/net/eth1/speed"), "10000\n").unwrap();
        fs::write(root.path().join("sys/class/net/six0/speed"), "-1\n").unwrap();
        let speed = |name| link_bps_in(root.path(), name);
        assert_eq!([speed("eth1"), speed("six0"), speed("eth0")], [Some(10_000_000_000), None, None]);
        let routes = || Ok(vec![route("0.0.0.0/0", 1), route("192.168.1.0/24", 2), route("::/0", 4)]);
        let check = |name: &str, allow| check_in(root.path(), &routes, name, allow).map_err(|e| e.to_string());
        assert_eq!(check("eth1", false), Ok(()));
        assert_eq!(check("eth0", true), Ok(()));
        for (name, part) in [
            ("eth0", "default route (0.0.0.0/0 in table main), so"),
            ("six0", "default route (::/0 in table main), so"),
            ("down0", "not up"),
            ("tun0", "no Ethernet frames (its type is 65534)"),
            ("eth9", "there is no interface"),
            ("../eth1", "there is no interface"),
            ("", "there is no interface"),
        ] {
            assert!(check(name, false).unwrap_err().contains(part), "{name}: {:?}", check(name, false));
        }
        let broken = || Err(io::Error::other("no netlink"));
        let blind = |allow| check_in(root.path(), &broken, "eth1", allow).map_err(|e| e.to_string());
        assert_eq!(blind(true), Ok(()));
        assert!(blind(false).unwrap_err().contains("no netlink"));
    }

    #[test]
    fn files_of_another_network_namespace_are_refused() {
        let root = host(&[(1, "lo", "0x9\n", &[]), (2, "eth0", "0x1003\n", &[]), (3, "tun0", "0x1003\n", &[])]);
        let folder = root.path().join("sys/class/net");
        fs::write(folder.join("bonding_masters"), "\n").unwrap();
        for (name, address) in [("lo", "00:00:00:00:00:00\n"), ("eth0", "02:fc:00:00:00:0a\n"), ("tun0", "\n")] {
            fs::write(folder.join(name).join("address"), address).unwrap();
        }
        let mut card = [0; link::ADDRESS_MAX];
        card[..6].copy_from_slice(&[0x02, 0xfc, 0, 0, 0, 0x0a]);
        let none = [0; link::ADDRESS_MAX];
        let of = |all: &[(&str, Identity)]| {
            all.iter().map(|(name, identity)| ((*name).to_owned(), *identity)).collect::<BTreeMap<_, _>>()
        };
        let own = [("lo", (1, none)), ("eth0", (2, card)), ("tun0", (3, none))];
        let check = |all: &[(&str, Identity)]| check_namespace_in(root.path(), &|| Ok(of(all)));
        assert!(check(&own).is_ok());
        for other in [
            // The number of another, the address of another, one more, none of that name.
            &[own[0], ("eth0", (5, card)), own[2]][..],
            &[own[0], ("eth0", (2, none)), own[2]],
            &[own[0], own[1], own[2], ("eth1", (4, none))],
            &[own[0]],
        ] {
            let error = check(other).unwrap_err();
            assert!(error.exit_code() == 3 && error.to_string().contains("ip netns exec"), "{error}");
        }
        let unmounted = tempfile::tempdir().unwrap();
        assert!(check_namespace_in(unmounted.path(), &|| Ok(of(&own))).is_err());
        // Without netlink the check of the routes decides.
        assert!(check_namespace_in(root.path(), &|| Err(io::Error::other("no netlink"))).is_ok());
        // One was added between both lists.
        let reads = std::cell::Cell::new(0);
        let growing = || {
            reads.set(reads.get() + 1);
            Ok(of(&own[..own.len().min(reads.get() + 1)]))
        };
        assert!(check_namespace_in(root.path(), &growing).is_ok());
        assert_eq!(reads.get(), 2);
    }

    #[test]
    fn an_eighth_of_the_internet_is_everywhere() {
        let root = host(&[(1, "eth0", "0x1003\n", &[])]);
        let wide = |texts: &[&str]| {
            let routes = || Ok(texts.iter().map(|text| route(text, 1)).collect());
            way_out(root.path(), &routes, "eth0", RouteReach::Send).unwrap().map(|way| way.to_string())
        };
        // Typical laboratory networks, including multicast.
        for texts in [
            &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/4", "224.0.0.0/3", "169.254.0.0/16"][..],
            &["fe80::/64", "fc00::/7", "ff00::/8", "2001:db8::/32", "::1/128"],
            &["10.0.0.0/8"; 99],
            &["64.0.0.0/4"],
        ] {
            assert_eq!(wide(texts), None, "{texts:?}");
        }
        for (texts, said) in [
            (&["0.0.0.0/1", "128.0.0.0/1"][..], "0.0.0.0/1 in table main"),
            (&["128.0.0.0/2"], "128.0.0.0/2 in table main"),
            (&["64.0.0.0/4", "80.0.0.0/4"], "64.0.0.0/4 in table main and 1 more: 14 % of IPv4's unicast addresses"),
            (&["10.0.0.0/8", "::/1", "8000::/1"], "::/1 in table main"),
            (&["2000::/3"], "2000::/3 in table main"),
        ] {
            assert_eq!(wide(texts).as_deref(), Some(said));
        }
    }

    #[test]
    fn routes_of_an_unnamed_interface_are_of_each() {
        let root = host(&[(1, "eth0", "0x1003\n", &[]), (2, "eth1", "0x1003\n", &[])]);
        let way = |text: &str| {
            let routes = || Ok(vec![route(text, routes::ANY), route("0.0.0.0/0", 1)]);
            way_out(root.path(), &routes, "eth1", RouteReach::Send).unwrap().map(|way| way.to_string())
        };
        let said = way("0.0.0.0/0").unwrap();
        assert!(said.contains("by a nexthop object") && !said.contains("through"), "{said}");
        assert_eq!(way("10.0.0.0/8"), None);
    }

    /// Bonds, bridges, VLANs, veths and macvlans above each other.
    fn stacked() -> tempfile::TempDir {
        let up = "0x1003\n";
        let root = host(&[
            (1, "eth0", up, &["bond0"]),
            (2, "bond0", up, &["vlan5", "br0"]),
            (3, "vlan5", up, &[]),
            (4, "br0", up, &[]),
            (5, "tap0", up, &["br0"]),
            (6, "veth0", up, &["vlan9"]),
            (7, "veth1", up, &["br0"]),
            (8, "vlan9", up, &[]),
            (9, "veth2", up, &[]),
            (10, "card0", up, &["mv0", "mv1", "vlan7"]),
            (11, "mv0", up, &["vlan3"]),
            (12, "mv1", up, &["br1", "vlan4"]),
            (13, "vlan7", up, &[]),
            (14, "vlan3", up, &[]),
            (15, "br1", up, &[]),
            (16, "vlan4", up, &["br2"]),
            (17, "br2", up, &[]),
        ]);
        let file = |name: &str, file: &str, text: String| {
            fs::write(root.path().join("sys/class/net").join(name).join(file), text).unwrap();
        };
        for name in ["vlan3", "vlan4", "vlan5", "vlan7", "vlan9"] {
            file(name, "uevent", format!("DEVTYPE=vlan\nINTERFACE={name}\n"));
        }
        for (name, number) in [("br1", 15), ("br2", 17)] {
            file(name, "uevent", format!("DEVTYPE=bridge\nINTERFACE={name}\n"));
            file(name, "iflink", format!("{number}\n"));
        }
        file("mv1", "uevent", "INTERFACE=mv1\nIFINDEX=12\n".to_owned());
        // The other end of the last one is in another namespace, where it has the number of another here.
        for (name, other) in [("eth0", 1), ("vlan5", 2), ("veth0", 7), ("veth1", 6), ("vlan9", 6), ("veth2", 7)] {
            file(name, "iflink", format!("{other}\n"));
        }
        for (name, lower) in [("mv0", 10), ("mv1", 10), ("vlan7", 10), ("vlan3", 11), ("vlan4", 12)] {
            file(name, "iflink", format!("{lower}\n"));
        }
        root
    }

    /// An interface is refused if it is not known where it leads. One that is gone leads nowhere.
    #[test]
    fn what_cannot_be_read_is_refused() {
        let way = |root: &tempfile::TempDir, name: &str, reach| way_out(root.path(), &|| Ok(Vec::new()), name, reach);
        let net = |root: &tempfile::TempDir| root.path().join("sys/class/net");
        let spoils: [fn(&Path) -> io::Result<()>; 3] = [
            |path| fs::write(path, "x\n"),
            |path| fs::remove_file(path),
            |path| fs::remove_file(path).and_then(|()| fs::create_dir(path)),
        ];
        for (name, file) in [
            ("eth0", "eth0/ifindex"),
            ("eth0", "vlan5/ifindex"),
            ("vlan5", "eth0/ifindex"),
            ("veth0", "veth0/iflink"),
            ("veth0", "veth1/ifindex"),
            ("mv1", "mv0/ifindex"),
            ("mv1", "mv1/iflink"),
        ] {
            for spoil in spoils {
                let root = stacked();
                assert_eq!(way(&root, name, RouteReach::Send).unwrap(), None, "{name}");
                spoil(&net(&root).join(file)).unwrap();
                let error = way(&root, name, RouteReach::Send).unwrap_err();
                let said = error.to_string();
                assert!(error.exit_code() == 3 && said.contains(file) && said.contains(UNCHECKED), "{name}: {said}");
            }
        }
        let root = stacked();
        fs::write(net(&root).join("veth0/iflink"), "x\n").unwrap();
        assert_eq!(way(&root, "veth0", RouteReach::Take).unwrap(), None, "the other end does not matter");
        fs::remove_dir_all(net(&root).join("vlan5")).unwrap();
        assert_eq!(way(&root, "eth0", RouteReach::Send).unwrap(), None, "what is gone leads nowhere");
        fs::create_dir(net(&root).join("eth0").join(OsStr::from_bytes(b"upper_\xff"))).unwrap();
        let said = way(&root, "eth0", RouteReach::Send).unwrap_err().to_string();
        assert!(said.contains("UTF-8"), "{said}");
    }

    #[test]
    fn interfaces_above_and_below_count() {
        let root = stacked();
        let way = |name: &str, at: u32, reach| {
            let routes = || Ok(vec![route("0.0.0.0/0", at)]);
            let way = way_out(root.path(), &routes, name, reach).unwrap();
            way.map(|way| way.through.map_or("itself".to_owned(), |(name, place)| format!("{name} {place}")))
        };
        for (name, at, said) in [
            ("eth0", 1, Some("itself")),
            ("eth0", 2, Some("bond0 above")),
            ("eth0", 3, Some("vlan5 above")),
            ("tap0", 4, Some("br0 above")),
            ("vlan5", 1, Some("eth0 below")),
            ("br0", 2, Some("bond0 below")),
            ("veth0", 4, Some("br0 at the other end of")),
            ("vlan9", 4, Some("br0 at the other end of")),
            ("veth1", 4, Some("br0 above")),
            ("veth0", 7, None),
            ("veth2", 4, None),
            // Another VLAN's route belongs to another cable.
            ("vlan5", 4, None),
            ("tap0", 1, None),
            ("vlan7", 11, None),
            // Macvlans have no tag.
            ("mv0", 11, Some("itself")),
            ("mv1", 2, None),
            ("mv1", 10, Some("card0 below")),
            ("mv1", 11, Some("mv0 beside")),
            ("mv1", 14, Some("vlan3 beside")),
            ("mv0", 14, Some("vlan3 above")),
            // Nor has a bridge above one, unless it is above a VLAN.
            ("br1", 10, Some("card0 below")),
            ("br1", 11, Some("mv0 beside")),
            ("br1", 14, Some("vlan3 beside")),
            ("vlan4", 11, None),
            ("br2", 11, None),
            ("br2", 12, Some("mv1 below")),
        ] {
            assert_eq!(way(name, at, RouteReach::Send).as_deref(), said, "{name} {at}");
        }
        assert_eq!(way("eth0", 3, RouteReach::Take).as_deref(), Some("vlan5 above"));
        assert_eq!(way("vlan5", 1, RouteReach::Take), None, "the parent keeps its own frames");
        assert_eq!(way("mv1", 11, RouteReach::Take), None, "the other one keeps its own frames");
        assert_eq!(way("veth0", 4, RouteReach::Take), None, "the other end keeps its own frames");
    }
}
