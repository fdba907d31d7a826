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
    ADDS_WRONGLY, BITS_FLIPPED, BYTE_ORDER, CONTRIBUTION_MISSING, CONTRIBUTION_TWICE, Cause, EXPONENT_WRONG, SATURATED,
    STALE_SUM,
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
                let says = self.exponents.as_ref().zip(exponent).and_then(|(all, own)| all.wrong(key, own));
                if let Some(says) = says.filter(|_| self.wrong.len() == known) {
                    self.wrong.push(Wrong { number, bits: 0, cause: &EXPONENT_WRONG, says, lacks: Vec::new() });
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
            let certainty = match cause {
                _ if unsure => Certainty::Possible,
                // All that it takes is in the packets.
                cause if cause == &EXPONENT_WRONG => Certainty::Certain,
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
mod tests {
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

    /// ATP's key is behind its values, and every packet has another one.
    #[test]
    fn values_that_do_not_end_the_payload_begin_where_lanes_do() {
        let codes = |result: u8| {
            let mut all = Reckoning::new(
                Path::new("tap"),
                Sums { formats: OF_BEGINNING, ports: None, timeout_ps: None, scaled_by: None },
            );
            let device = 0xac1e_05fe;
            let mut packet = |src, dst, payload: &[u8]| {
                let (src_port, dst_port, whole) = (12000, 12000, payload.len());
                all.packet(&sight::Datagram { src, dst, src_port, dst_port, payload, whole, six: None }, (1, 0));
            };
            for own in 1..3u8 {
                packet(0xac1e_0500 + u32::from(own), device, &[0, 1, 0, 0, 0, own * 10, 7, 7, own, 7]);
            }
            packet(device, 0xef58_0100, &[0, 2, 0, 0, 0, result, 7, 7, 9, 7]);
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

    #[test]
    fn results_have_the_largest_exponent_of_their_contributions() {
        let of = |scaled_by, exponent: u8, value: u8| {
            let by = Sums { formats: OF_SCALING, ports: None, timeout_ps: None, scaled_by };
            let mut all = Reckoning::new(Path::new("tap"), by);
            let device = 0xac1e_05fe;
            let mut packet = |src, dst, payload: &[u8]| {
                let (src_port, dst_port, whole) = (12000, 12000, payload.len());
                all.packet(&sight::Datagram { src, dst, src_port, dst_port, payload, whole, six: None }, (1, 0));
            };
            for (own, exponent) in [(1u8, 5u8), (2, 250)] {
                packet(0xac1e_0500 + u32::from(own), device, &[0, 1, exponent, 0, 0, 0, own]);
            }
            packet(device, 0xef58_0100, &[0, 2, exponent, 0, 0, 0, value]);
            let mut found = Vec::new();
            all.conclude(4, &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect::<Vec<_>>()
        };
        assert!(of(Some(2), 5, 3).is_empty());
        assert_eq!(of(Some(2), 250, 3), [("exponent_wrong", Certainty::Certain, 4)]);
        assert_eq!(of(Some(2), 250, 7), [("bits_flipped", Certainty::Possible, 4)], "its sum is wrong, too");
        assert!(of(Some(3), 250, 3).is_empty(), "a contribution is not in the capture");
        assert!(of(None, 250, 3).is_empty(), "by a fixed factor");
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
            (1..4u8)
                .for_each(|own| packet((0xac1e_0500 + u32::from(own), device), &[n, 1, 0, 0, 0, own * 10 + n], start));
            packet((device, group), &[n, 2, 0, 0, 0, 40 + 2 * n], start + 100);
        }
        let of = |from: u32| all.taken.get(&(0xac1e_0500 + from)).map(|own| (own.held, own.left_out));
        assert_eq!([1, 2, 3].map(of), [Some((5, 0)), Some((0, 5)), Some((5, 0))]);
        assert!(all.wrong.is_empty());
    }

    /// Blocks of three workers, of which the second sends `late_ps` after the first; the device ends each after 100 ps, without those that
    /// it does not take or that are late.
    fn partial(late_ps: i128, takes: impl Fn(u32) -> bool) -> BTreeMap<u32, Taken> {
        let mut all = Reckoning::new(
            Path::new("tap"),
            Sums { formats: &[], ports: None, timeout_ps: Some(100), scaled_by: None },
        );
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
        let mut all = Reckoning::new(
            Path::new("tap"),
            Sums { formats: &[], ports: None, timeout_ps: Some(100), scaled_by: None },
        );
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
}
