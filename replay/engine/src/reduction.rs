//! The plan along which devices reduce: that of the topology or, without one, its shortest paths.

use std::sync::Arc;

use pktgen_core::config::{Document, FromValue, Value};
use pktgen_core::plan::Plan;
use pktgen_core::record::{NO_CLUSTER, Planned};
use pktgen_core::topology::{NodeId, Population, Topology};
use pktgen_core::{Error, Result};

use crate::catalogue::Catalogue;
use crate::endpoint::Facts;
use crate::target::flows::Flows;

/// The key that names the aggregating devices, if there is no plan.
pub const AGGREGATORS: &str = "aggregators";

/// Names of devices.
pub struct DeviceNames(Vec<String>);

impl FromValue for DeviceNames {
    fn takes() -> String {
        "a list of names of devices".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let Value::List(items) = value else { return Err(format!("{} is no list of devices", value.to_toml())) };
        let name = |value: &Value| match value {
            Value::Text(name) => Ok(name.clone()),
            other => Err(format!("{} is no name of a device", other.to_toml())),
        };
        items.iter().map(|item| name(&item.value)).collect::<Result<_, _>>().map(DeviceNames)
    }
}

/// Returns the flows of a run whose devices follow a plan; `None` for other runs.
pub fn flows(
    catalogue: &Catalogue,
    document: &Document,
    topology: &Topology,
    workers: &Population,
) -> Result<Option<Arc<Flows>>> {
    let Some(Value::Text(name)) = document.get("target.program") else { return Ok(None) };
    if !catalogue.programs.iter().any(|program| program.name() == name && program.needs_flows()) {
        return Ok(None);
    }
    if !workers.moves.is_empty() {
        return Err(Error::config(format!(
            "target.program = \"{name}\": its plan is that of the beginning, and workers change their clusters; leave out \
             workload.moves"
        )));
    }
    let aggregators = document.get(&format!("target.{AGGREGATORS}")).map(DeviceNames::from_value).transpose();
    let aggregators = aggregators.map_err(|why| Error::config(format!("target.{AGGREGATORS}: {why}")))?;
    let plan = match (&topology.plan, aggregators) {
        (Some(_), Some(_)) => {
            return Err(Error::config(format!(
                "target.{AGGREGATORS}: the plan of the topology says which switches aggregate; leave it out"
            )));
        }
        (Some(plan), None) => plan.clone(),
        (None, aggregators) => Arc::new(of_network(name, topology, workers, aggregators)?),
    };
    Ok(Some(Arc::new(Flows::new(plan, topology, &workers.cluster_of))))
}

fn of_network(
    program: &str,
    topology: &Topology,
    workers: &Population,
    aggregators: Option<DeviceNames>,
) -> Result<Plan> {
    let Some(server) = topology.servers().next() else {
        return Err(Error::config(format!(
            "target.program = \"{program}\": sums go to a server, and this topology has none; use another topology.kind"
        )));
    };
    let routes = topology.routes();
    let ports: Vec<u16> = (0..topology.nodes.len() as NodeId).map(|node| routes.port(node, server)).collect();
    let takes_part =
        |worker: u32| workers.cluster_of.get(worker as usize).is_some_and(|cluster| *cluster != NO_CLUSTER);
    Plan::of_network(topology, &ports, aggregators.as_ref().map(|names| names.0.as_slice()), takes_part)
}

/// Returns the plan for the manifest, if there is one: messages are frames of up to `bytes`.
pub fn planned(facts: &Facts, topology: &Topology, bytes: usize, allreduce: bool) -> Option<Planned> {
    let flows = facts.flows.as_ref()?;
    let plan = flows.plan.as_ref().clone();
    let message_bits = bytes as u64 * 8 + flows.overhead_bits;
    Some(Planned { plan, allreduce, message_bits, down_bps: down_bps(flows, topology) })
}

/// Returns the rates of the plan's links away from the server; empty if each is that towards it.
fn down_bps(flows: &Flows, topology: &Topology) -> Vec<u64> {
    let up_bps: Vec<u64> = flows.plan.links.iter().map(|link| link.rate_bps).collect();
    let mut down_bps = up_bps.clone();
    for (index, link) in (0u32..).zip(&topology.links) {
        if let Some((of_plan, true)) = flows.link(index) {
            down_bps[of_plan] = link.rate.bps();
        }
    }
    if down_bps == up_bps { Vec::new() } else { down_bps }
}
