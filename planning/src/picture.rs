//! Pictures of plans: as SVG, and as Graphviz dot for other layouts.
//!
//! Nodes are in rows by their distance from the server, each above its inputs; aggregating switches are filled, and
//! every cable shows its number of messages per round.

use std::collections::BTreeMap;
use std::fmt::Write;

use pktgen_core::plan::{Plan, PlanRole};
use pktgen_core::printable::{escape, printable};
use pktgen_core::rows::{RowPlacement, Spacing};

/// Widths below 320 are hard to read.
const SPACING: Spacing = Spacing { row: 90.0, gap: 46.0, edge: 40.0, least: 320.0 };

const STYLE: &str = "\
text{font:11px sans-serif;text-anchor:middle;fill:#222}line{stroke:#999}.common{fill:#f6d5d0;stroke:#b3402e}\
.aggregator{fill:#2e6fb3;stroke:#173a5e}.aggregator+text{fill:#fff}.host{fill:#ddd;stroke:#888}.server{fill:#fff;stroke:#222}\
.count{font-size:10px;fill:#555;paint-order:stroke;stroke:#fff;stroke-width:3px}";

/// The contents of a picture: hosts of one switch are grouped.
struct View {
    nodes: Vec<Shown>,
    /// The end closer to the workers, the other end, and the number of messages per round on the cables between them.
    cables: Vec<(usize, usize, u64)>,
}

/// A node, or a group of hosts.
struct Shown {
    name: String,
    label: String,
    role: PlanRole,
}

impl View {
    fn of(plan: &Plan) -> Self {
        let is_host = |node: usize| plan.nodes[node].role == PlanRole::Host;
        // The hosts of each switch: their index in the view, their number, and their workers.
        let mut together: BTreeMap<usize, (usize, usize, usize)> = BTreeMap::new();
        let mut place = vec![usize::MAX; plan.nodes.len()];
        let mut nodes: Vec<Shown> = Vec::new();
        for (node, own) in plan.nodes.iter().enumerate().filter(|(node, _)| !is_host(*node)) {
            place[node] = nodes.len();
            nodes.push(Shown { name: own.name.clone(), label: own.name.clone(), role: own.role });
        }
        for link in plan.links.iter().filter(|link| is_host(link.from)) {
            let hosts = together.entry(link.to).or_insert((nodes.len(), 0, 0));
            place[link.from] = hosts.0;
            (hosts.1, hosts.2) = (hosts.1 + 1, hosts.2 + plan.nodes[link.from].workers.len());
            let name = plan.nodes[link.from].name.clone();
            match hosts.1 {
                1 => nodes.push(Shown { label: name.clone(), name, role: PlanRole::Host }),
                count => nodes[hosts.0].name = format!("{count} hosts"),
            }
            if hosts.2 > 1 {
                nodes[hosts.0].label = format!("{} ×", hosts.2);
            }
        }
        let mut cables: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (link, [up, down]) in plan.links.iter().zip(plan.messages()) {
            if place[link.from] != usize::MAX && place[link.to] != usize::MAX {
                *cables.entry((place[link.from], place[link.to])).or_default() += up + down;
            }
        }
        View { nodes, cables: cables.into_iter().map(|((from, to), count)| (from, to, count)).collect() }
    }
}

/// Returns the positions of nodes, with servers at the top.
fn places(view: &View) -> RowPlacement {
    let servers: Vec<_> = (0..view.nodes.len()).filter(|node| view.nodes[*node].role == PlanRole::Server).collect();
    SPACING.place(view.nodes.len(), view.cables.iter().map(|&(from, to, _)| (from, to)), &servers)
}

/// Returns the class of a node in both kinds of pictures.
fn class(role: PlanRole) -> &'static str {
    match role {
        PlanRole::Host => "host",
        PlanRole::Common => "common",
        PlanRole::Aggregator => "aggregator",
        PlanRole::Server => "server",
    }
}

/// Draws the plan as SVG.
pub fn svg(plan: &Plan) -> String {
    let view = View::of(plan);
    let RowPlacement { at, width, height } = places(&view);
    let aggregators = view.nodes.iter().filter(|node| node.role == PlanRole::Aggregator).count();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\"><title>Plan of {}</title><desc>{} nodes or groups of hosts, {aggregators} of \
         them aggregators, {} cables with the messages of a round.</desc><style>{STYLE}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(&plan.placer),
        view.nodes.len(),
        view.cables.len()
    );
    for &(from, to, count) in &view.cables {
        let ((x1, y1), (x2, y2)) = (at[from], at[to]);
        let wide = (1.0 + (count as f64).sqrt() / 2.0).min(8.0);
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke-width=\"{wide:.1}\"/>"
        );
    }
    for &(from, to, count) in &view.cables {
        // Closer to the workers' end, where cables into one switch are apart.
        let ((x1, y1), (x2, y2)) = (at[from], at[to]);
        let (x, y) = (x1 + (x2 - x1) * 0.4, y1 + (y2 - y1) * 0.4);
        let _ = writeln!(out, "<text class=\"count\" x=\"{x:.1}\" y=\"{y:.1}\">{count}</text>");
    }
    for (node, &(x, y)) in view.nodes.iter().zip(&at) {
        let (name, label, class) = (escape(&node.name), escape(&node.label), class(node.role));
        let shape = match node.role {
            PlanRole::Host | PlanRole::Server => {
                let (left, top) = (x - 16.0, y - 11.0);
                format!("<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"32\" height=\"22\"/>")
            }
            _ => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"15\"/>"),
        };
        let below = y + 4.0;
        let _ = writeln!(out, "<g><title>{name}</title>{shape}<text x=\"{x:.1}\" y=\"{below:.1}\">{label}</text></g>");
    }
    out.push_str("</svg>\n");
    out
}

/// Writes the plan for Graphviz.
pub fn dot(plan: &Plan) -> String {
    let view = View::of(plan);
    let quoted = |text: &str| format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("digraph plan {\n  rankdir=BT;\n");
    for (id, node) in view.nodes.iter().enumerate() {
        let (shape, fill) = match node.role {
            PlanRole::Host => ("box", "#dddddd"),
            PlanRole::Common => ("circle", "#f6d5d0"),
            PlanRole::Aggregator => ("circle", "#7fb0e0"),
            PlanRole::Server => ("box", "#ffffff"),
        };
        let label = quoted(&node.label);
        let _ = writeln!(out, "  n{id} [label={label} shape={shape} style=filled fillcolor={fill:?}];");
    }
    for (from, to, count) in &view.cables {
        let _ = writeln!(out, "  n{from} -> n{to} [label=\"{count}\"];");
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::plan::{PlanLink, PlanNode};
    use pktgen_core::tree::make::{Rates, binary};
    use pktgen_core::units::Rate;

    fn example() -> Plan {
        let tree = binary(8, Rates::Constant).unwrap().with_load(vec![0, 0, 0, 2, 6, 5, 4]);
        let blue = [false, false, true, false, true, false, false];
        tree.plan("soar", &blue, Rate::from_bps(1_000_000_000))
    }

    #[test]
    fn pictures_show_every_node_and_count() {
        let plan = example();
        let (svg, dot) = (svg(&plan), dot(&plan));
        assert_eq!(svg.matches("<line").count(), plan.links.len(), "every switch has one host");
        assert_eq!(svg.matches("class=\"aggregator\"").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 7);
        assert!(svg.contains("<title>s4</title>") && svg.contains("6 ×"));
        assert!(svg.contains("<desc>12 nodes or groups of hosts, 2 of them aggregators, 11 cables with"), "{svg}");
        assert!(dot.contains("n0 -> n7 [label=\"4\"];") && dot.contains("n4 -> n1 [label=\"1\"];"), "{dot}");
        // The row of the leaves is below that of their parents.
        let mut rows = BTreeMap::<u64, usize>::new();
        places(&View::of(&plan)).at.iter().for_each(|(_, y)| *rows.entry(*y as u64).or_default() += 1);
        assert_eq!(rows.into_values().collect::<Vec<_>>(), [1, 1, 2, 4, 4]);
        let mut split = plan.clone();
        split.nodes[11].workers.truncate(1);
        split.nodes.push(PlanNode { name: "h7".into(), workers: vec![9], ..split.nodes[11].clone() });
        split.links.push(PlanLink { from: 12, to: 6, rate_bps: 1, cost: None });
        let view = View::of(&split);
        assert_eq!((view.nodes.len(), view.cables.len()), (12, 11), "two hosts of a switch stand together");
        assert_eq!((view.nodes[11].name.as_str(), view.nodes[11].label.as_str()), ("2 hosts", "2 ×"));
    }
}
