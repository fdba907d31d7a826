//! Reinforcement-learning updates: heterogeneous workers in clusters, rewards, gradients.
//!
//! OLAF §2.1: a worker sends its gradients with the mean reward of the episode; §8.2: heterogeneity
//! stems from hardware and from how much experience each collects. Here the mean period of a
//! cluster, and of a worker within it, is log-normal; both spreads are parameters.

use std::collections::VecDeque;

use rand_distr::{Distribution, StandardNormal};

use super::background::frame_bytes;
use super::{Known, Source, Update, Workload};
use crate::config::{KeyTables, Section, above, settings};
use crate::gradient::GradientPool;
use crate::record::PacketId;
use crate::registry::Named;
use crate::schedule::{self, Pace, Timeline};
use crate::seed::{Seed, Stream};
use crate::time::Time;
use crate::topology::Population;
use crate::units::Size;
use crate::wire::update::{FRAME_MIN, elements_in};
use crate::{Error, Result, prefetch};

/// `kind = "rl"`.
pub(crate) struct Rl;

impl Named for Rl {
    fn name(&self) -> &'static str {
        "rl"
    }
    fn about(&self) -> &'static str {
        "reinforcement-learning updates: clusters of heterogeneous workers, rewards, f32 gradients"
    }
}

settings! {
    /// What it reads from `[workload]`.
    struct Settings {
        /// Clusters, each with a model.
        clusters: u16 = 9 in 1..=u16::MAX - 1;
        /// Workers per cluster.
        workers_per_cluster: u32 = 3 in 1..=PacketId::WORKERS_MAX - 1;
        /// Updates per worker.
        updates: u32 = 500 in 1..=u32::MAX;
        /// Frame size.
        bytes: Size = "2048bit";
    }
}

settings! {
    /// How workers differ in speed.
    pub(super) struct Spread {
        /// Standard deviation of the logarithm of a cluster's mean period.
        cluster_sigma: f64 = 0.0 in 0.0..=10.0;
        /// Standard deviation of the logarithm of a worker's mean period within its cluster.
        worker_sigma: f64 = 0.0 in 0.0..=10.0;
        /// Factors of the clusters' mean periods, one per cluster; empty: all 1.
        cluster_periods: Vec<f64> = [] in above(0.0);
    }
}

settings! {
    /// What is read of rewards; which depends on how they come about.
    keys Rewarded {
        /// Model of the rewards.
        reward: bool = "normal" of [("normal", false, "independent random rewards"), ("learning", true, "a noisy learning curve")];
        /// Standard deviation of the rewards.
        reward_deviation: f64 = 1.0 in 0.0..=1e30, "a deviation is not negative, and rewards are f32";
        /// Mean of independent draws.
        reward_mean: f64 = 0.0 in -1e30..=1e30, "rewards are f32";
        /// Reward at the start of the learning curve.
        reward_start: f64 = (-200.0) in -1e30..=1e30, "rewards are f32";
        /// Reward that the learning curve approaches.
        reward_end: f64 = 200.0 in -1e30..=1e30, "rewards are f32";
    }
}

impl Workload for Rl {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS, Spread::KEYS, Rewarded::KEYS]
    }

    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let mut source = Synthetic::read(section, schedule, seed)?;
        source.advance();
        Ok(Box::new(source))
    }
}

impl Synthetic {
    /// Reads its keys; the first update is not drawn yet.
    fn read(section: &mut Section, schedule_section: &mut Section, seed: Seed) -> Result<Self> {
        let Settings { clusters, workers_per_cluster: workers, updates, bytes } = Settings::read(section)?;
        let bytes = frame_bytes(section, "bytes", bytes, FRAME_MIN)?;
        let total = u64::from(clusters) * u64::from(workers);
        if total >= u64::from(PacketId::WORKERS_MAX) {
            return Err(Error::config(format!(
                "{}: {clusters} clusters of {workers} workers are {total} workers; there must be fewer than {}",
                section.place("clusters"),
                PacketId::WORKERS_MAX
            )));
        }
        let period = periods(section, clusters, workers, seed)?;
        let rewards = Rewards::read(section, updates, total as usize, seed)?;
        let pace = Pace { period, updates, update_bits: u64::from(bytes) * 8 };
        let timeline = schedule::open(schedule_section, "constant", &pace, seed)?;
        Ok(Synthetic {
            timeline,
            population: Population::regular(clusters, workers),
            rewards,
            lookahead: if total > WORKERS_CACHED { AHEAD } else { 0 },
            ahead: VecDeque::new(),
            pool: GradientPool::new(seed, elements_in(bytes as usize)),
            bytes,
            seq: vec![0; total as usize],
            head: None,
        })
    }
}

/// Relative mean period of each worker: log-normal over clusters, and over workers within one.
pub(super) fn periods(section: &mut Section, clusters: u16, workers: u32, seed: Seed) -> Result<Vec<f64>> {
    let Spread { cluster_sigma, worker_sigma, cluster_periods: factors } = Spread::read(section)?;
    if !factors.is_empty() && factors.len() != usize::from(clusters) {
        return Err(Error::config(format!(
            "{}: {} factors for {clusters} clusters; give none, or one per cluster",
            section.place("cluster_periods"),
            factors.len()
        )));
    }
    let mut periods = Vec::with_capacity(usize::from(clusters) * workers as usize);
    for cluster in 0..clusters {
        let draw = |sigma: f64, stream: &mut Stream| -> f64 {
            let normal: f64 = StandardNormal.sample(stream);
            (sigma * normal).exp()
        };
        let fixed = factors.get(usize::from(cluster)).copied().unwrap_or(1.0);
        let own = fixed * draw(cluster_sigma, &mut seed.stream("workload.cluster_period", cluster.into(), 0));
        for worker in 0..workers {
            let mut stream = seed.stream("workload.worker_period", cluster.into(), worker.into());
            periods.push(own * draw(worker_sigma, &mut stream));
        }
    }
    Ok(periods)
}

/// How rewards come about.
enum Rewards {
    /// Independent normal draws.
    Normal { mean: f64, deviation: f64, streams: Vec<Stream> },
    /// A learning curve from `start` towards `end`, with autoregressive noise.
    Learning { start: f64, end: f64, deviation: f64, noise: Vec<f64>, updates: u32, streams: Vec<Stream> },
}

impl Rewards {
    fn read(section: &mut Section, updates: u32, workers: usize, seed: Seed) -> Result<Self> {
        let (learning, deviation) = (Rewarded::reward(section)?, Rewarded::reward_deviation(section)?);
        let streams = (0..workers).map(|w| seed.stream("workload.reward", w as u64, 0)).collect();
        if !learning {
            return Ok(Rewards::Normal { mean: Rewarded::reward_mean(section)?, deviation, streams });
        }
        let (start, end) = (Rewarded::reward_start(section)?, Rewarded::reward_end(section)?);
        Ok(Rewards::Learning { start, end, deviation, noise: vec![0.0; workers], updates, streams })
    }

    fn draw(&mut self, worker: usize, seq: u32) -> f32 {
        match self {
            Rewards::Normal { mean, deviation, streams } => {
                let normal: f64 = StandardNormal.sample(&mut streams[worker]);
                (*mean + *deviation * normal) as f32
            }
            Rewards::Learning { start, end, deviation, noise, updates, streams } => {
                let normal: f64 = StandardNormal.sample(&mut streams[worker]);
                // Neighbouring episodes are alike: correlation 0.9, and from the first one on the deviation that was asked for.
                let next = 0.9 * noise[worker] + (1.0f64 - 0.81).sqrt() * normal;
                noise[worker] = if seq == 0 { normal } else { next };
                let progress = 1.0 - (-3.0 * f64::from(seq) / f64::from(*updates)).exp();
                (*start + (*end - *start) * progress + *deviation * noise[worker]) as f32
            }
        }
    }
}

/// Workers whose memory stays in the caches of a core, and updates that are drawn before they are due if there are more.
const WORKERS_CACHED: u64 = 16_384;
const AHEAD: usize = 8;

/// The synthetic source.
struct Synthetic {
    timeline: Box<dyn Timeline + Send>,
    population: Population,
    rewards: Rewards,
    pool: GradientPool,
    bytes: u32,
    seq: Vec<u32>,
    head: Option<Update>,
    /// Updates that are drawn before they are due.
    lookahead: usize,
    /// Those, later than `head`.
    ahead: VecDeque<(Time, u32)>,
}

impl Synthetic {
    /// Fetches what the next draw of a worker touches.
    fn fetch(&self, id: usize) {
        prefetch(&self.seq[id]);
        prefetch(&self.population.cluster_of[id]);
        let (Rewards::Normal { streams, .. } | Rewards::Learning { streams, .. }) = &self.rewards;
        prefetch(&streams[id]);
    }

    fn advance(&mut self) {
        let next = match self.lookahead {
            0 => self.timeline.next(),
            most => {
                while self.ahead.len() <= most
                    && let Some(next) = self.timeline.next()
                {
                    self.fetch(next.1 as usize);
                    self.ahead.push_back(next);
                }
                self.ahead.pop_front()
            }
        };
        self.head = next.map(|(t_gen, worker)| {
            let id = worker as usize;
            let seq = self.seq[id];
            self.seq[id] += 1;
            let cluster = self.population.cluster_of[id];
            let reward = Some(self.rewards.draw(id, seq));
            Update { t_gen, cluster, worker, seq, bytes: self.bytes, reward, iteration: None }
        });
    }
}

impl Source for Synthetic {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        Known::pulled(self.bytes)
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn ahead(&self, n: usize) -> Option<u32> {
        self.ahead.get(n).map(|(_, worker)| *worker)
    }

    fn take(&mut self, values: &mut [u8]) {
        if let Some(update) = self.head {
            self.pool.fill(update.worker, update.seq, values);
            self.advance();
        }
    }

    fn failure(&self) -> Option<&str> {
        self.timeline.failure().filter(|_| self.ahead.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(values: &[(&str, crate::config::Value)]) -> Result<Box<dyn Source>> {
        let mut schedule = Section::of("schedule", &[("offered", "60Gbps".into()), ("jitter", 0.3.into())]);
        Rl.open(&mut Section::of("workload", values), &mut schedule, Seed(5))
    }

    fn drain(mut source: Box<dyn Source>) -> Vec<Update> {
        let mut all = Vec::new();
        while let Some(update) = source.peek().copied() {
            all.push(update);
            source.take(&mut []);
        }
        all
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_their_key() {
        let refused = |key: &str, value: u32| source(&[(key, value.into())]).err().unwrap().to_string();
        assert_eq!(refused("clusters", 0), "workload.clusters: 0 is not from 1 to 65534");
        assert_eq!(refused("clusters", 65_535), "workload.clusters: 65535 is not from 1 to 65534");
        assert_eq!(refused("updates", 0), "workload.updates: 0 is not from 1 to 4294967295");
        assert_eq!(refused("workers_per_cluster", 0), "workload.workers_per_cluster: 0 is not from 1 to 16777215");
        let many = refused("workers_per_cluster", 16_777_215);
        assert!(
            many.starts_with("workload.clusters: 9 clusters of 16777215 workers are 150994935 workers; "),
            "{many}"
        );
    }

    #[test]
    fn a_factor_of_a_period_that_is_not_above_0_is_named() {
        let refused = |text: &str| {
            let text = format!("[workload]\nclusters = 2\ncluster_periods = {text}\n");
            let mut document = crate::config::Document::parse(&text, "x.toml").unwrap();
            let mut section = document.section("workload").unwrap();
            periods(&mut section, 2, 1, Seed(1)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let why = refused("[1.0, 0.0]");
        assert!(why.contains("workload.cluster_periods") && why.contains("0 is not above 0"), "{why}");
        assert!(refused("[1.0]").contains("1 factors for 2 clusters"));
        assert_eq!(refused("[1.0, 2.0]"), "");
    }

    /// What is drawn ahead changes nothing, and says who comes.
    #[test]
    fn large_populations_are_drawn_ahead() {
        let values = [("clusters", 30.into()), ("workers_per_cluster", 600.into()), ("updates", 3.into())];
        let made = |lookahead: usize| {
            let mut schedule = Section::of("schedule", &[("offered", "60Gbps".into()), ("jitter", 0.3.into())]);
            let mut source = Synthetic::read(&mut Section::of("workload", &values), &mut schedule, Seed(5)).unwrap();
            assert_eq!(std::mem::replace(&mut source.lookahead, lookahead), AHEAD);
            source.advance();
            source
        };
        let (one_by_one, mut source) = (drain(Box::new(made(0))), made(AHEAD));
        assert_eq!(one_by_one.len(), 54_000);
        for (i, update) in one_by_one.iter().enumerate() {
            assert_eq!(source.peek(), Some(update));
            for n in 0..AHEAD {
                assert_eq!(source.ahead(n), one_by_one.get(i + 1 + n).map(|update| update.worker));
            }
            source.take(&mut []);
        }
        assert!(source.peek().is_none());
    }

    #[test]
    fn every_worker_sends_its_updates_in_order() {
        let all = drain(source(&[("cluster_sigma", 1.1.into())]).unwrap());
        assert_eq!(all.len(), 27 * 500);
        assert!(all.is_sorted_by_key(|u| u.t_gen));
        for worker in 0..27u32 {
            let own: Vec<_> = all.iter().filter(|u| u.worker == worker).collect();
            assert!(own.iter().enumerate().all(|(i, u)| u.seq == i as u32 && u.cluster == (worker / 3) as u16));
        }
        let mean = all.iter().map(|u| f64::from(u.reward.unwrap())).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 0.05);
    }

    #[test]
    fn learning_raises_the_reward() {
        let all = drain(source(&[("reward", "learning".into()), ("reward_deviation", 5.0.into())]).unwrap());
        let mean = |pick: fn(&Update) -> bool| {
            let some: Vec<_> = all.iter().filter(|u| pick(u)).map(|u| f64::from(u.reward.unwrap())).collect();
            some.iter().sum::<f64>() / some.len() as f64
        };
        assert!(mean(|u| u.seq < 50) < -120.0 && mean(|u| u.seq > 450) > 160.0);
    }

    #[test]
    fn the_first_rewards_scatter_as_the_later_ones() {
        let values = [
            ("clusters", 1.into()),
            ("workers_per_cluster", 4000.into()),
            ("updates", 3.into()),
            ("reward", "learning".into()),
            ("reward_start", 0.0.into()),
            ("reward_end", 0.0.into()),
            ("reward_deviation", 5.0.into()),
        ];
        let all = drain(source(&values).unwrap());
        for seq in 0..3 {
            let own: Vec<_> = all.iter().filter(|u| u.seq == seq).map(|u| f64::from(u.reward.unwrap())).collect();
            let deviation = (own.iter().map(|reward| reward * reward).sum::<f64>() / own.len() as f64).sqrt();
            assert!(own.len() == 4000 && (deviation - 5.0).abs() < 0.25, "{seq}: {deviation}");
        }
    }

    #[test]
    fn bad_values_are_named() {
        for (key, value, part) in [
            ("clusters", crate::config::Value::Integer(0), "from 1 to 65534"),
            ("bytes", "75B".into(), "from 76 B"),
            ("bytes", "2049bit".into(), "whole bytes"),
            ("bytes", "10kB".into(), "to 9036 B"),
            ("reward", "normall".into(), "did you mean \"normal\""),
            ("cluster_sigma", (-1.0).into(), "from 0 to 10"),
        ] {
            let message = source(&[(key, value)]).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
