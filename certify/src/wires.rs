//! The bench of a device at the other end of interfaces: workers on one cable, the server on another.
//!
//! Frames have the addresses of the experiment's profile; other middleware of the experiment (taps, faults) works as in a run. What is no
//! IPv4 frame is none of the device's answers, nor is an IPv4 frame to a group of the link (224.0.0.0/24) or to 255.255.255.255:
//! hosts, switches and routers send such frames by themselves. A device that the experiment starts is started anew for every clause, and
//! after it ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pktgen_core::config::{Document, Value};
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, NS, Time, US};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{ClauseBreach, EachFrame, LONGER, ProbeBench, ProbeFrame, ProbeGround, ProbeWitness};
use pktgen_realtime::clock::RunClock;
use pktgen_realtime::launch::LaunchedDevice;
use pktgen_realtime::plan::Plan;
use pktgen_realtime::transport::middleware::{Outer, Site, wrap};
use pktgen_realtime::transport::{End, Ports, Stamps, TransportPlan, Wire};
use pktgen_wire::device::{GROWTH_MAX, PlaceText};
use pktgen_wire::wire::frame::{SERVER_IP, group_of, mac_of, source_ip, target_ip, worker_of};

use crate::ground::{strangers, wired};
use crate::link::{is_ipv4, is_of_link};
use crate::settings::CertifySettings;

/// Frames of the device's output in whose time one would have come, if any waited.
const FRAMES_OF_SILENCE: Time = 3;

/// The most frames that are taken at once.
const BURST: usize = 64;
/// Before a deadline so near the bench stays awake.
const AWAKE: Time = 100 * US;

/// Starts the device of a plan, if the experiment does.
type Start<'a> = dyn Fn(&Plan) -> Result<Option<LaunchedDevice>> + 'a;

/// The middleware that benches do without.
const TAP: &str = "tap";

/// The time of a stamp of the kernel, which is of the wall clock.
fn since(clock: &RunClock, stamp_ns: u64) -> Time {
    (stamp_ns as Time - clock.anchor_unix_ns() as Time).saturating_mul(NS)
}

/// A device at the other end of interfaces.
pub struct WireBench<'a> {
    /// Before the device, so that they are closed first.
    wires: Vec<Box<dyn Wire>>,
    device: Option<LaunchedDevice>,
    /// The experiment starts it.
    is_launched: bool,
    /// Nothing was sent to the device since it was started.
    is_new: bool,
    plan: &'a Plan,
    /// As the experiment has it, with stamps and without a tap: the evidence is the bench's own.
    transport: TransportPlan,
    /// Frames have other addresses on the cables.
    outer: Option<Arc<Outer>>,
    folder: &'a Path,
    start: Box<Start<'a>>,
    settings: CertifySettings,
    /// The device is silent when nothing has come for so long: an output that takes longer for a frame is not silent yet.
    quiet: Time,
    clock: RunClock,
    /// Nothing had come that was not taken at this instant, for each wire; and whether nothing was sent since.
    looked: Vec<(Time, bool)>,
    /// Frames that were lost before the first probe.
    lost_before: u64,
    /// Room for a frame with an address that the profile does not have.
    room: Vec<u8>,
    /// Frames without the VLAN tag of the profile, which are none of the device's answers.
    of_other_vlan: u64,
}

/// A frame that middleware left as it was on the cable, because one of its addresses is not of this run, with ours in place of the others.
/// None if it is of another VLAN.
fn readable<'a>(bytes: &'a [u8], outer: &Outer, end: End, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let is_ours =
        |ip| ip == SERVER_IP || group_of(ip).is_some() || worker_of(ip, outer.addresses.workers.len()).is_some();
    if is_ours(source_ip(bytes)) && is_ours(target_ip(bytes)) {
        return Some(bytes);
    }
    let translator = outer.translator(end);
    if translator.is_of_other_vlan(bytes) {
        return None;
    }
    room.resize(bytes.len(), 0);
    Some(translator.inward_odd(bytes, room).map_or(bytes, |len| &room[..len]))
}

impl<'a> WireBench<'a> {
    /// Starts the device, if that is to be done, and opens the interfaces of an experiment; files of its middleware go into `folder`.
    pub fn open(
        plan: &'a Plan,
        folder: &'a Path,
        settings: CertifySettings,
        start: impl Fn(&Plan) -> Result<Option<LaunchedDevice>> + 'a,
    ) -> Result<(Self, ProbeGround)> {
        let transport = &plan.spec.transport;
        let can = transport.kind.capabilities();
        if !can.real_time || can.own_time || can.in_process || !can.heads {
            return Err(Error::config(format!(
                "transport.kind = \"{}\": a device is certified on interfaces (af_packet, af_xdp), or in virtual time (virtual)",
                transport.kind.name()
            )));
        }
        let (start, clock) = (Box::new(start), RunClock::start());
        let mut transport = transport.clone();
        transport.middleware = transport.middleware.without(TAP);
        if transport.stamps == Stamps::None && can.stamps_received {
            transport.stamps = Stamps::Kernel;
        }
        let readdressed = Document::parse(&plan.spec.config, "the resolved experiment")?.get("transport.readdress")
            == Some(&Value::Bool(true));
        let outer = strangers(transport.outer.as_deref());
        let ground = wired(plan, &settings)?;
        let frame = ground.busy(ground.frame_bytes).unwrap_or_default();
        let mut bench = WireBench {
            wires: Vec::new(),
            device: None,
            is_launched: false,
            is_new: true,
            plan,
            outer: outer.filter(|_| readdressed),
            transport,
            folder,
            start,
            settings,
            quiet: settings.silence.ps().max(frame.saturating_mul(FRAMES_OF_SILENCE)),
            clock,
            looked: Vec::new(),
            lost_before: 0,
            room: Vec::new(),
            of_other_vlan: 0,
        };
        bench.begin()?;
        Ok((bench, ground))
    }

    /// Starts the device, and opens the interfaces, which may be those of its cables.
    fn begin(&mut self) -> Result<()> {
        let (parts, transport) = (&self.plan.parts, &self.transport);
        self.device = (self.start)(self.plan)?;
        self.is_launched = self.device.is_some();
        let has_server = parts.topology.servers().next().is_some();
        let ends = if has_server { vec![End::Workers, End::Server] } else { vec![End::Workers] };
        let frame_max = transport.wire_bytes(parts.frame_bytes) + LONGER;
        let site = Site {
            clock: self.clock.clone(),
            seed: Seed(0),
            frame_max,
            folder: self.folder,
            traffic: parts.traffic(),
            outer: strangers(transport.outer.as_deref()),
            // Clauses write frames as devices expect them.
            dialect: None,
        };
        let opened = transport.kind.open(transport, &ends, frame_max)?;
        let around = |(end, ports): (&End, Ports)| wrap(&transport.middleware, *end, &site, ports.whole());
        self.wires = ends.iter().zip(opened).map(around).collect::<Result<Vec<_>>>()?;
        self.looked = vec![(self.clock.now(), true); ends.len()];
        self.lost_before = self.dropped();
        self.is_new = true;
        Ok(())
    }

    fn dropped(&mut self) -> u64 {
        let counters = self.wires.iter_mut().map(|wire| wire.counters());
        counters.map(|own| own.receive_dropped + own.send_dropped).sum()
    }

    /// Takes what has come; returns how many frames. Times are the kernel's stamps. Where there are none, they are those at which the look
    /// began (also of frames that came during it), so that what was taken late does not seem to have left late, and, of the first look after a frame was sent, of the one
    /// before: what was there already may have left before that. `as_found`, times are those after a frame was found, so that nothing comes before it was sent.
    fn take(&mut self, as_found: bool, each: EachFrame) -> Result<usize> {
        let (mut found, begun) = (0, self.clock.now());
        let (clock, is_kernels) = (&self.clock, self.transport.stamps != Stamps::Card);
        let (outer, room, of_other_vlan) = (self.outer.as_deref(), &mut self.room, &mut self.of_other_vlan);
        for (port, (wire, looked)) in self.wires.iter_mut().zip(&mut self.looked).enumerate() {
            let (floor, is_first) = (looked.0, !looked.1);
            let otherwise = if is_first { floor } else { begun };
            // A call may take the frames of one of several queues.
            let mut all = 0;
            loop {
                let mut now = None;
                let frames = wire
                    .receive(BURST - all, &mut |arrival| {
                        let t = match arrival.stamp_ns.filter(|_| is_kernels && !as_found) {
                            // A wall clock that was set meanwhile does not put a frame where it cannot have been.
                            Some(stamp) => since(clock, stamp).clamp(floor, begun.max(floor)),
                            None if as_found => *now.get_or_insert_with(|| clock.now()),
                            None => otherwise,
                        };
                        let bytes = match (outer, [End::Workers, End::Server].get(port)) {
                            (Some(outer), Some(end)) => readable(arrival.bytes, outer, *end, room),
                            _ => Some(arrival.bytes),
                        };
                        let Some(bytes) = bytes else {
                            *of_other_vlan += 1;
                            return;
                        };
                        if is_ipv4(bytes) && !is_of_link(bytes) && !arrival.lost {
                            found += 1;
                            each(t, port as u16, bytes);
                        }
                    })?
                    .frames;
                all += frames;
                if frames == 0 || all == BURST {
                    break;
                }
            }
            // After a full burst, more may have waited.
            *looked = (if all < BURST { begun } else { floor }, true);
        }
        Ok(found)
    }

    /// Waits a little for frames.
    fn doze(&mut self, span: Time) -> Result<()> {
        // With two cables none is waited for long, since the other may have something.
        let most = if self.wires.len() > 1 { MS / 4 } else { self.quiet };
        self.wires[0].wait((span.clamp(0, most) / NS) as u64)
    }
}

impl ProbeWitness for WireBench<'_> {
    fn ended(&mut self) -> Option<String> {
        self.device.as_ref().and_then(LaunchedDevice::death)
    }

    fn counted(&mut self) -> Option<BTreeMap<String, u64>> {
        // In this order: the interfaces go with the device, which is started anew before the next clause.
        self.is_new = false;
        let device = self.device.take()?;
        self.wires.clear();
        device.into_counts()
    }

    fn on_cables(&self, breach: ClauseBreach) -> ClauseBreach {
        let Some(outer) = &self.outer else { return breach };
        let translator = outer.translator(End::Workers);
        let is_of = |name: &str| breach.what.contains(name);
        let place = PlaceText {
            is_port: is_of("source port") || is_of("destination port"),
            is_ethernet: is_of("Ethernet"),
            comes: is_of("source"),
        };
        let [expected, mut observed] = translator.outer_texts([&breach.expected, &breach.observed], place);
        if self.of_other_vlan > 0 {
            let how = match outer.addresses.vlan {
                0 => "with a VLAN tag, and the profile has none".to_owned(),
                vlan => format!("in another VLAN than the profile's {vlan}, or in none"),
            };
            observed += &format!("; {} frames came so far {how}: they are no answers", self.of_other_vlan);
        }
        ClauseBreach { expected, observed, ..breach }
    }

    fn on_cable(&self, frame: &ProbeFrame) -> Option<Vec<u8>> {
        let end = [End::Workers, End::Server].get(usize::from(frame.port))?;
        let translator = self.outer.as_ref()?.translator(if frame.inward { *end } else { end.opposite() });
        let mut room = vec![0; frame.bytes.len() + GROWTH_MAX];
        let len = match translator.outward(&frame.bytes, &mut room) {
            None => translator.outward_odd(&frame.bytes, &mut room)?,
            Some(len) => len,
        };
        room.truncate(len);
        // An Ethernet address that is not that of its host was the same on the cable.
        let [from, to] = [source_ip(&frame.bytes), target_ip(&frame.bytes)];
        for (at, ip) in [(0, to), (6, from)].into_iter().filter(|_| from != 0) {
            if let Some(address) = frame.bytes.get(at..at + 6).filter(|address| **address != mac_of(ip)) {
                // That of the profile stands for ours.
                let address = if *address == room[at..at + 6] { &mac_of(ip) } else { address };
                room[at..at + 6].copy_from_slice(address);
            }
        }
        Some(room)
    }
}

impl ProbeBench for WireBench<'_> {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.is_new = false;
        self.looked.iter_mut().for_each(|looked| looked.1 = false);
        let wire = &mut self.wires[usize::from(port)];
        // A wire that takes nothing for long returns an error.
        while wire.send(&[bytes])?.taken == 0 {}
        wire.flush(1_000_000)
    }

    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.clock.now() + span;
        loop {
            self.take(false, each)?;
            let now = self.clock.now();
            if now >= until {
                return Ok(());
            }
            self.doze(until - now)?;
        }
    }

    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        loop {
            let found = self.take(true, each)?;
            let now = self.clock.now();
            if found > 0 || now >= until {
                return Ok(());
            }
            // A sleep ends late: short spans are waited for awake.
            if until - now > AWAKE {
                self.doze(until - now - AWAKE)?;
            }
        }
    }

    fn settle(&mut self, each: EachFrame) -> Result<()> {
        let (quiet, flood) = (self.quiet, self.settings.flood.ps());
        let begun = self.clock.now();
        let mut heard = begun;
        loop {
            let found = self.take(false, each)?;
            let now = self.clock.now();
            if found > 0 {
                heard = now;
            }
            if now - heard >= quiet || now - begun >= flood {
                return Ok(());
            }
            self.doze(quiet - (now - heard))?;
        }
    }

    fn restart(&mut self, repeat: u32) -> Result<bool> {
        if !self.is_launched || repeat > 0 && self.ended().is_none() {
            return Ok(false);
        }
        if !self.is_new {
            // In this order: the interfaces go with the device.
            self.wires.clear();
            self.device = None;
            self.begin()?;
        }
        Ok(true)
    }

    fn lost(&mut self) -> Result<u64> {
        Ok(self.dropped() - self.lost_before)
    }
}
