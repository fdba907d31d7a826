//! Tests of faults against a simple wire and a reference model.

use std::sync::{Arc, Mutex};

use pktgen_core::config::Value;
use pktgen_core::time::SECOND;
use proptest::prelude::*;

use super::super::testing::{Bench, Memory, frame, site};
use super::super::{MIDDLEWARE, MiddlewarePlan, wrap};
use super::*;
use crate::transport::{Submitted, WireCounters};
use pktgen_engine::driver::fates::{Burst, FrameFault};

const NOTHING: Faults = Faults {
    loss: 0.0,
    burst: None,
    duplicate: 0.0,
    reorder: 0.0,
    by: 1,
    hold: 3600 * SECOND,
    corrupt: 0.0,
    up: true,
    down: true,
};

fn faulty(faults: Faults, end: End, seed: u64) -> (Filtered<Faulty>, Arc<Mutex<Bench>>) {
    let (memory, bench) = Memory::new();
    (Filtered::new(Box::new(memory), Faulty::new(faults, end, Seed(seed), 128, RunClock::start())), bench)
}

/// The output: bytes, and whether they were marked as lost.
type Out = Vec<(Vec<u8>, bool)>;

/// Receives all of `frames`, in calls of these sizes; held frames come out by a flush of their lane.
fn received(faults: Faults, seed: u64, frames: &[Vec<u8>], calls: &[usize]) -> (Out, Filtered<Faulty>) {
    let (mut wire, bench) = faulty(faults, End::DeviceDown, seed);
    bench.lock().unwrap().incoming.extend(frames.iter().cloned());
    let (mut out, mut sizes) = (Out::new(), calls.iter().cycle());
    while !bench.lock().unwrap().incoming.is_empty() || Faulty::has_ready(&wire.filter.incoming) {
        let (most, before) = (*sizes.next().unwrap(), out.len());
        let found = wire.receive(most, &mut |a| out.push((a.bytes.to_vec(), a.lost))).unwrap().frames;
        assert!(found <= most && found == out.len() - before);
    }
    wire.filter.incoming.as_mut().unwrap().release_all();
    while wire.receive(64, &mut |a| out.push((a.bytes.to_vec(), a.lost))).unwrap().frames > 0 {}
    (out, wire)
}

/// Sends all of `frames` in calls of these sizes, over a wire that takes `rooms` frames per call, with their marks.
fn sent(faults: Faults, seed: u64, frames: &[Vec<u8>], calls: &[usize], rooms: &[usize]) -> (Out, Filtered<Faulty>) {
    let (mut wire, bench) = faulty(faults, End::DeviceUp, seed);
    let (mut sizes, mut rooms) = (calls.iter().cycle(), rooms.iter().cycle());
    let (mut at, mut lost) = (0, Vec::new());
    while at < frames.len() || Faulty::has_ready(&wire.filter.outgoing) {
        let slices: Vec<_> = frames[at..].iter().take(*sizes.next().unwrap()).map(Vec::as_slice).collect();
        bench.lock().unwrap().room = *rooms.next().unwrap();
        let Submitted { taken, lost: marks, .. } = wire.send(&slices).unwrap();
        assert!(taken <= slices.len());
        assert_eq!(marks.checked_shr(taken as u32).unwrap_or(0), 0, "only frames that were taken are lost");
        lost.extend((0..taken).filter(|i| marks >> i & 1 == 1).map(|i| (frames[at + i].clone(), true)));
        at += taken;
    }
    bench.lock().unwrap().room = usize::MAX;
    wire.flush(0).unwrap();
    let mut out: Out = bench.lock().unwrap().sent.iter().map(|bytes| (bytes.clone(), false)).collect();
    out.extend(lost);
    (out, wire)
}

/// The reference model: faults one by one, and a list of held frames.
fn model(faults: Faults, seed: u64, end: End, up: bool, frames: &[Vec<u8>], lost_last: bool) -> Out {
    let mut fates = FaultStreams::new(faults, Seed(seed), end as u64, up);
    let (mut out, mut held, mut lost) = (Out::new(), Vec::<(usize, Vec<u8>, usize)>::new(), Out::new());
    for (k, bytes) in frames.iter().enumerate() {
        let fate = fates.draw();
        let mut bytes = bytes.clone();
        let copies = 1 + usize::from(fate.duplicated);
        if let Some(place) = fate.flip {
            let bit = (place * bytes.len() as f64 * 8.0) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        match fate {
            FrameFault { lost: true, .. } if lost_last => lost.push((bytes, true)),
            FrameFault { lost: true, .. } => out.push((bytes, true)),
            FrameFault { held: true, .. } => held.push((k + faults.by as usize, bytes, copies)),
            _ => out.extend(vec![(bytes, false); copies]),
        }
        while held.first().is_some_and(|(due, ..)| *due <= k) {
            let (_, bytes, copies) = held.remove(0);
            out.extend(vec![(bytes, false); copies]);
        }
    }
    held.into_iter().for_each(|(_, bytes, copies)| out.extend(vec![(bytes, false); copies]));
    out.extend(lost);
    out
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| frame(i as u32, 40 + i % 80)).collect()
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let often = || prop_oneof![Just(0.0), 0.0..0.5f64, Just(1.0)];
    let burst = prop::option::of((0.01..=1.0f64, 0.01..=1.0f64, 0.0..0.3f64, 0.0..=1.0f64));
    (prop_oneof![Just(0.0), 0.0..0.5f64], burst, often(), often(), 1u64..40, often()).prop_map(
        |(loss, burst, duplicate, reorder, by, corrupt)| Faults {
            loss,
            burst: burst.map(|(p, r, loss_good, loss_bad)| Burst { p, r, loss_good, loss_bad }),
            duplicate,
            reorder,
            by,
            corrupt,
            ..NOTHING
        },
    )
}

proptest! {
    /// For any division into calls, and any acceptance by the wire, both directions agree with the model.
    #[test]
    fn the_same_seed_has_the_same_fates_however_bursts_are_split(
        faults in any_faults(),
        seed in any::<u64>(),
        count in 0usize..300,
        calls in prop::collection::vec(1usize..=64, 1..8),
        mut rooms in prop::collection::vec(0usize..20, 1..8),
    ) {
        rooms.push(1);
        let frames = frames(count);
        let (out, wire) = received(faults, seed, &frames, &calls);
        prop_assert_eq!(&out, &model(faults, seed, End::DeviceDown, true, &frames, false));
        let tally = wire.filter.incoming.as_ref().unwrap().tally;
        // Conservation: sent = delivered + lost - duplicated.
        let lost = out.iter().filter(|(_, lost)| *lost).count() as u64;
        prop_assert_eq!((tally.frames, tally.lost), (count as u64, lost));
        prop_assert_eq!(tally.frames, out.len() as u64 - tally.duplicated);
        prop_assert_eq!(wire.filter.incoming.as_ref().unwrap().under_way(), 0);
        let (out, wire) = sent(faults, seed, &frames, &calls, &rooms);
        prop_assert_eq!(&out, &model(faults, seed, End::DeviceUp, true, &frames, true));
        let tally = wire.filter.outgoing.as_ref().unwrap().tally;
        prop_assert_eq!(tally.frames + tally.duplicated, out.len() as u64);
        prop_assert_eq!(tally.lost, out.iter().filter(|(_, lost)| *lost).count() as u64);
    }

    /// Reordering alone keeps every frame; none is delayed further than configured, and none comes earlier by more than
    /// the number of frames held at a time.
    #[test]
    fn reordering_keeps_the_frames_and_bounds_their_way(
        reorder in 0.1..=1.0f64, by in 1u64..40, seed in any::<u64>(), most in 1usize..=64,
    ) {
        let frames = frames(400);
        let (out, wire) = received(Faults { reorder, by, ..NOTHING }, seed, &frames, &[most]);
        let mut sorted: Vec<_> = out.iter().map(|(bytes, _)| bytes.clone()).collect();
        sorted.sort_by_key(|bytes| u32::from_le_bytes(bytes[..4].try_into().unwrap()));
        prop_assert_eq!(&sorted, &frames);
        for (place, (bytes, _)) in out.iter().enumerate() {
            let number = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            prop_assert!(place.abs_diff(number) <= by as usize, "frame {number} is at {place}");
        }
        prop_assert!(wire.filter.incoming.unwrap().tally.reordered > 0);
    }

    /// A damaged frame differs in one bit, and keeps its length.
    #[test]
    fn a_damaged_frame_differs_in_one_bit(corrupt in 0.01..=1.0f64, seed in any::<u64>()) {
        let frames = frames(300);
        let (out, wire) = received(Faults { corrupt, ..NOTHING }, seed, &frames, &[7]);
        let mut damaged = 0;
        for ((bytes, _), original) in out.iter().zip(&frames) {
            prop_assert_eq!(bytes.len(), original.len());
            let bits: u32 = bytes.iter().zip(original).map(|(a, b)| (a ^ b).count_ones()).sum();
            prop_assert!(bits <= 1);
            damaged += u64::from(bits);
        }
        prop_assert_eq!((out.len(), wire.filter.incoming.unwrap().tally.corrupted), (300, damaged));
    }
}

/// Returns the share of `n` frames that are lost, and the lengths of the runs of losses.
fn losses(faults: Faults, seed: u64, n: usize) -> (f64, Vec<usize>) {
    let mut fates = FaultStreams::new(faults, Seed(seed), End::DeviceUp as u64, true);
    let (mut lost, mut runs, mut run) = (0, Vec::new(), 0);
    for _ in 0..n {
        if fates.draw().lost {
            lost += 1;
            run += 1;
        } else if run > 0 {
            runs.push(run);
            run = 0;
        }
    }
    (lost as f64 / n as f64, runs)
}

/// Within five standard deviations, which chance exceeds once in two million tries; seeds are fixed.
#[test]
fn losses_have_the_rate_and_the_bursts_of_the_closed_form() {
    const N: usize = 2_000_000;
    for (seed, loss) in [(1, 0.001), (2, 0.01), (3, 0.3)] {
        let (share, runs) = losses(Faults { loss, ..NOTHING }, seed, N);
        let sigma = (loss * (1.0 - loss) / N as f64).sqrt();
        assert!((share - loss).abs() < 5.0 * sigma, "{share} instead of {loss}");
        let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
        assert!((mean * (1.0 - loss) - 1.0).abs() < 0.02, "independent losses come in runs of {mean}");
    }
    for (seed, p, r, loss_good, loss_bad) in
        [(4, 0.01, 0.25, 0.0, 1.0), (5, 0.001, 0.1, 0.0, 1.0), (6, 0.02, 0.2, 0.01, 0.5), (7, 0.3, 0.6, 0.1, 0.9)]
    {
        let model = Burst { p, r, loss_good, loss_bad };
        let (share, runs) = losses(Faults { burst: Some(model), ..NOTHING }, seed, N);
        let bad = p / (p + r);
        let mean = bad * loss_bad + (1.0 - bad) * loss_good;
        // States k frames apart correlate by (1-p-r)^k: the sum over all k widens the variance of the mean.
        let memory = (1.0 - p - r) / (p + r);
        let spread = (loss_bad - loss_good).powi(2) * bad * (1.0 - bad);
        let sigma = ((mean * (1.0 - mean) + 2.0 * spread * memory) / N as f64).sqrt();
        assert!((share - mean).abs() < 5.0 * sigma, "{share} instead of {mean} +- {sigma}");
        if (loss_good, loss_bad) == (0.0, 1.0) {
            let length = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
            // Geometric: its standard deviation is the root of 1-r, over r.
            let sigma = (1.0 - r).sqrt() / r / (runs.len() as f64).sqrt();
            assert!((length - 1.0 / r).abs() < 5.0 * sigma, "bursts of {length} instead of {}", 1.0 / r);
        }
    }
}

#[test]
fn more_loss_loses_the_same_frames_and_other_faults_shift_none() {
    let lost = |faults: Faults, end: End, up: bool| -> Vec<bool> {
        let mut fates = FaultStreams::new(faults, Seed(3), end as u64, up);
        (0..5000).map(|_| fates.draw().lost).collect()
    };
    let few = Faults { loss: 0.05, ..NOTHING };
    let base = lost(few, End::DeviceUp, true);
    let more = lost(Faults { loss: 0.2, ..few }, End::DeviceUp, true);
    assert!(base.iter().zip(&more).all(|(few, more)| !few || *more) && base != more);
    let others = Faults { duplicate: 0.3, reorder: 0.3, corrupt: 0.3, ..few };
    assert_eq!(lost(others, End::DeviceUp, true), base);
    for (end, up) in [(End::DeviceUp, false), (End::DeviceDown, true), (End::DeviceDown, false)] {
        assert_ne!(lost(few, end, up), base, "each direction of each end has its own");
    }
}

#[test]
fn with_everything_off_it_is_the_identity() {
    let faults = Faults { hold: 0, ..NOTHING };
    let all = frames(200);
    let whole: Out = all.iter().map(|bytes| (bytes.clone(), false)).collect();
    assert_eq!(received(faults, 1, &all, &[64]).0, whole);
    assert_eq!(sent(faults, 1, &all, &[64], &[5]).0, whole);
    let (mut wire, bench) = faulty(faults, End::DeviceUp, 1);
    bench.lock().unwrap().incoming.push_back(frame(1, 60));
    wire.receive(64, &mut |a| assert_eq!((a.len, a.stamp_ns), (60, Some(7)))).unwrap();
    wire.wait(77).unwrap();
    wire.flush(78).unwrap();
    assert_eq!(bench.lock().unwrap().calls, [("wait", 77), ("flush", 78)]);
    assert_eq!(wire.counters(), WireCounters { sent: 0, send_dropped: 3, received: 5, receive_dropped: 9 });
    assert!(wire.mode().starts_with("memory; faults on both directions: loss 0"), "{}", wire.mode());
    let notes = wire.notes();
    assert_eq!(notes[0], ("memory".into(), "noted".into()));
    assert_eq!(notes[1].0, "fault.device.up.received");
    assert_eq!(notes[2].1, "0 frames: 0 lost, 0 duplicated, 0 reordered, 0 corrupted");
}

/// Held frames are passed on when nothing else arrives, in both directions, without any sending.
#[test]
fn nothing_is_held_forever() {
    let hold = SECOND / 1000;
    let faults = Faults { reorder: 1.0, by: 10, hold, ..NOTHING };
    let (mut wire, bench) = faulty(faults, End::DeviceUp, 1);
    bench.lock().unwrap().incoming.push_back(frame(5, 60));
    let mut heard = 0;
    assert_eq!(wire.send(&[&frame(1, 60), &frame(2, 60)]).unwrap().taken, 2);
    assert_eq!(wire.receive(64, &mut |_| heard += 1).unwrap().frames, 0);
    assert!(bench.lock().unwrap().sent.is_empty());
    assert!(wire.notes()[2].1.ends_with("2 were still held back"), "{:?}", wire.notes());
    let begin = wire.filter.clock.now();
    while heard == 0 {
        wire.wait(1_000_000_000).unwrap();
        wire.receive(64, &mut |_| heard += 1).unwrap();
        assert!(wire.filter.clock.now() - begin < 10 * SECOND, "it is stuck");
    }
    assert!(wire.filter.clock.now() - begin >= hold / 2, "it was held for a while");
    assert_eq!(bench.lock().unwrap().sent, [frame(1, 60), frame(2, 60)]);
    assert!(bench.lock().unwrap().calls.iter().all(|(_, ns)| *ns <= 1_000_000), "nobody sleeps longer than the hold");
}

/// A time that a caller reads during a call is after the sending of all of its frames.
#[test]
fn kept_frames_are_passed_on_in_a_call_of_their_own() {
    let (mut wire, bench) = faulty(Faults { duplicate: 1.0, ..NOTHING }, End::DeviceDown, 1);
    bench.lock().unwrap().incoming.extend([frame(1, 60), frame(2, 60)]);
    assert_eq!(wire.receive(2, &mut |_| ()).unwrap().frames, 2);
    bench.lock().unwrap().incoming.push_back(frame(3, 60));
    for number in [2, 3] {
        let found = wire.receive(64, &mut |arrival| assert_eq!(arrival.bytes, frame(number, 60)));
        assert_eq!(found.unwrap().frames, 2);
    }
}

/// Foreign frames may be longer than any of the run: they are not cut to something that looks like one.
#[test]
fn a_frame_that_is_too_long_to_be_kept_keeps_its_length_only() {
    let (out, _) = received(Faults { duplicate: 1.0, corrupt: 1.0, ..NOTHING }, 1, &[frame(1, 129)], &[64]);
    assert_eq!(out, [(vec![], false), (vec![], false)]);
    let (out, _) = received(Faults { loss: 0.5, ..NOTHING }, 1, &[frame(1, 4000)], &[64]);
    assert_eq!(out.len(), 1, "one that passes needs no room");
    assert_eq!(out[0].0.len(), 4000);
    let (mut wire, _) = faulty(Faults { duplicate: 1.0, ..NOTHING }, End::DeviceUp, 1);
    assert!(wire.send(&[&frame(1, 129)]).is_err());
}

fn plan(values: &[(&str, Value)]) -> Result<MiddlewarePlan> {
    MiddlewarePlan::read(&mut Section::of("transport", values), SECOND)
}

#[test]
fn keys_are_checked_and_directions_chosen() {
    assert_eq!(
        plan(&[("fault_loss", 0.0.into()), ("fault_at", "nowhere".into())]).unwrap().declaring(|_| true).count(),
        0
    );
    for (values, part) in [
        (&[("fault_loss", Value::Float(1.5))][..], "transport.fault_loss: 1.5"),
        (&[("fault_corrupt", Value::Float(-0.1))], "transport.fault_corrupt"),
        (&[("fault_burst_p", Value::Float(0.1))], "transport.fault_burst_r"),
        (&[("fault_reorder", Value::Float(0.1)), ("fault_reorder_by", Value::Integer(0))], "1 to 1024"),
        (&[("fault_reorder", Value::Float(0.1)), ("fault_reorder_hold", "1s".into())], "transport.linger"),
        (&[("fault_loss", Value::Float(0.1)), ("fault_at", "nowhere".into())], "up (towards the server)"),
    ] {
        let error = plan(values).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    let modes = |at: &str| {
        let plan = plan(&[("fault_loss", 0.1.into()), ("fault_at", at.into())]).unwrap();
        End::ALL.map(|end| wrap(&plan, end, &site(), Box::new(Memory::new().0)).unwrap().mode())
    };
    let has = |at: &str, parts: [&str; 4]| {
        for (mode, part) in modes(at).iter().zip(parts) {
            assert!(if part.is_empty() { mode == "memory" } else { mode.contains(part) }, "{at}: {mode}");
        }
    };
    has("up", ["", "what is received", "what is sent", ""]);
    has("down", ["", "what is sent", "what is received", ""]);
    has("both", ["", "both directions", "both directions", ""]);
}

/// All kinds together delegate what they do not change, and have distinct keys.
#[test]
fn all_kinds_together_are_still_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("fault_loss", 1e-300.into()), ("limit", "400Gbps".into()), ("tap", "t.pcapng".into())]).unwrap();
    assert_eq!(plan.declaring(|_| true).collect::<Vec<_>>(), ["fault", "limit", "tap"]);
    for end in End::ALL {
        let (memory, bench) = Memory::new();
        let site = Site { folder: folder.path(), ..site() };
        let mut wire = wrap(&plan, end, &site, Box::new(memory)).unwrap();
        let all = frames(64);
        let slices: Vec<_> = all.iter().map(Vec::as_slice).collect();
        let at_device = matches!(end, End::DeviceDown | End::DeviceUp);
        let lost = if at_device { 0 } else { 0b101 };
        assert_eq!(wire.send(&slices).unwrap(), Submitted { taken: 64, lost, refused: false });
        bench.lock().unwrap().incoming.extend(all.iter().cloned());
        let mut heard = Vec::new();
        assert_eq!(wire.receive(64, &mut |a| heard.push(a.bytes.to_vec())).unwrap().frames, 64);
        assert_eq!((&heard, &bench.lock().unwrap().sent), (&all, &all));
        wire.wait(5).unwrap();
        wire.flush(6).unwrap();
        assert_eq!(bench.lock().unwrap().calls, [("wait", 5), ("flush", 6)]);
        assert_eq!(wire.counters(), WireCounters { sent: 64, send_dropped: 3, received: 5, receive_dropped: 9 });
        assert!(wire.mode().starts_with("memory; ") && wire.mode().contains("; tap to "), "{}", wire.mode());
        let keys: Vec<_> = wire.notes().into_iter().map(|(key, _)| key).collect();
        assert!(keys.contains(&"memory".to_owned()) && keys.contains(&format!("tap.{}", end.name())), "{keys:?}");
    }
    let mut keys: Vec<_> = MIDDLEWARE.iter().flat_map(|kind| pktgen_core::config::names_of(kind.keys())).collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count, "no two kinds share a key");
}
