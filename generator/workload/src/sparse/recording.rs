//! Pairs of key and gradient as traces have them: what each worker sent in each iteration, and how often which parameter was
//! updated (counted, as LIBRA §3.1 and §3.3 do, not drawn). The workload `sparse` fills a [`Recording`] row by row; hot and
//! cold pairs apart it becomes [`Pushes`], out of which batches are copied.

use super::batch::Batch;
use super::hot::{HotOrder, UpdateCounts};
use super::plan::{HOT_MAX, MEMBERS_MAX, PARAMETERS_MAX, check_jitter, within};
use crate::time::Time;
use crate::training::check_compute;

/// Most pairs that a run holds in memory, at 16 bytes each: a gibibyte. Batches are asked for in any order, and again.
pub(crate) const PAIRS_HELD: u64 = 1 << 26;

/// Rows of one worker that follow each other and have one number, in the file that is read.
#[derive(Debug)]
struct Part {
    /// The number of the iteration, if the rows have one.
    number: Option<u32>,
    /// Where its pairs begin.
    from: usize,
    /// The first row.
    row: u64,
}

/// What one worker sent.
#[derive(Debug, Default)]
struct Log {
    /// Of each iteration by key; of the file that is read as they came.
    pairs: Vec<(u64, f32)>,
    /// Where each iteration begins.
    starts: Vec<usize>,
    /// What the file that is read has.
    parts: Vec<Part>,
}

impl Log {
    fn iterations(&self) -> impl Iterator<Item = &[(u64, f32)]> {
        let ends = self.starts.iter().skip(1).copied().chain([self.pairs.len()]);
        self.starts.iter().zip(ends).map(|(from, to)| &self.pairs[*from..to])
    }

    /// Makes `iterations` of the parts of a file: `place` says to which one a part belongs, by its number or its rank.
    fn close(&mut self, iterations: usize, place: impl Fn(&Part, usize) -> usize) -> Result<(), String> {
        let parts = std::mem::take(&mut self.parts);
        let begin = parts.first().map_or(self.pairs.len(), |part| part.from);
        let ends = parts.iter().skip(1).map(|part| part.from).chain([self.pairs.len()]);
        let mut placed: Vec<(usize, std::ops::Range<usize>, u64)> = parts
            .iter()
            .zip(ends)
            .enumerate()
            .map(|(rank, (part, to))| (place(part, rank), part.from - begin..to - begin, part.row))
            .collect();
        if !placed.is_sorted_by_key(|(place, ..)| *place) {
            placed.sort_by_key(|(place, ..)| *place);
            let came = self.pairs.split_off(begin);
            let mut to = 0;
            for (_, range, _) in &mut placed {
                self.pairs.extend_from_slice(&came[range.clone()]);
                *range = to..to + range.len();
                to = range.end;
            }
        }
        let mut rest = placed.as_slice();
        let mut from = begin;
        for iteration in 0..iterations {
            let own = rest.iter().take_while(|(place, ..)| *place == iteration).count();
            let to = rest[..own].last().map_or(from, |(_, range, _)| begin + range.end);
            self.starts.push(from);
            let pairs = &mut self.pairs[from..to];
            pairs.sort_unstable_by_key(|(key, _)| *key);
            if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(format!(
                    "row {}: column \"keys\": key {} is twice in this iteration of its worker; a parameter is sent at most once per \
                     iteration: add its values up where the trace is made",
                    rest[0].2, twice[0].0
                ));
            }
            (from, rest) = (to, &rest[own..]);
        }
        Ok(())
    }
}

/// What the workers of traces sent, in the order of their iterations. Workers of a job have the same iterations.
#[derive(Debug)]
pub struct Recording {
    workers: Vec<Log>,
    workers_per_job: usize,
}

/// How often parameters were updated.
pub struct Counted {
    /// Keys of those that were, in order.
    pub keys: Vec<u64>,
    /// By place in `keys`.
    pub counts: UpdateCounts,
}

impl Counted {
    /// Keys of the `k` most updated, the most updated first; all if there are fewer.
    pub fn hottest(&self, k: usize) -> Vec<u64> {
        self.counts.order(u64::MAX).iter().take(k).map(|place| self.keys[*place as usize]).collect()
    }
}

impl Recording {
    /// Of so many jobs of so many workers each, nothing yet.
    pub fn new(jobs: u16, workers_per_job: u32) -> Self {
        let workers = usize::from(jobs) * workers_per_job as usize;
        Recording {
            workers: (0..workers).map(|_| Log::default()).collect(),
            workers_per_job: (workers_per_job as usize).max(1),
        }
    }

    /// Takes the pairs of an update of `worker`, which is in `row` of its file. Updates of a worker with one number are of the same
    /// iteration; one without a number is an iteration of its own.
    pub fn push(
        &mut self,
        row: u64,
        worker: u32,
        number: Option<u32>,
        keys: &[u64],
        values: &[f32],
    ) -> Result<(), String> {
        let Some(own) = self.workers.get_mut(worker as usize).filter(|_| keys.len() == values.len()) else {
            return Err(format!("row {row}: the trace was changed while it was read"));
        };
        if number.is_none() || own.parts.last().is_none_or(|part| part.number != number) {
            own.parts.push(Part { number, from: own.pairs.len(), row });
        }
        own.pairs.extend(keys.iter().copied().zip(values.iter().copied()));
        Ok(())
    }

    /// A file is over, and with it its iterations: a job has those that any of its workers has, in the order of their numbers. A worker
    /// that has none of a number sends nothing in that one.
    pub(crate) fn end_file(&mut self) -> Result<(), String> {
        for job in self.workers.chunks_mut(self.workers_per_job) {
            let parts = || job.iter().flat_map(|log| &log.parts);
            let mut numbers: Vec<u32> = parts().filter_map(|part| part.number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            if let (false, Some(part)) = (numbers.is_empty(), parts().find(|part| part.number.is_none())) {
                return Err(format!(
                    "row {}: column \"iteration\" has no number, but other rows of this job have; number all rows of a job or none",
                    part.row
                ));
            }
            let most = job.iter().map(|log| log.parts.len()).max().unwrap_or(0);
            for log in job {
                match numbers.is_empty() {
                    true => log.close(most, |_, rank| rank)?,
                    false => {
                        let place =
                            |part: &Part, rank| part.number.map_or(rank, |of| numbers.partition_point(|n| *n < of));
                        log.close(numbers.len(), place)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Iterations of the job with most of them.
    pub fn iterations(&self) -> usize {
        self.workers.iter().map(|log| log.starts.len()).max().unwrap_or(0)
    }

    /// One more than the largest key; 0 if there is none.
    pub(crate) fn keys_end(&self) -> u64 {
        let keys = self.workers.iter().flat_map(|log| &log.pairs).map(|(key, _)| key.saturating_add(1));
        keys.max().unwrap_or(0)
    }

    /// Pairs of an iteration, in the mean.
    fn mean(&self) -> f64 {
        let of = |count: fn(&Log) -> usize| self.workers.iter().map(count).sum::<usize>() as f64;
        of(|log| log.pairs.len()) / of(|log| log.starts.len()).max(1.0)
    }

    /// Counts updates in a part of each worker's iterations, spread evenly; in all with 1.
    pub fn count(&self, part: f64) -> Counted {
        // 0.29 of 100 are 29, whatever the product is rounded to.
        let of = |iterations: usize| (iterations as f64 * part + 1e-9).floor();
        let counts = |i: usize| of(i + 1) > of(i);
        let counted = |log| Log::iterations(log).enumerate().filter(|(i, _)| counts(*i)).flat_map(|(_, pairs)| pairs);
        let mut all: Vec<u64> = self.workers.iter().flat_map(counted).map(|(key, _)| *key).collect();
        all.sort_unstable();
        let runs = all.chunk_by(|a, b| a == b);
        let (keys, first) = runs.map(|run| (run[0], run.len() as u64)).unzip();
        Counted { keys, counts: UpdateCounts { first, total: all.len() as u64, ..UpdateCounts::default() } }
    }

    /// Hot pairs by index and cold ones by key.
    fn split(self, order: &HotOrder) -> Pushes {
        let one = |log: Log| {
            let mut own = Own { ends: vec![[0; 2]], ..Own::default() };
            for pairs in log.iterations() {
                let from = own.hot.len();
                for (key, value) in pairs {
                    match order.index_of(*key) {
                        Some(index) => own.hot.push((index, *value)),
                        None => own.cold.push((*key, *value)),
                    }
                }
                own.hot[from..].sort_unstable_by_key(|(index, _)| *index);
                own.ends.push([own.hot.len(), own.cold.len()]);
            }
            own
        };
        Pushes { workers: self.workers.into_iter().map(one).collect() }
    }
}

/// What one worker sends.
#[derive(Debug, Default)]
struct Own {
    hot: Vec<(u32, f32)>,
    cold: Vec<(u64, f32)>,
    /// Where hot and cold pairs of each iteration end, from 0.
    ends: Vec<[usize; 2]>,
}

/// What all workers send, iteration by iteration, and then again from the first one on.
#[derive(Debug)]
pub(super) struct Pushes {
    workers: Vec<Own>,
}

impl Pushes {
    /// The pairs of `worker` in `iteration`.
    pub(super) fn batch(&self, worker: u32, iteration: u32, into: &mut Batch) {
        into.hot.clear();
        into.cold.clear();
        let Some(own) = self.workers.get(worker as usize).filter(|own| own.ends.len() > 1) else { return };
        let at = iteration as usize % (own.ends.len() - 1);
        let ([hot, cold], [hot_end, cold_end]) = (own.ends[at], own.ends[at + 1]);
        into.hot.extend_from_slice(&own.hot[hot..hot_end]);
        into.cold.extend_from_slice(&own.cold[cold..cold_end]);
    }
}

/// A workload of recorded pairs: what [`SparsePlan`](super::Plan) says of one that is drawn.
#[derive(Debug)]
pub struct Replay {
    /// Name of the model.
    pub model: String,
    /// Parameters; keys are below.
    pub parameters: u64,
    /// Jobs, each with its own workers of the recording.
    pub jobs: u16,
    /// Workers of each job.
    pub workers_per_job: u32,
    /// Iterations; recorded ones repeat.
    pub iterations: u32,
    /// Time of one iteration's computation.
    pub compute: Time,
    /// Share by which it varies, up and down.
    pub compute_jitter: f64,
    /// Keys of the hot parameters, in the order of their indices.
    pub hot: Vec<u64>,
    /// What was sent.
    pub recording: Recording,
}

impl Replay {
    /// What is wrong with it: the key of `[workload]` to change, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        within(&[
            ("jobs", self.jobs.into(), 1, MEMBERS_MAX.into()),
            ("workers", self.workers_per_job.into(), 1, MEMBERS_MAX.into()),
            ("iterations", self.iterations.into(), 1, u32::MAX.into()),
            ("hot", self.hot.len() as u64, 1, HOT_MAX.into()),
            ("parameters", self.parameters, self.recording.keys_end().max(1), PARAMETERS_MAX),
        ])?;
        check_jitter(self.compute_jitter)?;
        check_compute(self.compute, self.compute_jitter, self.iterations)
    }

    /// Pairs of a batch in the mean, which hot parameters there are, and what is sent.
    pub(super) fn split(self) -> (u32, HotOrder, Pushes) {
        let (pairs, order) = (self.recording.mean().round() as u32, HotOrder::identified(self.hot));
        let pushes = self.recording.split(&order);
        (pairs, order, pushes)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    /// Two jobs of a worker: the first has three iterations, the second of them in two rows; the second has rows without numbers.
    fn recording() -> Recording {
        let mut recording = Recording::new(2, 1);
        for (row, worker, number, keys) in [
            (0, 0, Some(0), &[5, 2][..]),
            (1, 1, None, &[2]),
            (2, 0, Some(15), &[9]),
            (3, 1, None, &[]),
            (4, 0, Some(15), &[2, 5]),
            (5, 0, Some(30), &[2, 7]),
        ] {
            let values: Vec<f32> = keys.iter().map(|key| *key as f32 + row as f32 / 16.0).collect();
            recording.push(row, worker, number, keys, &values).unwrap();
        }
        recording.end_file().unwrap();
        recording
    }

    #[test]
    fn iterations_are_what_rows_say() {
        let recording = recording();
        assert_eq!((recording.iterations(), recording.keys_end(), recording.mean()), (3, 10, 8.0 / 5.0));
        let Counted { keys, counts } = recording.count(1.0);
        assert_eq!((keys, counts.first, counts.total), (vec![2, 5, 7, 9], vec![4, 2, 1, 1], 8));
        // The second of two, and of three.
        let Counted { keys, counts } = recording.count(0.5);
        assert_eq!((keys, counts.first), (vec![2, 5, 9], vec![1, 1, 1]));
        assert_eq!(recording.count(1.0).hottest(2), [2, 5]);
        assert_eq!(recording.count(1.0).hottest(99).len(), 4);
        let pushes = recording.split(&HotOrder::identified(vec![7, 2]));
        let mut batch = Batch::default();
        let mut of = |worker, iteration| {
            pushes.batch(worker, iteration, &mut batch);
            batch.clone()
        };
        assert_eq!(of(0, 0), Batch { hot: vec![(1, 2.0)], cold: vec![(5, 5.0)] });
        assert_eq!(of(0, 1), Batch { hot: vec![(1, 2.25)], cold: vec![(5, 5.25), (9, 9.125)] });
        assert_eq!(of(0, 2), Batch { hot: vec![(0, 7.3125), (1, 2.3125)], cold: vec![] });
        assert_eq!((of(0, 3), of(0, 7)), (of(0, 0), of(0, 1)), "they repeat");
        assert_eq!(of(1, 0), Batch { hot: vec![(1, 2.0625)], cold: vec![] });
        assert_eq!((of(1, 1), of(2, 0)), (Batch::default(), Batch::default()));
    }

    #[test]
    fn a_key_is_in_an_iteration_once_and_files_end_iterations() {
        let mut recording = Recording::new(1, 1);
        recording.push(0, 0, Some(1), &[3], &[1.0]).unwrap();
        recording.push(1, 0, Some(1), &[3], &[1.0]).unwrap();
        let refused = recording.end_file().unwrap_err();
        assert!(refused.contains("row 0") && refused.contains("key 3"), "{refused}");
        let mut recording = Recording::new(1, 1);
        for row in 0..2 {
            recording.push(row, 0, Some(1), &[3], &[1.0]).unwrap();
            recording.end_file().unwrap();
        }
        assert_eq!(recording.iterations(), 2);
        assert!(recording.push(2, 1, None, &[3], &[1.0]).is_err() && recording.push(2, 0, None, &[3], &[]).is_err());
    }

    /// What is sent is what a map of (worker, number) has, whatever rows are missing and in whichever order they come.
    #[test]
    fn iterations_of_a_job_have_their_numbers() {
        let mut stream = crate::seed::Seed(7).stream("recording", 0, 0);
        for _ in 0..200 {
            let mut naive = std::collections::BTreeMap::<(u32, u32), Vec<(u64, f32)>>::new();
            let mut recording = Recording::new(1, 3);
            for row in 0..12u64 {
                let (worker, number) = (stream.random_range(0..3u32), 4 * stream.random_range(0..5u32));
                let value = row as f32;
                recording.push(row, worker, Some(number), &[row], &[value]).unwrap();
                naive.entry((worker, number)).or_default().push((row, value));
            }
            recording.end_file().unwrap();
            let mut numbers: Vec<u32> = naive.keys().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(recording.iterations(), numbers.len());
            let pushes = recording.split(&HotOrder::identified(vec![99]));
            let mut batch = Batch::default();
            for (iteration, worker) in (0..2 * numbers.len()).flat_map(|i| (0..3).map(move |worker| (i, worker))) {
                pushes.batch(worker, iteration as u32, &mut batch);
                let expected = naive.get(&(worker, numbers[iteration % numbers.len()])).cloned().unwrap_or_default();
                assert_eq!(batch.cold, expected, "worker {worker}, iteration {iteration}");
            }
        }
        // Some rows with numbers, some without: nobody can know which belong together.
        let mut recording = Recording::new(1, 2);
        recording.push(0, 0, Some(1), &[3], &[1.0]).unwrap();
        recording.push(1, 1, None, &[3], &[1.0]).unwrap();
        let refused = recording.end_file().unwrap_err();
        assert!(refused.contains("row 1") && refused.contains("\"iteration\""), "{refused}");
    }
}
