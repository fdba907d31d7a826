//! A run before it starts: everything is decided, nothing is sent.

mod capture;
mod devices;
mod network;
mod prepare;

use std::sync::Arc;

use pktgen_core::record::{Family, Note, Planned, Training};
use pktgen_core::topology::Population;
use pktgen_workload::lanes::Lanes;

use crate::capture::Wanted;
use crate::catalogue::Catalogue;
use crate::external::Hardware;
use crate::launch::{Launch, Probing};
use crate::parts::Parts;
use crate::transport::TransportPlan;

pub use capture::Capture;
pub(crate) use prepare::of_share as prepare_share;
pub(crate) use prepare::read_top;
pub use prepare::{plan, prepare, source};

/// What a run is. Nothing of it changes once it is made.
pub struct Spec {
    /// The systems that there are.
    pub catalogue: &'static Catalogue,
    /// What its account is of.
    pub family: Family,
    /// How frames move.
    pub transport: TransportPlan,
    /// What it keeps, and when it ends.
    pub capture: Capture,
    /// What its reader must know beforehand.
    pub remarks: Vec<Note>,
    /// What is trained, if workers aggregate in iterations.
    pub training: Option<Training>,
    /// The plan along which devices reduce, if they do.
    pub planned: Option<Planned>,
    /// What makes the lanes of updates, where they carry any.
    pub lanes: Option<Arc<Lanes>>,
    /// Hash of the trace or of what it is made from.
    pub trace_hash: String,
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// The hardware that it is for, if it names any.
    pub hardware: Option<Hardware>,
    /// How its device is started, if that is a command.
    pub(crate) launch: Option<Launch>,
    /// Frames are sent as they are.
    pub(crate) raw: bool,
    /// How its hardware is probed.
    pub(crate) probing: Probing,
    /// The resolved configuration.
    pub config: String,
}

/// A run, ready to start.
pub struct Plan {
    /// What it is.
    pub spec: Spec,
    /// What moves its frames.
    pub parts: Parts,
}

impl Spec {
    /// Returns what its run dir keeps.
    pub fn wanted(&self) -> Wanted {
        let (rounds, server) = (self.training.is_some(), self.transport.has_server);
        // In real time, transport.tap has what left.
        let pcap_sent = self.capture.pcap && !self.is_real_time();
        let lanes = self.lanes.as_ref().map(|lanes| (lanes.form(), lanes.count()));
        let (states, pcap) = (self.capture.states, self.capture.pcap);
        let (stamps, departures) = self.transport.wants_stamps();
        // Where there are no books, sums are checked by the members that lanes prove.
        let payloads = self.is_external() && self.lanes.as_ref().is_some_and(|lanes| lanes.layout().proves_sums());
        Wanted {
            records: self.capture.records,
            states,
            rounds,
            server,
            pcap,
            pcap_sent,
            lanes,
            payloads,
            stamps,
            departures,
            at_once: !self.is_real_time(),
        }
    }

    /// Returns whether it runs in real time.
    pub fn is_real_time(&self) -> bool {
        self.transport.kind.capabilities().real_time
    }

    /// Returns whether its interfaces are made when its device is launched.
    pub fn makes_interfaces(&self) -> bool {
        self.is_real_time() && self.launch.as_ref().is_some_and(|launch| !launch.ports.is_empty())
    }

    /// Returns whether its device is hardware or another process, which keeps no books.
    pub fn is_external(&self) -> bool {
        self.external().is_some()
    }

    /// What its device is called, if it keeps no books: by its profile, where it has one.
    pub fn external(&self) -> Option<String> {
        let own = self.hardware.as_ref().filter(|own| own.external).map(|own| own.profile.name.clone());
        own.or_else(|| self.transport.lockstep.as_ref().map(|_| "lockstep".to_owned()))
    }
}
