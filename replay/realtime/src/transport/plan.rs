//! `[transport]`: how frames move, and how the pacing of real time behaves.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use pktgen_core::config::{Document, FromValue, Origin, Section, Value, settings, spans};
use pktgen_core::registry::find;
use pktgen_core::time::{MS, NEVER, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::device::Addresses;

use super::middleware::{Faults, MiddlewarePlan, Outer};
use super::{Departures, End, Stamps, TRANSPORTS, Transport, queues as of_interface, safety};
use crate::catalogue::{Catalogue, NOTHING};
use crate::clock::FileClock;
use crate::dialect::DialectKind;
use crate::frame::Heads;
use crate::lockstep::Lockstep;

/// What a thread does while nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Reads the clock again: exact, and takes a core.
    Spin,
    /// Sleeps until shortly before the deadline, or until something arrives.
    Block,
}

/// What happens to a frame that is later than `late_limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It is sent at once, and the schedule catches up.
    CatchUp,
    /// It is not sent: its worker held it back.
    Skip,
    /// The run ends, and is invalid.
    Abort,
}

/// When frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// When they are due.
    Deadlines,
    /// As fast as they can, in order.
    Top,
}

/// How the kernel spreads what arrives over the packet sockets of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// By addresses and ports, as a card does.
    Hash,
    /// By the queue of the interface that it came to.
    Queue,
}

impl Fanout {
    /// What it is called.
    pub fn name(self) -> &'static str {
        ["hash", "queue"][self as usize]
    }
}

/// What the frames of a run are, for the wires that carry them.
pub struct Frames {
    /// The systems that there are.
    pub catalogue: &'static Catalogue,
    /// Their wire format.
    pub format: &'static str,
    /// Rebuilds heads where only payloads travel; none where nothing in a payload says who sent it.
    pub heads: Option<Heads>,
    /// What makes the workers' frames smaller, for messages.
    pub smaller: &'static str,
    /// There is a server, and so a second cable.
    pub has_server: bool,
    /// Addresses of the profile, where there is one.
    pub addresses: Option<Addresses>,
}

impl Default for Frames {
    fn default() -> Self {
        Frames { catalogue: &NOTHING, format: "", heads: None, smaller: "", has_server: false, addresses: None }
    }
}

/// `[transport]`, read.
#[derive(Clone)]
pub struct TransportPlan {
    /// The kind.
    pub kind: &'static dyn Transport,
    /// When frames leave.
    pub pacing: Pacing,
    /// While nothing is due.
    pub wait: Wait,
    /// Frames that are late.
    pub late: Late,
    /// How late that is.
    pub late_limit: Time,
    /// How long each role goes on after the last frame.
    pub linger: Time,
    /// Whether there is a server, and so a second cable. Without one the results go back to the workers.
    pub has_server: bool,
    /// Interfaces: the workers', the device's towards them, the device's towards the server, the server's.
    pub interfaces: Vec<String>,
    /// UDP: addresses of the ends, in the same order; none for free ones on the loopback interface.
    pub addresses: Vec<SocketAddr>,
    /// Receive by blocks of a ring instead of by calls: less work per frame, but a frame waits up to 2 ms for its block.
    pub receive_ring: bool,
    /// Queues of each end. af_xdp, xdp_live: its interface must have no others.
    pub queues: u32,
    /// af_packet: which queue a frame comes to.
    pub fanout: Fanout,
    /// Whether kernel or card stamps what arrives at the server.
    pub stamps: Stamps,
    /// Every so many frames of the workers one is stamped when it leaves; 0 for none.
    pub sent_stamps_every: u32,
    /// What these stamps say.
    pub departures: Departures,
    /// af_xdp: the driver sends from and receives into our memory. An interface whose driver cannot is refused.
    pub zero_copy: bool,
    /// udp: the kernel divides one message into datagrams that leave together and have one length.
    pub segmented: bool,
    /// Cores of the threads that send and receive, in the order workers, device, server; none to let the kernel choose,
    /// or, where they spin, for one each.
    pub cores: Vec<usize>,
    /// Send on an interface that carries the default route.
    pub allow_default_route: bool,
    /// Send faster than the interface says that its link is.
    pub allow_above_link: bool,
    /// pcap: the files that are the cables, workers – device and device – server.
    pub files: Vec<String>,
    /// pcap: the time of those files.
    pub file_clock: FileClock,
    /// udp: rebuilds heads; none where nothing in a payload says who sent it.
    pub heads: Option<Heads>,
    /// What makes the workers' frames smaller, for messages.
    pub smaller: &'static str,
    /// What goes around the wires.
    pub middleware: MiddlewarePlan,
    /// What happens to frames on links, in virtual time.
    pub faults: Option<Faults>,
    /// How frames are written on the wire, where that is not as in the process.
    pub dialect: Option<&'static DialectKind>,
    /// Addresses on the wire, where the target has a profile.
    pub outer: Option<Arc<Outer>>,
    /// The device of another process, in virtual time.
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
        queues: u32 = 1;
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
    /// A kind with nothing configured, for a run with a server.
    pub fn of(kind: &'static dyn Transport) -> Self {
        Self::carrying(kind, Frames { has_server: true, ..Frames::default() }, None)
    }

    /// A kind with nothing configured, for these frames.
    fn carrying(kind: &'static dyn Transport, frames: Frames, dialect: Option<&'static DialectKind>) -> Self {
        let Frames { catalogue, format, heads, smaller, has_server, addresses } = frames;
        // A layout may have ports of its own.
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

    /// Reads the section, for a run with these frames.
    pub(crate) fn read(document: &mut Document, frames: Frames) -> Result<Self> {
        let lockstep = Lockstep::named(document)?;
        if lockstep.is_some() {
            write_for_devices(document, &frames)?;
        }
        let mut section = document.section("transport")?;
        let kind: String = section.get("kind", "virtual")?;
        let kind = find(TRANSPORTS, "transport", &kind, &section.place("kind"))?;
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
            TransportPlan { faults, middleware, lockstep, ..Self::carrying(kind, frames, dialect) }
        };
        section.allow(&[RealTime::KEYS]);
        document.close(section)?;
        Ok(plan)
    }
}

impl TransportPlan {
    /// Refuses workers that would send more than `offered_bps` of frames and their gaps on a slower link.
    pub(crate) fn check_link(&self, offered_bps: f64) -> Result<()> {
        let Some(interface) = self.interfaces.get(End::Workers as usize) else { return Ok(()) };
        match safety::link_bps(interface) {
            Some(link) if offered_bps > link as f64 && !self.allow_above_link => Err(Error::Host(format!(
                "the workers would send {:.3} Gbit/s (with preambles and gaps), and {interface} says that its link carries \
                 {:.3}; lower the rate (--rate, --pps, --speed), or set transport.allow_above_link = true",
                offered_bps / 1e9,
                link as f64 / 1e9
            ))),
            _ => Ok(()),
        }
    }

    /// Bytes by which another layout makes frames longer on the wire, at most.
    pub(crate) fn growth(&self) -> usize {
        self.dialect.map_or(0, |dialect| dialect.growth)
    }

    /// Bytes on the wire of a frame of `bytes`: another layout or a VLAN tag may make it longer.
    pub fn wire_bytes(&self, bytes: usize) -> usize {
        let exchanged = self.middleware.declaring(|it| it.addresses).next();
        let tag = self.outer.as_ref().filter(|_| exchanged.is_some());
        bytes + self.growth() + tag.map_or(0, |outer| outer.translator(End::Workers).growth())
    }

    /// The interface of an end, looked at.
    pub(super) fn interface(&self, end: End) -> Result<&str> {
        let name = self.interface_name(end)?;
        if name.is_empty() {
            return Err(Error::Host(self.unnamed(end)));
        }
        safety::check(name, self.allow_default_route)?;
        Ok(name)
    }

    /// Refuses to send at an end whose interface, if it has one, carries the host's default route.
    pub(crate) fn guard(&self, end: End) -> Result<()> {
        match self.interface_at(end) {
            Some(name) => safety::check(&name, self.allow_default_route),
            None => Ok(()),
        }
    }

    /// What is wrong with an empty name of an end that this process opens, and what to do.
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
                "transport.interfaces names \"{name}\" for {} and for another end; each end of a cable is an interface of its own: {:?}",
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

    /// Ends of the cables of a run.
    pub fn ends(&self) -> &'static [End] {
        if self.has_server { &End::ALL } else { &End::LOWER }
    }

    /// Returns whether each queue of the workers' end may send by itself.
    pub(crate) fn sends_from_all(&self) -> bool {
        // What needs no privileges has no interfaces of its own: those may be given for another kind.
        let name = self.interfaces.get(End::Workers as usize).filter(|_| self.kind.capabilities().privileged);
        name.is_none_or(|name| of_interface::sends_from(Path::new("/sys/class/net"), name, self.queues))
    }

    /// Refuses frames that an interface does not take.
    pub(super) fn check_fit(&self, frame_max: usize, interface: &str, most: usize) -> Result<()> {
        if frame_max > most {
            return Err(Error::config(format!(
                "frames of up to {frame_max} bytes do not fit interface {interface}, which takes {most} this way; {}, or raise \
                 the MTU at both ends of the cable: ip link set {interface} mtu {}",
                self.smaller,
                frame_max - ETHERNET
            )));
        }
        Ok(())
    }
}

/// Bytes of an Ethernet header, which the MTU does not count.
const ETHERNET: usize = 14;

/// Most queues of an end.
pub(crate) const QUEUES_MAX: u32 = 64;

/// Number of queues; refused where it would have no effect.
fn queues(kind: &dyn Transport, section: &mut Section) -> Result<u32> {
    let queues = RealTime::queues(section)?;
    let place = section.place("queues");
    if !(1..=QUEUES_MAX).contains(&queues) {
        return Err(Error::config(format!("{place} = {queues}: 1 to {QUEUES_MAX} are possible")));
    }
    if queues > 1 {
        let cannot = format!(" = {queues}: kind = \"{}\" knows nothing of an interface's queues", kind.name());
        needs(kind, &place, &cannot, |kind| kind.has_queues())?;
    }
    Ok(queues)
}

/// Whether kernel or card stamps what the server receives. Refused where neither would.
fn stamps(kind: &dyn Transport, section: &mut Section) -> Result<Stamps> {
    let stamps = RealTime::stamps(section)?;
    if stamps != Stamps::None {
        let cannot = format!(": kind = \"{}\" does not tell when a frame arrived", kind.name());
        needs(kind, &section.place("stamps"), &cannot, |kind| kind.capabilities().stamps_received)?;
    }
    Ok(stamps)
}

/// How many frames there are to one that is stamped when it leaves. Refused where none would be.
fn sent_stamps(kind: &dyn Transport, section: &mut Section) -> Result<u32> {
    let every = RealTime::sent_stamps_every(section)?;
    if every > 0 {
        let cannot = format!(" = {every}: kind = \"{}\" does not tell when a frame left", kind.name());
        needs(kind, &section.place("sent_stamps_every"), &cannot, |kind| kind.capabilities().stamps_sent)?;
    }
    Ok(every)
}

/// Whether zero copy is requested. Refused where it would have no effect.
fn zero_copy(kind: &dyn Transport, section: &mut Section) -> Result<bool> {
    let zero_copy = RealTime::zero_copy(section)?;
    if zero_copy {
        let cannot = format!(" = true: kind = \"{}\" always copies", kind.name());
        needs(kind, &section.place("zero_copy"), &cannot, |kind| kind.capabilities().zero_copy)?;
    }
    Ok(zero_copy)
}

/// Whether the kernel is to divide messages. Refused where it would have no effect.
fn segmented(kind: &dyn Transport, section: &mut Section) -> Result<bool> {
    let segmented = RealTime::segmented(section)?;
    if segmented {
        let cannot = format!(" = true: kind = \"{}\" hands over every frame by itself", kind.name());
        needs(kind, &section.place("segmented"), &cannot, |kind| kind.capabilities().segments)?;
    }
    Ok(segmented)
}

/// Refuses what is asked at `place` of a kind that cannot do it, and names those that can.
fn needs(kind: &dyn Transport, place: &str, cannot: &str, can: impl Fn(&dyn Transport) -> bool) -> Result<()> {
    if can(kind) {
        return Ok(());
    }
    let able = TRANSPORTS.iter().filter(|kind| kind.capabilities().real_time && can(**kind)).map(|kind| kind.name());
    let able = able.collect::<Vec<_>>().join(" or ");
    Err(Error::config(format!("{place}{cannot}; leave it out, or use {able}")))
}

/// A device of another process gets frames as devices expect them, and with the profile's addresses, where the experiment does
/// not say otherwise.
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

/// What acts in virtual time at the edge of a device of another process, where there is one. What would change frames on wires
/// must not be left out silently where there are none.
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
            ("kind = \"af_xdp\"\nqueues = 0", "transport.queues = 0: 1 to 64"),
            ("kind = \"af_xdp\"\nqueues = 65", "transport.queues = 65: 1 to 64"),
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
