//! Tests at the ends of the ranges of numbers and times.

use pktgen_core::config::Value;
use pktgen_core::record::PacketId;
use pktgen_core::time::{HORIZON, NEVER, NS};
use pktgen_trio_ml::format::{HEADER, Header};
use pktgen_wire::wire::frame::{HEAD, group_ip};

use super::device::framed;
use super::setup::{open, try_open, workers};
use pktgen_engine::endpoint::{Crew, Host};
use pktgen_engine::frame::{Frame, Kind, Pool};

#[test]
fn a_block_is_given_up_when_its_transmissions_have_no_further_number() {
    let text = "name = \"x\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 192\nworkers = 1\niterations = 1\n\
        elements = 64\ncompute = \"0s\"\n";
    let keys = [("pool", Value::Integer(2)), ("scaling", Value::from("fixed")), ("retransmit", Value::from("1us"))];
    let (Crew { workers: mut endpoint, declared, .. }, ..) = open(text, workers("switchml"), &keys, 1, false);
    let (mut pool, mut host) = (Pool::new(declared.frame_bytes.unwrap(), 4), Host::default());
    let (mut attempts, mut times) = ([0u32; 2], Vec::new());
    while endpoint.next_wake() != NEVER {
        assert!(times.len() < 1000, "it goes on for ever");
        let t = endpoint.next_wake();
        endpoint.pull(t, &mut pool, &mut host);
        for outgoing in host.outgoing.drain(..) {
            let row = outgoing.record.unwrap();
            assert_eq!(attempts[row.seq as usize], u32::from(row.attempt));
            attempts[row.seq as usize] += 1;
            times.push(t);
            endpoint.left(outgoing.frame.packet, t);
            pool.release(outgoing.frame.buffer);
        }
    }
    assert_eq!(attempts, [128; 2]);
    // The timeout doubles after 100 timeouts, counted over both blocks, and would double again after 200 more.
    let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]) / (1000 * NS)).filter(|gap| *gap > 0).collect();
    assert_eq!(gaps.iter().filter(|gap| **gap == 1).count(), 50);
    assert!(gaps[50..].iter().all(|gap| *gap == 2), "{gaps:?}");
}

#[test]
fn what_would_be_beyond_the_horizon_is_there_and_not_before_it() {
    for (compute, delay) in
        [("576h", "[0.0, 0.0]"), ("1h", "[1000000.0, 1000000.0]"), ("576h", "[1000000.0, 1000000.0]")]
    {
        let text = format!(
            "name = \"x\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 9\nworkers = 1\niterations = 1\n\
             compute = \"{compute}\"\ndelay_points = 8\nstraggler_probability = 1.0\nstraggler_delay = {delay}\n"
        );
        let wake = open(&text, workers("trio_ml"), &[], 1, false).0.workers.next_wake();
        assert!(wake > HORIZON / 10 * 8 && wake != NEVER, "{compute}, {delay}: {wake}");
        assert_eq!(wake > HORIZON, delay != "[0.0, 0.0]");
    }
}

#[test]
fn a_result_of_the_very_next_block_frees_nothing() {
    let text = "name = \"x\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 30\nworkers = 2\niterations = 1\n\
        elements = 1\ncompute = \"0s\"\n";
    let (Crew { workers: mut endpoint, declared, .. }, ..) =
        open(text, workers("trio_ml"), &[("window", Value::Integer(12))], 2, false);
    let (mut pool, mut host) = (Pool::new(declared.frame_bytes.unwrap(), 4), Host::default());
    let (mut sent, mut last) = (Vec::new(), 0);
    for _ in 0..4 {
        endpoint.pull(last, &mut pool, &mut host);
        let here: Vec<_> = host.outgoing.drain(..).map(|outgoing| outgoing.frame).collect();
        if sent.is_empty() {
            // Eight blocks wait for their link when the others' result of the ninth, which aged out, arrives.
            let header = Header { block: 8, sources: 1, degraded: true, elements: 1, ..Header::default() };
            let mut payload = vec![0; HEADER + 4];
            header.emit(&mut payload);
            let bytes = framed(group_ip(0), &payload);
            let buffer = pool.take();
            pool.bytes_mut(buffer)[..bytes.len()].copy_from_slice(&bytes);
            let (packet, len) = (PacketId::new(1, 8, 0), bytes.len() as u16);
            let kind = Kind::Result;
            let frame = Frame { t: 1, packet, buffer, worker: 0, len, cluster: 0, flow: 1, head: HEAD as u8, kind };
            endpoint.on_burst(1, &[frame], &mut pool, &mut host);
        }
        for frame in here {
            last += 10;
            endpoint.left(frame.packet, last);
            pool.release(frame.buffer);
            sent.extend((frame.worker == 0).then_some(frame.packet.seq()));
        }
    }
    assert_eq!(sent, (0..8).chain(9..13).collect::<Vec<_>>());
}

/// With exponents an iteration has one window of packets more than the model, which 32 bits may no longer number.
#[test]
fn packets_beyond_their_numbers_are_refused() {
    let text = "name = \"x\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 274877906880\nworkers = 1\n\
        iterations = 1\nelements = 64\ncompute = \"0s\"\n";
    let keys = [("scaling", Value::from("exponents"))];
    let why = try_open(text, workers("switchml"), &keys, 1, false).0.err().unwrap().to_string();
    assert!(why.contains("workload.iterations") && why.contains("4294967807 packets"), "{why}");
}
