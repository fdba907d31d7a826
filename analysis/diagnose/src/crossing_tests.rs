//! Tests of captures beside each other: made here, frame by frame.

use std::path::PathBuf;

use pktgen_wire::pcap::{Form, Writer, WriterOptions};

use super::*;
use crate::frame::tests::datagram;

/// Workers 1 to 3, a server and the group of all three, as IPv4 addresses, each with its port.
const WORKERS: [(u32, u16); 3] = [(0x0a00_0001, 5), (0x0a00_0002, 5), (0x0a00_0003, 5)];
const SERVER: (u32, u16) = (0x0a00_0009, 7);
const GROUP: (u32, u16) = (0xe000_0001, 5);

/// Writes a capture.
fn capture(dir: &Path, name: &str, frames: &[Vec<u8>]) -> PathBuf {
    let path = dir.join(name);
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).expect("a file");
    for (t, frame) in (0..).zip(frames) {
        writer.packet(0, t, frame, frame.len() as u32).expect("room");
    }
    writer.finish().expect("a capture");
    path
}

fn update(worker: (u32, u16), n: u32) -> Vec<u8> {
    datagram(None, worker, SERVER, &[&worker.0.to_be_bytes()[..], &n.to_be_bytes()].concat())
}

/// Thirty updates of each worker.
fn updates() -> Vec<Vec<u8>> {
    (0..30).flat_map(|n| WORKERS.map(|worker| update(worker, n))).collect()
}

/// Frames with another Ethernet destination.
fn to_station(frames: Vec<Vec<u8>>, station: [u8; 6]) -> Vec<Vec<u8>> {
    frames.into_iter().map(|frame| [&station, &frame[6..]].concat()).collect()
}

fn station(host: (u32, u16)) -> [u8; 6] {
    let [a, b, c, d] = host.0.to_be_bytes();
    [2, 0, a, b, c, d]
}

fn addressed() -> Addressed {
    Addressed {
        receiver: Some(SERVER.0),
        server_station: Some(station(SERVER)),
        members: [(GROUP.0, WORKERS.map(station).into())].into(),
    }
}

fn upward(workers: &[Vec<u8>], server: &[Vec<u8>], addresses: Option<&Addressed>) -> Crossing {
    let dir = tempfile::tempdir().expect("a folder");
    let [workers, server] = [("w.pcap", workers), ("s.pcap", server)].map(|(name, all)| capture(dir.path(), name, all));
    Crossing::upward(&workers, &server, Traffic::Updates, Rules { addresses, ..Rules::default() }).expect("captures")
}

#[test]
fn a_frame_of_others_before_all_is_not_to_the_server() {
    let foreign = datagram(None, (0xc0a8_0101, 9), (0xc0a8_0102, 9), b"hello");
    let workers = [vec![foreign], updates()].concat();
    for addresses in [None, Some(&addressed())] {
        let crossing = upward(&workers, &updates(), addresses);
        assert_eq!((crossing.came, crossing.unlike, crossing.strangers.frames), (90, 0, 0));
    }
    // One worker that others send more to than it sends: the profile says who is the server.
    let answers: Vec<_> = (0..60).map(|n: u32| datagram(None, SERVER, WORKERS[0], &n.to_be_bytes())).collect();
    let own: Vec<_> = (0..30).map(|n| update(WORKERS[0], n)).collect();
    let workers = [answers.clone(), own.clone()].concat();
    let crossing = upward(&workers, &[own, answers].concat(), Some(&addressed()));
    assert_eq!((crossing.came, crossing.unlike, crossing.strangers.frames), (30, 0, 0));
}

#[test]
fn updates_to_an_ethernet_address_that_the_server_has_not_are_misled() {
    let workers = to_station(updates(), [2, 9, 9, 9, 9, 9]);
    // The router's own, which it left as it was; all hosts.
    for wrong in [[2, 9, 9, 9, 9, 9], [0xff; 6], station(WORKERS[0])] {
        let crossing = upward(&workers, &to_station(updates(), wrong), Some(&addressed()));
        assert_eq!((crossing.station.frames, crossing.came, crossing.misled.frames), (90, 90, 0), "{wrong:?}");
    }
    let crossing = upward(&workers, &updates(), Some(&addressed()));
    assert_eq!(crossing.station, Odd::default());
    // A device that may leave it as it is.
    let addresses = Addressed { server_station: None, ..addressed() };
    assert_eq!(upward(&workers, &workers, Some(&addresses)).station, Odd::default());
}

#[test]
fn updates_to_a_worker_are_misled() {
    let to_worker =
        |n| datagram(None, WORKERS[0], WORKERS[1], &[&WORKERS[0].0.to_be_bytes()[..], &u32::to_be_bytes(n)].concat());
    let wrong: Vec<_> = (0..30).map(to_worker).collect();
    let crossing = upward(&updates(), &wrong, Some(&addressed()));
    assert_eq!(crossing.misled.frames, 30);
    assert_eq!(upward(&updates(), &updates(), Some(&addressed())).misled, Odd::default());
}

/// Packet sockets show tags also where a card takes them out; other captures may lack them.
#[test]
fn frames_without_the_tag_of_all_that_was_sent_have_another_tag_where_captures_show_tags() {
    let of = |tag: Option<u16>| -> Vec<Vec<u8>> {
        (0..30u32).map(|n| datagram(tag, WORKERS[0], SERVER, &n.to_be_bytes())).collect()
    };
    let dir = tempfile::tempdir().expect("a folder");
    let crossed = |sent: &[Vec<u8>], came: &[Vec<u8>], shows_tags: bool| {
        let [workers, server] =
            [("w.pcap", sent), ("s.pcap", came)].map(|(name, frames)| capture(dir.path(), name, frames));
        let rules = Rules { shows_tags, ..Rules::default() };
        Crossing::upward(&workers, &server, Traffic::Updates, rules).expect("captures").tag
    };
    let found = crossed(&of(Some(7)), &of(None), true);
    assert_eq!((found.frames, found.first), (30, 1));
    assert_eq!(found.says, "has no VLAN tag, and all that was sent has one");
    assert_eq!(crossed(&of(Some(7)), &of(None), false), Odd::default());
    assert_eq!(crossed(&of(Some(7)), &of(Some(8)), false).frames, 30);
    // Some were sent without one.
    assert_eq!(crossed(&[of(Some(7)), of(None)].concat(), &of(None), true), Odd::default());
    // Results come back to the workers.
    let results: Vec<_> = (0..30u32).map(|n| datagram(None, SERVER, WORKERS[0], &n.to_be_bytes())).collect();
    let both = capture(dir.path(), "both.pcap", &[of(Some(7)), results].concat());
    let came =
        |shows_tags| Crossing::downward(&both, Rules { shows_tags, ..Rules::default() }).expect("a capture").tag.frames;
    assert_eq!((came(true), came(false)), (30, 0));
}

/// Results to the group of all workers, at these Ethernet addresses.
fn results(stations: &[[u8; 6]], members: bool) -> Odd {
    let dir = tempfile::tempdir().expect("a folder");
    let result = |n: u32| datagram(None, SERVER, GROUP, &[&[0; 4], &n.to_be_bytes()[..]].concat());
    let results = (0..30).flat_map(|n| stations.iter().flat_map(move |to| to_station(vec![result(n)], *to)));
    let capture = capture(dir.path(), "w.pcap", &[updates(), results.collect()].concat());
    let groups = HashSet::from([GROUP.0]);
    let own = addressed();
    let rules = Rules { groups: Some(&groups), addresses: Some(&own).filter(|_| members), ..Rules::default() };
    Crossing::downward(&capture, rules).expect("a capture").station
}

#[test]
fn results_of_a_group_at_the_ethernet_address_of_one_worker_are_misled() {
    assert_eq!(results(&[station(WORKERS[1])], true).frames, 30);
    // A copy for each, the group's own address, all.
    assert_eq!(results(&WORKERS.map(station), true), Odd::default());
    for right in [[1, 0, 0x5e, 0, 0, 1], [0xff; 6]] {
        assert_eq!(results(&[right], true), Odd::default(), "{right:?}");
    }
    assert_eq!(results(&[station(WORKERS[1])], false), Odd::default());
}

#[test]
fn the_servers_address_is_the_profiles_where_interfaces_are_exchanged() {
    // The server's tap has what the device sends to the workers: answers with the device's address.
    let device = [2, 9, 9, 9, 9, 9];
    let answers: Vec<_> = (0..30).map(|n: u32| datagram(None, SERVER, WORKERS[0], &n.to_be_bytes())).collect();
    let answers: Vec<_> = answers.into_iter().map(|frame| [&frame[..6], &device, &frame[12..]].concat()).collect();
    let server = [answers, updates()].concat();
    assert_eq!(upward(&updates(), &server, Some(&addressed())).station, Odd::default());
}

/// The second fragment of a datagram: its first bytes are no UDP header.
fn fragment(frame: &[u8]) -> Vec<u8> {
    let mut later = frame.to_vec();
    later[20..22].copy_from_slice(&[0, 185]);
    later
}

#[test]
fn fragments_are_skipped_and_counted() {
    let fragments: Vec<_> = updates().iter().take(5).map(|frame| fragment(frame)).collect();
    let (workers, server) = ([fragments.clone(), updates()].concat(), [updates(), fragments.clone()].concat());
    let crossing = upward(&workers, &server, Some(&addressed()));
    assert_eq!((crossing.came, crossing.unlike, crossing.strangers.frames, crossing.fragments), (90, 0, 0, 10));
    assert_eq!((crossing.checksum.frames, crossing.length.frames, crossing.misled.frames), (0, 0, 0));
    let dir = tempfile::tempdir().expect("a folder");
    let capture = capture(dir.path(), "w.pcap", &workers);
    let crossing = Crossing::downward(&capture, Rules::default()).expect("a capture");
    assert_eq!((crossing.came, crossing.strangers.frames, crossing.fragments), (0, 0, 5));
    let dir = tempfile::tempdir().expect("a folder");
    let [workers, server] =
        [("w.pcap", &fragments), ("s.pcap", &fragments)].map(|(name, all)| self::capture(dir.path(), name, all));
    // Frames of any kind hold what they held before.
    let crossing = Crossing::upward(&workers, &server, Traffic::Raw, Rules::default()).expect("captures");
    assert_eq!((crossing.came, crossing.strangers.frames, crossing.fragments), (5, 0, 0));
}

/// As in the run: tags and padding are not part of the content, and a device may add tags.
#[test]
fn raw_frames_are_known_behind_tags_and_without_padding() {
    let tcp = |mut frame: Vec<u8>| {
        frame[23] = 6;
        frame
    };
    let udp: Vec<_> = updates().into_iter().take(30).collect();
    let tcp: Vec<_> = udp.iter().cloned().map(tcp).collect();
    for sent in [&udp, &tcp] {
        let tagged = |frame: &Vec<u8>| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..], &[0; 6]].concat();
        let came: Vec<_> = sent.iter().map(tagged).collect();
        let dir = tempfile::tempdir().expect("a folder");
        let [workers, server] = [("w.pcap", sent), ("s.pcap", &came)].map(|(name, all)| capture(dir.path(), name, all));
        for shows_tags in [false, true] {
            for (from, to) in [(&workers, &server), (&server, &workers)] {
                let rules = Rules { shows_tags, ..Rules::default() };
                let crossing = Crossing::upward(from, to, Traffic::Raw, rules).expect("captures");
                assert_eq!((crossing.came, crossing.unlike, crossing.strangers.frames), (30, 0, 0));
                assert_eq!((crossing.copies.frames, crossing.tag.frames, crossing.length.frames), (0, 0, 0));
            }
        }
    }
}
