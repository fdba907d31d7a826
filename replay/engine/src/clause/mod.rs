//! Clauses of conformance: what a device that aggregates must do, each with the frames that show whether it does (docs/certify.md).
//!
//! A system lists its clauses as a [`ClauseSuite`]. A clause sends frames through a [`ClauseProbe`] to whatever stands on the other side of a
//! [`ProbeBench`], and compares what comes out with its oracle. Nothing here does I/O: a bench may be a program in virtual time or wires.

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

/// Addresses behind those of the workers that benches give to strangers as they give workers theirs.
pub const STRANGERS: u32 = 32;
/// Bytes by which a frame of a clause may be longer than the largest of the experiment.
pub const LONGER: usize = 64;

/// A clause.
#[derive(Debug)]
pub struct Clause {
    /// What it is known by, for good.
    pub id: &'static str,
    /// What must hold, in a few words.
    pub title: &'static str,
    /// What must hold, as a sentence, with its source.
    pub rule: &'static str,
    /// When it applies, in words; empty if always.
    pub precondition: &'static str,
    /// Why it does not apply to this device; none if it does.
    pub exempt: fn(&ProbeGround) -> Option<String>,
    /// What is sent.
    pub stimulus: &'static str,
    /// Where and how long frames are awaited.
    pub observation: &'static str,
    /// What the observation is compared with.
    pub oracle: &'static str,
    /// How often it is tried, with other content each time.
    pub repeats: u32,
    /// How likely a wrong verdict is, and on which assumption.
    pub error: &'static str,
    /// Carries it out once; of a performance clause, nothing.
    pub probe: fn(&mut ClauseProbe) -> ProbeResult<()>,
    /// What is measured, by the suite's load; none of a clause of correctness.
    pub measure: Option<LoadMeasure>,
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
    /// The dialect in which its frames are written; none where our layout is what devices expect anyway.
    pub layout: Option<&'static str>,
    /// The version of the clauses: it changes when a verdict may.
    pub version: u32,
    /// Terms that its clauses use, with their meanings.
    pub terms: &'static [(&'static str, &'static str)],
    /// Its clauses, by subject.
    pub groups: &'static [ClauseGroup],
    /// What a reader must know before the first clause, of this device and what is around it; none if nothing.
    pub before: fn(&ProbeGround) -> Option<String>,
    /// How devices are loaded for its performance clauses; none if it has none.
    pub load: Option<&'static LoadModel>,
}

impl ClauseSuite {
    /// All clauses with their numbers, as "2.3".
    pub fn numbered(&self) -> impl Iterator<Item = (String, &'static Clause)> {
        let groups: &'static [ClauseGroup] = self.groups;
        groups.iter().enumerate().flat_map(|(group, own)| {
            own.clauses.iter().enumerate().map(move |(clause, it)| (format!("{}.{}", group + 1, clause + 1), it))
        })
    }
}

/// Why a probe ended before its end.
#[derive(Debug)]
pub enum ProbeStop {
    /// The device did something else than its oracle.
    Breach(ClauseBreach),
    /// What happened does not say whether the clause holds, and why.
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
    /// The same, where what the device did is right if the experiment says this, as `key = value`.
    pub fn fits(self, setting: &str) -> Self {
        match self {
            ProbeStop::Breach(breach) => ProbeStop::Breach(ClauseBreach { fits: setting.to_owned(), ..breach }),
            other => other,
        }
    }
}

/// What a probe returns.
pub type ProbeResult<T> = std::result::Result<T, ProbeStop>;

/// What a device did that it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClauseBreach {
    /// What was looked at: a field, a frame.
    pub what: String,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub observed: String,
    /// What the experiment would have to say for it to be right, as `key = value`; empty if nothing.
    pub fits: String,
}

impl ClauseBreach {
    /// As the end of a probe.
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
    /// When.
    pub t: Time,
    /// The device's port.
    pub port: u16,
    /// Whether it went into the device.
    pub inward: bool,
    /// The frame from its Ethernet header on.
    pub bytes: Vec<u8>,
}

/// Called with the time, the port and the bytes of each frame that left.
pub type EachFrame<'a> = &'a mut dyn FnMut(Time, u16, &[u8]);

/// What a bench knows of a device beside the frames that a clause sees.
pub trait ProbeWitness {
    /// What the device counted since it was started, by its own names; none if that is not known.
    fn counted(&mut self) -> Option<BTreeMap<String, u64>> {
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
    /// The time, which the calls below let pass.
    fn now(&mut self) -> Time;

    /// The last bit of a frame arrives at a port, now.
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()>;

    /// Lets so much time pass.
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()>;

    /// Lets time pass until this instant, or until something has left before.
    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        let span = (until - self.now()).max(0);
        self.pass(span, each)
    }

    /// Lets time pass until nothing more comes of what went in.
    fn settle(&mut self, each: EachFrame) -> Result<()>;

    /// Puts a device that was just started in the place of this one, before the repeat of a clause that has this number; false if it does not.
    fn restart(&mut self, repeat: u32) -> Result<bool>;

    /// Why there is no device any more, if it ended.
    fn ended(&mut self) -> Option<String> {
        None
    }

    /// Frames that the bench itself lost so far.
    fn lost(&mut self) -> Result<u64>;
}
