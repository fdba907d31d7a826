//! The lower part of a wiring: common switches below heads.

use super::cluster::Cluster;
use super::heads::{Shares, deal, most_links};
use super::shapes::{Candidate, Rest, heads};
use super::shared::{Member, Partition};
use super::skeleton::Skeleton;

/// Hangs the common switches of a candidate below its heads.
pub(super) fn attach(cluster: &Cluster, m: u64, candidate: &Candidate) -> Skeleton {
    let mut whole = candidate.top.clone();
    match candidate.rest {
        Rest::Single => single(&mut whole, cluster, m, candidate.commons),
        Rest::Shared => shared(&mut whole, cluster, m, candidate.commons),
    }
    whole
}

/// Each common switch gets full links first, then one that is not full where that adds workers.
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

/// Components of common switches that share links.
fn shared(whole: &mut Skeleton, cluster: &Cluster, m: u64, commons: u64) {
    let (heads, free) = ends(whole, cluster.layers - 2);
    let partition = Partition::new(cluster, m);
    let mut members: Vec<Member> = Vec::new();
    for (k, h) in partition.components(commons, most_links(commons, free.len() as u64, &free)) {
        let first = members.len();
        members.extend(partition.join(k, h).into_iter().map(|mut member| {
            member.gives.iter_mut().for_each(|taker| *taker += first);
            member
        }));
    }
    let held: Vec<u64> = members.iter().map(|member| member.held).collect();
    let dealt = deal(&free, &[held]);
    let mut numbers = vec![None; members.len()];
    // Who takes is placed before who gives.
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

/// Heads down to a layer, and their free ports.
fn ends(whole: &Skeleton, deepest: u64) -> (Vec<usize>, Vec<u64>) {
    let heads = heads(whole, deepest);
    let free = heads.iter().map(|&head| whole.free(head)).collect();
    (heads, free)
}
