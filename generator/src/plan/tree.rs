//! The plan of a tree of switches of which some aggregate (SOAR §2, Algorithm 1).

use super::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};

/// Rate of the links between switches and their own workers, of which φ knows nothing.
const HOST_BPS: u64 = 100_000_000_000;

/// A switch of a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeSwitch {
    /// The switch above it; none at the root, above which is the destination.
    pub parent: Option<usize>,
    /// Workers at it.
    pub load: u32,
    /// Does it aggregate?
    pub blue: bool,
    /// Line rate of its link upwards.
    pub rate_bps: u64,
    /// What a message costs there: ρ of equation 1.
    pub cost: f64,
}

impl Plan {
    /// The plan of `placer` for this tree. Switch `i` is node `i` and its link upwards link `i`; a host at each switch that
    /// has a load, and the destination, come after them. Nothing is checked: see [`check`](Plan::check).
    pub fn of_tree(placer: &str, switches: &[TreeSwitch]) -> Plan {
        let server = switches.len();
        let node = |name: String, role| PlanNode { name, role, workers: Vec::new() };
        let role = |blue| if blue { PlanRole::Aggregator } else { PlanRole::Common };
        let mut nodes: Vec<_> = switches.iter().enumerate().map(|(i, s)| node(format!("s{i}"), role(s.blue))).collect();
        nodes.push(node("ps".into(), PlanRole::Server));
        let up = |(from, s): (usize, &TreeSwitch)| {
            let to = s.parent.unwrap_or(server);
            PlanLink { from, to, rate_bps: s.rate_bps, cost: Some(s.cost) }
        };
        let mut links: Vec<_> = switches.iter().enumerate().map(up).collect();
        let mut flows = Vec::new();
        let mut takes = vec![false; switches.len()];
        let mut follow = |source, mut path: Vec<usize>, takes: &mut [bool]| {
            let mut at = path[path.len() - 1];
            // A flow ends at the first blue switch above where it begins.
            while at != server && !(path.len() > 1 && switches[at].blue) {
                at = switches[at].parent.unwrap_or(server);
                path.push(at);
            }
            if at != server {
                takes[at] = true;
            }
            flows.push(PlanFlow { source, path });
        };
        let mut workers = 0;
        for (at, switch) in switches.iter().enumerate().filter(|(_, switch)| switch.load > 0) {
            let host = nodes.len();
            let own: Vec<u32> = (workers..workers + switch.load).collect();
            workers += switch.load;
            links.push(PlanLink { from: host, to: at, rate_bps: HOST_BPS, cost: None });
            own.iter().for_each(|worker| follow(FlowSource::Worker(*worker), vec![host, at], &mut takes));
            nodes.push(PlanNode { workers: own, ..node(format!("h{at}"), PlanRole::Host) });
        }
        // From the leaves on: a switch that takes nothing emits nothing, and whoever it feeds is above it.
        for at in downwards(switches).into_iter().rev().filter(|at| switches[*at].blue) {
            if takes[at] {
                follow(FlowSource::Aggregator(at), vec![at], &mut takes);
            }
        }
        let placer = placer.to_owned();
        Plan { version: PLAN_VERSION, placer, nodes, links, flows, rate_bps: None, phi: None }
    }
}

/// All switches, each after the one above it.
fn downwards(switches: &[TreeSwitch]) -> Vec<usize> {
    let mut children = vec![Vec::new(); switches.len()];
    let mut order = Vec::new();
    for (at, switch) in switches.iter().enumerate() {
        match switch.parent {
            Some(parent) => children[parent].push(at),
            None => order.push(at),
        }
    }
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        order.append(&mut children[at]);
        next += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `msg_e` of every link upwards, as Algorithm 1 says it.
    fn messages(switches: &[TreeSwitch]) -> Vec<u64> {
        let mut messages: Vec<u64> = switches.iter().map(|switch| u64::from(switch.load)).collect();
        for at in downwards(switches).into_iter().rev() {
            if switches[at].blue {
                messages[at] = messages[at].min(1);
            }
            if let Some(parent) = switches[at].parent {
                messages[parent] += messages[at];
            }
        }
        messages
    }

    proptest! {
        #[test]
        fn links_carry_what_algorithm_1_says(
            switches in prop::collection::vec((any::<prop::sample::Index>(), 0u32..4, any::<bool>(), 1u32..9), 1..40),
            ids_fall: bool,
        ) {
            let n = switches.len();
            // Parents may have lower or higher ids.
            let id = |i: usize| if ids_fall { n - 1 - i } else { i };
            let mut tree = vec![TreeSwitch { parent: None, load: 1, blue: false, rate_bps: 1, cost: 1.0 }; n];
            for (i, (parent, load, blue, cost)) in switches.iter().enumerate() {
                let parent = (i > 0).then(|| id(parent.index(i.max(1))));
                tree[id(i)] = TreeSwitch { parent, load: *load, blue: *blue, rate_bps: 1, cost: 1.0 / f64::from(*cost) };
            }
            tree[id(0)].load += 1;
            let plan = Plan::of_tree("hand", &tree);
            prop_assert_eq!(plan.check(), Ok(()));
            let expected = messages(&tree);
            let carried = plan.messages();
            for (at, expected) in expected.iter().enumerate() {
                prop_assert_eq!(carried[at], [*expected, 0]);
            }
            let phi: f64 = expected.iter().zip(&tree).map(|(n, switch)| *n as f64 * switch.cost).sum();
            prop_assert!((plan.utilisation() - phi).abs() <= 1e-12 * phi);
        }
    }
}
