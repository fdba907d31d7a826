//! Random recorded pairs and the expected results, derived from the rows alone.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::seed::{Seed, Stream};
use pktgen_workload::trace::Writer;
use pktgen_workload::workload::Update;
use rand::RngExt;

use super::cases::Case;

/// By worker and recorded iteration: key and value.
pub type Rows = Vec<Vec<BTreeMap<u64, f32>>>;

/// Upper limit of the keys, exclusive.
const PARAMETERS: u64 = 600;

/// Returns random pairs: small keys are hot, a few values are exactly zero, and some iterations are empty.
fn pairs(stream: &mut Stream) -> BTreeMap<u64, f32> {
    let count = [0, 5, 40, 120][stream.random_range(0..4)];
    let one = |stream: &mut Stream| {
        let (a, b) = (stream.random_range(0..PARAMETERS), stream.random_range(1..=20u64));
        let value = if stream.random_range(0..9) == 0 { 0.0 } else { stream.random_range(-1.0..1.0f32) };
        (a / b, value)
    };
    (0..count).map(|_| one(stream)).collect()
}

/// Writes a trace for the workers of `case` into `folder`, and makes `case` replay it. Some iterations of a worker
/// consist of two rows, and in every iteration at least one worker has pairs.
pub fn record(case: &mut Case, folder: &Path) -> Rows {
    let stream = &mut Seed(case.number).stream("test.libra.recorded", 0, 0);
    let (workers, iterations) = (case.workers * case.jobs, stream.random_range(1..4));
    let (path, mut t_gen) = (folder.join(format!("{}.parquet", case.number)), 0);
    let mut writer = Writer::create(&path).expect("a trace");
    let (mut rows, mut next) = (vec![Vec::new(); workers as usize], vec![0; workers as usize]);
    for iteration in 0..iterations {
        for worker in 0..workers {
            let mut all = pairs(stream);
            if iteration == 0 || worker == 0 {
                all.insert(0, 0.5);
            }
            let (keys, values): (Vec<_>, Vec<_>) = all.iter().rev().unzip();
            let cut = if stream.random_range(0..3) == 0 { keys.len() / 2 } else { keys.len() };
            for part in [0..cut, cut..keys.len()].into_iter().take(1 + usize::from(cut < keys.len())) {
                let seq = next[worker as usize];
                next[worker as usize] += 1;
                let (cluster, iteration) = ((worker / case.workers) as u16, Some(15 * iteration));
                let update = Update { t_gen, cluster, worker, seq, bytes: 256, reward: None, iteration };
                writer.push_pairs(&update, &keys[part.clone()], &values[part]).expect("written");
                t_gen += 1;
            }
            rows[worker as usize].push(all);
        }
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").expect("a trace");
    case.workload = format!(
        "trace = \"{}\"\nparameters = {PARAMETERS}\nproportion = {}\nhot_from = \"{}\"\nsample_rate = 0.5\ncompute = \"2us\"\n",
        path.display(),
        [0.1, 0.5, 0.99][stream.random_range(0..3)],
        if iterations > 1 && stream.random_range(0..2) == 0 { "sample" } else { "exact" },
    );
    rows
}

/// Returns the pairs that `worker` sends in `iteration`.
pub fn sent(rows: &Rows, worker: u32, iteration: u32) -> &BTreeMap<u64, f32> {
    let own = &rows[worker as usize];
    &own[iteration as usize % own.len()]
}
