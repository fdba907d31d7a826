//! Networks of hosts, devices and servers: the one model behind every experiment.
//!
//! A [`Topology`] is nodes and full-duplex links. Experiments name a shape from [`SHAPES`]; trees,
//! leaf-spines and planner output are further shapes that build the same type.

mod bottleneck;
mod custom;
mod model;
mod multi_hop;

use crate::Result;
use crate::config::Section;
use crate::registry::Named;

pub use model::{Link, NO_PORT, Node, NodeId, Population, Role, Topology};

/// Builds a topology from its section of an experiment file.
pub trait Shape: Named + Sync {
    /// Reads its keys and wires the network for these workers.
    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology>;
}

/// Every shape, by name.
pub static SHAPES: &[&dyn Shape] = &[&bottleneck::Bottleneck, &multi_hop::MultiHop, &custom::Custom];
