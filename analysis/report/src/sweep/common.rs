//! What runs of a sweep have in common, stored once, so that a further run costs little more than its values.
//!
//! Called by [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::user_metric::UserMetric;

use super::data::{Labels, RunMade, RunSummary};
use super::scalars::KeyList;

/// The first of equal texts and lists.
#[derive(Debug, Default)]
pub(crate) struct Common {
    configs: BTreeSet<Arc<str>>,
    hosts: BTreeSet<Arc<BTreeMap<String, String>>>,
    lists: BTreeSet<Arc<Vec<String>>>,
    labels: BTreeSet<Arc<Labels>>,
    keys: BTreeSet<KeyList>,
    metrics: Vec<Arc<Vec<UserMetric>>>,
}

impl Common {
    /// Replaces texts and lists of `run` by equal ones of other runs.
    pub(crate) fn share(&mut self, run: &mut RunSummary) {
        let RunSummary {
            labels, scalars, config, user_metrics, study_keys, made: RunMade { host, command, .. }, ..
        } = run;
        first(&mut self.labels, labels);
        scalars.share(&mut self.keys);
        first(&mut self.configs, config);
        first(&mut self.hosts, host);
        first(&mut self.lists, command);
        first(&mut self.lists, study_keys);
        match self.metrics.iter().find(|known| *known == user_metrics) {
            Some(known) => *user_metrics = known.clone(),
            None => self.metrics.push(user_metrics.clone()),
        }
    }
}

/// Replaces `own` by an equal one in `known`, or adds it there.
pub(super) fn first<T: Ord + ?Sized>(known: &mut BTreeSet<Arc<T>>, own: &mut Arc<T>) {
    match known.get::<Arc<T>>(own) {
        Some(equal) => *own = equal.clone(),
        None => _ = known.insert(own.clone()),
    }
}

/// Returns a resolved configuration without its seed, in which the runs of a point differ.
pub(super) fn without_seed(config: &str) -> Arc<str> {
    let sections = if config.starts_with('[') { 0 } else { config.find("\n[").map_or(config.len(), |at| at + 1) };
    let (top, sections) = config.split_at(sections);
    let is_seed = |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| key == "seed");
    let others = top.split_inclusive('\n').filter(|line| !is_seed(line));
    others.chain([sections]).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_of_runs_are_stored_once() {
        let run = |seed: u64, slots: u64| RunSummary {
            config: without_seed(&format!("name = \"a\"\nseed = {seed}\n\n[target]\nseed = 7\nslots = {slots}\n")),
            study_keys: Arc::new(vec!["loss".to_owned()]),
            made: RunMade { command: Arc::new(vec!["pktgen".to_owned()]), ..RunMade::default() },
            ..RunSummary::default()
        };
        let mut runs = [run(1, 8), run(2, 8), run(3, 6)];
        let wanted = runs.clone().map(|run| (run.config, run.study_keys, run.made));
        let mut common = Common::default();
        runs.iter_mut().for_each(|run| common.share(run));
        for (run, (config, study_keys, made)) in runs.iter().zip(wanted) {
            assert_eq!((&run.config, &run.study_keys, &run.made), (&config, &study_keys, &made));
        }
        let [one, two, three] = &runs;
        assert_eq!(&*one.config, "name = \"a\"\n\n[target]\nseed = 7\nslots = 8\n");
        assert!(Arc::ptr_eq(&one.config, &two.config) && !Arc::ptr_eq(&one.config, &three.config));
        assert!(Arc::ptr_eq(&one.made.command, &three.made.command) && Arc::ptr_eq(&one.made.host, &two.made.host));
        assert!(Arc::ptr_eq(&one.study_keys, &two.study_keys) && Arc::ptr_eq(&one.user_metrics, &two.user_metrics));
        assert_eq!((&*without_seed("[a]\nseed = 1\n"), &*without_seed("seed = 1")), ("[a]\nseed = 1\n", ""));
    }
}
