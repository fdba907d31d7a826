//! Where traffic must not go: before an interface is opened, it is looked at.

use std::fs;
use std::path::Path;

use pktgen_generator::{Error, Result};

/// Flag of an interface that is up.
const IFF_UP: u32 = 1;

/// Refuses an interface that does not exist, is not up, or carries the host's default route: what is sent there could
/// leave for anywhere.
pub(super) fn check(interface: &str, allow_default_route: bool) -> Result<()> {
    check_in(Path::new("/"), interface, allow_default_route)
}

/// What the interface says that its link carries, in bit/s; none if it does not know.
pub(super) fn link_bps(interface: &str) -> Option<u64> {
    link_bps_in(Path::new("/"), interface)
}

fn link_bps_in(root: &Path, interface: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("sys/class/net").join(interface).join("speed")).ok()?;
    // In Mbit/s; -1 where it is unknown.
    text.trim().parse::<u64>().ok().filter(|mbps| *mbps > 0).map(|mbps| mbps * 1_000_000)
}

pub(crate) fn check_in(root: &Path, interface: &str, allow_default_route: bool) -> Result<()> {
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
    if !allow_default_route && default_routes(root).iter().any(|carrier| carrier == interface) {
        return Err(Error::Host(format!(
            "interface {interface} carries the host's default route, so a test could flood a network; use another, or set \
             transport.allow_default_route = true if that is what you want"
        )));
    }
    Ok(())
}

/// Does the interface carry the host's default route?
pub(super) fn carries_default_route(interface: &str) -> bool {
    default_routes(Path::new("/")).iter().any(|carrier| carrier == interface)
}

/// Interfaces with a default route, of IPv4 or IPv6.
pub(crate) fn default_routes(root: &Path) -> Vec<String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut carriers = Vec::new();
    // Columns: interface, destination, ..., mask in the eighth.
    for line in read("proc/net/route").lines().skip(1) {
        let columns: Vec<_> = line.split_whitespace().collect();
        if columns.len() > 7 && columns[1] == "00000000" && columns[7] == "00000000" {
            carriers.push(columns[0].to_owned());
        }
    }
    // Columns: destination, its length, ..., interface last. The loopback's entry is the kernel's "unreachable".
    for line in read("proc/net/ipv6_route").lines() {
        let columns: Vec<_> = line.split_whitespace().collect();
        if let [destination, "00", .., interface] = columns[..]
            && destination.bytes().all(|b| b == b'0')
            && interface != "lo"
        {
            carriers.push(interface.to_owned());
        }
    }
    carriers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interfaces_that_are_up_and_lead_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        for (name, flags) in [("eth0", "0x1003\n"), ("eth1", "0x1003\n"), ("down0", "0x1002\n"), ("six0", "0x1003\n")] {
            let folder = root.path().join("sys/class/net").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("flags"), flags).unwrap();
        }
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\neth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
        fs::create_dir_all(root.path().join("proc/net")).unwrap();
        fs::write(root.path().join("proc/net/route"), routes).unwrap();
        let zeros = "0".repeat(32);
        let six = format!(
            "{zeros} 00 {zeros} 00 {zeros} 00000400 1 0 3 six0\n{zeros} 00 {zeros} 00 {zeros} ffffffff 1 0 200200 lo\n"
        );
        fs::write(root.path().join("proc/net/ipv6_route"), six).unwrap();
        fs::write(root.path().join("sys/class/net/eth1/speed"), "10000\n").unwrap();
        fs::write(root.path().join("sys/class/net/six0/speed"), "-1\n").unwrap();
        let speed = |name| link_bps_in(root.path(), name);
        assert_eq!([speed("eth1"), speed("six0"), speed("eth0")], [Some(10_000_000_000), None, None]);
        let check = |name: &str, allow| check_in(root.path(), name, allow).map_err(|e| e.to_string());
        assert_eq!(check("eth1", false), Ok(()));
        assert_eq!(check("eth0", true), Ok(()));
        for (name, part) in [
            ("eth0", "default route"),
            ("six0", "default route"),
            ("down0", "not up"),
            ("eth9", "there is no interface"),
            ("../eth1", "there is no interface"),
            ("", "there is no interface"),
        ] {
            assert!(check(name, false).unwrap_err().contains(part), "{name}");
        }
    }
}
