//! An output port in virtual time: a queue, the way around it, and the link behind both.
//!
//! The link transmits one frame at a time; frames that go around the queue are served first (our
//! choice; the paper says only that they have no queue interaction, §7). The limits of OLAF's card
//! are here because they are timing: dequeue efficiency, block time (§12.1: 4 ns per 64-byte
//! block) and engine rate (§7: 50 Gbit/s). All are neutral by default.

use std::collections::VecDeque;

use pktgen_core::config::{Section, settings, spans};
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::{NEVER, SECOND, Serialiser, Time};
use pktgen_core::units::{Rate, Size, Span};
use pktgen_core::{Error, Result, prefetch};
use pktgen_wire::wire::update::Status;

use super::books::Books;
use super::context::Outbox;
use super::meter::Meter;
use super::queue::Queue;
use crate::frame::{Frame, Pool};

/// Timing of a port.
#[derive(Debug, Clone)]
pub struct PortTiming {
    /// Line rate.
    pub rate: Rate,
    /// Overhead of each frame beyond its bytes.
    pub overhead: Size,
    /// Propagation delay.
    pub delay: Time,
    /// Share of the line rate that the dequeue side reaches, in millionths.
    pub efficiency_ppm: u64,
    /// Least time that each 64-byte block of a frame occupies the output.
    pub block_time: Time,
    /// Idle time of the output after each frame.
    pub packet_gap: Time,
    /// Rate at which the engine takes frames in; 0 for no limit.
    pub engine_rate: Rate,
    /// Frames that may wait for the engine.
    pub engine_buffer: usize,
    /// Frames that may wait to go around the queue.
    pub bypass_slots: usize,
}

impl PortTiming {
    /// A plain link.
    pub fn link(rate: Rate, overhead: Size, delay: Time) -> Self {
        PortTiming {
            rate,
            overhead,
            delay,
            efficiency_ppm: 1_000_000,
            block_time: 0,
            packet_gap: 0,
            engine_rate: Rate::from_bps(0),
            engine_buffer: 0,
            bypass_slots: 1024,
        }
    }

    /// Reads the port settings of a device's section; rate and delay are those of links.
    pub fn read(section: &mut Section, bypass_slots: u32) -> Result<Self> {
        let PortSettings {
            dequeue_efficiency: efficiency,
            block_time,
            packet_gap,
            engine_rate,
            engine_buffer,
            bypass_slots,
        } = PortSettings::read(section, bypass_slots)?;
        if engine_rate.is_some_and(|rate| rate.bps() == 0) {
            return Err(Error::config(format!(
                "{}: an engine that accepts nothing; give a rate above 0, or leave it out for one without a limit",
                section.place("engine_rate")
            )));
        }
        Ok(PortTiming {
            efficiency_ppm: (efficiency * 1e6).round() as u64,
            block_time: block_time.ps(),
            packet_gap: packet_gap.ps(),
            engine_rate: engine_rate.unwrap_or_default(),
            engine_buffer: engine_buffer as usize,
            bypass_slots: bypass_slots as usize,
            ..PortTiming::link(Rate::default(), Size::default(), 0)
        })
    }
}

settings! {
    /// Port settings of a device's section.
    pub struct PortSettings(bypass_slots: u32) {
        /// Share of the line rate that the output reaches.
        dequeue_efficiency: f64 = 1.0 in 0.001..=1.0, "it is kept in millionths";
        /// Minimum output time per 64-byte block of a frame.
        block_time: Span = "0ns" in spans(..=SECOND);
        /// Idle time of the output after each frame.
        packet_gap: Span = "0ns" in spans(..=SECOND);
        /// Rate at which the device's engine accepts frames; unlimited if not set.
        engine_rate: Option<Rate>;
        /// Frames that the engine's input buffer can hold.
        engine_buffer: u32 = 16;
        /// Frames that the bypass around the queue can hold.
        bypass_slots: u32 = bypass_slots said "1024, of synchronous workers 1048576";
    }
}

/// The engine's input: frames are accepted at a rate.
struct Engine {
    rate: Serialiser,
    free_at: Time,
    buffer: usize,
    pending: VecDeque<Frame>,
}

/// What few ports have.
#[derive(Default)]
struct Extras {
    engine: Option<Engine>,
    /// The slower output side.
    service: Option<Serialiser>,
    block_time: Time,
    packet_gap: Time,
    /// Load of the link, if it is measured.
    meter: Option<Meter>,
}

impl Extras {
    /// Records a frame that the link carries; returns how long the output is busy with it.
    #[inline]
    fn carry(&mut self, frame: &Frame, on_wire: Time) -> Time {
        if let Some(meter) = &mut self.meter {
            meter.carried(frame);
        }
        let bytes = u32::from(frame.len);
        let service = self.service.as_mut().map_or(on_wire, |s| s.take(bytes));
        service.max(Time::from(bytes.div_ceil(64)) * self.block_time) + self.packet_gap
    }
}

/// A port. What each frame touches is in two cache lines: a network may have a hundred thousand ports.
#[repr(C, align(64))]
pub struct Port {
    /// End of the current transmission; [`NEVER`] if there is none.
    busy_until: Time,
    queue: Box<dyn Queue>,
    bypass: VecDeque<Frame>,
    queue_locked: bool,
    /// The link behind it, as an index into the topology's links.
    pub link: u32,
    wire: Serialiser,
    delay: Time,
    /// None of a plain port.
    extras: Option<Box<Extras>>,
    bypass_slots: usize,
}

impl Port {
    /// A port on `link` with this queue and timing.
    pub fn new(link: u32, queue: Box<dyn Queue>, timing: &PortTiming) -> Self {
        let slowed = u128::from(timing.rate.bps()) * u128::from(timing.efficiency_ppm) / 1_000_000;
        let service = (timing.efficiency_ppm != 1_000_000)
            .then(|| Serialiser::new(Rate::from_bps((slowed as u64).max(1)), timing.overhead));
        let engine = (timing.engine_rate.bps() > 0).then(|| Engine {
            rate: Serialiser::new(timing.engine_rate, Size::default()),
            free_at: 0,
            buffer: timing.engine_buffer,
            pending: VecDeque::new(),
        });
        let PortTiming { block_time, packet_gap, .. } = *timing;
        let is_plain = service.is_none() && engine.is_none() && block_time == 0 && packet_gap == 0;
        let extras = (!is_plain).then(|| Box::new(Extras { engine, service, block_time, packet_gap, meter: None }));
        Port {
            link,
            queue,
            bypass: VecDeque::new(),
            bypass_slots: timing.bypass_slots,
            wire: Serialiser::new(timing.rate, timing.overhead),
            delay: timing.delay,
            extras,
            busy_until: NEVER,
            queue_locked: false,
        }
    }

    /// Measures the load of the link, of which each frame has this overhead.
    pub fn measure(&mut self, overhead: Size) {
        self.extras.get_or_insert_default().meter = Some(Meter::new(overhead));
    }

    /// Returns the meter of the link, if its load is measured.
    pub fn meter(&self) -> Option<&Meter> {
        self.extras.as_ref()?.meter.as_ref()
    }

    #[inline]
    fn meter_mut(&mut self) -> Option<&mut Meter> {
        self.extras.as_mut()?.meter.as_mut()
    }

    #[inline]
    fn engine_mut(&mut self) -> Option<&mut Engine> {
        self.extras.as_mut()?.engine.as_mut()
    }

    /// Returns the number of waiting frames: in the queue and around it, without the one in transmission.
    pub fn waiting(&self) -> usize {
        self.queue.waiting() + self.bypass.len()
    }

    /// Returns when the driver must call [`advance`](Self::advance) although nothing arrives. The end of a transmission
    /// for which nothing waits is noticed at the next call instead.
    #[inline]
    pub fn wake(&self) -> Time {
        let pending = self.pending();
        if self.busy_until < pending && (!self.bypass.is_empty() || self.queue.waiting() > 0) {
            self.busy_until
        } else {
            pending
        }
    }

    /// Returns when the engine accepts the next frame that waits for it.
    #[inline]
    fn pending(&self) -> Time {
        self.extras.as_ref().and_then(|extras| extras.engine.as_ref()?.pending.front()).map_or(NEVER, |f| f.t)
    }

    /// Processes all events up to and including `t`. At equal times a departure precedes an
    /// arrival.
    #[inline]
    pub fn advance(&mut self, t: Time, pool: &mut Pool, books: &mut Books, out: &mut Outbox) {
        loop {
            let pending = self.pending();
            if self.busy_until.min(pending) > t {
                break;
            }
            if self.busy_until <= pending {
                let now = self.busy_until;
                self.busy_until = NEVER;
                if std::mem::take(&mut self.queue_locked) {
                    self.queue.release();
                }
                self.start(now, pool, books, out);
            } else if let Some(frame) = self.engine_mut().and_then(|engine| engine.pending.pop_front()) {
                self.queue.admit(&frame, pool, books);
                self.start(frame.t, pool, books, out);
            }
        }
    }

    /// Offers a frame to the queue, at `frame.t`.
    #[inline]
    pub fn offer(&mut self, frame: Frame, pool: &mut Pool, books: &mut Books, out: &mut Outbox) {
        self.advance(frame.t, pool, books, out);
        if let Some(meter) = self.meter_mut() {
            meter.offered(&frame);
        }
        match self.extras.as_mut().and_then(|extras| extras.engine.as_mut()) {
            None => {
                self.queue.enqueue(&[frame], pool, books);
                self.start(frame.t, pool, books, out);
            }
            Some(engine) => {
                self.queue.arrived(&frame, pool);
                let start = engine.free_at.max(frame.t);
                if start > frame.t && engine.pending.len() >= engine.buffer {
                    books.dropped(frame.t, &frame, Reason::EngineBusy, None);
                    pool.release(frame.buffer);
                    return;
                }
                if start > frame.t {
                    books.passes(frame.t, &frame, Action::Arrived);
                }
                engine.free_at = start + engine.rate.take(u32::from(frame.len));
                engine.pending.push_back(Frame { t: start, ..frame });
                self.advance(frame.t, pool, books, out);
            }
        }
    }

    /// Sends a frame around the queue on the same link, at `frame.t`.
    pub(crate) fn offer_around(&mut self, frame: Frame, pool: &mut Pool, books: &mut Books, out: &mut Outbox) {
        self.advance(frame.t, pool, books, out);
        if let Some(meter) = self.meter_mut() {
            meter.offered(&frame);
        }
        if self.bypass.len() >= self.bypass_slots {
            books.dropped(frame.t, &frame, Reason::BypassFull, None);
            pool.release(frame.buffer);
            return;
        }
        books.passes(frame.t, &frame, Action::Bypassed);
        self.bypass.push_back(frame);
        self.start(frame.t, pool, books, out);
    }

    /// Begins the next transmission if the link is free.
    #[inline]
    fn start(&mut self, now: Time, pool: &mut Pool, books: &mut Books, out: &mut Outbox) {
        if self.busy_until != NEVER {
            if self.meter().is_some() {
                let waiting = self.waiting() as u64;
                self.meter_mut().into_iter().for_each(|meter| meter.waiting(waiting));
            }
            return;
        }
        let frame = match self.bypass.pop_front() {
            Some(frame) => frame,
            None => match self.queue.dequeue(now, pool) {
                Some(frame) => {
                    self.queue_locked = true;
                    frame
                }
                None => return,
            },
        };
        books.passes(now, &frame, Action::Departed);
        let bytes = u32::from(frame.len);
        let on_wire = self.wire.take(bytes);
        let lasts = match &mut self.extras {
            None => on_wire,
            Some(extras) => extras.carry(&frame, on_wire),
        };
        self.busy_until = now + lasts;
        out.push(self.link, Frame { t: now + on_wire + self.delay, ..frame });
    }

    /// Fetches the queue into the caches.
    pub(crate) fn fetch_queue(&self) {
        prefetch(&*self.queue);
    }

    /// Calls [`Queue::fetch`].
    pub(crate) fn fetch_waiting(&self, step: usize, cluster: u16, pool: &Pool) -> Option<PacketId> {
        self.queue.fetch(step, cluster, pool)
    }

    /// Returns the status of the queue at `t`.
    pub fn status(&mut self, t: Time, pool: &mut Pool, books: &mut Books, out: &mut Outbox) -> Status {
        self.advance(t, pool, books, out);
        self.queue.status(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Kind;
    use crate::target::queue::Fifo;
    use pktgen_core::config::Value;

    /// Returns the arrivals of a burst at the end of the link.
    fn departures(values: &[(&str, Value)]) -> Vec<Time> {
        let mut section = Section::of("target", values);
        let read = PortTiming::read(&mut section, 8).unwrap();
        let timing = PortTiming { rate: Rate::from_bps(1_000_000_000), overhead: Size::from_bytes(24), ..read };
        let mut port = Port::new(0, Box::new(Fifo::new(8, false)), &timing);
        let (mut pool, mut books, mut out) = (Pool::new(256, 8), Books::default(), Outbox::default());
        for seq in 0..6 {
            let (packet, buffer) = (PacketId::new(0, seq, 0), pool.take());
            let (worker, cluster, flow, head, kind) = (0, 0, 0, 0, Kind::Update);
            let frame = Frame { t: 0, packet, buffer, worker, len: 256, cluster, flow, head, kind };
            port.offer(frame, &mut pool, &mut books, &mut out);
        }
        port.advance(NEVER - 1, &mut pool, &mut books, &mut out);
        out.frames.iter().map(|(_, frame)| frame.t).collect()
    }

    #[test]
    fn what_each_frame_touches_is_in_two_cache_lines() {
        // Only frames around the queue touch what is behind.
        assert_eq!(std::mem::offset_of!(Port, bypass_slots), 128);
    }

    /// 256 B and 24 B of framing take 2.24 µs at 1 Gbit/s; the gap is added to the slower of link and blocks.
    #[test]
    fn frames_of_a_busy_output_are_apart_by_service_and_gap() {
        let text = |value: &str| Value::Text(value.to_owned());
        for (values, apart) in [
            (&[][..], 2_240_000),
            (&[("packet_gap", text("18ns"))][..], 2_258_000),
            (&[("dequeue_efficiency", Value::Float(0.5)), ("packet_gap", text("18ns"))], 4_498_000),
            (&[("block_time", text("1us")), ("packet_gap", text("18ns"))], 4_018_000),
        ] {
            let expected: Vec<Time> = (0..6).map(|i| 2_240_000 + i * apart).collect();
            assert_eq!(departures(values), expected, "{values:?}");
        }
        let mut section = Section::of("target", &[("packet_gap", text("2s"))]);
        let refusal = PortTiming::read(&mut section, 8).unwrap_err().to_string();
        assert!(refusal.contains("packet_gap") && refusal.contains("above 1s"), "{refusal}");
    }
}
