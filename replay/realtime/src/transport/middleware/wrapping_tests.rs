//! Every wrapper passes every method of [`Wire`] on to the wire that it wraps.

use std::sync::{Arc, Mutex};

use pktgen_core::config::Section;
use pktgen_core::time::MS;
use pktgen_wire::device::Profile;
use pktgen_wire::wire::frame::{SERVER_IP, Template, worker_ip};
use pktgen_wire::wire::update::{Header, PORT, WORKER_PORT};

use super::testing::{Bench, Memory, within};
use super::*;
use crate::transport::{Found, Submitted, WireCounters};

/// Returns the first end that `layer` wraps, with its wire.
fn wrapped(layer: &dyn Layer, site: &Site, name: &str) -> (End, Box<dyn Wire>, Arc<Mutex<Bench>>) {
    let mut ends = [End::Workers, End::DeviceDown, End::DeviceUp, End::Server].into_iter().map(|end| {
        let (memory, bench) = Memory::new();
        (end, layer.wrap(end, site, Box::new(memory)).unwrap(), bench)
    });
    ends.find(|(_, wire, _)| wire.mode() != "memory").unwrap_or_else(|| panic!("{name} wraps no end with its sample"))
}

#[test]
fn wrappers_pass_every_method_on() {
    let update = |worker: u32| {
        let mut frame = vec![0; 128];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), 128).emit(&mut frame);
        let elements = ((128 - 42 - pktgen_wire::wire::update::UPDATE_HEAD) / 4) as u16;
        let (cluster, seq, reward) = (0, 3, 0.5);
        let header = Header { flags: 0, cluster, count: 1, worker, seq, generation: 9, attempt: 0, elements, reward };
        header.emit_update(&mut frame[42..]);
        frame
    };
    for kind in MIDDLEWARE {
        let name = kind.name();
        let folder = tempfile::tempdir().unwrap();
        let profile = "[addressing]\nworkers = \"10.9.0.1\"\nserver = \"10.9.9.9\"\nserver_mac = \"02:00:00:00:09:09\"\ngroups = \"239.9.0.0\"";
        let mut site = within(folder.path());
        let addresses = Profile::parse(profile, "test", &pktgen_registry::all().protocols)
            .unwrap()
            .addressing
            .resolve(&site.traffic.workers)
            .unwrap();
        site.outer = Some(Arc::new(Outer {
            addresses,
            format: pktgen_registry::all().protocols.formats[0].facts(),
            sees_tags: false,
        }));
        let mut section = Section::of("transport", &kind.sample());
        let layer =
            kind.read(&mut section, MS).unwrap().unwrap_or_else(|| panic!("{name} reads nothing of its sample"));
        site.dialect = layer.dialect(site.traffic.format, pktgen_registry::all().dialects).unwrap();
        let (end, mut wire, bench) = wrapped(layer.as_ref(), &site, name);
        assert!(wire.mode().starts_with("memory; "), "{name} wraps: {}", wire.mode());

        wire.wait(7).unwrap();
        wire.flush(9).unwrap();
        assert_eq!(bench.lock().unwrap().calls, [("wait", 7), ("flush", 9)], "{name}");
        let frame = update(1);
        bench.lock().unwrap().refuses = true;
        let Submitted { taken, lost, refused } = wire.send(&[&frame]).unwrap();
        // At the device's ends a mark tells of a fault, not of the wire.
        assert_eq!((taken, lost & 1, refused), (1, u64::from(end == End::Workers), true), "{name}: send");
        let sent = bench.lock().unwrap().sent.clone();
        assert_eq!(sent.len(), 1, "{name}: send");
        bench.lock().unwrap().incoming.push_back(sent[0].clone());
        assert_eq!(wire.receive(1, &mut |_| {}).unwrap(), Found::some(1), "{name}: receive");
        bench.lock().unwrap().ended = true;
        assert_eq!(wire.receive(1, &mut |_| {}).unwrap(), Found { frames: 0, ended: true }, "{name}: receive");
        let counters = WireCounters { sent: 1, send_dropped: 3, received: 5, receive_dropped: 9 };
        assert_eq!(wire.counters(), counters, "{name}: counters");
        // Its own translation, and then that of the wrapped wire.
        bench.lock().unwrap().prefix = Some(0xca);
        assert_eq!(wire.on_cable(&frame)[..1], [0xca], "{name}: on_cable");
        assert_eq!(wire.on_cable(&frame)[1..], sent[0], "{name}: on_cable");
        let notes = wire.notes();
        assert!(notes[0].0 == "memory" && notes.len() > 1, "{name}: {notes:?}");
    }
}
