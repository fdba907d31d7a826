//! Faults of links in virtual time: lost, duplicated or delayed frames, by the same keys as on wires
//! (`docs/real-time.md`). They apply when a frame arrives at a link's end; the device at one of its ends books losses.

use std::collections::VecDeque;

use pktgen_core::seed::Seed;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{Link, NodeId, Role, Topology};

use super::calendar::Calendar;
use super::fates::{FaultStreams, Faults};
use crate::frame::{Frame, Kind};

/// A frame that is held until a number of others have come, or until a time. On wires it is a time without another frame: protocols that
/// bound delays (Libra's failover) are examined here.
struct Held {
    frame: Frame,
    passes: u64,
    until: Time,
    /// Whether it then passes twice.
    twice: bool,
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
    /// By link: until when its first frame is held.
    due: Calendar,
    /// By node: whether it is a device that a controller at the servers' side commands.
    commanded: Vec<bool>,
}

impl LinkFaults {
    pub(super) fn new(faults: Faults, topology: &Topology, seed: Seed) -> Self {
        let is_device = |node: NodeId| topology.nodes[node as usize].role == Role::Device;
        let (routes, exits) = (topology.routes(), topology.exits());
        // Names the stream of chance only.
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
            let device = [link.to, link.from].into_iter().find(|node| is_device(*node))?;
            let fates = FaultStreams::new(faults, seed, place as u64, up(link));
            Some(Struck { fates, held: VecDeque::new(), device })
        };
        let due = Calendar::new(topology.links.len());
        let has_controller = topology.controller().is_some();
        let commanded = (0u32..).zip(&topology.nodes).map(|(node, _)| has_controller && is_device(node)).collect();
        LinkFaults { links: topology.links.iter().enumerate().map(one).collect(), faults, due, commanded }
    }

    /// Returns whether a frame goes away from the servers' side: to workers, or from a controller to a device. Workers address servers only.
    fn goes_down(&self, frame: &Frame) -> bool {
        let is_command = || self.commanded.get(frame.flow as usize).copied().unwrap_or(false);
        frame.goes_down() || frame.kind == Kind::Request && is_command()
    }

    /// Applies faults to `frame`, which arrives over `link` at `frame.t`.
    pub(super) fn strike(&mut self, link: usize, frame: &Frame) -> Strike {
        // The direction is the frame's: a link between switches may carry both, and there may be several servers.
        let wanted = if self.goes_down(frame) { self.faults.down } else { self.faults.up };
        let Some(struck) = self.links[link].as_mut().filter(|_| wanted) else { return Strike::Passes };
        let fate = struck.fates.draw();
        struck.held.iter_mut().for_each(|held| held.passes = held.passes.saturating_sub(1));
        // A damaged frame fails its checksum, and network cards discard it.
        let is_lost = fate.lost || fate.flip.is_some();
        if fate.held && !is_lost {
            let until = frame.t.saturating_add(self.faults.hold);
            if struck.held.is_empty() {
                self.due.set(link as u32, until);
            }
            struck.held.push_back(Held { frame: *frame, passes: self.faults.by, until, twice: fate.duplicated });
        }
        match (is_lost, fate.held, fate.duplicated) {
            (true, ..) => Strike::Lost(struck.device),
            (_, true, _) => Strike::Held,
            (_, _, true) => Strike::Twice,
            _ => Strike::Passes,
        }
    }

    /// Releases a frame of `link` that has been held long enough at `t`; also returns whether it passes twice.
    pub(super) fn release(&mut self, link: usize, t: Time) -> Option<(Frame, bool)> {
        let struck = self.links[link].as_mut()?;
        let held = struck.held.pop_front_if(|held| held.passes == 0 || held.until <= t)?;
        self.due.set(link as u32, struck.held.front().map_or(NEVER, |next| next.until));
        Some((Frame { t, ..held.frame }, held.twice))
    }

    /// Returns when the next frame must be released although nothing comes, and its link.
    pub(super) fn next(&self) -> (Time, usize) {
        let (t, link) = self.due.first();
        (t, link as usize)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;
    use pktgen_core::time::MS;
    use pktgen_core::units::{Rate, Size};

    use super::*;
    use crate::frame::Pool;

    fn frame(t: Time, seq: u32) -> Frame {
        let (packet, buffer) = (PacketId::new(0, seq, 0), Pool::new(64, 1).take());
        Frame { t, packet, buffer, worker: 0, len: 60, cluster: 0, flow: 0, head: 42, kind: Kind::Update }
    }

    fn faults(reorder: f64, duplicate: f64) -> LinkFaults {
        let faults = Faults {
            loss: 0.0,
            burst: None,
            duplicate,
            reorder,
            by: 3,
            hold: 5 * MS,
            corrupt: 0.0,
            up: true,
            down: true,
        };
        let struck = Struck { fates: FaultStreams::new(faults, Seed(1), 0, true), held: VecDeque::new(), device: 7 };
        LinkFaults { faults, links: vec![None, Some(struck)], due: Calendar::new(2), commanded: Vec::new() }
    }

    #[test]
    fn a_frame_is_held_until_others_have_come_or_for_a_time() {
        let mut faults = faults(1.0, 0.0);
        assert_eq!(faults.strike(0, &frame(0, 0)), Strike::Passes);
        for (t, seq) in [(0, 0), (MS, 1), (2 * MS, 2)] {
            assert_eq!(faults.strike(1, &frame(t, seq)), Strike::Held);
            assert!(faults.release(1, t).is_none(), "fewer than three have come");
            assert_eq!(faults.next(), (5 * MS, 1));
        }
        assert_eq!(faults.strike(1, &frame(3 * MS, 3)), Strike::Held);
        let seq = |released: Option<(Frame, bool)>| released.map(|(frame, twice)| (frame.packet.seq(), frame.t, twice));
        assert_eq!(seq(faults.release(1, 3 * MS)), Some((0, 3 * MS, false)), "three have come");
        assert_eq!((seq(faults.release(1, 3 * MS)), faults.next()), (None, (6 * MS, 1)));
        let rest: Vec<_> = (0..3).map(|_| seq(faults.release(1, 7 * MS)).map(|(seq, ..)| seq)).collect();
        assert_eq!((rest, faults.next()), (vec![Some(1), Some(2), None], (8 * MS, 1)));
    }

    /// Lost ones come, too.
    #[test]
    fn lost_frames_overtake_one_that_is_held() {
        let mut faults = faults(1.0, 0.0);
        assert_eq!(faults.strike(1, &frame(0, 0)), Strike::Held);
        faults.links[1].as_mut().unwrap().fates =
            FaultStreams::new(Faults { loss: 1.0, ..faults.faults }, Seed(1), 0, true);
        for seq in 1..4 {
            assert!(faults.release(1, 1).is_none());
            assert_eq!(faults.strike(1, &frame(1, seq)), Strike::Lost(7));
        }
        assert!(faults.release(1, 1).is_some());
    }

    /// Of two servers, both get updates and send acknowledgements.
    #[test]
    fn a_direction_is_that_of_the_frame() {
        let mut topology = Topology::default();
        let (switch, rate) = (topology.add("sw", Role::Device), Rate::from_bps(1));
        for name in ["ps", "ps1"] {
            let server = topology.add(name, Role::Server);
            topology.connect(switch, server, rate, rate, 0, Size::default());
        }
        let mut all = LinkFaults::new(Faults { loss: 1.0, up: false, ..faults(0.0, 0.0).faults }, &topology, Seed(1));
        for link in 0..4 {
            assert_eq!(all.strike(link, &frame(0, 0)), Strike::Passes, "{link}");
            assert_eq!(all.strike(link, &Frame { kind: Kind::Control, ..frame(0, 0) }), Strike::Lost(switch), "{link}");
        }
    }

    /// Requests of workers and answers of switches go up, requests of a controller go down.
    #[test]
    fn a_controller_is_at_the_side_of_the_servers() {
        let mut topology = Topology::default();
        let (switch, rate) = (topology.add("switch", Role::Device), Rate::from_bps(1));
        let ends = [("libra0", Role::Device), ("ps", Role::Server), ("controller", Role::Controller)];
        let [beside, server, controller] = ends.map(|(name, role)| {
            let node = topology.add(name, role);
            topology.connect(switch, node, rate, rate, 0, Size::default());
            node
        });
        for (up, lost) in [(true, [false, true, true]), (false, [true, false, false])] {
            let one = Faults { loss: 1.0, up, down: !up, ..faults(0.0, 0.0).faults };
            let mut all = LinkFaults::new(one, &topology, Seed(1));
            let request = |flow: NodeId| Frame { kind: Kind::Request, flow, ..frame(0, 0) };
            let found = [beside, controller, server].map(|flow| all.strike(0, &request(flow)) != Strike::Passes);
            assert_eq!(found, lost, "up: {up}");
        }
    }

    #[test]
    fn a_frame_that_is_held_may_pass_twice() {
        let mut faults = faults(1.0, 1.0);
        assert_eq!(faults.strike(1, &frame(0, 0)), Strike::Held);
        assert!(faults.release(1, 5 * MS).is_some_and(|(_, twice)| twice));
    }
}
