//! What a sparse workload is made of, and what of it cannot be.

use super::curve::Curve;
use super::models::MODELS;
use super::read::Shape;
use crate::registry::find;
use crate::time::{MS, Time};
use crate::training::check_compute;
use crate::{Error, Result};

/// Most jobs, and most workers of one: as of dense training.
pub(crate) const MEMBERS_MAX: u16 = 255;
/// Most pairs of a batch: those of a second of 100 Gbps, many times over; a batch is in memory as a whole.
pub const PAIRS_MAX: u32 = 50_000_000;
/// Most hot parameters: all memory that LIBRA §3.3 gives a switch.
pub(crate) const HOT_MAX: u32 = 5_000_000;
/// Most parameters: keys of dense ones have the top bit.
pub(crate) const PARAMETERS_MAX: u64 = 1 << 62;
/// Dense pairs per sparse pair by default: 0.4 MB beside 104 MB (LIBRA §2.2, NCF).
pub(crate) const DENSE_SHARE: f64 = 0.004;

/// How hot parameters become known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HotFrom {
    /// They are those that are updated most often.
    Exact,
    /// A training with a sample of the data is counted (LIBRA §3.3).
    Sample,
}

/// What a sparse workload is made of. Everything is after scaling. The default is online advertising (LIBRA §3.1) on
/// eight workers for 100 iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct SparsePlan {
    /// Name of the model.
    pub model: String,
    /// Sparse parameters: the ranks of the curve.
    pub parameters: u64,
    /// Sparse pairs of a batch, in the mean.
    pub pairs: u32,
    /// Dense parameters, which every batch has.
    pub dense: u32,
    /// Jobs.
    pub jobs: u16,
    /// Workers of each job.
    pub workers_per_job: u32,
    /// Iterations.
    pub iterations: u32,
    /// Time of one iteration's computation.
    pub compute: Time,
    /// Share by which it varies, up and down.
    pub compute_jitter: f64,
    /// Hot parameters, dense ones among them.
    pub hot: u32,
    /// How they become known.
    pub hot_from: HotFrom,
    /// Share of the data set that is trained with to find them.
    pub sample_rate: f64,
    /// Updates of a training with the whole data set, of all parameters.
    pub training_updates: f64,
    /// How often which sparse parameter is updated.
    pub curve: Curve,
}

impl SparsePlan {
    /// A model as it is known, `scale` times as large.
    pub fn of(model: &str, scale: f64) -> Result<Self> {
        let model = find(MODELS, "model", model, "workload.model")?;
        let Some(facts) = model.facts() else {
            return Err(Error::config(
                "workload.model = \"custom\" requires workload.parameters, workload.hot and workload.hot_share"
                    .to_owned(),
            ));
        };
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(Error::config(format!("workload.scale: {scale} is not above 0 and at most 1")));
        }
        let curve = facts.curve().map_err(|why| Error::config(format!("workload.curve: {why}")))?;
        let model = crate::registry::Named::name(model).to_owned();
        let plan = SparsePlan::of_shape(Shape { model, hot: facts.hot, hot_is_told: false, pairs: facts.pairs, curve });
        Ok(if scale < 1.0 { plan.scaled(scale) } else { plan })
    }

    /// The parameters of a model, and defaults for everything else.
    pub(crate) fn of_shape(shape: Shape) -> Self {
        SparsePlan {
            model: shape.model,
            parameters: shape.curve.ranks(),
            pairs: shape.pairs,
            dense: (f64::from(shape.pairs) * DENSE_SHARE).round() as u32,
            jobs: 1,
            workers_per_job: 8,
            iterations: 100,
            compute: 100 * MS,
            compute_jitter: 0.0,
            hot: shape.hot,
            hot_from: HotFrom::Exact,
            sample_rate: 0.08,
            training_updates: 1e8,
            curve: shape.curve,
        }
    }

    /// The same shape, `scale` times as large: parameters, pairs, dense and hot ones, the curve's ranks, and the updates of a training, so
    /// that a sample counts each parameter as often.
    pub fn scaled(self, scale: f64) -> Self {
        let times = |n: u32| (f64::from(n) * scale).round() as u32;
        let curve = self.curve.scaled(scale);
        SparsePlan {
            parameters: curve.ranks(),
            pairs: times(self.pairs).max(1),
            dense: times(self.dense),
            hot: times(self.hot).max(1),
            training_updates: (self.training_updates * scale).max(1.0),
            curve,
            ..self
        }
    }

    /// Most pairs of a batch: the most frequent parameter is in every one.
    pub(crate) fn pairs_limit(&self) -> u64 {
        (1.0 / self.curve.frequency(0) * (1.0 + 1e-9)) as u64
    }

    /// What is wrong with it: the key of `[workload]` to change, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        within(&[
            ("jobs", self.jobs.into(), 1, MEMBERS_MAX.into()),
            ("workers", self.workers_per_job.into(), 1, MEMBERS_MAX.into()),
            ("iterations", self.iterations.into(), 1, u32::MAX.into()),
            ("pairs", self.pairs.into(), 1, PAIRS_MAX.into()),
            ("dense", self.dense.into(), 0, PAIRS_MAX.into()),
            ("hot", self.hot.into(), 1, HOT_MAX.into()),
            ("parameters", self.parameters, 1, PARAMETERS_MAX),
        ])?;
        if self.parameters != self.curve.ranks() {
            return Err((
                "parameters",
                format!("{} parameters, but a curve of {} ranks", self.parameters, self.curve.ranks()),
            ));
        }
        let sparse_hot = u64::from(self.hot - self.dense.min(self.hot));
        if sparse_hot > self.parameters {
            return Err((
                "hot",
                format!(
                    "{} hot parameters are more than the {} sparse and {} dense ones",
                    self.hot, self.parameters, self.dense
                ),
            ));
        }
        let most = self.pairs_limit();
        if u64::from(self.pairs) > most {
            return Err((
                "pairs",
                format!(
                    "{} pairs per batch: a worker sends a parameter at most once per iteration, and the most frequent \
                     one gets {:.3e} of all updates; so a batch has at most {most} pairs",
                    self.pairs,
                    self.curve.frequency(0)
                ),
            ));
        }
        check_jitter(self.compute_jitter)?;
        if !(self.sample_rate > 0.0 && self.sample_rate <= 1.0) {
            return Err(("sample_rate", format!("{} is not above 0 and at most 1", self.sample_rate)));
        }
        if !(1.0..=1e15).contains(&self.training_updates) {
            return Err(("training_updates", format!("{} is not from 1 to 1e15", self.training_updates)));
        }
        check_compute(self.compute, self.compute_jitter, self.iterations)
    }
}

/// Refuses the first value that is out of its range: key, value, least, most.
pub(super) fn within(values: &[(&'static str, u64, u64, u64)]) -> Result<(), (&'static str, String)> {
    match values.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
        Some((key, value, least, most)) => Err((key, format!("{value} is not from {least} to {most}"))),
        None => Ok(()),
    }
}

pub(super) fn check_jitter(jitter: f64) -> Result<(), (&'static str, String)> {
    if (0.0..=1.0).contains(&jitter) {
        return Ok(());
    }
    Err(("compute_jitter", format!("{jitter} is not from 0 to 1")))
}

#[cfg(test)]
mod tests {
    use super::super::Sparse;
    use super::*;
    use crate::seed::Seed;
    use crate::time::HORIZON;

    #[test]
    fn models_are_plans_of_any_scale() {
        for model in MODELS.iter().filter(|model| model.facts().is_some()) {
            let name = crate::registry::Named::name(*model);
            for scale in [1.0, 0.1, 0.01, 0.001] {
                let plan = SparsePlan::of(name, scale).unwrap();
                plan.check().unwrap_or_else(|why| panic!("{name}, {scale}: {why:?}"));
                assert!(f64::from(plan.pairs) / plan.pairs_limit() as f64 > 0.3, "{name}, {scale}");
            }
            let plan = SparsePlan::of(name, 1.0).unwrap();
            let (hot, facts) = (u64::from(plan.hot), model.facts().unwrap());
            assert!((plan.curve.share(hot) - facts.hot_share).abs() < 1e-9, "{name}");
            assert_eq!(plan.curve.stop(1000, 0.01), hot, "{name}: the rule of §5.3 stops at its hot parameters");
            // k hot parameters are at most k pairs of a batch.
            let limit = plan.pairs_limit();
            assert!(limit as f64 <= hot as f64 / facts.hot_share);
        }
        assert!(
            SparsePlan::of("custom", 1.0).is_err()
                && SparsePlan::of("oa", 0.0).is_err()
                && SparsePlan::of("ao", 1.0).is_err()
        );
    }

    #[test]
    fn a_sample_counts_each_parameter_as_often_at_any_scale() {
        for model in MODELS.iter().filter(|model| model.facts().is_some()) {
            let name = crate::registry::Named::name(*model);
            let plan = SparsePlan::of(name, 1.0).unwrap();
            let counted = |plan: &SparsePlan| plan.training_updates * plan.curve.frequency(0);
            let mean =
                |plan: &SparsePlan| plan.training_updates * plan.curve.share(plan.hot.into()) / f64::from(plan.hot);
            let scaled = plan.clone().scaled(0.1);
            let (means, first) = (mean(&scaled) / mean(&plan), counted(&scaled) / counted(&plan));
            assert!((0.99..1.01).contains(&means), "{name}: {means}");
            assert!((0.99..1.01).contains(&first), "{name}: {first}");
        }
        assert_eq!(SparsePlan::of("oa", 1.0).unwrap().scaled(1e-12).training_updates, 1.0);
    }

    /// Makes a plan worse.
    type Change = fn(&mut SparsePlan);

    #[test]
    fn plans_that_cannot_be_are_refused() {
        let refused: [(&str, Change); 15] = [
            ("pairs: 60000", |p| p.pairs = 60_000),
            ("pairs: 26000000", |p| p.pairs = 26_000_000),
            ("pairs: 0", |p| p.pairs = 0),
            ("jobs: 0", |p| p.jobs = 0),
            ("jobs: 256", |p| p.jobs = 256),
            ("workers: 0", |p| p.workers_per_job = 0),
            ("workers: 256", |p| p.workers_per_job = 256),
            ("iterations: 0", |p| p.iterations = 0),
            ("hot: 0", |p| p.hot = 0),
            ("parameters: 7", |p| p.parameters = 7),
            ("compute_jitter: NaN", |p| p.compute_jitter = f64::NAN),
            ("sample_rate: 0", |p| p.sample_rate = 0.0),
            ("training_updates: inf", |p| p.training_updates = f64::INFINITY),
            ("26 days", |p| p.compute = HORIZON / 99),
            ("hot: 5000000", |p| {
                (p.curve, p.parameters, p.pairs, p.hot) = (Curve::zipf(9, 0.0).unwrap(), 9, 9, 5_000_000)
            }),
        ];
        for (part, change) in refused {
            let mut plan = SparsePlan::of("oa", 1.0).unwrap();
            change(&mut plan);
            let message = Sparse::new(plan, Seed(1)).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("workload."), "{part}: {message}");
        }
        let mut plan = SparsePlan::of("oa", 1.0).unwrap();
        plan.pairs = plan.pairs_limit() as u32;
        assert_eq!(plan.check(), Ok(()));
        plan.pairs += 1;
        let (key, why) = plan.check().unwrap_err();
        assert!(key == "pairs" && why.contains(&plan.pairs_limit().to_string()), "{why}");
    }
}
