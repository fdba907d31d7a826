//! The lower part of a wiring: common switches below heads.

use std::collections::BTreeSet;

use super::cluster::Cluster;
use super::heads::{Shares, deal, most_links};
use super::shapes::{Candidate, Rest, heads};
use super::shared::{Member, Partition};
use super::skeleton::{FIRST, Skeleton};

/// Attaches the common switches of a candidate below its heads.
pub(super) fn attach(cluster: &Cluster, m: u64, candidate: &Candidate) -> Skeleton {
    let mut whole = candidate.top.clone();
    match candidate.rest {
        Rest::Single => single(&mut whole, cluster, m, candidate.commons),
        Rest::Shared => shared(&mut whole, cluster, m, candidate.commons),
        Rest::Deep => deep(&mut whole, cluster, m, candidate.commons),
    }
    whole
}

/// Gives each common switch full links first, then one that is not full if that adds workers.
fn single(whole: &mut Skeleton, cluster: &Cluster, m: u64, commons: u64) {
    let (heads, free) = ends(whole, cluster.layers - 1);
    if heads.is_empty() || commons == 0 {
        return;
    }
    let shares = Shares::new(cluster.ports, m);
    let partial = u64::from(shares.partial() > 0);
    let stages = [vec![shares.full; commons as usize], vec![partial; commons as usize]];
    for own in deal(&free, &stages) {
        if !own.is_empty() {
            let up: Vec<usize> = own.into_iter().map(|head| heads[head]).collect();
            whole.add(false, &up);
        }
    }
}

/// Attaches components of common switches that share links.
fn shared(whole: &mut Skeleton, cluster: &Cluster, m: u64, commons: u64) {
    let (heads, free) = ends(whole, cluster.layers - 2);
    let partition = Partition::new(cluster, m);
    let mut members: Vec<Member> = Vec::new();
    for (k, h) in partition.components(commons, most_links(commons, free.len() as u64, &free)) {
        let first = members.len();
        members.extend(partition.join(k, h, heads.len() as u64).into_iter().map(|mut member| {
            member.gives.iter_mut().for_each(|taker| *taker += first);
            member
        }));
    }
    let held: Vec<u64> = members.iter().map(|member| member.held).collect();
    let dealt = deal(&free, &[held]);
    let mut numbers = vec![None; members.len()];
    // Takers are placed before givers.
    for gives in [false, true] {
        for (i, member) in members.iter().enumerate().filter(|(_, member)| member.gives.is_empty() != gives) {
            let takers = member.gives.iter().filter_map(|&taker| numbers[taker]);
            let up: Vec<usize> = dealt[i].iter().map(|&head| heads[head]).chain(takers).collect();
            if !up.is_empty() {
                numbers[i] = Some(whole.add(false, &up));
            }
        }
    }
}

/// A position for one more common switch: below `parent`, in a tree of such switches or, on a head, as a new tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    depth: u64,
    parent: usize,
    tree: Option<usize>,
}

/// Attaches trees of common switches below heads and below a common switch next to the server. A switch adds p − 2 flows to what its tree
/// sends over one link; the highest position with enough capacity is used, otherwise the one with most.
pub(super) fn deep(whole: &mut Skeleton, cluster: &Cluster, m: u64, commons: u64) {
    let more = cluster.ports - 2;
    let mut flows = Vec::new();
    let mut places = BTreeSet::new();
    for parent in heads(whole, cluster.layers - 1).into_iter().filter(|&head| whole.free(head) > 0) {
        places.insert(Place { depth: whole.depth(parent), parent, tree: None });
    }
    if whole.free(FIRST) > 0 && !whole.aggregates(FIRST) {
        flows.push(cluster.ports - 1);
        places.insert(Place { depth: 1, parent: FIRST, tree: Some(0) });
    }
    for _ in 0..commons {
        let room = |place: &Place| m.saturating_sub(place.tree.map_or(1, |tree| flows[tree]));
        let fits = places.iter().find(|place| room(place) >= more);
        let Some(place) = fits.or_else(|| places.iter().max_by_key(|place| room(place))).copied() else { return };
        if room(&place) == 0 {
            return;
        }
        let tree = place.tree.unwrap_or_else(|| {
            flows.push(1);
            flows.len() - 1
        });
        flows[tree] += more;
        let switch = whole.add(false, &[place.parent]);
        if whole.free(place.parent) == 0 {
            places.remove(&place);
        }
        if place.depth + 1 < cluster.layers {
            places.insert(Place { depth: place.depth + 1, parent: switch, tree: Some(tree) });
        }
    }
}

/// Returns the heads down to a layer, and their free ports.
fn ends(whole: &Skeleton, deepest: u64) -> (Vec<usize>, Vec<u64>) {
    let heads = heads(whole, deepest);
    let free = heads.iter().map(|&head| whole.free(head)).collect();
    (heads, free)
}
