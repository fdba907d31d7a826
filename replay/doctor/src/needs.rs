//! What a transport needs of a host, and which of them work here.

use super::capabilities::{OUTSIDE, given, in_user_namespace};
use super::host::{Capability, Host};
use super::{Finding, Level, View, kernel, memlock, veth, xdp};
use pktgen_realtime::transport::{TRANSPORTS, Transport, safety};

const NAME: &str = "transport";

/// Needs of a transport.
pub(super) struct Needs {
    /// Of each of these at least one.
    capabilities: &'static [&'static [Capability]],
    /// The first kernel that has what it uses.
    kernel: (u32, u32),
    /// Sockets of AF_XDP: their memory is locked, and the driver needs XDP.
    pub(super) af_xdp: bool,
    /// Interfaces of this host.
    pub(super) interfaces: bool,
}

const RAW: &[Capability] = &[Capability::NetRaw];
const ADMIN: &[Capability] = &[Capability::NetAdmin];
const BPF: &[Capability] = &[Capability::Bpf, Capability::SysAdmin];
const SYS_ADMIN: &[Capability] = &[Capability::SysAdmin];

/// Of those that need privileges, what they need.
const PRIVILEGED: &[(&str, Needs)] = &[
    ("af_packet", Needs { capabilities: &[RAW], kernel: (3, 14), af_xdp: false, interfaces: true }),
    ("af_xdp", Needs { capabilities: &[RAW, ADMIN, BPF], kernel: (5, 9), af_xdp: true, interfaces: true }),
    ("xdp_live", Needs { capabilities: &[RAW, ADMIN, SYS_ADMIN], kernel: (5, 18), af_xdp: true, interfaces: true }),
];
const NOTHING: Needs = Needs { capabilities: &[], kernel: (0, 0), af_xdp: false, interfaces: false };
/// Of one that is not in the table.
const ROOT: Needs = Needs { capabilities: &[RAW, ADMIN, SYS_ADMIN], kernel: (0, 0), af_xdp: false, interfaces: true };

impl Needs {
    /// Of this transport.
    pub(super) fn of(transport: &dyn Transport) -> &'static Needs {
        let listed = PRIVILEGED.iter().find(|(name, _)| *name == transport.name()).map(|(_, needs)| needs);
        listed.unwrap_or(if transport.capabilities().privileged { &ROOT } else { &NOTHING })
    }

    /// What is missing here for this many ports, each with its remedy. Nothing of interfaces.
    pub(super) fn missing(&self, host: &Host, ports: usize) -> Vec<(String, String)> {
        let mut missing = Vec::new();
        for any in self.capabilities {
            if !any.iter().any(|capability| host.may(*capability)) {
                let names: Vec<_> = any.iter().map(|capability| capability.name()).collect();
                missing.push((format!("{} is missing", names.join(" or ")), given(host)));
            }
        }
        if host.kernel().is_some_and(|version| version < self.kernel) {
            let (major, minor) = self.kernel;
            let why = format!("the kernel is older than {major}.{minor}");
            missing.push((why, format!("install Linux {major}.{minor} or later")));
        }
        if self.af_xdp && kernel::has_af_xdp(host) == Some(false) {
            let remedy = "use a kernel built with CONFIG_XDP_SOCKETS=y".to_owned();
            missing.push(("the kernel has no AF_XDP".to_owned(), remedy));
        }
        if self.af_xdp && in_user_namespace(host) {
            let why = "this is a user namespace, and BPF asks for capabilities of the host itself".to_owned();
            missing.push((why, OUTSIDE.to_owned()));
        }
        if self.af_xdp && !memlock::suffices(host, ports) {
            let why = format!("too little memory may be locked for {ports} ports");
            missing.push((why, memlock::remedy_here(host, ports)));
        }
        missing
    }
}

/// A finding for every transport: does it work here?
pub fn transports(view: &View<'_>) -> Vec<Finding> {
    TRANSPORTS.iter().map(|transport| of(view, *transport)).collect()
}

fn of(view: &View<'_>, transport: &dyn Transport) -> Finding {
    let needs = Needs::of(transport);
    let missing =
        needs.missing(view.host, if needs.interfaces { pktgen_realtime::transport::End::ALL.len() } else { 0 });
    if !missing.is_empty() {
        let (mut why, mut remedies): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
        why.dedup();
        remedies.dedup();
        return Finding::new(NAME, transport.name(), Level::Cannot, "not usable")
            .why(why.join(", "))
            .remedy(remedies.join("; "));
    }
    if !needs.interfaces {
        return Finding::new(NAME, transport.name(), Level::Ok, "usable");
    }
    let fit = view.present().filter(|name| is_fit(view.host, needs, name));
    let fit: Vec<_> = fit.map(|name| format!("{name}{}", condition(view.host, transport, name))).collect();
    match fit.is_empty() {
        false => Finding::new(NAME, transport.name(), Level::Ok, format!("usable, on {}", fit.join(", "))),
        true => Finding::new(NAME, transport.name(), Level::Note, "usable, but on none of these interfaces")
            .why(format!(
                "it needs Ethernet interfaces that are up and connected, without the default route{}",
                if needs.af_xdp { ", with XDP in the driver" } else { "" }
            ))
            .remedy("sudo ip link add w0 type veth peer name d0; sudo ip link set w0 up; sudo ip link set d0 up"),
    }
}

/// Returns the condition on which workers send on it; empty for most interfaces. A veth takes live frames if its other end gets a program by the run.
fn condition(host: &Host, transport: &dyn Transport, interface: &str) -> &'static str {
    let drops = transport.name() == "xdp_live" && xdp::drops_redirected(host.answers().card(interface).xdp);
    match (drops, veth::is_veth(host, interface)) {
        (false, _) => "",
        (true, true) => " (sends if its other end is in the run, too, or has GRO)",
        (true, false) => " (receives only)",
    }
}

fn is_fit(host: &Host, needs: &Needs, interface: &str) -> bool {
    safety::check_in(host.root(), &|| host.answers().routes(), interface, false).is_ok()
        && host.of_interface(interface, "carrier").is_none_or(|carrier| carrier != "0")
        && (!needs.af_xdp || xdp::has_driver_mode(host.answers().card(interface).xdp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn levels(fixture: &Fixture) -> Vec<(String, Level)> {
        let host = fixture.host();
        transports(&View::new(&host, Vec::new(), false)).into_iter().map(|f| (f.subject, f.level)).collect()
    }

    fn level(fixture: &Fixture, name: &str) -> Level {
        levels(fixture).into_iter().find(|(subject, _)| subject == name).expect("listed").1
    }

    #[test]
    fn every_privileged_transport_says_what_it_needs() {
        for transport in TRANSPORTS.iter().filter(|transport| transport.capabilities().privileged) {
            let listed = PRIVILEGED.iter().any(|(name, _)| *name == transport.name());
            assert!(listed, "{}: say in PRIVILEGED what it needs", transport.name());
        }
    }

    #[test]
    fn on_a_good_host_all_work() {
        let all = levels(&Fixture::good());
        assert_eq!(all.len(), TRANSPORTS.len());
        assert!(all.iter().all(|(_, level)| *level == Level::Ok), "{all:?}");
    }

    #[test]
    fn without_privileges_some_work() {
        let fixture = Fixture::good().file("proc/self/status", "CapEff:\t0\n");
        for transport in TRANSPORTS {
            let expected = if transport.capabilities().privileged { Level::Cannot } else { Level::Ok };
            assert_eq!(level(&fixture, transport.name()), expected, "{}", transport.name());
        }
    }

    #[test]
    fn each_lacks_its_own() {
        // CAP_NET_RAW, CAP_NET_ADMIN, CAP_IPC_LOCK and CAP_BPF: all that af_xdp needs, and not CAP_SYS_ADMIN.
        let some = Fixture::good().file("proc/self/status", "CapEff:\t0000008000007000\n");
        assert_eq!([level(&some, "af_xdp"), level(&some, "xdp_live")], [Level::Ok, Level::Cannot]);
        // The same without CAP_IPC_LOCK: 8 MiB may be locked.
        let unlocked = some.file("proc/self/status", "CapEff:\t0000008000003000\n");
        assert_eq!([level(&unlocked, "af_packet"), level(&unlocked, "af_xdp")], [Level::Ok, Level::Cannot]);
        let old = Fixture::good().file("proc/sys/kernel/osrelease", "5.10.0");
        assert_eq!([level(&old, "af_xdp"), level(&old, "xdp_live")], [Level::Ok, Level::Cannot]);
        let bare = Fixture::good().file("proc/net/protocols", "UDP 1\n");
        assert_eq!([level(&bare, "af_packet"), level(&bare, "af_xdp")], [Level::Ok, Level::Cannot]);
        let inner = Fixture::good().file("proc/self/uid_map", "0 1000 1\n");
        assert_eq!([level(&inner, "af_packet"), level(&inner, "af_xdp")], [Level::Ok, Level::Cannot]);
        let mut plain = Fixture::good();
        plain.answers.card.xdp = Some(Default::default());
        assert_eq!([level(&plain, "af_packet"), level(&plain, "af_xdp")], [Level::Ok, Level::Note]);
        // Workers send live frames where the driver takes redirected frames.
        let value = |fixture: &Fixture, name: &str| {
            let host = fixture.host();
            let found = transports(&View::new(&host, Vec::new(), false));
            found.into_iter().find(|found| found.subject == name).expect("listed").value
        };
        let mut drops = Fixture::good();
        assert_eq!(value(&drops, "xdp_live"), "usable, on eth1");
        drops.answers.card.xdp.as_mut().unwrap().takes_redirected = false;
        assert_eq!(value(&drops, "af_xdp"), "usable, on eth1");
        assert_eq!(value(&drops, "xdp_live"), "usable, on eth1 (receives only)");
        drops.answers.card.driver = Some("veth".into());
        let wanted = "usable, on eth1 (sends if its other end is in the run, too, or has GRO)";
        assert_eq!(value(&drops, "xdp_live"), wanted);
        let down = Fixture::good().file("sys/class/net/eth1/flags", "0x1002");
        assert_eq!([level(&down, "udp"), level(&down, "af_packet")], [Level::Ok, Level::Note]);
        let tun = Fixture::good().file("sys/class/net/eth1/type", "65534");
        assert_eq!([level(&tun, "udp"), level(&tun, "af_packet")], [Level::Ok, Level::Note]);
        let host = tun.host();
        let found = transports(&View::new(&host, Vec::new(), false));
        let packet = found.iter().find(|found| found.subject == "af_packet").expect("listed");
        assert!(packet.why.starts_with("it needs Ethernet interfaces that are up"), "{packet:?}");
    }
}
