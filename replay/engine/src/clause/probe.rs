//! A clause being carried out: frames in, frames out, all kept as evidence.

use std::collections::BTreeMap;

use pktgen_core::seed::{Seed, Stream, unit};
use pktgen_core::time::{MS, Time};

use super::{ClauseBreach, ProbeBench, ProbeFrame, ProbeGround, ProbeResult, ProbeStop};

/// State left by earlier probes in a device that was not restarted: numbers under keys of the system's clauses.
pub type ProbeMemory = BTreeMap<u64, u64>;

/// Step in which expected frames are awaited.
const PAUSE: Time = 10 * MS;

/// A clause being carried out.
pub struct ClauseProbe<'a> {
    /// The known properties of the device.
    pub ground: &'a ProbeGround,
    /// State left by earlier probes.
    pub memory: &'a mut ProbeMemory,
    bench: &'a mut dyn ProbeBench,
    draws: Stream,
    log: Vec<ProbeFrame>,
    /// Time at which the last frame had gone in.
    last_sent: Time,
    lost: u64,
}

impl<'a> ClauseProbe<'a> {
    /// Starts repeat `repeat` of the clause `clause`, with the given draw: undecidable repeats are drawn again.
    pub fn new(
        ground: &'a ProbeGround,
        memory: &'a mut ProbeMemory,
        bench: &'a mut dyn ProbeBench,
        seed: Seed,
        (clause, repeat, draw): (&str, u32, u32),
    ) -> ProbeResult<Self> {
        let lost = bench.lost()?;
        let draws = seed.stream(clause, u64::from(repeat), u64::from(draw));
        Ok(ClauseProbe { ground, memory, bench, draws, log: Vec::new(), last_sent: 0, lost })
    }

    /// Returns 32 random bits.
    pub fn bits(&mut self) -> u32 {
        (unit(&mut self.draws) * 4_294_967_296.0) as u32
    }

    /// Returns a random number below `n`, which must be above 0.
    pub fn below(&mut self, n: usize) -> usize {
        (unit(&mut self.draws) * n as f64) as usize
    }

    /// Returns the items in random order.
    pub fn shuffled<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for i in (1..all.len()).rev() {
            let other = self.below(i + 1);
            all.swap(i, other);
        }
        all
    }

    /// Returns the numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        self.shuffled(&(0..count).collect::<Vec<_>>())
    }

    /// Returns the numbers below `count`, which must be above 0, in random order, with the last one separate.
    pub fn order_and_last(&mut self, count: usize) -> (Vec<usize>, usize) {
        let mut order = self.order(count);
        let last = order.pop().unwrap_or_default();
        (order, last)
    }

    /// Delivers a frame of this worker to the device.
    pub fn send(&mut self, worker: u32, frame: &[u8]) -> ProbeResult<()> {
        let port = self.ground.port_towards(worker);
        self.send_to(port, frame)
    }

    /// Delivers a frame to a port of the device.
    pub fn send_to(&mut self, port: u16, frame: &[u8]) -> ProbeResult<()> {
        let t = self.bench.arrival();
        self.bench.frame_in(port, frame)?;
        self.last_sent = self.bench.now();
        self.log.push(ProbeFrame { t, port, inward: true, bytes: frame.to_vec() });
        Ok(())
    }

    /// Returns the time at which the last frame had gone in.
    pub fn last_sent(&self) -> Time {
        self.last_sent
    }

    /// Returns the time.
    pub fn now(&mut self) -> Time {
        self.bench.now()
    }

    /// Returns all frames that result from those sent.
    pub fn settle(&mut self) -> ProbeResult<Vec<ProbeFrame>> {
        self.out(|bench, each| bench.settle(each))
    }

    /// Like [`settle`](Self::settle), but waits for a slow device until there are enough frames, within the ground's patience.
    pub fn expect(&mut self, is_enough: impl Fn(&[ProbeFrame]) -> bool) -> ProbeResult<Vec<ProbeFrame>> {
        let (mut out, mut waited) = (self.settle()?, 0);
        while !is_enough(&out) && waited < self.ground.patience {
            let step = (self.ground.patience - waited).min(PAUSE);
            out.extend(self.pass(step)?);
            waited += step;
            if is_enough(&out) {
                out.extend(self.settle()?);
            }
        }
        Ok(out)
    }

    /// Returns all frames that leave during `span`.
    pub fn pass(&mut self, span: Time) -> ProbeResult<Vec<ProbeFrame>> {
        self.out(|bench, each| bench.pass(span, each))
    }

    fn out(
        &mut self,
        act: impl FnOnce(&mut dyn ProbeBench, super::EachFrame) -> pktgen_core::Result<()>,
    ) -> ProbeResult<Vec<ProbeFrame>> {
        let from = self.log.len();
        let log = &mut self.log;
        let each = &mut |t, port, bytes: &[u8]| {
            log.push(ProbeFrame { t, port, inward: false, bytes: bytes.to_vec() });
        };
        act(self.bench, each)?;
        if let Some(why) = self.bench.ended() {
            return Err(ClauseBreach::stop("the device", "runs on", why));
        }
        let lost = self.bench.lost()? - self.lost;
        if lost > 0 {
            return Err(ProbeStop::Undecidable(format!(
                "{lost} frames were lost between the device and its cables' ends"
            )));
        }
        Ok(self.log[from..].to_vec())
    }

    /// Checks that nothing results from the frames sent.
    pub fn stays_silent(&mut self, after: &str) -> ProbeResult<()> {
        let out = self.settle()?;
        match out.first() {
            None => Ok(()),
            Some(frame) => Err(ClauseBreach::stop(
                format!("frames after {after}"),
                "none",
                format!("{}, the first of {} bytes at port {}", out.len(), frame.bytes.len(), frame.port),
            )),
        }
    }

    /// Returns all frames so far, in order.
    pub fn log(&self) -> &[ProbeFrame] {
        &self.log
    }

    /// Returns the same, and ends.
    pub fn into_log(self) -> Vec<ProbeFrame> {
        self.log
    }
}
