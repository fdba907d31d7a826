//! One device between all workers and the parameter server: OLAF's testbed (§8, "Testbed Setup").

use super::{Population, Role, Shape, Topology};
use crate::Result;
use crate::config::Section;
use crate::registry::Named;
use crate::units::{Rate, Size, Span};

/// `kind = "bottleneck"`.
pub(crate) struct Bottleneck;

impl Named for Bottleneck {
    fn name(&self) -> &'static str {
        "bottleneck"
    }
    fn about(&self) -> &'static str {
        "workers on one host port, one device, one parameter server"
    }
}

impl Shape for Bottleneck {
    fn keys(&self) -> &'static [&'static str] {
        &["ingress_rate", "rate", "downlink_rate", "delay", "overhead"]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let ingress: Rate = section.get("ingress_rate", "100Gbps")?;
        let rate: Rate = section.get("rate", "40Gbps")?;
        let downlink: Rate = section.get("downlink_rate", "100Gbps")?;
        let delay: Span = section.get("delay", "0ps")?;
        let overhead: Size = section.get("overhead", "0B")?;
        let mut t = Topology::default();
        let host = t.add("host", Role::Host((0..workers.len() as u32).collect()));
        let device = t.add("device", Role::Device);
        let server = t.add("ps", Role::Server);
        t.connect(host, device, ingress, downlink, delay.ps(), overhead);
        t.connect(device, server, rate, downlink, delay.ps(), overhead);
        Ok(t)
    }
}
