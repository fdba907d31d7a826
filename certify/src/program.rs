//! The bench for a program in virtual time: one device of an experiment, recreated on request.

use std::collections::VecDeque;

use pktgen_core::time::{NEVER, NS, Time};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{ClauseSuite, EachFrame, ProbeBench, ProbeGround, ProbeWitness};
use pktgen_engine::dialect::Dialect;
use pktgen_engine::driver::admit::admit;
use pktgen_engine::endpoint::Facts;
use pktgen_engine::frame::Pool;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::device::Device;
use pktgen_realtime::plan::Plan;

use crate::ground::{at_node, links, only_device};

/// Time between two input frames.
const APART: Time = 10 * NS;

/// A device in virtual time.
pub struct ProgramBench<'a> {
    make: Box<dyn Fn() -> Result<Plan> + 'a>,
    suite: &'static ClauseSuite,
    rig: Rig,
    now: Time,
}

/// One device, and frames in transit to the ends of its links.
struct Rig {
    device: Device,
    facts: Facts,
    pool: Pool,
    out: Outbox,
    touched: Vec<u16>,
    under_way: VecDeque<(Time, u16, Vec<u8>)>,
    /// Writes frames in the layout of the clauses, if it is not ours; and a buffer for one.
    dialect: Option<Box<dyn Dialect>>,
    written: Vec<u8>,
}

impl<'a> ProgramBench<'a> {
    /// Creates the device of an experiment in virtual time, with the facts for a suite's clauses; `make` plans the experiment.
    pub fn new(
        suite: &'static ClauseSuite,
        late: Time,
        make: impl Fn() -> Result<Plan> + 'a,
    ) -> Result<(Self, ProbeGround)> {
        let plan = make()?;
        let ground = Self::ground(&plan, late)?;
        let rig = Rig::of(plan, suite)?;
        Ok((ProgramBench { make: Box::new(make), suite, rig, now: 0 }, ground))
    }

    /// Returns the facts for a suite's clauses, without a bench.
    pub fn ground(plan: &Plan, late: Time) -> Result<ProbeGround> {
        Ok(ProbeGround { links: links(plan)?, ..at_node(plan, late)? })
    }
}

impl Rig {
    fn of(plan: Plan, suite: &ClauseSuite) -> Result<Self> {
        let traffic = plan.parts.traffic();
        let own =
            |word| plan.spec.catalogue.dialects.iter().find(move |it| it.word == word && it.format == traffic.format);
        let dialect = suite.layout.and_then(own).map_or(Ok(None), |kind| (kind.open)(&traffic))?;
        let node = only_device(&plan.parts.topology)?;
        let device = plan.parts.devices.into_iter().nth(node as usize).flatten();
        let device = device.ok_or_else(|| Error::config("the experiment has no device to certify"))?;
        Ok(Rig {
            device,
            facts: plan.parts.facts,
            pool: Pool::new(plan.parts.frame_bytes, 256),
            out: Outbox::default(),
            touched: Vec::new(),
            under_way: VecDeque::new(),
            dialect,
            written: vec![0; plan.parts.frame_bytes],
        })
    }

    fn frame_in(&mut self, t: Time, bytes: &[u8]) {
        let read = self.dialect.as_mut().and_then(|dialect| dialect.inward(bytes, t, &mut self.written));
        let bytes = read.map_or(bytes, |len| &self.written[..len]);
        // A device in real time also ignores frames that are not of the system.
        let Some(frame) = admit(bytes, &mut self.pool, &self.facts) else { return };
        let frame = pktgen_engine::frame::Frame { t, ..frame };
        let Rig { device, pool, out, touched, .. } = self;
        device.call(pool, out, touched, |program, context| program.on_burst(&[frame], context));
        self.collect();
    }

    /// Collects the frames that left the device.
    fn collect(&mut self) {
        self.touched.clear();
        self.device.books.rows.clear();
        for (link, frame) in self.out.frames.drain(..) {
            let port = self.device.ports.iter().position(|port| port.link == link).unwrap_or_default() as u16;
            let at = self.under_way.partition_point(|(t, ..)| *t <= frame.t);
            let bytes = self.pool.frame(&frame);
            let written = self.dialect.as_mut().and_then(|dialect| dialect.outward(bytes, &mut self.written));
            let bytes = written.map_or(bytes, |len| &self.written[..len]).to_vec();
            self.under_way.insert(at, (frame.t, port, bytes));
            self.pool.release(frame.buffer);
        }
    }

    /// Returns the time of the device's next spontaneous action.
    fn next(&self) -> Time {
        let ports = self.device.ports.iter().map(|port| port.wake());
        ports.min().unwrap_or(NEVER).min(self.device.program.next_wake())
    }

    /// Performs the next event if it is due by `until`; frames at the ends of their links go to `each`. Returns its time.
    fn step(&mut self, until: Time, each: EachFrame) -> Option<Time> {
        let arrives = self.under_way.front().map_or(NEVER, |(t, ..)| *t);
        let t = self.next().min(arrives);
        if t > until || t == NEVER {
            return None;
        }
        if arrives == t {
            if let Some((t, port, bytes)) = self.under_way.pop_front() {
                each(t, port, &bytes);
            }
            return Some(t);
        }
        let Rig { device, pool, out, touched, .. } = self;
        for port in device.ports.iter_mut().filter(|port| port.wake() <= t) {
            port.advance(t, pool, &mut device.books, out);
        }
        if device.program.next_wake() <= t {
            device.call(pool, out, touched, |program, context| program.on_timer(t, context));
        }
        self.collect();
        Some(t)
    }
}

impl ProbeWitness for ProgramBench<'_> {}

impl ProbeBench for ProgramBench<'_> {
    fn now(&mut self) -> Time {
        self.now
    }

    fn frame_in(&mut self, _port: u16, bytes: &[u8]) -> Result<()> {
        // What the device does by itself before comes before; nothing of that reaches a port's far end meanwhile that is not kept.
        self.rig.frame_in(self.now, bytes);
        self.now += APART;
        Ok(())
    }

    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.now + span;
        while self.rig.step(until, each).is_some() {}
        self.now = until;
        Ok(())
    }

    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        let mut came = false;
        while !came
            && let Some(t) = self.rig.step(until, &mut |t, port, bytes| {
                came = true;
                each(t, port, bytes);
            })
        {
            self.now = self.now.max(t);
        }
        if !came {
            self.now = self.now.max(until);
        }
        Ok(())
    }

    fn settle(&mut self, each: EachFrame) -> Result<()> {
        while let Some(t) = self.rig.step(NEVER - 1, each) {
            self.now = self.now.max(t);
        }
        Ok(())
    }

    fn restart(&mut self, _repeat: u32) -> Result<bool> {
        self.rig = Rig::of((self.make)()?, self.suite)?;
        Ok(true)
    }
}
