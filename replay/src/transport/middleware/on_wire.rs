//! `on_wire`: frames as devices expect them, without a header of ours (docs/strict.md).
//!
//! Inside a process frames keep our header, so that programs, endpoints and the ledger go by it. This wrapper stands between
//! a role and everything else: outward it takes the header away, inward it makes one again from what somebody at this end
//! can really know. What is known is the business of a [`Dialect`], one per wire format.

mod olaf;
mod switchml;

use std::sync::Arc;

use pktgen_generator::config::Section;
use pktgen_generator::registry::Named;
use pktgen_generator::time::Time;
use pktgen_generator::{Error, Result};

use super::{Layer, Middleware, Site, Traffic};
use crate::clock::RunClock;
use crate::frame::BURST;
use crate::transport::{Arrival, End, Wire, WireCounters};

/// `on_wire = "strict"`.
pub struct OnWire;

/// Its name, and its key.
pub const ON_WIRE: &str = "on_wire";

impl Named for OnWire {
    fn name(&self) -> &'static str {
        ON_WIRE
    }
    fn about(&self) -> &'static str {
        "frames exactly as devices expect them, without a header of ours"
    }
}

impl Middleware for OnWire {
    fn keys(&self) -> &'static [&'static str] {
        &[ON_WIRE]
    }

    fn read(&self, section: &mut Section, _linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        match section.get_opt::<String>(ON_WIRE)?.as_deref() {
            None | Some("ours") => Ok(None),
            Some("strict") => Ok(Some(Arc::new(Strict))),
            Some(other) => Err(Error::config(format!(
                "{}: \"{other}\" is no way to write frames; there are: ours (with the header that books go by), strict (as devices \
                 expect them: docs/strict.md)",
                section.place(ON_WIRE)
            ))),
        }
    }
}

/// Translates frames of one wire format at one end.
pub(crate) trait Dialect: Send {
    /// A frame of ours as a device expects it, in `out`, which has room for the run's largest. Returns its length; none if
    /// the frame goes as it is.
    fn outward(&self, frame: &[u8], out: &mut [u8]) -> Option<usize>;

    /// A frame of a device, which was found at `now`, with our header, in `out`. None if it is none of this format's.
    fn inward(&mut self, frame: &[u8], now: Time, out: &mut [u8]) -> Option<usize>;
}

/// The strict layouts.
struct Strict;

impl Layer for Strict {
    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        let Some(dialect) = dialect(&site.traffic)? else { return Ok(wire) };
        let stride = site.frame_max;
        Ok(Box::new(Translated {
            wire,
            clock: site.clock.clone(),
            dialect,
            end,
            stride,
            outgoing: vec![0; BURST * stride],
            incoming: vec![0; stride],
            translated: 0,
            others: 0,
        }))
    }
}

/// The dialect of a format; none where its layout is what devices expect anyway.
pub(crate) fn dialect(traffic: &Traffic) -> Result<Option<Box<dyn Dialect>>> {
    match traffic.format {
        "olaf" => Ok(Some(Box::new(olaf::OlafDialect::new(traffic)?))),
        "switchml" => Ok(Some(Box::new(switchml::SwitchMlDialect::new(traffic)))),
        "trio_ml" => Ok(None),
        other => Err(Error::config(format!(
            "transport.on_wire = \"strict\": no layout is published for {other}, so there is nothing that a device expects; leave \
             the key out, or use workers that speak olaf, switchml or trio_ml"
        ))),
    }
}

/// A wire whose frames are translated.
struct Translated {
    wire: Box<dyn Wire>,
    clock: RunClock,
    dialect: Box<dyn Dialect>,
    end: End,
    /// Bytes of the run's largest frame.
    stride: usize,
    /// Room for a burst.
    outgoing: Vec<u8>,
    /// Room for a frame.
    incoming: Vec<u8>,
    /// Frames that arrived and were translated, and those that were none of the format's.
    translated: u64,
    others: u64,
}

impl Wire for Translated {
    fn send(&mut self, frames: &[&[u8]]) -> Result<usize> {
        // As many as faults are told of in one call.
        let frames = &frames[..frames.len().min(BURST)];
        let mut slices: [&[u8]; BURST] = [&[]; BURST];
        let rooms = self.outgoing.chunks_mut(self.stride);
        for ((slice, frame), room) in slices.iter_mut().zip(frames).zip(rooms) {
            *slice = match self.dialect.outward(frame, room) {
                Some(len) => &room[..len],
                None => frame,
            };
        }
        self.wire.send(&slices[..frames.len()])
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let Translated { wire, clock, dialect, incoming, translated, others, .. } = self;
        let mut now = None;
        wire.receive(most, &mut |arrival| {
            let now = *now.get_or_insert_with(|| clock.now());
            match dialect.inward(arrival.bytes, now, incoming) {
                Some(len) => {
                    *translated += 1;
                    each(Arrival { bytes: &incoming[..len], len, ..arrival });
                }
                None => {
                    *others += 1;
                    each(arrival);
                }
            }
        })
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.wire.wait(timeout_ns)
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        self.wire.flush(timeout_ns)
    }

    fn ended(&self) -> bool {
        self.wire.ended()
    }

    fn lost(&self) -> u64 {
        self.wire.lost()
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        match self.dialect.outward(frame, &mut self.incoming) {
            Some(len) => &self.incoming[..len],
            None => frame,
        }
    }

    fn counters(&mut self) -> WireCounters {
        self.wire.counters()
    }

    fn mode(&self) -> String {
        format!("{}; strict layouts", self.wire.mode())
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let mut notes = self.wire.notes();
        let text = format!("{} frames arrived in the strict layout, {} in another", self.translated, self.others);
        notes.push((format!("on_wire.{}", self.end.name()), text));
        notes
    }
}

#[cfg(test)]
mod tests {
    use pktgen_generator::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
    use pktgen_generator::wire::olaf::{Header, PORT, UPDATE_HEAD, WORKER_PORT};

    use super::super::testing::{Memory, site};
    use super::*;

    fn update(worker: u32) -> Vec<u8> {
        let mut frame = vec![0; HEAD + UPDATE_HEAD + 8];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
        let header = Header {
            flags: 0,
            cluster: 0,
            count: 1,
            worker,
            seq: 3,
            generation: 9,
            attempt: 0,
            elements: 2,
            reward: 0.5,
        };
        header.emit_update(&mut frame[HEAD..]);
        frame
    }

    #[test]
    fn what_leaves_has_no_header_and_what_arrives_has_one_again() {
        let (memory, bench) = Memory::new();
        let mut wire = Strict.wrap(End::DeviceDown, &site(), Box::new(memory)).unwrap();
        let (one, other) = (update(1), vec![7; 60]);
        bench.lock().unwrap().room = 2;
        assert_eq!(wire.send(&[&one, &other, &one]).unwrap(), 2, "as many as the wire took");
        let sent = bench.lock().unwrap().sent.clone();
        assert_eq!((sent[0].len(), &sent[1]), (HEAD + 12, &other), "what is nobody's goes as it is");
        assert_eq!(wire.on_cable(&one), sent[0]);
        let many = [one.as_slice(); 99];
        bench.lock().unwrap().room = 99;
        assert_eq!(wire.send(&many).unwrap(), BURST);
        bench.lock().unwrap().incoming.extend([sent[0].clone(), other.clone()]);
        bench.lock().unwrap().marks = 0b01;
        let mut heard = Vec::new();
        let each = &mut |arrival: Arrival| heard.push((arrival.bytes.to_vec(), arrival.len, arrival.lost));
        assert_eq!(wire.receive(9, each).unwrap(), 2);
        assert_eq!((heard[0].0.len(), heard[0].1, heard[0].2), (one.len(), one.len(), true));
        assert_eq!(heard[1], (other, 60, false));
        assert_eq!(wire.mode(), "memory; strict layouts");
        assert_eq!(wire.notes()[1].1, "1 frames arrived in the strict layout, 1 in another");
    }

    #[test]
    fn what_cannot_be_strict_is_refused() {
        let read = |word: &str| OnWire.read(&mut Section::of("transport", &[(ON_WIRE, word.into())]), 0);
        assert!(read("strict").unwrap().is_some() && read("ours").unwrap().is_none());
        let error = read("stict").err().unwrap().to_string();
        assert!(error.contains("transport.on_wire") && error.contains("strict"), "{error}");
        assert!(OnWire.read(&mut Section::of("transport", &[]), 0).unwrap().is_none());
        let of = |format, plain| {
            let mut site = site();
            (site.traffic.format, site.traffic.plain) = (format, plain);
            Strict
                .wrap(End::Workers, &site, Box::new(Memory::new().0))
                .map(|wire| wire.mode())
                .map_err(|e| e.to_string())
        };
        assert!(of("libra", true).unwrap_err().contains("no layout is published for libra"));
        assert!(of("olaf", false).unwrap_err().contains("open_loop"));
        assert_eq!(of("trio_ml", false).unwrap(), "memory", "its layout is the device's already");
    }
}
