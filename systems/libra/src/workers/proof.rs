//! Checks the sums of a switch without a ledger by key.
//!
//! In a synchronous iteration, every worker of a job pushes each of its hot pairs once, and the results contain the sum
//! of every parameter (LIBRA §3.1), so the sums are known in advance: not bit for bit, since the order of additions is
//! unknown, but within the error of any order. Called by [`super`] only for devices without a ledger.

use std::collections::HashMap;

use pktgen_core::record::{Counter, SumOk};
use pktgen_engine::target::sparse::Adder;
use pktgen_workload::addition::AdditionError;

use crate::format::ResultHead;

/// The expected sum of one parameter in an iteration.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    exact: f64,
    /// Sum of the magnitudes of the contributions.
    size: f64,
    members: u32,
    /// The part of the results that contained it.
    part: Option<u16>,
}

/// The expected sums of one iteration of a job at a switch.
#[derive(Debug, Default)]
struct Expected {
    iteration: u32,
    /// Number of workers whose contributions are included.
    workers: u32,
    cells: HashMap<u32, Cell>,
}

impl Expected {
    /// Returns what is wrong with a part of the sums; for the last part also whether a parameter that is certainly nonzero was missing.
    /// If nothing is, returns whether all of it was compared: sums for which the adder guarantees nothing are not.
    fn wrong(
        &mut self,
        part: u16,
        pairs: impl Iterator<Item = (u32, f32)>,
        is_last: bool,
        error: &AdditionError,
    ) -> Result<bool, Wrong> {
        let mut first = None;
        let mut is_compared = true;
        for (index, value) in pairs {
            let Some(cell) = self.cells.get_mut(&index) else {
                first = first.or((value != 0.0).then_some(Wrong::Foreign));
                continue;
            };
            // Each parameter is in only one part, which may arrive repeatedly.
            let repeated = *cell.part.get_or_insert(part) != part;
            let off = !error.allows(value.into(), cell.exact, cell.size, cell.members);
            is_compared &= !error.is_open(cell.size, cell.members);
            first = first.or(repeated.then_some(Wrong::Repeated)).or(off.then_some(Wrong::Off));
        }
        let lacks = |cell: &Cell| cell.part.is_none() && !error.allows(0.0, cell.exact, cell.size, cell.members);
        if let Some(wrong) = first.or_else(|| (is_last && self.cells.values().any(lacks)).then_some(Wrong::Incomplete))
        {
            return Err(wrong);
        }
        let may_lack = |cell: &Cell| cell.part.is_none() && error.is_open(cell.size, cell.members);
        Ok(is_compared && !(is_last && self.cells.values().any(may_lack)))
    }
}

/// The first error found in a part of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// It arrived before all workers had begun the iteration.
    Early,
    /// A parameter that no worker pushed.
    Foreign,
    /// A parameter that was in another part.
    Repeated,
    /// A value outside the error of additions.
    Off,
    /// A parameter missing in all parts.
    Incomplete,
}

impl Wrong {
    /// The names of the counters.
    const COUNTERS: [&str; 5] =
        ["hot_sums_early", "hot_sums_foreign", "hot_sums_repeated", "hot_sums_off", "hot_sums_incomplete"];
}

/// The sums of all jobs and switches, for the iteration whose results arrive and for the next one, which some workers have begun.
pub(super) struct Proof {
    error: AdditionError,
    /// Number of workers of a job.
    workers: u32,
    sums: Vec<[Expected; 2]>,
    /// Whether workers gave up a push for each sum, which may or may not contain it.
    given_up: Vec<bool>,
    /// Numbers of wrong parts by error.
    wrong: [u64; Wrong::COUNTERS.len()],
}

impl Proof {
    /// Creates the proof of this many concurrent sums of `workers` workers each, with this adder.
    pub(super) fn new(sums: usize, workers: u32, adder: &Adder) -> Self {
        let given_up = vec![false; sums];
        let sums = (0..sums).map(|_| Default::default()).collect();
        Proof { error: adder.error(), workers, sums, given_up, wrong: [0; Wrong::COUNTERS.len()] }
    }

    /// Records that a worker gave up a push for a switch.
    pub(super) fn give_up(&mut self, sum: usize) {
        self.given_up[sum] = true;
    }

    /// Records that a worker begins an iteration, with these pairs for a switch.
    pub(super) fn begin(&mut self, sum: usize, iteration: u32, pairs: &[(u32, f32)]) {
        let expected = &mut self.sums[sum][iteration as usize % 2];
        if expected.iteration != iteration {
            expected.cells.clear();
            (expected.iteration, expected.workers) = (iteration, 0);
        }
        expected.workers += 1;
        for (index, value) in pairs {
            let cell = expected.cells.entry(*index).or_default();
            cell.exact += f64::from(*value);
            cell.size += f64::from(value.abs());
            cell.members += 1;
        }
    }

    /// Returns whether this part of a sum is correct, and the sum complete if the part is a worker's last. Unknown for
    /// a finished iteration, whose results may arrive again, after a push was given up, and for sums beyond the range of the adder.
    pub(super) fn judge(
        &mut self,
        sum: usize,
        head: &ResultHead,
        pairs: impl Iterator<Item = (u32, f32)>,
        is_last: bool,
    ) -> SumOk {
        if self.given_up[sum] {
            return SumOk::Unknown;
        }
        let own = &mut self.sums[sum];
        let newest = own.iter().map(|one| one.iteration).max().unwrap_or(0);
        let expected = &mut own[head.iteration as usize % 2];
        if head.iteration < newest && expected.iteration != head.iteration {
            return SumOk::Unknown;
        }
        // No switch has the sums of an iteration before all workers have begun it.
        let begun = expected.iteration == head.iteration && expected.workers == self.workers;
        let wrong = match begun {
            false => Err(Wrong::Early),
            true => expected.wrong(head.part, pairs, is_last, &self.error),
        };
        match wrong {
            Ok(true) => SumOk::Yes,
            Ok(false) => SumOk::Unknown,
            Err(wrong) => {
                self.wrong[wrong as usize] += 1;
                SumOk::No
            }
        }
    }

    /// Returns nonzero numbers of wrong parts by error.
    pub(super) fn counters(&self) -> Vec<Counter> {
        let counts = Wrong::COUNTERS.iter().zip(self.wrong).filter(|(_, count)| *count > 0);
        counts.map(|(name, count)| Counter::sum(name, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;
    use proptest::prelude::*;

    use super::*;

    const HOT: u32 = 40;
    const PAIRS: usize = 16;

    fn head(iteration: u32, part: usize, parts: usize) -> ResultHead {
        ResultHead { part: part as u16, parts: parts as u16, iteration, opener: Some(PacketId::new(0, 0, 0)) }
    }

    /// Returns the registers as results of a switch.
    fn results(registers: &[f32]) -> Vec<Vec<(u32, f32)>> {
        let used: Vec<(u32, f32)> = (0..).zip(registers.iter().copied()).filter(|(_, value)| *value != 0.0).collect();
        used.chunks(PAIRS).map(<[_]>::to_vec).chain(used.is_empty().then(Vec::new)).collect()
    }

    fn judged(proof: &mut Proof, iteration: u32, parts: &[Vec<(u32, f32)>]) -> Vec<SumOk> {
        let one = |(at, part): (usize, &Vec<(u32, f32)>)| {
            proof.judge(0, &head(iteration, at, parts.len()), part.iter().copied(), at + 1 == parts.len())
        };
        parts.iter().enumerate().map(one).collect()
    }

    type Pairs = Vec<(u32, f32)>;
    /// Worker and pair.
    type Pushes = Vec<(usize, (u32, f32))>;

    /// Generates each worker's pairs, and an order of arrival of packets with one pair each.
    fn pushes() -> impl Strategy<Value = (Vec<Pairs>, Pushes)> {
        let value = prop_oneof![-1.0f32..1.0, -1e-6f32..1e-6];
        let own = prop::collection::btree_map(0..HOT, value, 1..30).prop_map(|pairs| pairs.into_iter().collect());
        prop::collection::vec(own, 1..9).prop_flat_map(|workers: Vec<Pairs>| {
            let all: Vec<_> = (0..).zip(&workers).flat_map(|(w, own)| own.iter().map(move |pair| (w, *pair))).collect();
            (Just(workers), Just(all).prop_shuffle())
        })
    }

    fn begun(workers: &[Vec<(u32, f32)>], adder: &Adder) -> Proof {
        let mut proof = Proof::new(1, workers.len() as u32, adder);
        workers.iter().for_each(|own| proof.begin(0, 7, own));
        proof
    }

    fn added(pushes: &[(usize, (u32, f32))], adder: &Adder) -> Vec<f32> {
        let mut registers = vec![0.0; HOT as usize];
        pushes.iter().for_each(|(_, pair)| adder.add_all(&mut registers, &[*pair]));
        registers
    }

    proptest! {
        /// The result of either adder in any order is accepted; a push that is added twice or not at all is detected.
        #[test]
        fn any_order_is_right_and_a_push_too_many_or_too_few_is_found((workers, order) in pushes(), pick in any::<prop::sample::Index>()) {
            for adder in [Adder::Exact, Adder::tables()] {
                let parts = results(&added(&order, &adder));
                let mut proof = begun(&workers, &adder);
                // Copies are as correct as the first arrival.
                for _ in 0..2 {
                    let all = judged(&mut proof, 7, &parts);
                    prop_assert!(all.iter().all(|one| *one == SumOk::Yes), "{all:?}");
                }
            }
            let (_, (index, value)) = *pick.get(&order);
            // The other pushes of the parameter must not hide it.
            let size: f32 = order.iter().filter(|(_, pair)| pair.0 == index).map(|(_, pair)| pair.1.abs()).sum();
            prop_assume!(value.abs() > 1e-4 * size);
            let twice: Vec<_> = order.iter().copied().chain([(0, (index, value))]).collect();
            let never: Vec<_> = order.iter().copied().filter(|(_, pair)| *pair != (index, value)).collect();
            for wrong in [twice, never] {
                let parts = results(&added(&wrong, &Adder::Exact));
                let all = judged(&mut begun(&workers, &Adder::Exact), 7, &parts);
                prop_assert!(all.contains(&SumOk::No), "{index} {value}: {all:?}");
            }
        }
    }

    /// Sums from 2¹⁷ on, where tables leave out what does not fit.
    #[test]
    fn sums_beyond_the_range_of_tables_are_unknown_and_values_of_one_worker_are_exact() {
        let workers = [vec![(1, 1e6), (2, 3e6), (3, 1.0)], vec![(1, 1e6), (3, 1.0)]];
        let of = |adder: &Adder, parts: &[Vec<(u32, f32)>]| judged(&mut begun(&workers, adder), 7, parts);
        let tables = |parts: &[Vec<(u32, f32)>]| of(&Adder::tables(), parts);
        let whole = |both: f32, single: f32, small: f32| vec![(1, both), (2, single), (3, small)];
        assert_eq!(tables(&[whole(2e6, 3e6, 2.0)]), [SumOk::Unknown]);
        assert_eq!(tables(&[whole(8e6, 3e6, 2.0)]), [SumOk::Unknown], "a wrong exponent");
        assert_eq!(tables(&[whole(2e6, 4e6, 2.0)]), [SumOk::No], "of one worker");
        assert_eq!(tables(&[whole(2e6, 3e6, 4.0)]), [SumOk::No], "within the range");
        assert_eq!(tables(&[vec![(2, 3e6)], vec![(3, 2.0)]]), [SumOk::Yes, SumOk::Unknown], "one may be missing");
        assert_eq!(of(&Adder::Exact, &[whole(2e6, 3e6, 2.0)]), [SumOk::Yes]);
        assert_eq!(of(&Adder::Exact, &[whole(8e6, 3e6, 2.0)]), [SumOk::No]);
    }

    #[test]
    fn what_is_missing_too_early_in_two_parts_or_of_nobody_is_wrong() {
        let workers = [vec![(1, 1.0), (2, 2.0)], vec![(2, 0.5), (3, -4.0)]];
        let proof = || begun(&workers, &Adder::Exact);
        let whole = [vec![(1, 1.0), (2, 2.5), (3, -4.0)]];
        let right = &whole[0];
        let verdict = |iteration, parts: &[Vec<(u32, f32)>]| judged(&mut proof(), iteration, parts);
        assert_eq!(verdict(7, &whole), [SumOk::Yes]);
        assert_eq!(verdict(7, &[right[..2].to_vec()]), [SumOk::No], "one is missing");
        assert_eq!(verdict(7, &[right[..2].to_vec(), right[1..].to_vec()]), [SumOk::Yes, SumOk::No], "in two parts");
        assert_eq!(verdict(7, &[[&right[..], &[(9, 1e-9)]].concat()]), [SumOk::No], "nobody pushed it");
        assert_eq!(verdict(7, &[[&right[..], &[(9, 0.0)]].concat()]), [SumOk::Yes], "a zero says nothing");
        assert_eq!(verdict(8, &whole), [SumOk::No], "nobody is there yet");
        assert_eq!(verdict(7, &[vec![(1, f32::NAN), (2, 2.5), (3, -4.0)]]), [SumOk::No]);
        let mut later = proof();
        workers.iter().for_each(|own| later.begin(0, 8, own));
        later.begin(0, 9, &workers[0]);
        assert_eq!(judged(&mut later, 7, &whole), [SumOk::Unknown], "long over");
        assert_eq!(judged(&mut later, 9, &whole), [SumOk::No], "one worker has not begun it");
        assert_eq!(judged(&mut later, 8, &whole), [SumOk::Yes]);
        assert_eq!(later.counters(), [Counter::sum("hot_sums_early", 1)]);
        later.give_up(0);
        assert_eq!(judged(&mut later, 8, &whole), [SumOk::Unknown], "what was given up may be in it or not");
        let mut wrong = proof();
        judged(&mut wrong, 7, &[vec![(1, 1.5)], vec![(9, 1.0)], vec![(1, 1.0)], Vec::new()]);
        let each = ["hot_sums_foreign", "hot_sums_repeated", "hot_sums_off", "hot_sums_incomplete"];
        assert_eq!(wrong.counters(), each.map(|name| Counter::sum(name, 1)));
    }
}
