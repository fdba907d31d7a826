//! `[transport]`: the transport, and pacing in real time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use pktgen_core::config::{Document, FromValue, Origin, Section, Value, names_of, settings, spans};
use pktgen_core::registry::find;
use pktgen_core::time::{MS, NEVER, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::device::Addresses;

use super::middleware::{Faults, MiddlewarePlan, Outer};
use super::{DEFAULT, Departures, End, Stamps, TRANSPORTS, Transport, queues as of_interface, safety};
use crate::catalogue::{Catalogue, NOTHING};
use crate::clock::FileClock;
use crate::dialect::DialectKind;
use crate::frame::Heads;
use crate::lockstep::Lockstep;

/// The waiting method of a thread while nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Polls the clock: precise, but occupies a core.
    Spin,
    /// Sleeps until shortly before the deadline, or until an arrival. A device with a server sleeps at most 50 µs at a time: arrivals from
    /// the workers only end its sleep.
    Block,
}

/// The treatment of a frame that is later than `late_limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It is sent at once, and the schedule catches up.
    CatchUp,
    /// It is not sent, but withheld by its worker.
    Skip,
    /// The run ends, and is invalid.
    Abort,
}

/// The departure times of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// At their deadlines.
    Deadlines,
    /// As fast as possible, in order.
    Top,
}

/// The kernel's distribution of arriving frames over the packet sockets of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// By addresses and ports, as in a card.
    Hash,
    /// By the interface's receive queue.
    Queue,
}

impl Fanout {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        ["hash", "queue"][self as usize]
    }
}

/// Properties of a run's frames for its wires.
pub struct Frames {
    /// The available systems.
    pub catalogue: &'static Catalogue,
    /// Their wire format.
    pub format: &'static str,
    /// Rebuilds heads for transports of payloads only; none if payloads do not identify the sender.
    pub heads: Option<Heads>,
    /// Advice for smaller frames of the workers, for messages.
    pub smaller: &'static str,
    /// Whether there is a server, and so a second cable.
    pub has_server: bool,
    /// Addresses of the profile, if there is one.
    pub addresses: Option<Addresses>,
    /// Whether the device is external.
    pub external: bool,
}

impl Default for Frames {
    fn default() -> Self {
        let (addresses, external) = (None, false);
        Frames { catalogue: &NOTHING, format: "", heads: None, smaller: "", has_server: false, addresses, external }
    }
}

/// The settings of `[transport]`.
#[derive(Clone)]
pub struct TransportPlan {
    /// The kind.
    pub kind: &'static dyn Transport,
    /// The departure times of frames.
    pub pacing: Pacing,
    /// The waiting method.
    pub wait: Wait,
    /// The treatment of late frames.
    pub late: Late,
    /// Lateness from which frames are late.
    pub late_limit: Time,
    /// Time for which each role continues after the last frame.
    pub linger: Time,
    /// Whether there is a server, and so a second cable. Without one, results return to the workers.
    pub has_server: bool,
    /// Whether the device is external.
    pub external: bool,
    /// Interfaces of the ends: workers, device towards workers, device towards server, server.
    pub interfaces: Vec<String>,
    /// udp: addresses of the ends, in the same order; empty for free ones on the loopback interface.
    pub addresses: Vec<SocketAddr>,
    /// Whether to receive by blocks of a ring instead of by calls: less work per frame, but a frame waits up to 2 ms for its block.
    pub receive_ring: bool,
    /// Number of queues per end. af_xdp, xdp_live: must equal that of the interface.
    pub queues: u32,
    /// af_packet: distribution of frames over queues.
    pub fanout: Fanout,
    /// The source of arrival stamps at the server.
    pub stamps: Stamps,
    /// One of this number of the workers' frames is stamped on departure; 0 for none.
    pub sent_stamps_every: u32,
    /// The departure stamps.
    pub departures: Departures,
    /// af_xdp: whether the driver sends from and receives into our memory. Refused if the driver does not support it.
    pub zero_copy: bool,
    /// udp: whether the kernel divides one message into datagrams of one length that leave together.
    pub segmented: bool,
    /// Cores of the sending and receiving threads, in the order workers, device, server; if empty, the kernel chooses,
    /// or spinning threads get one core each.
    pub cores: Vec<usize>,
    /// Whether to send on an interface that carries the default route.
    pub allow_default_route: bool,
    /// Whether to send faster than the link rate of the interface.
    pub allow_above_link: bool,
    /// pcap: the files that are the cables, workers – device and device – server.
    pub files: Vec<String>,
    /// pcap: the time of those files.
    pub file_clock: FileClock,
    /// udp: rebuilds heads; none if payloads do not identify the sender.
    pub heads: Option<Heads>,
    /// Advice for smaller frames of the workers, for messages.
    pub smaller: &'static str,
    /// The middleware around the wires.
    pub middleware: MiddlewarePlan,
    /// Faults of links, in virtual time.
    pub faults: Option<Faults>,
    /// The dialect on the wire, if there is one.
    pub dialect: Option<&'static DialectKind>,
    /// Addresses on the wire, if the target has a profile.
    pub outer: Option<Arc<Outer>>,
    /// The device in another process, in virtual time.
    pub lockstep: Option<Arc<Lockstep>>,
}

settings! {
    /// What is read in real time, and valid whatever the kind is.
    pub keys RealTime {
        /// When frames leave: at their deadlines, or as fast as possible.
        pacing: Pacing = "deadlines";
        /// How roles wait: blocked until a wake-up, or busy polling.
        wait: Wait = "block";
        /// Handling of frames that are late.
        late: Late = "catch_up";
        /// Lateness above which a frame counts as late.
        late_limit: Span = "1ms" in spans(0..);
        /// Time for which roles continue after the last frame of the run.
        linger: Span = "200ms" in spans(0..);
        /// Interfaces of the ends: workers, device, server.
        interfaces: Vec<String> = [];
        /// Addresses of the ends, for `udp`.
        addresses: Vec<String> = [];
        /// Whether frames are received through a ring shared with the kernel (`af_packet`).
        receive_ring: bool = false;
        /// Queues per end.
        queues: u32 = 1 in 1..=QUEUES_MAX;
        /// Distribution of frames over queues.
        fanout: Fanout = "hash";
        /// Source of receive timestamps at the server.
        stamps: Stamps = "none";
        /// Every N-th frame gets a send timestamp; 0: none.
        sent_stamps_every: u32 = 0;
        /// Zero-copy mode (`af_xdp`).
        zero_copy: bool = false;
        /// Segmentation offload: the kernel receives datagrams of one length that leave together as one (`udp`).
        segmented: bool = false;
        /// CPU cores that roles are pinned to.
        cores: Vec<u16> = [];
        /// Whether interfaces with the default route are allowed.
        allow_default_route: bool = false;
        /// Whether workers may offer more than the link rate.
        allow_above_link: bool = false;
        /// Capture files of the ends (`pcap`).
        files: Vec<String> = [];
    }
}

macro_rules! words {
    ($type:ty, $what:literal, $($word:literal => $value:expr),*) => {
        impl FromValue for $type {
            fn takes() -> String {
                [$($word),*].join(", ")
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                match value {
                    $(Value::Text(text) if text == $word => Ok($value),)*
                    other => Err(format!(concat!("{} is not ", $what, "; there are: ", $($word, " "),*), other.to_toml())),
                }
            }
        }
    };
}
words!(Fanout, "a way to spread frames", "hash" => Fanout::Hash, "queue" => Fanout::Queue);
words!(Wait, "a way to wait", "spin" => Wait::Spin, "block" => Wait::Block);
words!(Pacing, "a pacing", "deadlines" => Pacing::Deadlines, "top" => Pacing::Top);
words!(Stamps, "who stamps", "none" => Stamps::None, "kernel" => Stamps::Kernel, "card" => Stamps::Card);
words!(Late, "a policy for late frames", "catch_up" => Late::CatchUp, "skip" => Late::Skip, "abort" => Late::Abort);

impl TransportPlan {
    /// A kind with default settings, for a run with a server.
    pub fn of(kind: &'static dyn Transport) -> Self {
        Self::carrying(kind, Frames { has_server: true, ..Frames::default() }, None)
    }

    /// A kind with default settings, for these frames.
    fn carrying(kind: &'static dyn Transport, frames: Frames, dialect: Option<&'static DialectKind>) -> Self {
        let Frames { catalogue, format, heads, smaller, has_server, addresses, external } = frames;
        // A layout may have separate ports.
        let name = dialect.map_or(format, |dialect| dialect.on_wire);
        let on_wire = catalogue.protocols.formats.iter().find(|format| format.name() == name);
        TransportPlan {
            kind,
            pacing: Pacing::Deadlines,
            wait: Wait::Block,
            late: Late::CatchUp,
            late_limit: MS,
            linger: 0,
            has_server,
            external,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            receive_ring: false,
            queues: 1,
            fanout: Fanout::Hash,
            stamps: Stamps::None,
            sent_stamps_every: 0,
            departures: Departures::default(),
            zero_copy: false,
            segmented: false,
            cores: Vec::new(),
            allow_default_route: false,
            allow_above_link: false,
            files: Vec::new(),
            file_clock: FileClock::new(),
            heads,
            smaller,
            middleware: MiddlewarePlan::default(),
            faults: None,
            dialect,
            outer: addresses.zip(on_wire).map(|(addresses, format)| {
                Arc::new(Outer { addresses, format: format.facts(), sees_tags: kind.capabilities().sees_tags })
            }),
            lockstep: None,
        }
    }

    /// Returns the kind that the section names.
    fn kind_of(section: &mut Section) -> Result<&'static dyn Transport> {
        let kind: String = section.get("kind", DEFAULT)?;
        find(TRANSPORTS, "transport", &kind, &section.place("kind"))
    }

    /// Reads the section, for a run with these frames.
    pub(crate) fn read(document: &mut Document, frames: Frames) -> Result<Self> {
        let lockstep = Lockstep::named(document)?;
        if lockstep.is_some() {
            write_for_devices(document, &frames)?;
        }
        let mut section = document.section("transport")?;
        let kind = Self::kind_of(&mut section)?;
        let plan = if kind.capabilities().real_time {
            let linger = RealTime::linger(&mut section)?.ps();
            let middleware = MiddlewarePlan::read(&mut section, linger)?;
            let dialect = middleware.dialect(frames.format, frames.catalogue.dialects)?;
            TransportPlan {
                pacing: RealTime::pacing(&mut section)?,
                wait: RealTime::wait(&mut section)?,
                late: RealTime::late(&mut section)?,
                late_limit: RealTime::late_limit(&mut section)?.ps(),
                linger,
                interfaces: RealTime::interfaces(&mut section)?,
                addresses: addresses(&RealTime::addresses(&mut section)?, &section)?,
                receive_ring: RealTime::receive_ring(&mut section)?,
                queues: queues(kind, &mut section)?,
                fanout: RealTime::fanout(&mut section)?,
                stamps: stamps(kind, &mut section)?,
                sent_stamps_every: sent_stamps(kind, &mut section)?,
                zero_copy: zero_copy(kind, &mut section)?,
                segmented: segmented(kind, &mut section)?,
                cores: RealTime::cores(&mut section)?.into_iter().map(usize::from).collect(),
                allow_default_route: RealTime::allow_default_route(&mut section)?,
                allow_above_link: RealTime::allow_above_link(&mut section)?,
                files: RealTime::files(&mut section)?,
                middleware,
                ..Self::carrying(kind, frames, dialect)
            }
        } else {
            let faults = Faults::read(&mut section, NEVER)?;
            let middleware = edge_middleware(&mut section, lockstep.is_some())?;
            let dialect = middleware.dialect(frames.format, frames.catalogue.dialects)?;
            if section.get_opt::<Pacing>("pacing")? == Some(Pacing::Top) {
                return Err(Error::config(format!(
                    "{}: virtual time has no top speed; choose a transport in real time (--set transport.kind=ring, ...)",
                    section.place("pacing")
                )));
            }
            let lockstep = lockstep.map(Arc::new);
            let plan = TransportPlan { faults, middleware, lockstep, ..Self::carrying(kind, frames, dialect) };
            // Virtual time has no cables on which addresses are exchanged, but a preview shows them unless they are switched off.
            let is_off = section.get_opt::<bool>("readdress")? == Some(false);
            TransportPlan { outer: plan.outer.clone().filter(|_| !is_off), ..plan }
        };
        // A file for wires is also run in virtual time.
        names_of(&[RealTime::KEYS]).for_each(|key| section.allow_elsewhere(key));
        document.close(section)?;
        Ok(plan)
    }
}

impl TransportPlan {
    /// Refuses workers that would send more than `offered_bps`, including gaps between frames, on a slower link of this host.
    pub(crate) fn check_link(&self, offered_bps: f64) -> Result<()> {
        self.check_link_in(Path::new("/"), offered_bps)
    }

    /// Performs [`check_link`](Self::check_link) for a host whose files are below `root`.
    pub(crate) fn check_link_in(&self, root: &Path, offered_bps: f64) -> Result<()> {
        let Some(interface) = self.bound(End::Workers) else { return Ok(()) };
        match safety::link_bps_in(root, interface) {
            Some(link) if offered_bps > link as f64 && !self.allow_above_link => Err(Error::Host(format!(
                "the workers would send {:.3} Gbit/s (with preambles and gaps), and {interface} says that its link carries \
                 {:.3}; lower the rate (--rate, --pps, --speed), or set transport.allow_above_link = true",
                offered_bps / 1e9,
                link as f64 / 1e9
            ))),
            _ => Ok(()),
        }
    }

    /// Returns what rebuilds heads from payloads. Refuses workers whose payloads do not identify the sender.
    pub(crate) fn payload_heads(&self) -> Result<Heads> {
        self.heads.clone().ok_or_else(|| {
            Error::config(format!(
                "transport.kind = \"{}\": nothing in the packets of these workers says which one sent them, and the \
                 sockets of one process share an address; use ring, af_packet or af_xdp",
                self.kind.name()
            ))
        })
    }

    /// Returns the maximum number of bytes by which a dialect makes frames longer.
    pub(crate) fn growth(&self) -> usize {
        self.dialect.map_or(0, |dialect| dialect.growth)
    }

    /// Returns the bytes on the wire of a frame of `bytes`: a dialect or a VLAN tag may make it longer.
    pub fn wire_bytes(&self, bytes: usize) -> usize {
        let outer = self.outer.as_ref().filter(|_| self.exchanges());
        bytes + self.growth() + outer.map_or(0, |outer| outer.tag())
    }

    /// Returns the length on the cable of an update's frame of `bytes`: a dialect or a VLAN tag may change it.
    pub(crate) fn cable_bytes(&self, bytes: usize) -> usize {
        let tag = self.on_cable().map_or(0, |outer| outer.tag());
        self.dialect.map_or(bytes, |dialect| (dialect.length)(bytes)) + tag
    }

    /// Returns the profile's addresses, if frames have them on the cable: in virtual time without a cable those that hardware would see.
    pub(crate) fn on_cable(&self) -> Option<&Arc<Outer>> {
        let is_preview = !self.kind.capabilities().real_time && self.lockstep.is_none();
        self.outer.as_ref().filter(|_| is_preview || self.exchanges())
    }

    /// Returns whether frames have the profile's addresses on the wires.
    fn exchanges(&self) -> bool {
        self.middleware.declaring(|it| it.addresses).next().is_some()
    }

    /// Returns the interface of an end, after checks.
    pub(super) fn interface(&self, end: End) -> Result<&str> {
        let name = self.interface_name(end)?;
        if name.is_empty() {
            return Err(Error::Host(self.unnamed(end)));
        }
        safety::check(name, self.allow_default_route)?;
        Ok(name)
    }

    /// Refuses to send at an end whose interface, if any, carries the host's default route.
    pub(crate) fn guard(&self, end: End) -> Result<()> {
        match self.interface_at(end) {
            Some(name) => safety::check(&name, self.allow_default_route),
            None => Ok(()),
        }
    }

    /// Returns the error for an empty interface name of an end that this process opens.
    pub fn unnamed(&self, end: End) -> String {
        let mut names: Vec<_> = (0..self.ends().len().max(end as usize + 1))
            .map(|i| self.interfaces.get(i).map_or("", String::as_str))
            .collect();
        names[end as usize] = "IF";
        format!(
            "transport.interfaces: the name of {}'s interface is empty; name one of this host (`ip -br link`), as in --set \
             'transport.interfaces={names:?}'",
            end.name()
        )
    }

    /// Refuses one interface for two ends of this process. Other hosts may have the same names.
    pub(super) fn apart(&self, ends: &[End]) -> Result<()> {
        let names: Vec<_> = ends.iter().filter_map(|end| self.interfaces.get(*end as usize)).collect();
        match names.iter().enumerate().find(|(i, name)| !name.is_empty() && names[..*i].contains(name)) {
            None => Ok(()),
            Some((i, name)) => Err(Error::config(format!(
                "transport.interfaces names \"{name}\" for {} and for another end of this host: {:?}; give each end an \
                 interface of its own, or run the parts on their hosts (--role)",
                ends[i].name(),
                self.interfaces
            ))),
        }
    }

    /// The name of an end's interface; empty for that of another host.
    pub fn interface_name(&self, end: End) -> Result<&str> {
        let names = &self.interfaces;
        if !self.has_server
            && let Some(unused) = names.iter().skip(End::LOWER.len()).find(|name| !name.is_empty())
        {
            return Err(Error::config(format!(
                "transport.interfaces: nothing is sent on \"{unused}\": there is no server in this run and so one cable; give \
                 two names, the workers' and the device's"
            )));
        }
        let all = if self.has_server {
            "four: the workers', the device's towards them, the device's towards the server, the server's"
        } else {
            "two: the workers' and the device's"
        };
        match names.get(end as usize) {
            Some(name) => Ok(name),
            None => Err(Error::config(format!(
                "transport.interfaces has {} names, and that of {} is needed; give {all} (\"\" for those of other hosts)",
                names.len(),
                end.name()
            ))),
        }
    }

    /// Returns the interface that was written for an end; `None` for transports without privileges, which have none: names may be for
    /// another kind.
    pub(super) fn bound(&self, end: End) -> Option<&String> {
        let name = self.interfaces.get(end as usize).filter(|_| self.kind.capabilities().privileged);
        name.filter(|name| !name.is_empty())
    }

    /// Returns the ends of the cables of a run.
    pub fn ends(&self) -> &'static [End] {
        if self.has_server { &End::ALL } else { &End::LOWER }
    }

    /// Returns whether each queue of the workers' end may have a sending thread.
    pub(crate) fn sends_from_all(&self) -> bool {
        let name = self.bound(End::Workers);
        name.is_none_or(|name| of_interface::sends_from(Path::new("/sys/class/net"), name, self.queues))
    }

    /// Refuses frames that do not fit an interface.
    pub(super) fn check_fit(&self, frame_max: usize, interface: &str, most: usize) -> Result<()> {
        if frame_max > most {
            return Err(Error::Host(format!(
                "frames of up to {frame_max} bytes do not fit interface {interface}, which takes {most} this way; {}, or raise \
                 the MTU at both ends of the cable: ip link set {interface} mtu {}",
                self.smaller,
                frame_max - ETHERNET
            )));
        }
        Ok(())
    }
}

/// Bytes of an Ethernet header, which the MTU excludes.
const ETHERNET: usize = 14;

/// Maximum number of queues of an end.
pub(crate) const QUEUES_MAX: u32 = 64;

/// Reads the number of queues; refuses one without effect.
fn queues(kind: &dyn Transport, section: &mut Section) -> Result<u32> {
    let queues = RealTime::queues(section)?;
    let place = section.place("queues");
    if queues > 1 {
        let cannot = format!(" = {queues}: kind = \"{}\" knows nothing of an interface's queues", kind.name());
        needs(kind, &place, &cannot, |kind| kind.has_queues())?;
    }
    Ok(queues)
}

/// Reads the source of arrival stamps at the server. Refuses one that the transport does not support.
fn stamps(kind: &dyn Transport, section: &mut Section) -> Result<Stamps> {
    let stamps = RealTime::stamps(section)?;
    if stamps != Stamps::None {
        let cannot = format!(": kind = \"{}\" does not tell when a frame arrived", kind.name());
        needs(kind, &section.place("stamps"), &cannot, |kind| kind.capabilities().stamps_received)?;
    }
    Ok(stamps)
}

/// Reads the distance of frames with departure stamps. Refuses it if the transport does not support them.
fn sent_stamps(kind: &dyn Transport, section: &mut Section) -> Result<u32> {
    let every = RealTime::sent_stamps_every(section)?;
    if every > 0 {
        let cannot = format!(" = {every}: kind = \"{}\" does not tell when a frame left", kind.name());
        needs(kind, &section.place("sent_stamps_every"), &cannot, |kind| kind.capabilities().stamps_sent)?;
    }
    Ok(every)
}

/// Reads whether zero copy is required. Refuses it if it has no effect.
fn zero_copy(kind: &dyn Transport, section: &mut Section) -> Result<bool> {
    let zero_copy = RealTime::zero_copy(section)?;
    if zero_copy {
        let cannot = format!(" = true: kind = \"{}\" always copies", kind.name());
        needs(kind, &section.place("zero_copy"), &cannot, |kind| kind.capabilities().zero_copy)?;
    }
    Ok(zero_copy)
}

/// Reads whether the kernel is to divide messages. Refuses it if it has no effect.
fn segmented(kind: &dyn Transport, section: &mut Section) -> Result<bool> {
    let segmented = RealTime::segmented(section)?;
    if segmented {
        let cannot = format!(" = true: kind = \"{}\" hands over every frame by itself", kind.name());
        needs(kind, &section.place("segmented"), &cannot, |kind| kind.capabilities().segments)?;
    }
    Ok(segmented)
}

/// Refuses a request at `place` that a kind does not support, and names the kinds that do.
fn needs(kind: &dyn Transport, place: &str, cannot: &str, can: impl Fn(&dyn Transport) -> bool) -> Result<()> {
    if can(kind) {
        return Ok(());
    }
    let able = TRANSPORTS.iter().filter(|kind| kind.capabilities().real_time && can(**kind)).map(|kind| kind.name());
    let able = able.collect::<Vec<_>>().join(" or ");
    Err(Error::config(format!("{place}{cannot}; leave it out, or use {able}")))
}

/// Sets strict layout and the profile's addresses for frames to a device in another process, unless the experiment says otherwise.
fn write_for_devices(document: &mut Document, frames: &Frames) -> Result<()> {
    let strict = frames.catalogue.dialects.iter().any(|kind| kind.word == "strict" && kind.format == frames.format);
    if strict && document.get("transport.on_wire").is_none() {
        document.set("transport.on_wire", Value::Text("strict".into()), Origin::Default)?;
    }
    if frames.addresses.is_some() && document.get("transport.readdress").is_none() {
        document.set("transport.readdress", Value::Bool(true), Origin::Default)?;
    }
    Ok(())
}

/// Reads the middleware that applies in virtual time at the edge of a device in another process, if there is one.
/// Others are refused, as they must not be omitted silently.
fn edge_middleware(section: &mut Section, has_edge: bool) -> Result<MiddlewarePlan> {
    let plan = MiddlewarePlan::read(section, NEVER)?;
    let refused = plan.declaring(|it| !(it.virtual_time || it.at_edge && has_edge)).next();
    match refused {
        None if has_edge => Ok(plan),
        None => Ok(MiddlewarePlan::default()),
        Some(name) => Err(Error::config(format!(
            "transport: middleware \"{name}\" needs wires, and virtual time has none; choose kind = \"ring\" or \
             another in real time, or leave its keys out (`pktgen list middleware`)"
        ))),
    }
}

fn addresses(list: &[String], section: &Section) -> Result<Vec<SocketAddr>> {
    let one = |text: &String| {
        text.parse().map_err(|_| {
            Error::config(format!("{}: \"{text}\" is not ADDRESS:PORT, as 127.0.0.1:7001", section.place("addresses")))
        })
    };
    list.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interface_is_two_ends() {
        let plan = |list: [&str; 4]| TransportPlan {
            interfaces: list.map(str::to_owned).to_vec(),
            ..TransportPlan::of(TRANSPORTS[0])
        };
        let (both, all) = ([End::Workers, End::Server], End::ALL);
        assert!(plan(["a", "", "", "d"]).apart(&all).is_ok() && plan(["a", "b", "b", "c"]).apart(&both).is_ok());
        assert!(plan(["a", "a", "a", "a"]).apart(&[End::Workers]).is_ok(), "of other hosts");
        let why = plan(["a", "", "", "a"]).apart(&both).unwrap_err().to_string();
        assert!(why.contains("names \"a\" for server"), "{why}");
    }

    #[test]
    fn without_a_server_two_interfaces_are_all() {
        let name = |list: &[&str], has_server, end| {
            let interfaces = list.iter().map(|name| (*name).to_owned()).collect();
            let plan = TransportPlan { interfaces, has_server, ..TransportPlan::of(TRANSPORTS[0]) };
            plan.interface_name(end).map(str::to_owned).map_err(|e| e.to_string())
        };
        for list in [&["w", "d"][..], &["w", "d", ""], &["w", "d", "", ""]] {
            assert_eq!(name(list, false, End::DeviceDown), Ok("d".to_owned()));
        }
        assert_eq!(name(&["w", "d", "u", "s"], true, End::Server), Ok("s".to_owned()));
        for (list, has_server, end, part) in [
            (&["w"][..], false, End::DeviceDown, "has 1 names, and that of device.down is needed; give two"),
            (&["w", "d", "u"], false, End::Workers, "nothing is sent on \"u\""),
            (&["w", "d"], true, End::DeviceUp, "has 2 names, and that of device.up is needed; give four"),
        ] {
            let why = name(list, has_server, end).expect_err(part);
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn an_empty_name_says_whose_it_is() {
        let interfaces = ["eth1", "", "", "eth2"].map(str::to_owned).to_vec();
        let plan = TransportPlan { interfaces, ..TransportPlan::of(TRANSPORTS[0]) };
        let why = plan.interface(End::DeviceUp).expect_err("it is empty");
        assert_eq!(why.exit_code(), 3);
        assert_eq!(
            why.to_string(),
            "transport.interfaces: the name of device.up's interface is empty; name one of this host (`ip -br link`), as in \
             --set 'transport.interfaces=[\"eth1\", \"\", \"IF\", \"eth2\"]'"
        );
    }

    #[test]
    fn keys_of_queues_are_refused_where_they_would_have_no_effect() {
        let read = |keys: &str| {
            let text = format!("[transport]\n{keys}\n");
            let plan = TransportPlan::read(&mut Document::parse(&text, "test").unwrap(), Frames::default());
            plan.map(|plan| (plan.queues, plan.zero_copy)).map_err(|e| e.to_string())
        };
        assert_eq!(read("kind = \"udp\"\nqueues = 1\nzero_copy = false"), Ok((1, false)));
        assert_eq!(read("kind = \"af_xdp\"\nqueues = 64\nzero_copy = true"), Ok((64, true)));
        assert_eq!(read("kind = \"xdp_live\"\nqueues = 2"), Ok((2, false)));
        for (keys, part) in [
            ("kind = \"af_xdp\"\nqueues = 0", "transport.queues: 0 is not from 1 to 64"),
            ("kind = \"af_xdp\"\nqueues = 65", "transport.queues: 65 is not from 1 to 64"),
            ("kind = \"udp\"\nqueues = 2", "use ring or af_packet or af_xdp or xdp_live"),
            ("kind = \"xdp_live\"\nzero_copy = true", "or use af_xdp"),
            ("kind = \"ring\"\nstamps = \"kernel\"", "or use udp or af_packet"),
            (
                "kind = \"xdp_live\"\nsent_stamps_every = 9",
                "sent_stamps_every = 9: kind = \"xdp_live\" does not tell when",
            ),
            ("kind = \"af_xdp\"\nstamps = \"card\"", "does not tell when a frame arrived"),
            ("kind = \"udp\"\nstamps = \"ptp\"", "there are: none kernel card"),
        ] {
            let why = read(keys).expect_err(keys);
            assert!(why.contains(part), "{why}");
        }
    }
}
