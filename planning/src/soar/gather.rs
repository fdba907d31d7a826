//! The exact solution by dynamic programming (SOAR §6, Algorithms 3 and 4), derived from Lemma 6.1.
//!
//! `X_v(ℓ, i)` is the minimum cost of the subtree of `v` with at most `i` blue switches in it if the output of `v`
//! continues for `ℓ` links until a blue switch or the destination:
//!
//! ```text
//! v red:   Σ over children c of X_c(ℓ + 1, i_c)  +  L(v) · ρ(v, ℓ)
//! v blue:  Σ over children c of X_c(1, i_c)      +  [anything arrives] · ρ(v, ℓ)      and Σ i_c = i − 1
//! ```
//!
//! with `ρ(v, ℓ)` the time of one message on those `ℓ` links. The sums over children are (min, +) products. No subtree
//! gets more blue switches than it has available, nor more than `k`, so the products of all nodes of one height
//! together take O(n · k) steps and not O(n · k²); each is computed once for every ℓ, so the total is O(n · h · k).

use pktgen_core::tree::{ROOT, Tree};

use super::Placement;

/// Default memory limit of the tables in bytes.
pub const MEMORY: u64 = 8 << 30;

/// Costs that differ by less than this share are equal: rates such as 3 have no exact inverse, so equal costs are sums that
/// rounding makes unequal.
pub(super) const TIE: f64 = 1e-12;

/// The tables of all switches, as SOAR-Gather leaves them.
pub struct Tables {
    values: Vec<f64>,
    /// Beginning of the table of each switch: a row for each ℓ from 1 on.
    start: Vec<usize>,
    /// Length of a row, one more than the maximum number of blue switches below.
    width: Vec<u32>,
}

impl Tables {
    /// Allocates all tables; the error states the necessary memory.
    fn new(tree: &Tree, k: usize, memory: u64) -> Result<Self, String> {
        let n = tree.len();
        let mut available = vec![0u64; n];
        for &v in tree.order().iter().rev() {
            available[v as usize] += u64::from(tree.is_available(v));
            if tree.parent(v) != ROOT {
                available[tree.parent(v) as usize] += available[v as usize];
            }
        }
        let width: Vec<_> = available.iter().map(|count| (*count).min(k as u64) as u32 + 1).collect();
        let (mut start, mut total) = (Vec::with_capacity(n), 0u64);
        for (v, width) in width.iter().enumerate() {
            start.push(total as usize);
            total += u64::from(*width) * u64::from(tree.depth(v as u32) + 1);
        }
        // The second pass keeps the costs of the children of one switch at a time, once for each possible colour (`parts`).
        let kept = |v: u32| {
            let colours = 1 + u64::from(tree.is_available(v));
            let (mut most, mut sum) = (0u64, 0u64);
            for &child in tree.children(v) {
                most = (most + u64::from(width[child as usize]) - 1).min(k as u64);
                sum += colours * (most + 1);
            }
            sum
        };
        let bytes = (total + (0..n as u32).map(kept).max().unwrap_or(0)) * size_of::<f64>() as u64;
        if bytes > memory {
            return Err(format!(
                "the tables of {n} switches in a tree of height {}, at most {} below one, with k = {k} take {:.1} GiB, above the \
                 limit of {:.1} GiB; lower k or make fewer switches available",
                tree.order().last().map_or(0, |v| tree.depth(*v)),
                (0..n as u32).map(|v| tree.children(v).len()).max().unwrap_or(0),
                bytes as f64 / (1u64 << 30) as f64,
                memory as f64 / (1u64 << 30) as f64
            ));
        }
        Ok(Tables { values: vec![0.0; total as usize], start, width })
    }

    /// Returns `X_v(ℓ, ·)`.
    fn row(&self, v: u32, l: usize) -> &[f64] {
        let width = self.width[v as usize] as usize;
        let at = self.start[v as usize] + (l - 1) * width;
        &self.values[at..at + width]
    }
}

/// Computes the (min, +) product, the combined cost of two parts, limited to the length of `out`.
#[inline]
fn join(a: &[f64], b: &[f64], out: &mut [f64]) {
    out.fill(f64::INFINITY);
    for (i, x) in a.iter().enumerate().take(out.len()) {
        for (sum, y) in out[i..].iter_mut().zip(b) {
            let both = x + y;
            *sum = if both < *sum { both } else { *sum };
        }
    }
}

/// Combined cost of children, added one after another.
struct Joined {
    sum: Vec<f64>,
    next: Vec<f64>,
    most: usize,
}

impl Joined {
    /// Creates a sum of parts with at most `most` blue switches.
    fn new(most: usize) -> Self {
        Joined { sum: Vec::with_capacity(most + 1), next: Vec::with_capacity(most + 1), most }
    }

    fn of<'a>(&mut self, mut rows: impl Iterator<Item = &'a [f64]>) -> &[f64] {
        self.sum.clear();
        self.sum.extend_from_slice(rows.next().unwrap_or(&[0.0]));
        for row in rows {
            self.add(row);
        }
        &self.sum
    }

    fn add(&mut self, row: &[f64]) {
        if let [only] = row {
            return self.sum.iter_mut().for_each(|sum| *sum += only);
        }
        let length = (self.sum.len() + row.len() - 1).min(self.most + 1);
        self.next.resize(length, 0.0);
        // The longer one is the inner loop, which has no branches.
        let (a, b) = if self.sum.len() < row.len() { (&self.sum[..], row) } else { (row, &self.sum[..]) };
        join(a, b, &mut self.next);
        std::mem::swap(&mut self.sum, &mut self.next);
    }
}

/// Returns ρ(v, ℓ) for every ℓ from 1 on.
pub(super) fn paths<'a>(tree: &'a Tree, v: u32) -> impl Iterator<Item = f64> + 'a {
    let mut at = v;
    let mut sum = 0.0;
    std::iter::from_fn(move || {
        if at == ROOT {
            return None;
        }
        sum += tree.rho(at);
        at = tree.parent(at);
        Some(sum)
    })
}

/// Returns a placement with minimum φ and at most `k` aggregating switches.
pub fn solve(tree: &Tree, k: usize, memory: u64) -> Result<Placement, String> {
    // Without a choice there is nothing to compare, and tables of deep trees are large.
    if k == 0 || !(0..tree.len() as u32).any(|v| tree.is_available(v)) {
        return Ok(Placement::of(tree, vec![false; tree.len()]));
    }
    Ok(Placement::of(tree, colour(tree, &tables(tree, k, memory)?, k, Root::Either)))
}

/// Returns the costs of all subtrees for at most `k` aggregating switches (Algorithm 3).
pub fn tables(tree: &Tree, k: usize, memory: u64) -> Result<Tables, String> {
    let k = k.min(tree.len());
    let mut tables = Tables::new(tree, k, memory)?;
    let (mut red, mut blue) = (Joined::new(k), Joined::new(k));
    for &v in tree.order().iter().rev() {
        gather(tree, v, &mut tables, &mut red, &mut blue);
    }
    Ok(tables)
}

/// Whether the root may aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// Whichever is better.
    Either,
    /// It must not aggregate.
    Red,
    /// It must aggregate if available and `k` is not 0.
    Blue,
}

impl Root {
    /// All choices with their names.
    pub const ALL: [(&'static str, Root); 3] = [("either", Root::Either), ("red", Root::Red), ("blue", Root::Blue)];

    /// Whether a switch that may aggregate is blue, given what both colours cost: if blue is better by more than rounding.
    pub(super) fn takes_blue(self, is_root: bool, as_blue: f64, as_red: f64) -> bool {
        match self {
            Root::Red if is_root => false,
            Root::Blue if is_root => true,
            _ => as_blue < as_red * (1.0 - TIE),
        }
    }
}

/// Computes the table of `v` after those of its children.
fn gather(tree: &Tree, v: u32, tables: &mut Tables, red: &mut Joined, blue: &mut Joined) {
    let children = tree.children(v);
    let width = tables.width[v as usize] as usize;
    let load = tree.load(v) as f64;
    let leaves = if tree.below(v) > 0 { 1.0 } else { 0.0 };
    if tree.is_available(v) {
        blue.of(children.iter().map(|c| tables.row(*c, 1)));
    }
    for (at, rho) in paths(tree, v).enumerate() {
        let as_red = red.of(children.iter().map(|c| tables.row(*c, at + 2)));
        let start = tables.start[v as usize] + at * width;
        // The table of `v` is next to those that were just read.
        let row = &mut tables.values[start..start + width];
        row.fill(f64::INFINITY);
        row.iter_mut().zip(as_red).for_each(|(x, children)| *x = children + load * rho);
        if tree.is_available(v) && width > 1 {
            let as_blue = blue.sum.iter().map(|children| children + leaves * rho);
            row[1..].iter_mut().zip(as_blue).for_each(|(x, own)| *x = x.min(own));
        }
    }
}

/// Follows the minimum costs from the root down (Algorithm 4). A switch is blue only if that is better than red.
pub fn colour(tree: &Tree, tables: &Tables, k: usize, of_root: Root) -> Vec<bool> {
    let mut colours = vec![false; tree.len()];
    let root = tree.order()[0];
    let mut open = vec![(root, 1usize, k.min(tables.width[root as usize] as usize - 1))];
    while let Some((v, l, budget)) = open.pop() {
        let budget = budget.min(tables.width[v as usize] as usize - 1);
        if budget == 0 {
            continue;
        }
        let rho = paths(tree, v).nth(l - 1).expect("no way is longer than to the destination");
        let red = parts(tree, tables, v, l + 1, budget);
        let at = |parts: &[Vec<f64>], i: usize| parts.last().map_or(0.0, |all| all[i.min(all.len() - 1)]);
        let as_red = at(&red, budget) + tree.load(v) as f64 * rho;
        let mut taken = (red, budget, l + 1);
        if tree.is_available(v) {
            let blue = parts(tree, tables, v, 1, budget - 1);
            let leaves = if tree.below(v) > 0 { rho } else { 0.0 };
            if of_root.takes_blue(v == root, at(&blue, budget - 1) + leaves, as_red) {
                colours[v as usize] = true;
                taken = (blue, budget - 1, 1);
            }
        }
        let (parts, mut left, below) = taken;
        for (m, &child) in tree.children(v).iter().enumerate().rev() {
            left = left.min(parts[m].len() - 1);
            let own = if m == 0 { left } else { split(&parts[m - 1], tables.row(child, below), left) };
            open.push((child, below, own));
            left -= own;
        }
    }
    colours
}

/// Returns the costs of the first, the first two, … children, each at distance ℓ, with at most `budget` blue switches.
fn parts(tree: &Tree, tables: &Tables, v: u32, l: usize, budget: usize) -> Vec<Vec<f64>> {
    let mut joined = Joined::new(budget);
    let mut parts: Vec<Vec<f64>> = Vec::with_capacity(tree.children(v).len());
    for &child in tree.children(v) {
        let row = tables.row(child, l);
        let row = &row[..row.len().min(budget + 1)];
        match parts.is_empty() {
            true => _ = joined.of(std::iter::once(row)),
            false => joined.add(row),
        }
        parts.push(joined.sum.clone());
    }
    parts
}

/// Returns how many of `left` blue switches the next child gets; the minimum if several are optimal.
fn split(before: &[f64], row: &[f64], left: usize) -> usize {
    let possible = (0..row.len().min(left + 1)).filter(|own| left - own < before.len());
    fewest(possible, |own| before[left - own] + row[own])
}

/// The first of the `possible` numbers, in rising order, whose cost is the least but for rounding.
pub(super) fn fewest(possible: impl Iterator<Item = usize> + Clone, cost: impl Fn(usize) -> f64) -> usize {
    let least = possible.clone().map(&cost).fold(f64::INFINITY, f64::min);
    possible.clone().find(|own| cost(*own) * (1.0 - TIE) <= least).unwrap_or(0)
}
