//! The sparse models that LIBRA measures with, by what is known of them.
//!
//! LIBRA §3.1 and §5.2 state sizes and shares of two industrial models and how many hot parameters each of five has. The
//! rest is our choice and said to be. Called by the workload `sparse` and by studies.

use super::curve::Curve;
use super::fit::{STEP, THRESHOLD, any};
use crate::registry::Named;

/// A sparse model.
#[derive(Debug)]
pub struct SparseModel {
    name: &'static str,
    about: &'static str,
    /// What it is; none if the experiment gives all of it.
    facts: Option<ModelFacts>,
}

/// What is known of a model, and what we choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelFacts {
    /// Parameters.
    pub parameters: u64,
    /// Hot parameters.
    pub hot: u32,
    /// Share of the updates that they get.
    pub hot_share: f64,
    /// Pairs that a worker sends per iteration by default: our choice, as far below the limit as it says in
    /// `docs/sparse.md`.
    pub pairs: u32,
}

impl Named for SparseModel {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        self.about
    }
}

impl SparseModel {
    /// What is known of it; none of a custom model, which the experiment describes.
    pub fn facts(&self) -> Option<ModelFacts> {
        self.facts
    }
}

impl ModelFacts {
    /// The curve of these facts: the law that [`fit`](super::fit) finds.
    pub fn curve(&self) -> Result<Curve, String> {
        any(self.parameters, self.hot.into(), self.hot_share, STEP, THRESHOLD)
    }
}

const fn facts(parameters: u64, hot: u32, hot_share: f64, pairs: u32) -> Option<ModelFacts> {
    Some(ModelFacts { parameters, hot, hot_share, pairs })
}

/// Every model, by name. Sizes and shares of the first two: LIBRA §3.1. Hot counts: §5.2. NCF's size: §2.2 (680 MB of
/// gradients of 4 bytes); the sizes of DeepLight and LSTM are those of the OmniReduce benchmarks, 2.26 GB and 1.5 GB.
/// Shares of the last three: our choice, above the 1 % per thousand that the rule of §5.3 demands of them.
pub static MODELS: &[&SparseModel] = &[
    &SparseModel {
        name: "oa",
        about: "online advertising: 150 M parameters, 30,000 hot ones get 50 % of the updates",
        facts: facts(150_000_000, 30_000, 0.5, 30_000),
    },
    &SparseModel {
        name: "se",
        about: "search engine: 9 M parameters, 30,000 hot ones get 70 % of the updates",
        facts: facts(9_000_000, 30_000, 0.7, 15_000),
    },
    &SparseModel {
        name: "deeplight",
        about: "DeepLight: 565 M parameters, 40,000 hot ones (share: our choice)",
        facts: facts(565_000_000, 40_000, 0.55, 25_000),
    },
    &SparseModel {
        name: "lstm",
        about: "LSTM: 375 M parameters, 60,000 hot ones (share: our choice)",
        facts: facts(375_000_000, 60_000, 0.77, 30_000),
    },
    &SparseModel {
        name: "ncf",
        about: "NCF: 170 M parameters, 60,000 hot ones (share: our choice)",
        facts: facts(170_000_000, 60_000, 0.77, 30_000),
    },
    &SparseModel { name: "custom", about: "what parameters, hot and hot_share of its section say", facts: None },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_says_is_said() {
        let known: Vec<_> = MODELS.iter().filter_map(|model| Some((model.name(), model.facts()?))).collect();
        let counts: Vec<_> = known.iter().map(|(name, facts)| (*name, facts.hot)).collect();
        // LIBRA §5.2.
        assert_eq!(counts, [("oa", 30_000), ("se", 30_000), ("deeplight", 40_000), ("lstm", 60_000), ("ncf", 60_000)]);
        // LIBRA §3.1 and §2.2.
        assert_eq!((known[0].1.parameters, known[0].1.hot_share), (150_000_000, 0.5));
        assert_eq!((known[1].1.parameters, known[1].1.hot_share), (9_000_000, 0.7));
        assert_eq!(known[4].1.parameters * 4, 680_000_000);
        assert!(known.iter().all(|(_, facts)| f64::from(facts.hot) * 1e-5 < facts.hot_share));
    }
}
