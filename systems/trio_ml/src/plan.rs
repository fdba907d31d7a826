//! Trio-ML on a router: job records as in Figure 17, and the multicast group of the results (Trio §4, A.1).
//!
//! The microcode and its configuration are not public.

use serde_json::{Value, json};

use pktgen_core::registry::Named;
use pktgen_wire::device::plan::{DeviceTemplate, Job, Planner, groups, station};

/// `plan = "trio_ml"`.
pub(crate) struct TrioMl;

/// Maximum of 12-bit fields (Figure 17).
const FIELD_12: u64 = 4095;

impl Named for TrioMl {
    fn name(&self) -> &'static str {
        "trio_ml"
    }
    fn about(&self) -> &'static str {
        "job records, sources and multicast groups (Trio §4, A.1)"
    }
}

/// The experiment written by `pktgen init`.
static TEMPLATE: DeviceTemplate = DeviceTemplate {
    server: false,
    workers: 4,
    rate: "1Gbps",
    strict: false,
    text: "[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = 0.01\nworkers = WORKERS\niterations = 5\nelements = 256\n\
           compute = \"1ms\"\n\n[topology]\nkind = \"rack\"\n\n[endpoint]\nworkers = \"trio_ml\"\nwindow = 32\n\n[target]\n",
};

impl Planner for TrioMl {
    fn template(&self) -> Option<&'static DeviceTemplate> {
        Some(&TEMPLATE)
    }

    fn plan(&self, job: &Job) -> Value {
        let device = job.addresses.device;
        let record = |(number, members): (usize, &Vec<u32>)| {
            let count = members.len() as u32;
            let mask = |word: u32| {
                let bits = count.saturating_sub(word * 64).min(64);
                format!("{:#018x}", if bits == 64 { u64::MAX } else { (1u64 << bits) - 1 })
            };
            let source = |(id, worker): (usize, &u32)| json!({ "src_id": id, "worker": worker, "ip": job.addresses.workers[*worker as usize].ip.to_string() });
            json!({
                "job_id": number,
                "block_cnt_max": job.facts.blocks.or(job.facts.window).map(|blocks| blocks.min(FIELD_12)),
                "block_grad_max": job.facts.elements.min(FIELD_12),
                "block_exp_ms": job.facts.timeout_ms,
                "out_src_addr": device.map(|device| device.ip.to_string()),
                "out_dst_addr": job.addresses.groups[number].ip.to_string(),
                "src_cnt": count,
                "src_mask": (0..4).map(mask).collect::<Vec<_>>(),
                "sources": members.iter().enumerate().map(source).collect::<Vec<_>>(),
            })
        };
        json!({
            "router": station(device),
            "udp_port": job.addresses.port.unwrap_or(crate::format::PORT),
            "worker_udp_port": job.addresses.worker_port.unwrap_or(crate::format::PORT),
            "job_records": job.facts.clusters().iter().enumerate().map(record).collect::<Vec<_>>(),
            "multicast_groups": groups(job),
        })
    }

    fn unpublished(&self) -> &'static str {
        "JSON only: Trio-ML's Microcode and its configuration are not public"
    }
}
