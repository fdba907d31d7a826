//! The optical device: the number of its ports that a wiring uses (ATRO §II-C).

use pktgen_core::plan::Plan;
use pktgen_core::{Error, Result};
use serde::Serialize;

use super::inventory::Inventory;

/// Number of ports of an optical patch panel, which takes a couple of minutes to change (ATRO §II-C).
const PATCH_PANEL_PORTS: u64 = 1008;

/// Number of ports of a 3D MEMS device, which takes about 10 ms (ATRO §II-C).
const MEMS_PORTS: u64 = 384;

/// Numbers of ports of the optical device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DevicePorts {
    /// Ports used by the wiring: two for each cable.
    pub used: u64,
    /// Ports of all switches, hosts and the server, as connected in ATRO Figure 1.
    pub all: u64,
    /// Ports of the device, if specified.
    pub limit: Option<u64>,
}

impl DevicePorts {
    /// Counts the ports; refuses a wiring that needs more than the device has.
    pub fn count(plan: &Plan, inventory: &Inventory) -> Result<Self> {
        let counted =
            DevicePorts { used: 2 * plan.links.len() as u64, all: inventory.ports(), limit: inventory.device_ports };
        match counted.limit.filter(|&limit| counted.used > limit) {
            Some(limit) => Err(Error::config(format!(
                "device_ports: the wiring takes {} ports of an optical device of {limit}, two for each of {} cables; give fewer \
                 workers, a lower rate or a larger device (ATRO §II-C: MEMS of {MEMS_PORTS}, patch panel of {PATCH_PANEL_PORTS})",
                counted.used,
                plan.links.len()
            ))),
            None => Ok(counted),
        }
    }

    /// Returns a remark on the numbers.
    pub fn remark(&self) -> String {
        let Self { used, all, limit } = *self;
        match limit {
            Some(limit) if all > limit => {
                format!("{limit} there: {} stay uncabled, and other wirings may not fit", all - limit)
            }
            Some(limit) => format!("{limit} there"),
            None if used > PATCH_PANEL_PORTS => {
                format!("more than the {PATCH_PANEL_PORTS} of a patch panel (ATRO §II-C)")
            }
            None if all > PATCH_PANEL_PORTS => {
                format!("a patch panel has {PATCH_PANEL_PORTS} (ATRO §II-C): not every wiring fits one")
            }
            None if all > MEMS_PORTS => {
                format!("a patch panel has {PATCH_PANEL_PORTS}, 3D MEMS {MEMS_PORTS} (ATRO §II-C)")
            }
            None => format!("3D MEMS has {MEMS_PORTS} (ATRO §II-C)"),
        }
    }
}
