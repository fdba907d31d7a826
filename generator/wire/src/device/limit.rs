//! Quantities that a profile can limit; it states the limit of its device and the source.

use crate::config::Section;
use crate::registry::suggest;
use crate::{Error, Result};

use super::addressing::tag_bytes;
use super::facts::Facts;
use super::profile::Profile;

/// A quantity that a profile can limit.
pub struct LimitKind {
    /// Name in a profile.
    pub name: &'static str,
    /// Description, printed before the number.
    pub about: &'static str,
    /// Returns advice on what to change in the experiment.
    pub remedy: fn(&Facts) -> &str,
    /// Returns the amount that an experiment needs; `None` if it does not apply.
    pub value: fn(&Facts, &Profile) -> Option<u64>,
}

fn tagged(profile: &Profile, bytes: u64) -> u64 {
    bytes + tag_bytes(profile.addressing.vlan) as u64
}

/// All quantities that can be limited.
pub static LIMITS: &[LimitKind] = &[
    LimitKind {
        name: "frame_bytes",
        about: "bytes of the largest frame, from the Ethernet header on, VLAN tag included:",
        remedy: |facts| facts.smaller.as_str(),
        value: |facts, profile| Some(tagged(profile, facts.frame_bytes)),
    },
    LimitKind {
        name: "summed_bytes",
        about: "bytes of a frame that the device has to see whole, VLAN tag included:",
        remedy: |_| "take the VLAN tag out of the profile (addressing.vlan), or lower workload.elements",
        value: |facts, profile| Some(tagged(profile, facts.summed_bytes.unwrap_or(facts.frame_bytes))),
    },
    LimitKind {
        name: "elements",
        about: "gradients or pairs of a packet:",
        remedy: |_| "lower workload.elements (dense) or workload.bytes",
        value: |facts, _| Some(facts.elements),
    },
    LimitKind {
        name: "workers",
        about: "workers:",
        remedy: |_| "lower workload.workers, workload.clusters or workload.workers_per_cluster",
        value: |facts, _| Some(facts.workers.len() as u64),
    },
    LimitKind {
        name: "workers_per_cluster",
        about: "workers of one cluster or job:",
        remedy: |_| "lower workload.workers or workload.workers_per_cluster, or make more clusters or jobs of them",
        value: |facts, _| facts.clusters().iter().map(|cluster| cluster.len() as u64).max(),
    },
    LimitKind {
        name: "clusters",
        about: "clusters or jobs:",
        remedy: |_| "lower workload.clusters or workload.jobs",
        value: |facts, _| Some(facts.workers.clusters_ever() as u64),
    },
    LimitKind {
        name: "window",
        about: "packets that a worker may have under way:",
        remedy: |_| "lower endpoint.window or endpoint.pool",
        value: |facts, _| facts.window,
    },
    LimitKind {
        name: "iterations",
        about: "iterations:",
        remedy: |_| "lower workload.iterations",
        value: |facts, _| facts.iterations,
    },
    LimitKind {
        name: "queue_slots",
        about: "updates that the queue holds:",
        remedy: |_| "lower target.slots",
        value: |facts, _| facts.queue_slots,
    },
    LimitKind {
        name: "registers",
        about: "registers of hot parameters:",
        remedy: |_| "lower endpoint.registers",
        value: |facts, _| facts.registers,
    },
    LimitKind {
        name: "hot_parameters",
        about: "hot parameters of all jobs:",
        remedy: |_| "lower workload.hot or workload.jobs",
        value: |facts, _| facts.hot.map(|hot| hot * facts.workers.clusters_ever().max(1) as u64),
    },
];

/// A limit of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Name of the quantity, one of [`LIMITS`].
    pub of: &'static str,
    /// Maximum.
    pub most: Option<u64>,
    /// Permitted values.
    pub one_of: Vec<u64>,
    /// Source of the limit.
    pub source: String,
    /// Whether the device may still work beyond it: a note instead of a refusal.
    pub note: bool,
}

impl Limit {
    /// Reads one of the tables `[[limits.of]]`.
    pub(super) fn read(mut section: Section) -> Result<Self> {
        let name: String = section.get("what", "")?;
        let names: Vec<_> = LIMITS.iter().map(|kind| kind.name).collect();
        let Some(kind) = LIMITS.iter().find(|kind| kind.name == name) else {
            return Err(Error::config(format!(
                "{}: nothing called \"{name}\" can be limited{}; there are: {}",
                section.place("what"),
                suggest(&name, &names),
                names.join(", ")
            )));
        };
        let limit = Limit {
            of: kind.name,
            most: section.get_opt("most")?,
            one_of: section.get_opt::<Numbers>("one_of")?.map_or_else(Vec::new, |numbers| numbers.0),
            source: section.get("source", "")?,
            note: section.get("note", false)?,
        };
        // Both or neither are present.
        if limit.most.is_some() != limit.one_of.is_empty() {
            let what = format!("{}: the limit of {name} has most = N or one_of = [N, ...]", section.place("most"));
            return Err(Error::config(format!("{what}, and exactly one of them")));
        }
        if limit.source.is_empty() {
            return Err(Error::config(format!(
                "{}: the limit of {name} does not say where it is known from; write source = \"PAPER §\", a data sheet, or \
                 \"ours\"",
                section.place("source")
            )));
        }
        section.end()?;
        Ok(limit)
    }

    /// Returns whether `value` exceeds the maximum, or is not a permitted value.
    pub fn refuses(&self, value: u64) -> bool {
        match self.most {
            Some(most) => value > most,
            None => !self.one_of.contains(&value),
        }
    }

    /// Returns the permitted values in words.
    pub fn allows(&self) -> String {
        match self.most {
            Some(most) => format!("at most {most}"),
            None => {
                let texts: Vec<_> = self.one_of.iter().map(u64::to_string).collect();
                format!("one of {}", texts.join(", "))
            }
        }
    }
}

/// A list of whole numbers.
struct Numbers(Vec<u64>);

impl crate::config::FromValue for Numbers {
    fn from_value(value: &crate::config::Value) -> Result<Self, String> {
        let crate::config::Value::List(items) = value else {
            return Err(format!("{} is {}; it must be a list of whole numbers", value.to_toml(), value.kind()));
        };
        items.iter().map(|item| u64::from_value(&item.value)).collect::<Result<_, _>>().map(Numbers)
    }
}
