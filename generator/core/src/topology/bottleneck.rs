//! One device between all workers and the parameter server: OLAF's testbed (§8, "Testbed Setup").

use super::{Population, Role, Shape, Topology};
use crate::Result;
use crate::config::{KeyTables, Section, above, settings};
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

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Link rate from the workers' host to the device.
        ingress_rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Link rate from the device to the server: the bottleneck.
        rate: Rate = "40Gbps" in above(Rate::from_bps(0));
        /// Rate of both links on the return path.
        downlink_rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "0ps";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "0B";
    }
}

impl Shape for Bottleneck {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { ingress_rate, rate, downlink_rate, delay, overhead } = Settings::read(section)?;
        let mut t = Topology::default();
        let host = t.add("host", Role::Host((0..workers.len() as u32).collect()));
        let device = t.add("device", Role::Device);
        let server = t.add("ps", Role::Server);
        t.connect(host, device, ingress_rate, downlink_rate, delay.ps(), overhead);
        t.connect(device, server, rate, downlink_rate, delay.ps(), overhead);
        Ok(t)
    }
}
