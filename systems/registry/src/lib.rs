//! The list of all systems. A new system needs its crate in `Cargo.toml` and a line here.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use pktgen_engine::catalogue::{Catalogue, Defaults, System};

/// In the order of listings.
static SYSTEMS: &[&System] = &[
    &pktgen_engine::plain::SYSTEM,
    &pktgen_olaf::SYSTEM,
    &pktgen_trio_ml::SYSTEM,
    &pktgen_switchml::SYSTEM,
    &pktgen_libra::SYSTEM,
    &pktgen_reduce::SYSTEM,
    &pktgen_atp::SYSTEM,
    &pktgen_iswitch::SYSTEM,
];

static ALL: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::of(SYSTEMS, Defaults { workers: "open_loop", program: "olaf" }));

/// Returns all systems, for code that selects one of them.
pub fn all() -> &'static Catalogue {
    &ALL
}
