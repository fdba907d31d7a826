//! Interfaces: are they there, up, connected, and away from the host's own traffic? Driver, speed, queues, place.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

use super::host::Host;
use pktgen_realtime::transport::safety::{self, RouteReach};

const NAME: &str = "interface";

/// See the head of this file.
pub(super) struct Interface;

impl Named for Interface {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "existence, link state, default route, driver, speed, queues, NUMA node"
    }
}

impl Check for Interface {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        if let Err(error) = view.host.check_namespace() {
            let level = if view.asked { Level::Cannot } else { Level::Note };
            return vec![Finding { level, ..Finding::refused(NAME, "all", "unknown", &error.to_string()) }];
        }
        let mut findings = Vec::new();
        for name in &view.interfaces {
            findings.push(state(view, name));
            if view.host.exists(name) {
                findings.push(hardware(view.host, name));
                findings.extend(route(view, name));
                findings.extend(duplex(view.host, name));
                findings.extend(node(view.host, name));
            }
        }
        if view.interfaces.is_empty() {
            findings.push(
                Finding::new(NAME, "all", Level::Note, "none but the loopback")
                    .why("udp and ring work; af_packet, af_xdp and xdp_live need interfaces")
                    .remedy(
                        "sudo ip link add w0 type veth peer name d0; sudo ip link set w0 up; sudo ip link set d0 up",
                    ),
            );
        }
        findings
    }
}

/// Whether it is there, carries Ethernet frames, and is up and connected.
fn state(view: &View<'_>, name: &str) -> Finding {
    // Only what was asked for has to be fit.
    let unfit = if view.asked { Level::Cannot } else { Level::Note };
    let new = |level, value: &str| Finding::new(NAME, name, level, value);
    if !view.host.exists(name) {
        return new(unfit, "absent")
            .why("there is no interface of that name here")
            .remedy("ip -br link lists those there are");
    }
    if let Err(error) = safety::check_ethernet_in(view.host.root(), name) {
        return Finding { level: unfit, ..Finding::refused(NAME, name, "no Ethernet", &error.to_string()) };
    }
    if !view.host.is_up(name) {
        return new(unfit, "down").why("nothing is sent or received").remedy(format!("sudo ip link set {name} up"));
    }
    match view.host.of_interface(name, "carrier").as_deref() {
        Some("0") => new(unfit, "up, no carrier")
            .why("nothing is sent or received")
            .remedy("connect its cable, or set the other end up: sudo ip link set PEER up"),
        _ => new(Level::Ok, "up"),
    }
}

/// What it is.
fn hardware(host: &Host, name: &str) -> Finding {
    let of = |file: &str| host.of_interface(name, file);
    let speed = match of("speed").and_then(|text| text.parse::<i64>().ok()) {
        Some(mbps) if mbps > 0 => format!("{mbps} Mbit/s"),
        _ => "speed not available".to_owned(),
    };
    let queues = |prefix| host.names(&format!("sys/class/net/{name}/queues"), prefix).len();
    let mtu = of("mtu").unwrap_or_else(|| "?".into());
    let driver = host.driver(name).unwrap_or_else(|| "unknown".into());
    let (rx, tx) = (queues("rx-"), queues("tx-"));
    Finding::new(NAME, name, Level::Ok, format!("driver {driver}, {speed}, MTU {mtu}, queues {rx} rx {tx} tx"))
}

/// Whether it carries the host's own traffic.
fn route(view: &View<'_>, name: &str) -> Option<Finding> {
    let level = if view.asked { Level::Warning } else { Level::Note };
    let (value, which) =
        match safety::way_out(view.host.root(), &|| view.host.answers().routes(), name, RouteReach::Send) {
            Ok(None) => return None,
            Ok(Some(way)) => ("carries the default route", way.to_string()),
            Err(error) => ("routes unknown", error.to_string()),
        };
    Some(
        Finding::new(NAME, name, level, value)
            .why(format!("{which}; pktgen refuses to send there, as a test could flood a network"))
            .remedy("use another; or --set transport.allow_default_route=true if that is what you want"),
    )
}

fn duplex(host: &Host, name: &str) -> Option<Finding> {
    let half = host.of_interface(name, "duplex").is_some_and(|duplex| duplex == "half");
    half.then(|| {
        Finding::new(NAME, name, Level::Warning, "half duplex")
            .why("sending waits for receiving, so rates are not the link's")
            .remedy(format!("sudo ethtool -s {name} duplex full"))
    })
}

/// On hosts of several nodes: where it sits.
fn node(host: &Host, name: &str) -> Option<Finding> {
    let node: i64 = host.number(&format!("sys/class/net/{name}/device/numa_node"))?;
    let several = host.names("sys/devices/system/node", "node").len() > 1;
    (several && node >= 0).then(|| {
        let cores = host.read(&format!("sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
        Finding::new(NAME, name, Level::Note, format!("NUMA node {node}, cores {cores}"))
            .why("memory and cores of another node cost rate")
            .remedy(format!("taskset -c {cores} pktgen ..."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn values(found: &[Finding], level: Level) -> Vec<&str> {
        found.iter().filter(|f| f.level == level).map(|f| f.value.as_str()).collect()
    }

    #[test]
    fn a_good_interface_is_described() {
        let found = Fixture::good().look(&Interface);
        assert_eq!(values(&found, Level::Ok), ["up", "driver ice, 100000 Mbit/s, MTU 1500, queues 2 rx 3 tx"]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_hinders_is_told_with_its_remedy() {
        for (file, text, value, remedy) in [
            ("type", "65534\n", "no Ethernet", "a TAP instead of a TUN"),
            ("flags", "0x1002\n", "down", "sudo ip link set eth1 up"),
            ("carrier", "0\n", "up, no carrier", "connect its cable"),
            ("duplex", "half\n", "half duplex", "sudo ethtool -s eth1 duplex full"),
        ] {
            let found =
                Fixture::good().file(&format!("sys/class/net/eth1/{file}"), text).asking(&["eth1"]).look(&Interface);
            let finding = found.iter().find(|f| f.value == value).unwrap_or_else(|| panic!("{value}: {found:?}"));
            assert!(finding.level >= Level::Warning && finding.remedy.contains(remedy), "{finding:?}");
        }
    }

    #[test]
    fn only_what_was_asked_for_has_to_be_fit() {
        let down = || Fixture::good().file("sys/class/net/eth1/flags", "0x1002\n");
        assert_eq!(values(&down().look(&Interface), Level::Cannot), Vec::<&str>::new());
        assert_eq!(values(&down().asking(&["eth1"]).look(&Interface), Level::Cannot), ["down"]);
        let tun = || Fixture::good().file("sys/class/net/eth1/type", "65534\n");
        assert_eq!(values(&tun().look(&Interface), Level::Note), ["no Ethernet"]);
        assert_eq!(values(&tun().asking(&["eth1"]).look(&Interface), Level::Cannot), ["no Ethernet"]);
        let ethernet = Fixture::good().file("sys/class/net/eth1/type", "1\n").look(&Interface);
        assert_eq!(values(&ethernet, Level::Ok)[0], "up");
        for name in ["eth9", "../eth1", ""] {
            assert_eq!(values(&Fixture::good().asking(&[name]).look(&Interface), Level::Cannot), ["absent"], "{name}");
        }
    }

    #[test]
    fn the_default_route_is_told() {
        let found = Fixture::good().default_route(2).look(&Interface);
        assert_eq!(values(&found, Level::Note), ["carries the default route"]);
        assert!(found.iter().any(|f| f.why.starts_with("0.0.0.0/0 in table main; pktgen refuses")), "{found:?}");
    }

    #[test]
    fn nothing_is_told_from_files_of_another_network_namespace() {
        let mut fixture = Fixture::good();
        fixture.answers.elsewhere = true;
        let found = fixture.look(&Interface);
        assert_eq!((found.len(), values(&found, Level::Note)), (1, vec!["unknown"]));
        let found = fixture.asking(&["eth1"]).look(&Interface);
        assert_eq!((found.len(), values(&found, Level::Cannot)), (1, vec!["unknown"]));
        assert_eq!(found[0].remedy, "use ip netns exec");
    }

    #[test]
    fn nodes_matter_where_there_are_several() {
        let fixture = Fixture::good().file("sys/devices/system/node/node1/cpulist", "2-3\n");
        let found = fixture.file("sys/class/net/eth1/device/numa_node", "1\n").look(&Interface);
        assert_eq!(values(&found, Level::Note), ["NUMA node 1, cores 2-3"]);
        assert_eq!(found[2].remedy, "taskset -c 2-3 pktgen ...");
    }
}
