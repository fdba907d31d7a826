//! How a switch fails, where an experiment wants to study it (LIBRA §3.6, "Failover mechanism": "high packet loss rates,
//! high on-chip memory usage"; the response delay).

use pktgen_generator::config::Section;
use pktgen_generator::seed::{Draws, Seed};
use pktgen_generator::time::{NEVER, SECOND, Time};
use pktgen_generator::units::Span;
use pktgen_generator::{Error, Result};

use crate::target::program::Place;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Failure {
    /// Nothing.
    None,
    /// It is gone.
    Crash,
    /// It loses this share of the packets that come.
    Loss(f64),
    /// So much of its memory is in use, in millionths.
    Memory(u32),
    /// Everything takes so much longer.
    Slow(Time),
}

/// What goes wrong with one switch, and when.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    failure: Failure,
    at: Time,
    draws: Draws,
}

fn share(section: &mut Section, key: &str, default: f64) -> Result<f64> {
    let value: f64 = section.get(key, default)?;
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::config(format!("{}: {value} is not a share from 0 to 1", section.place(key))))
}

impl Failing {
    /// Reads it for the device at `place`.
    pub(super) fn read(section: &mut Section, place: &Place) -> Result<Self> {
        let kind: String = section.get("fails", "none")?;
        let at: Span = section.get("fails_at", "1ms")?;
        let device: u32 = section.get("fails_device", 0u32)?;
        let loss = share(section, "fails_loss", 0.05)?;
        let memory = share(section, "fails_memory", 0.95)?;
        let delay: Span = section.get("fails_delay", "1ms")?;
        if !(0..=SECOND).contains(&delay.ps()) {
            return Err(Error::config(format!("{}: {delay} is not 0s to 1s", section.place("fails_delay"))));
        }
        let failure = match kind.as_str() {
            "none" => Failure::None,
            "crash" => Failure::Crash,
            "loss" => Failure::Loss(loss),
            "memory" => Failure::Memory((memory * 1e6) as u32),
            "slow" => Failure::Slow(delay.ps()),
            other => {
                return Err(Error::config(format!(
                    "{}: \"{other}\" is none of \"none\", \"crash\", \"loss\", \"memory\", \"slow\"",
                    section.place("fails")
                )));
            }
        };
        let several = place.aggregators.len();
        if failure != Failure::None && several < 2 {
            return Err(Error::config(format!(
                "{}: \"{kind}\" needs a switch that takes over; give topology.standby 1 or more, or \"none\"",
                section.place("fails")
            )));
        }
        if device as usize >= several.max(1) {
            return Err(Error::config(format!(
                "{}: {device}; the switches that can sum are 0 to {}",
                section.place("fails_device"),
                several.max(1) - 1
            )));
        }
        let own = place.aggregators.get(device as usize) == Some(&place.node);
        Ok(Failing {
            failure: if own { failure } else { Failure::None },
            at: at.ps(),
            // A device knows no seed; what it loses depends on what the run's seed sends.
            draws: Seed(place.node.into()).draws("libra_fails"),
        })
    }

    fn by(&self, t: Time) -> Failure {
        if t >= self.at { self.failure } else { Failure::None }
    }

    /// When something goes wrong; [`NEVER`] if nothing does.
    pub(super) fn begins(&self) -> Time {
        if self.failure == Failure::None { NEVER } else { self.at }
    }

    /// Is it gone at `t`?
    #[inline]
    pub(super) fn is_gone(&self, t: Time) -> bool {
        self.by(t) == Failure::Crash
    }

    /// Does it lose packet number `number`, which comes at `t`?
    #[inline]
    pub(super) fn loses(&self, t: Time, number: u64) -> bool {
        match self.by(t) {
            Failure::Loss(share) => self.draws.unit(number as u32, (number >> 32) as u32, 0) < share,
            _ => false,
        }
    }

    /// How much longer everything takes at `t`.
    #[inline]
    pub(super) fn delay(&self, t: Time) -> Time {
        if let Failure::Slow(delay) = self.by(t) { delay } else { 0 }
    }

    /// The share of its memory that is in use at `t`, where `usual` is in use before.
    pub(super) fn memory_ppm(&self, t: Time, usual: u32) -> u32 {
        if let Failure::Memory(ppm) = self.by(t) { usual.max(ppm) } else { usual }
    }
}
