//! Systems, and the catalogue of all systems of a program.
//!
//! A [`System`] is a value: its packet formats, and the workers, servers, programs and queues that it provides. A
//! [`Catalogue`] is made of a list of them and passed to code that selects one by name: nothing here names a system.

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

/// A system for aggregation in networks, or the common part of all.
pub struct System {
    /// Name.
    pub name: &'static str,
    /// Its wire formats.
    pub formats: Formats,
    /// Planners of control planes for its devices.
    pub planners: &'static [&'static dyn Planner],
    /// Its workers, with their servers.
    pub workers: &'static [&'static dyn WorkerKind],
    /// Programs of its devices.
    pub programs: &'static [&'static dyn ProgramKind],
    /// Queue disciplines of its devices.
    pub queues: &'static [&'static dyn Discipline],
    /// Translations of its frames for foreign devices.
    pub dialects: &'static [&'static DialectKind],
    /// Conformance clauses for devices under test.
    pub suites: &'static [&'static ClauseSuite],
}

impl System {
    /// A system without content.
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

/// Lists names for messages: `"a", "b" or "c"`.
fn quoted(names: impl Iterator<Item = &'static str>) -> String {
    let mut names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

/// Defaults of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// Default workers.
    pub workers: &'static str,
    /// Default program of devices, if neither the experiment nor its workers state one.
    pub program: &'static str,
}

/// The components of all systems by kind; each list in the order of the systems.
pub struct Catalogue {
    /// Packet formats, and planners of control planes.
    pub protocols: Protocols,
    /// Workers.
    pub workers: &'static [&'static dyn WorkerKind],
    /// Programs.
    pub programs: &'static [&'static dyn ProgramKind],
    /// Queues.
    pub queues: &'static [&'static dyn Discipline],
    /// Translations of frames for foreign devices.
    pub dialects: &'static [&'static DialectKind],
    /// Conformance clauses for devices under test.
    pub suites: &'static [&'static ClauseSuite],
    /// Defaults of an experiment.
    pub defaults: Defaults,
}

/// An empty catalogue, for transports that carry any frames.
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
    /// Makes the catalogue of these systems. Called once: its lists are kept for the lifetime of the process.
    ///
    /// # Panics
    /// If there are more formats than [`FORMATS_MAX`].
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

    /// Returns the wire format of this name; `place` is the position of the name, for errors.
    pub fn format(&self, name: &str, place: &str) -> Result<&'static dyn Format> {
        find(self.protocols.formats, "wire format", name, place)
    }

    /// Returns the names of the workers with this behaviour, quoted, for messages.
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
