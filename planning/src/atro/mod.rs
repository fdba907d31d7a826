//! ATRO: topology and routing of in-network AllReduce optimised together (docs/atro.md).

mod attach;
pub mod baseline;
mod capacities;
mod cluster;
mod criterion;
#[cfg(test)]
mod criterion_tests;
mod flow;
mod heads;
mod infeasible;
mod inventory;
mod inventory_input;
pub mod milp;
mod mixed;
mod optical;
mod shapes;
mod shared;
mod skeleton;
pub mod solver;
#[cfg(test)]
mod solver_tests;
pub mod study;
#[cfg(test)]
mod testing;
mod validate;
mod wiring;
#[cfg(test)]
mod wiring_tests;

#[cfg(test)]
use self::{criterion::most_workers, validate::validate};
pub use capacities::Capacities;
pub use cluster::Cluster;
pub use criterion::{Reach, flows_per_link};
pub use inventory::{Host, Inventory, Switch};
pub use inventory_input::Flags;
pub use mixed::{SolverAsk, wire_inventory};
pub use optical::DevicePorts;
pub use wiring::{CrossConnect, Port, Wiring, wire};

use pktgen_core::registry::Named;
use pktgen_workload::study::Study;

use super::Placer;

/// The placer.
pub struct Atro;

impl Named for Atro {
    fn name(&self) -> &'static str {
        "atro"
    }
    fn about(&self) -> &'static str {
        "wiring and routing for the highest rate of an in-network AllReduce (ATRO)"
    }
}

impl Placer for Atro {
    fn study(&self) -> &'static dyn Study {
        &study::AtroStudy
    }
}
