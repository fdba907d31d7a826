//! OLAF on an Alveo card: the match-action tables of its two P4 blocks, and the queue (OLAF §7).
//!
//! VNP4₁ determines a worker by its source address and maps it to a cluster, which is a multicast group; VNP4₂
//! multicasts ACKs to the group. The paper does not give names of tables.

use serde_json::{Value, json};

use pktgen_core::record::NO_CLUSTER;
use pktgen_core::registry::Named;
use pktgen_wire::device::plan::{DeviceTemplate, Job, Planner, groups, station, worker_entry};
use pktgen_wire::wire::update::{PORT, WORKER_PORT};

/// `plan = "olaf"`.
pub struct Olaf;

/// Size of a memory block in bytes: 512 bits are moved per clock cycle (OLAF §12.1).
const BLOCK: u64 = 64;

impl Named for Olaf {
    fn name(&self) -> &'static str {
        "olaf"
    }
    fn about(&self) -> &'static str {
        "worker to cluster and multicast groups of the P4 blocks, segments of the queue (OLAF §7)"
    }
}

/// The experiment written by `pktgen init`.
static TEMPLATE: DeviceTemplate = DeviceTemplate {
    server: true,
    workers: 9,
    rate: "20Mbps",
    strict: true,
    text: "[workload]\nkind = \"rl\"\nclusters = CLUSTERS\nworkers_per_cluster = PER_CLUSTER\nupdates = 500\nbytes = \"256B\"\n\n\
           [schedule]\nkind = \"constant\"\njitter = 0.3\noffered = RATE\n\n\
           [format]\nlanes = true                 # payloads name the updates in a packet\n\n\
           [topology]\nkind = \"bottleneck\"\nrate = RATE                  # of the device's output: what it cannot send, it merges\n\n\
           [target]\nprogram = \"olaf\"\nqueue = \"olaf\"\n",
};

impl Planner for Olaf {
    fn template(&self) -> Option<&'static DeviceTemplate> {
        Some(&TEMPLATE)
    }

    fn groups_acks(&self) -> bool {
        true
    }

    fn plan(&self, job: &Job) -> Value {
        let cluster_of = &job.facts.workers.cluster_of;
        let identify = |(worker, cluster): (u32, &u16)| {
            let mut entry = worker_entry(job, worker);
            entry["cluster"] = json!(cluster);
            entry["multicast_group"] = json!(u64::from(job.profile.addressing.group_ids) + u64::from(*cluster));
            entry
        };
        // Background traffic is of no cluster: the card does not know its senders.
        let known = (0u32..).zip(cluster_of).filter(|(_, cluster)| **cluster != NO_CLUSTER);
        let moves = job.facts.workers.moves.iter().map(|change| {
            json!({ "at_ps": change.at, "worker": change.worker, "cluster": change.cluster,
                    "multicast_group": u64::from(job.profile.addressing.group_ids) + u64::from(change.cluster) })
        });
        // The strict layout has ports of its own.
        let (workers, server) = job.facts.ports.unwrap_or((WORKER_PORT, PORT));
        let mut plan = json!({
            "update_identifier": known.map(identify).collect::<Vec<_>>(),
            "parameter_server": station(job.addresses.server),
            "udp_ports": { "workers": job.addresses.worker_port.unwrap_or(workers), "parameter_server": job.addresses.port.unwrap_or(server) },
            "multicast_groups": groups(job),
            "regroup": moves.collect::<Vec<_>>(),
            "queue": {
                "segments": job.facts.queue_slots,
                "segment_bytes": job.facts.frame_bytes.next_multiple_of(BLOCK),
                "blocks_per_segment": job.facts.frame_bytes.div_ceil(BLOCK),
                "cluster_slots": job.facts.workers.clusters_ever(),
            },
        });
        if job.addresses.device.is_some() {
            plan["device"] = station(job.addresses.device);
        }
        plan
    }

    fn unpublished(&self) -> &'static str {
        "JSON only: OLAF §7 publishes no names of its P4 tables"
    }
}
