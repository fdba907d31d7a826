//! The transports as a run opens them, by name: content, order, starvation and recovery, limits, and complete removal.
//! Tests that need interfaces run in a namespace with two veth pairs, or print SKIPPED and the reason.

use std::process::{Command, Stdio};

use pktgen_realtime::transport::{End, Wire};

use crate::support::cases::{
    Case, LIVE, PACKET_BLOCKS, PACKET_CALLS, RING, UDP, UDP_SEGMENTED, XDP, carry, drain, send_all, two,
};
use crate::support::frames::{fill, number};
use crate::support::kernel::held_by;
use crate::support::namespace::{FOUR, any_program_attached, cables, in_namespace, ip};
use pktgen_testing::alone::full_name;
use pktgen_testing::{HANG, eventually};

/// Number of frames that are compared one by one.
const COUNT: u64 = 200_000;
/// The largest frame that an MTU of 1500 permits.
const LARGEST: usize = 1514;

/// Every frame arrives once, unchanged and in order: very many in the direction of updates, fewer in the others.
fn carries(case: Case) {
    let Some(mut wires) = case.open(LARGEST) else { return };
    let ways = [
        (End::Workers, End::DeviceDown, COUNT),
        (End::DeviceUp, End::Server, COUNT / 10),
        (End::Server, End::DeviceUp, COUNT / 10),
        (End::DeviceDown, End::Workers, COUNT / 10),
    ];
    for (from, to, count) in ways {
        let (from, to) = two(&mut wires, from, to);
        carry(from, to, count, case.window, LARGEST);
    }
}

#[test]
fn rings_carry_every_frame_in_order() {
    carries(RING);
}

#[test]
fn udp_carries_every_frame_in_order() {
    carries(UDP);
    carries(UDP_SEGMENTED);
}

#[test]
fn packet_sockets_carry_every_frame_in_order() {
    in_namespace(module_path!(), "packet_sockets_carry_every_frame_in_order", || {
        cables(1500, "");
        carries(PACKET_CALLS);
    });
}

#[test]
fn packet_rings_carry_every_frame_in_order() {
    in_namespace(module_path!(), "packet_rings_carry_every_frame_in_order", || {
        cables(1500, "");
        carries(PACKET_BLOCKS);
    });
}

#[test]
fn xdp_sockets_carry_every_frame_in_order() {
    in_namespace(module_path!(), "xdp_sockets_carry_every_frame_in_order", || {
        cables(1500, "");
        carries(XDP);
    });
}

#[test]
fn live_frames_carry_every_frame_in_order() {
    in_namespace(module_path!(), "live_frames_carry_every_frame_in_order", || {
        cables(1500, "");
        carries(LIVE);
    });
}

/// The kernel takes tags out of frames; what is received has them, as on the cable.
#[test]
fn packet_sockets_see_vlan_tags() {
    in_namespace(module_path!(), "packet_sockets_see_vlan_tags", || {
        cables(1500, "");
        for case in [PACKET_CALLS, PACKET_BLOCKS] {
            let Some(mut wires) = case.open(LARGEST) else { return };
            let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
            let mut plain = vec![0; 200];
            fill(&mut plain, 1);
            plain[12..14].copy_from_slice(&[0x08, 0x00]);
            let tagged = [&plain[..12], &[0x81, 0x00, 0x60, 0xcd], &plain[12..]].concat();
            let sent = [&plain[..], &tagged, &tagged, &plain];
            send_all(from, &sent);
            from.flush(1_000_000_000).expect("flushes");
            let mut got = Vec::new();
            eventually("all of them", || {
                drain(to, &mut |bytes| got.push(bytes.to_vec()));
                got.len() >= sent.len()
            });
            assert_eq!(got, sent.map(<[u8]>::to_vec), "{}", case.kind);
        }
    });
}

/// Places of an AF_XDP socket's ring, as its wire says.
fn rx_ring(wire: &dyn Wire) -> Option<u64> {
    let mode = wire.mode();
    let (_, rest) = mode.split_once("rx ring ")?;
    Some(rest.split_once(',').expect("more follows").0.parse().expect("a number"))
}

/// A receiver that does not read loses frames, which are counted; nobody is blocked; afterwards all works as before.
fn starves_and_recovers(case: Case) {
    const FLOOD: u64 = 100_000;
    let Some(mut wires) = case.open(LARGEST) else { return };
    let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
    for _ in 0..3 {
        let (before, before_to) = (from.counters(), to.counters());
        let mut frames = vec![vec![0; 1000]; 50];
        for first in (0..FLOOD).step_by(frames.len()) {
            frames.iter_mut().zip(first..).for_each(|(frame, number)| fill(frame, number));
            send_all(from, &frames.iter().map(|frame| &frame[..]).collect::<Vec<_>>());
        }
        from.flush(1_000_000_000).expect("flushes");
        let (mut last, mut expected) = (None, vec![0; 1000]);
        let got = drain(to, &mut |bytes| {
            assert!(last < Some(number(bytes)), "{last:?}, then {}", number(bytes));
            last = Some(number(bytes));
            fill(&mut expected, number(bytes));
            assert!(bytes == expected, "frame {last:?}");
        });
        let (after, after_to) = (from.counters(), to.counters());
        let lost_to = after_to.receive_dropped - before_to.receive_dropped;
        let lost = after.send_dropped - before.send_dropped + lost_to;
        assert_eq!(after.sent - before.sent, FLOOD);
        assert_eq!(after_to.received - before_to.received, got);
        assert_eq!(rx_ring(to).is_some(), [XDP.kind, LIVE.kind].contains(&case.kind));
        assert!(got > 0 && lost_to > 0, "{}: {after:?} {after_to:?}", case.kind);
        assert_eq!(got + lost, FLOOD, "{}: {before:?} {before_to:?}, then {after:?} {after_to:?}", case.kind);
        assert_eq!((from.counters(), to.counters()), (after, after_to), "asking again changes nothing");
        // Every place of the ring was returned after the last burst.
        assert!(rx_ring(to).is_none_or(|places| got >= places), "{}: only {got}", to.mode());
        carry(from, to, 10_000, case.window, LARGEST);
    }
}

#[test]
fn a_full_udp_socket_counts_and_recovers() {
    starves_and_recovers(UDP);
    starves_and_recovers(UDP_SEGMENTED);
}

#[test]
fn a_full_packet_socket_counts_and_recovers() {
    in_namespace(module_path!(), "a_full_packet_socket_counts_and_recovers", || {
        cables(1500, "");
        starves_and_recovers(PACKET_CALLS);
        starves_and_recovers(PACKET_BLOCKS);
    });
}

#[test]
fn a_full_xdp_socket_counts_and_recovers() {
    in_namespace(module_path!(), "a_full_xdp_socket_counts_and_recovers", || {
        cables(1500, "");
        starves_and_recovers(XDP);
        starves_and_recovers(LIVE);
    });
}

#[test]
fn a_full_ring_takes_no_more_until_it_is_read() {
    let mut wires = RING.open(LARGEST).expect("needs nothing");
    let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
    let frame = vec![7; 1000];
    let mut taken = 0;
    while from.send(&[&frame]).expect("sends").taken == 1 {
        taken += 1;
        assert!(taken < 1_000_000, "it never fills");
    }
    assert_eq!(from.counters().sent, taken);
    assert_eq!(drain(to, &mut |bytes| assert_eq!(bytes, frame)), taken);
    assert_eq!(from.send(&[&frame]).expect("sends").taken, 1);
}

/// Frames before one that is too long are sent; it is refused by name at its turn, and those after it can be sent then.
fn refuses_what_is_too_long(case: Case) {
    let Some(mut wires) = case.open(LARGEST) else { return };
    let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
    let (mut good, mut last, bad) = (vec![0; LARGEST], vec![0; 100], vec![0; case.too_long]);
    fill(&mut good, 1);
    fill(&mut last, 2);
    assert_eq!(from.send(&[&good, &bad, &last]).expect("the first").taken, 1, "{}", case.kind);
    let error = from.send(&[&bad, &last]).expect_err("too long").to_string();
    let limit = if case.kind == "udp" { "65507" } else { "1514" };
    assert!(error.contains(&case.too_long.to_string()) && error.contains(limit), "{error}");
    assert_eq!(from.send(&[&last]).expect("the last").taken, 1);
    let mut lengths = Vec::new();
    drain(to, &mut |bytes| lengths.push(bytes.len()));
    assert_eq!(lengths, [LARGEST, 100], "{}", case.kind);
    assert_eq!(from.counters().sent, 2);
}

#[test]
fn too_long_for_udp() {
    refuses_what_is_too_long(UDP);
    refuses_what_is_too_long(UDP_SEGMENTED);
}

#[test]
fn too_long_for_the_mtu() {
    in_namespace(module_path!(), "too_long_for_the_mtu", || {
        cables(1500, "");
        [PACKET_CALLS, PACKET_BLOCKS, XDP, LIVE].into_iter().for_each(refuses_what_is_too_long);
    });
}

fn refusal(opened: pktgen_core::Result<Vec<Box<dyn Wire>>>) -> String {
    opened.map(|wires| wires[0].mode()).expect_err("it is refused").to_string()
}

#[test]
fn jumbo_frames_go_by_packet_sockets_and_xdp_names_its_limit_before_anything_is_sent() {
    in_namespace(
        module_path!(),
        "jumbo_frames_go_by_packet_sockets_and_xdp_names_its_limit_before_anything_is_sent",
        || {
            cables(9000, "");
            for case in [PACKET_CALLS, PACKET_BLOCKS] {
                let Some(mut wires) = case.open(9014) else { return };
                let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
                carry(from, to, 2_000, 64, 9014);
            }
            // The host must support this, otherwise the refusals below would have other reasons.
            let Some(mut wires) = XDP.open(3840) else { return };
            let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
            carry(from, to, 2_000, 64, 3840);
            drop(wires);
            // The MTU permits this length, so raising it is no remedy.
            for (case, len) in [(XDP, 9014), (XDP, 3841), (LIVE, 3841)] {
                if case.open(LARGEST).is_some() {
                    let why = refusal(case.try_open(len, |_| ()));
                    assert!(["3840", "af_packet", &len.to_string()].iter().all(|part| why.contains(part)), "{why}");
                    assert!(!why.contains("MTU"), "{why}");
                }
            }
        },
    );
}

#[test]
fn interfaces_that_cannot_carry_it_are_refused_by_name() {
    in_namespace(module_path!(), "interfaces_that_cannot_carry_it_are_refused_by_name", || {
        cables(600, "");
        for case in [PACKET_CALLS, XDP, LIVE] {
            if case.open(614).is_none() {
                continue;
            }
            let why = refusal(case.try_open(615, |_| ()));
            assert!(why.contains("615") && why.contains("614"), "{why}");
            let why = refusal(case.try_open(614, |plan| plan.interfaces[2] = "pgnone".into()));
            assert!(why.contains("pgnone"), "{why}");
            FOUR[2..].iter().for_each(|interface| _ = ip(&format!("link set {interface} down")));
            let why = refusal(case.try_open(614, |_| ()));
            assert!(FOUR[2..].iter().any(|name| why.contains(&format!("ip link set {name} up"))), "{why}");
            FOUR[2..].iter().for_each(|interface| _ = ip(&format!("link set {interface} up")));
        }
    });
}

#[test]
fn what_was_opened_is_free_again_after_drop() {
    in_namespace(module_path!(), "what_was_opened_is_free_again_after_drop", || {
        cables(1500, "");
        for case in [PACKET_CALLS, PACKET_BLOCKS, XDP, LIVE] {
            for _ in 0..4 {
                let Some(mut wires) = case.open(LARGEST) else { break };
                assert_eq!(any_program_attached(), [XDP.kind, LIVE.kind].contains(&case.kind), "{}", case.kind);
                let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
                carry(from, to, 500, case.window, LARGEST);
                drop(wires);
                assert!(!any_program_attached(), "{}", case.kind);
            }
        }
    });
}

/// Environment variable of a process that opens everything and waits to be killed.
const HOLD: &str = "PKTGEN_TEST_HOLD";

/// Live frames and AF_XDP at once: the program that sends is registered in a namespace of its own.
#[test]
fn a_killed_process_leaves_no_program() {
    const NAME: &str = "a_killed_process_leaves_no_program";
    if std::env::var_os(HOLD).is_some() {
        let _wires = LIVE.open(LARGEST);
        // Wait to be killed.
        std::thread::sleep(HANG);
        return;
    }
    in_namespace(module_path!(), NAME, || {
        cables(1500, "");
        let Some(wires) = LIVE.open(LARGEST) else { return };
        drop(wires);
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", &full_name(module_path!(), NAME), "--nocapture"])
            .env(HOLD, "1")
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        // Four programs that redirect and one that sends; a map for each of the four, three for the one.
        eventually("the child has opened all", || held_by(&child).len() >= 12);
        let held = held_by(&child);
        assert!(any_program_attached() && held.iter().all(|kept| kept.exists()), "{held:?}");
        child.kill().expect("SIGKILL");
        child.wait().expect("ends");
        eventually("programs and maps are gone", || !held.iter().any(|kept| kept.exists()));
        assert!(!any_program_attached());
        let mut wires = LIVE.open(LARGEST).expect("everything is free again");
        let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
        carry(from, to, 500, LIVE.window, LARGEST);
    });
}
