//! Pictures of plans: SVG to look at, Graphviz dot to lay out otherwise.
//!
//! Nodes stand in rows by their distance from the server, each above what it hears; switches that aggregate are filled,
//! and every cable says how many messages of a round it carries.

use std::collections::VecDeque;
use std::fmt::Write;

use pktgen_generator::plan::{Plan, PlanRole};

/// Distance of rows, and of nodes in a row.
const ROW: f64 = 90.0;
const GAP: f64 = 46.0;
/// Room at the edges.
const EDGE: f64 = 40.0;
/// Narrower than this is hard to read.
const WIDTH_MIN: f64 = 320.0;

const STYLE: &str = "\
text{font:11px sans-serif;text-anchor:middle;fill:#222}line{stroke:#999}.common{fill:#f6d5d0;stroke:#b3402e}\
.aggregator{fill:#2e6fb3;stroke:#173a5e}.aggregator+text{fill:#fff}.host{fill:#ddd;stroke:#888}.server{fill:#fff;stroke:#222}\
.count{font-size:10px;fill:#555;paint-order:stroke;stroke:#fff;stroke-width:3px}";

/// The nodes of each row, the server's first, each row in the order of what it hangs on.
fn rows(plan: &Plan) -> Vec<Vec<usize>> {
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); plan.nodes.len()];
    for link in &plan.links {
        near[link.from].push(link.to);
        near[link.to].push(link.from);
    }
    let mut row = vec![usize::MAX; plan.nodes.len()];
    let servers = (0..plan.nodes.len()).filter(|node| plan.nodes[*node].role == PlanRole::Server);
    let mut open: VecDeque<_> = servers.map(|node| (node, 0)).collect();
    open.iter().for_each(|(node, _)| row[*node] = 0);
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
    let lost: Vec<_> = (0..plan.nodes.len()).filter(|node| row[*node] == usize::MAX).collect();
    if !lost.is_empty() {
        rows.push(lost);
    }
    rows
}

/// Where nodes stand: each in the middle of its share of the row.
fn places(rows: &[Vec<usize>], nodes: usize) -> (Vec<(f64, f64)>, f64, f64) {
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let width = (widest * GAP).max(WIDTH_MIN);
    let mut at = vec![(0.0, 0.0); nodes];
    for (number, row) in rows.iter().enumerate() {
        let share = width / row.len() as f64;
        for (place, &node) in row.iter().enumerate() {
            at[node] = (EDGE + share * (place as f64 + 0.5), EDGE + ROW * number as f64);
        }
    }
    (at, width + 2.0 * EDGE, EDGE * 2.0 + ROW * (rows.len().max(1) - 1) as f64)
}

/// The class of a node in either picture.
fn class(role: PlanRole) -> &'static str {
    match role {
        PlanRole::Host => "host",
        PlanRole::Common => "common",
        PlanRole::Aggregator => "aggregator",
        PlanRole::Server => "server",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What a node shows: a host of several workers how many.
fn label(plan: &Plan, node: usize) -> String {
    match plan.nodes[node].workers.len() {
        0 | 1 => plan.nodes[node].name.clone(),
        n => format!("{n} ×"),
    }
}

/// As a picture.
pub fn svg(plan: &Plan) -> String {
    let rows = rows(plan);
    let (at, width, height) = places(&rows, plan.nodes.len());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\"><title>Plan of {}</title><style>{STYLE}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(&plan.placer)
    );
    let counts = plan.messages();
    for (link, [up, down]) in plan.links.iter().zip(&counts) {
        let ((x1, y1), (x2, y2)) = (at[link.from], at[link.to]);
        let wide = 1.0 + ((up + down) as f64).sqrt() / 2.0;
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke-width=\"{:.1}\"/>",
            wide.min(8.0)
        );
    }
    for (link, [up, down]) in plan.links.iter().zip(&counts) {
        // Nearer to the workers' end, where cables into one switch are apart.
        let ((x1, y1), (x2, y2)) = (at[link.from], at[link.to]);
        let (x, y) = (x1 + (x2 - x1) * 0.4, y1 + (y2 - y1) * 0.4);
        let _ = writeln!(out, "<text class=\"count\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", up + down);
    }
    for (node, &(x, y)) in at.iter().enumerate() {
        let role = plan.nodes[node].role;
        let (name, class) = (escape(&plan.nodes[node].name), class(role));
        let shape = match role {
            PlanRole::Host | PlanRole::Server => {
                format!(
                    "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"32\" height=\"22\"/>",
                    x - 16.0,
                    y - 11.0
                )
            }
            _ => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"15\"/>"),
        };
        let text = escape(&label(plan, node));
        let _ =
            writeln!(out, "<g><title>{name}</title>{shape}<text x=\"{x:.1}\" y=\"{:.1}\">{text}</text></g>", y + 4.0);
    }
    out.push_str("</svg>\n");
    out
}

/// For Graphviz.
pub fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("digraph plan {\n  rankdir=BT;\n");
    for (node, own) in plan.nodes.iter().enumerate() {
        let (shape, fill) = match own.role {
            PlanRole::Host => ("box", "#dddddd"),
            PlanRole::Common => ("circle", "#f6d5d0"),
            PlanRole::Aggregator => ("circle", "#7fb0e0"),
            PlanRole::Server => ("box", "#ffffff"),
        };
        let text = quoted(&label(plan, node));
        let _ = writeln!(out, "  {} [label={text} shape={shape} style=filled fillcolor={fill:?}];", quoted(&own.name));
    }
    for (link, [up, down]) in plan.links.iter().zip(plan.messages()) {
        let (from, to) = (quoted(&plan.nodes[link.from].name), quoted(&plan.nodes[link.to].name));
        let _ = writeln!(out, "  {from} -> {to} [label=\"{}\"];", up + down);
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_generator::tree::make::{Rates, binary};
    use pktgen_generator::units::Rate;

    fn example() -> Plan {
        let tree = binary(8, Rates::Constant).unwrap().with_load(vec![0, 0, 0, 2, 6, 5, 4]);
        let blue = [false, false, true, false, true, false, false];
        tree.plan("soar", &blue, Rate::from_bps(1_000_000_000))
    }

    #[test]
    fn pictures_show_every_node_and_count() {
        let plan = example();
        let (svg, dot) = (svg(&plan), dot(&plan));
        assert_eq!(svg.matches("<line").count(), plan.links.len());
        assert_eq!(svg.matches("class=\"aggregator\"").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 7);
        assert!(svg.contains("<title>s4</title>") && svg.contains("6 ×"));
        assert!(dot.contains("\"s0\" -> \"ps\" [label=\"4\"];") && dot.contains("\"s4\" -> \"s1\" [label=\"1\"];"));
        // The row of the leaves is below that of their parents.
        let rows = rows(&plan);
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2, 4, 4]);
    }
}
