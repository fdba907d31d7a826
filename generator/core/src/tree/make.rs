//! The trees of SOAR's evaluation: complete binary trees, rates that grow towards the root (§5).

use super::{Switch, Tree};

/// Growth of rates from the leaves, whose links have rate 1, towards the root (§5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// No growth.
    Constant,
    /// Plus 1 per level.
    Linear,
    /// Doubled per level.
    Exponential,
}

impl Rates {
    /// All, by name.
    pub const ALL: [(&'static str, Rates); 3] =
        [("constant", Rates::Constant), ("linear", Rates::Linear), ("exponential", Rates::Exponential)];

    fn at(self, above_leaves: u32) -> f64 {
        match self {
            Rates::Constant => 1.0,
            Rates::Linear => f64::from(above_leaves) + 1.0,
            Rates::Exponential => f64::from(above_leaves).exp2(),
        }
    }
}

/// BT(n) without loads: a complete binary tree of `n − 1` switches and the destination (§5). Node 0 is the root, the
/// children of `i` are `2i + 1` and `2i + 2`. `None` if `n` is below 2 or no power of two.
pub fn binary(n: u32, rates: Rates) -> Option<Tree> {
    if n < 2 || !n.is_power_of_two() {
        return None;
    }
    let height = n.ilog2() - 1;
    let switch = |i: u32| Switch {
        id: i.into(),
        parent: i.checked_sub(1).map(|below| (below / 2).into()),
        rate: rates.at(height - (i + 1).ilog2()),
        load: 0,
        available: true,
    };
    Tree::new(&(0..n - 1).map(switch).collect::<Vec<_>>()).ok()
}
