//! Tests of [`super`]: bursts, refusals of the wire below, lengths.

use pktgen_core::topology::Population;
use pktgen_wire::device;
use pktgen_wire::wire::frame::{Datagram, SERVER_IP, Template, group_ip, source_ip, worker_ip};
use pktgen_wire::wire::update::{PORT, WORKER_PORT};

use super::super::testing::{Memory, site};
use super::*;
use crate::transport::middleware::Outer;

/// A profile with a VLAN, and its addresses for three workers of one cluster.
fn heads() -> Arc<Outer> {
    heads_with("")
}

/// The same with more keys.
fn heads_with(more: &str) -> Arc<Outer> {
    let text = "[addressing]\nworkers = \"10.9.0.1\"\nserver = \"10.9.9.9\"\nserver_mac = \"02:00:00:00:09:09\"\n\
                groups = \"239.9.0.0\"\nvlan = 77\nport = 7000\n";
    let profile = device::Profile::parse(&format!("{text}{more}"), "test", &pktgen_registry::all().protocols).unwrap();
    let addresses = profile.addressing.resolve(&Population::regular(1, 3)).unwrap();
    Arc::new(Outer { addresses, format: pktgen_registry::all().protocols.formats[0].facts(), sees_tags: false })
}

fn update(worker: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![worker as u8; len];
    Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), len).emit(&mut frame);
    frame
}

#[test]
fn a_burst_has_the_profiles_addresses_and_what_was_not_taken_is_offered_again() {
    let (memory, bench) = Memory::new();
    let site = Site { outer: Some(heads()), ..site() };
    let mut wire = Exchange.wrap(End::Workers, &site, Box::new(memory)).unwrap();
    // More than a burst, one foreign frame, and one of maximum length.
    let mut frames: Vec<_> = (0..70).map(|i| update(i % 3, 60 + i as usize % 3)).collect();
    frames[2] = vec![0xab; 50];
    frames[3] = update(1, 128);
    let slices: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    bench.lock().unwrap().room = 5;
    assert_eq!(wire.send(&slices).unwrap().taken, 5);
    bench.lock().unwrap().room = 100;
    let burst = wire.send(&slices[5..]).unwrap();
    assert_eq!((burst.taken, burst.lost), (BURST, 0b101), "a burst at most");
    let sent = bench.lock().unwrap().sent.clone();
    assert_eq!(sent[2], frames[2], "what is not of this run passes as it is");
    for (sent, frame) in sent.iter().zip(&frames).filter(|(_, frame)| frame.len() != 50) {
        assert_eq!((sent.len(), &sent[12..16]), (frame.len() + 4, &[0x81, 0, 0, 77][..]));
        let (outer, inner) = (Datagram::parse(sent).unwrap(), Datagram::parse(frame).unwrap());
        assert_eq!((outer.src - 0x0a09_0001, outer.dst), (inner.src - worker_ip(0), 0x0a09_0909));
        assert_eq!((outer.src_port, outer.dst_port, outer.payload), (WORKER_PORT, 7000, inner.payload));
    }
    assert!(wire.mode().ends_with("addresses of the profile"));
    let notes = wire.notes();
    assert_eq!(
        (notes[1].0.as_str(), notes[1].1.ends_with("not in the profile: 1 sent, 0 received")),
        ("readdress.workers", true)
    );
}

#[test]
fn what_arrives_has_our_addresses_again() {
    let heads = heads();
    let (memory, bench) = Memory::new();
    let mut wire =
        Exchange.wrap(End::Workers, &Site { outer: Some(heads.clone()), ..site() }, Box::new(memory)).unwrap();
    let mut ack = vec![7; 64];
    Template::new((SERVER_IP, PORT), (group_ip(0), WORKER_PORT), 64).emit(&mut ack);
    let mut on_wire = vec![0; 68];
    assert_eq!(heads.translator(End::DeviceDown).outward(&ack, &mut on_wire), Some(68));
    let mut misled = on_wire.clone();
    misled[5] ^= 1;
    bench.lock().unwrap().incoming.extend([on_wire, vec![1; 70]]);
    bench.lock().unwrap().marks = 0b01;
    let mut heard = Vec::new();
    let found = wire.receive(64, &mut |a| heard.push((a.bytes.to_vec(), a.len, a.lost, a.stamp_ns))).unwrap();
    assert_eq!(found.frames, 2);
    // With the length on the cable.
    assert_eq!(heard, [(ack, 68, true, Some(7)), (vec![1; 70], 70, false, Some(7))]);
    assert!(wire.notes()[1].1.ends_with("0 sent, 1 received"));
    bench.lock().unwrap().incoming.push_back(misled);
    wire.receive(64, &mut |_| ()).unwrap();
    assert!(wire.notes()[1].1.ends_with("; 1 received frames have another Ethernet destination than their host's"));
}

/// A profile may have the addresses that we have inside.
#[test]
fn a_frame_without_the_tag_is_not_of_the_run_whatever_its_addresses() {
    let text = "[addressing]\nworkers = \"10.0.0.1\"\nserver = \"198.18.0.1\"\nserver_mac = \"02:00:c6:12:00:01\"\ngroups = \"239.192.0.0\"\nvlan = 77\n";
    let profile = device::Profile::parse(text, "test", &pktgen_registry::all().protocols).unwrap();
    let addresses = profile.addressing.resolve(&Population::regular(1, 3)).unwrap();
    let format = pktgen_registry::all().protocols.formats[0].facts();
    let outer = Arc::new(Outer { addresses, format, sees_tags: true });
    let (memory, bench) = Memory::new();
    let mut wire = Exchange.wrap(End::Server, &Site { outer: Some(outer), ..site() }, Box::new(memory)).unwrap();
    bench.lock().unwrap().incoming.push_back(update(0, 64));
    let mut heard = Vec::new();
    wire.receive(64, &mut |arrival| heard.push((arrival.bytes.to_vec(), arrival.len))).unwrap();
    let [(bytes, len)] = &heard[..] else { panic!("one frame") };
    // No format knows its source.
    assert_ne!(source_ip(bytes), worker_ip(0));
    assert_eq!((&bytes[12..18], *len), (&[0x81, 0, 0, 0, 8, 0][..], 64));
    assert!(wire.notes()[1].1.ends_with("0 sent, 1 received"), "{:?}", wire.notes());
}

/// Beside a device that switches and one that routes, which has separate Ethernet addresses on the cable.
#[test]
fn captures_hold_what_was_on_the_cable() {
    let routed = "device = \"10.9.8.8\"\ndevice_mac = \"02:00:00:00:08:08\"\nnext_hop = \"device\"";
    for (heads, from, to) in [
        (heads(), End::Workers, End::DeviceDown),
        (heads(), End::DeviceUp, End::Server),
        (heads_with(routed), End::Workers, End::DeviceDown),
        (heads_with(routed), End::DeviceUp, End::Server),
    ] {
        let wrapped = |end| {
            let (memory, bench) = Memory::new();
            let site = Site { outer: Some(heads.clone()), ..site() };
            (Exchange.wrap(end, &site, Box::new(memory)).unwrap(), bench)
        };
        let ((mut sender, out), (mut receiver, arriving)) = (wrapped(from), wrapped(to));
        sender.send(&[&update(2, 64)]).unwrap();
        let sent = out.lock().unwrap().sent[0].clone();
        arriving.lock().unwrap().incoming.push_back(sent.clone());
        let mut heard = Vec::new();
        receiver.receive(64, &mut |arrival| heard.push(arrival.bytes.to_vec())).unwrap();
        assert_eq!(heard, [update(2, 64)]);
        assert_eq!(receiver.on_cable(&heard[0]), sent, "{to:?}");
        assert_eq!(receiver.on_cable(&[9; 50]), [9; 50], "what is not of this run was not exchanged");
    }
}

#[test]
fn it_is_asked_for_and_needs_a_profile() {
    let read = |values: &[(&str, pktgen_core::config::Value)]| {
        Readdress.read(&mut Section::of("transport", values), 0).map(|layer| layer.is_some())
    };
    assert!(!read(&[]).unwrap() && !read(&[("readdress", false.into())]).unwrap());
    assert!(read(&[("readdress", true.into())]).unwrap());
    assert!(read(&[("readdress", "yes".into())]).unwrap_err().to_string().contains("true or false"));
    let why = Exchange.wrap(End::Workers, &site(), Box::new(Memory::new().0)).err().unwrap().to_string();
    assert!(why.contains("target.profile"), "{why}");
}
