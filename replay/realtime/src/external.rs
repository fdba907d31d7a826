//! Hardware as the device of an experiment: `[target] profile`, and with `kind = "external"` no software device (docs/device.md).
//!
//! Called by [`crate::plan`]: the experiment's requirements are checked against the profile before anything is sent, and its addresses are
//! used on the wires. A software device with a profile replaces the hardware: it has the same addresses.

use std::sync::Arc;

use pktgen_core::config::{Document, Origin, Value};
use pktgen_core::time::MS;
use pktgen_core::{Error, Result};
use pktgen_wire::device::check::check;
use pktgen_wire::device::{self, HotParameter, Profile};

use crate::catalogue::Catalogue;
use crate::plan::Plan;
use crate::transport::TRANSPORTS;

/// The hardware named by an experiment.
#[derive(Clone)]
pub struct Hardware {
    /// Its profile.
    pub profile: Arc<Profile>,
    /// Whether the hardware is the device, instead of a software device.
    pub external: bool,
    experiment: String,
}

impl Hardware {
    /// Reads the hardware from `[target]`. Frames get the profile's addresses on wires that carry them, unless the
    /// experiment says otherwise.
    pub(crate) fn named(catalogue: &Catalogue, document: &mut Document) -> Result<Option<Self>> {
        let text = |document: &Document, key: &str| document.get(key).map(Value::to_label);
        let external = text(document, "target.kind").as_deref() == Some("external");
        if external {
            unite(catalogue, document)?;
        }
        // Raw frames do not need the addresses of a profile.
        let raw = text(document, "workload.kind").as_deref() == Some("raw");
        if raw && external && document.get("target.profile").is_none() {
            document.set("target.profile", Value::Text("generic".into()), Origin::Default)?;
        }
        let Some(name) = text(document, "target.profile") else { return Ok(None) };
        let profile = Arc::new(device::open(&name, "target.profile", &catalogue.protocols)?);
        let kind = text(document, "transport.kind").unwrap_or_default();
        let known = TRANSPORTS.iter().find(|transport| transport.name() == kind);
        if !raw
            && document.get("transport.readdress").is_none()
            && known.is_some_and(|known| known.capabilities().heads)
        {
            document.set("transport.readdress", Value::Bool(true), Origin::Default)?;
        }
        let experiment = text(document, "name").unwrap_or_else(|| "the experiment".into());
        Ok(Some(Hardware { profile, external, experiment }))
    }
}

/// Unifies the keys shared by `[endpoint]` and `[target]` of an external device, and turns off the flags of our own programs.
fn unite(catalogue: &Catalogue, document: &mut Document) -> Result<()> {
    let workers = document.get("endpoint.workers").map_or(catalogue.defaults.workers.to_owned(), Value::to_label);
    let Some(kind) = catalogue.workers.iter().find(|kind| kind.name() == workers) else { return Ok(()) };
    for key in kind.behaviour().common {
        let [own, device] = ["endpoint", "target"].map(|section| format!("{section}.{key}"));
        match (document.get(&own).cloned(), document.get(&device).cloned()) {
            (Some(a), Some(b)) if a != b => {
                return Err(Error::config(format!(
                    "{own} = {} and {device} = {}: an external device and its workers must have the same {key}; set \
                     one of the two keys, or both to the same value",
                    a.to_label(),
                    b.to_label()
                )));
            }
            (Some(value), None) => document.set(&device, value, Origin::Default)?,
            (None, Some(value)) => document.set(&own, value, Origin::Default)?,
            _ => {}
        }
    }
    for key in kind.behaviour().ours {
        let key = format!("target.{key}");
        if document.get(&key).is_none() {
            document.set(&key, Value::Bool(false), Origin::Default)?;
        }
    }
    Ok(())
}

/// Returns whether the device may merge or replace updates, according to this configuration.
pub(crate) fn may_merge(config: &str) -> bool {
    let config = Document::parse(config, "config");
    let is = |key: &str, word: &str| {
        config.as_ref().is_ok_and(|config| config.get(key).is_none_or(|value| value.to_label() == word))
    };
    !(is("target.program", "forward") && is("target.queue", "fifo"))
}

impl Plan {
    /// Returns the experiment's requirements on a device.
    pub fn asks(&self, experiment: &str) -> device::Facts {
        let (spec, parts) = (&self.spec, &self.parts);
        let sparse = parts.declared.sparse.as_ref();
        let number = |key: &str| match Document::parse(&spec.config, "config").ok()?.get(key) {
            Some(Value::Integer(n)) => u64::try_from(*n).ok(),
            _ => None,
        };
        let training = spec.training.as_ref();
        let format = parts.facts.protocol.format;
        let on_wire = spec.transport.dialect.map_or(format, |dialect| dialect.on_wire);
        let layout = spec.catalogue.protocols.formats.iter().find(|format| format.name() == on_wire);
        device::Facts {
            experiment: experiment.to_owned(),
            format: spec.transport.dialect.map_or(format, |dialect| dialect.device).to_owned(),
            on_wire: on_wire.to_owned(),
            ports: layout.and_then(|format| format.facts().ports),
            workers: spec.workers.clone(),
            has_server: spec.transport.has_server,
            frame_bytes: (parts.frame_bytes + spec.transport.growth()) as u64,
            summed_bytes: parts.declared.summed_bytes.map(|bytes| bytes as u64),
            elements: parts.elements as u64,
            window: training.map(|training| training.window.into()),
            blocks: number("target.block_cnt_max"),
            iterations: training.map(|training| training.iterations.into()),
            queue_slots: number("target.slots"),
            registers: sparse.map(|place| place.layout.registers().into()),
            hot: sparse.map(|place| place.sparse.hot().len().into()),
            hot_parameters: Vec::new(),
            timeout_ms: training.and_then(|training| training.timeout_ps).map(|t| (t / MS) as u64),
            smaller: spec.transport.smaller.to_owned(),
        }
    }

    /// Refuses networks of several devices: a profile is of one, and so are the tables that are planned with it.
    fn check_single_device(&self) -> Result<()> {
        self.parts.topology.only_device().map(drop).map_err(|devices| {
            Error::config(format!(
                "topology: a profile is of one device, and this network has {devices}; use topology.kind = \"bottleneck\", \"star\" \
                 without standby, or \"rack\" with engines = 1"
            ))
        })
    }

    /// Returns the requirements including the place of every hot parameter, which may be many. Refuses networks of several devices.
    pub fn asks_all(&self, experiment: &str) -> Result<device::Facts> {
        self.check_single_device()?;
        let mut facts = self.asks(experiment);
        if let Some(place) = &self.parts.declared.sparse {
            let of = |job| {
                let hot = place.sparse.hot_of(job);
                let one = |index| HotParameter {
                    index,
                    key: hot.key_of(index),
                    register: place.layout.register_of(index),
                    slot: place.layout.slot_of(index),
                };
                (0..hot.len()).map(one).collect()
            };
            facts.hot_parameters = (0..place.sparse.jobs()).map(of).collect();
        }
        Ok(facts)
    }

    /// Checks the plan against the hardware that it names.
    pub(crate) fn fit_hardware(self) -> Result<Self> {
        if self.spec.hardware.is_some() {
            self.check_single_device()?;
        }
        if self.parts.facts.protocol.whole {
            return Ok(self);
        }
        if let Some(Hardware { profile, experiment, .. }) = &self.spec.hardware {
            check(profile, &self.asks(experiment)).into_result()?;
        } else if let Some(name) = self.spec.transport.middleware.declaring(|it| it.addresses).next() {
            return Err(Error::config(format!(
                "transport.{name}: there are no addresses to exchange; name a profile (target.profile), or leave it out"
            )));
        }
        Ok(self)
    }

    /// Refuses to run without the external hardware.
    pub(crate) fn check_external(&self) -> Result<()> {
        if !self.spec.is_external() {
            return Ok(());
        }
        if self.spec.transport.lockstep.is_some() {
            return self.check_lockstep();
        }
        let kind = self.spec.transport.kind;
        if !kind.capabilities().real_time {
            return Err(Error::config(
                "target.kind = \"external\": hardware does not exist in virtual time; look at what would be sent with --dry-run, run \
                 in real time (transport.kind = \"af_packet\", ...), let a software device stand in (target.kind = \"software\"), or \
                 couple a simulator of it (target.lockstep)",
            ));
        }
        if kind.capabilities().in_process {
            return Err(Error::config(format!(
                "transport.kind = \"{}\": it moves frames within this process and cannot reach hardware (target.kind \
                 = \"external\"); use af_packet, af_xdp, xdp_live or pcap",
                kind.name()
            )));
        }
        Ok(())
    }
}
