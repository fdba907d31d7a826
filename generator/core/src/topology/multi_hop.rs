//! Two leaf devices behind one root: OLAF's Figure 9. The paper gives no link rates; those here are
//! our choice and named as such in the configs that use them.

use super::{Population, Role, Shape, Topology};
use crate::config::Section;
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

impl Shape for MultiHop {
    fn keys(&self) -> &'static [&'static str] {
        &[
            "leaves",
            "host_rate",
            "leaf_rates",
            "alpha",
            "root_rate",
            "downlink_rate",
            "delay",
            "overhead",
            "leaf_slots",
            "root_slots",
        ]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let leaves: u32 = section.get("leaves", 2u32)?;
        let host_rate: Rate = section.get("host_rate", "1Gbps")?;
        let leaf_rates: Vec<Rate> = section.get_list("leaf_rates", &["800kbps", "800kbps"])?;
        let alpha: f64 = section.get("alpha", 1.0)?;
        if !(alpha > 0.0 && alpha <= 1e6) {
            return Err(Error::config(format!("{}: {alpha} is not above 0 and at most 1e6", section.place("alpha"))));
        }
        let root_rate: Rate = section.get("root_rate", "1Mbps")?;
        let downlink: Rate = section.get("downlink_rate", "1Gbps")?;
        let delay: Span = section.get("delay", "0ps")?;
        let overhead: Size = section.get("overhead", "0B")?;
        let leaf_slots: u32 = section.get("leaf_slots", 5u32)?;
        let root_slots: u32 = section.get("root_slots", 8u32)?;
        if leaves == 0 || leaf_rates.len() != leaves as usize {
            return Err(Error::config(format!(
                "{}: {} rates for {leaves} leaves; give one rate per leaf, and at least 1 leaf",
                section.place("leaf_rates"),
                leaf_rates.len()
            )));
        }
        for (key, slots) in [("leaf_slots", leaf_slots), ("root_slots", root_slots)] {
            if slots == 0 {
                return Err(Error::config(format!("{}: a queue has at least 1 slot", section.place(key))));
            }
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
            t.connect(host, leaf_ids[leaf as usize], host_rate, downlink, delay.ps(), overhead);
        }
        for (i, (&leaf, &rate)) in leaf_ids.iter().zip(&leaf_rates).enumerate() {
            // α of OLAF's Figure 10 narrows the first leaf only.
            let rate = if i == 0 { Rate::from_bps((rate.bps() as f64 * alpha).round() as u64) } else { rate };
            t.connect(leaf, root, rate, downlink, delay.ps(), overhead);
            let uplink = t.links.len() - 2;
            t.links[uplink].slots = Some(leaf_slots);
        }
        t.connect(root, server, root_rate, downlink, delay.ps(), overhead);
        let uplink = t.links.len() - 2;
        t.links[uplink].slots = Some(root_slots);
        Ok(t)
    }
}
