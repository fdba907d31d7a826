//! Networks of hosts, devices and servers: the one model behind every experiment.
//!
//! A [`Topology`] is nodes and full-duplex links. Experiments name a shape from [`SHAPES`]; trees,
//! leaf-spines and planner output are further shapes that build the same type.

mod bottleneck;
mod custom;
mod model;
mod multi_hop;
mod plan;
mod rack;
mod star;

use crate::Result;
use crate::config::Section;
use crate::registry::Named;

pub use model::{Link, Move, NO_PORT, Node, NodeId, Population, Role, Topology, open};

/// Builds a topology from its section of an experiment file.
pub trait Shape: Named + Sync {
    /// The keys of `[topology]` that [`build`](Self::build) reads: they stay valid when a sweep also visits other
    /// shapes.
    fn keys(&self) -> &'static [&'static str];

    /// Reads its keys and wires the network for these workers.
    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology>;
}

/// Every shape, by name.
pub static SHAPES: &[&dyn Shape] =
    &[&bottleneck::Bottleneck, &multi_hop::MultiHop, &custom::Custom, &rack::Rack, &star::Star, &plan::FromPlan];

/// Workers of each of `hosts` hosts, so that all have one; with 0 hosts each worker has its own.
fn per_host(workers: usize, hosts: u32) -> usize {
    if hosts == 0 { 1 } else { workers.div_ceil(hosts as usize).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_name_the_keys_that_they_read() {
        for shape in SHAPES {
            let mut section = Section::of("topology", &[]);
            shape.build(&mut section, &Population::regular(9, 3)).unwrap();
            let mut asked: Vec<_> = section.asked().iter().map(String::as_str).collect();
            let mut named = shape.keys().to_vec();
            asked.sort_unstable();
            named.sort_unstable();
            assert_eq!(asked, named, "{}", shape.name());
        }
    }
}
