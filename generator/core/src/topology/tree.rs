//! A weighted tree of switches (SOAR §2): from a file, or BT(n), the complete binary tree of n − 1 switches and the
//! destination (§5). A switch with servers has one host with as many workers; flows of background traffic share these
//! hosts.

use super::{NodeId, Population, Role, Shape, Topology, plan};
use crate::config::{KeyTables, Section, above, choices, settings};
use crate::registry::Named;
use crate::tree::make::{Rates, binary};
use crate::tree::{Tree, file};
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "tree"`.
pub(crate) struct OfTree;

impl Named for OfTree {
    fn name(&self) -> &'static str {
        "tree"
    }
    fn about(&self) -> &'static str {
        "a weighted tree of switches from a file, or a complete binary one"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Tree file; a complete binary tree if not set.
        tree: Option<String>;
        /// Nodes of the complete binary tree, including the destination: a power of two.
        size: u32 = 8 in 2..=1 << 14;
        /// Growth of rates towards the destination (SOAR §5).
        rates: Rates = "constant" of (choices(Rates::ALL));
        /// Rate of a link with relative rate 1.
        unit_rate: Rate = "1Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "1us";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "24B";
    }
}

impl Shape for OfTree {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { tree, size, rates, unit_rate, delay, overhead } = Settings::read(section)?;
        let (own, flows) = match super::apart(workers) {
            // Flows alone sit as workers do.
            (own, flows) if own.is_empty() => (flows, own),
            both => both,
        };
        let tree = match tree {
            Some(path) => of_file(&path, own.len(), section)?,
            None => even(size, rates, own.len(), section)?,
        };
        tree.check_plan(unit_rate)
            .map_err(|why| Error::config(format!("{}: {why}, or change it", section.place("unit_rate"))))?;
        let plan = tree.plan("tree", &vec![false; tree.len()], unit_rate);
        let costs = plan.links.iter().filter_map(|l| Some(((l.from as NodeId, l.to as NodeId), l.cost?))).collect();
        let unavailable = (0..tree.len() as NodeId).filter(|v| !tree.is_available(*v)).collect();
        let mut t = Topology { plan: None, costs, unavailable, ..plan::wired(plan, delay, overhead) };
        seat(&mut t, &own, &flows);
        Ok(t)
    }
}

/// Gives the workers of the plan, which are numbered from 0, their ids, and spreads `flows` over their hosts.
fn seat(t: &mut Topology, own: &[u32], flows: &[u32]) {
    let mut hosts: Vec<&mut Vec<u32>> = Vec::new();
    for node in &mut t.nodes {
        if let Role::Host(members) = &mut node.role {
            members.iter_mut().for_each(|worker| *worker = own[*worker as usize]);
            hosts.push(members);
        }
    }
    let count = hosts.len();
    flows.iter().enumerate().for_each(|(i, flow)| hosts[i % count].push(*flow));
}

/// Reads the tree from a file; its loads must add up to the number of workers.
fn of_file(path: &str, workers: usize, section: &Section) -> Result<Tree> {
    let tree = file::read(&plan::beside(section.origin(), path));
    let tree = tree.map_err(|error| plan::unreadable(section, "tree", error))?;
    let servers = tree.below(tree.order()[0]);
    if servers != workers as u64 {
        return Err(Error::config(format!(
            "{}: the loads of {path} are {servers} in all and the workload has {workers} workers; change \
             workload.workers_per_cluster or the loads",
            section.place("tree")
        )));
    }
    Ok(tree)
}

/// BT(n) with the workers spread evenly over its leaves; the first leaves take the remainder.
fn even(size: u32, rates: Rates, workers: usize, section: &Section) -> Result<Tree> {
    let tree = binary(size, rates).ok_or_else(|| {
        Error::config(format!(
            "{}: {size}; a complete binary tree with its destination has 2, 4, 8, … nodes",
            section.place("size")
        ))
    })?;
    let leaves: Vec<_> = (0..tree.len() as u32).filter(|v| tree.children(*v).is_empty()).collect();
    let mut load = vec![0; tree.len()];
    (0..workers).for_each(|worker| load[leaves[worker % leaves.len()] as usize] += 1);
    Ok(tree.with_load(load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::record::NO_CLUSTER;

    #[test]
    fn flows_do_not_change_the_tree() {
        let build = |cluster_of: &[u16]| {
            let workers = Population { cluster_of: cluster_of.to_vec(), moves: Vec::new() };
            OfTree.build(&mut Section::of("topology", &[]), &workers).unwrap()
        };
        let (alone, beside) = (build(&[0; 6]), build(&[0, 0, 0, 0, 0, 0, NO_CLUSTER, NO_CLUSTER]));
        assert_eq!((&alone.links, &alone.costs, alone.nodes.len()), (&beside.links, &beside.costs, beside.nodes.len()));
        let host = beside.host_of(8);
        assert_eq!((alone.host_of(6), host[6] == host[0], host[7] == host[2]), (host[..6].to_vec(), true, true));
    }

    #[test]
    fn switches_that_are_not_available_do_not_aggregate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json").display().to_string();
        let nodes = r#"{"id":0,"parent":null,"available":false},{"id":1,"parent":0,"load":3},
            {"id":2,"parent":0,"load":4,"available":false}"#;
        std::fs::write(&path, format!("{{\"nodes\":[{nodes}]}}")).unwrap();
        let mut section = Section::of("topology", &[("tree", Value::from(path.as_str()))]);
        let t = OfTree.build(&mut section, &Population::regular(1, 7)).unwrap();
        let (routes, server) = (t.routes(), t.find("ps").unwrap());
        let ports: Vec<u16> = (0..t.nodes.len() as NodeId).map(|node| routes.port(node, server)).collect();
        let derived = |names: Option<&[String]>| crate::plan::Plan::of_network(&t, &ports, names, |_| true);
        // 1 sends one message to 0, 2 forwards four.
        assert_eq!(derived(None).unwrap().utilisation(), 1.0 + 4.0 + 5.0);
        assert_eq!(derived(Some(&["s1".to_owned()])).unwrap(), derived(None).unwrap());
        assert_eq!(derived(Some(&[])).unwrap().utilisation(), 3.0 + 4.0 + 7.0);
        let error = derived(Some(&["s1".to_owned(), "s2".to_owned()])).unwrap_err();
        let why = error.to_string();
        assert!(error.exit_code() == 2 && why.starts_with("target.aggregators: \"s2\" is not available"), "{why}");
        assert!(why.contains("leave it out, or set its available to true in the file of topology.tree"), "{why}");
    }

    #[test]
    fn leaves_have_equally_many_workers() {
        let build = |size: i64| {
            let keys = [("size", Value::Integer(size)), ("rates", Value::from("exponential"))];
            OfTree.build(&mut Section::of("topology", &keys), &Population::regular(1, 10))
        };
        let t = build(8).unwrap();
        t.check(10).unwrap();
        assert_eq!(t.servers().count(), 1);
        let host = t.host_of(10);
        // Leaves have 3, 3, 2 and 2.
        assert!(host[0] == host[2] && host[2] != host[3] && host[8] == host[9]);
        let root = t.find("s0").unwrap();
        let up = t.links.iter().find(|link| link.from == root && link.to == t.find("ps").unwrap()).unwrap();
        assert_eq!(up.rate.bps(), 4_000_000_000);
        // A derived plan costs what the tree does: 10 messages on each of three levels.
        let (routes, server) = (t.routes(), t.find("ps").unwrap());
        let ports: Vec<u16> = (0..t.nodes.len() as NodeId).map(|node| routes.port(node, server)).collect();
        let derived = |names: &[String]| crate::plan::Plan::of_network(&t, &ports, Some(names), |_| true).unwrap();
        assert_eq!(derived(&[]).utilisation(), 10.0 + 10.0 / 2.0 + 10.0 / 4.0);
        assert_eq!(derived(&["s0".to_owned()]).utilisation(), 10.0 + 10.0 / 2.0 + 1.0 / 4.0);
        assert!(build(9).unwrap_err().to_string().contains("2, 4, 8"));
    }
}
