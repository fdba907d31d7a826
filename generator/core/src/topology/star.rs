//! Workers' hosts and parameter servers around one switch: Libra's testbed (LIBRA §5.1), with standby switches and
//! their controller if it is asked for (§3.6).
//!
//! Without standby the one switch sums. With it, the switch in the middle only forwards: what it does for parameters is
//! done by one of the switches beside it, and a controller on a port of its own watches them. (Our choice: the paper says
//! that a standby switch takes over, not how they are wired.)

use super::servers::name_of;
use super::{Population, Role, Shape, Topology};
use crate::config::Section;
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
        "hosts with some workers each and parameter servers around one switch, perhaps with standby switches"
    }
}

impl Shape for Star {
    fn keys(&self) -> &'static [&'static str] {
        &["hosts", "host_rate", "server_rate", "switch_rate", "delay", "overhead", "buffer_slots", "standby", "servers"]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let hosts: u32 = section.get("hosts", 0u32)?;
        let host_rate: Rate = section.get("host_rate", "100Gbps")?;
        let server_rate: Rate = section.get("server_rate", "100Gbps")?;
        let switch_rate: Rate = section.get("switch_rate", "400Gbps")?;
        let delay: Span = section.get("delay", "1us")?;
        let overhead: Size = section.get("overhead", "24B")?;
        // Frames that a port of a switch can hold: 20 MB and more, as shared buffers have.
        let slots: u32 = section.get("buffer_slots", 65_536u32)?;
        let standby: u32 = section.get("standby", 0u32)?;
        if standby > 8 {
            return Err(Error::config(format!(
                "{}: {standby}; there are 0 to 8 standby switches",
                section.place("standby")
            )));
        }
        let servers = section.get_in("servers", 1u32, 1..=1000u32)?;
        if standby > 0 && servers > 1 {
            return Err(Error::config(format!(
                "{}: {standby}; standby switches are for one server, and there are {servers}: give {} 1, or 0 standby switches",
                section.place("standby"),
                section.place("servers")
            )));
        }
        let mut t = Topology::default();
        let switch = t.add("switch", Role::Device);
        let all: Vec<u32> = (0..workers.len() as u32).collect();
        for (i, members) in all.chunks(super::per_host(all.len(), hosts)).enumerate() {
            let host = t.add(format!("h{i}"), Role::Host(members.to_vec()));
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
            if t.nodes[usize::from(link.from)].role == Role::Device {
                link.slots = Some(slots);
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
        let (hub, ps) = (usize::from(named("switch")), named("ps"));
        assert_eq!(t.ports(hub as u16).nth(usize::from(routes[hub][usize::from(ps)])).unwrap().1.to, ps);
        assert!(build(&[("standby", 9)], 3).unwrap_err().to_string().contains("0 to 8"));
        assert!(build(&[("standby", 1), ("servers", 2)], 3).unwrap_err().to_string().contains("topology.servers 1"));
    }
}
