//! Captures: plain, compressed, of any system, and random bytes.

use std::path::Path;
use std::process::Command;

use pktgen_capture::{CapturePlan, analyze_captures};
use pktgen_registry::all;
use pktgen_wire::pcap::{Form, Precision, Reader, Writer, WriterOptions};
use pktgen_wire::wire::frame::{Datagram, HEAD, SERVER_IP, Template, worker_ip};

use super::Samples;
use super::mutate::Random;

/// Small captures of valid packets of every message of every format, in every form, plain and compressed.
pub fn prepare(folder: &Path) -> Samples {
    let forms = [("a.pcap", Form::Pcap, Precision::Micro), ("b.pcapng", Form::Pcapng, Precision::Nano)];
    let mut names: Vec<String> = Vec::new();
    for (name, form, precision) in forms {
        let options = WriterOptions { precision, snap: 300, ..WriterOptions::new(form) };
        let mut writer = Writer::create(&folder.join(name), options).expect("writable");
        for i in 0..30u8 {
            let layout = all().protocols.formats[usize::from(i) % all().protocols.formats.len()].layout();
            let mut frame = vec![i; HEAD + 60 + usize::from(i) * 7];
            let (first, last) = layout.ports.first().copied().unwrap_or((4791, 4791));
            let ports = (last, first);
            Template::new((worker_ip(i.into()), ports.0), (SERVER_IP, ports.1), frame.len()).emit(&mut frame);
            frame[HEAD] = [0x11, 0x12, 0x00, 0xa0][usize::from(i) % 4];
            writer.packet(0, i64::from(i) * 1_000_000, &frame, frame.len() as u32).expect("writable");
        }
        writer.finish().expect("writable");
        names.push(name.to_owned());
        // Compressed by the system's tools, if present.
        if Command::new("gzip").arg("-k").arg(folder.join(name)).status().is_ok_and(|status| status.success()) {
            names.push(format!("{name}.gz"));
        }
    }
    Samples::of(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    let path = samples.change(which, random);
    read(&path);
    samples.restore(which);
}

/// Calls every entry point for captures.
fn read(path: &Path) {
    let plan = CapturePlan::new(all().protocols.formats, vec![path.to_owned()], vec![path.to_owned()]);
    if let Ok(measured) = analyze_captures(&plan, &mut |_, _| ()) {
        assert!(!measured.lines.is_empty());
    }
    let Ok(mut reader) = Reader::open(path) else { return };
    while let Ok(Some(packet)) = reader.next() {
        let time = packet.time.map(|stamp| (stamp.unix_ns(), stamp.since(0)));
        if let Some(datagram) = Datagram::parse(packet.bytes) {
            for format in all().protocols.formats {
                let _ = (format.print(datagram.payload), format.recognises(datagram.dst_port, datagram.payload));
                let _ = (format.layout().decode(datagram.payload), format.round_trip(datagram.payload), time);
            }
        }
    }
    let _ = (reader.interfaces().len(), reader.noted_anchor_unix_ns());
}
