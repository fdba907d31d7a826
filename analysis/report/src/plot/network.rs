//! Nodes in rows by their distance from the server, and cables as thick as what they carried.

use std::collections::VecDeque;
use std::fmt::Write;

use pktgen_records::human::scale_for;

use super::{WIDTH, cut, escape};
use crate::chart::{Cable, Chart, Network};

/// Distance of rows, and of nodes in a row.
const ROW: f64 = 84.0;
const GAP: f64 = 70.0;
/// Room at the edges.
const EDGE: f64 = 26.0;
/// Cables whose ends are nearer to each other than this, sideways, stand upright.
const UPRIGHT: f64 = 20.0;
/// Half the size of a node.
const HALF: (f64, f64) = (24.0, 12.0);

/// The drawing and its size.
pub(super) fn draw(chart: &Chart) -> (String, f64, f64) {
    let empty = Network::default();
    let network = chart.network.as_ref().unwrap_or(&empty);
    let (at, width, height) = places(&rows(network), network.nodes.len());
    let mut out = String::new();
    let most = network.cables.iter().filter_map(load).fold(0.0, f64::max);
    for cable in &network.cables {
        let ((x1, y1), (x2, y2)) = (at[cable.from], at[cable.to]);
        // By share of the busiest: what is unknown is thin and dashed.
        let part = load(cable).filter(|_| most > 0.0).map(|load| load / most);
        let (wide, dash) = part.map_or((1.0, "2 3"), |part| (1.0 + 7.0 * part, "none"));
        let tip = escape(&words(network, cable));
        let _ = writeln!(
            out,
            "<line class=\"cable\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke-width=\"{wide:.1}\" \
             stroke-dasharray=\"{dash}\"><title>{tip}</title></line>"
        );
    }
    for cable in &network.cables {
        label(cable, at[cable.from], at[cable.to], &mut out);
    }
    for (node, &(x, y)) in network.nodes.iter().zip(&at) {
        let round = if ["host", "server", "controller"].contains(&node.role) { 2 } else { 12 };
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect class=\"node {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"{round}\"/>\
             <text class=\"small on-{}\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
            escape(&format!("{} ({})", node.name, node.role)),
            node.role,
            x - HALF.0,
            y - HALF.1,
            2.0 * HALF.0,
            2.0 * HALF.1,
            node.role,
            y + 4.0,
            escape(&cut(&node.label, 8))
        );
    }
    (out, width, height)
}

/// The larger of both ways.
fn load(cable: &Cable) -> Option<f64> {
    cable.up.into_iter().chain(cable.down).reduce(f64::max)
}

fn percent(share: f64) -> String {
    scale_for("share", 1.0).show(share)
}

fn words(network: &Network, cable: &Cable) -> String {
    let name = |node: usize| network.nodes.get(node).map_or("?", |node| node.name.as_str());
    let mut words = format!("{} – {}", name(cable.from), name(cable.to));
    if let (Some(up), Some(bytes)) = (cable.up, cable.up_bytes) {
        let _ = write!(words, ": {} towards the server ({bytes:.0} bytes)", percent(up));
    }
    if let Some(down) = cable.down {
        let _ = write!(words, ", {} away from it", percent(down));
    }
    words
}

/// The load beside a cable, nearer to the workers' end, where cables into one switch are apart.
fn label(cable: &Cable, (x1, y1): (f64, f64), (x2, y2): (f64, f64), out: &mut String) {
    let (x, y) = (x1 + (x2 - x1) * 0.42, y1 + (y2 - y1) * 0.42);
    // Beside an upright cable, else its number would be lost on it.
    let (x, anchor) = if (x2 - x1).abs() < UPRIGHT { (x + 8.0, "start") } else { (x, "middle") };
    let lines = match (cable.up, cable.down) {
        (Some(up), Some(down)) => vec![format!("↑ {}", percent(up)), format!("↓ {}", percent(down))],
        (Some(up), None) => vec![percent(up)],
        (None, Some(down)) => vec![format!("↓ {}", percent(down))],
        (None, None) => Vec::new(),
    };
    for (i, line) in lines.iter().enumerate() {
        let y = y + 4.0 + 12.0 * (i as f64 - (lines.len() as f64 - 1.0) / 2.0);
        let _ = writeln!(
            out,
            "<text class=\"small count\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{line}</text>"
        );
    }
}

/// The nodes of each row, the server's first, each row in the order of what it hangs on.
fn rows(network: &Network) -> Vec<Vec<usize>> {
    let count = network.nodes.len();
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); count];
    for cable in &network.cables {
        near[cable.from].push(cable.to);
        near[cable.to].push(cable.from);
    }
    let is_top = |node: &usize| network.nodes[*node].role == "server";
    let mut tops: Vec<usize> = (0..count).filter(is_top).collect();
    if tops.is_empty() {
        // Without a server: the aggregator that no cable leaves upwards.
        tops.extend((0..count).find(|node| !network.cables.iter().any(|cable| cable.from == *node)));
    }
    let mut row = vec![usize::MAX; count];
    tops.iter().for_each(|node| row[*node] = 0);
    let mut open: VecDeque<(usize, usize)> = tops.into_iter().map(|node| (node, 0)).collect();
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
    let lost: Vec<_> = (0..count).filter(|node| row[*node] == usize::MAX).collect();
    if !lost.is_empty() {
        rows.push(lost);
    }
    rows
}

/// Where nodes stand: each in the middle of its share of the row.
fn places(rows: &[Vec<usize>], nodes: usize) -> (Vec<(f64, f64)>, f64, f64) {
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let width = (widest * GAP + 2.0 * EDGE).max(WIDTH);
    let mut at = vec![(0.0, 0.0); nodes];
    for (number, row) in rows.iter().enumerate() {
        let share = (width - 2.0 * EDGE) / row.len() as f64;
        for (place, &node) in row.iter().enumerate() {
            at[node] = (EDGE + share * (place as f64 + 0.5), EDGE + ROW * number as f64);
        }
    }
    (at, width, EDGE * 2.0 + ROW * (rows.len().max(1) - 1) as f64)
}
