//! What this host can do, why not, and the remedy.
//!
//! Every topic is a [`Check`] in a file of its own. A check looks and asks; it changes no setting and sends nothing.
//! What it looks at is a [`Host`]: the root of a file system, and what only the kernel can answer. Both are made up in
//! tests. [`examine`] runs the list, [`transports`] says what follows for every transport, and [`judge`] whether an
//! experiment can run here.
#![forbid(unsafe_code)]

mod answers;
mod bpf;
mod buffers;
mod capabilities;
mod choice;
mod clock_source;
mod cores;
mod examine;
mod experiment;
mod finding;
mod host;
mod hugepages;
mod interface;
mod kernel;
mod memlock;
mod needs;
mod offloads;
mod probe;
mod ptp;
mod rss;
mod stamps;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod veth;
mod xdp;

use pktgen_core::registry::Named;

pub use answers::{Card, HostQueries, Live, Offloads, Spread, StampSupport};
pub use choice::choices;
pub use examine::{View, examine};
pub use experiment::{Suitability, judge};
pub use finding::{Finding, Level};
pub use host::Host;
pub use needs::transports;
pub use text::text;

/// A topic that is looked at.
pub trait Check: Named + Sync {
    /// Looks, and says what it found.
    fn look(&self, view: &View<'_>) -> Vec<Finding>;
}

/// Every check, in the order in which findings of the same level are shown.
pub static CHECKS: &[&dyn Check] = &[
    &kernel::Kernel,
    &capabilities::Capabilities,
    &memlock::Memlock,
    &cores::Cores,
    &clock_source::ClockSource,
    &hugepages::Hugepages,
    &ptp::Ptp,
    &bpf::Bpf,
    &buffers::Buffers,
    &interface::Interface,
    &offloads::OffloadsOf,
    &xdp::Xdp,
    &veth::Veth,
    &rss::Rss,
    &stamps::StampsOf,
    &probe::Probe,
];
