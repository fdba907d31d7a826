use proptest::prelude::*;

use super::flow::FlowKey;
use super::vary::Vary;
use super::*;
use crate::config::Document;
use crate::pcap::{Form, Writer, WriterOptions};
use crate::time::HORIZON;
use crate::wire::frame::{Datagram, Template, set_udp_checksum};
use crate::workload::open;

/// What an experiment sends: updates and frames.
fn sent(text: &str) -> Result<Vec<(Update, Vec<u8>)>> {
    let mut document = Document::parse(text, "x.toml")?;
    let mut source = open(&mut document, Seed(3))?.source;
    assert!(source.known().raw.is_some(), "whatever stands around it");
    let mut all = Vec::new();
    while let Some(update) = source.peek().copied() {
        let mut frame = vec![0; update.bytes as usize];
        source.take(&mut frame);
        all.push((update, frame));
    }
    assert_eq!(source.failure(), None);
    Ok(all)
}

fn capture(folder: &std::path::Path, frames: &[(Time, Vec<u8>)]) -> String {
    let path = folder.join("x.pcapng");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
    for (t, frame) in frames {
        writer.packet(0, *t, frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    path.display().to_string()
}

fn udp(from: u32, port: u16, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|i| i as u8).collect();
    Template::new((from, port), (0x0a00_0001, 9), len).emit(&mut frame);
    frame
}

#[test]
fn a_capture_is_sent_byte_for_byte_at_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x08, 0x06], &[7; 28]].concat();
    let frames = [(5_000, udp(1, 7, 60)), (9_000, udp(2, 7, 1514)), (9_000, arp), (2_000_000, udp(1, 7, 61))].to_vec();
    let path = capture(folder.path(), &frames);
    let all = sent(&format!("[workload]\nkind = \"raw\"\nframes = \"{path}\"\n")).unwrap();
    assert!(all.iter().zip(&frames).all(|((_, is), (_, due))| is == due) && all.len() == frames.len());
    let times: Vec<_> = all.iter().map(|(update, _)| update.t_gen).collect();
    assert_eq!(times, [0, 4_000, 4_000, 1_995_000]);
    let named: Vec<_> = all.iter().map(|(update, _)| (update.worker, update.seq)).collect();
    assert_eq!(named, [(0, 0), (1, 0), (2, 0), (0, 1)], "flows by their first frame, numbers by flow");
    // Passes go on counting, and a rate stretches the times.
    let text = format!("[workload]\nkind = \"raw\"\nframes = \"{path}\"\nrepeat = 2\n[schedule]\npps = 1000\n");
    let twice = sent(&text).unwrap();
    assert_eq!(twice.len(), 8);
    assert_eq!((twice[7].0.worker, twice[7].0.seq, &twice[7].1), (0, 3, &frames[3].1));
    assert_eq!(twice[3].0.t_gen, 3_000_000_000);
    // So do bits per second: 1,677 bytes in all.
    let text = format!("[workload]\nkind = \"raw\"\nframes = \"{path}\"\n[schedule]\noffered = \"1Mbps\"\n");
    let times: Vec<_> = sent(&text).unwrap().iter().map(|(update, _)| update.t_gen).collect();
    assert!(times[1] == times[2] && times[1] > 4_000_000 && times[3] > 9_000_000_000, "{times:?}");
}

#[test]
fn further_passes_do_not_read_the_capture_again() {
    let folder = tempfile::tempdir().unwrap();
    let frames = [(5_000, udp(1, 7, 60)), (9_000, udp(2, 7, 1514))];
    for schedule in ["", "[schedule]\npps = 1000\n"] {
        let path = capture(folder.path(), &frames);
        let text = format!("[workload]\nkind = \"raw\"\nframes = \"{path}\"\nrepeat = 3\n{schedule}");
        let mut source = open(&mut Document::parse(&text, "x.toml").unwrap(), Seed(3)).unwrap().source;
        std::fs::remove_file(&path).unwrap();
        let mut count = 0;
        while source.peek().is_some() {
            source.take(&mut []);
            count += 1;
        }
        assert_eq!((count, source.failure()), (6, None), "{schedule}");
    }
}

#[test]
fn picoseconds_of_a_capture_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let options = WriterOptions { remainders: true, ..WriterOptions::new(Form::Pcapng) };
    let mut writer = Writer::create(&path, options).unwrap();
    for t in [5_999, 7_519, 9_039, 9_040] {
        writer.packet(0, t, &udp(1, 7, 76), 76).unwrap();
    }
    writer.finish().unwrap();
    let all = sent(&format!("[workload]\nkind = \"raw\"\nframes = \"{}\"\n", path.display())).unwrap();
    let times: Vec<_> = all.iter().map(|(update, _)| update.t_gen).collect();
    assert_eq!(times, [0, 1_520, 3_040, 3_041]);
}

#[test]
fn fragments_and_padding_of_patterns_are_left_alone() {
    use crate::wire::frame::{Checksums, checksums};
    let folder = tempfile::tempdir().unwrap();
    let mut fragment = udp(1, 7, 100);
    fragment[20..22].copy_from_slice(&[0, 10]);
    fragment[40..42].copy_from_slice(&[0xab, 0xcd]);
    let mut padded = udp(1, 8, 50);
    set_udp_checksum(&mut padded);
    padded.extend([0xee; 10]);
    let path = capture(folder.path(), &[(0, fragment), (1_000_000, padded)]);
    let text = format!(
        "[workload]\nkind = \"raw\"\npattern = \"{path}\"\npackets = 4\nvary = [\"ip_id=count\"]\n[schedule]\noffered = \"1Gbps\"\n"
    );
    let all = sent(&text).unwrap();
    assert_eq!(all[0].1[40..42], [0xab, 0xcd]);
    assert_eq!(checksums(&all[1].1), Checksums::Fit);
}

/// Frames leave before the end of time, with a speed that brings them there.
#[test]
fn a_capture_of_more_than_26_days_is_refused_unless_its_speed_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &[(0, udp(1, 7, 60)), (HORIZON + 1_000_000, udp(1, 7, 60))]);
    let of = |schedule: &str| sent(&format!("[workload]\nkind = \"raw\"\nframes = \"{path}\"\n{schedule}"));
    assert!(of("").unwrap_err().to_string().contains("26 days"));
    assert_eq!(of("[schedule]\nspeed = 2.0\n").unwrap().len(), 2);
}

#[test]
fn captures_that_cannot_be_sent_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |frames: &[(Time, Vec<u8>)], cut: u32| {
        let path = folder.path().join("bad.pcapng");
        let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
        frames.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32 + cut).unwrap());
        writer.finish().unwrap();
        sent(&format!("[workload]\nkind = \"raw\"\nframes = \"{}\"\n", path.display())).unwrap_err().to_string()
    };
    assert!(
        refused(&[(0, udp(1, 7, 60))], 4).contains("packet 1 of")
            && refused(&[(0, udp(1, 7, 60))], 4).contains("60 of its 64")
    );
    assert!(refused(&[(0, vec![0; 13])], 0).contains("13 bytes"));
    assert!(refused(&[], 0).contains("there is no packet"));
    let none = sent("[workload]\nkind = \"raw\"\nframes = \"/nowhere.pcap\"\n").unwrap_err().to_string();
    assert!(none.contains("/nowhere.pcap"), "{none}");
}

#[test]
fn made_frames_have_their_sizes_flows_and_numbers() {
    let text = "[workload]\nkind = \"raw\"\nsizes = [60, 566, 1514]\nweights = [7, 4, 1]\nflows = 3\npackets = 24\n\
        from = \"192.0.2.1\"\nto_mac = \"02:00:00:00:00:99\"\n[schedule]\noffered = \"1Gbps\"\n";
    let all = sent(text).unwrap();
    assert_eq!(all.len(), 72);
    let of = |size: usize| all[..12].iter().filter(|(_, frame)| frame.len() == size).count();
    assert_eq!([of(60), of(566), of(1514)], [7, 4, 1], "in every round");
    for (n, (update, frame)) in all.iter().enumerate() {
        let datagram = Datagram::parse(frame).expect("UDP");
        assert_eq!(datagram.payload[..8], (n as u64).to_be_bytes());
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 0x99]);
        assert_eq!(datagram.src_port, 49152 + update.worker as u16);
    }
    let mean = all.iter().map(|(_, frame)| frame.len() as f64 * 8.0).sum::<f64>()
        / (all.last().unwrap().0.t_gen as f64 / 1e12);
    assert!((0.9..1.1).contains(&(mean / 1e9)), "{mean}");
}

#[test]
fn fields_vary_and_checksums_follow() {
    let vary = "vary = [\"udp_src=count:100..102\", \"ip_src=random:10.0.0.0..10.0.0.255\", \"50+2=count\"]\n";
    let text = format!("[workload]\nkind = \"raw\"\nflows = 1\npackets = 600\n{vary}[schedule]\noffered = \"1Gbps\"\n");
    let all = sent(&text).unwrap();
    let mut sources = std::collections::BTreeSet::new();
    for (n, (_, frame)) in all.iter().enumerate() {
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        assert_eq!(usize::from(port), 100 + n % 3);
        assert_eq!(frame[50..52], (n as u16).to_be_bytes());
        sources.insert(frame[29]);
        assert_eq!(frame[26..29], [10, 0, 0]);
        let mut again = frame.clone();
        crate::wire::frame::set_ip_checksum(&mut again);
        assert_eq!(&again, frame, "{n}");
    }
    assert!(sources.len() > 200, "{}", sources.len());
    assert_eq!(all, sent(&text).unwrap(), "drawn from the seed");
    // Flows are those of the frames, whatever varies.
    let flows: std::collections::BTreeSet<_> =
        all.iter().map(|(update, frame)| (update.worker, frame[26..36].to_vec())).collect();
    assert_eq!(
        flows.len(),
        all.iter().map(|(update, _)| update.worker).collect::<std::collections::BTreeSet<_>>().len()
    );
}

#[test]
fn patterns_with_checksums_keep_right_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut pattern = udp(1, 7, 100);
    set_udp_checksum(&mut pattern);
    let path = capture(folder.path(), &[(0, pattern), (1_000_000, udp(1, 8, 60))]);
    let text = format!(
        "[workload]\nkind = \"raw\"\npattern = \"{path}\"\npackets = 40\nvary = [\"payload=count\"]\n[schedule]\noffered = \"1Gbps\"\n"
    );
    let all = sent(&text).unwrap();
    assert_eq!(all.len(), 40);
    for (n, (_, frame)) in all.iter().enumerate() {
        assert_eq!(frame.len(), [100, 60][n % 2]);
        assert_eq!(frame[42..50], (n as u64).to_be_bytes());
        let mut again = frame.clone();
        if n % 2 == 0 {
            set_udp_checksum(&mut again);
        }
        assert_eq!(&again, frame);
    }
}

#[test]
fn what_is_sent_with_a_wrong_checksum_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let known = |frames: &[(Time, Vec<u8>)], key: &str| {
        let path = capture(folder.path(), frames);
        let text = format!("[workload]\nkind = \"raw\"\n{key} = \"{path}\"\n[schedule]\noffered = \"1Gbps\"\n");
        let source = open(&mut Document::parse(&text, "x.toml").unwrap(), Seed(3)).unwrap().source;
        source.known().raw.unwrap().has_misfits()
    };
    let right = udp(1, 7, 60);
    let (mut wrong, mut unfinished) = (right.clone(), right.clone());
    wrong[40..42].copy_from_slice(&[0x12, 0x34]);
    // 0.0.0.1 + 10.0.0.1 + 17 + 26: the pseudo header.
    unfinished[40..42].copy_from_slice(&(1 + 0x0a00u16 + 1 + 17 + 26).to_be_bytes());
    for key in ["frames", "pattern"] {
        assert!(!known(&[(0, right.clone()), (1_000_000, right.clone())], key), "{key}");
        for other in [&wrong, &unfinished] {
            assert!(known(&[(0, right.clone()), (1_000_000, other.clone())], key), "{key}");
        }
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for (set, part) in [
        ("sizes = [41]", "workload.sizes: 41 is not from 42 to 9036; bytes of UDP frames, without FCS"),
        ("sizes = [60, 9037]", "workload.sizes: 9037 is not from 42 to 9036"),
        ("sizes = [60, 100]\nweights = [1]", "1 weights for 2 sizes"),
        ("sizes = [60, 100]\nweights = [10000, 1]", "10001 in all; give one for each size, at most 10000 in all"),
        ("weights = [0]", "workload.weights: 0 is not from 1 to 10000"),
        ("weights = [10001]", "workload.weights: 10001 is not from 1 to 10000"),
        ("flows = 0", "0 is not from 1 to 65536"),
        ("flows = 65537", "65536"),
        ("from = \"10.0.0\"", "IPv4"),
        ("to_mac = \"1:2\"", "Ethernet"),
        ("vary = [\"ip_src\"]", "FIELD=count"),
        ("vary = [\"ip_scr=count\"]", "ip_src"),
        ("vary = [\"26+9=count\"]", "1 to 8 bytes"),
        ("vary = [\"18446744073709551615+8=count\"]", "no frame has this field"),
        ("vary = [\"9033+4=count\"]", "at most 9036 bytes"),
        ("vary = [\"udp_src=count:9..70000\"]", "65535"),
        ("vary = [\"udp_src=count:9..8\"]", "no range"),
        ("packets = 70000\nflows = 1\nvary = [\"ip_src=count\"]", "more than 65536 flows"),
        ("background_rate = \"1Gbps\"", "nothing is sent beside raw frames"),
    ] {
        let text = format!("[workload]\nkind = \"raw\"\n{set}\n[schedule]\noffered = \"1Gbps\"\n");
        let message = sent(&text).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(part), "{set}: {message}");
    }
    // Both ends of the ranges are taken.
    for set in ["sizes = [42, 9036]", "weights = [1]", "weights = [10000]"] {
        let text = format!("[workload]\nkind = \"raw\"\n{set}\n[schedule]\noffered = \"1Gbps\"\n");
        assert!(sent(&text).is_ok(), "{set}");
    }
}

#[test]
fn keys_that_change_nothing_beside_a_capture_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &[(0, udp(1, 7, 60)), (1_000_000, udp(2, 7, 60))]);
    let of = |key: &str, set: &str| {
        sent(&format!("[workload]\nkind = \"raw\"\n{key} = \"{path}\"\n{set}\n[schedule]\noffered = \"1Gbps\"\n"))
    };
    let made = ["sizes = [70]", "weights = [2]", "flows = 9", "from = \"10.0.0.1\"", "to_mac = \"02:00:00:00:00:99\""];
    let both = ["packets = 9", "vary = [\"ip_ttl=count\"]"];
    for set in made.into_iter().chain(both) {
        let key = format!("workload.{}", set.split(' ').next().unwrap());
        for beside in ["frames", "pattern"] {
            let found = of(beside, set);
            if beside == "pattern" && both.contains(&set) {
                assert!(found.is_ok(), "{set}");
                continue;
            }
            let message = found.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(message.contains(&key) && message.contains("leave it out"), "{beside}, {set}: {message}");
        }
    }
    let message = of("frames", &format!("pattern = \"{path}\"")).unwrap_err().to_string();
    assert!(message.contains("workload.pattern"), "{message}");
    // What says the same as nothing, as in a resolved configuration.
    let resolved = "sizes = []\nweights = []\nflows = 4\npackets = 1000\nvary = []\nfrom = \"198.18.0.1\"";
    assert_eq!((of("frames", resolved).unwrap().len(), of("pattern", resolved).unwrap().len()), (2, 1000));
}

#[test]
fn a_field_beyond_the_end_is_left_out() {
    let text = "[workload]\nkind = \"raw\"\nflows = 1\npackets = 4\nsizes = [60, 9036]\nvary = [\"9032+4=count\"]\n\
        [schedule]\noffered = \"1Gbps\"\n";
    let all = sent(text).unwrap();
    let ends: Vec<_> = all.iter().map(|(_, frame)| frame[frame.len() - 4..].to_vec()).collect();
    assert_eq!(ends, [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 3]]);
}

#[test]
fn what_pads_a_packet_is_none_of_it() {
    let frame = udp(1, 7, 50);
    let padded = [&frame[..], &[0; 10]].concat();
    assert_eq!(content(&padded), content(&frame));
    assert_eq!(content(&frame).len(), 8);
    assert!(content(&[0; 41]).is_empty());
    assert_eq!(content(&[9; 47]), [9, 9, 9, 9, 9, 3, 3, 3], "no IPv4 packet, and three bytes that lack");
    let digest = |frame: &[u8]| crate::wire::update::digest(&frame[HEAD..]);
    for len in 42..60 {
        let frame = udp(1, 7, len);
        assert_eq!(crate::wire::update::digest(&content(&frame)), digest(&frame), "{len}");
        let others = (HEAD..len).map(|at| {
            let mut other = frame.clone();
            other[at] ^= 1;
            other
        });
        assert!(
            others
                .chain([frame[..len.max(43) - 1].to_vec()])
                .all(|other| len == 42 || digest(&other) != digest(&frame))
        );
    }
}

#[test]
fn tags_are_none_of_the_content() {
    for frame in [udp(1, 7, 90), [&udp(1, 7, 50)[..], &[0; 10]].concat(), vec![7; 90]] {
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        let twice = [&frame[..12], &[0x88, 0xa8, 0, 6], &tagged[12..]].concat();
        assert_eq!([content(&tagged), content(&twice)], [content(&frame), content(&frame)]);
    }
}

proptest! {
    /// Any bytes have a flow; tags do not change it.
    #[test]
    fn tags_are_none_of_a_flow(bytes in prop::collection::vec(any::<u8>(), 0..120), tag in any::<[u8; 2]>()) {
        prop_assume!(bytes.len() < 14 || !matches!(bytes[12..14], [0x81, 0x00] | [0x88, 0xa8]));
        let key = FlowKey::of(&bytes);
        if bytes.len() >= 14 {
            let tagged = [&bytes[..12], &[0x81, 0x00], &tag, &bytes[12..]].concat();
            prop_assert_eq!(FlowKey::of(&tagged), key);
        }
    }

    /// A field that counts over a range has each of its values once a round.
    #[test]
    fn counts_go_round(from in 0u64..200, more in 0u64..50, n in 0u64..1000) {
        let vary = Vary::read(&format!("10+2=count:{from}..{}", from + more)).unwrap();
        let mut frame = vec![0; 12];
        vary.write(n, &mut frame);
        prop_assert_eq!(u64::from(u16::from_be_bytes([frame[10], frame[11]])), from + n % (more + 1));
    }
}
