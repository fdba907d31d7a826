//! Faults of links in virtual time: lost, duplicated or delayed frames, by the same keys as on wires
//! (`docs/real-time.md`). They apply when a frame arrives at a link's end; the device at one of its ends books losses.

use std::collections::VecDeque;

use pktgen_core::seed::Seed;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{Link, NodeId, Role, Topology};

use super::fates::{FaultStreams, Faults};
use crate::frame::Frame;

/// A frame that is held until a number of others have passed, or until a time.
struct Held {
    frame: Frame,
    passes: u64,
    until: Time,
}

/// The faults of one link.
struct Struck {
    fates: FaultStreams,
    held: VecDeque<Held>,
    /// The device that books losses.
    device: NodeId,
}

/// The effect of faults on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strike {
    /// It passes.
    Passes,
    /// It passes twice.
    Twice,
    /// It is lost; this device books it.
    Lost(NodeId),
    /// It is held here.
    Held,
}

/// The faults of all links.
pub(super) struct LinkFaults {
    faults: Faults,
    links: Vec<Option<Struck>>,
    /// Number of held frames.
    held: usize,
}

impl LinkFaults {
    pub(super) fn new(faults: Faults, topology: &Topology, seed: Seed) -> Self {
        let is_device = |node: NodeId| topology.nodes[node as usize].role == Role::Device;
        let (routes, exits) = (topology.routes(), topology.exits());
        let up = |link: &Link| match topology.sink() {
            Some(sink) if link.to != sink => {
                // The next hop towards the sink.
                let port = routes.port(link.from, sink);
                exits
                    .of(link.from)
                    .get(usize::from(port))
                    .is_some_and(|next| topology.links[*next as usize].to == link.to)
            }
            _ => true,
        };
        let one = |(place, link): (usize, &Link)| {
            let up = up(link);
            let device = [link.to, link.from].into_iter().find(|node| is_device(*node))?;
            let wanted = if up { faults.up } else { faults.down };
            wanted.then(|| Struck {
                fates: FaultStreams::new(faults, seed, place as u64, up),
                held: VecDeque::new(),
                device,
            })
        };
        LinkFaults { links: topology.links.iter().enumerate().map(one).collect(), faults, held: 0 }
    }

    /// Applies faults to `frame`, which arrives over `link` at `frame.t`.
    pub(super) fn strike(&mut self, link: usize, frame: &Frame) -> Strike {
        let Some(struck) = &mut self.links[link] else { return Strike::Passes };
        let fate = struck.fates.draw();
        if fate.lost || fate.flip.is_some() {
            // A damaged frame fails its checksum, and network cards discard it.
            return Strike::Lost(struck.device);
        }
        for held in &mut struck.held {
            held.passes = held.passes.saturating_sub(1);
        }
        if fate.held {
            let until = frame.t.saturating_add(self.faults.hold);
            struck.held.push_back(Held { frame: *frame, passes: self.faults.by, until });
            self.held += 1;
            return Strike::Held;
        }
        if fate.duplicated { Strike::Twice } else { Strike::Passes }
    }

    /// Releases a frame of `link` that has been held long enough at `t`.
    pub(super) fn release(&mut self, link: usize, t: Time) -> Option<Frame> {
        let struck = self.links[link].as_mut()?;
        let held = struck.held.pop_front_if(|held| held.passes == 0 || held.until <= t)?;
        self.held -= 1;
        Some(Frame { t, ..held.frame })
    }

    /// Returns when the next frame must be released although nothing passes, and its link.
    pub(super) fn next(&self) -> (Time, usize) {
        if self.held == 0 {
            return (NEVER, 0);
        }
        let firsts =
            self.links.iter().enumerate().filter_map(|(i, struck)| Some((struck.as_ref()?.held.front()?.until, i)));
        firsts.min().unwrap_or((NEVER, 0))
    }
}
