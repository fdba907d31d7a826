//! Libra on a Tofino switch: register and slot of every hot parameter, and the workers of each job (LIBRA §3.4).
//!
//! The P4 program is not public, so the names of its tables are unknown.

use pktgen_wire::device::HotParameter;
use serde_json::{Value, json};

use pktgen_core::registry::Named;
use pktgen_wire::device::plan::{DeviceTemplate, Job, Planner, groups, station};

/// `plan = "libra"`.
pub struct Libra;

impl Named for Libra {
    fn name(&self) -> &'static str {
        "libra"
    }
    fn about(&self) -> &'static str {
        "registers and slots of hot parameters, workers and groups of each job (LIBRA §3.4)"
    }
}

/// The experiment written by `pktgen init`.
static TEMPLATE: DeviceTemplate = DeviceTemplate {
    server: true,
    workers: 4,
    rate: "1Gbps",
    strict: false,
    text: "[workload]\nkind = \"sparse\"\nmodel = \"oa\"\nscale = 0.1\nworkers = WORKERS\niterations = 10\ncompute = \"1ms\"\n\n\
           [topology]\nkind = \"star\"\n\n[endpoint]\nworkers = \"libra\"\nwindow = 128\ncold_window = 128\ntimeout = \"20ms\"\n\n\
           [target]\nprogram = \"libra\"\nresult_timeout = \"20ms\"\n",
};

impl Planner for Libra {
    fn template(&self) -> Option<&'static DeviceTemplate> {
        Some(&TEMPLATE)
    }

    fn plan(&self, job: &Job) -> Value {
        let of_job = |(number, hot): (usize, &Vec<HotParameter>)| {
            let one = |p: &HotParameter| json!({ "index": p.index, "key": format!("{:#018x}", p.key), "register": p.register, "slot": p.slot });
            let slots = hot.iter().map(|p| p.slot + 1).max().unwrap_or(0);
            json!({ "job": number, "slots_per_register": slots, "parameters": hot.iter().map(one).collect::<Vec<_>>() })
        };
        json!({
            "registers": job.facts.registers,
            "jobs": job.facts.hot_parameters.iter().enumerate().map(of_job).collect::<Vec<_>>(),
            "workers_and_groups": groups(job),
            "parameter_server": station(job.addresses.server),
            "window": job.facts.window,
        })
    }

    fn unpublished(&self) -> &'static str {
        "JSON only: LIBRA's P4 program is not public"
    }
}
