//! Systems, and the list of all that a program knows.
//!
//! A [`System`] is a value: what its packets are, and what workers, servers, programs and queues it brings. A [`Catalogue`] is
//! made of a list of them and passed to code that chooses one by its name: nothing here names a system.

use pktgen_core::Result;
use pktgen_core::registry::find;
use pktgen_wire::device::Protocols;
use pktgen_wire::device::plan::Planner;
use pktgen_wire::wire::{FORMATS_MAX, Format, Formats};

use crate::clause::ClauseSuite;
use crate::dialect::DialectKind;
use crate::endpoint::{Behaviour, WorkerKind};
use crate::target::program::ProgramKind;
use crate::target::queue::Discipline;

/// A system for aggregation in networks, or what all of them share.
pub struct System {
    /// Name.
    pub name: &'static str,
    /// Its wire formats.
    pub formats: Formats,
    /// Plans of control planes for its devices.
    pub planners: &'static [&'static dyn Planner],
    /// Its workers, with the servers that they send to.
    pub workers: &'static [&'static dyn WorkerKind],
    /// What its devices do to packets.
    pub programs: &'static [&'static dyn ProgramKind],
    /// How its devices queue them.
    pub queues: &'static [&'static dyn Discipline],
    /// How its frames are written for devices of others.
    pub dialects: &'static [&'static DialectKind],
    /// What devices under test must do.
    pub suites: &'static [&'static ClauseSuite],
}

impl System {
    /// One that brings nothing.
    pub const fn new(name: &'static str) -> Self {
        System {
            name,
            formats: &[],
            planners: &[],
            workers: &[],
            programs: &[],
            queues: &[],
            dialects: &[],
            suites: &[],
        }
    }
}

/// Names as messages offer them: `"a", "b" or "c"`.
fn quoted(names: impl Iterator<Item = &'static str>) -> String {
    let mut names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

/// What an experiment that does not choose is given.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// Workers.
    pub workers: &'static str,
    /// The program of devices, where neither the experiment nor its workers say.
    pub program: &'static str,
}

/// Every system that there is, by what they bring; each list in the order of the systems.
pub struct Catalogue {
    /// Their packets, and plans of control planes.
    pub protocols: Protocols,
    /// Workers.
    pub workers: &'static [&'static dyn WorkerKind],
    /// Programs.
    pub programs: &'static [&'static dyn ProgramKind],
    /// Queues.
    pub queues: &'static [&'static dyn Discipline],
    /// How frames are written for devices of others.
    pub dialects: &'static [&'static DialectKind],
    /// What devices under test must do.
    pub suites: &'static [&'static ClauseSuite],
    /// What an experiment that does not choose is given.
    pub defaults: Defaults,
}

/// Where nothing is known: transports that carry any frames.
pub static NOTHING: Catalogue = Catalogue {
    protocols: Protocols { formats: &[], planners: &[] },
    workers: &[],
    programs: &[],
    queues: &[],
    dialects: &[],
    suites: &[],
    defaults: Defaults { workers: "", program: "" },
};

impl Catalogue {
    /// Of these systems. It is made once: its lists are kept as long as the process lives.
    ///
    /// # Panics
    /// If there are more formats than captures are counted by.
    pub fn of(systems: &[&'static System], defaults: Defaults) -> Self {
        fn all<T: Copy>(systems: &[&'static System], list: fn(&System) -> &'static [T]) -> &'static [T] {
            systems.iter().flat_map(|system| list(system)).copied().collect::<Vec<_>>().leak()
        }
        let formats = all(systems, |system| system.formats);
        assert!(formats.len() <= FORMATS_MAX, "more than {FORMATS_MAX} formats");
        Catalogue {
            protocols: Protocols { formats, planners: all(systems, |system| system.planners) },
            workers: all(systems, |system| system.workers),
            programs: all(systems, |system| system.programs),
            queues: all(systems, |system| system.queues),
            dialects: all(systems, |system| system.dialects),
            suites: all(systems, |system| system.suites),
            defaults,
        }
    }

    /// Returns the wire format of this name; `place` says where it is asked for.
    pub fn format(&self, name: &str, place: &str) -> Result<&'static dyn Format> {
        find(self.protocols.formats, "wire format", name, place)
    }

    /// Returns the names of the workers with such a behaviour, quoted, for messages.
    pub fn names_of_workers(&self, with: impl Fn(Behaviour) -> bool) -> String {
        quoted(self.workers.iter().filter(|kind| with(kind.behaviour())).map(|kind| kind.name()))
    }
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let formats: Vec<_> = self.protocols.formats.iter().map(|format| format.name()).collect();
        out.debug_struct("Catalogue").field("formats", &formats).finish_non_exhaustive()
    }
}
