//! SOAR-Gather and SOAR-Color in the published steps (SOAR §6, Algorithms 3 and 4): O(n · h · k²), for comparing times
//! with the paper's, and as a second solution besides that of [`gather`](super::gather).
//!
//! Every table has columns for 0 to k blue switches, even if the subtree has fewer. Misprints are corrected (`docs/soar.md`): children of
//! a blue switch are at distance 1, a switch without input sends nothing, whether blue or not, and a leaf is blue only if that
//! costs less than red.

use pktgen_core::tree::Tree;

use super::gather::{MEMORY, Root, fewest, paths};

/// The tables of one switch.
struct Node {
    /// `Y_v^m(ℓ, i, B)` and `Y_v^m(ℓ, i, R)` of each child, by ℓ and i.
    blue: Vec<Vec<f64>>,
    red: Vec<Vec<f64>>,
    /// `X_v(ℓ, i)`.
    least: Vec<f64>,
}

/// The tables of all switches.
pub struct Tables {
    nodes: Vec<Node>,
    /// Number of columns of a table, k + 1.
    width: usize,
}

/// Executes Algorithm 3 at every switch, the leaves first.
pub fn gather(tree: &Tree, k: usize) -> Result<Tables, String> {
    let width = k.min(tree.len()) + 1;
    let of = |v: u32| (2 * tree.children(v).len() as u64 + 1) * (u64::from(tree.depth(v)) + 2);
    let bytes = (0..tree.len() as u32).map(of).sum::<u64>() * width as u64 * 8;
    if bytes > MEMORY {
        return Err(format!(
            "the tables as printed take {bytes} bytes, above the limit of {MEMORY}; use study.method = \"pruned\""
        ));
    }
    let empty = || Node { blue: Vec::new(), red: Vec::new(), least: Vec::new() };
    let mut tables = Tables { nodes: (0..tree.len()).map(|_| empty()).collect(), width };
    for &v in tree.order().iter().rev() {
        let node = tables.of(tree, v);
        tables.nodes[v as usize] = node;
    }
    Ok(tables)
}

impl Tables {
    fn least(&self, v: u32, l: usize) -> &[f64] {
        &self.nodes[v as usize].least[l * self.width..(l + 1) * self.width]
    }

    /// Executes Algorithm 3 at one switch after its children.
    fn of(&self, tree: &Tree, v: u32) -> Node {
        let ways: Vec<f64> = std::iter::once(0.0).chain(paths(tree, v)).collect();
        let (load, arrives) = (tree.load(v) as f64, if tree.below(v) > 0 { 1.0 } else { 0.0 });
        let (mut blue, mut red): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for (m, &child) in tree.children(v).iter().enumerate() {
            let (mut as_blue, mut as_red) = (Vec::new(), Vec::new());
            for (l, &rho) in ways.iter().enumerate() {
                // The root's children are at most one link farther from the destination than the root.
                let (near, far) = (self.least(child, 1), self.least(child, l + 1));
                for i in 0..self.width {
                    let below = |i: usize, own: &Vec<Vec<f64>>| own[m - 1][l * self.width + i];
                    as_blue.push(match m {
                        _ if !tree.is_available(v) || i == 0 => f64::INFINITY,
                        0 => near[i - 1] + rho * arrives,
                        _ => (0..i).map(|j| below(i - j, &blue) + near[j]).fold(f64::INFINITY, f64::min),
                    });
                    as_red.push(match m {
                        0 => far[i] + rho * load,
                        _ => (0..=i).map(|j| below(i - j, &red) + far[j]).fold(f64::INFINITY, f64::min),
                    });
                }
            }
            blue.push(as_blue);
            red.push(as_red);
        }
        let least = match (blue.last(), red.last()) {
            (Some(blue), Some(red)) => blue.iter().zip(red).map(|(blue, red)| blue.min(*red)).collect(),
            _ => {
                let sent = |i: usize| if i > 0 && tree.is_available(v) { load.min(1.0) } else { load };
                ways.iter().flat_map(|rho| (0..self.width).map(move |i| rho * sent(i))).collect()
            }
        };
        Node { blue, red, least }
    }

    /// Executes Algorithm 4, the root first.
    pub fn colour(&self, tree: &Tree, of_root: Root) -> Vec<bool> {
        let mut colours = vec![false; tree.len()];
        let root = tree.order()[0];
        let mut open = vec![(root, 1usize, self.width - 1)];
        while let Some((v, l, mut i)) = open.pop() {
            let node = &self.nodes[v as usize];
            let (Some(blue), Some(red)) = (node.blue.last(), node.red.last()) else {
                // Line 5 takes every leaf with i > 0; here a leaf has to gain, as other switches do (line 6).
                let row = self.least(v, l);
                colours[v as usize] = i > 0 && tree.is_available(v) && of_root.takes_blue(v == root, row[i], row[0]);
                continue;
            };
            let at = |table: &[f64], i: usize| table[l * self.width + i];
            let is_blue = at(blue, i) < f64::INFINITY && of_root.takes_blue(v == root, at(blue, i), at(red, i));
            colours[v as usize] = is_blue;
            let (tables, below) = if is_blue { (&node.blue, 1) } else { (&node.red, l + 1) };
            for (m, &child) in tree.children(v).iter().enumerate().rev() {
                let left = match m {
                    0 => i - usize::from(is_blue),
                    _ => {
                        let possible = 0..i + usize::from(!is_blue);
                        fewest(possible, |j| at(&tables[m - 1], i - j) + self.least(child, below)[j])
                    }
                };
                open.push((child, below, left));
                i -= left;
            }
        }
        colours
    }
}
