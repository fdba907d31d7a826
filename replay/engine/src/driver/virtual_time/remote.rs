//! The place of a device in another process: frames into it, its progress, and frames out of it.
//!
//! A frame that leaves the device at τ arrives nowhere before τ + lookahead, the minimum delay of its links. Therefore all events up to
//! the device's next possible departure + lookahead are handled first; then the device advances at once to the instant before the next
//! event, or to its first departure. Frames reach it in the order of their times, and never earlier than it has advanced.

use pktgen_core::Result;
use pktgen_core::record::{CHECKSUMS_WRONG, Family, LOCKSTEP_COUNTER};
use pktgen_core::time::{HORIZON, NEVER, Serialiser, Time};
use pktgen_core::topology::{Link, NodeId, Topology};
use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD};

use super::super::admit::{admit, strangers};
use super::super::uplink::Uplink;
use super::{Place, Simulation, Slot, add_slot};
use crate::endpoint::Facts;
use crate::frame::{Frame, Pool};
use crate::recorder::Recorder;
use crate::target::remote::{Advanced, Remote};

/// A device in another process.
pub(super) struct RemotePlace {
    remote: Box<dyn Remote>,
    /// The links of its ports, in order.
    pub(super) uplinks: Vec<Uplink>,
    /// Its port at the end of each link of the topology; none for other links.
    port_of: Vec<Option<u16>>,
    /// Minimum time from a departure to an arrival.
    lookahead: Time,
    /// Earliest departure of the next frame.
    next: Time,
    /// Event slot, after all others.
    pub(super) slot: u32,
}

impl RemotePlace {
    /// The device at `node`.
    pub(super) fn new(remote: Box<dyn Remote>, node: NodeId, topology: &Topology, metered: bool) -> Self {
        let links: Vec<(usize, &Link)> = topology.ports(node).collect();
        let port_to = |from: NodeId| links.iter().position(|(_, link)| link.to == from).map(|port| port as u16);
        let port_of = |link: &Link| if link.to == node { port_to(link.from) } else { None };
        let least = |link: &Link| link.delay + Serialiser::new(link.rate, link.overhead).take(HEAD as u32);
        RemotePlace {
            remote,
            port_of: topology.links.iter().map(port_of).collect(),
            lookahead: links.iter().map(|(_, link)| least(link)).min().unwrap_or(0),
            uplinks: links.iter().map(|(index, link)| Uplink::new(*index as u32, link, metered)).collect(),
            next: NEVER,
            slot: 0,
        }
    }

    /// Returns when the device has to advance.
    fn wake(&self) -> Time {
        if self.next == NEVER { NEVER } else { self.next.saturating_add(self.lookahead) }
    }
}

/// Returns a frame of a remote device with its length on a link: in synchronous training all short ones have Ethernet's padding, which is taken
/// off on reception.
fn as_on_cable(frame: Frame, pool: &mut Pool, facts: &Facts) -> Frame {
    let (_, packets) = facts.training;
    let len = usize::from(frame.len);
    if packets == 0 || len >= ETHERNET_MIN {
        return frame;
    }
    pool.bytes_mut(frame.buffer)[len..ETHERNET_MIN].fill(0);
    Frame { len: ETHERNET_MIN as u16, ..frame }
}

/// Gives remote devices their slots, after all others.
pub(super) fn add_slots(places: &mut [Place], slots: &mut Vec<Slot>) {
    for (node, place) in (0..).zip(places) {
        if let Place::Remote(remote) = place {
            remote.slot = add_slot(slots, Slot::Remote { node });
        }
    }
}

impl Simulation {
    /// Handles the arrival of `frame` over `link` at a remote device.
    pub(super) fn arrive_remote(&mut self, node: NodeId, link: usize, frame: Frame) {
        let Place::Remote(place) = &mut self.places[node as usize] else { return };
        let port = place.port_of[link].unwrap_or_default();
        let taken = place.remote.frame_in(frame.t, port, self.pool.frame(&frame));
        self.pool.release(frame.buffer);
        if frame.t < place.next {
            place.next = frame.t;
            self.calendar.set(place.slot, place.wake());
        }
        if let Err(why) = taken {
            self.failure = Some(why.to_string());
        }
    }

    /// Advances the device at `node` to the next event, or to its first departure, and carries its output. The event at `t` is part
    /// of the run only if a frame leaves: what the device announces is a lower bound.
    pub(super) fn advance_remote(&mut self, t: Time, node: NodeId, recorder: &mut dyn Recorder) -> Result<()> {
        let Place::Remote(place) = &mut self.places[node as usize] else { return Ok(()) };
        self.calendar.set(place.slot, NEVER);
        // Its slot is the last: all other events are later.
        let (other, _) = self.calendar.first();
        let until = other.saturating_sub(1).min(self.until).min(HORIZON).max(place.next);
        let (pool, facts, host, uplinks) = (&mut self.pool, &self.facts, &mut self.host, &place.uplinks);
        let (frames, mut left) = (&mut self.out.frames, false);
        let advanced = place.remote.advance(until, &mut |port, bytes| {
            left = true;
            match admit(bytes, pool, facts) {
                Some(frame) if usize::from(port) < uplinks.len() => {
                    frames.push((port.into(), as_on_cable(frame, pool, facts)));
                }
                Some(frame) => pool.release(frame.buffer),
                None => host.foreign += strangers(bytes),
            }
        });
        if left || advanced.is_err() {
            self.counters.end_ps = t;
        }
        match advanced {
            Ok(Advanced { t, next }) => {
                for (port, frame) in &mut self.out.frames {
                    let uplink = &mut place.uplinks[*port as usize];
                    let (_, arrives) = uplink.send(&Frame { t, ..*frame });
                    (*port, frame.t) = (uplink.link, arrives);
                }
                place.next = next;
                self.calendar.set(place.slot, place.wake());
                self.carry();
                // Hosts that do not react may have received a burst.
                self.settle_hosts(recorder)
            }
            Err(why) => {
                self.out.frames.drain(..).for_each(|(_, frame)| self.pool.release(frame.buffer));
                self.failure = Some(why.to_string());
                Ok(())
            }
        }
    }

    /// Returns whether the run is over although the event of `slot` is behind `until`: it is the only one left, of a device whose workers have
    /// all their results. Whether a device still has updates is not known. It is not asked to act behind the end.
    pub(super) fn is_over(&mut self, slot: u32, until: Time) -> bool {
        if self.ledger.family() == Family::Updates || !matches!(self.slots[slot as usize], Slot::Remote { .. }) {
            return false;
        }
        self.calendar.set(slot, NEVER);
        self.calendar.first().0 == NEVER && !self.workers.waits() && !self.is_late(until)
    }

    /// Ends remote devices and adds their counters.
    pub(super) fn end_remotes(&mut self) {
        for place in &mut self.places {
            let Place::Remote(place) = place else { continue };
            let wrong = place.remote.checksums_wrong();
            self.counters.device.extend((wrong > 0).then(|| (CHECKSUMS_WRONG.to_owned(), wrong)));
            if self.failure.is_some() {
                continue;
            }
            match place.remote.end() {
                Ok(counts) => {
                    let own = counts.into_iter().map(|(name, n)| (format!("{LOCKSTEP_COUNTER}{name}"), n));
                    self.counters.device.extend(own);
                }
                Err(why) => self.failure = Some(why.to_string()),
            }
        }
    }
}
