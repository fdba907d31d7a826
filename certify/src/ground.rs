//! Facts about a device for clauses, from the plan of its experiment.

use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::time::Time;
use pktgen_core::topology::{Link, NodeId, Topology};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{ProbeGround, STRANGERS};
use pktgen_realtime::plan::Plan;
use pktgen_realtime::transport::middleware::Outer;

use crate::settings::CertifySettings;

/// Returns the device to certify.
pub(crate) fn only_device(topology: &Topology) -> Result<NodeId> {
    topology.only_device().map_err(|devices| {
        Error::config(format!(
            "topology: a device is certified alone, and this network has {devices}; use kind = \"bottleneck\", \"star\" without \
             standby, or \"rack\" with engines = 1"
        ))
    })
}

/// Returns the facts for a device with one cable for all workers and one for the server.
pub(crate) fn wired(plan: &Plan, settings: &CertifySettings) -> Result<ProbeGround> {
    let (parts, workers) = (&plan.parts, &plan.parts.facts.workers);
    Ok(ProbeGround {
        workers: workers.clone(),
        port_of: vec![0; workers.len()],
        server: parts.topology.servers().next().map(|_| 1),
        frame_bytes: plan.spec.transport.wire_bytes(parts.frame_bytes),
        late: settings.late(true),
        patience: settings.patience.ps(),
        output: output(plan)?,
        links: Vec::new(),
        hot: hot(plan),
        keys: Document::parse(&plan.spec.config, "the resolved experiment")?,
    })
}

/// Returns the facts for a device with the ports of its node.
pub(crate) fn at_node(plan: &Plan, late: Time) -> Result<ProbeGround> {
    let (topology, facts) = (&plan.parts.topology, &plan.parts.facts);
    let node = only_device(topology)?;
    let routes = topology.routes();
    let port = |to: NodeId| routes.port(node, to);
    Ok(ProbeGround {
        workers: facts.workers.clone(),
        port_of: facts.host_of.iter().map(|host| port(*host)).collect(),
        server: topology.servers().next().map(port),
        frame_bytes: plan.parts.frame_bytes,
        late,
        patience: 0,
        output: None,
        links: Vec::new(),
        hot: hot(plan),
        keys: Document::parse(&plan.spec.config, "the resolved experiment")?,
    })
}

/// Returns the number of hot parameters of a job in sparse training.
fn hot(plan: &Plan) -> Option<u32> {
    plan.parts.declared.sparse.as_ref().map(|place| place.sparse.hot().len())
}

/// Returns the link behind the device's port towards the server.
fn output(plan: &Plan) -> Result<Option<Link>> {
    let topology = &plan.parts.topology;
    let Some(server) = topology.servers().next() else { return Ok(None) };
    let port = topology.routes().port(only_device(topology)?, server);
    Ok(links(plan)?.into_iter().nth(usize::from(port)))
}

/// Returns the links of the device's ports.
pub(crate) fn links(plan: &Plan) -> Result<Vec<Link>> {
    let topology = &plan.parts.topology;
    let node = only_device(topology)?;
    Ok(topology.ports(node).map(|(_, link)| link.clone()).collect())
}

/// Returns the addresses on the wire, including those of strangers.
pub(crate) fn strangers(outer: Option<&Outer>) -> Option<Arc<Outer>> {
    let own = outer?;
    Some(Arc::new(Outer {
        addresses: own.addresses.clone().with_strangers(STRANGERS),
        format: own.format,
        sees_tags: own.sees_tags,
    }))
}
