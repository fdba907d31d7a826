//! Memory that is fetched before it is needed: a large network is in no cache, and what is touched next is known.

use pktgen_core::prefetch;
use pktgen_core::topology::NodeId;

use super::{Line, Place, Simulation, Slot};
use crate::endpoint::Outgoing;
use crate::frame::{Frame, Pool};
use crate::ledger::Ledger;

/// Frames between one that leaves and one whose worker's memory is fetched, and what that points to.
const FAR: usize = 6;
const NEAR: usize = 3;
/// Of the events behind the next ones, one of so many is looked at each time.
const QUARTERS: usize = 4;

/// Fetches what is touched for frames that leave soon.
#[inline(never)]
fn fetch_senders(soon: &[Outgoing], places: &[Place], lines: &[Line], ledger: &Ledger) {
    if let Some(far) = soon.get(FAR) {
        prefetch(&places[far.node as usize]);
        ledger.fetch(far.frame.worker);
    }
    if let Some(near) = soon.get(NEAR)
        && let Place::Host(uplink) = &places[near.node as usize]
    {
        prefetch(&lines[uplink.link as usize]);
    }
    if let Some(next) = soon.first()
        && let Place::Host(uplink) = &places[next.node as usize]
    {
        // The frame is put behind the last one. Nothing else of a backlog is touched.
        let frames = &lines[uplink.link as usize].frames;
        match frames.back() {
            Some(last) => prefetch(last),
            None => prefetch(frames.as_slices().0),
        }
    }
}

/// Fetches the ports that act next, and the nodes of a quarter of those behind them, which `turn` chooses.
#[inline(never)]
pub(super) fn events(simulation: &Simulation, turn: u64) {
    let Simulation { calendar, slots, places, .. } = simulation;
    let [next, later] = calendar.soon();
    for (_, slot) in next {
        if let Slot::Port { node, port } = slots[*slot as usize]
            && let Place::Device(device) = &places[node as usize]
        {
            prefetch(&device.ports[usize::from(port)]);
        }
    }
    for (_, slot) in later.iter().skip(turn as usize % QUARTERS).step_by(QUARTERS) {
        if let Slot::Port { node, .. } = slots[*slot as usize] {
            prefetch(&places[node as usize]);
        }
    }
}

/// Frames between two steps, and steps.
const APART: usize = 6;
const STEPS: usize = 6;
/// Frames that are followed: more than `APART * STEPS`, and a power of two, so that a position costs no division.
const RING: usize = 64;

/// Frames on their way to devices: what each will touch there is fetched step by step, as what leads to it has come.
pub(super) struct Coming {
    is_active: bool,
    /// Where each frame goes, and the frame.
    ring: [Option<(NodeId, Frame)>; RING],
    next: usize,
}

impl Coming {
    /// If it `is_active`, frames are followed.
    pub(super) fn new(is_active: bool) -> Self {
        Coming { is_active, ring: [None; RING], next: 0 }
    }

    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Frames leave soon.
    #[inline]
    pub(super) fn senders(&self, soon: &[Outgoing], places: &[Place], lines: &[Line], ledger: &Ledger) {
        if self.is_active {
            fetch_senders(soon, places, lines, ledger);
        }
    }

    /// A frame was put on a link.
    #[inline]
    pub(super) fn push(&mut self, one: (u32, Frame), places: &[Place], lines: &[Line], pool: &Pool, ledger: &Ledger) {
        if self.is_active {
            self.follow(one, places, lines, pool, ledger);
        }
    }

    #[inline(never)]
    fn follow(&mut self, (link, frame): (u32, Frame), places: &[Place], lines: &[Line], pool: &Pool, ledger: &Ledger) {
        let to = lines[link as usize].to;
        self.ring[self.next] = Some((to, frame));
        prefetch(&places[to as usize]);
        for step in 1..=STEPS {
            let Some((to, frame)) = &self.ring[(self.next + RING - step * APART) % RING] else { break };
            let Place::Device(device) = &places[*to as usize] else { continue };
            match (step, device.ports.get(usize::from(device.last_port))) {
                (1, _) => prefetch(&**device),
                (2, Some(port)) => {
                    prefetch(&*device.program);
                    prefetch(port);
                }
                (3, Some(port)) => port.fetch_queue(),
                (4.., Some(port)) => {
                    // The account of what is merged with it or replaced by it.
                    if let Some(waiting) = port.fetch_waiting(step - 4, frame.cluster, pool) {
                        ledger.fetch(waiting.worker());
                    }
                }
                _ => {}
            }
        }
        self.next = (self.next + 1) % RING;
    }
}
