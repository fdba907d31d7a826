//! A device of which only addresses and ports are known.

use serde_json::{Value, json};

use super::{Job, Planner, groups, station, worker_entry};
use crate::registry::Named;

/// `plan = "generic"`.
pub struct Generic;

impl Named for Generic {
    fn name(&self) -> &'static str {
        "generic"
    }
    fn about(&self) -> &'static str {
        "addresses, ports and multicast groups"
    }
}

impl Planner for Generic {
    fn plan(&self, job: &Job) -> Value {
        let workers: Vec<_> = (0..job.addresses.workers.len() as u32).map(|w| worker_entry(job, w)).collect();
        json!({ "workers": workers, "server": station(job.addresses.server), "multicast_groups": groups(job) })
    }

    fn unpublished(&self) -> &'static str {
        "JSON only: no control plane is known"
    }
}
