//! Faults of links in virtual time: frames that are lost, doubled or overtaken, as the same keys do it on wires
//! (`docs/real-time.md`). They strike when a frame arrives at a link's end, and the device at one of its ends books what is lost.

use std::collections::VecDeque;

use pktgen_core::seed::Seed;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{Link, NodeId, Role, Topology};

use super::fates::{FaultStreams, Faults};
use crate::frame::Frame;

/// A frame that is held back until so many others have passed, or until a time.
struct Held {
    frame: Frame,
    passes: u64,
    until: Time,
}

/// One link's.
struct Struck {
    fates: FaultStreams,
    held: VecDeque<Held>,
    /// Who books what is lost.
    device: NodeId,
}

/// What happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strike {
    /// It goes on.
    Passes,
    /// It goes on twice.
    Twice,
    /// It is lost, and this device books it.
    Lost(NodeId),
    /// It is kept here.
    Held,
}

/// Of all links.
pub(super) struct LinkFaults {
    faults: Faults,
    links: Vec<Option<Struck>>,
    /// Frames that are held anywhere.
    held: usize,
}

impl LinkFaults {
    pub(super) fn new(faults: Faults, topology: &Topology, seed: Seed) -> Self {
        let is_device = |node: NodeId| topology.nodes[node as usize].role == Role::Device;
        let (routes, exits) = (topology.routes(), topology.exits());
        let up = |link: &Link| match topology.sink() {
            Some(sink) if link.to != sink => {
                // The next hop from where it begins towards the sink.
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

    /// What happens to `frame`, which arrives over `link` at `frame.t`.
    pub(super) fn strike(&mut self, link: usize, frame: &Frame) -> Strike {
        let Some(struck) = &mut self.links[link] else { return Strike::Passes };
        let fate = struck.fates.draw();
        if fate.lost || fate.flip.is_some() {
            // A damaged frame fails its checksum, and no network card hands it on.
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

    /// A frame over `link` that was held for long enough at `t`.
    pub(super) fn release(&mut self, link: usize, t: Time) -> Option<Frame> {
        let struck = self.links[link].as_mut()?;
        let held = struck.held.pop_front_if(|held| held.passes == 0 || held.until <= t)?;
        self.held -= 1;
        Some(Frame { t, ..held.frame })
    }

    /// When a frame has to be released although nothing passes, and over which link.
    pub(super) fn next(&self) -> (Time, usize) {
        if self.held == 0 {
            return (NEVER, 0);
        }
        let firsts =
            self.links.iter().enumerate().filter_map(|(i, struck)| Some((struck.as_ref()?.held.front()?.until, i)));
        firsts.min().unwrap_or((NEVER, 0))
    }
}
