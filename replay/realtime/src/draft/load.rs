//! The expected load: amount, senders and times.

use std::collections::BTreeMap;

use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::topology::{NodeId, Role};
use pktgen_core::{Error, Result};
use pktgen_wire::device::Profile;
use pktgen_workload::workload::Source;
use serde::Serialize;

use super::UPDATES_MAX;
use crate::plan::{MeanRates, Plan, link_bits};
use crate::transport::TransportPlan;

/// Window of peak rates.
const WINDOW: Time = MS;

/// The load of one worker, or at one port.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load {
    /// Name of the worker or port.
    pub name: String,
    /// Frames.
    pub frames: u64,
    /// Their bytes, without the overhead on the cable.
    pub bytes: u64,
    /// Mean rate in bit/s, with FCS, preamble and gap; of a port, the sum of its workers'. None for workers that wait for results,
    /// and if all updates are at one time.
    pub mean_bps: Option<u64>,
    /// Rate in the busiest millisecond.
    pub peak_bps: Option<u64>,
    /// Line rate of the port; without a profile, that of the host's link.
    pub line_bps: u64,
    #[serde(skip)]
    window: (Time, u64),
    #[serde(skip)]
    peak: u64,
}

impl Load {
    fn add(&mut self, t: Time, bytes: u64, bits: u64) {
        let window = t.div_euclid(WINDOW);
        if window != self.window.0 {
            self.window = (window, 0);
        }
        self.window.1 += bits;
        self.peak = self.peak.max(self.window.1);
        self.frames += 1;
        self.bytes += bytes;
    }

    fn close(&mut self, mean_bps: u64) {
        let peak = u128::from(self.peak) * SECOND as u128 / WINDOW as u128;
        self.mean_bps = Some(mean_bps);
        self.peak_bps = Some((peak as u64).max(mean_bps));
    }
}

/// The total load.
pub(super) struct Counted {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) end: Time,
    pub(super) complete: bool,
    pub(super) workers: Vec<Load>,
    pub(super) ports: Vec<Load>,
    /// Updates by cluster and worker: workers may move.
    pub(super) members: BTreeMap<(u16, u32), u64>,
}

/// Ports of the workers, with their line rates.
struct Ports {
    /// By worker.
    of: Vec<usize>,
    loads: Vec<Load>,
    overhead: u64,
}

impl Ports {
    fn new(plan: &Plan, profile: Option<&Profile>) -> Self {
        let topology = &plan.parts.topology;
        let host_of = &plan.parts.facts.host_of;
        let exits = topology.exits();
        let port_of = |host: NodeId| {
            let node = topology.nodes.get(host as usize).filter(|node| matches!(node.role, Role::Host(_)))?;
            // A host has one cable.
            let link = exits.of(host).first()?;
            Some((node.name.clone(), topology.links[*link as usize].rate.bps()))
        };
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut loads: Vec<Load> = Vec::new();
        let mut of = Vec::new();
        for (worker, host) in (0u32..).zip(host_of.iter()) {
            let (name, line_bps) = match profile {
                Some(profile) => (profile.port_of(worker), profile.ports.rate.bps()),
                None => port_of(*host).unwrap_or_else(|| ("host".into(), plan.parts.facts.host_rate_bps)),
            };
            let place = *known.entry(name.clone()).or_insert_with(|| {
                loads.push(Load { name, line_bps, ..Load::default() });
                loads.len() - 1
            });
            of.push(place);
        }
        let overhead = profile.map_or(24, |profile| profile.ports.overhead);
        Ports { of, loads, overhead }
    }
}

/// Counts the updates, or computes the frames of workers that wait for results.
pub(super) fn count(plan: &Plan, source: Box<dyn Source>, profile: Option<&Profile>) -> Result<Counted> {
    let ports = Ports::new(plan, profile);
    let worker = |number: usize| Load {
        name: format!("worker {number}"),
        line_bps: ports.of.get(number).map_or(0, |port| ports.loads[*port].line_bps),
        ..Load::default()
    };
    let workers = (0..plan.spec.workers.len()).map(worker).collect();
    match plan.spec.training {
        Some(_) => Ok(closed(plan, ports, workers)),
        None => open(source, ports, workers, &plan.spec.transport, plan.spec.capture.until),
    }
}

/// Counts workers that send what they generate.
fn open(
    mut source: Box<dyn Source>,
    mut ports: Ports,
    mut workers: Vec<Load>,
    transport: &TransportPlan,
    until: Time,
) -> Result<Counted> {
    let (mut end, mut looked, mut complete) = (0, 0, true);
    let mut rates = MeanRates::default();
    let mut members = BTreeMap::new();
    while let Some(update) = source.peek().copied().filter(|update| update.t_gen <= until) {
        if looked == UPDATES_MAX {
            complete = false;
            break;
        }
        let bytes = transport.cable_bytes(update.bytes as usize) as u64;
        let port = ports.of.get(update.worker as usize).copied().unwrap_or_default();
        if let (Some(worker), Some(port)) = (workers.get_mut(update.worker as usize), ports.loads.get_mut(port)) {
            let bits = link_bits(bytes, ports.overhead);
            worker.add(update.t_gen, bytes, bits);
            port.add(update.t_gen, bytes, bits);
            rates.add(update.worker, update.t_gen, bits);
        }
        if update.cluster != NO_CLUSTER {
            *members.entry((update.cluster, update.worker)).or_insert(0) += 1;
        }
        (end, looked) = (update.t_gen, looked + 1);
        source.take(&mut []);
    }
    if let Some(means) = rates.bps() {
        let mut sums = vec![0u64; ports.loads.len()];
        for (number, worker) in workers.iter_mut().enumerate() {
            let mean = means.get(number).copied().unwrap_or(0);
            worker.close(mean);
            let port = ports.of.get(number).copied().unwrap_or_default();
            if let Some(sum) = sums.get_mut(port) {
                *sum += mean;
            }
        }
        ports.loads.iter_mut().zip(sums).for_each(|(port, sum)| port.close(sum));
    }
    if let Some(port) = ports.loads.iter().find(|port| port.mean_bps.is_some_and(|mean| mean > port.line_bps)) {
        return Err(Error::config(format!(
            "port {}: {:.3} Gbit/s in the mean, with preambles and gaps, would go to it, and it carries {:.3}; lower the rate \
             (--rate, --pps, --speed), or spread the workers over more ports",
            port.name,
            port.mean_bps.unwrap_or(0) as f64 / 1e9,
            port.line_bps as f64 / 1e9
        )));
    }
    Ok(Counted { members, ..sum(workers, ports.loads, end, complete) })
}

/// Computes workers that wait for results: a number of blocks per iteration, each of maximum size.
fn closed(plan: &Plan, mut ports: Ports, mut workers: Vec<Load>) -> Counted {
    let Some(training) = &plan.spec.training else { return sum(workers, ports.loads, 0, true) };
    // Exponents may precede the model.
    let packets = match plan.parts.declared.packets {
        0 => training.blocks,
        packets => packets,
    };
    let frames = u64::from(training.iterations) * u64::from(packets);
    let frame_bytes = plan.spec.transport.cable_bytes(plan.parts.frame_bytes) as u64;
    let (bytes, frame_bits) = (frames * frame_bytes, link_bits(frame_bytes, ports.overhead));
    for (number, worker) in workers.iter_mut().enumerate() {
        (worker.frames, worker.bytes) = (frames, bytes);
        if let Some(port) = ports.of.get(number).and_then(|port| ports.loads.get_mut(*port)) {
            port.frames += frames;
            port.bytes += bytes;
        }
    }
    let seconds = |load: &Load| (load.frames * frame_bits) as f64 / load.line_bps.max(1) as f64;
    let sending = ports.loads.iter().map(seconds).fold(0.0, f64::max);
    let end = Time::from(training.iterations) * training.compute_ps + (sending * 1e12) as Time;
    let senders = (0u32..).zip(&plan.spec.workers.cluster_of).filter(|(_, cluster)| **cluster != NO_CLUSTER);
    let members = senders.map(|(worker, cluster)| ((*cluster, worker), frames)).collect();
    Counted { members, ..sum(workers, ports.loads, end, true) }
}

fn sum(workers: Vec<Load>, ports: Vec<Load>, end: Time, complete: bool) -> Counted {
    let (frames, bytes) = workers.iter().fold((0, 0), |(frames, bytes), w| (frames + w.frames, bytes + w.bytes));
    Counted { frames, bytes, end, complete, workers, ports, members: BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_that_of_the_busiest_millisecond() {
        let mut load = Load::default();
        for t in [0, 1, MS - 1, MS, 5 * MS, 10 * MS] {
            load.add(t, 101, 1000);
        }
        load.close(500_000);
        // Three of six frames of 1000 bits are in the first millisecond.
        assert_eq!((load.frames, load.bytes, load.mean_bps, load.peak_bps), (6, 606, Some(500_000), Some(3_000_000)));
        load.close(4_000_000);
        assert_eq!(load.peak_bps, Some(4_000_000), "no peak is below the mean");
    }
}
