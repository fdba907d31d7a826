//! A device in another process in virtual time: `[target.lockstep]` (docs/lockstep.md).
//!
//! `edge` translates frames for the device, `session` implements the protocol, `process` starts the device and ends it.

mod edge;
mod process;
mod session;

use pktgen_core::config::{Document, Value, above, settings, spans};
use pktgen_core::topology::{NodeId, Topology};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use crate::plan::Plan;
use crate::target::remote::Remote;
use edge::{Edge, SharedAcks};
use process::Process;
use session::Session;

settings! {
    /// What `[target.lockstep]` says of a device of another process, in virtual time.
    pub struct Lockstep {
        /// Command that starts the device: program and arguments; the environment variable `PKTGEN_LOCKSTEP` has the socket's path.
        command: Vec<String> = [];
        /// Path of the socket, for a device started by hand.
        socket: Option<String>;
        /// Timeout for the connection and for each answer, by the wall clock.
        timeout: Span = "10s" in spans(above(0));
    }
}

impl Lockstep {
    /// Reads the section; `None` if the experiment has another device, or runs in real time.
    pub(crate) fn named(document: &Document) -> Result<Option<Self>> {
        let is = |key: &str, word: &str| document.get(key).map(Value::to_label).as_deref() == Some(word);
        let in_virtual_time = document.get("transport.kind").is_none() || is("transport.kind", "virtual");
        let Some(mut section) = document.subsection("target.lockstep")? else { return Ok(None) };
        let own = Lockstep::read(&mut section)?;
        let place = section.place("command");
        section.end()?;
        if own.command.is_empty() && own.socket.is_none() {
            return Err(Error::config(format!(
                "{place}: it names no device; set its command, or the path of a socket in target.lockstep.socket and \
                 start the device by hand"
            )));
        }
        Ok(Some(own).filter(|_| in_virtual_time && is("target.kind", "external")))
    }

    /// Returns whether pktgen starts the device, not the user.
    pub fn is_started(&self) -> bool {
        !self.command.is_empty()
    }

    /// Returns the command; empty if the device is started by hand.
    pub(crate) fn words(&self) -> &[String] {
        &self.command
    }

    /// Refuses to start a program that the user did not allow.
    pub(crate) fn check_allowed(&self, allowed: bool) -> Result<()> {
        match &self.command[..] {
            [program, ..] if !allowed => Err(Error::config(format!(
                "target.lockstep.command: the experiment starts a program, {program}; add --allow-launch if you trust it"
            ))),
            _ => Ok(()),
        }
    }

    /// Starts the device, or waits for it.
    pub(crate) fn open(&self, plan: &Plan, seed: u64) -> Result<Coupling> {
        let topology = &plan.parts.topology;
        let node = only_device(topology)?;
        let edge = Edge::of(plan, node)?;
        let process = Process::start(self)?;
        let session = Session::begin(process, topology.ports(node).count() as u16, seed)?;
        Ok(Coupling { node, acks: edge.acks(), remote: Box::new(edge.around(session)) })
    }
}

/// A device in another process.
pub(crate) struct Coupling {
    /// Its node.
    pub(crate) node: NodeId,
    pub(crate) remote: Box<dyn Remote>,
    /// The acknowledgements that pass it.
    pub(crate) acks: SharedAcks,
}

/// Returns the device of a network with a single one.
fn only_device(topology: &Topology) -> Result<NodeId> {
    topology.only_device().map_err(|devices| {
        Error::config(format!(
            "target.lockstep: one process is one device, and this network has {devices}; use topology.kind = \"bottleneck\", \"star\" \
             without standby, or \"rack\" with engines = 1"
        ))
    })
}

impl Plan {
    /// Refuses what a device in another process cannot do in virtual time.
    pub(crate) fn check_lockstep(&self) -> Result<()> {
        only_device(&self.parts.topology)?;
        if self.spec.capture.goal.is_some() {
            return Err(Error::config(
                "capture.goal: whether a goal is reached is known from the books of devices, and a device of another process \
                 (target.lockstep) keeps none; use capture.until",
            ));
        }
        if self.parts.facts.flows.is_some() {
            return Err(Error::config(
                "target.lockstep: plans are supported for software devices only; leave the plan out, or use \
                 target.kind = \"software\"",
            ));
        }
        if self.spec.workers.cluster_of.contains(&pktgen_core::record::NO_CLUSTER) {
            return Err(Error::config(
                "workload: background traffic is supported for software devices only (target.kind = \"software\")",
            ));
        }
        Ok(())
    }
}
