//! The optical device: how many of its ports a wiring takes (ATRO §II-C).

use pktgen_core::plan::Plan;
use pktgen_core::{Error, Result};
use serde::Serialize;

use super::inventory::Inventory;

/// Ports of an optical patch panel, which takes a couple of minutes to change (ATRO §II-C).
const PATCH_PANEL_PORTS: u64 = 1008;

/// Ports of a 3D MEMS device, which takes about 10 ms (ATRO §II-C).
const MEMS_PORTS: u64 = 384;

/// Ports of the optical device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DevicePorts {
    /// Those that the wiring takes: two for each cable.
    pub used: u64,
    /// Those that all switches, hosts and the server have, as ATRO Figure 1 connects them.
    pub all: u64,
    /// Those that the device has, where that is said.
    pub limit: Option<u64>,
}

impl DevicePorts {
    /// Counts them; a wiring that takes more than the device has is refused.
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

    /// Remarks beside the numbers.
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
