//! The share of a source that one of several senders replays.
//!
//! Updates are dealt by worker: worker w belongs to share w mod n + 1 of n, so that what a worker knows is never split,
//! whatever cluster it moves to. Everything else is the whole source's: times, sequence numbers, rewards, gradients.

use super::{Known, Source, Update};
use crate::shard::Shard;
use crate::topology::Population;

/// The updates of those workers of `source` that belong to `share`.
pub fn share(source: Box<dyn Source>, share: Shard) -> Box<dyn Source> {
    if share == Shard::WHOLE {
        return source;
    }
    let mut shared = Shared { source, share };
    shared.pass_over();
    Box::new(shared)
}

/// A source of which some updates belong to other shares.
struct Shared {
    source: Box<dyn Source>,
    share: Shard,
}

impl Shared {
    /// Goes on to the next update of this share.
    fn pass_over(&mut self) {
        while self.source.peek().is_some_and(|update| !self.share.takes(u64::from(update.worker))) {
            self.source.take(&mut []);
        }
    }
}

// No `dense`, no `sparse`: their workers wait for each other, and are all in one process.
impl Source for Shared {
    fn population(&self) -> &Population {
        self.source.population()
    }

    fn known(&self) -> Known {
        self.source.known().only_pulled()
    }

    fn peek(&self) -> Option<&Update> {
        self.source.peek()
    }

    fn take(&mut self, values: &mut [u8]) {
        self.source.take(values);
        self.pass_over();
    }

    fn passes(&self) -> Option<u32> {
        self.source.passes()
    }

    fn failure(&self) -> Option<&str> {
        self.source.failure()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::config::Document;
    use crate::seed::Seed;
    use crate::workload::open;

    /// Every update of a source with the bits of its gradients.
    fn all(mut source: Box<dyn Source>) -> Vec<(Update, Vec<u8>)> {
        let mut updates = Vec::new();
        while let Some(update) = source.peek().copied() {
            let mut values = vec![0; 48];
            source.take(&mut values);
            updates.push((update, values));
        }
        assert!(source.failure().is_none());
        updates
    }

    fn opened(text: &str, seed: u64) -> Box<dyn Source> {
        open(&mut Document::parse(text, "x.toml").unwrap(), Seed(seed)).unwrap().source
    }

    proptest! {
        /// Shares together are the whole, update by update and bit by bit, each in its order.
        #[test]
        fn shares_are_the_whole(
            seed in 0u64..1000,
            clusters in 1u16..6,
            workers in 1u32..5,
            updates in 1u32..20,
            of in 1u64..9,
            schedule in prop::sample::select(vec!["constant", "poisson", "on_off"]),
            repeat in 1u32..3,
            moves in any::<bool>(),
        ) {
            let mut text = format!(
                "[workload]\nclusters = {clusters}\nworkers_per_cluster = {workers}\nupdates = {updates}\nrepeat = {repeat}\n\
                 bytes = \"256B\"\n[schedule]\nkind = \"{schedule}\"\noffered = \"10Gbps\"\n"
            );
            if moves {
                text += "[[workload.moves]]\nat = \"1us\"\nworker = 0\ncluster = 0\n";
            }
            let whole = all(opened(&text, seed));
            let mut shares: HashMap<u64, _> = (1..=of)
                .map(|i| (i, all(share(opened(&text, seed), Shard::new(i, of).unwrap())).into_iter()))
                .collect();
            for update in whole {
                let i = u64::from(update.0.worker) % of + 1;
                prop_assert_eq!(shares.get_mut(&i).unwrap().next(), Some(update));
            }
            prop_assert!(shares.values_mut().all(|rest| rest.next().is_none()), "and nothing else");
        }
    }

    #[test]
    fn a_recorded_trace_is_shared_with_its_gradients() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let text = "[workload]\nupdates = 9\nbytes = \"256B\"\n[schedule]\nkind = \"poisson\"\nperiod = \"1ms\"\n";
        let mut source = opened(text, 3);
        crate::trace::synthesise(source.as_mut(), &path, true, Default::default(), &mut |_| {}).unwrap();
        let trace = format!("[workload]\ntrace = \"{}\"\n", path.display());
        let whole = all(opened(&trace, 3));
        for i in 1..=4 {
            let own = all(share(opened(&trace, 3), Shard::new(i, 4).unwrap()));
            let expected: Vec<_> = whole.iter().filter(|(u, _)| u64::from(u.worker) % 4 + 1 == i).cloned().collect();
            assert!(!own.is_empty());
            assert_eq!(own, expected);
        }
    }
}
