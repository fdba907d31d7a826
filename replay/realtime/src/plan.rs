//! A run before it starts: everything is decided, nothing is sent.

mod capture;
mod devices;
mod mean;
mod network;
mod prepare;

use std::sync::Arc;

use pktgen_core::config::Unused;
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
pub(crate) use mean::{MeanRates, link_bits};
pub(crate) use prepare::of_share as prepare_share;
pub(crate) use prepare::read_top;
pub use prepare::{plan, prepare, source};

/// The specification of a run, which does not change after it is made.
pub struct Spec {
    /// The available systems.
    pub catalogue: &'static Catalogue,
    /// The family of its account.
    pub family: Family,
    /// Its transport.
    pub transport: TransportPlan,
    /// What it records, and when it ends.
    pub capture: Capture,
    /// Notes for readers that are known in advance.
    pub remarks: Vec<Note>,
    /// Training parameters, if workers aggregate in iterations.
    pub training: Option<Training>,
    /// The plan along which devices reduce, if there is one.
    pub planned: Option<Planned>,
    /// Generator of the lanes of updates, if they have any.
    pub lanes: Option<Arc<Lanes>>,
    /// Hash of the trace or of its source.
    pub trace_hash: String,
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// The hardware device, if it names any.
    pub hardware: Option<Hardware>,
    /// How its device is started, if by a command.
    pub(crate) launch: Option<Launch>,
    /// Whether frames are raw.
    pub(crate) raw: bool,
    /// How its hardware is probed.
    pub(crate) probing: Probing,
    /// The resolved configuration.
    pub config: String,
    /// Keys that were written and that this run does not read.
    pub unused: Vec<Unused>,
}

/// A run, ready to start.
pub struct Plan {
    /// Its specification.
    pub spec: Spec,
    /// The parts that move its frames.
    pub parts: Parts,
}

impl Spec {
    /// Returns what its run dir records.
    pub fn wanted(&self) -> Wanted {
        let (rounds, server) = (self.training.is_some(), self.transport.has_server);
        // In real time, transport.tap records departing frames.
        let pcap_sent = self.capture.pcap && !self.is_real_time();
        let lanes = self.lanes.as_ref().map(|lanes| (lanes.form(), lanes.count()));
        let (states, pcap) = (self.capture.states, self.capture.pcap);
        let (stamps, departures) = self.transport.wants_stamps();
        // Without books, sums are checked by the members that lanes prove.
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

    /// Returns the user and group of its device on this host, if pktgen launches it and is root.
    pub fn launch_user(&self) -> Option<u32> {
        self.launch.as_ref().filter(|_| self.is_real_time()).map(|launch| launch.user)
    }

    /// Returns whether its device is hardware or another process, which keeps no books.
    pub fn is_external(&self) -> bool {
        self.external().is_some()
    }

    /// Returns the hash of its device's profile, if it names any: the configuration has only the name.
    pub(crate) fn profile_hash(&self) -> Option<String> {
        self.hardware.as_ref().map(|hardware| hardware.profile.hash.clone())
    }

    /// Returns the name of its device, if it keeps no books: that of its profile, if it has one.
    pub fn external(&self) -> Option<String> {
        let own = self.hardware.as_ref().filter(|own| own.external).map(|own| own.profile.name.clone());
        own.or_else(|| self.transport.lockstep.as_ref().map(|_| "lockstep".to_owned()))
    }
}
