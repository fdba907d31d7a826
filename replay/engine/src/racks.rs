//! Parameter servers in racks: the devices' configuration (LIBRA §6, "Multi-rack switches"). Used when a run is planned.

use std::sync::Arc;

use pktgen_core::topology::{NodeId, Routes, Topology};
use pktgen_core::{Error, Result};

use crate::endpoint::Facts;
use crate::groups::{GroupPorts, Groups};

/// A device's configuration for racks, if sparse training uses several devices.
#[derive(Debug, Clone)]
pub struct RackPlace {
    /// The rack whose device it is.
    pub own: Option<u32>,
    /// The host of each worker.
    pub hosts: Arc<Vec<NodeId>>,
    /// By rack: its ports away from the rack's server, towards the workers of each job.
    pub down: Vec<Arc<GroupPorts>>,
}

/// The configuration of the devices of a run, by node.
pub struct DeviceRacks {
    /// By node: the devices that replace each other in summing.
    pub aggregators: Vec<Arc<Vec<NodeId>>>,
    /// By node: its configuration for racks.
    pub places: Vec<Option<RackPlace>>,
}

impl DeviceRacks {
    /// Derives the configuration; `sparse` if workers train a sparse model.
    pub fn new(topology: &Topology, routes: &Routes, facts: &Facts, sparse: bool) -> Self {
        let (nodes, racks) = (topology.nodes.len(), &facts.racks);
        let rack_at = |node: usize| racks.devices.iter().position(|device| *device as usize == node);
        let aggregators = match racks.devices.len() {
            0 | 1 => {
                let all = Arc::new(topology.aggregators());
                vec![all; nodes]
            }
            _ => (0..nodes).map(|node| Arc::new(rack_at(node).map(|_| node as NodeId).into_iter().collect())).collect(),
        };
        if !sparse || facts.standby.is_some() || topology.devices().count() < 2 {
            return DeviceRacks { aggregators, places: vec![None; nodes] };
        }
        let down = |rack: usize| {
            let server = racks.servers[racks.first_server(rack)];
            Groups::new(topology, routes, &Facts { server, ..facts.clone() }).tables()
        };
        let down: Vec<_> = (0..racks.devices.len()).map(down).collect();
        let place = |node: usize| RackPlace {
            own: rack_at(node).map(|rack| rack as u32),
            hosts: facts.host_of.clone(),
            down: down.iter().map(|tables| tables[node].clone()).collect(),
        };
        DeviceRacks { aggregators, places: (0..nodes).map(|node| Some(place(node))).collect() }
    }
}

/// Refuses several servers if workers, or the driver, support only one; `others` names the workers that divide their parameters.
pub fn check(facts: &Facts, others: &str) -> Result<()> {
    let (servers, kind) = (facts.racks.servers.len(), facts.kind);
    if servers < 2 {
        return Ok(());
    }
    if !kind.behaviour().several_servers {
        return Err(Error::config(format!(
            "topology.servers: {servers}, and endpoint.workers = \"{}\" sends to one server; use one server, or workers = {others}, \
             whose parameters are divided among several",
            kind.name()
        )));
    }
    if facts.real_time {
        return Err(Error::config(format!(
            "topology.servers: {servers}; several parameter servers are supported in virtual time only; use transport.kind = \"virtual\", \
             or one server"
        )));
    }
    Ok(())
}
