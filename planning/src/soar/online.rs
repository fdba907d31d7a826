//! Several workloads, one after the other, on switches that can aggregate for a few of them each (SOAR §5.2).

use pktgen_core::tree::Tree;

use super::Placement;
use super::strategy::Strategy;

/// What is left of every switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Online {
    tree: Tree,
    left: Vec<u32>,
}

impl Online {
    /// Switches that can aggregate for `capacity` workloads each; those that are not available for none.
    pub fn new(tree: &Tree, capacity: u32) -> Self {
        let left = |v: u32| if tree.is_available(v) { capacity } else { 0 };
        Online { left: (0..tree.len() as u32).map(left).collect(), tree: tree.clone() }
    }

    /// Places the next workload among the switches that have something left (`Λ_t`), and takes it from them.
    pub fn place(&mut self, load: Vec<u64>, k: usize, strategy: &Strategy) -> Result<Placement, String> {
        self.place_by(load, |tree| strategy.place(tree, k))
    }

    /// The same, by anything that places.
    pub(crate) fn place_by(
        &mut self,
        load: Vec<u64>,
        place: impl FnOnce(&Tree) -> Result<Placement, String>,
    ) -> Result<Placement, String> {
        let available = self.left.iter().map(|left| *left > 0).collect();
        let placement = place(&self.tree.with_load(load).with_available(available))?;
        placement.switches().for_each(|v| self.left[v as usize] -= 1);
        Ok(placement)
    }

    /// For how many more workloads each switch can aggregate.
    pub fn left(&self) -> &[u32] {
        &self.left
    }
}
