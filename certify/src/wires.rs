//! The bench of a device at the other end of interfaces: workers on one cable, the server on another.
//!
//! Frames have the addresses of the experiment's profile; other middleware of the experiment (taps, faults) works as in a run. What is no
//! IPv4 frame is none of the device's answers: hosts and switches send such frames by themselves.

use std::path::Path;
use std::sync::Arc;

use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, NS, SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{EachFrame, LONGER, ProbeBench, ProbeGround, STRANGERS};
use pktgen_realtime::clock::RunClock;
use pktgen_realtime::plan::Plan;
use pktgen_realtime::transport::middleware::{Outer, Site, wrap};
use pktgen_realtime::transport::{End, Wire};
use pktgen_wire::device::{GROWTH_MAX, Translator};

/// The device is silent when no frame has come for so long.
const QUIET: Time = 20 * MS;
/// How long a late worker stays away.
const LATE: Time = 500 * MS;
/// The most frames that are taken at once.
const BURST: usize = 64;
/// A device that sends for so long is not silent.
const FLOOD: Time = 5 * SECOND;
/// Where the type of a frame is, and IPv4.
const TYPE: std::ops::Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];

/// A device at the other end of interfaces.
pub struct WireBench {
    wires: Vec<Box<dyn Wire>>,
    /// Gives addresses of the profile to frames that are no UDP over IPv4, which middleware leaves as they are; and room for one.
    odd: Vec<Translator>,
    room: Vec<u8>,
    clock: RunClock,
    /// Frames that were lost before the first probe.
    lost_before: u64,
}

impl WireBench {
    /// Opens the interfaces of an experiment; files of its middleware go into `folder`.
    pub fn open(plan: &Plan, folder: &Path) -> Result<(Self, ProbeGround)> {
        let (parts, transport) = (&plan.parts, &plan.spec.transport);
        let has_server = parts.topology.servers().next().is_some();
        let can = transport.kind.capabilities();
        if !can.real_time || can.own_time || can.in_process || !can.heads {
            return Err(Error::config(format!(
                "transport.kind = \"{}\": a device is certified on interfaces (af_packet, af_xdp), or in virtual time (virtual)",
                transport.kind.name()
            )));
        }
        let ends = if has_server { vec![End::Workers, End::Server] } else { vec![End::Workers] };
        let frame_max = transport.wire_bytes(parts.frame_bytes) + LONGER;
        let outer = transport.outer.as_deref().map(|own| {
            Arc::new(Outer { addresses: own.addresses.clone().with_strangers(STRANGERS), format: own.format })
        });
        let odd = ends.iter().flat_map(|end| outer.as_ref().map(|outer| outer.translator(*end))).collect();
        let clock = RunClock::start();
        let site = Site {
            clock: clock.clone(),
            seed: Seed(0),
            frame_max,
            folder,
            traffic: parts.traffic(),
            outer,
            // Clauses write frames as devices expect them.
            dialect: None,
        };
        let opened = transport.kind.open(transport, &ends, frame_max)?;
        let around = |(end, ports): (&End, pktgen_realtime::transport::Ports)| {
            wrap(&transport.middleware, *end, &site, ports.whole())
        };
        let wires = ends.iter().zip(opened).map(around).collect::<Result<Vec<_>>>()?;
        let ground = ProbeGround {
            workers: parts.facts.workers.clone(),
            port_of: vec![0; parts.facts.workers.len()],
            server: has_server.then_some(1),
            frame_bytes: frame_max - LONGER,
            late: LATE,
            keys: pktgen_core::config::Document::parse(&plan.spec.config, "the resolved experiment")?,
        };
        let mut bench = WireBench { wires, odd, room: vec![0; frame_max + GROWTH_MAX], clock, lost_before: 0 };
        bench.lost_before = bench.dropped();
        Ok((bench, ground))
    }

    fn dropped(&mut self) -> u64 {
        let counters = self.wires.iter_mut().map(|wire| wire.counters());
        counters.map(|own| own.receive_dropped + own.send_dropped).sum()
    }

    /// Takes what has come; returns how many frames.
    fn take(&mut self, each: EachFrame) -> Result<usize> {
        let (mut found, now) = (0, self.clock.now());
        for (port, wire) in self.wires.iter_mut().enumerate() {
            wire.receive(BURST, &mut |arrival| {
                let kind = arrival.bytes.get(TYPE);
                if kind == Some(&IPV4[..]) && !arrival.lost {
                    found += 1;
                    each(now, port as u16, arrival.bytes);
                }
            })?;
        }
        Ok(found)
    }

    /// Waits a little for frames.
    fn doze(&mut self, span: Time) -> Result<()> {
        // With two cables none is waited for long, since the other may have something.
        let most = if self.wires.len() > 1 { MS / 4 } else { QUIET };
        self.wires[0].wait((span.clamp(0, most) / NS) as u64)
    }
}

impl ProbeBench for WireBench {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        let WireBench { wires, odd, room, .. } = self;
        // What middleware gives addresses goes through it as it is.
        let own = odd.get(usize::from(port)).filter(|own| own.outward(bytes, room).is_none());
        let len = own.and_then(|own| own.outward_odd(bytes, room));
        let bytes = len.map_or(bytes, |len| &room[..len]);
        let wire = &mut wires[usize::from(port)];
        // A wire that takes nothing for long returns an error.
        while wire.send(&[bytes])?.taken == 0 {}
        wire.flush(1_000_000)
    }

    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.clock.now() + span;
        loop {
            self.take(each)?;
            let now = self.clock.now();
            if now >= until {
                return Ok(());
            }
            self.doze(until - now)?;
        }
    }

    fn settle(&mut self, each: EachFrame) -> Result<()> {
        let begun = self.clock.now();
        let mut heard = begun;
        loop {
            let found = self.take(each)?;
            let now = self.clock.now();
            if found > 0 {
                heard = now;
            }
            if now - heard >= QUIET || now - begun >= FLOOD {
                return Ok(());
            }
            self.doze(QUIET - (now - heard))?;
        }
    }

    fn restart(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn lost(&mut self) -> Result<u64> {
        Ok(self.dropped() - self.lost_before)
    }
}
