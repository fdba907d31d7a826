//! Tests of sums that are made again: packets and blocks made here.

use pktgen_core::record::lanes::Number;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::any_worker;
use pktgen_wire::wire::lanes::LaneForm;
use pktgen_wire::wire::layout::Layout;
use pktgen_wire::wire::{FormatFacts, Packet};

use super::*;

fn block() -> Block {
    of_all(vec![(1, vec![10, -20, 30]), (2, vec![100, 200, 300]), (3, vec![7, 8, 9])])
}

fn of_all(from: Vec<(u32, Vec<i32>)>) -> Block {
    Block { from, ..Block::default() }
}

fn of(values: [i32; 3], before: &[&Vec<i32>]) -> &'static str {
    cause(&block(), &values, before)
}

/// Returns the cause of a result of registers that wrap around.
fn cause(block: &Block, values: &[i32], before: &[&Vec<i32>]) -> &'static str {
    let compared = block.compared(values.len(), Registers::Wrap);
    judge(block, (&sum(block), values), &compared, before, 1).cause.code
}

#[test]
fn each_wrong_sum_has_its_cause() {
    let right = [117, 188, 339];
    assert_eq!(of(right.map(i32::swap_bytes), &[]), "byte_order");
    // A device may reverse some values of a packet only: three are no accident.
    let four = of_all(vec![(1, vec![10, -20, 30, 5]), (2, vec![100, 200, 300, 6])]);
    let some = [110, 180i32.swap_bytes(), 330i32.swap_bytes(), 11i32.swap_bytes()];
    assert_eq!(cause(&four, &some, &[]), "byte_order");
    assert_eq!(of([17, -12, 39], &[]), "contribution_missing");
    assert_eq!(of([124, 196, 348], &[]), "contribution_twice");
    assert_eq!(of([118, 190, 342], &[&vec![1, 2, 3]]), "stale_sum");
    assert_eq!(of([117, 188, 339 ^ 64], &[]), "bits_flipped");
    assert_eq!(of([118, 189, 340], &[]), "adds_wrongly");
    let wide = of_all(vec![(1, vec![i32::MAX, 1]), (2, vec![5, 1])]);
    assert_eq!(cause(&wide, &[i32::MAX, 2], &[]), "saturated");
}

/// Registers that stop at the end of their range are right, and hide no other fault.
#[test]
fn values_that_may_have_saturated_are_not_compared() {
    let result = |registers, values: [i32; 3]| {
        let mut all =
            Reckoning::new(Path::new("tap"), Sums { formats: &[], ports: None, timeout_ps: None, scaled_by: None });
        all.registers = registers;
        for (from, own) in [(1, [i32::MAX, 1, 50]), (2, [5, 2, 60]), (3, [-9, 3, 70])] {
            all.update((0, 0, 0), from, own.to_vec(), 0);
        }
        all.result((0, 0, 0), values.to_vec(), (0, 0, 3));
        all.wrong.iter().map(|wrong| wrong.cause.code).collect::<Vec<_>>()
    };
    let ended = |second, third| [i32::MAX, second, third];
    assert!(result(Registers::Saturate, ended(6, 180)).is_empty());
    assert_eq!(result(Registers::Saturate, ended(6, 180 ^ 8)), ["bits_flipped"]);
    assert_eq!(result(Registers::Saturate, ended(4, 120)), ["contribution_missing"]);
    assert_eq!(result(Registers::Saturate, ended(8, 240)), ["contribution_twice"]);
    assert_eq!(result(Registers::Wrap, ended(6, 180)), ["bits_flipped"]);
}

static ENDS: FormatFacts = FormatFacts::new((64, 64));
static BEGINS: FormatFacts = FormatFacts {
    lanes: Some(LaneForm { number: Number::I32, offset: HEAD + 2, shared: true, filled: true }),
    ..FormatFacts::new((64, 64))
};
static ENDING: Plain = Plain(&ENDS);
static BEGINNING: Plain = Plain(&BEGINS);
static OF_ENDING: Formats = &[&ENDING];
static OF_BEGINNING: Formats = &[&BEGINNING];

/// Sums of one value: a block, the number of sources, and the value. As in Trio-ML, what does not go to a worker is a contribution.
struct Plain(&'static FormatFacts);

impl Named for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
    fn about(&self) -> &'static str {
        "sums of our tests"
    }
}

impl Format for Plain {
    fn layout(&self) -> &'static Layout {
        const LAYOUT: Layout = Layout {
            ports: &[(12000, 12000)],
            shared_ports: &[],
            telling: false,
            summary: &[],
            head: &[],
            rules: &[],
            messages: &[],
        };
        &LAYOUT
    }
    fn read(&self, _payload: &[u8]) -> Option<Packet> {
        None
    }
    fn sight(&self, datagram: &sight::Datagram) -> Option<Sight> {
        let what = if any_worker(datagram.dst).is_some() { What::Result } else { What::Update };
        let [seq, sources, ..] = *datagram.payload else { return None };
        Some(Sight {
            what,
            cluster: 0,
            worker: None,
            seq: seq.into(),
            round: 0,
            attempt: 0,
            generation: None,
            count: if what == What::Update { 1 } else { sources.into() },
            elements: 1,
        })
    }
    fn facts(&self) -> &'static FormatFacts {
        self.0
    }
}

const DEVICE: u32 = 0xac1e_05fe;

fn datagram(src: u32, dst: u32, payload: &[u8]) -> sight::Datagram<'_> {
    sight::Datagram { src, dst, src_port: 12000, dst_port: 12000, payload, whole: payload.len(), six: None }
}

/// ATP's key is behind its values, and every packet has another one.
#[test]
fn values_that_do_not_end_the_payload_begin_where_lanes_do() {
    let codes = |result: u8| {
        let mut all = Reckoning::new(
            Path::new("tap"),
            Sums { formats: OF_BEGINNING, ports: None, timeout_ps: None, scaled_by: None },
        );
        for own in 1..3u8 {
            let payload = [0, 1, 0, 0, 0, own * 10, 7, 7, own, 7];
            all.packet(&datagram(0xac1e_0500 + u32::from(own), DEVICE, &payload), (1, 0));
        }
        all.packet(&datagram(DEVICE, 0xef58_0100, &[0, 2, 0, 0, 0, result, 7, 7, 9, 7]), (1, 0));
        assert_eq!(all.checked, 1);
        all.wrong.iter().map(|wrong| wrong.cause.code).collect::<Vec<_>>()
    };
    assert!(codes(30).is_empty());
    assert_eq!(codes(10), ["contribution_missing"]);
    assert_eq!(codes(50), ["contribution_twice"]);
}

fn third(payload: &[u8]) -> Option<i8> {
    payload.get(2).map(|byte| *byte as i8)
}

static SCALES: FormatFacts = FormatFacts { exponent: Some(third), ..FormatFacts::new((64, 64)) };
static SCALING: Plain = Plain(&SCALES);
static OF_SCALING: Formats = &[&SCALING];

/// Causes in these packets, from an address to an address.
fn of_scaling(scaled_by: Option<usize>, packets: &[(u32, u32, [u8; 7])]) -> Vec<(&'static str, Certainty, u64)> {
    let mut all =
        Reckoning::new(Path::new("tap"), Sums { formats: OF_SCALING, ports: None, timeout_ps: None, scaled_by });
    for (src, dst, payload) in packets {
        all.packet(&datagram(*src, *dst, payload), (1, 0));
    }
    let mut found = Vec::new();
    all.conclude(4, &mut found);
    found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
}

/// The contributions of two workers, with exponents 5 and -6, and their result.
fn round(number: u8, values: [u8; 2], (exponent, value): (u8, u8)) -> [(u32, u32, [u8; 7]); 3] {
    [
        (0xac1e_0501, DEVICE, [number, 1, 5, 0, 0, 0, values[0]]),
        (0xac1e_0502, DEVICE, [number, 1, 250, 0, 0, 0, values[1]]),
        (DEVICE, 0xef58_0100, [number, 2, exponent, 0, 0, 0, value]),
    ]
}

#[test]
fn results_have_the_largest_exponent_of_their_contributions() {
    let of = |scaled_by, exponent, value| of_scaling(scaled_by, &round(0, [1, 2], (exponent, value)));
    assert!(of(Some(2), 5, 3).is_empty());
    assert_eq!(of(Some(2), 250, 3), [("exponent_wrong", Certainty::Possible, 4)]);
    assert_eq!(of(Some(2), 250, 7), [("bits_flipped", Certainty::Possible, 4)], "its sum is wrong, too");
    assert!(of(Some(3), 250, 3).is_empty(), "a contribution is not in the capture");
    assert!(of(None, 250, 3).is_empty(), "by a fixed factor");
}

/// The capture has contributions as they left: a cable may have changed the exponents of a few.
#[test]
fn wrong_exponents_of_a_few_results_are_not_certainly_of_the_device() {
    let of = |wrong: u8, right: u8, flipped: u8| {
        let rounds = (0..wrong + right + flipped).flat_map(|number| match number {
            _ if number < wrong => round(number, [1, 2], (250, 3)),
            _ if number < wrong + right => round(number, [1, 2], (5, 3)),
            _ => round(number, [1, 2], (5, 7)),
        });
        of_scaling(Some(2), &rounds.collect::<Vec<_>>())
    };
    assert_eq!(of(4, 0, 0), [("exponent_wrong", Certainty::Certain, 4)]);
    assert_eq!(of(4, 75, 0), [("exponent_wrong", Certainty::Certain, 4)]);
    assert_eq!(of(4, 76, 0), [("exponent_wrong", Certainty::Likely, 4)]);
    assert_eq!(of(3, 0, 0), [("exponent_wrong", Certainty::Possible, 4)]);
    let flips = [("bits_flipped", Certainty::Possible, 1), ("exponent_wrong", Certainty::Likely, 4)];
    assert_eq!(of(4, 0, 1), flips);
}

#[test]
fn exponents_of_sums_that_lack_zeros_are_lacks_of_contributions_if_others_lack_some() {
    let of = |second: u8, exponent: u8| {
        of_scaling(Some(2), &[round(0, [0, 2], (exponent, 2)), round(1, [second, 2], (250, 2))].concat())
    };
    assert_eq!(of(0, 250), [("exponent_wrong", Certainty::Possible, 4)]);
    assert_eq!(of(9, 250), [("contribution_missing", Certainty::Likely, 4)]);
    // No contribution has this exponent.
    let both = [("contribution_missing", Certainty::Likely, 2), ("exponent_wrong", Certainty::Possible, 2)];
    assert_eq!(of(9, 7), both);
}

#[test]
fn results_say_of_how_many_sources_they_are_wherever_the_profile_has_the_workers() {
    let mut all = Reckoning::new(
        Path::new("tap"),
        Sums { formats: OF_ENDING, ports: None, timeout_ps: Some(100), scaled_by: None },
    );
    let (device, group) = (0xac1e_05fe, 0xef58_0100);
    let mut packet = |(src, dst), payload: &[u8], t_ps| {
        let (src_port, dst_port, whole) = (12000, 12000, payload.len());
        all.packet(&sight::Datagram { src, dst, src_port, dst_port, payload, whole, six: None }, (1, t_ps));
    };
    for n in 0..5u8 {
        let start = i128::from(n) * 1000;
        (1..4u8).for_each(|own| packet((0xac1e_0500 + u32::from(own), device), &[n, 1, 0, 0, 0, own * 10 + n], start));
        packet((device, group), &[n, 2, 0, 0, 0, 40 + 2 * n], start + 100);
    }
    let of = |from: u32| all.taken.get(&(0xac1e_0500 + from)).map(|own| (own.held, own.left_out));
    assert_eq!([1, 2, 3].map(of), [Some((5, 0)), Some((0, 5)), Some((5, 0))]);
    assert!(all.wrong.is_empty());
}

/// Blocks of three workers, of which the second sends `late_ps` after the first; the device ends each after 100 ps, without those that
/// it does not take or that are late.
fn partial(late_ps: i128, takes: impl Fn(u32) -> bool) -> BTreeMap<u32, Taken> {
    let mut all =
        Reckoning::new(Path::new("tap"), Sums { formats: &[], ports: None, timeout_ps: Some(100), scaled_by: None });
    for seq in 0..30u32 {
        let (key, start) = ((0, seq, 0), i128::from(seq) * 1000);
        let mut own: Vec<_> = (1..4u32).map(|from| (from, if from == 2 { late_ps } else { 0 })).collect();
        own.sort_by_key(|(_, at)| *at);
        let values = |from: u32| vec![(from * 100 + seq) as i32, -7 * from as i32];
        let is_in = |(from, at): &&(u32, i128)| takes(*from) && *at < 100;
        let sum = own
            .iter()
            .filter(is_in)
            .fold(vec![0, 0], |sum, (from, _)| sum.iter().zip(values(*from)).map(|(a, b)| a + b).collect());
        let sources = own.iter().filter(is_in).count() as u16;
        let early = own.iter().filter(|(_, at)| *at < 110);
        early.for_each(|(from, at)| all.update(key, *from, values(*from), start + at));
        all.result(key, sum, (0, start + 110, sources));
        // Who is behind it opens the block anew, and has a result of its own.
        for (from, at) in own.iter().filter(|(_, at)| *at >= 110) {
            all.update(key, *from, values(*from), start + at);
            all.result(key, values(*from), (0, start + at + 100, 1));
        }
    }
    assert!(all.wrong.is_empty());
    all.taken
}

#[test]
fn partial_results_say_whose_contributions_a_device_does_not_take() {
    let of = |all: &BTreeMap<u32, Taken>, from| all.get(&from).map(|own| (own.held, own.left_out));
    let all = partial(1, |from| from != 2);
    assert_eq!([1, 2, 3].map(|from| of(&all, from)), [Some((30, 0)), Some((0, 30)), Some((30, 0))]);
    // A straggler is left out rightly, whether it is late by a little or by much.
    for late in [30, 60, 99, 100, 105, 300] {
        let all = partial(late, |_| true);
        assert!(all.values().all(|own| own.left_out == 0), "{late}: {all:?}");
    }
}

/// A device that ends blocks too early: the last contribution opens its block anew, and has a result of its own.
#[test]
fn results_behind_the_first_one_hold_what_a_device_takes_late() {
    let mut all =
        Reckoning::new(Path::new("tap"), Sums { formats: &[], ports: None, timeout_ps: Some(100), scaled_by: None });
    for seq in 0..30u32 {
        let (key, start) = ((0, seq, 0), i128::from(seq) * 1000);
        let values = |from: u32| vec![(from * 100 + seq + 1) as i32, -7 * from as i32];
        (1..4).for_each(|from| all.update(key, from, values(from), start));
        let first = values(1).iter().zip(values(2)).map(|(a, b)| a + b).collect();
        all.result(key, first, (0, start + 50, 2));
        all.result(key, values(3), (0, start + 150, 1));
    }
    let of = |from: u32| all.taken.get(&from).map(|own| (own.held, own.left_out, own.later));
    assert_eq!([1, 2, 3].map(of), [Some((30, 0, 0)), Some((30, 0, 0)), Some((0, 30, 30))]);
    assert!(all.wrong.is_empty());
}

#[test]
fn a_stale_sum_is_of_the_last_result_of_the_same_job() {
    let mut all =
        Reckoning::new(Path::new("tap"), Sums { formats: &[], ports: None, timeout_ps: None, scaled_by: None });
    let mut sum = |key: Key, own: [[i32; 2]; 2], result: [i32; 2]| {
        own.into_iter().zip(1..).for_each(|(values, from)| all.update(key, from, values.to_vec(), 0));
        all.result(key, result.to_vec(), (0, 0, 2));
    };
    sum((0, 0, 0), [[1000, 2000], [40, 50]], [1040, 2050]);
    sum((1, 0, 0), [[7, 8], [9, 10]], [16, 18]);
    // The slot still had the first result.
    sum((0, 1, 0), [[100, 300], [5, 6]], [1145, 2356]);
    let causes: Vec<_> = all.wrong.iter().map(|wrong| wrong.cause.code).collect();
    assert_eq!(causes, ["stale_sum"]);
}

#[test]
fn contributions_with_equal_values_are_not_told_apart() {
    let block = of_all(vec![(1, vec![5, 6]), (2, vec![5, 6]), (3, vec![1, 2])]);
    assert!(block.tells_apart(&[3]) && block.tells_apart(&[1, 2]) && !block.tells_apart(&[1]));
}
