//! Moving a switch's state to another one in pieces.

use crate::format::control::PIECE_MAX;
use crate::format::{Header, Kind as Wire};
use pktgen_core::config::Value;
use pktgen_core::seed::Seed;
use pktgen_core::time::{NEVER, Time};
use rand::RngExt;
use rand::seq::SliceRandom;

use super::super::Program;
use super::rig::{HOT, Rig, hot, place};

/// Generates random packets of all kinds.
fn traffic(seed: u64, from: usize, count: usize, rigs: &mut [&mut Rig], start: Time) -> Vec<Vec<(u32, Vec<u8>)>> {
    let mut random = Seed(seed).stream("test", 0, 0);
    let mut seen = vec![Vec::new(); rigs.len()];
    for i in from..from + count {
        let worker = random.random_range(0..6u32);
        let number = (i / 8) as u32 + random.random_range(0..6u32);
        let kind = match random.random_range(0..20) {
            0 | 1 => Wire::End,
            2 | 3 => Wire::Ack,
            4 => Wire::Pull,
            _ => Wire::Push,
        };
        let header = Header { kind, attempt: random.random_range(0..3), job: (worker / 3) as u8, seq: number * 2 };
        let index = random.random_range(0..HOT);
        let content = match kind {
            Wire::End => (i as u32 / 40).to_be_bytes().to_vec(),
            Wire::Ack => Vec::new(),
            _ => hot(&[(index, random.random_range(-1.0f32..1.0)), ((index + 1) % HOT, 1.0)]),
        };
        for (rig, seen) in rigs.iter_mut().zip(&mut seen) {
            let t = start + i as Time * 20_000_000;
            while rig.program.next_wake() <= t {
                seen.extend(rig.timer().into_iter().map(|left| (left.link, left.bytes)));
            }
            let frame = rig.frame(worker, header, &content, t);
            rig.burst(&[frame]);
        }
    }
    for (rig, seen) in rigs.iter_mut().zip(&mut seen) {
        while rig.program.line.next() != NEVER {
            seen.extend(rig.timer().into_iter().map(|left| (left.link, left.bytes)));
        }
    }
    seen
}

#[test]
fn a_switch_that_takes_over_is_the_same_switch() {
    for (seed, writes) in (0..6).zip(["strict", "bloom", "paper"].into_iter().cycle()) {
        let keys: [(&str, Value); 2] = [("repeat_writes", writes.into()), ("records", 300u32.into())];
        let mut first = Rig::new(place(2, 3), &keys);
        traffic(seed, 0, 700, &mut [&mut first], 0);
        // Workers that had already ended an iteration are refused the first time; then all have ended.
        for iteration in [18, 19] {
            (0..3).for_each(|worker| _ = first.end(worker, 95, iteration, first.now()));
        }
        let pieces = first.program.state();
        assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() <= PIECE_MAX), "{}", pieces.len());
        assert!(first.program.jobs.iter().any(|job| job.results.iter().count() > 0), "results wait for ACKs");
        // The other one had another state before; pieces arrive in any order, some of them twice.
        let mut second = Rig::new(place(2, 3), &keys);
        traffic(seed + 1000, 0, 300, &mut [&mut second], 0);
        second.program.forget();
        let mut random = Seed(seed).stream("order", 0, 0);
        let mut order: Vec<usize> = (0..pieces.len()).chain(0..pieces.len() / 2).collect();
        order.shuffle(&mut random);
        let mut left: Vec<&Vec<u8>> = order.into_iter().map(|at| &pieces[at]).collect();
        for _ in 0..3 {
            left.retain(|piece| !second.program.restore(piece));
        }
        assert!(left.is_empty(), "all are taken in the end");
        second.program.now = first.program.now;
        assert_eq!(second.program.state(), pieces);
        assert_eq!(second.program.next_wake(), first.program.next_wake());
        let later = traffic(seed + 7, 700, 700, &mut [&mut first, &mut second], 0);
        assert!(later[0].len() > 500);
        let same = later[0].iter().zip(&later[1]).take_while(|(a, b)| a == b).count();
        assert_eq!((same, later[1].len()), (later[0].len(), same), "seed {seed}");
        assert_eq!(second.program.state(), first.program.state());
    }
}

#[test]
fn what_is_no_piece_of_this_configuration_is_refused() {
    let mut rig = Rig::new(place(2, 3), &[]);
    rig.push(0, 0, 0, &[(1, 1.0)], 0);
    let pieces = rig.program.state();
    let mut small = Rig::new(place(1, 1), &[]);
    assert!(pieces.iter().any(|piece| !small.program.restore(piece)));
    let mut random = Seed(1).stream("test", 0, 0);
    for _ in 0..20_000 {
        let mut piece = pieces[random.random_range(0..pieces.len())].clone();
        let at = random.random_range(0..piece.len());
        piece[at] = random.random_range(0..=255u8);
        piece.truncate(random.random_range(0..=piece.len()));
        rig.program.restore(&piece);
    }
    assert!(!rig.program.restore(&[]) && !rig.program.restore(&[9, 0, 0, 0, 0]));
}
