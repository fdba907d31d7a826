//! Several consecutive workloads on switches that can each aggregate for a few of them (SOAR §5.2).

use pktgen_core::tree::Tree;

use super::Placement;
use super::strategy::Strategy;

/// Remaining capacity of every switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Online {
    tree: Tree,
    left: Vec<u32>,
    /// What all workloads so far cost if no switch aggregates.
    red: f64,
}

impl Online {
    /// Creates switches that can aggregate for `capacity` workloads each; unavailable ones for none.
    pub fn new(tree: &Tree, capacity: u32) -> Self {
        let left = |v: u32| if tree.is_available(v) { capacity } else { 0 };
        Online { left: (0..tree.len() as u32).map(left).collect(), tree: tree.clone(), red: 0.0 }
    }

    /// Places the next workload among the switches with remaining capacity (`Λ_t`), and reduces it.
    pub fn place(&mut self, load: Vec<u64>, k: usize, strategy: &Strategy) -> Result<Placement, String> {
        self.place_by(load, |tree| strategy.place(tree, k))
    }

    /// Does the same with any placement function.
    pub(crate) fn place_by(
        &mut self,
        load: Vec<u64>,
        place: impl FnOnce(&Tree) -> Result<Placement, String>,
    ) -> Result<Placement, String> {
        let available = self.left.iter().map(|left| *left > 0).collect();
        let tree = self.tree.with_load(load).with_available(available);
        self.red += tree.all_red()?;
        if !self.red.is_finite() {
            return Err(
                "messages of all workloads take longer than a number can say: give rates in a smaller unit".into()
            );
        }
        let placement = place(&tree)?;
        placement.switches().for_each(|v| self.left[v as usize] -= 1);
        Ok(placement)
    }

    /// Returns for how many more workloads each switch can aggregate.
    pub fn left(&self) -> &[u32] {
        &self.left
    }
}
