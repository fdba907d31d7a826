//! The probe of an external device: frames pass through it before the first update of every run.

use std::time::Duration;

use pktgen_core::config::{FromValue, Value, settings, spans};
use pktgen_core::topology::Population;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use super::marks::Marks;
use super::probe::Probe;
use super::rounds::Rounds;
use crate::clock::Stopwatch;
use crate::plan::Spec;
use crate::transport::End;

/// The kind of probe of an external device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeBy {
    /// Rounds if the format supports them, else marked frames.
    Auto,
    /// A marked frame must leave at the right port.
    Forward,
    /// Sums of marked contributions must return.
    Round,
    /// No probe.
    Nothing,
}

impl FromValue for ProbeBy {
    fn takes() -> String {
        "auto, forward, round, none".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "auto" => Ok(ProbeBy::Auto),
            Value::Text(text) if text == "forward" => Ok(ProbeBy::Forward),
            Value::Text(text) if text == "round" => Ok(ProbeBy::Round),
            Value::Text(text) if text == "none" => Ok(ProbeBy::Nothing),
            other => Err(format!("{} is not a probe; there are: {}", other.to_toml(), Self::takes())),
        }
    }
}

settings! {
    /// How hardware is probed before a run.
    #[derive(Debug, Clone)]
    pub struct Probing {
        /// Probe of hardware before a run: `forward`, a marked frame is forwarded; `round`, sums of contributions
        /// return; `auto`, `round` where the format has slots of two sets, else `forward`; `none`.
        probe: ProbeBy = "auto";
        /// Timeout of the probe.
        probe_timeout: Span = "2s" in spans((std::ops::Bound::Excluded(0), std::ops::Bound::Unbounded));
    }
}

/// Probes the hardware of a run with frames of at most `frame_bytes`, if this process can reach any. Returns the
/// evidence of its presence; an error states why it seems to be absent.
pub(crate) fn probe_before(spec: &Spec, frame_bytes: usize) -> Result<Option<String>> {
    let (probing, transport) = (&spec.probing, &spec.transport);
    let named = transport.interfaces.get(End::Workers as usize).is_some_and(|name| !name.is_empty());
    let Some(hardware) = spec.hardware.as_ref().filter(|hardware| hardware.external && named) else { return Ok(None) };
    let rounds =
        transport.outer.as_ref().is_some_and(|outer| outer.format.round.is_some() && outer.format.ports.is_some());
    const KEY: &str = "target.probe";
    // Content of an earlier run in a slot would be added to the next sum. The rounds of one packet each clear it.
    let window = spec.training.as_ref().map_or(1, |training| training.window);
    let last_slot = window.clamp(1, u32::from(u16::MAX)) as u16 - 1;
    let mut probe: Box<dyn Probe> = match probing.probe {
        ProbeBy::Nothing => return Ok(None),
        ProbeBy::Auto if rounds => Box::new(Rounds::open(KEY, spec, frame_bytes, 0..=last_slot)?),
        ProbeBy::Round => Box::new(Rounds::open(KEY, spec, frame_bytes, 0..=last_slot)?),
        ProbeBy::Auto | ProbeBy::Forward => {
            let workers =
                if spec.raw { &Population { cluster_of: vec![0], moves: Vec::new() } } else { &*spec.workers };
            let addresses = hardware.profile.addressing.resolve(workers).map_err(Error::Config)?;
            Box::new(Marks::open(KEY, transport, &addresses)?)
        }
    };
    let within = Duration::from_nanos((probing.probe_timeout.ps() / 1000).max(0) as u64);
    let watch = Stopwatch::start();
    while !probe.exchange()? {
        let is_late = watch.elapsed() > within;
        if is_late && probe.shown() {
            break;
        }
        if is_late && !probe.is_midway() {
            return Err(Error::Invalid(format!(
                "the device does not pass the probe: {} within {} (target.probe_timeout); look at its tables, ports and cables, \
                 and restart it if it compares packet numbers and has run before. \
                 --no-probe runs all the same; target.probe = \"none\" is for a device that passes its own protocol only",
                probe.missed(),
                probing.probe_timeout
            )));
        }
    }
    probe.settle()?;
    Ok(Some(probe.found()))
}
