//! `readdress`: frames have the addresses of the target's profile on the wire, and ours within the process.

use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section, Value, settings};
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_wire::device::{Addresses, CableEnd, GROWTH_MAX, Translator, tag_bytes};
use pktgen_wire::wire::FormatFacts;
use pktgen_wire::wire::frame::mac_of;

use super::filter::{Fetch, Filter, Filtered, Offer};
use super::{Declared, Layer, Middleware, Site};
use crate::frame::BURST;
use crate::transport::Submitted;
use crate::transport::{Arrival, End, Wire};

/// `readdress = true`.
pub(crate) struct Readdress;

impl Named for Readdress {
    fn name(&self) -> &'static str {
        "readdress"
    }
    fn about(&self) -> &'static str {
        "addresses of the target's profile on the wire"
    }
}

settings! {
    /// What it reads from `[transport]`.
    keys Settings {
        /// Whether frames have the addresses of the target's profile on the wire.
        readdress: Option<bool> said "true where target.profile has addresses";
    }
}

impl Middleware for Readdress {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn declares(&self) -> Declared {
        Declared { addresses: true, at_edge: true, ..Declared::default() }
    }

    fn sample(&self) -> Vec<(&'static str, Value)> {
        vec![("readdress", true.into())]
    }

    fn read(&self, section: &mut Section, _linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        let wanted = Settings::readdress(section)?;
        Ok(wanted.filter(|wanted| *wanted).map(|_| Arc::new(Exchange) as Arc<dyn Layer>))
    }
}

/// The addresses of a run, for its wires.
#[derive(Debug, Clone)]
pub struct Outer {
    /// Addresses of the profile, for the run's workers.
    pub addresses: Addresses,
    /// Facts of the wire format there.
    pub format: &'static FormatFacts,
    /// The transport shows the tags of frames.
    pub sees_tags: bool,
}

impl Outer {
    /// Returns the bytes of the profile's VLAN tag on every frame; 0 without one.
    pub(crate) fn tag(&self) -> usize {
        tag_bytes(self.addresses.vlan)
    }

    /// Returns the translator of addresses at `end`.
    pub fn translator(&self, end: End) -> Translator {
        let place = match end {
            End::Workers => CableEnd::Workers,
            End::DeviceDown => CableEnd::DeviceDown,
            End::DeviceUp => CableEnd::DeviceUp,
            End::Server => CableEnd::Server,
        };
        Translator::new(&self.addresses, self.format, place).seeing_tags(self.sees_tags)
    }
}

/// The layer; its addresses are those of the site.
struct Exchange;

impl Layer for Exchange {
    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        let Some(heads) = &site.outer else {
            return Err(Error::config("transport.readdress: the run has no profile (target.profile)"));
        };
        let stride = site.frame_max + GROWTH_MAX;
        let [translator, opposite] = [end, end.opposite()].map(|end| heads.translator(end));
        let (out, back) = (vec![0; BURST * stride], vec![0; stride]);
        let filter = Readdressed { translator, opposite, out, back, stride, end, strange: [0; 2], misled: 0 };
        Ok(Box::new(Filtered::new(wire, filter)))
    }
}

/// Exchanges addresses.
struct Readdressed {
    translator: Translator,
    /// The translator of the other end of the cable, the origin of arriving frames.
    opposite: Translator,
    /// Buffers for a departing burst, and for an arriving frame.
    out: Vec<u8>,
    back: Vec<u8>,
    stride: usize,
    end: End,
    /// Frames that passed unchanged, out and in.
    strange: [u64; 2],
    /// Frames that arrived with another Ethernet address than that of their host.
    misled: u64,
}

impl Filter for Readdressed {
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        let mut lengths = [0; BURST];
        let mut slices: [&[u8]; BURST] = [&[]; BURST];
        let count = frames.len().min(BURST);
        for ((frame, room), len) in frames[..count].iter().zip(self.out.chunks_mut(self.stride)).zip(&mut lengths) {
            let written = match self.translator.outward(frame, room) {
                Some(len) => Some(len),
                None => self.translator.outward_odd(frame, room),
            };
            *len = written.unwrap_or(0);
        }
        let rooms = self.out.chunks(self.stride).zip(lengths);
        for ((slice, frame), (room, len)) in slices.iter_mut().zip(frames).zip(rooms).take(count) {
            *slice = if len > 0 { &room[..len] } else { frame };
        }
        let sent = offer(&slices[..count])?;
        self.strange[0] += lengths[..sent.taken].iter().filter(|len| **len == 0).count() as u64;
        Ok(sent)
    }

    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let Readdressed { translator, back, strange, misled, .. } = self;
        fetch(most, &mut |arrival| match translator.inward(arrival.bytes, back) {
            Some(len) => {
                *misled += u64::from(!to_its_host(&back[..len]));
                each(Arrival { bytes: &back[..len], ..arrival });
            }
            None => {
                strange[1] += 1;
                // Where the profile's addresses are ours, a frame without its tag would be taken for one of the run: with tag 0 it is of
                // another VLAN.
                let (bytes, len) = (arrival.bytes, arrival.bytes.len());
                let is_bare = len >= 14 && bytes[12..14] != [0x81, 0] && translator.is_of_other_vlan(bytes);
                match back.get_mut(..len + 4).filter(|_| is_bare) {
                    Some(tagged) => {
                        tagged[..12].copy_from_slice(&bytes[..12]);
                        tagged[12..16].copy_from_slice(&[0x81, 0, 0, 0]);
                        tagged[16..].copy_from_slice(&bytes[12..]);
                        each(Arrival { bytes: tagged, ..arrival });
                    }
                    None => each(arrival),
                }
            }
        })
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        let len = self.opposite.outward(frame, &mut self.back);
        len.map_or(frame, |len| &self.back[..len])
    }

    fn mode(&self) -> String {
        "addresses of the profile".into()
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let [out, back] = self.strange;
        let misled = match self.misled {
            0 => String::new(),
            frames => format!("; {frames} received frames have another Ethernet destination than their host's"),
        };
        let text =
            format!("frames with addresses or a VLAN that are not in the profile: {out} sent, {back} received{misled}");
        vec![(format!("readdress.{}", self.end.name()), text)]
    }
}

/// Returns whether a frame with our addresses has the Ethernet address of the host that its IPv4 address names.
fn to_its_host(frame: &[u8]) -> bool {
    let ip = frame.get(30..34).and_then(|bytes| bytes.first_chunk());
    ip.is_none_or(|ip| frame[..6] == mac_of(u32::from_be_bytes(*ip)))
}

#[cfg(test)]
#[path = "readdress_tests.rs"]
mod tests;
