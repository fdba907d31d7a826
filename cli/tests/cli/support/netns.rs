//! Network namespaces joined by veth pairs, for tests: made by the test, removed with it.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An interface: its namespace and name.
type End<'a> = (&'a str, &'a str);

/// Returns a name for namespaces, or the first part of their names. Those that a killed process of the same number left have others.
pub fn new_name(tag: &str) -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("pktgen-{tag}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let is_of =
            |other: &str| other.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let mut others = std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
        if !others.any(|other| other.file_name().to_str().is_some_and(is_of)) {
            return name;
        }
    }
}

/// Namespaces; removed when it goes out of scope.
pub struct Net {
    tag: String,
    spaces: Vec<String>,
}

impl Net {
    /// Makes namespaces with these names and cables. An error gives the reason why this is impossible.
    pub fn make(tag: &str, spaces: &[&str], cables: &[(End, End)]) -> Result<Net, String> {
        let mut net = Net { tag: new_name(tag), spaces: Vec::new() };
        for space in spaces {
            ip(&["netns", "add", &net.name(space)])?;
            net.spaces.push((*space).to_owned());
        }
        for ((a_space, a), (b_space, b)) in cables {
            let (a_space, b_space) = (net.name(a_space), net.name(b_space));
            ip(&["link", "add", a, "netns", &a_space, "type", "veth", "peer", "name", b, "netns", &b_space])?;
            for (space, interface) in [(&a_space, a), (&b_space, b)] {
                // Without IPv6 the kernel sends nothing of its own.
                let quiet = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
                let _ = Command::new("ip").args(["netns", "exec", space, "sysctl", "-qw", &quiet]).output();
                ip(&["-n", space, "link", "set", interface, "up"])?;
            }
            // The kernel takes a moment to see the other end.
            for (space, interface) in [(&a_space, a), (&b_space, b)] {
                let up =
                    || ip(&["-n", space, "-o", "link", "show", interface]).is_ok_and(|said| said.contains("LOWER_UP"));
                for _ in 0..100 {
                    if up() {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
        }
        Ok(net)
    }

    fn name(&self, space: &str) -> String {
        format!("{}-{space}", self.tag)
    }

    /// Sets the MTU of an interface.
    pub fn set_mtu(&self, space: &str, interface: &str, mtu: &str) {
        ip(&["-n", &self.name(space), "link", "set", interface, "mtu", mtu]).expect("an MTU that veth takes");
    }

    /// Takes an interface `up` or `down`.
    pub fn set_state(&self, space: &str, interface: &str, state: &str) {
        ip(&["-n", &self.name(space), "link", "set", interface, state]).expect("a state of an interface");
    }

    /// Packets that an interface has sent.
    pub fn sent(&self, space: &str, interface: &str) -> u64 {
        let said = ip(&["-n", &self.name(space), "-s", "link", "show", interface]).expect("counters of an interface");
        let line =
            said.lines().skip_while(|line| !line.trim_start().starts_with("TX:")).nth(1).expect("a line of counters");
        line.split_whitespace().nth(1).and_then(|packets| packets.parse().ok()).expect("a count of packets")
    }

    /// Joins interfaces of a namespace by a bridge, which floods multicast frames to all of them.
    pub fn bridge(&self, space: &str, bridge: &str, interfaces: &[&str]) -> Result<(), String> {
        let space = self.name(space);
        ip(&["-n", &space, "link", "add", "name", bridge, "type", "bridge", "mcast_snooping", "0"])?;
        for interface in interfaces {
            ip(&["-n", &space, "link", "set", interface, "master", bridge])?;
        }
        ip(&["-n", &space, "link", "set", bridge, "up"]).map(|_| ())
    }

    /// Returns the prefix of a command that runs inside.
    pub fn inside(&self, space: &str) -> Vec<String> {
        ["ip", "netns", "exec"].into_iter().map(str::to_owned).chain([self.name(space)]).collect()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", &self.name(space)]).output();
        }
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(args).output().map_err(|e| format!("ip does not run: {e}"))?;
    let said = || format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(said()) }
}
