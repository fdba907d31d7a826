//! Conformance clauses: what an aggregating device must do, each with the frames that test it (docs/certify.md).
//!
//! A system lists its clauses as a [`ClauseSuite`]. A clause sends frames through a [`ClauseProbe`] to the device on a [`ProbeBench`], and
//! compares the output with its oracle. Nothing here does I/O: a bench may be a program in virtual time or wires.

pub mod checks;
mod ground;
mod load;
mod probe;

pub use ground::ProbeGround;
pub use load::{LatencySample, LoadAccount, LoadMeasure, LoadModel, LoadPhase, LoadWorkers, OfferedLoad};
pub use probe::{ClauseProbe, ProbeMemory};

use std::collections::BTreeMap;

use pktgen_core::time::Time;
use pktgen_core::{Error, Result};

/// Number of addresses after those of the workers that benches assign to hosts outside the experiment.
pub const STRANGERS: u32 = 32;
/// Maximum excess length of a clause's frame over the largest of the experiment, in bytes.
pub const LONGER: usize = 64;

/// A clause.
#[derive(Debug)]
pub struct Clause {
    /// Permanent id.
    pub id: &'static str,
    /// The requirement in a few words.
    pub title: &'static str,
    /// The requirement as a sentence, with its source.
    pub rule: &'static str,
    /// Condition under which it applies, in words; empty if always.
    pub precondition: &'static str,
    /// Returns why it does not apply to this device; `None` if it applies.
    pub exempt: fn(&ProbeGround) -> Option<String>,
    /// Frames that are sent.
    pub stimulus: &'static str,
    /// Where frames are observed, and for how long.
    pub observation: &'static str,
    /// Reference for the observation.
    pub oracle: &'static str,
    /// Number of repeats, with different content each time.
    pub repeats: u32,
    /// Probability of a wrong verdict, with its assumption.
    pub error: &'static str,
    /// Carries it out once; does nothing for a performance clause.
    pub probe: fn(&mut ClauseProbe) -> ProbeResult<()>,
    /// Quantity to be measured with the suite's load; none for a clause of correctness.
    pub measure: Option<LoadMeasure>,
}

impl Clause {
    /// Common parts of most clauses.
    pub const BASE: Clause = Clause {
        id: "",
        title: "",
        rule: "",
        precondition: "",
        exempt: |_| None,
        stimulus: "",
        observation: "all ports, until the device is silent",
        oracle: "",
        repeats: 5,
        error: "a device that is a function of its frames is judged without error",
        probe: |_| Ok(()),
        measure: None,
    };
}

/// Part of a suite: clauses on one subject.
#[derive(Debug)]
pub struct ClauseGroup {
    /// Its subject.
    pub title: &'static str,
    /// Its clauses, in order.
    pub clauses: &'static [Clause],
}

/// The clauses of a system.
#[derive(Debug)]
pub struct ClauseSuite {
    /// The system.
    pub name: &'static str,
    /// The wire format that devices under test use.
    pub format: &'static str,
    /// The programs (`target.program`) whose devices it is about; empty if no program of its format has other rules.
    pub programs: &'static [&'static str],
    /// The dialect in which its frames are written; none if devices expect our layout.
    pub layout: Option<&'static str>,
    /// The version of the clauses: it changes when a verdict may change.
    pub version: u32,
    /// Terms that its clauses use, with their meanings.
    pub terms: &'static [(&'static str, &'static str)],
    /// Its clauses, by subject.
    pub groups: &'static [ClauseGroup],
    /// Returns a remark on this device and its surroundings to be shown before the first clause, if any.
    pub before: fn(&ProbeGround) -> Option<String>,
    /// Returns why clauses would fail a right device with these settings, and the remedy, if they would.
    pub refuses: fn(&ProbeGround) -> Option<String>,
    /// The load for its performance clauses; none if it has none.
    pub load: Option<&'static LoadModel>,
}

impl ClauseSuite {
    /// Returns all clauses with their numbers, such as "2.3".
    pub fn numbered(&self) -> impl Iterator<Item = (String, &'static Clause)> {
        let groups: &'static [ClauseGroup] = self.groups;
        groups.iter().enumerate().flat_map(|(group, own)| {
            own.clauses.iter().enumerate().map(move |(clause, it)| (format!("{}.{}", group + 1, clause + 1), it))
        })
    }
}

/// Reasons for the early end of a probe.
#[derive(Debug)]
pub enum ProbeStop {
    /// The device deviated from the oracle.
    Breach(ClauseBreach),
    /// The observation does not decide whether the clause holds, with the reason.
    Undecidable(String),
    /// The bench failed.
    Bench(Error),
}

impl From<Error> for ProbeStop {
    fn from(error: Error) -> Self {
        ProbeStop::Bench(error)
    }
}

impl ProbeStop {
    /// Adds the setting, as `key = value`, under which the device's behaviour would be correct.
    pub fn fits(self, setting: &str) -> Self {
        match self {
            ProbeStop::Breach(breach) => ProbeStop::Breach(ClauseBreach { fits: setting.to_owned(), ..breach }),
            other => other,
        }
    }
}

/// Result of a probe.
pub type ProbeResult<T> = std::result::Result<T, ProbeStop>;

/// A violation by a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClauseBreach {
    /// The object of the check: a field, a frame.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The observed value.
    pub observed: String,
    /// The setting, as `key = value`, under which it would be correct; empty if there is none.
    pub fits: String,
}

impl ClauseBreach {
    /// Makes a breach that ends a probe.
    pub fn stop(what: impl Into<String>, expected: impl ToString, observed: impl ToString) -> ProbeStop {
        ProbeStop::Breach(ClauseBreach {
            what: what.into(),
            expected: expected.to_string(),
            observed: observed.to_string(),
            fits: String::new(),
        })
    }
}

impl std::fmt::Display for ClauseBreach {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fits = if self.fits.is_empty() { String::new() } else { format!("; fits {}", self.fits) };
        write!(out, "{}: expected {}, observed {}{fits}", self.what, self.expected, self.observed)
    }
}

/// A frame on the cable of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFrame {
    /// Time.
    pub t: Time,
    /// The device's port.
    pub port: u16,
    /// Whether it entered the device.
    pub inward: bool,
    /// The frame from its Ethernet header on.
    pub bytes: Vec<u8>,
}

/// Called with the time, the port and the bytes of each frame that left.
pub type EachFrame<'a> = &'a mut dyn FnMut(Time, u16, &[u8]);

/// Knowledge of a bench about a device, and about its end, beyond the frames that a clause sees.
pub trait ProbeWitness {
    /// Returns the device's own counters since its start; `None` if they are unknown.
    fn counted(&mut self) -> Option<BTreeMap<String, u64>> {
        None
    }

    /// Returns why there is no device any more, if it ended.
    fn ended(&mut self) -> Option<String> {
        None
    }

    /// Ends the device after a repeat, if it is replaced before the next one; returns what was wrong with its end.
    fn quit(&mut self) -> Option<String> {
        None
    }

    /// What a device did wrong, with addresses as they are on its cables.
    fn on_cables(&self, breach: ClauseBreach) -> ClauseBreach {
        breach
    }

    /// A frame as it was on the cable, if it was another there.
    fn on_cable(&self, _frame: &ProbeFrame) -> Option<Vec<u8>> {
        None
    }
}

/// A device under test, and the cables of its ports.
pub trait ProbeBench: ProbeWitness {
    /// Returns the time; the calls below advance it.
    fn now(&mut self) -> Time;

    /// Returns the time at which the next frame in arrives at the device.
    fn arrival(&mut self) -> Time {
        self.now()
    }

    /// Delivers a frame to a port: its last bit arrives at [`arrival`](Self::arrival).
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()>;

    /// Advances time by `span`.
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()>;

    /// Advances time to `until`, or to the first frame that leaves before.
    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        let span = (until - self.now()).max(0);
        self.pass(span, each)
    }

    /// Advances time until the frames that went in have no further effect.
    fn settle(&mut self, each: EachFrame) -> Result<()>;

    /// Replaces the device by a freshly started one, before this repeat of a clause; returns false if it cannot.
    fn restart(&mut self, _repeat: u32) -> Result<bool> {
        Ok(false)
    }

    /// Returns the number of frames that the bench itself has lost.
    fn lost(&mut self) -> Result<u64> {
        Ok(0)
    }
}
