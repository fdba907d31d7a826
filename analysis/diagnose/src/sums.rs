//! Finds wrong integer sums by recomputing them from the workers' contributions: what each sum lacks or contains additionally.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pktgen_core::Result;
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::{self, Look, Sight, What, look};

use crate::cause::{
    ADDS_WRONGLY, BITS_FLIPPED, BYTE_ORDER, CONTRIBUTION_MISSING, CONTRIBUTION_TWICE, Cause, SATURATED, STALE_SUM,
};
use crate::finding::{CauseFound, Certainty, EvidenceItem};

/// Maximum number of wrong results that are examined.
const WRONG_MAX: usize = 256;
/// Maximum number of bytes of contributions in memory.
const HELD_MAX: usize = 256 << 20;

/// Maximum number of workers whose subsets are tried.
const SUBSETS_MAX: usize = 10;

type Key = (u16, u32, u16);

/// Contributions to a sum, by address, with values in host byte order.
#[derive(Default)]
struct Block {
    from: Vec<(u32, Vec<i32>)>,
}

/// A wrong result.
struct Wrong {
    number: u64,
    bits: u32,
    cause: &'static Cause,
    says: String,
    /// Number of contributions that it lacks.
    lacks: usize,
}

/// State of checking a capture of a synchronous run.
pub(crate) struct Reckoning<'a> {
    formats: Formats,
    blocks: HashMap<Key, Block>,
    /// The last result of a slot, and of a block in other iterations.
    last: HashMap<(bool, u32), Vec<i32>>,
    held: usize,
    wrong: Vec<Wrong>,
    checked: u64,
    /// Destination of contributions and source of results: the destination of the first packet. Packets with a
    /// profile's addresses do not show their direction otherwise.
    device: Option<u32>,
    path: &'a Path,
}

fn values(datagram: &sight::Datagram, sight: &Sight) -> Option<Vec<i32>> {
    let bytes = usize::from(sight.elements) * 4;
    let own = datagram.payload.len().checked_sub(bytes)?;
    Some(datagram.payload[own..].as_chunks::<4>().0.iter().map(|word| i32::from_be_bytes(*word)).collect())
}

/// Checks every result in the capture at `path`; adds what is wrong with the sums.
pub(crate) fn look_at(path: &Path, formats: Formats, reported: u64, found: &mut Vec<CauseFound>) -> Result<()> {
    let mut all = Reckoning {
        formats,
        blocks: HashMap::new(),
        last: HashMap::new(),
        held: 0,
        wrong: Vec::new(),
        checked: 0,
        device: None,
        path,
    };
    let mut reader = Reader::open(path)?;
    let mut number = 0;
    while let Some(packet) = reader.next()? {
        number += 1;
        let Look::Udp(datagram) = look(packet.link_type, packet.bytes) else { continue };
        all.packet(&datagram, number);
        if all.wrong.len() >= WRONG_MAX || all.held > HELD_MAX {
            break;
        }
    }
    all.conclude(reported, found);
    Ok(())
}

impl Reckoning<'_> {
    fn packet(&mut self, datagram: &sight::Datagram, number: u64) {
        let Some(sight) = self.formats.iter().find_map(|format| {
            (format.has_port(datagram.dst_port) || format.has_port(datagram.src_port))
                .then(|| format.sight(datagram))?
        }) else {
            return;
        };
        let Some(values) = values(datagram, &sight) else { return };
        let key = (sight.cluster, sight.seq, sight.round);
        let device = *self.device.get_or_insert(datagram.dst);
        let what = match sight.what {
            What::Update | What::Result if datagram.src == device => What::Result,
            What::Update | What::Result if datagram.dst == device => What::Update,
            other => other,
        };
        match what {
            What::Update => {
                let block = self.blocks.entry(key).or_default();
                // A repeated contribution equals the first.
                if block.from.iter().all(|(from, _)| *from != datagram.src) {
                    self.held += values.len() * 4;
                    block.from.push((datagram.src, values));
                }
            }
            What::Result => self.result(key, values, (number, sight.count)),
            _ => {}
        }
    }

    /// Checks a result that states this number of sources.
    fn result(&mut self, key: Key, values: Vec<i32>, (number, sources): (u64, u16)) {
        let Some(block) = self.blocks.get(&key) else { return };
        self.checked += 1;
        let sum = sum(block);
        if sum.iter().map(|wide| *wide as i32).ne(values.iter().copied()) && sum.len() == values.len() {
            let places = [(false, u32::from(key.2)), (true, key.1)];
            let before: Vec<_> = places.iter().filter_map(|place| self.last.get(place)).collect();
            let wrong = judge(block, &sum, &values, &before, number);
            // A partial result that states its number of sources (Trio-ML §5) may lack the others.
            if wrong.lacks == 0 || usize::from(sources) + wrong.lacks != block.from.len() {
                self.wrong.push(wrong);
            }
        }
        self.last.insert((false, u32::from(key.2)), values.clone());
        self.last.insert((true, key.1), values);
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
        for wrong in &self.wrong {
            let cause = if wrong.cause == &BITS_FLIPPED && merged { &ADDS_WRONGLY } else { wrong.cause };
            by.entry(cause.code).or_default().push(wrong);
        }
        let place = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let all = self.wrong.len().max(1) as u64;
        for wrongs in by.into_values() {
            let first = wrongs[0];
            let cause = if first.cause == &BITS_FLIPPED && merged { &ADDS_WRONGLY } else { first.cause };
            let n = wrongs.len() as u64;
            let unsure = cause == &BITS_FLIPPED && n < 4;
            let certainty = if unsure { Certainty::Possible } else { Certainty::Likely };
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

fn sum(block: &Block) -> Vec<i64> {
    let len = block.from.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
    (0..len).map(|i| block.from.iter().map(|(_, values)| i64::from(values[i])).sum()).collect()
}

/// Returns what is wrong with a result.
fn judge(block: &Block, sum: &[i64], values: &[i32], before: &[&Vec<i32>], number: u64) -> Wrong {
    let wrong = |cause: &'static Cause, says: String| Wrong { number, bits: 0, cause, says, lacks: 0 };
    let right: Vec<i32> = sum.iter().map(|wide| *wide as i32).collect();
    let differing: Vec<usize> = (0..values.len()).filter(|i| values[*i] != right[*i]).collect();
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
    if some || values.iter().zip(&right).all(|(a, b)| a.swap_bytes() == *b) || values == swapped {
        return wrong(&BYTE_ORDER, format!("{}: right if bytes are reversed", odd(first)));
    }
    let difference: Vec<i32> = values.iter().zip(&right).map(|(a, b)| a.wrapping_sub(*b)).collect();
    let whose = |signed: &dyn Fn(i32) -> i32| some_of(block, &difference, signed);
    if let Some(whose) = whose(&|own| own.wrapping_neg()) {
        let lacks = whose.split(", ").count();
        let says = format!("{}: what {whose} sent is not in it", odd(first));
        return Wrong { lacks, ..wrong(&CONTRIBUTION_MISSING, says) };
    }
    // Nearly empty values prove nothing.
    let full = |values: &[i32]| values.iter().filter(|value| **value != 0).count() * 4 > values.len();
    if before.iter().any(|before| ***before == *difference && full(before)) {
        return wrong(&STALE_SUM, format!("{}: the last result of the same place is in it", odd(first)));
    }
    if let Some(whose) = whose(&|own| own) {
        return wrong(&CONTRIBUTION_TWICE, format!("{}: what {whose} sent is in it twice", odd(first)));
    }
    let bits: u32 = differing.iter().map(|i| (values[*i] ^ right[*i]).count_ones()).sum();
    let cause = if differing.len() == 1 { &BITS_FLIPPED } else { &ADDS_WRONGLY };
    let text = match differing.len() {
        1 => odd(first),
        n => format!("{}, and {} more differ", odd(first), n - 1),
    };
    Wrong { number, bits, cause, says: text, lacks: 0 }
}

/// Returns workers whose contributions add up to the difference, by address; with many workers, a single one.
fn some_of(block: &Block, difference: &[i32], signed: &dyn Fn(i32) -> i32) -> Option<String> {
    let of = block.from.len();
    let sets = if of <= SUBSETS_MAX { 1..1u32 << of } else { 0..0 };
    let singles = (0..of.min(32)).map(|i| 1u32 << i);
    let add = |set: u32, at: usize| {
        let own = block.from.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        own.fold(0i32, |sum, (_, (_, values))| sum.wrapping_add(signed(values[at])))
    };
    let like = |set: &u32| difference.iter().enumerate().all(|(at, value)| add(*set, at) == *value);
    let set = singles.chain(sets).find(like)?;
    let names = block.from.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
    let names = names.map(|(_, (from, _))| from.to_be_bytes().map(|part| part.to_string()).join("."));
    Some(names.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        Block { from: vec![(1, vec![10, -20, 30]), (2, vec![100, 200, 300]), (3, vec![7, 8, 9])] }
    }

    fn of(values: [i32; 3], before: &[&Vec<i32>]) -> &'static str {
        judge(&block(), &sum(&block()), &values, before, 1).cause.code
    }

    #[test]
    fn each_wrong_sum_has_its_cause() {
        let right = [117, 188, 339];
        assert_eq!(of(right.map(i32::swap_bytes), &[]), "byte_order");
        // A device may reverse the bytes of only some values of a packet: three are not chance.
        let four = Block { from: vec![(1, vec![10, -20, 30, 5]), (2, vec![100, 200, 300, 6])] };
        let some = [110, 180i32.swap_bytes(), 330i32.swap_bytes(), 11i32.swap_bytes()];
        assert_eq!(judge(&four, &sum(&four), &some, &[], 1).cause.code, "byte_order");
        assert_eq!(of([17, -12, 39], &[]), "contribution_missing");
        assert_eq!(of([124, 196, 348], &[]), "contribution_twice");
        assert_eq!(of([118, 190, 342], &[&vec![1, 2, 3]]), "stale_sum");
        assert_eq!(of([117, 188, 339 ^ 64], &[]), "bits_flipped");
        assert_eq!(of([118, 189, 340], &[]), "adds_wrongly");
        let wide = Block { from: vec![(1, vec![i32::MAX, 1]), (2, vec![5, 1])] };
        assert_eq!(judge(&wide, &sum(&wide), &[i32::MAX, 2], &[], 1).cause.code, "saturated");
    }
}
