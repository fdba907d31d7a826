//! The network of a plan written by `pktgen place … --emit`.
//!
//! Nodes and links are the plan's, in its order: link `i` of the plan are links `2i` (towards the server) and `2i + 1` here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{NodeId, Population, Role, Shape, Topology};
use crate::config::{KeyTables, Origin, Section, settings};
use crate::plan::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
use crate::record::NO_CLUSTER;
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "plan"`.
pub(crate) struct FromPlan;

impl Named for FromPlan {
    fn name(&self) -> &'static str {
        "plan"
    }
    fn about(&self) -> &'static str {
        "network of a plan, for program reduce"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Plan file, written by `pktgen place … --emit`; a small built-in plan if not set.
        file: Option<String>;
        /// Propagation delay of each link, one way.
        delay: Span = "0ps";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "0B";
    }
}

impl Shape for FromPlan {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { file, delay, overhead } = Settings::read(section)?;
        let taking_part = workers.cluster_of.iter().filter(|cluster| **cluster != NO_CLUSTER).count();
        let plan = match file {
            Some(file) => Plan::read(&beside(section.origin(), &file)).map_err(|e| unreadable(section, "file", e))?,
            None => small(taking_part),
        };
        if plan.hosts().len() != workers.len() && taking_part < workers.len() {
            return Err(Error::config(format!(
                "{}: background traffic has no host in a plan; leave it out (workload.background_rate), or choose another topology.kind",
                section.place("kind")
            )));
        }
        if plan.hosts().len() != workers.len() {
            return Err(Error::config(format!(
                "{}: the plan is of {} workers and the workload has {}; change workload.clusters and \
                 workload.workers_per_cluster, or place anew",
                section.place("file"),
                plan.hosts().len(),
                workers.len()
            )));
        }
        Ok(wired(plan, delay, overhead))
    }
}

/// Resolves a file named in an experiment: the one beside the experiment if it exists, else the path as given.
pub(super) fn beside(origin: &Origin, file: &str) -> PathBuf {
    if let Origin::File { path, .. } = origin
        && let Some(folder) = Path::new(path.as_ref()).parent()
        && folder.join(file).is_file()
    {
        return folder.join(file);
    }
    PathBuf::from(file)
}

/// Names the key of a file that cannot be read.
pub(super) fn unreadable(section: &Section, key: &str, error: Error) -> Error {
    match error {
        Error::Io { path, source, .. } => Error::config(format!(
            "{}: {} cannot be read: {source}; give the path from the folder of the experiment or of pktgen",
            section.place(key),
            path.display()
        )),
        other => other,
    }
}

pub(super) fn wired(plan: Plan, delay: Span, overhead: Size) -> Topology {
    let mut t = Topology::default();
    for node in &plan.nodes {
        let role = match node.role {
            PlanRole::Host => Role::Host(node.workers.clone()),
            PlanRole::Common | PlanRole::Aggregator => Role::Device,
            PlanRole::Server => Role::Server,
        };
        t.add(node.name.clone(), role);
    }
    for link in &plan.links {
        let rate = Rate::from_bps(link.rate_bps);
        t.connect(link.from as NodeId, link.to as NodeId, rate, rate, delay.ps(), overhead);
    }
    t.plan = Some(Arc::new(plan));
    t
}

/// The default plan without a file: all workers at one aggregator.
fn small(workers: usize) -> Plan {
    let named = |name: &str, role| PlanNode { name: name.into(), role, workers: Vec::new() };
    let host = PlanNode { workers: (0..workers as u32).collect(), ..named("host", PlanRole::Host) };
    let link = |from, to| PlanLink { from, to, rate_bps: 100_000_000_000, cost: Some(1.0) };
    let mut flows: Vec<_> =
        (0..workers as u32).map(|worker| PlanFlow { source: FlowSource::Worker(worker), path: vec![0, 1] }).collect();
    flows.push(PlanFlow { source: FlowSource::Aggregator(1), path: vec![1, 2] });
    Plan {
        version: PLAN_VERSION,
        placer: "none".into(),
        nodes: vec![host, named("sums", PlanRole::Aggregator), named("ps", PlanRole::Server)],
        links: vec![PlanLink { cost: None, ..link(0, 1) }, link(1, 2)],
        flows,
        rate_bps: None,
        phi: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;

    #[test]
    fn nodes_and_links_are_the_plans() {
        let folder = tempfile::tempdir().unwrap();
        let plan = small(3);
        std::fs::write(folder.path().join("p.json"), serde_json::to_string(&plan).unwrap()).unwrap();
        let open = |workers| {
            // The file is beside the experiment, not in the working directory.
            let name = folder.path().join("x.toml").display().to_string();
            let text = "[topology]\nkind = \"plan\"\nfile = \"p.json\"\ndelay = \"1us\"\noverhead = \"24B\"\n";
            let mut document = Document::parse(text, &name).unwrap();
            super::super::open(&mut document, &Population::regular(1, workers))
        };
        let t = open(3).unwrap();
        assert_eq!(t.plan.as_deref(), Some(&plan));
        assert_eq!((t.nodes.len(), t.links.len(), t.nodes[0].role.clone()), (3, 4, Role::Host(vec![0, 1, 2])));
        assert_eq!((t.links[2].from, t.links[2].to, t.links[2].delay), (1, 2, 1_000_000));
        let message = open(4).unwrap_err().to_string();
        assert!(message.contains("of 3 workers") && message.contains("has 4"), "{message}");
    }

    #[test]
    fn a_file_that_is_absent_is_refused_by_its_key() {
        for (shape, key) in [(&FromPlan as &dyn Shape, "file"), (&super::super::tree::OfTree, "tree")] {
            let mut section = Section::of("topology", &[(key, "absent.json".into())]);
            let error = shape.build(&mut section, &Population::regular(1, 1)).unwrap_err();
            let why = error.to_string();
            assert!(why.starts_with(&format!("topology.{key}: absent.json cannot be read: ")), "{why}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn background_traffic_is_refused_by_name() {
        let workers = Population { cluster_of: vec![0, 0, NO_CLUSTER], moves: Vec::new() };
        let message = FromPlan.build(&mut Section::of("topology", &[]), &workers).unwrap_err().to_string();
        assert!(
            message.contains("topology.kind: background traffic") && message.contains("background_rate"),
            "{message}"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let mut section = Section::of("topology", &[("file", "nowhere.json".into())]);
        let message = FromPlan.build(&mut section, &Population::regular(1, 2)).unwrap_err().to_string();
        assert!(message.contains("nowhere.json"), "{message}");
    }
}
