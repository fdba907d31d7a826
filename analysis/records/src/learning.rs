//! Rewards of updates, added up by tenths of workers' iterations and of time.
//!
//! Called by [`crate::pass`]; [`crate::metric`] has the definitions.

use std::collections::BTreeMap;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::Manifest;

use crate::columns::SentColumns;
use crate::fates::is_update;
use crate::places::Places;
use crate::stream::Streams;

/// Number of a worker's latest updates whose mean is its current reward.
const RECENT: usize = 10;

/// Results of the updates of a run.
#[derive(Debug, Clone)]
pub(crate) struct Learned {
    /// By tenth of the updates, the mean of each worker.
    pub(crate) tenths: [Vec<f64>; 10],
    /// By tenth of the time, the mean over workers.
    pub(crate) times: [Option<f64>; 10],
    /// When the goal was reached and after how many updates; the outer `None` means no goal.
    pub(crate) reached: Option<Option<(i64, f64)>>,
}

/// An update: its generation time, worker and reward.
type Generation = (i64, u32, f64);

/// Count and sum, in order.
type Sum = (u64, f64);

/// Updates of one worker.
#[derive(Debug, Default)]
struct Own {
    worker: u32,
    updates: usize,
    last: i64,
    /// Number of updates added up.
    added: usize,
    by_iteration: [Sum; 10],
    by_time: [Sum; 10],
}

/// Two passes: the first counts updates and finds the last generation time, the second adds up rewards by tenth. If updates of a worker
/// are not in the order of generation, or a goal requires the order of all updates, they are sorted in memory.
#[derive(Debug)]
pub(crate) struct Pass {
    goal: Option<f64>,
    places: Places,
    workers: Vec<Own>,
    ordered: bool,
    last: i64,
}

impl Pass {
    pub(crate) fn new(manifest: &Manifest) -> Pass {
        let goal = goal_of(manifest);
        Pass { goal, places: Places::default(), workers: Vec::new(), ordered: true, last: i64::MIN }
    }

    /// Performs the first pass.
    pub(crate) fn count(&mut self, sent: &SentColumns) {
        for (t, worker, _) in generations(sent) {
            let place = self.places.place(worker);
            if place == self.workers.len() {
                self.workers.push(Own { worker, last: i64::MIN, ..Own::default() });
            }
            let own = &mut self.workers[place];
            self.ordered &= own.last <= t;
            (own.updates, own.last) = (own.updates + 1, t);
            self.last = self.last.max(t);
        }
    }

    /// Performs the second pass; `None` if no update has a reward.
    pub(crate) fn finish(mut self, streams: &Streams) -> Result<Option<Learned>> {
        if self.workers.is_empty() {
            return Ok(None);
        }
        let mut seen: Vec<Generation> = Vec::new();
        let sorts = self.goal.is_some() || !self.ordered;
        streams.sent(&mut |sent, _| {
            match sorts {
                true => seen.extend(generations(sent)),
                false => generations(sent).for_each(|update| self.add(update)),
            }
            Ok(())
        })?;
        if sorts {
            seen.sort_by_key(|(t, worker, _)| (*t, *worker));
            seen.iter().for_each(|update| self.add(*update));
        }
        let reached = self.goal.map(|goal| reached(&seen, self.workers.len(), goal));
        self.workers.sort_unstable_by_key(|own| own.worker);
        let means = |of: fn(&Own) -> &[Sum; 10], tenth: usize| {
            self.workers
                .iter()
                .map(move |own| of(own)[tenth])
                .filter(|(count, _)| *count > 0)
                .map(|(count, sum)| sum / count as f64)
        };
        let tenths = std::array::from_fn(|tenth| means(|own| &own.by_iteration, tenth).collect());
        let times = std::array::from_fn(|tenth| mean(means(|own| &own.by_time, tenth)));
        Ok(Some(Learned { tenths, times, reached }))
    }

    fn add(&mut self, (t, worker, reward): Generation) {
        let Some(own) = self.places.get(worker).map(|place| &mut self.workers[place]) else { return };
        let (at, count) = (own.added, own.updates);
        own.added += 1;
        let add = |sum: &mut Sum| *sum = (sum.0 + 1, sum.1 + reward);
        // A tenth has the updates that end in it, or else the one that contains it: of fewer than 10, one may belong to several tenths.
        let in_tenth = |tenth: usize| {
            let (from, to) = (count * tenth / 10, count * (tenth + 1) / 10);
            (from..to.max(from + 1)).contains(&at)
        };
        let near = at * 10 / count;
        let tenths = if count < 20 { 0..10 } else { near..(near + 2).min(10) };
        tenths.filter(|tenth| in_tenth(*tenth)).for_each(|tenth| add(&mut own.by_iteration[tenth]));
        add(&mut own.by_time[(i128::from(t) * 10 / (i128::from(self.last).max(0) + 1)).clamp(0, 9) as usize]);
    }
}

/// Returns all updates with rewards, without retransmissions.
fn generations(sent: &SentColumns) -> impl Iterator<Item = Generation> + '_ {
    sent.reward.iter().enumerate().filter_map(|(row, reward)| {
        let counts = sent.attempt[row] == 0 && is_update(sent.cluster[row]);
        counts.then_some((sent.t_gen_ps[row], sent.worker[row], f64::from((*reward)?)))
    })
}

/// Returns the mean of the values in order; `None` without values.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

/// Returns when the goal was reached, and after how many updates per worker on average.
fn reached(seen: &[Generation], workers: usize, goal: f64) -> Option<(i64, f64)> {
    let mut recent = BTreeMap::<u32, Vec<f64>>::new();
    let (mut ready, mut sum) = (0, 0.0);
    for (number, (t, worker, reward)) in seen.iter().enumerate() {
        let own = recent.entry(*worker).or_default();
        own.push(*reward);
        let count = own.len();
        if count >= RECENT {
            ready += usize::from(count == RECENT);
            let window = |end: usize| own[end - RECENT..end].iter().sum::<f64>();
            sum += window(count) - if count > RECENT { window(count - 1) } else { 0.0 };
            if ready == workers && sum / (RECENT * workers) as f64 >= goal {
                return Some((*t, (number + 1) as f64 / workers as f64));
            }
        }
    }
    None
}

/// Returns the reward that the experiment defines as its goal.
fn goal_of(manifest: &Manifest) -> Option<f64> {
    // Most runs have none, so these are not parsed.
    if !manifest.config.contains("reward_goal") {
        return None;
    }
    let mut document = Document::parse(&manifest.config, "config").ok()?;
    document.section("workload").ok()?.get_opt("reward_goal").ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Records;
    use crate::testing::Story;

    fn learned(rows: &[(i64, u32, f32, u8)], goal: Option<f64>) -> Learned {
        let sent = SentColumns {
            t_gen_ps: rows.iter().map(|row| row.0).collect(),
            worker: rows.iter().map(|row| row.1).collect(),
            reward: rows.iter().map(|row| Some(row.2)).collect(),
            attempt: rows.iter().map(|row| row.3).collect(),
            cluster: vec![0; rows.len()],
            ..SentColumns::default()
        };
        let mut pass = Pass { goal, ..Pass::new(&Story::default().manifest()) };
        pass.count(&sent);
        let streams = Streams::from(Records { sent, ..Records::default() });
        pass.finish(&streams).unwrap().unwrap()
    }

    #[test]
    fn tenths_are_of_each_worker_and_repeated_attempts_do_not_count() {
        let mut rows: Vec<_> = (0..20).map(|i| (i * 10, 0, i as f32, 0)).collect();
        rows.extend((0..5).map(|i| (i * 50 + 1, 1, 100.0, 0)));
        rows.push((199, 0, 1e6, 1));
        for disorder in [false, true] {
            if disorder {
                rows.reverse();
            }
            let found = learned(&rows, None);
            assert_eq!(found.tenths[0], [0.5, 100.0]);
            assert_eq!(found.tenths[9], [18.5, 100.0]);
            // The last generation is at 201, so a tenth is 20.2.
            let times = found.times;
            assert_eq!((times[0], times[1], times[9]), (Some(50.5), Some(3.5), Some((19.0 + 100.0) / 2.0)));
            assert_eq!(found.reached, None);
        }
    }

    #[test]
    fn a_tenth_in_which_no_update_ends_has_the_one_that_contains_it() {
        for (count, expected) in [
            (1i32, [0i32; 10]),
            (3, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]),
            (5, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]),
            (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ] {
            let rows: Vec<_> = (0..count).map(|i| (i64::from(i), 0, i as f32, 0)).collect();
            let expected = expected.map(|update| vec![f64::from(update)]);
            assert_eq!(learned(&rows, None).tenths, expected, "{count} updates");
        }
    }

    #[test]
    fn a_goal_is_reached_when_the_mean_of_the_last_ten_of_all_is_there() {
        // Worker 0 is at 10 from the beginning, worker 1 rises by one each time: the mean of its last ten is n − 4.5.
        let rows: Vec<_> = (0..60).flat_map(|i| [(i * 10, 0, 10.0, 0), (i * 10 + 5, 1, i as f32, 0)]).collect();
        let reached = |goal: f64| learned(&rows, Some(goal)).reached.unwrap();
        // (10 + n − 4.5) / 2 ≥ 10 for n ≥ 15 (exactly 14.5).
        assert_eq!(reached(10.0), Some((155, 16.0)));
        assert_eq!(reached(6.0), Some((95, 10.0)), "not before all have ten");
        assert_eq!(reached(1000.0), None);
    }
}
