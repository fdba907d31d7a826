//! The correct sums, computed without order, registers or packets.

use std::collections::BTreeMap;

use pktgen_workload::sparse::shards::Partition;
use pktgen_workload::sparse::{Batch, Sparse};

use super::cases::Case;
use super::spy::{Seen, Values, counts};

/// Of one key: the sum, the sum of absolute values, and the number of contributions of each worker of the job.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    sum: f64,
    size: f64,
    counts: Vec<u32>,
}

/// By key or index.
pub type Sums = BTreeMap<u64, Expected>;

/// Returns the hot and cold pairs of a worker's iteration.
pub fn pairs(sparse: &Sparse, case: &Case, worker: u32, iteration: u32) -> [Values; 2] {
    let mut batch = Batch::default();
    sparse.batch(worker, iteration, &mut batch);
    let mut hot: Values = batch.hot.iter().map(|(index, value)| (u64::from(*index), *value)).collect();
    let mut cold = batch.cold;
    if !case.hot {
        let known = sparse.hot_of(sparse.job_of(worker));
        cold.extend(hot.drain(..).map(|(index, value)| (known.key_of(index as u32), value)));
    }
    cold.sort_by_key(|(key, _)| *key);
    [hot, cold]
}

/// Returns the sums of a job over these iterations, hot and cold.
pub fn sums(sparse: &Sparse, case: &Case, job: u32, iterations: impl Iterator<Item = u32> + Clone) -> [Sums; 2] {
    let mut sums = [Sums::new(), Sums::new()];
    for rank in 0..case.workers {
        for iteration in iterations.clone() {
            for (sums, pairs) in sums.iter_mut().zip(pairs(sparse, case, job * case.workers + rank, iteration)) {
                for (key, value) in pairs {
                    let sum = sums.entry(key).or_default();
                    sum.counts.resize(case.workers as usize, 0);
                    sum.sum += f64::from(value);
                    sum.size += f64::from(value.abs());
                    sum.counts[rank as usize] += 1;
                }
            }
        }
    }
    sums
}

/// Checks that `found` is the sum. With digits, every count must be right; otherwise a sum of floats may deviate by the
/// effect of its order.
fn check(found: f32, expected: &Expected, counting: bool, what: &str) {
    if counting {
        assert_eq!(counts(found, expected.counts.len() as u32), expected.counts, "{what}");
    } else {
        let off = (f64::from(found) - expected.sum).abs();
        assert!(off <= 1e-5 * expected.size, "{what}: {found} instead of {}", expected.sum);
    }
}

/// Checks every result that workers received, hot and cold.
pub fn check_results(seen: &Seen, sparse: &Sparse, case: &Case, counting: bool) {
    for job in 0..case.jobs {
        let racks = job as u8 * seen.racks..(job as u8 + 1) * seen.racks;
        let results: Vec<_> = racks.clone().map(|sums| seen.results_of(sums)).collect();
        let expected_results = if case.asynchronous { 1 } else { case.iterations };
        let each = if case.hot { expected_results } else { 0 };
        assert!(results.iter().all(|results| results.len() as u32 == each), "results of job {job}");
        for iteration in 0..expected_results {
            let all = if case.asynchronous { 0..case.iterations } else { iteration..iteration + 1 };
            let [hot, cold] = sums(sparse, case, job, all);
            if case.hot {
                let ranges =
                    racks.clone().zip(&results).map(|(sums, results)| (sums, results[iteration as usize].clone()));
                let values = |(sums, range): (u8, std::ops::Range<u32>)| {
                    range.flat_map(move |number| seen.parts[&(sums, number)].values.clone()).collect()
                };
                check_hot(ranges.map(values).collect(), &hot, counting);
            }
            if !case.asynchronous {
                check_cold(seen, case, (job, iteration), &cold, counting);
            }
        }
    }
}

fn check_hot(by_rack: Vec<Values>, expected: &Sums, counting: bool) {
    let in_order = by_rack.iter().all(|found| found.is_sorted_by(|a, b| a.0 < b.0));
    assert!(in_order, "each parameter once, by index");
    let count: usize = by_rack.iter().map(Vec::len).sum();
    let found: BTreeMap<_, _> = by_rack.into_iter().flatten().collect();
    assert_eq!(found.len(), count, "parameters of several racks");
    assert!(found.keys().all(|index| expected.contains_key(index)), "parameters that nobody updated");
    for (index, sum) in expected {
        check(found.get(index).copied().unwrap_or_default(), sum, counting, &format!("hot {index}"));
    }
}

/// Checks that every push to the server is answered with the sums of its keys.
fn check_cold(seen: &Seen, case: &Case, (job, iteration): (u32, u32), expected: &Sums, counting: bool) {
    let first = job * case.workers;
    for (place, (of, pushed)) in seen.pushes.range((first, 0)..(first + case.workers, 0)) {
        if place.1 & 1 == 0 || *of != iteration {
            continue;
        }
        let answer = &seen.answers[place];
        assert!(answer.iter().map(|(key, _)| key).eq(pushed.iter().map(|(key, _)| key)), "{place:?}: other keys");
        for (key, value) in answer {
            check(*value, &expected[key], counting, &format!("cold {key:x} for {place:?}"));
        }
    }
}

/// Checks that a pull contains exactly what its worker pushed before, and of the others no more than they ever push.
pub fn check_pulls(seen: &Seen, sparse: &Sparse, case: &Case) {
    for ((worker, seq), (iteration, answer)) in &seen.pulls {
        let heat = (seq & 1) as usize;
        let job = worker / case.workers;
        let (before, ever) = (sums(sparse, case, job, 0..*iteration), sums(sparse, case, job, 0..case.iterations));
        for (key, value) in answer.as_ref().expect("every pull was answered") {
            let rank = (worker % case.workers) as usize;
            let found = counts(*value, case.workers);
            let own = before[heat].get(key).map_or(0, |sum| sum.counts[rank]);
            assert_eq!(found[rank], own, "key {key:x} of worker {worker} in {iteration}");
            assert!(
                found.iter().zip(&ever[heat][key].counts).all(|(found, ever)| found <= ever),
                "key {key:x}: {found:?}"
            );
        }
    }
}

/// Checks that workers pushed the pairs they computed, each once.
pub fn check_pushes(seen: &Seen, sparse: &Sparse, case: &Case) {
    for worker in 0..case.workers * case.jobs {
        for iteration in 0..case.iterations {
            let mut found = [Values::new(), Values::new()];
            for ((_, seq), (of, values)) in seen.pushes.range((worker, 0)..(worker + 1, 0)) {
                if *of == iteration {
                    found[(seq & 1) as usize].extend(values);
                }
            }
            found.iter_mut().for_each(|values| values.sort_by_key(|(key, _)| *key));
            assert!(found == pairs(sparse, case, worker, iteration), "pushes of {worker} in {iteration}");
        }
    }
}

/// Checks that each parameter of a job goes to one server, or to the switch in the rack of that server, whichever worker pushes it.
pub fn check_division(seen: &Seen, sparse: &Sparse, case: &Case, rack_of: &[u16]) {
    let partition = if case.endpoint.contains("ranges") { Partition::Ranges } else { Partition::Hash };
    let server = |key| partition.server_of(key, rack_of.len() as u32);
    for ((worker, seq), (_, values)) in &seen.pushes {
        let (receiver, known) = ((seq >> 1) % rack_of.len() as u32, sparse.hot_of(sparse.job_of(*worker)));
        for (at, _) in values {
            let own =
                if seq & 1 == 1 { server(*at) } else { rack_of[server(known.key_of(*at as u32)) as usize].into() };
            assert_eq!(receiver, own, "{at} of {worker}, {seq}");
        }
    }
}
