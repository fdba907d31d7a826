//! Tests of the ring against a simulated kernel: order, wrap-around, starvation, tags, empty blocks.
#![expect(unsafe_code, reason = "plays the kernel on memory")]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const GEOMETRY: Geometry = Geometry { blocks: 3, block_bytes: 4096 };

/// The simulated kernel: writes frames into blocks and hands the blocks over.
struct Kernel {
    memory: Box<[u128]>,
    block: usize,
    open: Vec<Frame>,
    /// Frames for which no block was free.
    dropped: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Frame {
    bytes: Vec<u8>,
    tag: Option<(u16, u16)>,
    outgoing: bool,
    by_card: bool,
}

impl Frame {
    /// Returns what the receiver must see.
    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some((kind, tci)) = self.tag {
            bytes.splice(12..12, kind.to_be_bytes().into_iter().chain(tci.to_be_bytes()));
        }
        bytes
    }

    /// Returns the bytes that it needs in a block.
    fn room(&self) -> usize {
        (96 + TAG + self.bytes.len()).next_multiple_of(16)
    }
}

impl Kernel {
    fn new() -> Self {
        let memory = vec![0u128; GEOMETRY.blocks * GEOMETRY.block_bytes / 16].into_boxed_slice();
        Kernel { memory, block: 0, open: Vec::new(), dropped: 0 }
    }

    fn ring(&mut self) -> PacketRing {
        // SAFETY: of that size and alignment; the tests keep the kernel longer than the ring, in one thread.
        unsafe { PacketRing::on(NonNull::new(self.memory.as_mut_ptr().cast()).unwrap(), GEOMETRY) }
    }

    fn base(&mut self) -> *mut u8 {
        // SAFETY: within the memory.
        unsafe { self.memory.as_mut_ptr().cast::<u8>().add(self.block * GEOMETRY.block_bytes) }
    }

    fn is_free(&mut self) -> bool {
        // SAFETY: the status word of the block.
        unsafe { self.base().add(8).cast::<u32>().read() == 0 }
    }

    fn arrive(&mut self, frame: Frame) {
        let room: usize = self.open.iter().map(Frame::room).sum();
        if 64 + room + frame.room() > GEOMETRY.block_bytes {
            self.retire();
        }
        if self.is_free() { self.open.push(frame) } else { self.dropped += 1 }
    }

    /// Closes the block: writes it and hands it to the reader.
    fn retire(&mut self) {
        let (base, frames) = (self.base(), mem::take(&mut self.open));
        if frames.is_empty() {
            return;
        }
        let mut at = 64;
        for (i, frame) in frames.iter().enumerate() {
            let (kind, tci) = frame.tag.unwrap_or_default();
            // SAFETY: all zeros is a valid header; all places lie in the block, because `arrive` counted the room.
            unsafe {
                let mut header: libc::tpacket3_hdr = mem::zeroed();
                header.tp_next_offset = if i + 1 < frames.len() { frame.room() as u32 } else { 0 };
                (header.tp_sec, header.tp_nsec) = (7, i as u32);
                (header.tp_mac, header.tp_snaplen) = ((82 + TAG) as u16, frame.bytes.len() as u32);
                header.tp_len = header.tp_snaplen + 10;
                header.tp_status = if frame.by_card { BY_CARD } else { libc::TP_STATUS_TS_SOFTWARE };
                if frame.tag.is_some() {
                    header.tp_status |= libc::TP_STATUS_VLAN_VALID;
                    if kind != 0x8100 {
                        header.tp_status |= libc::TP_STATUS_VLAN_TPID_VALID;
                        header.hv1.tp_vlan_tpid = kind;
                    }
                    header.hv1.tp_vlan_tci = tci.into();
                }
                base.add(at).cast::<libc::tpacket3_hdr>().write(header);
                let mut address: libc::sockaddr_ll = mem::zeroed();
                address.sll_pkttype = if frame.outgoing { libc::PACKET_OUTGOING } else { 0 };
                base.add(at + ADDRESS).cast::<libc::sockaddr_ll>().write(address);
                ptr::copy_nonoverlapping(frame.bytes.as_ptr(), base.add(at + 82 + TAG), frame.bytes.len());
            }
            at += frame.room();
        }
        self.give(frames.len() as u32);
    }

    fn give(&mut self, count: u32) {
        let base = self.base();
        // SAFETY: the words of the block's description.
        unsafe {
            base.add(12).cast::<u32>().write(count);
            base.add(16).cast::<u32>().write(64);
            base.add(8).cast::<u32>().write(libc::TP_STATUS_USER);
        }
        self.block = (self.block + 1) % GEOMETRY.blocks;
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    let tag = prop_oneof![
        3 => Just(None),
        1 => (prop_oneof![Just(0x8100u16), Just(0x88a8)], any::<u16>()).prop_map(Some),
    ];
    (proptest::collection::vec(any::<u8>(), 14..1500), tag, prop::bool::weighted(0.1))
        .prop_map(|(bytes, tag, outgoing)| Frame { bytes, tag, outgoing, by_card: false })
}

#[derive(Debug, Clone)]
enum Step {
    Arrive(Frame),
    Retire,
    Receive(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_that_fits_arrives_once_and_in_order(steps in proptest::collection::vec(prop_oneof![
        6 => frame().prop_map(Step::Arrive),
        1 => Just(Step::Retire),
        1 => (0usize..9).prop_map(Step::Receive),
    ], 1..150)) {
        let mut kernel = Kernel::new();
        let mut ring = kernel.ring();
        let (mut expected, mut sent) = (VecDeque::new(), 0);
        let take = |ring: &mut PacketRing, expected: &mut VecDeque<Frame>, most: usize| {
            let count = ring.receive(most, &mut |arrival| {
                let wanted: Frame = expected.pop_front().expect("nothing more was sent");
                assert_eq!(arrival.bytes, wanted.whole());
                assert_eq!(arrival.len, arrival.bytes.len() + 10);
                assert_eq!(arrival.stamp_ns.unwrap() / 1_000_000_000, 7);
            });
            assert!(count <= most);
            count
        };
        let mut received = 0;
        for step in steps {
            match step {
                Step::Arrive(frame) => {
                    let before = kernel.dropped;
                    kernel.arrive(frame.clone());
                    if !frame.outgoing {
                        sent += usize::from(kernel.dropped == before);
                    }
                    if kernel.dropped == before && !frame.outgoing {
                        expected.push_back(frame);
                    }
                }
                Step::Retire => kernel.retire(),
                Step::Receive(most) => received += take(&mut ring, &mut expected, most),
            }
        }
        kernel.retire();
        received += take(&mut ring, &mut expected, usize::MAX);
        prop_assert!(expected.is_empty());
        prop_assert_eq!(received, sent);
        prop_assert!(!ring.is_ready(), "every block went back");
    }
}

#[test]
fn empty_blocks_go_back_and_a_full_ring_starves_the_kernel_until_one_does() {
    let mut kernel = Kernel::new();
    let mut ring = kernel.ring();
    let frame = Frame { bytes: vec![3; 1000], tag: None, outgoing: false, by_card: false };
    assert!(!ring.is_ready());
    kernel.give(0);
    assert!(ring.is_ready());
    assert_eq!(ring.receive(9, &mut |_| ()), 0);
    assert!(!ring.is_ready());
    for _ in 0..12 {
        kernel.arrive(frame.clone());
    }
    assert_eq!((kernel.dropped, ring.is_ready()), (3, true), "three blocks of three frames are full");
    assert_eq!(ring.receive(2, &mut |_| ()), 2);
    assert!(!kernel.is_free(), "a block goes back as a whole");
    assert_eq!(ring.receive(1, &mut |_| ()), 1);
    assert!(kernel.is_free());
    kernel.arrive(frame);
    kernel.retire();
    assert_eq!(ring.receive(100, &mut |_| ()), 7);
    assert_eq!(kernel.dropped, 3);
}

/// A time that a caller reads during a call is after the sending of all of its frames.
#[test]
fn blocks_handed_over_during_a_call_are_left_for_the_next_one() {
    let mut kernel = Kernel::new();
    let mut ring = kernel.ring();
    let frame = |fill: u8| Frame { bytes: vec![fill; 100], tag: None, outgoing: false, by_card: false };
    let mut hand_over = |fill: u8| {
        kernel.arrive(frame(fill));
        kernel.retire();
    };
    hand_over(1);
    hand_over(2);
    let mut got = Vec::new();
    let count = ring.receive(9, &mut |arrival| {
        got.push(arrival.bytes[0]);
        if got.len() == 1 {
            hand_over(3);
        }
    });
    assert_eq!((count, got), (2, vec![1, 2]));
    assert_eq!(ring.receive(9, &mut |arrival| assert_eq!(arrival.bytes[0], 3)), 1);
    assert_eq!(ring.receive(9, &mut |_| ()), 0);
}

/// If stamps of the card are wanted, others are omitted: a column contains one clock.
#[test]
fn where_stamps_of_the_card_are_wanted_others_are_left_out() {
    for card_only in [false, true] {
        let mut kernel = Kernel::new();
        let mut ring = kernel.ring();
        if card_only {
            ring.tell_stamps_of_the_card();
        }
        for by_card in [true, false, true] {
            kernel.arrive(Frame { bytes: vec![3; 100], tag: Some((0x8100, 5)), outgoing: false, by_card });
        }
        kernel.retire();
        let mut stamps = Vec::new();
        assert_eq!(ring.receive(9, &mut |arrival| stamps.push(arrival.stamp_ns)), 3);
        let told = |at: u64| Some(7_000_000_000 + at);
        assert_eq!(stamps, [told(0), if card_only { None } else { told(1) }, told(2)]);
    }
}
