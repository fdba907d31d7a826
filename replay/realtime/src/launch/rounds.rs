//! The probe with rounds of sums: every worker contributes marked values to a slot, in one set and then in the other, and the sums return.
//!
//! A round without results is sent again, as workers do: a device that began in the middle of it counts each contribution once, and
//! its counter of workers, which only a result resets, stays in step. A contribution to one set clears its worker's bit in
//! the other (docs/switchml.md). So after two correct rounds, the last in set 1, the slot's set 0 is as empty as after the start
//! of the device.

use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use pktgen_core::topology::Population;
use pktgen_core::{Error, Result};
use pktgen_wire::device::{GROWTH_MAX, Translator};
use pktgen_wire::wire::frame::{
    HEAD, SERVER_IP, Template, group_of, payload, source_ip, target_ip, worker_ip, worker_of,
};
use pktgen_wire::wire::{RoundForm, RoundMark};

use super::kernel::readable;
use super::probe::{Probe, Seen};
use crate::clock::{Stopwatch, unix_ns};
use crate::plan::Spec;
use crate::transport::{AllFrames, End};

/// Number of the first round's packets. Those of a run begin with 0, which follow these in 32-bit sequence order.
const FIRST: u32 = 0xffff_0000;
/// Initial wait for results of a round, and maximum number of doublings each time it is sent.
const PAUSE_MS: u64 = 20;
const DOUBLINGS: u32 = 5;
/// Times that rounds are sent in a slot after which it should have answered.
const TRIES: u32 = 4;
/// Times that a round without results is sent before one in the other set is tried, as the slot may be left with bits of an earlier
/// run: while the device may be starting, and later.
const SENDS: [u32; 2] = [3, 2];
/// Values are below this number of bits, so that no sum of 32 workers exceeds 32 bits.
const VALUE_BITS: u32 = 24;

/// The outcome of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Came {
    /// Some workers have no result; the number of those that have one.
    Missing(usize),
    /// All workers have one, and some are wrong.
    Wrong(String),
    /// All workers have the correct one.
    Right,
}

/// Rounds, and the outcomes of the last two.
pub(super) struct Rounds {
    form: &'static RoundForm,
    translator: Translator,
    workers: Arc<Population>,
    ports: (u16, u16),
    socket: AllFrames,
    from: String,
    /// The current slot, the first and the last.
    slot: u16,
    /// What to do about wrong sums.
    remedy: &'static str,
    first_slot: u16,
    last_slot: u16,
    /// The last slot that was correct.
    done: Option<u16>,
    bytes: usize,
    /// Makes values that differ from those of other probes.
    salt: u64,
    room: Vec<u8>,
    back: Vec<u8>,
    seen: Seen,
    begun: u32,
    /// Rounds in this slot, and how often they were sent.
    here: u32,
    sends: u32,
    right: u32,
    /// Whether the first result of this slot was wrong: it contained old values.
    stale: bool,
    /// Slots that contained old values and were cleared.
    cleared: u32,
    last: Came,
    now: Round,
}

/// The current round.
#[derive(Default)]
struct Round {
    /// How often it was sent.
    sends: u32,
    /// Sums by cluster.
    sums: Vec<Vec<i32>>,
    /// Whether each worker has a result.
    had: Vec<bool>,
    wrong: Option<String>,
}

impl Rounds {
    /// Opens the probe for a run whose frames have `frame_bytes`; `key` names the key that requests it. All of `slots`
    /// must be correct, in order.
    pub(super) fn open(key: &str, spec: &Spec, frame_bytes: usize, slots: RangeInclusive<u16>) -> Result<Rounds> {
        spec.transport.guard(End::Workers)?;
        let outer = spec.transport.outer.as_ref();
        let known = outer.and_then(|outer| Some((outer, outer.format.round.as_ref()?, outer.format.ports?)));
        let Some((outer, form, ports)) = known else {
            return Err(Error::config(format!(
                "{key} = \"round\": it is for devices that sum in slots of two sets, as SwitchML's over UDP; use another"
            )));
        };
        let from = spec.transport.interface_at(End::Workers).unwrap_or_default();
        let room = vec![0; frame_bytes + GROWTH_MAX];
        let socket = AllFrames::open(&from, room.len())?;
        Ok(Rounds {
            form,
            translator: outer.translator(End::Workers),
            workers: spec.workers.clone(),
            ports,
            socket,
            from,
            slot: *slots.start(),
            remedy: match spec.launch {
                Some(_) => {
                    "it was just started: compare its tables and number of workers (target.launch) with the experiment's"
                }
                None => "restart the device, or reset its slots",
            },
            first_slot: *slots.start(),
            last_slot: *slots.end(),
            done: None,
            bytes: frame_bytes,
            salt: unix_ns(),
            back: room.clone(),
            room,
            seen: Seen::default(),
            begun: 0,
            here: 0,
            sends: 0,
            right: 0,
            stale: false,
            cleared: 0,
            last: Came::Missing(0),
            now: Round::default(),
        })
    }

    /// Returns the mark of a round, counted from 1 on.
    fn mark(&self, round: u32) -> RoundMark {
        RoundMark { number: FIRST.wrapping_add(round), set: self.here.is_multiple_of(2), slot: self.slot }
    }

    /// Begins a round.
    fn begin(&mut self) {
        self.begun += 1;
        self.here += 1;
        self.now = Round { had: vec![false; self.workers.len()], ..Round::default() };
    }

    /// Sends the current round: every worker contributes.
    fn send(&mut self) -> Result<()> {
        self.sends += 1;
        self.now.sends += 1;
        let mark = self.mark(self.begun);
        let values = (self.bytes - HEAD - self.form.head) / 4;
        self.now.sums = vec![vec![0; values]; self.workers.clusters_ever()];
        let mut frame = vec![0; self.bytes];
        for (worker, cluster) in (0..).zip(&self.workers.cluster_of) {
            Template::new((worker_ip(worker), self.ports.0), (SERVER_IP, self.ports.1), frame.len()).emit(&mut frame);
            (self.form.write)(mark, &mut frame[HEAD..]);
            let sums = &mut self.now.sums[usize::from(*cluster)];
            let parts = frame[HEAD + self.form.head..].chunks_exact_mut(4);
            for ((sum, part), at) in sums.iter_mut().zip(parts).zip(0u64..) {
                let value = value(self.salt ^ (u64::from(mark.number) << 32) ^ (u64::from(worker) << 16) ^ at);
                *sum = sum.wrapping_add(value);
                part.copy_from_slice(&value.to_be_bytes());
            }
            let len = self.translator.outward(&frame, &mut self.room);
            let frame = len.map_or(&frame[..], |len| &self.room[..len]);
            self.seen.send(&mut self.socket, &self.from, frame)?;
        }
        Ok(())
    }

    /// Advances to the next slot, if there is one.
    fn goes_on(&mut self) -> bool {
        self.done = Some(self.slot);
        self.cleared += u32::from(self.here > 2 && self.stale);
        if self.slot == self.last_slot {
            return false;
        }
        (self.slot, self.here, self.sends, self.stale, self.last) = (self.slot + 1, 0, 0, false, Came::Missing(0));
        true
    }

    /// Returns the outcome of the current round.
    fn came(&self) -> Came {
        let had = self.now.had.iter().filter(|had| **had).count();
        match &self.now.wrong {
            _ if had < self.now.had.len() => Came::Missing(had),
            Some(why) => Came::Wrong(why.clone()),
            None => Came::Right,
        }
    }
}

impl Probe for Rounds {
    fn exchange(&mut self) -> Result<bool> {
        let most = SENDS[usize::from(self.done.is_some())];
        if self.here == 0 || !matches!(self.last, Came::Missing(_)) || self.now.sends == most {
            self.begin();
        }
        self.send()?;
        let pause = Duration::from_millis(PAUSE_MS << (self.sends - 1).min(DOUBLINGS));
        let watch = Stopwatch::start();
        while watch.elapsed() < pause && matches!(self.came(), Came::Missing(_)) {
            let left = pause.saturating_sub(watch.elapsed()).as_millis() as i32;
            readable(self.socket.as_fd(), left.max(1));
            self.look()?;
        }
        let came = self.came();
        let before = std::mem::replace(&mut self.last, came);
        self.right += u32::from(self.last == Came::Right);
        self.stale |= self.here == 1 && matches!(self.last, Came::Wrong(_));
        match &self.last {
            // All workers had cleared their bits in this set, so no old value should remain there.
            Came::Wrong(why) if !matches!(before, Came::Missing(_)) => {
                Err(Error::Invalid(format!("not ready: slot {}: {why}; {}", self.slot, self.remedy)))
            }
            Came::Right => Ok(before == Came::Right && self.mark(self.begun).set && !self.goes_on()),
            _ => Ok(false),
        }
    }

    fn look(&mut self) -> Result<()> {
        let Rounds { form, translator, workers, now, slot, begun, back, seen, socket, .. } = self;
        let current = FIRST.wrapping_add(*begun);
        let is_result = |frame: &[u8]| {
            let Some(inner) = translator.inward(frame, back).map(|len| &back[..len]) else { return false };
            let of = |ip| worker_of(ip, workers.len());
            let (to, is_answer) = (target_ip(inner), of(source_ip(inner)).is_none());
            let Some((payload, mark)) = payload(inner).and_then(|payload| Some((payload, (form.read)(payload)?)))
            else {
                return false;
            };
            let cluster = match of(to) {
                Some(worker) => workers.cluster_of.get(worker as usize).copied(),
                None => group_of(to),
            };
            let Some(cluster) = cluster.filter(|_| is_answer && mark.slot <= *slot) else { return false };
            if mark.number == current {
                now.take(cluster, of(to), &workers.cluster_of, &payload[form.head..]);
            }
            // Late results of earlier rounds are expected.
            mark.number.wrapping_sub(FIRST) <= *begun
        };
        seen.take(socket, is_result);
        seen.check()
    }

    fn shown(&self) -> bool {
        // After a round in set 0 the set holds the probe's sum and bits, and the first packets of a run would be answered with it.
        self.done.is_some() && (self.here == 0 || self.here.is_multiple_of(2) && self.last == Came::Right)
    }

    fn is_midway(&self) -> bool {
        // A slot that does not answer repeatedly is missing or in use.
        self.done.is_some() && (self.sends <= TRIES || self.last == Came::Right)
    }

    fn missed(&self) -> String {
        let why = match &self.last {
            Came::Missing(had) => format!("{had} of {} workers had a result of the last", self.workers.len()),
            Came::Wrong(why) => why.clone(),
            Came::Right => "the one before the last had none".to_owned(),
        };
        format!(
            "{} of {} rounds that all workers contributed to at {}, in slot {}, came back as the right sum, and two in succession must: \
             {why} ({} other frames came)",
            self.right, self.begun, self.from, self.slot, self.seen.unasked
        )
    }

    // The counts at the end are read again by `pktgen diagnose --device`.
    fn found(&self) -> String {
        let slots = match (self.first_slot, self.done) {
            (first, Some(last)) if last > first => format!("slots {first} to {last}"),
            (first, _) => format!("slot {first}"),
        };
        let left = match self.done {
            Some(done) if done < self.last_slot => {
                format!("; slots {} to {} were not probed: the time was over", done + 1, self.last_slot)
            }
            _ => String::new(),
        };
        let cleared = match self.cleared {
            0 => String::new(),
            n => format!("; {n} of them held state of an earlier run, which is gone"),
        };
        format!(
            "round: {} of {} rounds of {} workers in {slots} came back as the right sum, the last two from both sets{cleared}{left} \
             ({} frames sent, {} results came)",
            self.right,
            self.begun,
            self.workers.len(),
            self.seen.sent,
            self.seen.came,
        )
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Round {
    /// Takes a result for a worker, or for all of a cluster.
    fn take(&mut self, cluster: u16, worker: Option<u32>, clusters: &[u16], values: &[u8]) {
        let Some(sums) = self.sums.get(usize::from(cluster)) else { return };
        for ((had, own), id) in self.had.iter_mut().zip(clusters).zip(0..) {
            *had |= *own == cluster && worker.is_none_or(|worker| worker == id);
        }
        let came = values.chunks_exact(4).map(|value| i32::from_be_bytes(value.try_into().unwrap_or_default()));
        let differs = sums.iter().zip(came).zip(0..).find(|((sum, came), _)| *sum != came);
        if let Some(((sum, came), at)) = differs {
            self.wrong = Some(format!(
                "the result of a round is wrong: value {at} is {came}, and the sum of what the workers contributed is {sum}"
            ));
        } else if values.len() != sums.len() * 4 {
            self.wrong = Some(format!(
                "the result of a round has {} values, and contributions have {}",
                values.len() / 4,
                sums.len()
            ));
        }
    }
}

/// Returns a value derived from its name, below 2²⁴ in magnitude: the last steps of splitmix64.
fn value(name: u64) -> i32 {
    let mut z = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 32) as i32 >> (31 - VALUE_BITS)
}
