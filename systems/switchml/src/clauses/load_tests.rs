//! Compares accounts of trials with a switch that answers after a delay, and with a recount of what a closed loop can send.

use std::collections::BTreeMap;
use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::time::{MS, Time, US};
use pktgen_core::topology::Population;
use pktgen_engine::clause::LoadPhase;
use proptest::prelude::*;

use super::*;

fn ground(workers: u32, pool: u16) -> ProbeGround {
    let text = format!("[target]\nelements = 64\npool = {pool}\n");
    let workers = Population::regular(1, workers);
    ProbeGround {
        port_of: (0..workers.len() as u16).collect(),
        workers: Arc::new(workers),
        server: None,
        late: 0,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: 308,
        hot: None,
        keys: Document::parse(&text, "test").unwrap(),
    }
}

/// A switch that adds: sums by slot and set with their number of workers, and results in flight.
#[derive(Default)]
struct Adder {
    sums: BTreeMap<(u16, bool), (Vec<i32>, u32)>,
    out: BTreeMap<(Time, u16), Vec<u8>>,
}

impl Adder {
    /// Receives a frame of one of `workers` workers; its result takes `delay` and is changed by `bend`.
    fn take(&mut self, frame: &[u8], workers: u32, at: Time, bend: impl Fn(u64, u16, &mut Vec<u8>) -> bool) {
        let datagram = Datagram::parse(frame).unwrap();
        let header = Header::parse(datagram.payload).unwrap();
        let (sums, count) = self.sums.entry((header.slot, header.set)).or_insert((vec![0; 64], 0));
        let fours = datagram.payload[HEADER..].as_chunks::<4>().0;
        sums.iter_mut().zip(fours).for_each(|(sum, four)| *sum = sum.wrapping_add(i32::from_be_bytes(*four)));
        *count += 1;
        if *count == workers {
            let mut result = frame.to_vec();
            Template::new((SERVER_IP, PORT), (group_ip(0), WORKER_PORT), frame.len()).emit(&mut result);
            emit_values(sums, &mut result[HEAD + HEADER..]);
            self.sums.remove(&(header.slot, header.set));
            for port in 0..workers as u16 {
                let mut copy = result.clone();
                if bend(u64::from(header.packet), port, &mut copy) {
                    // Different times, so that results do not replace each other.
                    let t = (at..).find(|t| !self.out.contains_key(&(*t, port))).unwrap();
                    self.out.insert((t, port), copy);
                }
            }
        }
    }
}

/// Runs a trial event by event.
fn trial(own: &mut Contributors, delay: Time, bend: impl Fn(u64, u16, &mut Vec<u8>) -> bool + Copy) -> LoadAccount {
    let (mut switch, workers) = (Adder::default(), own.workers.len() as u32);
    loop {
        let back = switch.out.keys().next().copied();
        match (own.next(), back) {
            (Some(t), back) if back.is_none_or(|(other, _)| t < other) => {
                let (_, frame) = own.send(t);
                let frame = frame.to_vec();
                switch.take(&frame, workers, t + delay, bend);
            }
            (_, Some(key)) => {
                let frame = switch.out.remove(&key).unwrap();
                own.take(key.0, key.1, &frame);
            }
            _ => return own.account(),
        }
    }
}

proptest! {
    #[test]
    fn a_closed_loop_sends_what_a_recount_says(
        workers in 2u32..5, pool in 1u16..6, gap_us in 1i64..40, delay_us in 1i64..200, length_ms in 1i64..4,
    ) {
        let (ground, delay, length) = (ground(workers, pool), delay_us * US, length_ms * MS);
        let phase = LoadPhase::rate(1e6 / gap_us as f64, length);
        let mut own = Contributors::new(&ground, &ProbeMemory::new(), OfferedLoad::of(phase, 3)).unwrap();
        let account = trial(&mut own, delay, |_, _, _| true);
        // Packet by packet: a worker sends when its contribution is due, its previous one left and the slot has its result.
        let (n, window) = (i64::from(workers), usize::from(pool));
        let packets = (phase.count / workers as u64) as usize;
        let (mut back, mut free, mut sent, mut whole) = (Vec::<Option<Time>>::new(), vec![0; n as usize], 0, 0);
        for packet in 0..packets {
            let before = packet.checked_sub(window).map_or(Some(0), |at| back[at]);
            let mut times = Vec::new();
            for worker in 0..n {
                let due = ((packet as i64 * n + worker) as f64 * phase.gap_ps) as Time;
                let t = before.map(|before| due.max(before).max(free[worker as usize])).filter(|t| *t < length);
                free[worker as usize] = t.unwrap_or(Time::MAX);
                times.extend(t);
            }
            sent += times.len() as u64;
            let complete = times.len() as i64 == n;
            whole += if complete { n as u64 } else { 0 };
            back.push(complete.then(|| times.iter().max().unwrap() + delay));
        }
        prop_assert_eq!(account.offered, packets as u64 * u64::from(workers));
        prop_assert_eq!(account.unsent, account.offered - sent);
        // Times of copies differ by picoseconds if several results arrive at once.
        prop_assert!(account.forwarded.abs_diff(whole) <= u64::from(workers), "{} {whole}", account.forwarded);
        prop_assert_eq!((account.wrong, account.merged, account.replaced, account.untold), (0, 0, 0, 0));
    }
}

#[test]
fn wrong_sums_and_missing_copies_are_not_forwarded() {
    let ground = ground(3, 8);
    let open =
        || Contributors::new(&ground, &ProbeMemory::new(), OfferedLoad::of(LoadPhase::rate(3e5, MS), 1)).unwrap();
    let whole = trial(&mut open(), US, |_, _, _| true);
    assert_eq!((whole.offered, whole.forwarded, whole.lost()), (300, 300, 0));
    let (least, most) = whole.latency.range().unwrap();
    assert!(least >= US && most < US + 1000, "{least} {most}");
    let wrong = trial(&mut open(), US, |packet, port, frame| {
        let last = frame.len() - 1;
        frame[last] ^= u8::from(packet == 5 && port == 2);
        true
    });
    assert_eq!((wrong.wrong, wrong.forwarded, wrong.lost()), (3, 297, 0));
    // A worker without its copy stops a window later, and so do the others.
    let mut stopped = open();
    let lost = trial(&mut stopped, US, |packet, port, _| packet != 5 || port != 2);
    assert_eq!((lost.forwarded, lost.wrong), (3 * 12, 0), "packets 0 to 12 without 5");
    assert_eq!(lost.unsent + lost.lost() + lost.forwarded, 300);
    // Its worker asks again, and the state of the pool is known again except for that slot.
    let asks = stopped.asks();
    let slot_of = |frame: &[u8]| Header::parse(&frame[HEAD..]).unwrap().slot;
    let of_five: Vec<_> = asks.iter().filter(|(_, frame)| slot_of(frame) == 5).map(|(port, _)| *port).collect();
    assert_eq!(of_five, [2]);
    let mut memory = ProbeMemory::new();
    stopped.leave(&mut memory);
    let spoiled: Vec<_> = memory.iter().filter(|(_, rounds)| **rounds == SPOILED).map(|(slot, _)| *slot).collect();
    assert!(spoiled.contains(&5), "{memory:?}");
}
