//! Construction: a tree of aggregators with those with most ports at the top; then each common switch below the heads
//! with the widest links.

use super::super::capacities::Capacities;
use super::bound::{potential, usable, worth};
use super::graph::Graph;

/// How an upper part is built.
#[derive(Debug, Clone, Copy)]
struct Recipe {
    /// The switch next to the server.
    root: usize,
    /// Number of aggregators below a switch before another one gets some.
    each: u64,
    /// The lowest layer of switches with aggregators below them, while there are free ports elsewhere.
    deepest: u64,
    /// Whether common switches form a tree with one upward link each, for links that carry more flows than a switch has ports.
    deep: bool,
}

/// Returns the constructed graph with most workers, or the first that holds `target`, with its number of workers.
pub(super) fn best(capacities: &Capacities, target: u64) -> Option<(u64, Graph)> {
    let usable = usable(capacities);
    let mut commons: Vec<usize> =
        usable.iter().copied().filter(|&switch| !capacities.inventory.switches[switch].aggregates).collect();
    commons.sort_by_cached_key(|&switch| (std::cmp::Reverse(potential(capacities, switch)), switch));
    let mut best: Option<(u64, Graph)> = None;
    for recipe in recipes(capacities, &usable) {
        let graph = build(capacities, &usable, &commons, recipe);
        let Some(workers) = graph.workers(capacities) else { continue };
        if best.as_ref().is_none_or(|(most, _)| workers > *most) {
            best = Some((workers, graph));
        }
        if workers >= target {
            break;
        }
    }
    best
}

/// Limit of the kinds of roots tried in a large cluster, multiplied by the number of switches.
const ROOTS: usize = 4_000;

/// Returns the roots to try if there are many kinds: those with most ports of each rate, then the next ones.
fn widest(capacities: &Capacities, roots: Vec<usize>) -> Vec<usize> {
    let most = (ROOTS / capacities.switches().max(1)).max(4);
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    let mut ranks = std::collections::HashMap::new();
    let mut by_ports = roots;
    by_ports.sort_by_key(|&root| (std::cmp::Reverse(capacities.ports(root)), root));
    for root in by_ports {
        let kind = (capacities.inventory.switches[root].aggregates, capacities.flows(root, capacities.switches()));
        let rank = ranks.entry(kind).or_insert(0);
        ranked.push((*rank, root));
        *rank += 1;
    }
    ranked.sort_by_key(|&(rank, _)| rank);
    ranked.into_iter().take(most).map(|(_, root)| root).collect()
}

fn recipes(capacities: &Capacities, usable: &[usize]) -> Vec<Recipe> {
    let (inventory, server) = (capacities.inventory, capacities.switches());
    let mut seen = std::collections::HashSet::new();
    let roots = usable.iter().copied().filter(|&root| capacities.flows(root, server) > 0);
    let roots: Vec<usize> = roots
        .filter(|&root| {
            let switch = &inventory.switches[root];
            seen.insert((switch.aggregates, switch.ports, capacities.flows(root, server)))
        })
        .collect();
    let roots = widest(capacities, roots);
    let full = usable.iter().map(|&switch| capacities.ports(switch)).max().unwrap_or(0);
    let mut deepest: Vec<u64> = [1, 2, 3].map(|less| inventory.layers.saturating_sub(less).max(1)).into();
    deepest.push(1);
    deepest.sort_unstable();
    deepest.dedup();
    let mut recipes = Vec::new();
    for root in roots {
        for each in [full, 1, 2, 3, 4, 6, 8, 12].into_iter().filter(|&each| each <= full) {
            let of = |deep: bool| deepest.iter().map(move |&deepest| Recipe { root, each, deepest, deep });
            recipes.extend(of(false).chain(of(true)));
        }
    }
    recipes
}

/// A graph under construction.
struct Work<'a> {
    capacities: &'a Capacities<'a>,
    graph: Graph,
    free: Vec<u64>,
    depth: Vec<u64>,
}

impl Work<'_> {
    fn place(&mut self, switch: usize, up: Vec<usize>) {
        self.free[switch] -= up.len() as u64;
        let server = self.depth.len();
        for &above in up.iter().filter(|&&above| above < server) {
            self.free[above] -= 1;
            self.depth[switch] = self.depth[switch].max(self.depth[above]);
        }
        self.depth[switch] += 1;
        self.graph.up[switch] = up;
    }

    /// Links a common switch to the heads with the widest links as long as one more link adds workers.
    fn attach(&mut self, switch: usize, heads: &mut [usize]) {
        let ports = self.capacities.ports(switch);
        heads.sort_by_key(|&head| {
            let flows = self.capacities.flows(switch, head).min(ports);
            (std::cmp::Reverse(flows), std::cmp::Reverse(self.free[head]), head)
        });
        let (mut up, mut sum, mut most) = (Vec::new(), 0u64, 0);
        for &head in heads.iter().filter(|&&head| self.free[head] > 0) {
            let flows = self.capacities.flows(switch, head);
            let more = worth(ports, up.len() as u64 + 1, sum + flows);
            if more <= most {
                break;
            }
            (sum, most) = (sum + flows, more);
            up.push(head);
        }
        if !up.is_empty() {
            self.place(switch, up);
        }
    }
}

/// Builds a graph by a recipe; `commons` are the common switches in the order of linking.
fn build(capacities: &Capacities, usable: &[usize], commons: &[usize], recipe: Recipe) -> Graph {
    let switches = capacities.switches();
    let aggregates = |switch: usize| capacities.inventory.switches[switch].aggregates;
    let free = (0..switches).map(|switch| capacities.ports(switch)).collect();
    let mut work = Work { capacities, graph: Graph::new(switches), free, depth: vec![0; switches] };
    let (root, layers) = (recipe.root, capacities.inventory.layers);
    work.place(root, vec![switches]);
    let mut kids = vec![0u64; switches];
    let most = |parent: usize, each: u64| match aggregates(parent) {
        true => each,
        // Below a common switch, each takes a flow of its link.
        false => each.min(capacities.flows(parent, switches)),
    };
    let mut more: Vec<usize> = usable.iter().copied().filter(|&switch| switch != root && aggregates(switch)).collect();
    more.sort_by_key(|&switch| (std::cmp::Reverse(capacities.ports(switch)), switch));
    let mut tree = vec![root];
    for switch in more {
        let room = |each: u64, deepest: u64| {
            tree.iter().copied().find(|&parent| {
                work.free[parent] > 0
                    && work.depth[parent] < deepest.min(layers)
                    && kids[parent] < most(parent, each)
                    && capacities.flows(switch, parent) > 0
            })
        };
        let Some(parent) = room(recipe.each, recipe.deepest + 1).or_else(|| room(u64::MAX, layers)) else { continue };
        kids[parent] += 1;
        work.place(switch, vec![parent]);
        tree.push(switch);
    }
    let mut heads: Vec<usize> =
        tree.iter().copied().filter(|&head| aggregates(head) && work.depth[head] < layers).collect();
    for &switch in commons.iter().filter(|&&switch| switch != root) {
        if !recipe.deep {
            work.attach(switch, &mut heads);
            continue;
        }
        let fits = |&parent: &usize| {
            work.free[parent] > 0 && work.depth[parent] < layers && capacities.flows(switch, parent) > 0
        };
        if let Some(parent) = tree.iter().copied().find(fits) {
            work.place(switch, vec![parent]);
            tree.push(switch);
        }
    }
    work.graph
}
