//! Strategies for comparison with SOAR (SOAR §3): top, max, level, and no or all switches.
//!
//! Ties are resolved in favour of the heavier subtree, then of the smaller id; unavailable switches are skipped (our choice).

use std::cmp::Reverse;

use pktgen_core::registry::Named;
use pktgen_core::tree::Tree;

use super::{Placement, gather};

/// A method of selecting at most `k` switches.
pub struct Strategy {
    name: &'static str,
    about: &'static str,
    choose: fn(&Tree, usize) -> Result<Vec<bool>, String>,
}

impl Named for Strategy {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        self.about
    }
}

impl Strategy {
    /// Selects switches.
    pub fn place(&self, tree: &Tree, k: usize) -> Result<Placement, String> {
        Ok(Placement::of(tree, (self.choose)(tree, k)?))
    }
}

/// All strategies, the exact one first.
pub static STRATEGIES: &[&Strategy] = &[
    &Strategy {
        name: "soar",
        about: "the least utilisation, exactly (§4)",
        choose: |tree, k| Ok(gather::solve(tree, k, gather::MEMORY)?.blue),
    },
    &Strategy { name: "top", about: "the switches nearest to the root (§3)", choose: |tree, k| Ok(top(tree, k)) },
    &Strategy { name: "max", about: "the switches with the largest loads (§3)", choose: |tree, k| Ok(max(tree, k)) },
    &Strategy { name: "level", about: "a whole level of the tree (§3)", choose: |tree, k| Ok(level(tree, k)) },
    &Strategy { name: "all_red", about: "no switch", choose: |tree, _| Ok(vec![false; tree.len()]) },
    &Strategy {
        name: "all_blue",
        about: "every available switch, whatever k is",
        choose: |tree, _| Ok((0..tree.len() as u32).map(|v| tree.is_available(v)).collect()),
    },
];

/// Selects the first `k` available switches by `key`, then the heavier, then the smaller id.
fn first<K: Ord>(tree: &Tree, k: usize, key: impl Fn(u32) -> K) -> Vec<bool> {
    let mut switches: Vec<_> = (0..tree.len() as u32).filter(|v| tree.is_available(*v)).collect();
    switches.sort_by_cached_key(|v| (key(*v), Reverse(tree.below(*v)), tree.id(*v)));
    let mut blue = vec![false; tree.len()];
    switches.iter().take(k).for_each(|v| blue[*v as usize] = true);
    blue
}

fn top(tree: &Tree, k: usize) -> Vec<bool> {
    first(tree, k, |v| tree.depth(v))
}

fn max(tree: &Tree, k: usize) -> Vec<bool> {
    first(tree, k, |v| Reverse(tree.load(v)))
}

/// Selects the level with most available switches among those with at most `k`; of equal ones the one with the largest load
/// below its available switches, then the upper one.
fn level(tree: &Tree, k: usize) -> Vec<bool> {
    let height = tree.order().last().map_or(0, |v| tree.depth(*v)) as usize;
    // Available switches of each level, and the load below them.
    let mut levels = vec![(0usize, 0u64); height + 1];
    for v in (0..tree.len() as u32).filter(|v| tree.is_available(*v)) {
        let (count, below) = &mut levels[tree.depth(v) as usize];
        (*count, *below) = (*count + 1, *below + tree.below(v));
    }
    let fits = levels.iter().enumerate().filter(|(_, (count, _))| (1..=k).contains(count));
    let chosen = fits.max_by_key(|(level, size)| (**size, Reverse(*level))).map(|(level, _)| level as u32);
    (0..tree.len() as u32).map(|v| tree.is_available(v) && Some(tree.depth(v)) == chosen).collect()
}
