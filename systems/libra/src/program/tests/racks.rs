//! The switch of one of two racks: worker 0 is attached to it, worker 1 is behind the other one, at port 1.

use std::sync::Arc;

use pktgen_core::record::Heat;
use pktgen_wire::wire::frame::server_ip;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::shards::{Partition, Shards};

use super::*;
use pktgen_engine::racks::RackPlace;

/// Nodes: this switch, the server of rack 0 and that of rack 1, the hosts of workers 0 and 1.
fn at(rack: u32) -> Place {
    let mut place = place(1, 2);
    let known = place.sparse.as_mut().unwrap();
    known.shards = Arc::new(Shards::new(&known.sparse, &Layout::heat(64), Partition::Hash, &[0, 1]));
    place.routes = vec![NO_PORT, SERVER_LINK as u16, 1, 0, 1].into();
    place.jobs = Arc::default();
    let down = [vec![vec![0, 1]], vec![vec![0]]].map(|ports| Arc::new(ports.into())).to_vec();
    place.racks = Some(RackPlace { own: Some(rack), hosts: Arc::new(vec![3, 4]), down });
    place
}

/// Returns the first hot parameters of a rack.
fn of_rack(rack: u32) -> [u32; 2] {
    let shards = at(0).sparse.unwrap().shards;
    let mut own = (0..HOT).filter(|index| shards.rack_of(0, *index) == rack);
    [own.next().unwrap(), own.next().unwrap()]
}

fn push(number: u32, rack: u32) -> Header {
    Header { kind: Wire::Push, attempt: 0, job: 0, seq: Numbers::new(2).seq(rack, number, Heat::Hot) }
}

fn end(rack: u32) -> Header {
    Header { kind: Wire::End, ..push(1, rack) }
}

/// Sends the first push and the end of both workers; returns the output of the last.
fn iteration(rig: &mut Rig, rack: u32) -> Vec<rig::Left> {
    let [first, second] = of_rack(rack);
    for worker in 0..2 {
        let acks = rig.send(worker, push(0, rack), &[(first, 1.0), (second, 0.5)], 0);
        let ack = Datagram::parse(&acks[0].bytes).unwrap();
        let (host, header) = (3 + worker, Header { kind: Wire::Ack, ..push(0, rack) });
        assert_eq!((acks.len(), acks[0].link, acks[0].frame.flow), (1, worker, host), "by the port towards its host");
        assert_eq!((ack.src, Header::parse(ack.payload)), (server_ip(rack), Some(header)));
    }
    assert_eq!(rig.send_bytes(0, end(rack), &[0; 4], 0).len(), 1);
    rig.send_bytes(1, end(rack), &[0; 4], 0).split_off(1)
}

#[test]
fn the_memory_that_a_refusal_names_is_enough_for_all_racks() {
    for racks in 1u16..=5 {
        let place = |rack| {
            let mut place = at(rack);
            let known = place.sparse.as_mut().unwrap();
            let rack_of: Vec<u16> = (0..racks).collect();
            known.shards = Arc::new(Shards::new(&known.sparse, &Layout::heat(64), Partition::Hash, &rack_of));
            let own = place.racks.as_mut().unwrap();
            own.down = vec![own.down[0].clone(); usize::from(racks)];
            place
        };
        let opened = |rack: u16, memory: &str| open(place(u32::from(rack)), &[("memory", memory.into())]);
        for rack in 0..racks {
            let why = opened(rack, "8B").err().expect("two parameters fit").to_string();
            let bytes = why.split("; give ").nth(1).and_then(|rest| rest.split(" B or more").next()).unwrap();
            for other in 0..racks {
                assert!(opened(other, &format!("{bytes}B")).is_ok(), "{why}: rack {other} of {racks}");
            }
        }
    }
}

#[test]
fn each_sums_what_its_servers_have() {
    let mut rig = Rig::new(at(0), &[]);
    let left = iteration(&mut rig, 0);
    assert_eq!(left.iter().map(|left| left.link).collect::<Vec<_>>(), [0, 1]);
    let (header, _, sums) = result(&left[0].bytes);
    let [first, second] = of_rack(0);
    assert_eq!((header.seq, sums), (0, vec![(first, 2.0), (second, 1.0)]));
    // The other switch's parameters are refused, whatever the number.
    assert!(rig.send(0, push(2, 0), &[(of_rack(1)[0], 1.0)], 0).is_empty());
    assert_eq!(rig.books.rows.last().unwrap().reason, Some(Reason::Malformed));
    assert_eq!(rig.counter("sums"), 1);
}

#[test]
fn what_is_for_the_other_goes_on_its_way() {
    let (mut rig, mut other) = (Rig::new(at(0), &[]), Rig::new(at(1), &[]));
    let frame = rig.frame(0, push(0, 1), &rig::hot(&[(of_rack(1)[0], 1.0)]), 0);
    rig.burst(&[Frame { flow: 2, ..frame }]);
    let left = rig.leave();
    assert_eq!((left.len(), left[0].link, left[0].frame.kind), (1, 1, Kind::Update), "towards its server");
    assert_eq!(rig.counter("packets"), 0);
    // Results of the other switch for all workers: forwarded to those behind this one. They are numbered separately.
    let results = iteration(&mut other, 1);
    assert_eq!(result(&results[0].bytes).0.seq, 2);
    assert_eq!(rig.pass(&results[0]).iter().map(|left| left.link).collect::<Vec<_>>(), [0]);
}

#[test]
fn each_has_memory_for_its_own_parameters_only() {
    let held = |rack| at(rack).sparse.unwrap().hot(rack);
    assert_eq!(held(0) + held(1), HOT);
    let rigs = [0, 1].map(|rack| Rig::new(at(rack), &[]));
    let counters = |name| rigs.each_ref().map(|rig| rig.counter(name));
    assert_eq!(counters("memory_registers_bytes"), [0, 1].map(|rack| u64::from(held(rack)) * 4));
    // Each reports its own share; the maximum counts (docs/records.md).
    assert!(counters("memory_share_ppm").iter().all(|share| *share > 0));
    assert!(counters("stages_published").iter().all(|stages| *stages > 0));
    let tight = format!("{}B", held(0) * 4 - 1);
    let message = open(at(0), &[("memory", tight.into())]).err().unwrap().to_string();
    assert!(message.contains("rack 0 of 2") && message.contains(&held(0).to_string()), "{message}");
}
