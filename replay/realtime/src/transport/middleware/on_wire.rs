//! `on_wire`: frames in the layout that devices expect, without our header (docs/strict.md).
//!
//! Within a process frames keep our header, which programs, endpoints and the ledger use. This wrapper is placed
//! between a role and all else: outwards it removes the header, inwards it rebuilds one from what this end can know.
//! The rules are those of a [`Dialect`], which a system registers.

use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section, Value, settings};
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::unpadded;

use super::filter::{Fetch, Filter, Filtered, Offer};
use super::{Declared, Layer, Middleware, Site};
use crate::clock::RunClock;
use crate::dialect::{Dialect, DialectKind, Dialects};
use crate::frame::BURST;
use crate::transport::Submitted;
use crate::transport::{Arrival, End, Wire};

/// `on_wire = "strict"` and its like.
pub(crate) struct OnWire;

/// Its name, and its key.
const ON_WIRE: &str = "on_wire";

impl Named for OnWire {
    fn name(&self) -> &'static str {
        ON_WIRE
    }
    fn about(&self) -> &'static str {
        "frames exactly as devices expect them, without pktgen's header"
    }
}

settings! {
    /// What it reads from `[transport]`.
    keys Settings {
        /// Layout on the wire: `ours`, `strict` (as devices expect it), `roce` (docs/strict.md).
        on_wire: Option<String> said "\"ours\"";
    }
}

impl Middleware for OnWire {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn declares(&self) -> Declared {
        Declared { one_wire: true, at_edge: true, ..Declared::default() }
    }

    fn sample(&self) -> Vec<(&'static str, Value)> {
        vec![(ON_WIRE, "strict".into())]
    }

    fn read(&self, section: &mut Section, _linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        let word = Settings::on_wire(section)?;
        let Some(word) = word.filter(|word| word != "ours") else { return Ok(None) };
        Ok(Some(Arc::new(Written { word, place: section.place(ON_WIRE) })))
    }
}

/// The dialects that a value of the key can mean.
struct Written {
    word: String,
    place: String,
}

impl Written {
    /// Returns those of `all` that the key's value can mean.
    fn meant(&self, all: Dialects) -> impl Iterator<Item = &'static DialectKind> {
        all.iter().copied().filter(|kind| kind.word == self.word)
    }
}

impl Layer for Written {
    fn dialect(&self, format: &str, all: Dialects) -> Result<Option<&'static DialectKind>> {
        if let Some(kind) = self.meant(all).find(|kind| kind.format == format) {
            return Ok(Some(kind));
        }
        let others: Vec<_> = self.meant(all).map(|kind| kind.format).collect();
        Err(Error::config(match others[..] {
            [] => format!(
                "{}: \"{}\" is no way to write frames; there are: ours (with the header that books go by), strict (as devices \
                 expect them), roce (the same over RoCEv2): docs/strict.md",
                self.place, self.word
            ),
            _ => format!(
                "{} = \"{}\": no layout is published for {format} that could be meant, so there is nothing that a \
                 device expects; leave the key out, or use workers that speak {}",
                self.place,
                self.word,
                others.join(" or ")
            ),
        }))
    }

    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        let Some(kind) = site.dialect else { return Ok(wire) };
        let Some(dialect) = (kind.open)(&site.traffic)? else { return Ok(wire) };
        let stride = site.frame_max;
        let filter = Translated {
            clock: site.clock.clone(),
            dialect,
            end,
            stride,
            outgoing: vec![0; BURST * stride],
            incoming: vec![0; stride],
            ahead: 0,
            gone: true,
            word: kind.word,
            translated: 0,
            others: 0,
        };
        Ok(Box::new(Filtered::new(wire, filter)))
    }
}

/// Translates frames.
struct Translated {
    clock: RunClock,
    dialect: Box<dyn Dialect>,
    end: End,
    /// Bytes of the run's largest frame.
    stride: usize,
    /// Buffer for a burst.
    outgoing: Vec<u8>,
    /// Buffer for a frame.
    incoming: Vec<u8>,
    /// Number of copies of the next offered frame that have already left.
    ahead: usize,
    /// Whether all of those were lost.
    gone: bool,
    word: &'static str,
    /// Translated arrivals, and arrivals of other formats.
    translated: u64,
    others: u64,
}

impl Filter for Translated {
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        let Translated { dialect, outgoing, stride, ahead, gone, .. } = self;
        let mut slices: [&[u8]; BURST] = [&[]; BURST];
        // Whether each is the last copy of its frame.
        let mut last = [false; BURST];
        // Limited to the number of faults reported in one call.
        let (mut rooms, mut filled) = (outgoing.chunks_mut(*stride), 0);
        'frames: for (i, frame) in frames.iter().enumerate() {
            let copies = dialect.copies(frame);
            for copy in if i == 0 { *ahead } else { 0 }..copies {
                let Some(room) = rooms.next() else { break 'frames };
                slices[filled] = match dialect.copy(frame, copy, room) {
                    Some(len) => &room[..len],
                    None => frame,
                };
                last[filled] = copy + 1 == copies;
                filled += 1;
            }
        }
        let below = offer(&slices[..filled])?;
        // A frame is lost if all its copies are.
        let mut sent = Submitted::default();
        for (i, last) in last[..below.taken].iter().enumerate() {
            *gone &= below.lost >> i & 1 == 1;
            *ahead += 1;
            if *last {
                sent.lost |= u64::from(*gone) << sent.taken;
                sent.taken += 1;
                (*gone, *ahead) = (true, 0);
            }
        }
        Ok(sent)
    }

    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let Translated { clock, dialect, incoming, translated, others, .. } = self;
        let mut now = None;
        fetch(most, &mut |arrival| {
            let now = *now.get_or_insert_with(|| clock.now());
            // Padding after the packet is removed.
            match dialect.inward(unpadded(arrival.bytes), now, incoming) {
                Some(len) => {
                    *translated += 1;
                    each(Arrival { bytes: &incoming[..len], ..arrival });
                }
                None => {
                    *others += 1;
                    each(arrival);
                }
            }
        })
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        let len = self.dialect.outward(frame, &mut self.incoming);
        len.map_or(frame, |len| &self.incoming[..len])
    }

    fn mode(&self) -> String {
        format!("{} layouts", self.word)
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let Self { word, translated, others, .. } = self;
        let text = format!("{translated} frames arrived in the {word} layout, {others} in another");
        vec![(format!("on_wire.{}", self.end.name()), text)]
    }
}

#[cfg(test)]
mod tests {
    use pktgen_switchml::format::{Header as Packet, frame_bytes as switchml_frame};
    use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, target_ip, worker_ip};
    use pktgen_wire::wire::update::{Header, PORT, UPDATE_HEAD, WORKER_PORT};

    use super::super::testing::{Memory, site};
    use super::*;
    use crate::dialect::Traffic;

    /// Returns the wire of `end` with this value of the key.
    fn wrapped(word: &str, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        let written = Written { word: word.to_owned(), place: "transport.on_wire".to_owned() };
        let dialect = written.dialect(site.traffic.format, pktgen_registry::all().dialects)?;
        written.wrap(end, &Site { dialect, ..site.clone() }, wire)
    }

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
        let mut wire = wrapped("strict", End::DeviceDown, &site(), Box::new(memory)).unwrap();
        let (one, other) = (update(1), vec![7; 60]);
        bench.lock().unwrap().room = 2;
        assert_eq!(wire.send(&[&one, &other, &one]).unwrap().taken, 2, "as many as the wire took");
        let sent = bench.lock().unwrap().sent.clone();
        assert_eq!((sent[0].len(), &sent[1]), (HEAD + 12, &other), "what is nobody's goes as it is");
        assert_eq!(wire.on_cable(&one), sent[0]);
        let many = [one.as_slice(); 99];
        bench.lock().unwrap().room = 99;
        assert_eq!(wire.send(&many).unwrap().taken, BURST);
        bench.lock().unwrap().incoming.extend([sent[0].clone(), other.clone()]);
        bench.lock().unwrap().marks = 0b01;
        let mut heard = Vec::new();
        let each = &mut |arrival: Arrival| heard.push((arrival.bytes.to_vec(), arrival.len, arrival.lost));
        assert_eq!(wire.receive(9, each).unwrap().frames, 2);
        assert_eq!((heard[0].0.len(), heard[0].1, heard[0].2), (one.len(), sent[0].len(), true));
        assert_eq!(heard[1], (other, 60, false));
        assert_eq!(wire.mode(), "memory; strict layouts");
        assert_eq!(wire.notes()[1].1, "1 frames arrived in the strict layout, 1 in another");
    }

    /// A result for all workers of a job becomes one frame for each, which together count as one.
    #[test]
    fn copies_of_a_frame_leave_once_each_and_count_as_one() {
        let (memory, bench) = Memory::new();
        let mut site = site();
        site.frame_max = 334;
        site.traffic = Traffic { format: "switchml", packets: 100, window: 8, plain: false, ..site.traffic };
        let mut wire = wrapped("roce", End::DeviceDown, &site, Box::new(memory)).unwrap();
        let result = |to: u32, slot: u16| {
            let mut frame = vec![0; switchml_frame(64)];
            Template::new((SERVER_IP, 0xbee0), (to, 4000), frame.len()).emit(&mut frame);
            Packet { slot, packet: slot.into(), elements: 64, ..Packet::default() }.emit(&mut frame[HEAD..]);
            frame
        };
        let (one, all) = (result(worker_ip(4), 1), result(group_ip(1), 2));
        let targets = |from: usize| {
            let sent = bench.lock().unwrap().sent[from..].to_vec();
            sent.iter().map(|frame| (target_ip(frame), frame.len())).collect::<Vec<_>>()
        };
        let (three, four, five) = ((worker_ip(3), 334), (worker_ip(4), 334), (worker_ip(5), 334));
        bench.lock().unwrap().room = 3;
        let sent = wire.send(&[&one, &all, &one]).unwrap();
        assert_eq!(sent.taken, 1, "what is not wholly taken is not taken");
        assert_eq!((targets(0), sent.lost), (vec![four, three, four], 1), "one of its copies is not lost");
        assert_eq!(wire.send(&[&all, &one]).unwrap().taken, 0, "the wire takes nothing");
        bench.lock().unwrap().room = 99;
        let sent = wire.send(&[&all, &one]).unwrap();
        assert_eq!(sent.taken, 2);
        assert_eq!((targets(3), sent.lost), (vec![five, four], 0), "the rest, and no copy twice");
        // As many as fit a burst: 21 with 3 copies each, and one that is begun.
        assert_eq!(wire.send(&[all.as_slice(); 30]).unwrap().taken, 21);
        assert_eq!(wire.send(&[all.as_slice(); 9]).unwrap().taken, 9);
        assert_eq!(targets(5), [[three, four, five]; 30].concat());
        assert_eq!(wire.mode(), "memory; roce layouts");
        // The copies of a frame leave in several calls, and each of them is lost.
        for copy in 0..3 {
            bench.lock().unwrap().room = 1;
            let sent = wire.send(&[&all]).unwrap();
            assert_eq!((sent.taken, sent.lost), if copy == 2 { (1, 1) } else { (0, 0) });
        }
    }

    #[test]
    fn what_cannot_be_strict_is_refused() {
        let read = |word: &str| OnWire.read(&mut Section::of("transport", &[(ON_WIRE, word.into())]), 0);
        assert!(read("strict").unwrap().is_some() && read("ours").unwrap().is_none());
        assert!(OnWire.read(&mut Section::of("transport", &[]), 0).unwrap().is_none());
        assert!(read("roce").unwrap().is_some());
        let of = |word, format, plain| {
            let mut site = site();
            (site.traffic.format, site.traffic.plain, site.traffic.window) = (format, plain, 513);
            wrapped(word, End::Workers, &site, Box::new(Memory::new().0))
                .map(|wire| wire.mode())
                .map_err(|e| e.to_string())
        };
        let error = of("stict", "olaf", true).unwrap_err();
        assert!(error.contains("transport.on_wire") && error.contains("strict"), "{error}");
        assert!(of("strict", "libra", true).unwrap_err().contains("no layout is published for libra"));
        assert!(of("strict", "olaf", false).unwrap_err().contains("open_loop"));
        assert_eq!(of("strict", "trio_ml", false).unwrap(), "memory", "its layout is the device's already");
        assert!(of("roce", "olaf", true).unwrap_err().contains("use workers that speak switchml"));
        assert!(of("roce", "switchml", false).unwrap_err().contains("endpoint.pool = 1 to 512"));
    }
}
