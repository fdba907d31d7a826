//! Sums of a device that keeps no books, checked by the members that lanes prove.
//!
//! A deviation larger than that of f32 additions in any order ([`AdditionError`]) is wrong. A packet of one member must
//! equal that member, bit for bit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::arrow::array::{Array, AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{Int64Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::record::{LANES, NO_CLUSTER, PAYLOADS, PacketId, RECEIVED, SENT};
use pktgen_core::time::Time;
use pktgen_wire::wire::update::elements_in;
use pktgen_workload::addition::AdditionError;
use pktgen_workload::lanes::{Answer, Arrived, LaneColumns, Layout, Members, SentRows, next_at};
use pktgen_workload::workload::Source;

use super::batches;
use crate::ledger::Proven;

/// Size of the cache of gradients for later packets, in bytes.
const CACHE: usize = 256 << 20;

/// The need to check a packet that the ledger could not check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// None: it was checked, or is not an update.
    No,
    /// It claims to be a sum.
    Sum,
    /// It claims to be one update.
    Single,
}

/// What lanes prove of a packet.
pub(crate) enum SumFound<'a> {
    /// The packet at this row of `received` claims to be one update, and is a right sum of several.
    RightSingle(usize),
    /// It is no sum of its members.
    Wrong(WrongSum<'a>),
}

/// A wrong sum.
pub(crate) struct WrongSum<'a> {
    /// Row of `received`.
    pub(crate) row: usize,
    /// Its arrival.
    pub(crate) t_recv: Time,
    /// Its newest member.
    pub(crate) packet: PacketId,
    /// Its members.
    pub(crate) members: Vec<PacketId>,
    /// The exact sum, computed in f64.
    pub(crate) exact: &'a [f64],
    /// The received values: the bits of f32s.
    pub(crate) payload: &'a [u32],
    /// Places of the values that no order of additions explains.
    pub(crate) differing: Vec<usize>,
}

/// The columns of the records for lanes.
#[derive(Default)]
struct Columns {
    t_sent_ps: Vec<Option<i64>>,
    cluster: Vec<u16>,
    worker: Vec<u32>,
    seq: Vec<u32>,
    t_recv_ps: Vec<i64>,
    received_cluster: Vec<u16>,
    packet: Vec<u64>,
    count: Vec<u16>,
    lanes: LaneColumns,
}

/// Returns the cluster or job of each row.
fn tenants(batch: &RecordBatch) -> impl Iterator<Item = u16> {
    let of = |name: &str| batch[name].as_primitive::<UInt16Type>().iter();
    of("cluster").zip(of("job")).map(|(cluster, job)| cluster.or(job).unwrap_or(NO_CLUSTER))
}

impl Columns {
    fn read(dir: &Path) -> Result<Self> {
        let mut all = Columns::default();
        for batch in batches(dir, SENT)? {
            let batch = batch?;
            all.t_sent_ps.extend(batch["t_sent_ps"].as_primitive::<Int64Type>().iter());
            all.cluster.extend(tenants(&batch));
            all.worker.extend(batch["worker"].as_primitive::<UInt32Type>().values());
            all.seq.extend(batch["seq"].as_primitive::<UInt32Type>().values());
        }
        for batch in batches(dir, RECEIVED)? {
            let batch = batch?;
            all.t_recv_ps.extend(batch["t_recv_ps"].as_primitive::<Int64Type>().values());
            all.received_cluster.extend(tenants(&batch));
            all.packet.extend(batch["packet"].as_primitive::<UInt64Type>().values());
            all.count.extend(batch["count"].as_primitive::<UInt16Type>().values());
        }
        let (mut lanes, mut lanes_ps) = (LaneColumns::default(), Vec::<i64>::new());
        for batch in batches(dir, LANES)? {
            let batch = batch?;
            lanes_ps.extend(batch["t_recv_ps"].as_primitive::<Int64Type>().values());
            let lists = batch["words"].as_list::<i32>();
            (0..lists.len()).for_each(|row| lanes.push(lists.value(row).as_primitive::<UInt32Type>().values()));
        }
        all.lanes = lanes.aligned(&lanes_ps, &all.t_recv_ps);
        Ok(all)
    }

    fn members(&self, layout: &Layout, cluster_of: &[u16], real_time: bool) -> Members {
        let Columns { t_sent_ps, cluster, worker, seq, .. } = self;
        let arrived = (0..self.t_recv_ps.len()).map(|row| Arrived {
            t_recv_ps: self.t_recv_ps[row],
            cluster: self.received_cluster[row],
            worker: Some(PacketId(self.packet[row]).worker()),
            words: self.lanes.words_of(row),
        });
        Members::resolve(layout, cluster_of, SentRows { t_sent_ps, cluster, worker, seq }, arrived, real_time)
    }
}

/// Checks the packets of the run in `dir` that are `open`, by row of `received`; calls `found` with those that differ from their claim.
/// Times of a run in `real_time` are decoded with the tolerance of its clocks.
pub fn check(
    dir: &Path,
    layout: &Layout,
    cluster_of: &[u16],
    real_time: bool,
    open: &[Open],
    source: &mut dyn Source,
    found: &mut dyn FnMut(SumFound),
) -> Result<Proven> {
    let columns = Columns::read(dir)?;
    let members = columns.members(layout, cluster_of, real_time);
    let mut gradients = Cache::new(source);
    let contradict = members.answers.iter().filter(|answer| **answer == Answer::Contradiction).count() as u64;
    let mut proven = Proven { contradict, ..Proven::default() };
    let mut sum = Sum { lanes: layout.lanes(), ..Sum::default() };
    let mut check = |row: usize, payload: &[u32]| {
        let open = open.get(row).copied().unwrap_or(Open::No);
        if open == Open::No || members.answers.get(row) != Some(&Answer::Known) {
            return;
        }
        sum.begin();
        let mut own = members.of(row).iter().map(|member| *member as usize);
        if !own.all(|row| gradients.of(columns.worker[row], columns.seq[row]).is_some_and(|values| sum.add(values))) {
            return;
        }
        let right = sum.is(payload, &mut proven.smallest);
        let (says, holds) = (usize::from(columns.count[row]), members.of(row).len());
        if !right {
            let own = members.of(row).iter().map(|member| *member as usize);
            let members = own.map(|row| PacketId::new(columns.worker[row], columns.seq[row], 0)).collect();
            let (t_recv, packet) = (columns.t_recv_ps[row], PacketId(columns.packet[row]));
            let differing = sum.differing(payload);
            found(SumFound::Wrong(WrongSum { row, t_recv, packet, members, exact: &sum.exact, payload, differing }));
        } else {
            proven.miscounted += u64::from(says != holds);
            proven.overcounted += u64::from(says > holds);
            if open == Open::Single && holds > 1 {
                found(SumFound::RightSingle(row));
            }
        }
        match (open, right) {
            (Open::Sum, true) => proven.right += 1,
            (Open::Sum, false) => proven.wrong += 1,
            (_, true) if holds > 1 => proven.unsaid += 1,
            // One update under another header, which a sum does not explain.
            (_, true) => {}
            (_, false) => proven.wrong_single += 1,
        }
    };
    // Payloads belong to packets by their time, as lanes do.
    let (mut payload, mut row, mut next) = (Vec::new(), None, 0usize);
    for batch in batches(dir, PAYLOADS)? {
        let batch = batch?;
        let (parts, lists) = (batch["part"].as_primitive::<UInt16Type>(), batch["words"].as_list::<i32>());
        let times = batch["t_recv_ps"].as_primitive::<Int64Type>().values();
        for (at, (part, t)) in parts.values().iter().zip(times).enumerate() {
            if *part == 0 {
                row.inspect(|row| check(*row, &payload));
                payload.clear();
                row = next_at(&columns.t_recv_ps, &mut next, *t);
            }
            payload.extend_from_slice(lists.value(at).as_primitive::<UInt32Type>().values());
        }
    }
    // The last payload of a killed server may lack parts; that of others belongs to the last packet.
    row.filter(|row| row + 1 >= columns.t_recv_ps.len()).inspect(|row| check(*row, &payload));
    Ok(proven)
}

/// A recomputed sum: exact in f64, with the bound of the error of f32 additions.
#[derive(Default)]
struct Sum {
    first: Vec<u32>,
    exact: Vec<f64>,
    absolute: Vec<f64>,
    members: u32,
    /// Number of the first values that are lanes, not gradients.
    lanes: usize,
}

impl Sum {
    fn begin(&mut self) {
        self.members = 0;
    }

    /// Adds a member; returns false if its length differs from the others'.
    fn add(&mut self, values: &[u8]) -> bool {
        let values = values.as_chunks::<4>().0;
        self.members += 1;
        if self.members == 1 {
            self.first.clear();
            self.first.extend(values.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            self.exact.clear();
            self.absolute.clear();
            self.exact.resize(values.len(), 0.0);
            self.absolute.resize(values.len(), 0.0);
        }
        for ((bytes, exact), absolute) in values.iter().zip(&mut self.exact).zip(&mut self.absolute) {
            let value = f64::from(f32::from_le_bytes(*bytes));
            *exact += value;
            *absolute += value.abs();
        }
        values.len() == self.exact.len()
    }

    /// Returns the maximum error of a correct sum, relative to the sum of absolute values.
    fn share(&self) -> f64 {
        AdditionError::F32.share(self.members)
    }

    /// Returns whether a value at this place is that of the sum, for any order of additions; one member is itself.
    fn allows(&self, at: usize, word: u32) -> bool {
        let value = f64::from(f32::from_bits(word));
        match self.members {
            1 => self.first[at] == word,
            members => AdditionError::F32.allows(value, self.exact[at], self.absolute[at], members),
        }
    }

    /// Returns the places of the values that are not those of the sum.
    fn differing(&self, payload: &[u32]) -> Vec<usize> {
        let values = payload.iter().take(self.exact.len()).enumerate();
        values.filter(|(at, word)| !self.allows(*at, **word)).map(|(at, _)| at).collect()
    }

    /// Returns whether this payload is the sum, for any order of additions.
    fn is(&self, payload: &[u32], smallest: &mut Option<f64>) -> bool {
        let Some(payload) = payload.get(..self.exact.len()) else { return false };
        let share = self.share();
        payload.iter().enumerate().all(|(at, word)| {
            let absolute = self.absolute[at];
            if at >= self.lanes && self.members > 1 && !AdditionError::F32.is_open(absolute, self.members) {
                let least = 2.0 * share * absolute;
                *smallest = Some(smallest.map_or(least, |known: f64| known.max(least)));
            }
            self.allows(at, *word)
        })
    }
}

/// A cache of the latest gradients that the source recomputed.
struct Cache<'a> {
    source: &'a mut dyn Source,
    known: HashMap<(u32, u32), Vec<u8>>,
    order: VecDeque<(u32, u32)>,
    /// Gradients that were removed.
    gone: HashSet<(u32, u32)>,
    bytes: usize,
}

impl<'a> Cache<'a> {
    fn new(source: &'a mut dyn Source) -> Self {
        Cache { source, known: HashMap::new(), order: VecDeque::new(), gone: HashSet::new(), bytes: 0 }
    }

    fn of(&mut self, worker: u32, seq: u32) -> Option<&[u8]> {
        let wanted = (worker, seq);
        while !self.known.contains_key(&wanted) && !self.gone.contains(&wanted) {
            let update = *self.source.peek()?;
            let mut values = vec![0; elements_in(update.bytes as usize) * 4];
            self.source.take(&mut values);
            self.bytes += values.len();
            self.order.push_back((update.worker, update.seq));
            self.known.insert((update.worker, update.seq), values);
            while self.bytes > CACHE {
                let Some(oldest) = self.order.pop_front() else { break };
                self.bytes -= self.known.remove(&oldest).map_or(0, |values| values.len());
                self.gone.insert(oldest);
            }
        }
        self.known.get(&wanted).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn of(members: &[Vec<f32>]) -> Sum {
        let mut sum = Sum::default();
        sum.begin();
        assert!(members.iter().all(|values| sum.add(&bytes(values))));
        sum
    }

    proptest! {
        /// Added as a random tree, a sum is correct; with the stated smallest error, it is wrong.
        #[test]
        fn any_order_is_right_and_the_smallest_error_is_found(
            members in prop::collection::vec(prop::collection::vec(-1e3f32..1e3, 5), 2..12),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 24),
            element in 0usize..5,
            up in any::<bool>(),
        ) {
            let sum = of(&members);
            let mut parts = members;
            let mut picks = picks.into_iter();
            while parts.len() > 1 {
                let a = parts.swap_remove(picks.next().unwrap().index(parts.len()));
                let b = picks.next().unwrap().index(parts.len());
                parts[b].iter_mut().zip(&a).for_each(|(to, from)| *to += *from);
            }
            let mut words: Vec<u32> = parts[0].iter().map(|value| value.to_bits()).collect();
            let mut smallest = None;
            prop_assert!(sum.is(&words, &mut smallest));
            // The error itself is rounded to an f32 when it is added.
            let error = smallest.unwrap() as f32 * 1.01 + f32::EPSILON * parts[0][element].abs();
            let wrong = if up { parts[0][element] + error } else { parts[0][element] - error };
            words[element] = wrong.to_bits();
            prop_assert!(!sum.is(&words, &mut smallest), "{} {}", parts[0][element], wrong);
        }
    }

    #[test]
    fn one_member_is_itself_bit_for_bit() {
        let one = of(&[vec![1.0, -0.0]]);
        let mut smallest = None;
        assert!(one.is(&[1.0f32.to_bits(), (-0.0f32).to_bits()], &mut smallest));
        assert!(!one.is(&[1.0f32.to_bits(), 0.0f32.to_bits()], &mut smallest), "another zero");
        assert!(!one.is(&[1.0f32.to_bits()], &mut smallest), "shorter");
        assert_eq!(smallest, None);
        let mut uneven = Sum::default();
        uneven.begin();
        assert!(uneven.add(&bytes(&[1.0, 2.0])) && !uneven.add(&bytes(&[1.0])));
        assert!(!of(&[vec![1.0], vec![2.0]]).is(&[f32::NAN.to_bits()], &mut smallest), "no number is no sum");
    }

    /// Values that the check accepts do not differ: infinities beyond f32's range. Another zero of one member does.
    #[test]
    fn values_differ_if_the_check_refuses_them() {
        let words = |values: &[f32]| -> Vec<u32> { values.iter().map(|value| value.to_bits()).collect() };
        let huge = of(&[vec![3e38, 1.0], vec![3e38, 1.0]]);
        assert_eq!(huge.differing(&words(&[f32::INFINITY, 3.0])), [1]);
        assert_eq!(of(&[vec![0.0, 1.0]]).differing(&words(&[-0.0, 1.0])), [0]);
        let mut smallest = None;
        assert!(huge.is(&words(&[f32::INFINITY, 2.0]), &mut smallest));
        assert!(smallest.is_some_and(|error| error < 1e-3), "{smallest:?}");
    }
}
