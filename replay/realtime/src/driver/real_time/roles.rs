//! The roles of a process in a run, and the cores of its threads.

use std::path::Path;

use pktgen_core::record::Note;
use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};

use super::cores::{choose, near, remarks};
use super::thread;
use crate::transport::{End, TransportPlan, Wait};

/// Sending and receiving threads of a whole run.
pub const THREADS: usize = 3;

/// The roles of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// The workers.
    pub workers: bool,
    /// The software device.
    pub device: bool,
    /// The parameter server.
    pub server: bool,
    /// Whether the device is hardware and the process has all other roles: it is then not a part of a run.
    pub beside_hardware: bool,
}

impl Roles {
    /// A whole run.
    pub const ALL: Roles = Roles { workers: true, device: true, server: true, beside_hardware: false };
    /// The workers alone.
    pub const WORKERS: Roles = Roles { workers: true, device: false, server: false, beside_hardware: false };
    /// The device alone.
    pub const DEVICE: Roles = Roles { workers: false, device: true, server: false, beside_hardware: false };
    /// The server alone.
    pub const SERVER: Roles = Roles { workers: false, device: false, server: true, beside_hardware: false };

    /// Returns the name of a part of a run, in manifests; `None` for a whole run.
    pub fn part(self) -> Option<&'static str> {
        match self {
            Roles { beside_hardware: true, .. } => None,
            Roles::WORKERS => Some("workers"),
            Roles::DEVICE => Some("device"),
            Roles::SERVER => Some("server"),
            _ => None,
        }
    }

    /// Returns the part of a run with this name: workers, device or server.
    pub fn named(name: &str) -> Option<Roles> {
        [Roles::WORKERS, Roles::DEVICE, Roles::SERVER].into_iter().find(|roles| roles.part() == Some(name))
    }

    /// Adapts these roles to a run that may lack a server, so that results return to the workers, or whose device is hardware.
    pub fn of_run(self, has_server: bool, external: bool) -> Result<Roles> {
        let mut roles = Roles { server: self.server && has_server, ..self };
        if !(roles.workers || roles.device || has_server) {
            return Err(Error::config(
                "there is no server in this run: results go back to the workers; its parts are workers and device",
            ));
        }
        if external {
            let beside_hardware = roles.workers && (roles.server || !has_server) && roles.device;
            roles = Roles { device: false, beside_hardware, ..roles };
            if !(roles.workers || roles.server) {
                return Err(Error::config(
                    "target.kind = \"external\": the device is hardware, and pktgen target is a software device; to let it stand in: \
                     --set target.kind=software",
                ));
            }
        }
        Ok(roles)
    }

    /// Returns the ends of cables that they hold, in order. Without a server there is one cable.
    pub(crate) fn ends(self, has_server: bool) -> Vec<End> {
        let holds = |end: &End| self.holds(*end) && (has_server || *end != End::DeviceUp);
        End::ALL.into_iter().filter(holds).collect()
    }

    /// Returns whether they hold this end of a cable.
    pub fn holds(self, end: End) -> bool {
        match end {
            End::Workers => self.workers,
            End::DeviceDown | End::DeviceUp => self.device,
            End::Server => self.server,
        }
    }

    /// Returns the ends of the sending and receiving threads, one thread per queue, in the order of `transport.cores`.
    /// `lanes` is the number of queues for which the workers have a thread.
    pub(super) fn threads(self, lanes: usize, queues: usize) -> Vec<End> {
        let roles = [
            (self.workers, End::Workers, lanes),
            (self.device, End::DeviceDown, queues),
            (self.server, End::Server, queues),
        ];
        roles.into_iter().filter(|(has, ..)| *has).flat_map(|(_, end, count)| std::iter::repeat_n(end, count)).collect()
    }
}

/// Conditions for the end of a process without workers, besides a stop by the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Serve {
    /// Maximum time without a frame, after the first one.
    pub idle: Option<Time>,
    /// Maximum time until the first frame.
    pub first: Option<Time>,
    /// Maximum total time.
    pub most: Option<Time>,
}

/// Minimum wait for the first frame of a process with an idle time: others have to be started.
pub(crate) const FIRST_WAIT: Time = 60 * SECOND;

impl Serve {
    /// Ends after `idle` without a frame; before the first one, after [`FIRST_WAIT`] or `idle`, whichever is longer.
    pub fn until_idle(idle: Option<Time>, most: Option<Time>) -> Self {
        Serve { idle, first: idle.map(|idle| idle.max(FIRST_WAIT)), most }
    }
}

/// Refuses the cores `asked` of `transport.cores` for this number of threads of a process that may run on the cores `all`.
pub fn check_cores(asked: &[usize], threads: usize, all: &[usize]) -> Result<()> {
    if let Some(absent) = asked.iter().find(|core| !all.contains(core)) {
        return Err(Error::Host(format!(
            "transport.cores: this process may not run on core {absent}; it may on {all:?}"
        )));
    }
    if asked.is_empty() || asked.len() == threads {
        return Ok(());
    }
    Err(Error::config(format!(
        "transport.cores has {} entries; this process has {threads} threads that send and receive, of each role one for each \
         queue",
        asked.len()
    )))
}

/// Cores of the roles' threads, in order, and the remaining ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    roles: Vec<Option<usize>>,
    others: Vec<usize>,
    all: Vec<usize>,
    /// Notes for readers.
    notes: Vec<Note>,
}

impl Placement {
    /// Follows `transport.cores`; spinning threads always get a core each, and so do those of several queues, near their card.
    pub(super) fn new(plan: &TransportPlan, threads: &[End]) -> Result<Self> {
        let all = thread::cores().map_err(|e| Error::Host(format!("cannot read the cores of this host: {e}")))?;
        let interface = |end: &End| plan.interfaces.get(*end as usize).map_or("", String::as_str);
        let cards = threads.iter().map(|end| (interface(end), near(Path::new("/"), interface(end))));
        let cards: Vec<_> = cards.collect();
        let mut placement = match (&plan.cores[..], plan.queues) {
            ([], 2..) => {
                let cores = choose(&cards.iter().map(|(_, near)| near.clone()).collect::<Vec<_>>(), &all);
                let cores: Vec<_> = cores.into_iter().flatten().collect();
                Self::of(plan.wait, &cores, threads.len(), all)?
            }
            (asked, _) => Self::of(plan.wait, asked, threads.len(), all)?,
        };
        placement.notes = remarks(&cards, &placement.roles, placement.all.len());
        // Runs of one queue always share the available cores.
        if plan.queues == 1 && plan.cores.is_empty() {
            placement.notes.clear();
        }
        Ok(placement)
    }

    /// Returns the notes for readers.
    pub(super) fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn of(wait: Wait, asked: &[usize], threads: usize, all: Vec<usize>) -> Result<Self> {
        if wait == Wait::Spin && threads > all.len() {
            return Err(Error::Host(format!(
                "transport.wait = \"spin\" needs a core for each of {threads} threads, and there are {}; use wait = \"block\"",
                all.len()
            )));
        }
        check_cores(asked, threads, &all)?;
        let roles: Vec<Option<usize>> = match (asked, wait) {
            ([], Wait::Block) => vec![None; threads],
            // From the last on: the first also does the host's own work.
            ([], Wait::Spin) => all.iter().rev().copied().map(Some).take(threads).collect(),
            (cores, _) => cores.iter().copied().map(Some).collect(),
        };
        let others: Vec<_> = all.iter().copied().filter(|core| !roles.contains(&Some(*core))).collect();
        let others = if others.is_empty() { all.clone() } else { others };
        Ok(Placement { roles, others, all, notes: Vec::new() })
    }

    /// Returns whether there are cores for `threads` threads beside the roles'.
    pub(super) fn leaves(&self, threads: usize) -> bool {
        self.all.len() >= self.roles.len() + threads
    }

    /// Moves this thread, and those that it starts, off the roles' cores until the guard is dropped.
    pub(super) fn step_aside(&self) -> Result<Aside> {
        thread::run_on(&self.others).map_err(|e| Error::Host(format!("cannot run on cores {:?}: {e}", self.others)))?;
        Ok(Aside(self.all.clone()))
    }

    /// Moves this thread to the core of the role with this number among those of the process.
    pub(super) fn settle(&self, role: usize) -> Result<()> {
        match self.roles.get(role).copied().flatten() {
            Some(core) => thread::run_on(&[core]).map_err(|e| Error::Host(format!("cannot run on core {core}: {e}"))),
            None => Ok(()),
        }
    }

    /// Returns a description for the manifest.
    pub(super) fn describe(&self) -> String {
        let core = |core: &Option<usize>| core.map_or("any".to_owned(), |core| core.to_string());
        let roles: Vec<_> = self.roles.iter().map(core).collect();
        format!("roles on {}, others on {:?}", roles.join(", "), self.others)
    }
}

/// Restores the thread's cores on drop.
pub(super) struct Aside(Vec<usize>);

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = thread::run_on(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_hardware_a_process_has_the_other_roles_and_is_no_part() {
        let whole = Roles::ALL.of_run(true, true).unwrap();
        assert_eq!(
            (whole.part(), whole.threads(1, 1).len(), whole.ends(true)),
            (None, 2, vec![End::Workers, End::Server])
        );
        let workers = Roles::ALL.of_run(false, true).unwrap();
        assert_eq!((workers.part(), workers.ends(false)), (None, vec![End::Workers]));
        assert_eq!(Roles::WORKERS.of_run(true, true).unwrap().part(), Some("workers"));
        assert_eq!(Roles::SERVER.of_run(true, true).unwrap().part(), Some("server"));
        assert!(Roles::DEVICE.of_run(true, true).unwrap_err().to_string().contains("target.kind=software"));
        assert!(Roles::SERVER.of_run(false, false).unwrap_err().to_string().contains("no server"));
        assert!(Roles::SERVER.of_run(false, true).is_err());
    }

    #[test]
    fn spinning_threads_have_cores_of_their_own() {
        let of = |wait, asked: &[usize], threads| Placement::of(wait, asked, threads, vec![2, 3, 5]);
        let spin = of(Wait::Spin, &[], 2).unwrap();
        assert_eq!((spin.roles, spin.others), (vec![Some(5), Some(3)], vec![2]));
        let full = of(Wait::Spin, &[], 3).unwrap();
        assert_eq!(full.others, [2, 3, 5], "others must run somewhere");
        let block = of(Wait::Block, &[], 2).unwrap();
        assert_eq!((block.roles, block.others), (vec![None, None], vec![2, 3, 5]));
        let asked = of(Wait::Block, &[5, 2], 2).unwrap();
        assert_eq!((asked.roles, asked.others), (vec![Some(5), Some(2)], vec![3]));
        for (wait, asked, threads, part) in [
            (Wait::Spin, &[][..], 4, "needs a core for each of 4"),
            (Wait::Block, &[4], 1, "core 4"),
            (Wait::Block, &[2], 2, "has 1 entries"),
        ] {
            let error = Placement::of(wait, asked, threads, vec![2, 3, 5]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
