//! Workers' hosts and parameter servers around one switch: Libra's testbed (LIBRA §5.1), optionally with standby
//! switches and their controller (§3.6).
//!
//! Without standby, the one switch sums. With it, the switch in the middle only forwards: one of the adjacent switches sums, and a
//! controller on a separate port monitors them. (Our choice: the paper says that a standby switch takes over, not how they are connected.)

use super::servers::name_of;
use super::{Population, Role, Shape, Topology};
use crate::config::{KeyTables, Section, above, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "star"`.
pub(crate) struct Star;

impl Named for Star {
    fn name(&self) -> &'static str {
        "star"
    }
    fn about(&self) -> &'static str {
        "hosts with workers and parameter servers around one switch, optionally with standby switches"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Hosts of the workers; 0: one host per worker.
        hosts: u32 = 0;
        /// Link rate of a host.
        host_rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Link rate of a server and of the controller.
        server_rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Link rate between switches.
        switch_rate: Rate = "400Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "1us";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "24B";
        /// Frames that a switch port can buffer: 20 MB and more, as in shared buffers.
        buffer_slots: u32 = 65_536;
        /// Standby switches.
        standby: u32 = 0 in 0..=8, "there are 0 to 8 standby switches";
        /// Parameter servers.
        servers: u32 = 1 in 1..=1000;
    }
}

impl Shape for Star {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { hosts, host_rate, server_rate, switch_rate, delay, overhead, buffer_slots, standby, servers } =
            Settings::read(section)?;
        if standby > 0 && servers > 1 {
            return Err(Error::config(format!(
                "{}: {standby}; standby switches are for one server, and there are {servers}: give topology.servers 1, or 0 standby switches",
                section.place("standby")
            )));
        }
        let mut t = Topology::default();
        let switch = t.add("switch", Role::Device);
        let (own, flows) = super::apart(workers);
        let seats = super::seats(&own, &flows, super::hosts_of(workers.len(), hosts));
        for (i, members) in seats.into_iter().enumerate() {
            let host = t.add(format!("h{i}"), Role::Host(members));
            t.connect(host, switch, host_rate, host_rate, delay.ps(), overhead);
        }
        for server in 0..servers {
            let node = t.add(name_of(server), Role::Server);
            t.connect(switch, node, server_rate, server_rate, delay.ps(), overhead);
        }
        if standby > 0 {
            for i in 0..=standby {
                let beside = t.add(format!("libra{i}"), Role::Device);
                t.connect(switch, beside, switch_rate, switch_rate, delay.ps(), overhead);
            }
            let controller = t.add("controller", Role::Controller);
            t.connect(switch, controller, server_rate, server_rate, delay.ps(), overhead);
        }
        for link in &mut t.links {
            if t.nodes[link.from as usize].role == Role::Device {
                link.slots = Some(buffer_slots);
            }
        }
        Ok(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn build(keys: &[(&str, i64)], workers: u32) -> Result<Topology> {
        let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, Value::Integer(*value))).collect();
        Star.build(&mut Section::of("topology", &keys), &Population::regular(1, workers))
    }

    #[test]
    fn one_switch_sums() {
        let t = build(&[("hosts", 3)], 10).unwrap();
        t.check(10).unwrap();
        assert_eq!((t.nodes.len(), t.host_of(10)[9]), (5, 3));
        // As many hosts as are asked for, and no more than workers.
        for (hosts, workers, built) in [(7, 8, 7), (8, 12, 8), (8, 16, 8), (0, 5, 5), (9, 4, 4)] {
            let t = build(&[("hosts", hosts)], workers).unwrap();
            t.check(workers as usize).unwrap();
            let is_host = |node: &&super::super::Node| matches!(node.role, Role::Host(_));
            assert_eq!(t.nodes.iter().filter(is_host).count(), built, "{hosts} hosts of {workers} workers");
        }
        assert_eq!(t.aggregators(), [0]);
        assert!(t.controller().is_none());
        let t = build(&[("servers", 3)], 2).unwrap();
        t.check(2).unwrap();
        assert_eq!((t.racks().devices, t.racks().rack_of), (vec![0], vec![0; 3]));
    }

    #[test]
    fn with_standby_the_switches_beside_it_sum() {
        let t = build(&[("standby", 2)], 3).unwrap();
        t.check(3).unwrap();
        let named = |name| t.find(name).unwrap();
        assert_eq!(t.aggregators(), ["libra0", "libra1", "libra2"].map(named));
        assert_eq!(t.controller(), t.find("controller"));
        let routes = t.routes();
        let (hub, ps) = (named("switch"), named("ps"));
        assert_eq!(t.ports(hub).nth(usize::from(routes.port(hub, ps))).unwrap().1.to, ps);
        assert!(build(&[("standby", 9)], 3).unwrap_err().to_string().contains("0 to 8"));
        assert!(build(&[("standby", 1), ("servers", 2)], 3).unwrap_err().to_string().contains("topology.servers 1"));
    }
}
