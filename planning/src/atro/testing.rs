//! Clusters for tests.

use proptest::prelude::*;

use super::Cluster;

/// One gigabit per second.
pub const GBPS: u64 = 1_000_000_000;

/// Returns a cluster with links of 100 Gbit/s.
pub fn cluster(switches: u64, aggregators: u64, ports: u64, layers: u64) -> Cluster {
    Cluster { switches, aggregators, ports, layers, capacity_bps: 100 * GBPS }
}

/// Generates small clusters of every kind, and flows per link.
pub fn arbitrary() -> impl Strategy<Value = (Cluster, u64)> {
    (1u64..12, 0u64..12, 2u64..11, 1u64..7, 1u64..9).prop_map(|(switches, aggregators, ports, layers, m)| {
        (cluster(switches, aggregators % (switches + 1), ports, layers), m)
    })
}
