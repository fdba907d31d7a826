//! Runs tests in a network namespace of their own: the test starts itself again inside one, as another process, so that
//! the kernel removes the namespace, its interfaces and its programs with that process, however it ends.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use pktgen_testing::{Need, alone, skip};

/// Hang guard in seconds: no test takes as long on a working machine.
const LONGEST: &str = "900";
/// Interfaces of the two cables, in the order of `transport.interfaces`.
pub const FOUR: [&str; 4] = ["pgw0", "pgd0", "pgd1", "pgs0"];

/// Runs `body` inside a namespace, where `test` is a test of the module `path`; skips it with a reason if that is
/// impossible. Runs one test at a time: each occupies the machine, and is cleaned up only when its process ends.
pub fn in_namespace(path: &str, test: &str, body: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    if alone::is_inside() {
        return body();
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // /sys shows the namespace in which it was mounted.
    let enter = ["unshare", "--net", "--mount", "sh", "-c", "mount -t sysfs none /sys && exec \"$@\"", "sh"];
    let why_not = match Command::new("unshare").args(&enter[1..]).args(["ip", "link", "show", "lo"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare does not run: {error}")),
    };
    if let Some(why) = why_not {
        return skip(Need::Netns, &alone::full_name(path, test), format!("no network namespace can be made: {why}"));
    }
    alone::again(&[&["timeout", LONGEST], &enter[..]].concat(), Path::new("."), &alone::full_name(path, test));
}

/// Creates the two cables with this MTU and, for both ends of each, more arguments of `ip link add`.
pub fn cables(mtu: usize, more: &str) {
    for which in ["all", "default"] {
        // Without IPv6 the kernel sends no packets of its own.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
    for pair in FOUR.chunks(2) {
        ip(&format!("link add {} mtu {mtu} {more} type veth peer name {} mtu {mtu} {more}", pair[0], pair[1]));
    }
    FOUR.iter().for_each(|interface| _ = ip(&format!("link set {interface} up")));
}

/// Runs `ip` and returns its output. Must be called only inside a namespace.
pub fn ip(args: &str) -> String {
    assert!(alone::is_inside(), "ip {args}: outside of a namespace of ours");
    let output = Command::new("ip").args(args.split_ascii_whitespace()).output().expect("iproute2");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns whether an XDP program is attached to any of the four interfaces.
pub fn any_program_attached() -> bool {
    ip("-d link show").contains("prog/xdp")
}
