//! Profiles of hardware: what a card, switch or router expects, accepts and rewrites (docs/device.md).
//!
//! A [`Profile`] is read from TOML, from a file of the user or one of those that are [`shipped`]. [`Facts`] are the requirements of an
//! experiment; [`check`](check::check) compares them with the profile's limits. [`Addresses`] are its addresses for the workers of an
//! experiment, which [`Translator`] writes into frames. [`plan`] generates the configuration of a device's control plane.
//! Nothing here sends anything.

mod address;
mod addressing;
pub mod check;
mod facts;
mod limit;
pub mod plan;
mod profile;
pub mod shipped;
mod translate;

pub use address::{Address, Mac};
pub use addressing::{Addresses, Addressing, CableEnd, Hop, Station, tag_bytes};
pub use facts::{Facts, HotParameter};
pub use limit::{LIMITS, Limit, LimitKind};
pub use profile::{FIELDS, Profile, ProfileCounter, ProfilePorts};
pub use shipped::open;
pub use translate::{GROWTH_MAX, PlaceText, Translator};

use crate::wire::Formats;

/// Properties of systems that are known without a run: packet formats, and configurations of devices.
#[derive(Clone, Copy)]
pub struct Protocols {
    /// Wire formats.
    pub formats: Formats,
    /// Configurations of control planes, by kind of device.
    pub planners: &'static [&'static dyn plan::Planner],
}
