//! Tests of what packets of given formats show.

use pktgen_wire::wire::Format;

use super::super::input::{Input, Tally};
use super::*;

fn format(name: &str) -> &'static dyn Format {
    all().protocols.formats.iter().copied().find(|format| format.name() == name).expect("a format")
}

/// Returns a contribution of ATP, which is over IPv4 without UDP.
fn atp() -> Vec<u8> {
    let facts = format("atp_ml").facts();
    let mut frame = vec![0; facts.frame_bytes.0];
    Template::new((worker_ip(2), 0), (SERVER_IP, 0), frame.len()).emit(&mut frame);
    frame[12..14].copy_from_slice(&facts.ether_type.expect("an Ethernet type").to_be_bytes());
    // The header begins after IPv4.
    frame[34..].fill(0);
    frame
}

/// Returns the formats of the events in a capture, and the counts of the other packets.
fn events(path: &Path, given: Option<&'static dyn Format>) -> (Vec<&'static str>, Tally) {
    let formats = all().protocols.formats;
    let mut input = Input::open(path, Side::Server, formats, given).unwrap();
    let mut events = Vec::new();
    input.fill(&mut events, 100);
    let names = events.iter().map(|event| formats[usize::from(event.format)].name()).collect();
    (names, input.into_facts().tally)
}

/// A format without UDP is not sought in datagrams, and a format over UDP not in frames of other Ethernet types.
#[test]
fn only_packets_that_can_be_of_the_given_format_are_read_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut question = vec![0; HEAD + 300];
    Template::new((worker_ip(1), 53), (SERVER_IP, 53), question.len()).emit(&mut question);
    let update = frame_of(&Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 0, arrives: None }, 1);
    write(&path, &[(1000, update), (2000, atp()), (3000, question)]);
    for (given, names, other, foreign) in
        [(None, &["olaf", "atp_ml"][..], 0, 1), (Some("olaf"), &["olaf"], 1, 1), (Some("atp_ml"), &["atp_ml"], 0, 2)]
    {
        let (found, tally) = events(&path, given.map(format));
        assert_eq!((&found[..], tally.other, tally.foreign, tally.misfits), (names, other, foreign, 0), "{given:?}");
    }
}

/// Updates without numbers and generation times are the same packet only by chance.
#[test]
fn formats_without_generation_times_give_no_offset() {
    let dir = tempfile::tempdir().unwrap();
    let (own_port, server_port) = format("olaf_strict").facts().ports.expect("ports");
    let packet = |from: (u32, u16), to: (u32, u16), bytes: usize| {
        let mut frame = vec![0; HEAD + bytes];
        Template::new(from, to, frame.len()).emit(&mut frame);
        frame
    };
    let (worker, server) = ((worker_ip(1), own_port), (SERVER_IP, server_port));
    // The length of an acknowledgement is a multiple of four and one.
    let (update, ack) = (packet(worker, server, 40), packet(server, worker, 41));
    let names = ["sent.pcap", "received.pcap"].map(|name| dir.path().join(name));
    // The clocks agree; the server's capture begins a second earlier.
    let (start, second) = (2_000_000_000_000, 1_000_000_000_000);
    for (name, first) in names.iter().zip([start, start - second]) {
        let options = WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, ..WriterOptions::new(Form::Pcap) };
        let mut writer = Writer::create(name, options).unwrap();
        for n in [first, start + 1_000_000, start + 2_000_000] {
            writer.packet(0, n, &update, update.len() as u32).unwrap();
            writer.packet(0, n + 500_000, &ack, ack.len() as u32).unwrap();
        }
        writer.finish().unwrap();
    }
    let measured = analysed(&both(&names));
    assert!(measured.lines.iter().all(|line| !line.metric.starts_with("clock_")), "{:?}", measured.lines);
}
