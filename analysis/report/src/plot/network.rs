//! Nodes in rows by their distance from the server, and cables whose width shows their load.

use std::fmt::Write;

use pktgen_core::rows::{RowPlacement, Spacing};
use pktgen_records::human::scale_for;

use super::{WIDTH, cut, escape};
use crate::chart::{Cable, Chart, Network};

/// Margin at each edge.
const EDGE: f64 = 26.0;
const SPACING: Spacing = Spacing { row: 84.0, gap: 70.0, edge: EDGE, least: WIDTH - 2.0 * EDGE };
/// Maximum horizontal distance of a cable's ends for it to be drawn vertically.
const UPRIGHT: f64 = 20.0;
/// Half the size of a node.
const HALF: (f64, f64) = (24.0, 12.0);

/// Returns the drawing and its size.
pub(super) fn draw(chart: &Chart) -> (String, f64, f64) {
    let empty = Network::default();
    let network = chart.network.as_ref().unwrap_or(&empty);
    let RowPlacement { at, width, height } = places(network);
    let mut out = String::new();
    let most = network.cables.iter().filter_map(load).fold(0.0, f64::max);
    for cable in &network.cables {
        let ((x1, y1), (x2, y2)) = (at[cable.from], at[cable.to]);
        // Width by share of the busiest cable; cables with unknown load are thin and dashed.
        let part = load(cable).map(|load| if most > 0.0 { load / most } else { 0.0 });
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

/// Returns the larger load of both directions.
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

/// Writes the load beside a cable, closer to the workers' end, where cables into one switch are apart.
fn label(cable: &Cable, (x1, y1): (f64, f64), (x2, y2): (f64, f64), out: &mut String) {
    let (x, y) = (x1 + (x2 - x1) * 0.42, y1 + (y2 - y1) * 0.42);
    // Beside a vertical cable, since the number would be unreadable on it.
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

/// Returns the positions of nodes, with the servers at the top; without a server, the aggregator without a cable upwards.
fn places(network: &Network) -> RowPlacement {
    let count = network.nodes.len();
    let mut tops: Vec<usize> = (0..count).filter(|node| network.nodes[*node].role == "server").collect();
    if tops.is_empty() {
        tops.extend((0..count).find(|node| !network.cables.iter().any(|cable| cable.from == *node)));
    }
    SPACING.place(count, network.cables.iter().map(|cable| (cable.from, cable.to)), &tops)
}
