//! Detection of a ready device: marked frames are forwarded, sums return, or a file exists. Exit codes are never sufficient.

use std::time::Duration;

use pktgen_core::{Error, Result};
use pktgen_wire::device::Addresses;

use super::marks::Marks;
use super::probe::Probe;
use super::rounds::Rounds;
use super::session::Launched;
use super::settings::{Launch, Ready};
use crate::plan::Spec;

/// Interval of checks for a file.
const PAUSE: Duration = Duration::from_millis(20);

/// How a device became ready.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    /// Time from its start.
    pub(crate) after: Duration,
    /// The evidence.
    pub(crate) by: String,
    /// Unrequested frames.
    pub(crate) unasked: u64,
}

/// Waits until the device of a run whose frames have at most `frame_bytes` is ready; an error states why it is not.
pub(crate) fn await_ready(
    launch: &Launch,
    device: &Launched,
    (spec, frame_bytes): (&Spec, usize),
    addresses: &Addresses,
) -> Result<Readiness> {
    const KEY: &str = "target.launch.ready";
    let within = Duration::from_nanos((launch.timeout.ps() / 1000).max(0) as u64);
    let mut probe: Option<Box<dyn Probe>> = match launch.ready {
        Ready::Forward => Some(Box::new(Marks::open(KEY, &spec.transport, addresses)?)),
        Ready::Round => Some(Box::new(Rounds::open(KEY, spec, frame_bytes, launch.slot as u16..=launch.slot as u16)?)),
        Ready::File => None,
    };
    let after = loop {
        if device.is_dead() {
            return Err(Error::Invalid(format!("not ready: {}", device.obituary())));
        }
        let ready = match (&mut probe, &launch.file) {
            (Some(probe), _) => probe.exchange()?,
            (None, Some(file)) => {
                std::thread::sleep(PAUSE);
                device.has_file(file)?
            }
            (None, None) => true,
        };
        if ready {
            break device.watch.elapsed();
        }
        if device.watch.elapsed() > within {
            let what = match &probe {
                Some(probe) => probe.missed(),
                None => format!("there is no {}", launch.file.as_deref().unwrap_or_default()),
            };
            return Err(Error::Invalid(format!(
                "not ready: {what} within {} (target.launch.timeout){}",
                launch.timeout,
                device.last_words()
            )));
        }
    };
    let Some(mut probe) = probe else {
        let by = format!("file: {} is there", launch.file.as_deref().unwrap_or_default());
        return Ok(Readiness { after, by, unasked: 0 });
    };
    probe.settle()?;
    Ok(Readiness { after, by: probe.found(), unasked: probe.seen().unasked })
}
