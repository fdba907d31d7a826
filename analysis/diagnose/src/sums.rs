//! Sums of whole numbers, made again from what workers sent: what wrong ones lack, or have too much, and whose contributions partial ones hold.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pktgen_core::Result;
use pktgen_wire::device::Address;
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::{HEAD, worker_ip};
use pktgen_wire::wire::sight::{self, Look, Sight, What, look};
use pktgen_wire::wire::{Format, Formats, Registers};

use crate::cause::{
    ADDS_WRONGLY, BAD_CHECKSUM, BITS_FLIPPED, BYTE_ORDER, CONTRIBUTION_MISSING, CONTRIBUTION_TWICE, Cause,
    EXPONENT_WRONG, SATURATED, STALE_SUM,
};
use crate::exponents::Exponents;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::known::PortsOnCable;

/// Maximum number of wrong results that are examined.
const WRONG_MAX: usize = 256;
/// Maximum number of bytes of contributions in memory.
const HELD_MAX: usize = 256 << 20;

/// Maximum number of workers whose subsets are tried.
const SUBSETS_MAX: usize = 10;

/// Whether a contribution that left so long after the first one of its block, in ps, was in time for a device that goes on without others after
/// `timeout`: it left in the first quarter of that time, and of the time until the result came. However late a timer is, and however long
/// cables and queues hold frames, a right device has had it.
pub(crate) const fn is_in_time(after: i128, until_result: i128, timeout: i128) -> bool {
    let least = if until_result < timeout { until_result } else { timeout };
    after * 4 < least
}

/// What results are made again by.
pub(crate) struct Sums {
    pub(crate) formats: Formats,
    /// Of the profile, where it exchanges those of the format.
    pub(crate) ports: Option<PortsOnCable>,
    /// After which the device goes on without others, in ps; none if it does not.
    pub(crate) timeout_ps: Option<i64>,
    /// Number of workers of the one job whose results have the largest exponent of all; none if they have no exponents.
    pub(crate) scaled_by: Option<usize>,
}

/// Cluster or job, number and round of a sum.
pub(crate) type Key = (u16, u32, u16);

/// Returns the slot of a job that a result is of, and its block in any iteration.
fn places((job, seq, round): Key) -> [(bool, u16, u32); 2] {
    [(false, job, round.into()), (true, job, seq)]
}

/// Contributions to a sum, by address, with values in host byte order.
#[derive(Default)]
struct Block {
    from: Vec<(u32, Vec<i32>)>,
    /// When each of them left, in ps; 0 where the capture does not say.
    left_ps: Vec<i128>,
    /// A result came.
    answered: bool,
}

/// Contributions of one address in the results of their blocks: the first ones, and those behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Results that hold one.
    pub(crate) held: u64,
    /// Results that lack one that had left in time.
    pub(crate) left_out: u64,
    /// Results behind the first of their block that hold one: the device takes it, but late.
    pub(crate) later: u64,
}

/// A wrong result.
struct Wrong {
    number: u64,
    bits: u32,
    cause: &'static Cause,
    says: String,
    /// Who sent the contributions that it lacks.
    lacks: Vec<u32>,
}

/// State of checking a capture of a synchronous run.
pub(crate) struct Reckoning<'a> {
    by: Sums,
    blocks: HashMap<Key, Block>,
    /// The last result of a slot of a job, and of a block of it in other iterations.
    last: HashMap<(bool, u16, u32), Vec<i32>>,
    held: usize,
    wrong: Vec<Wrong>,
    checked: u64,
    taken: BTreeMap<u32, Taken>,
    /// Of the format that results have.
    registers: Registers,
    exponents: Option<Exponents>,
    /// Where contributions go, and results come from: the first packet's destination. Packets of a profile's addresses say no more of their
    /// direction.
    device: Option<u32>,
    path: &'a Path,
}

/// Returns the values of a packet; none of a truncated one.
fn values(format: &dyn Format, datagram: &sight::Datagram, sight: &Sight) -> Option<Vec<i32>> {
    let bytes = usize::from(sight.elements) * 4;
    let begin = match format.facts().lanes {
        Some(form) => form.offset.checked_sub(HEAD)?,
        None => datagram.payload.len().checked_sub(bytes)?,
    };
    let values = datagram.payload.get(begin..begin + bytes)?;
    Some(values.as_chunks::<4>().0.iter().map(|word| i32::from_be_bytes(*word)).collect())
}

/// What results in a capture say when they are made again.
#[derive(Debug, Default)]
pub(crate) struct Remade {
    /// Whose contributions they hold, by address.
    pub(crate) taken: BTreeMap<u32, Taken>,
    /// How many were compared with what workers sent.
    pub(crate) checked: u64,
}

/// Looks at every result in the capture at `path`; adds what is wrong with the sums, if so many are `reported`.
pub(crate) fn look_at(path: &Path, by: Sums, reported: u64, found: &mut Vec<CauseFound>) -> Result<Remade> {
    let mut all = Reckoning::new(path, by);
    let mut reader = Reader::open(path)?;
    let mut number = 0;
    while let Some(packet) = reader.next()? {
        number += 1;
        let Look::Udp(datagram) = look(packet.link_type, packet.bytes) else { continue };
        all.packet(&datagram, (number, packet.time.map_or(0, |time| time.unix_ps())));
        if all.wrong.len() >= WRONG_MAX || all.held > HELD_MAX {
            break;
        }
    }
    let remade = Remade { taken: std::mem::take(&mut all.taken), checked: all.checked };
    if reported > 0 {
        all.conclude(reported, found);
    }
    Ok(remade)
}

impl<'a> Reckoning<'a> {
    fn new(path: &'a Path, by: Sums) -> Self {
        Reckoning {
            exponents: by.scaled_by.map(Exponents::new),
            by,
            blocks: HashMap::new(),
            last: HashMap::new(),
            held: 0,
            wrong: Vec::new(),
            checked: 0,
            taken: BTreeMap::new(),
            registers: Registers::Wrap,
            device: None,
            path,
        }
    }

    fn packet(&mut self, datagram: &sight::Datagram, (number, t_ps): (u64, i128)) {
        // Formats take a result by its receiver, which has an address of ours there.
        let back = self.device == Some(datagram.src);
        let datagram = &sight::Datagram { dst: if back { worker_ip(0) } else { datagram.dst }, ..*datagram };
        let inside = self.by.ports.and_then(|ports| ports.inside(datagram));
        let known = match inside {
            Some((format, inside)) => {
                format.sight(&inside).filter(|_| format.facts().adds).map(|sight| (format, sight))
            }
            None => self.by.formats.iter().copied().filter(|format| format.facts().adds).find_map(|format| {
                let is_own = format.has_port(datagram.dst_port) || format.has_port(datagram.src_port);
                let sight = if is_own { format.sight(datagram) } else { None };
                sight.map(|sight| (format, sight))
            }),
        };
        let Some((format, sight)) = known else { return };
        let Some(values) = values(format, datagram, &sight) else { return };
        let key = (sight.cluster, sight.seq, sight.round);
        let device = *self.device.get_or_insert(datagram.dst);
        let what = match sight.what {
            What::Update | What::Result if datagram.src == device => What::Result,
            What::Update | What::Result if datagram.dst == device => What::Update,
            other => other,
        };
        let exponent = format.facts().exponent.and_then(|exponent| exponent(datagram.payload));
        match what {
            What::Update => {
                if let (Some(exponents), Some(exponent)) = (&mut self.exponents, exponent) {
                    exponents.give(key, datagram.src, exponent);
                }
                self.update(key, datagram.src, values, t_ps);
            }
            What::Result => {
                self.registers = format.facts().registers;
                let known = self.wrong.len();
                self.result(key, values, (number, t_ps, sight.count));
                let wrong = self.exponents.as_ref().zip(exponent).and_then(|(all, own)| all.wrong(key, own));
                if let Some((says, lacks)) = wrong.filter(|_| self.wrong.len() == known) {
                    self.wrong.push(Wrong { number, bits: 0, cause: &EXPONENT_WRONG, says, lacks });
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, key: Key, from: u32, values: Vec<i32>, t_ps: i128) {
        let block = self.blocks.entry(key).or_default();
        // A repeated contribution is the same one.
        if block.from.iter().all(|(known, _)| *known != from) {
            self.held += values.len() * 4;
            block.from.push((from, values));
            block.left_ps.push(t_ps);
        }
    }

    /// A result of so many sources, as it says.
    fn result(&mut self, key: Key, values: Vec<i32>, (number, t_ps, sources): (u64, i128, u16)) {
        let Some(block) = self.blocks.get_mut(&key) else { return };
        self.checked += 1;
        // What comes behind a result opens its block anew: only the first one says what became of all.
        let is_first = !std::mem::replace(&mut block.answered, true);
        let sum = sum(block);
        let mut lacks = Vec::new();
        let compared = block.compared(sum.len(), self.registers);
        if sum.len() == values.len() && compared.iter().any(|at| sum[*at] as i32 != values[*at]) {
            let places = places(key);
            let before: Vec<_> = places.iter().filter_map(|place| self.last.get(place)).collect();
            let wrong = judge(block, (&sum, &values), &compared, &before, number);
            // A partial result that says of how many it is (Trio-ML §5) lacks the others rightly.
            if wrong.lacks.is_empty() || usize::from(sources) + wrong.lacks.len() != block.from.len() {
                self.wrong.push(wrong);
            } else {
                lacks = wrong.lacks;
            }
        }
        if usize::from(sources) + lacks.len() == block.from.len() && block.tells_apart(&lacks) {
            let timeout = i128::from(self.by.timeout_ps.unwrap_or(0));
            for ((from, _), left_ps) in block.from.iter().zip(&block.left_ps) {
                let own = self.taken.entry(*from).or_default();
                if !is_first {
                    own.later += u64::from(!lacks.contains(from));
                    continue;
                }
                own.held += u64::from(!lacks.contains(from));
                own.left_out += u64::from(lacks.contains(from) && block.was_in_time(*left_ps, t_ps, timeout));
            }
        }
        let [slot, block] = places(key);
        self.last.insert(slot, values.clone());
        self.last.insert(block, values);
    }

    fn conclude(self, reported: u64, found: &mut Vec<CauseFound>) {
        let mut by: BTreeMap<&'static str, Vec<&Wrong>> = BTreeMap::new();
        // One flipped bit may be an addition of a power of two, which is assumed if others are wrong by more.
        let single = |wrong: &&Wrong| wrong.cause == &BITS_FLIPPED && wrong.bits == 1;
        let others = self
            .wrong
            .iter()
            .filter(|wrong| wrong.cause == &ADDS_WRONGLY || wrong.cause == &BITS_FLIPPED && wrong.bits > 1)
            .count();
        let flips = self.wrong.iter().filter(single).count();
        let merged = others * 4 > flips;
        let is_damaged = flips > 0 || found.iter().any(|found| found.cause == &BAD_CHECKSUM);
        // A sum that lacks zeros is right: its exponent alone shows it.
        let lacking = self.wrong.iter().any(|wrong| wrong.cause == &CONTRIBUTION_MISSING);
        let cause_of = |wrong: &Wrong| match wrong.cause {
            cause if cause == &BITS_FLIPPED && merged => &ADDS_WRONGLY,
            cause if cause == &EXPONENT_WRONG && lacking && !wrong.lacks.is_empty() => &CONTRIBUTION_MISSING,
            cause => cause,
        };
        for wrong in &self.wrong {
            by.entry(cause_of(wrong).code).or_default().push(wrong);
        }
        let place = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let all = self.wrong.len().max(1) as u64;
        for wrongs in by.into_values() {
            let cause = cause_of(wrongs[0]);
            let first = wrongs.iter().find(|wrong| wrong.cause == cause).unwrap_or(&wrongs[0]);
            let n = wrongs.len() as u64;
            let unsure = [&BITS_FLIPPED, &EXPONENT_WRONG].contains(&cause) && n < 4;
            let certainty = match cause {
                _ if unsure => Certainty::Possible,
                // All that it takes is in the packets, but a cable may have changed a few behind the capture.
                cause if cause == &EXPONENT_WRONG && !is_damaged && n * 20 > self.checked => Certainty::Certain,
                _ => Certainty::Likely,
            };
            let says = format!("{}; {n} of {} results that were made again are wrong so", first.says, self.checked);
            let explains = (reported.max(all) * n / all).max(n);
            found.push(CauseFound::new(
                cause,
                certainty,
                explains,
                vec![EvidenceItem::packet(place.clone(), first.number, says)],
            ));
        }
    }
}

impl Block {
    /// Returns the places of the values that are known: where registers saturate, those that leave 32 bits in no order of additions. The
    /// verdict compares no others behind a server.
    fn compared(&self, len: usize, registers: Registers) -> Vec<usize> {
        let is_known = |at: &usize| {
            let own = self.from.iter().map(|(_, values)| i64::from(values[*at]));
            let span = own.fold([0i64, 0], |[below, above], value| [below + value.min(0), above + value.max(0)]);
            registers == Registers::Wrap || !registers.may_leave(span)
        };
        (0..len).filter(is_known).collect()
    }

    /// Whether no other contribution has the values of one of `those`.
    fn tells_apart(&self, those: &[u32]) -> bool {
        let of = |own: &u32| self.from.iter().find(|(from, _)| from == own).map(|(_, values)| values);
        let alike = |own: &u32| self.from.iter().any(|(from, values)| !those.contains(from) && of(own) == Some(values));
        !those.iter().any(alike)
    }

    /// Whether a contribution was in time for the result at `end_ps`.
    fn was_in_time(&self, left_ps: i128, end_ps: i128, timeout: i128) -> bool {
        let first = self.left_ps.iter().min().copied().unwrap_or(left_ps);
        is_in_time(left_ps - first, end_ps - first, timeout)
    }
}

fn sum(block: &Block) -> Vec<i64> {
    let len = block.from.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
    (0..len).map(|i| block.from.iter().map(|(_, values)| i64::from(values[i])).sum()).collect()
}

/// Returns what is wrong with a result, of which these places are compared.
fn judge(
    block: &Block,
    (sum, values): (&[i64], &[i32]),
    compared: &[usize],
    before: &[&Vec<i32>],
    number: u64,
) -> Wrong {
    let wrong = |cause: &'static Cause, says: String| Wrong { number, bits: 0, cause, says, lacks: Vec::new() };
    let right: Vec<i32> = sum.iter().map(|wide| *wide as i32).collect();
    let differing: Vec<usize> = compared.iter().copied().filter(|i| values[*i] != right[*i]).collect();
    let first = differing.first().copied().unwrap_or(0);
    let odd = |i: usize| format!("value {i} is {}, and the sum of what was sent is {}", values[i], right[i]);
    let clipped = |i: &usize| [i32::MAX, i32::MIN].contains(&values[*i]) && i64::from(right[*i]) != sum[*i];
    if differing.iter().all(clipped) {
        return wrong(&SATURATED, format!("{}: beyond the range of 32 bits", odd(first)));
    }
    let swapped: Vec<i32> = (0..right.len())
        .map(|i| block.from.iter().fold(0i32, |sum, (_, own)| sum.wrapping_add(own[i].swap_bytes())).swap_bytes())
        .collect();
    let reversed = |i: &usize| values[*i].swap_bytes() == right[*i];
    let some = differing.len() > 2 && differing.iter().all(reversed);
    if some || compared.iter().all(reversed) || compared.iter().all(|i| values[*i] == swapped[*i]) {
        return wrong(&BYTE_ORDER, format!("{}: right if bytes are reversed", odd(first)));
    }
    let difference: Vec<i32> = values.iter().zip(&right).map(|(a, b)| a.wrapping_sub(*b)).collect();
    let whose = |signed: &dyn Fn(i32) -> i32| some_of(block, (&difference, compared), signed);
    if let Some(lacks) = whose(&|own| own.wrapping_neg()) {
        let says = format!("{}: what {} sent is not in it", odd(first), names(&lacks));
        return Wrong { lacks, ..wrong(&CONTRIBUTION_MISSING, says) };
    }
    // Nearly empty values prove nothing.
    let full = |values: &[i32]| values.iter().filter(|value| **value != 0).count() * 4 > values.len();
    let is_in_it = |before: &[i32]| compared.iter().all(|i| before.get(*i) == Some(&difference[*i]));
    if before.iter().any(|before| is_in_it(before) && full(before)) {
        return wrong(&STALE_SUM, format!("{}: the last result of the same place is in it", odd(first)));
    }
    if let Some(whose) = whose(&|own| own) {
        return wrong(&CONTRIBUTION_TWICE, format!("{}: what {} sent is in it twice", odd(first), names(&whose)));
    }
    let bits: u32 = differing.iter().map(|i| (values[*i] ^ right[*i]).count_ones()).sum();
    let cause = if differing.len() == 1 { &BITS_FLIPPED } else { &ADDS_WRONGLY };
    let text = match differing.len() {
        1 => odd(first),
        n => format!("{}, and {} more differ", odd(first), n - 1),
    };
    Wrong { number, bits, cause, says: text, lacks: Vec::new() }
}

/// Workers whose contributions together are the difference at the compared places, by address; of many workers one.
fn some_of(block: &Block, (difference, compared): (&[i32], &[usize]), signed: &dyn Fn(i32) -> i32) -> Option<Vec<u32>> {
    let of = block.from.len();
    let sets = if of <= SUBSETS_MAX { 1..1u32 << of } else { 0..0 };
    let singles = (0..of.min(32)).map(|i| 1u32 << i);
    let add = |set: u32, at: usize| {
        let own = block.from.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        own.fold(0i32, |sum, (_, (_, values))| sum.wrapping_add(signed(values[at])))
    };
    let like = |set: &u32| compared.iter().all(|at| add(*set, *at) == difference[*at]);
    let set = singles.chain(sets).find(like)?;
    let own = block.from.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
    Some(own.map(|(_, (from, _))| *from).collect())
}

/// Addresses as people write them.
pub(crate) fn names(addresses: &[u32]) -> String {
    addresses.iter().map(|ip| Address(*ip).to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;
