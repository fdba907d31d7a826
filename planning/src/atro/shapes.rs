//! Shapes of the upper part of a wiring: the arrangement of aggregators before common switches are attached.
//!
//! Below an aggregator next to the server, others form a tree (shape T). If ports of aggregators are scarce, the flows of the lower ones
//! may enter special common switches instead (shape E), a common switch may be next to the server (shape R), or both.

use super::attach;
use super::cluster::Cluster;
use super::heads::{Shares, most_links};
use super::shared::Partition;
use super::skeleton::{SERVER, Skeleton};

/// Maximum numbers of switches and ports up to which all shapes are tried; beyond, only trees.
const SEARCHED_SWITCHES: u64 = 48;
const SEARCHED_PORTS: u64 = 64;

/// Maximum number of switches up to which trees of common switches are tried.
const DEEP_SWITCHES: u64 = 2_000;

/// How the remaining common switches are attached below heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Each is linked to heads only.
    Single,
    /// Links to heads may be fed by several, which requires one more layer.
    Shared,
    /// Each has one upward link, in trees as deep as layers allow: for links that carry more flows than a switch has ports.
    Deep,
}

/// A shape with its number of workers.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The upper part.
    pub top: Skeleton,
    /// Number of remaining common switches.
    pub commons: u64,
    /// How they are attached.
    pub rest: Rest,
    /// Total number of workers.
    pub workers: u64,
}

/// How an upper part is built.
#[derive(Debug, Clone, Copy)]
struct Recipe {
    /// A common switch next to the server: numbers of aggregators and common switches directly below it.
    root: Option<(u64, u64)>,
    /// Number of aggregators below aggregators or below that switch; the others are below special common switches.
    hung: u64,
    /// Number of children of an aggregator before another one gets more.
    each: u64,
    /// The lowest layer of aggregators with children.
    deepest: u64,
}

/// Returns the maximum number of workers with trees only, including unordered ones.
pub(super) fn lower(cluster: &Cluster, m: u64) -> u64 {
    let ordered = trees(cluster, m, cluster.commons()).map(|candidate| candidate.workers).max();
    ordered.max(plain(cluster).workers(m)).unwrap_or(0)
}

/// Returns a cluster reduced to the number of switches for which all shapes are tried, if that is smaller.
pub(super) fn all_tried_within(cluster: &Cluster) -> Option<Cluster> {
    let (switches, aggregators) = (SEARCHED_SWITCHES, cluster.aggregators.min(SEARCHED_SWITCHES));
    let fewer = Cluster { switches, aggregators, ..*cluster };
    (switches < cluster.switches && are_all_tried(&fewer)).then_some(fewer)
}

/// Whether all shapes are tried.
pub(super) fn are_all_tried(cluster: &Cluster) -> bool {
    cluster.switches <= SEARCHED_SWITCHES && cluster.ports <= SEARCHED_PORTS
}

/// Returns the maximum number of workers with any shape; `None` if the cluster is too large to try all.
pub(super) fn best(cluster: &Cluster, m: u64) -> Option<u64> {
    let all = candidates(cluster, m)?;
    all.iter().map(|candidate| candidate.workers).max()
}

/// Returns the candidates of shape T with `commons` of the common switches.
pub(super) fn trees(cluster: &Cluster, m: u64, commons: u64) -> impl Iterator<Item = Candidate> + '_ {
    let mut sizes: Vec<u64> = (1..=cluster.layers.min(64) - 1)
        .rev()
        .take(2)
        .flat_map(|deepest| {
            let least = (1..cluster.ports).find(|&each| full_tree(each, deepest) >= cluster.aggregators);
            let free = (cluster.ports - 1).checked_sub(commons).filter(|&each| each > 0);
            [least, free, Some(cluster.ports - 1)].into_iter().flatten()
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let deepest = [cluster.layers - 1, cluster.layers.saturating_sub(2).max(1)];
    sizes.into_iter().flat_map(move |each| deepest.map(|deepest| (each, deepest))).flat_map(move |(each, deepest)| {
        let recipe = Recipe { root: None, hung: cluster.aggregators, each, deepest };
        build(cluster, m, recipe).and_then(|(top, _)| rate(cluster, m, top, commons, None))
    })
}

/// Returns a tree of all switches with aggregators at the top: the remaining shape if a link can carry almost everything.
pub(super) fn plain(cluster: &Cluster) -> Skeleton {
    let mut whole = Skeleton::new(cluster.ports);
    let (mut parent, mut room) = (SERVER, 1);
    // Of switches with two ports, one holds as many workers as all.
    let switches = if cluster.ports > 2 { cluster.switches } else { cluster.switches.min(1) };
    for switch in 0..switches {
        while room == 0 {
            parent += 1;
            room = whole.free(parent);
        }
        if whole.depth(parent) >= cluster.layers {
            break;
        }
        whole.add(switch < cluster.aggregators, &[parent]);
        room -= 1;
    }
    whole
}

fn full_tree(each: u64, layers: u64) -> u64 {
    let (mut sum, mut level) = (0u64, 1u64);
    for _ in 0..layers {
        sum = sum.saturating_add(level);
        level = level.saturating_mul(each);
    }
    sum
}

/// Returns all shapes if the cluster is small enough.
pub(super) fn candidates(cluster: &Cluster, m: u64) -> Option<Vec<Candidate>> {
    if !are_all_tried(cluster) {
        return None;
    }
    let partition = Partition::new(cluster, m);
    let mut seen = std::collections::HashSet::new();
    let mut found = Vec::new();
    for recipe in recipes(cluster, m) {
        let Some((top, commons)) = build(cluster, m, recipe) else { continue };
        let Some(candidate) = rate(cluster, m, top, commons, Some(&partition)) else { continue };
        let kind = (candidate.workers, candidate.rest as u8, commons, recipe.root.is_some());
        if seen.insert((kind, recipe.hung)) {
            found.push(candidate);
        }
    }
    Some(found)
}

fn recipes(cluster: &Cluster, m: u64) -> Vec<Recipe> {
    let (p, aggregators) = (cluster.ports, cluster.aggregators);
    let mut roots = vec![None];
    if cluster.commons() > 0 {
        for direct in 1..=aggregators.min(m).min(p - 1) {
            let further = (cluster.commons() - 1).min(p - 1 - direct);
            // Below m = p, the ports of that switch carry no more than its link does.
            let most = if m >= p { further } else { 0 };
            roots.extend((0..=most).map(|further| Some((direct, further))));
        }
    }
    let mut recipes = Vec::new();
    for root in roots {
        for hung in 1..=aggregators {
            for deepest in cluster.layers.saturating_sub(3).max(1)..cluster.layers {
                let each = (1..p.min(aggregators.max(2))).map(|each| Recipe { root, hung, each, deepest });
                recipes.extend(each);
            }
        }
    }
    recipes
}

/// Builds an upper part; `None` if it needs more switches or layers than available.
fn build(cluster: &Cluster, m: u64, recipe: Recipe) -> Option<(Skeleton, u64)> {
    let mut top = Skeleton::new(cluster.ports);
    let mut commons = cluster.commons();
    let roots = match recipe.root {
        None => vec![top.add(true, &[SERVER])],
        Some((direct, further)) => {
            commons = commons.checked_sub(1 + further)?;
            let root = top.add(false, &[SERVER]);
            (0..further).for_each(|_| {
                top.add(false, &[root]);
            });
            (0..direct.min(recipe.hung)).map(|_| top.add(true, &[root])).collect()
        }
    };
    let placed = roots.len() as u64;
    grow(&mut top, roots, recipe.hung - placed, cluster, recipe);
    let specials = hang_on_specials(&mut top, cluster, m, cluster.aggregators - recipe.hung, commons)?;
    Some((top, commons - specials))
}

/// Adds aggregators below others: up to `each` below one, then as many as fit near the top, then in the lowest layer.
fn grow(top: &mut Skeleton, mut tree: Vec<usize>, mut more: u64, cluster: &Cluster, recipe: Recipe) {
    let full = cluster.ports - 1;
    for (each, deepest) in [(recipe.each, recipe.deepest), (full, recipe.deepest), (full, cluster.layers)] {
        let mut next = 0;
        while let Some(&parent) = tree.get(next) {
            next += 1;
            let children = full - top.free(parent).min(full);
            let room = each.saturating_sub(children).min(top.free(parent)).min(more);
            if top.depth(parent) >= deepest {
                continue;
            }
            tree.extend((0..room).map(|_| top.add(true, &[parent])).collect::<Vec<_>>());
            more -= room;
        }
    }
}

/// Shape E: lets the flows of `lower` aggregators enter special common switches; returns how many are needed.
fn hang_on_specials(top: &mut Skeleton, cluster: &Cluster, m: u64, lower: u64, commons: u64) -> Option<u64> {
    if lower == 0 {
        return Some(0);
    }
    let p = cluster.ports;
    let mut heads: Vec<usize> = top.aggregators().filter(|&head| top.depth(head) + 2 <= cluster.layers).collect();
    let links = Shares::new(p, m).full.min(heads.len() as u64).max(1);
    let takes = (m * links).min(p - links);
    let specials = lower.div_ceil(takes.max(1));
    if specials > commons || (heads.len() as u64) < links {
        return None;
    }
    for special in 0..specials {
        heads.sort_by_key(|&head| std::cmp::Reverse(top.free(head)));
        let up: Vec<usize> = heads.iter().copied().take(links as usize).filter(|&head| top.free(head) > 0).collect();
        if up.len() < links as usize {
            return None;
        }
        let switch = top.add(false, &up);
        for _ in special * takes..lower.min((special + 1) * takes) {
            top.add(true, &[switch]);
        }
    }
    Some(specials)
}

/// Returns the heads of an upper part down to a layer, those with the fewest free ports first.
pub(super) fn heads(top: &Skeleton, deepest: u64) -> Vec<usize> {
    let mut heads: Vec<usize> = top.aggregators().filter(|&head| top.depth(head) <= deepest).collect();
    heads.sort_by_key(|&head| top.free(head));
    heads
}

/// Rates an upper part with the best use of the remaining switches.
fn rate(cluster: &Cluster, m: u64, top: Skeleton, commons: u64, partition: Option<&Partition>) -> Option<Candidate> {
    let base = top.workers(m)?;
    let free = |deepest: u64| -> Vec<u64> { heads(&top, deepest).iter().map(|&head| top.free(head)).collect() };
    let alone = Shares::new(cluster.ports, m).single(commons, &free(cluster.layers - 1));
    let shared = partition.filter(|_| cluster.layers > 2).map_or(0, |partition| {
        let free = free(cluster.layers - 2);
        partition.worth(commons, most_links(commons, free.len() as u64, &free))
    });
    let is_deep = m >= cluster.ports && cluster.switches <= DEEP_SWITCHES;
    let deep = is_deep.then(|| {
        let mut whole = top.clone();
        attach::deep(&mut whole, cluster, m, commons);
        whole.workers(m).unwrap_or(0).saturating_sub(base)
    });
    let (more, rest) = [(alone, Rest::Single), (deep.unwrap_or(0), Rest::Deep), (shared, Rest::Shared)]
        .into_iter()
        .reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    Some(Candidate { top, commons, rest, workers: base + more })
}
