//! Failures of a switch in experiments on failover (LIBRA §3.6, "Failover mechanism": "high packet loss rates, high
//! on-chip memory usage"; the response delay).

use pktgen_core::config::{Section, settings, spans};
use pktgen_core::seed::{Draws, Seed};
use pktgen_core::time::{NEVER, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use pktgen_engine::target::program::Place;

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Failure {
    /// Nothing.
    None,
    /// The switch is dead.
    Crash,
    /// It loses this share of arriving packets.
    Loss(f64),
    /// This much of its memory is in use, in millionths.
    Memory(u32),
    /// Everything takes this much longer.
    Slow(Time),
}

/// The failures of one switch with their times, one after another.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    failures: Vec<(Time, Failure)>,
    draws: Draws,
}

/// The kind of failure in settings.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Not,
    Crash,
    Loss,
    Memory,
    Slow,
}

settings! {
    /// What it reads from `[target]`.
    pub(super) struct Fails {
        /// Index of the failing switch, among those that can sum.
        fails_device: u32 = 0;
        /// Loss of a switch that fails by `loss`.
        fails_loss: f64 = 0.05 in 0.0..=1.0;
        /// Share of memory in use of a switch that fails by `memory`.
        fails_memory: f64 = 0.95 in 0.0..=1.0;
        /// Additional delay of a switch that fails by `slow`.
        fails_delay: Span = "1ms" in spans(0..=SECOND);
        /// Type of the first failure.
        fails: How = "none" of [
            ("none", How::Not, ""), ("crash", How::Crash, "neither receives nor sends"), ("loss", How::Loss, ""), ("memory", How::Memory, ""),
            ("slow", How::Slow, "")
        ];
        /// Type of the second failure.
        fails_then: How = "none" of [
            ("none", How::Not, ""), ("crash", How::Crash, "neither receives nor sends"), ("loss", How::Loss, ""), ("memory", How::Memory, ""),
            ("slow", How::Slow, "")
        ];
        /// Time of the first failure.
        fails_at: Span = "1ms";
        /// Time of the second failure.
        fails_then_at: Span = "2ms";
    }
}

impl Fails {
    fn failure(&self, how: How) -> Failure {
        match how {
            How::Not => Failure::None,
            How::Crash => Failure::Crash,
            How::Loss => Failure::Loss(self.fails_loss),
            How::Memory => Failure::Memory((self.fails_memory * 1e6) as u32),
            How::Slow => Failure::Slow(self.fails_delay.ps()),
        }
    }
}

impl Failing {
    /// Reads the failures of the device at `place`, in a run with this seed.
    pub(super) fn read(section: &mut Section, place: &Place, seed: Seed) -> Result<Self> {
        let fails = Fails::read(section)?;
        let device = fails.fails_device;
        let mut failures = Self::failures(section, &fails)?;
        let several = place.aggregators.len();
        if !failures.is_empty() && several < 2 {
            return Err(Error::config(format!(
                "{}: a switch that fails needs one that takes over; give topology.standby 1 or more, or \"none\"",
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
        if place.aggregators.get(device as usize) != Some(&place.node) {
            failures.clear();
        }
        Ok(Failing { failures, draws: seed.draws("libra_fails") })
    }

    /// Returns one failure, or two with the second one replacing the first.
    fn failures(section: &Section, fails: &Fails) -> Result<Vec<(Time, Failure)>> {
        let (first, second) = (fails.failure(fails.fails), fails.failure(fails.fails_then));
        let (at, then) = (fails.fails_at, fails.fails_then_at);
        if second != Failure::None && matches!(first, Failure::None | Failure::Crash) {
            return Err(Error::config(format!(
                "{}: what fails a second time has failed before, and was not gone; give target.fails \"loss\", \"memory\" or \"slow\"",
                section.place("fails_then")
            )));
        }
        if second != Failure::None && then.ps() <= at.ps() {
            return Err(Error::config(format!(
                "{}: {then} is not after target.fails_at, {at}",
                section.place("fails_then_at")
            )));
        }
        let all = [(at.ps(), first), (then.ps(), second)];
        Ok(all.into_iter().filter(|(_, failure)| *failure != Failure::None).collect())
    }

    fn by(&self, t: Time) -> Failure {
        self.failures.iter().rfind(|(at, _)| t >= *at).map_or(Failure::None, |(_, failure)| *failure)
    }

    /// Returns when the first failure begins; [`NEVER`] without failures.
    pub(super) fn begins(&self) -> Time {
        self.failures.first().map_or(NEVER, |(at, _)| *at)
    }

    /// Whether it is dead at `t`.
    #[inline]
    pub(super) fn is_gone(&self, t: Time) -> bool {
        self.by(t) == Failure::Crash
    }

    /// Whether it loses packet number `number`, which arrives at `t`.
    #[inline]
    pub(super) fn loses(&self, t: Time, number: u64) -> bool {
        match self.by(t) {
            Failure::Loss(share) => self.draws.unit(number as u32, (number >> 32) as u32, 0) < share,
            _ => false,
        }
    }

    /// Returns the additional delay at `t`.
    #[inline]
    pub(super) fn delay(&self, t: Time) -> Time {
        if let Failure::Slow(delay) = self.by(t) { delay } else { 0 }
    }

    /// Returns the share of its memory in use at `t`, if `usual` is in use without failure.
    pub(super) fn memory_ppm(&self, t: Time, usual: u32) -> u32 {
        if let Failure::Memory(ppm) = self.by(t) { usual.max(ppm) } else { usual }
    }
}
