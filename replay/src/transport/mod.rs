//! How frames leave and enter the process.
//!
//! So far there is one way, which does not: virtual time, in which the driver carries frames from link
//! to link. Transports over real interfaces join this list.

use pktgen_generator::registry::Named;

/// A transport as it is listed and chosen.
pub trait Transport: Named + Sync {
    /// Largest frame it carries.
    fn frame_max(&self) -> usize;
}

/// Every transport, by name.
pub static TRANSPORTS: &[&dyn Transport] = &[&virtual_time::VirtualTime];

mod virtual_time;
