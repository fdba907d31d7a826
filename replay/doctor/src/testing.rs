//! A made-up host for tests: a good one, of which a test spoils what it is about.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;

use pktgen_core::{Error, Result};
use tempfile::TempDir;

use super::{Card, Check, Finding, Host, HostQueries, Level, Offloads, Spread, StampSupport, View};
use pktgen_realtime::transport::routes::Route;
use pktgen_realtime::transport::{Stamping, XdpFacts};

/// What the made-up kernel says.
#[derive(Clone)]
pub(super) struct MadeUp {
    pub(super) card: Card,
    pub(super) clock_read_ns: f64,
    pub(super) cores: usize,
    pub(super) refusal: Option<String>,
    pub(super) routes: Vec<Route>,
    /// The files are those of another network namespace.
    pub(super) elsewhere: bool,
}

impl HostQueries for MadeUp {
    fn card(&self, _interface: &str) -> Card {
        self.card.clone()
    }
    fn routes(&self) -> io::Result<Vec<Route>> {
        Ok(self.routes.clone())
    }
    fn check_namespace(&self) -> Result<()> {
        match self.elsewhere {
            false => Ok(()),
            true => Err(Error::Host("/sys is of another network namespace; use ip netns exec".into())),
        }
    }
    fn clock_read_ns(&self) -> f64 {
        self.clock_read_ns
    }
    fn cores(&self) -> usize {
        self.cores
    }
    fn bind(&self, interface: &str) -> Result<String> {
        match &self.refusal {
            None => Ok(format!("af_xdp {interface} queue 0: copy")),
            Some(message) => Err(Error::Host(message.clone())),
        }
    }
}

/// A made-up host.
pub(super) struct Fixture {
    root: TempDir,
    pub(super) answers: MadeUp,
    pub(super) probe: bool,
    named: Vec<String>,
}

const GOOD: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.18.2\n"),
    ("proc/net/protocols", "protocol  size sockets\nXDP       1088      0\nUDP       1344      2\n"),
    ("sys/kernel/btf/vmlinux", ""),
    ("proc/self/status", "Name:\tpktgen\nCapEff:\t000001ffffffffff\n"),
    ("proc/self/uid_map", "         0          0 4294967295\n"),
    ("proc/self/limits", "Limit Soft Hard Units\nMax locked memory         8388608   8388608  bytes\n"),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/cpu/isolated", "2-7\n"),
    ("sys/devices/system/cpu/smt/active", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
    ("sys/class/ptp/ptp0/clock_name", "ice-0000:17:00.0-clk\n"),
    ("dev/ptp0", ""),
    ("proc/sys/net/core/bpf_jit_enable", "1\n"),
    ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
    ("proc/sys/net/core/rmem_max", "33554432\n"),
    ("proc/sys/net/core/wmem_max", "33554432\n"),
    ("sys/class/net/lo/flags", "0x9\n"),
    ("sys/class/net/lo/ifindex", "1\n"),
    ("sys/class/net/lo/iflink", "1\n"),
    ("sys/class/net/bonding_masters", "\n"),
    ("sys/class/net/eth1/flags", "0x1003\n"),
    ("sys/class/net/eth1/carrier", "1\n"),
    ("sys/class/net/eth1/speed", "100000\n"),
    ("sys/class/net/eth1/duplex", "full\n"),
    ("sys/class/net/eth1/mtu", "1500\n"),
    ("sys/class/net/eth1/ifindex", "2\n"),
    ("sys/class/net/eth1/iflink", "2\n"),
    ("sys/class/net/eth1/device/numa_node", "0\n"),
    ("sys/class/net/eth1/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth1/queues/rx-1/rps_cpus", "0\n"),
    ("sys/class/net/eth1/queues/tx-0/xps_cpus", "0\n"),
    ("sys/class/net/eth1/queues/tx-1/xps_cpus", "0\n"),
    ("sys/class/net/eth1/queues/tx-2/xps_cpus", "0\n"),
];

impl Fixture {
    /// A host with which nothing is wrong.
    pub(super) fn good() -> Self {
        let on = Some(true);
        let offloads = Offloads {
            gro: on,
            lro: Some(false),
            gso: on,
            tso: on,
            receive_checksum: on,
            send_checksum: on,
            pause: Some(false),
            receive_ring: Some((4096, 4096)),
        };
        let card = Card {
            driver: None,
            offloads,
            stamps: Some(StampSupport { sent: true, received: true, every: true, clock: Some(0) }),
            stamping: Some(Stamping { sent: true, filter: 1 }),
            spread: Spread { table: vec![0, 1], fields: Some(0xf0) },
            xdp: Some(XdpFacts { driver: true, takes_redirected: true, zero_copy: true, ..XdpFacts::default() }),
        };
        let routes = Vec::new();
        let answers = MadeUp { card, clock_read_ns: 25.0, cores: 8, refusal: None, routes, elsewhere: false };
        let root = tempfile::tempdir().expect("a temporary folder");
        let mut fixture = Fixture { root, answers, probe: false, named: Vec::new() };
        for (path, text) in GOOD {
            fixture = fixture.file(path, text);
        }
        symlink("../../../../bus/pci/drivers/ice", fixture.root.path().join("sys/class/net/eth1/device/driver"))
            .expect("a link");
        fixture
    }

    /// With another file, or another text in it.
    pub(super) fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("writable");
        self
    }

    /// With more interfaces, which are as `eth1`.
    pub(super) fn with_alike(self, names: &[&str]) -> Self {
        for name in names {
            symlink("eth1", self.root.path().join("sys/class/net").join(name)).expect("a link");
        }
        self
    }

    /// With a default route through the interface of this number.
    pub(super) fn default_route(mut self, interface: u32) -> Self {
        self.answers.routes.push(Route { to: Ipv4Addr::UNSPECIFIED.into(), bits: 0, table: 254, interface });
        self
    }

    /// Without a file or folder.
    pub(super) fn remove(self, path: &str) -> Self {
        let path = self.root.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it was there");
        self
    }

    /// Somebody asks for these interfaces.
    pub(super) fn asking(mut self, names: &[&str]) -> Self {
        self.named = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// The host.
    pub(super) fn host(&self) -> Host {
        Host::new(self.root.path(), Box::new(self.answers.clone()))
    }

    /// What a check finds.
    pub(super) fn look(&self, check: &dyn Check) -> Vec<Finding> {
        let host = self.host();
        check.look(&View::new(&host, self.named.clone(), self.probe))
    }
}

/// The level of the finding about `subject`, of which there must be one.
pub(super) fn level(findings: &[Finding], subject: &str) -> Level {
    let mut about = findings.iter().filter(|finding| finding.subject == subject);
    match (about.next(), about.next()) {
        (Some(finding), None) => finding.level,
        _ => panic!("not one finding about {subject}: {findings:?}"),
    }
}
