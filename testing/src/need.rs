//! Requirements of tests that a host may lack. `testing/needs.tsv` lists the same names for scripts.

/// A requirement of tests that a host may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Network namespaces with veth pairs.
    Netns,
    /// AF_XDP sockets and XDP programs on veth pairs.
    Xdp,
    /// Two idle cores.
    Cores,
    /// IPv6 in the kernel.
    Ipv6,
    /// Bonds, VLANs, macvlans and next-hop objects.
    Links,
    /// A mount namespace with a small file system.
    Mounts,
    /// User namespaces for users without rights.
    Userns,
    /// The program `setpriv`, which drops capabilities.
    Setpriv,
    /// An SMT solver.
    Z3,
    /// An integer-programming solver.
    Cbc,
    /// A headless browser.
    Browser,
    /// The notebooks' Python packages.
    Notebooks,
    /// A launcher of processes.
    Mpirun,
    /// Ray, a task runner for clusters.
    Ray,
    /// Slurm, a job scheduler for clusters.
    Slurm,
    /// tshark and the programs packaged with it.
    Tshark,
    /// tcpdump.
    Tcpdump,
    /// tcpreplay and the programs packaged with it.
    Tcpreplay,
    /// Python 3.11 or newer.
    Python,
    /// Fonts.
    Fonts,
    /// Scapy, in Debian's Python.
    Scapy,
    /// libpcap.
    Libpcap,
    /// ethtool.
    Ethtool,
    /// tmux, as the terminal for the full-screen display.
    Tmux,
    /// Verilator.
    Verilator,
    /// Icarus Verilog, and cocotb from a package index.
    Cocotb,
    /// DPDK's libraries and headers.
    Dpdk,
    /// Open vSwitch.
    Ovs,
    /// The kernel's token bucket and its bridge.
    Tbf,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 29] = [
        Need::Netns,
        Need::Xdp,
        Need::Cores,
        Need::Ipv6,
        Need::Links,
        Need::Mounts,
        Need::Userns,
        Need::Setpriv,
        Need::Z3,
        Need::Cbc,
        Need::Browser,
        Need::Notebooks,
        Need::Mpirun,
        Need::Ray,
        Need::Slurm,
        Need::Tshark,
        Need::Tcpdump,
        Need::Tcpreplay,
        Need::Python,
        Need::Fonts,
        Need::Scapy,
        Need::Libpcap,
        Need::Ethtool,
        Need::Tmux,
        Need::Verilator,
        Need::Cocotb,
        Need::Dpdk,
        Need::Ovs,
        Need::Tbf,
    ];

    /// The name in `PKTGEN_REQUIRE`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns what provides it.
    pub fn provided_by(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Need::Netns => ("netns", "root and iproute2 (scripts/install-tools)"),
            Need::Xdp => ("xdp", "root, and a kernel with AF_XDP and XDP on veth (5.18 for live frames)"),
            Need::Cores => ("cores", "two cores that do nothing else meanwhile"),
            Need::Ipv6 => ("ipv6", "a kernel with IPv6 (boot without ipv6.disable=1)"),
            Need::Links => ("links", "the kernel's modules bonding, 8021q and macvlan, and next hops as objects"),
            Need::Mounts => ("mounts", "root (CAP_SYS_ADMIN) and unshare of util-linux"),
            Need::Userns => ("userns", "unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)"),
            Need::Setpriv => ("setpriv", "setpriv of util-linux"),
            Need::Z3 => ("z3", "apt-get install z3 (scripts/install-tools)"),
            Need::Cbc => ("cbc", "apt-get install coinor-cbc (scripts/install-tools)"),
            Need::Browser => ("browser", "apt-get install chromium (scripts/install-tools)"),
            Need::Notebooks => {
                ("notebooks", "python3-venv (scripts/install-tools) and a reachable package index for pip")
            }
            Need::Mpirun => ("mpirun", "apt-get install openmpi-bin (scripts/install-tools)"),
            Need::Ray => ("ray", "a reachable package index for pip"),
            Need::Slurm => ("slurm", "root, and apt-get install slurm-wlm munge"),
            Need::Tshark => ("tshark", "apt-get install tshark (scripts/install-tools)"),
            Need::Tcpdump => ("tcpdump", "apt-get install tcpdump (scripts/install-tools)"),
            Need::Tcpreplay => ("tcpreplay", "apt-get install tcpreplay (scripts/install-tools)"),
            Need::Python => ("python", "Python 3.11 or newer (scripts/install-tools)"),
            Need::Fonts => ("fonts", "apt-get install fontconfig fonts-dejavu-core (scripts/install-tools)"),
            Need::Scapy => ("scapy", "apt-get install python3-scapy (scripts/install-tools)"),
            Need::Libpcap => ("libpcap", "apt-get install libpcap-dev (scripts/install-tools)"),
            Need::Ethtool => ("ethtool", "apt-get install ethtool (scripts/install-tools)"),
            Need::Tmux => ("tmux", "apt-get install tmux (scripts/install-tools)"),
            Need::Verilator => ("verilator", "apt-get install verilator (scripts/install-tools)"),
            Need::Cocotb => {
                ("cocotb", "apt-get install iverilog (devices/install) and a reachable package index for pip")
            }
            Need::Dpdk => ("dpdk", "apt-get install libdpdk-dev (devices/install)"),
            Need::Ovs => ("ovs", "root, and apt-get install openvswitch-switch (devices/install)"),
            Need::Tbf => ("tbf", "root, and a kernel with the scheduler tbf and bridges"),
        }
    }

    /// Returns the need to which a program belongs, for example `Need::Tshark` for `editcap`.
    pub fn of_program(program: &str) -> Option<Need> {
        Some(match program.rsplit('/').next().unwrap_or(program) {
            "tshark" | "capinfos" | "editcap" | "mergecap" | "dumpcap" | "text2pcap" => Need::Tshark,
            "tcpdump" => Need::Tcpdump,
            "tcpreplay" | "tcprewrite" => Need::Tcpreplay,
            other => return Need::ALL.into_iter().find(|need| need.name() == other),
        })
    }
}

/// Parses `text`, the value of `PKTGEN_REQUIRE`, into needs. The error lists the existing names.
pub(crate) fn parse(text: &str) -> Result<Vec<Need>, String> {
    let mut all = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match Need::ALL.into_iter().find(|need| need.name() == name) {
            Some(need) => all.push(need),
            None if name == "all" => all.extend(Need::ALL),
            None => {
                let names = Need::ALL.map(Need::name).join(", ");
                return Err(format!("PKTGEN_REQUIRE: no such need: {name:?}; needs are {names}, or all"));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_the_same_needs() {
        let table: String = Need::ALL.iter().map(|need| format!("{}\t{}\n", need.name(), need.provided_by())).collect();
        assert!(include_str!("../needs.tsv") == table, "testing/needs.tsv must be\n{table}");
    }

    #[test]
    fn names_are_known_or_refused_with_those_that_are() {
        assert_eq!(parse(" netns, z3,"), Ok(vec![Need::Netns, Need::Z3]));
        assert_eq!(parse("all").map(|all| all.len()), Ok(Need::ALL.len()));
        assert_eq!(parse(""), Ok(Vec::new()));
        let why = parse("netns,xpd").unwrap_err();
        assert!(why.contains("\"xpd\"") && why.contains("xdp") && why.contains("tmux"), "{why}");
    }

    #[test]
    fn programs_stand_for_what_they_come_with() {
        assert_eq!(Need::of_program("/usr/bin/editcap"), Some(Need::Tshark));
        assert_eq!(Need::of_program("tmux"), Some(Need::Tmux));
        assert_eq!(Need::of_program("vi"), None);
    }
}
