//! Devices above devices (§4, "Hierarchical aggregation").

use crate::format::Header;
use pktgen_core::config::Value;
use pktgen_core::record::{Action, PacketId};
use pktgen_core::time::{MS, Time, US};
use pktgen_wire::wire::frame::{Datagram, SERVER_IP};
use proptest::prelude::*;

use super::rig::{Input, Plain, Rig, job};
use pktgen_engine::frame::{Frame, Kind};

/// Workers 0 to 2 are below the first device, 3 to 5 below the second.
struct Network {
    below: [Rig; 2],
    top: Rig,
}

fn plain() -> [(&'static str, Value); 1] {
    [("chip", "none".into())]
}

impl Network {
    fn new() -> Self {
        let below = [0, 3].map(|first| {
            let sources: Vec<_> = (first..first + 3).map(|id| (id, 1)).collect();
            Rig::new(vec![job(&sources, Some(first), &[1, 2, 3])], &plain())
        });
        Network { below, top: Rig::new(vec![job(&[(0, 3), (3, 3)], None, &[0, 1])], &plain()) }
    }

    /// Forwards the output of the devices below to the one at the top.
    fn lift(&mut self) {
        for rig in &mut self.below {
            for port in &mut rig.ports {
                port.advance(Time::MAX - 1, &mut rig.pool, &mut rig.books, &mut rig.out);
            }
            for (link, frame) in std::mem::take(&mut rig.out.frames) {
                assert_eq!((link, frame.kind, frame.flow), (0, Kind::Update, 1));
                let datagram = Datagram::parse(rig.pool.frame(&frame)).unwrap();
                assert_eq!((datagram.src, datagram.dst), (SERVER_IP, SERVER_IP));
                let copy = Frame { buffer: self.top.pool.take(), ..frame };
                let len = usize::from(frame.len);
                self.top.pool.bytes_mut(copy.buffer)[..len].copy_from_slice(rig.pool.frame(&frame));
                rig.pool.release(frame.buffer);
                self.top.pass(copy.t);
                self.top.burst(&[copy]);
            }
        }
    }

    fn offer(&mut self, input: &Input) {
        let rig = &mut self.below[usize::from(input.header.source) / 3];
        rig.pass(input.t);
        rig.offer(input);
    }
}

fn without_source(plain: &Plain) -> (Vec<u32>, Vec<i32>) {
    let header = plain.header.iter().enumerate().filter(|(i, _)| *i != 3).map(|(_, field)| *field).collect();
    (header, plain.values.clone())
}

proptest! {
    #[test]
    fn two_levels_sum_as_one(order in Just((0..18u8).collect::<Vec<_>>()).prop_shuffle(), values: [[i32; 4]; 18], last: bool) {
        let mut flat = Rig::new(vec![job(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)], None, &[0])], &plain());
        let mut network = Network::new();
        for (i, which) in order.iter().enumerate() {
            let (block, source) = (u32::from(which / 6), which % 6);
            let header = Header { block, source, sources: 1, generation: 3, last: last && block == 2, ..Default::default() };
            let packet = PacketId::new(source.into(), block, 0);
            let input = Input { t: i as Time * US, header, values: values[usize::from(*which)].to_vec(), packet };
            flat.offer(&input);
            network.offer(&input);
            network.lift();
        }
        let mut expected: Vec<_> = flat.sent().iter().map(|(_, plain)| without_source(plain)).collect();
        let mut sent: Vec<_> = network.top.sent().iter().filter(|(link, _)| *link == 0).map(|(_, p)| without_source(p)).collect();
        expected.sort();
        sent.sort();
        prop_assert_eq!(sent.len(), 3);
        prop_assert_eq!(sent, expected);
        // The id of the top's Result is that of a worker's packet that opened a block at a device below.
        for (_, packet, action, out, _) in network.top.rows() {
            prop_assert!(action != Action::Merged || out.unwrap().seq() == packet.seq());
        }
    }
}

#[test]
fn a_straggler_below_costs_one_timeout_of_its_device_only() {
    let mut network = Network::new();
    for source in 0..5 {
        let header = Header { source, sources: 1, ..Default::default() };
        let packet = PacketId::new(source.into(), 0, 0);
        network.offer(&Input { t: 0, header, values: vec![i32::from(source)], packet });
    }
    network.below[1].pass(20 * MS);
    network.lift();
    network.top.finish();
    let (_, sent) = network.top.sent().remove(0);
    // Five workers, timed out, partial; the top's own timers, twice as long, never expired.
    assert_eq!((sent.header[4], sent.header[6], sent.header[8], sent.values), (5, 1, 1, vec![10]));
    assert_eq!(
        (network.top.counter("aged"), network.top.counter("results"), network.below[1].counter("aged")),
        (0, 1, 1)
    );
}

#[test]
fn a_device_that_says_too_much_is_refused() {
    let mut network = Network::new();
    let header = Header { source: 3, sources: 4, ..Default::default() };
    network.top.offer(&Input { t: 0, header, values: vec![1], packet: PacketId::new(0, 0, 0) });
    assert_eq!(network.top.drops(), [pktgen_core::record::Reason::WrongCount]);
}

#[test]
fn results_from_above_reach_every_port_without_a_copy() {
    let mut network = Network::new();
    let [rig, _] = &mut network.below;
    let header = Header { sources: 6, ..Default::default() };
    let mut frame = rig.frame(&Input { t: 0, header, values: vec![5], packet: PacketId::new(0, 0, 0) });
    frame.kind = Kind::Result;
    let forged = rig.frame(&Input { t: 0, header, values: vec![5], packet: PacketId::new(0, 0, 0) });
    rig.burst(&[Frame { kind: Kind::Result, ..forged }]);
    assert_eq!(rig.books.control_dropped, 1, "not from above");
    let ip = SERVER_IP.to_be_bytes();
    rig.pool.bytes_mut(frame.buffer)[26..30].copy_from_slice(&ip);
    rig.burst(&[frame]);
    assert_eq!(rig.pool.in_use(), 1, "one buffer");
    let links: Vec<_> = rig.sent().into_iter().map(|(link, plain)| (link, plain.values)).collect();
    assert_eq!(links, [(1, vec![5]), (2, vec![5]), (3, vec![5])]);
    assert_eq!((rig.pool.in_use(), rig.books.rows.len()), (0, 0));
}
