//! Layout of network drawings: nodes in rows, by their distance from the top.

use std::collections::VecDeque;

/// Distances in a drawing.
#[derive(Debug, Clone, Copy)]
pub struct Spacing {
    /// Distance between rows.
    pub row: f64,
    /// Distance between nodes in the widest row.
    pub gap: f64,
    /// Margin at each edge.
    pub edge: f64,
    /// Minimum width between the margins.
    pub least: f64,
}

/// Positions of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPlacement {
    /// Position of each node.
    pub at: Vec<(f64, f64)>,
    /// Width of the drawing.
    pub width: f64,
    /// Height of the drawing.
    pub height: f64,
}

impl Spacing {
    /// Places `nodes` nodes, each in the middle of its share of its row.
    pub fn place(&self, nodes: usize, cables: impl Iterator<Item = (usize, usize)>, tops: &[usize]) -> RowPlacement {
        let rows = rows(nodes, cables, tops);
        let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
        let inner = (widest * self.gap).max(self.least);
        let mut at = vec![(0.0, 0.0); nodes];
        for (number, row) in rows.iter().enumerate() {
            let share = inner / row.len() as f64;
            for (place, &node) in row.iter().enumerate() {
                at[node] = (self.edge + share * (place as f64 + 0.5), self.edge + self.row * number as f64);
            }
        }
        let height = self.edge * 2.0 + self.row * (rows.len().max(1) - 1) as f64;
        RowPlacement { at, width: inner + 2.0 * self.edge, height }
    }
}

/// Returns the nodes of each row: `tops` first, each row in the order of the nodes above; nodes not connected to a top are last.
fn rows(nodes: usize, cables: impl Iterator<Item = (usize, usize)>, tops: &[usize]) -> Vec<Vec<usize>> {
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (from, to) in cables {
        near[from].push(to);
        near[to].push(from);
    }
    let mut row = vec![usize::MAX; nodes];
    tops.iter().for_each(|node| row[*node] = 0);
    let mut open: VecDeque<(usize, usize)> = tops.iter().map(|node| (*node, 0)).collect();
    let mut rows: Vec<Vec<usize>> = Vec::new();
    while let Some((node, at)) = open.pop_front() {
        rows.resize(rows.len().max(at + 1), Vec::new());
        rows[at].push(node);
        for &next in &near[node] {
            if row[next] == usize::MAX {
                row[next] = at + 1;
                open.push_back((next, at + 1));
            }
        }
    }
    let lost: Vec<_> = (0..nodes).filter(|node| row[*node] == usize::MAX).collect();
    if !lost.is_empty() {
        rows.push(lost);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_below_what_they_hang_on() {
        // A server above two switches with two hosts and one, and a node without cables.
        let cables = [(1, 0), (2, 0), (3, 2), (4, 1), (5, 1)];
        assert_eq!(rows(7, cables.into_iter(), &[0]), [vec![0], vec![1, 2], vec![4, 5, 3], vec![6]]);
        let spacing = Spacing { row: 10.0, gap: 20.0, edge: 5.0, least: 30.0 };
        let RowPlacement { at, width, height } = spacing.place(7, cables.into_iter(), &[0]);
        assert_eq!((at[0], at[1], at[3], at[6]), ((35.0, 5.0), (20.0, 15.0), (55.0, 25.0), (35.0, 35.0)));
        assert_eq!((width, height), (70.0, 40.0));
        assert_eq!(spacing.place(0, [].into_iter(), &[]), RowPlacement { at: vec![], width: 40.0, height: 10.0 });
    }
}
