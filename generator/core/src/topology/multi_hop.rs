//! Two leaf devices behind one root: OLAF's Figure 9. The paper gives no link rates; the defaults are our choice, and
//! the configs that use them say so.

use super::{Population, Role, Shape, Topology};
use crate::config::{KeyTables, Section, above, above_to, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "multi_hop"`.
pub(crate) struct MultiHop;

impl Named for MultiHop {
    fn name(&self) -> &'static str {
        "multi_hop"
    }
    fn about(&self) -> &'static str {
        "a host per worker, leaf devices SW1.. by cluster, one root device before the server"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Leaf devices; the clusters are distributed over them.
        leaves: u32 = 2 in 1..=u32::MAX;
        /// Link rate of a host.
        host_rate: Rate = "1Gbps" in above(Rate::from_bps(0));
        /// Link rate from each leaf to the root.
        leaf_rates: Vec<Rate> = ["800kbps", "800kbps"] in above(Rate::from_bps(0));
        /// Factor of the first leaf's rate (OLAF Figure 10).
        alpha: f64 = 1.0 in above_to(0.0, 1e6);
        /// Link rate from the root to the server.
        root_rate: Rate = "1Mbps" in above(Rate::from_bps(0));
        /// Rate of all links on the return path except those to hosts.
        downlink_rate: Rate = "1Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "0ps";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "0B";
        /// Slots of a leaf's queue.
        leaf_slots: u32 = 5 in 1.., "a queue has at least 1 slot";
        /// Slots of the root's queue.
        root_slots: u32 = 8 in 1.., "a queue has at least 1 slot";
    }
}

impl Shape for MultiHop {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let settings = Settings::read(section)?;
        let Settings { leaves, host_rate, leaf_rates, alpha, root_rate, downlink_rate, delay, overhead, .. } = settings;
        if leaf_rates.len() != leaves as usize {
            return Err(Error::config(format!(
                "{}: {} rates for {leaves} leaves; give one rate per leaf",
                section.place("leaf_rates"),
                leaf_rates.len()
            )));
        }
        if leaf_rates[0].bps() as f64 * alpha < 1.0 {
            let place = section.place("alpha");
            return Err(Error::config(format!("{place}: {alpha} of {} is less than 1 bit/s; raise it", leaf_rates[0])));
        }
        let clusters = workers.clusters().max(1) as u32;
        let mut t = Topology::default();
        let leaf_ids: Vec<_> = (1..=leaves).map(|i| t.add(format!("SW{i}"), Role::Device)).collect();
        let root = t.add(format!("SW{}", leaves + 1), Role::Device);
        let server = t.add("ps", Role::Server);
        for (worker, &cluster) in workers.cluster_of.iter().enumerate() {
            let leaf = u32::from(cluster).min(clusters - 1) * leaves / clusters;
            let host = t.add(format!("w{worker}"), Role::Host(vec![worker as u32]));
            t.connect(host, leaf_ids[leaf as usize], host_rate, host_rate, delay.ps(), overhead);
        }
        for (i, (&leaf, &rate)) in leaf_ids.iter().zip(&leaf_rates).enumerate() {
            // α of OLAF's Figure 10 narrows the first leaf only.
            let rate = if i == 0 { Rate::from_bps((rate.bps() as f64 * alpha).round() as u64) } else { rate };
            t.connect(leaf, root, rate, downlink_rate, delay.ps(), overhead);
            let uplink = t.links.len() - 2;
            t.links[uplink].slots = Some(settings.leaf_slots);
        }
        t.connect(root, server, root_rate, downlink_rate, delay.ps(), overhead);
        let uplink = t.links.len() - 2;
        t.links[uplink].slots = Some(settings.root_slots);
        Ok(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    #[test]
    fn links_to_hosts_have_the_rate_of_hosts() {
        let keys = [("host_rate", Value::from("2Gbps")), ("downlink_rate", Value::from("3Gbps"))];
        let t = MultiHop.build(&mut Section::of("topology", &keys), &Population::regular(2, 2)).unwrap();
        let back: Vec<_> = t.links.iter().skip(1).step_by(2).map(|link| (link.to, link.rate.bps())).collect();
        let is_host = |node: u32| matches!(t.nodes[node as usize].role, Role::Host(_));
        assert_eq!(back.iter().filter(|(to, _)| is_host(*to)).count(), 4);
        for (to, rate) in back {
            let expected = if is_host(to) { 2_000_000_000 } else { 3_000_000_000 };
            assert_eq!(rate, expected, "to {}", t.nodes[to as usize].name);
        }
    }
}
