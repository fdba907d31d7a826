//! What a trace must be: the one set of rules that checking, converting and replaying use.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::record::{NO_CLUSTER, PacketId};
use crate::time::Time;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::{FRAME_MIN, UPDATE_HEAD};
use crate::workload::Update;

/// Bytes of the frame of an update.
pub const FRAME_BYTES: RangeInclusive<u32> = FRAME_MIN as u32..=FRAME_MAX as u32;
/// Problems that are kept; the rest only counts.
const KEPT: usize = 20;

/// Looks at the updates of a trace in order and collects what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rows: u64,
    last: Time,
    workers: BTreeMap<u32, Member>,
    /// Whether the updates have rewards, as the first says; none after the first that is unlike.
    rewarded: Option<Option<bool>>,
    problems: Vec<String>,
}

/// Bytes of the frame that so many gradients need without keys.
pub(crate) fn frame_of(values: usize) -> usize {
    HEAD + UPDATE_HEAD + 4 * values
}

/// What was seen of one worker.
#[derive(Debug)]
struct Member {
    cluster: u16,
    updates: u64,
}

impl Rules {
    /// The rules for a file that is replayed after others, whose updates have rewards or not, as [`rewarded`](Self::rewarded) says.
    pub(crate) fn after(rewarded: Option<Option<bool>>) -> Self {
        Rules { rewarded, ..Rules::default() }
    }

    /// Whether the updates so far have rewards; none before the first that was judged.
    pub(crate) fn rewarded(&self) -> Option<Option<bool>> {
        self.rewarded
    }

    /// Looks at the next update and its values.
    pub(crate) fn update(&mut self, update: &Update, values: &[f32]) {
        let row = self.rows;
        self.rows += 1;
        if update.t_gen < self.last {
            self.problem(format!(
                "row {row}: time {} ps is before {} ps; times must not go back",
                update.t_gen, self.last
            ));
        }
        self.last = self.last.max(update.t_gen);
        let least = if update.cluster == NO_CLUSTER { HEAD } else { FRAME_MIN };
        if !(least as u32..=FRAME_MAX as u32).contains(&update.bytes) {
            self.problem(format!("row {row}: {} bytes; frames have {least} to {FRAME_MAX}", update.bytes));
        }
        if values.iter().chain(&update.reward).any(|v| !v.is_finite()) {
            self.problem(format!("row {row}: a value or reward is not a finite number"));
        }
        if update.worker >= PacketId::WORKERS_MAX {
            self.problem(format!("row {row}: worker {} is not below {}", update.worker, PacketId::WORKERS_MAX));
            return;
        }
        let new = Member { cluster: update.cluster, updates: 0 };
        let member = self.workers.entry(update.worker).or_insert(new);
        let (cluster, expected) = (member.cluster, member.updates);
        member.updates += 1;
        if u64::from(update.seq) != expected {
            self.problem(format!(
                "row {row}: worker {} has seq {} after {expected} updates",
                update.worker, update.seq
            ));
        }
        if update.cluster != cluster {
            self.problem(format!(
                "row {row}: worker {} is in clusters {cluster} and {}",
                update.worker, update.cluster
            ));
        }
    }

    /// Looks at the reward of the update that was looked at last, where it is to be sent: all have one or none has, since frames have a place
    /// for it, and 0 is a reward like another.
    pub(crate) fn reward(&mut self, update: &Update) {
        let row = self.rows.saturating_sub(1);
        if update.cluster == NO_CLUSTER {
            return;
        }
        let own = update.reward.is_some();
        let known = self.rewarded.get_or_insert(Some(own));
        if known.is_none_or(|all| all == own) {
            return;
        }
        *known = None;
        let (this, others) = if own { ("a", "none") } else { ("no", "one") };
        self.problem(format!(
            "row {row}: column \"reward\" has {this} reward, updates before have {others}; give each update one, or none any"
        ));
    }

    /// Looks at the pairs of the update that was looked at last, whose frame has `bytes`. Pairs are cut into frames by who sends them.
    pub(crate) fn pairs(&mut self, bytes: u32, keys: &[u64], values: &[f32]) {
        let needed = frame_of(values.len());
        if keys.is_empty() && !values.is_empty() && (bytes as usize) < needed {
            let row = self.rows.saturating_sub(1);
            self.problem(format!(
                "row {row}: column \"bytes\": {} values need a frame of {needed} bytes, and it says {bytes}; leave the column out, or \
                 give {needed} or more",
                values.len()
            ));
        }
        if !keys.is_empty() && keys.len() != values.len() {
            let row = self.rows.saturating_sub(1);
            self.problem(format!("row {row}: {} keys for {} values; there must be as many", keys.len(), values.len()));
        }
    }

    /// Notes a problem.
    pub(crate) fn problem(&mut self, what: String) {
        if self.problems.len() < KEPT {
            self.problems.push(what);
        }
    }

    /// What is wrong so far, at most twenty.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Updates so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// After the last update: the cluster of each worker, and what is wrong.
    pub(crate) fn finish(mut self) -> (Vec<u16>, Vec<String>) {
        if self.rows == 0 {
            self.problem("the trace is empty".into());
        }
        if let Some((&last, _)) = self.workers.last_key_value()
            && last as usize + 1 != self.workers.len()
        {
            self.problem(format!("{} workers have ids up to {last}; ids must be dense from 0", self.workers.len()));
        }
        (self.workers.values().map(|member| member.cluster).collect(), self.problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Update =
        Update { t_gen: 5, cluster: 0, worker: 0, seq: 0, bytes: 256, reward: Some(1.0), iteration: None };

    fn problems(updates: &[Update]) -> String {
        let mut rules = Rules::default();
        for update in updates {
            rules.update(update, &[]);
            rules.reward(update);
        }
        rules.finish().1.join("; ")
    }

    #[test]
    fn every_rule_is_named_with_its_row() {
        assert_eq!(problems(&[GOOD, Update { seq: 1, ..GOOD }, Update { worker: 1, ..GOOD }]), "");
        let mut later = Rules::after(Some(Some(true)));
        assert_eq!(later.rewarded(), Some(Some(true)));
        later.reward(&Update { reward: None, ..GOOD });
        assert!(later.problems()[0].contains("has no reward, updates before have one"), "{:?}", later.problems());
        for (updates, part) in [
            (vec![], "the trace is empty"),
            (vec![Update { t_gen: -1, ..GOOD }], "row 0: time -1 ps is before 0 ps"),
            (vec![GOOD, Update { t_gen: 4, seq: 1, ..GOOD }], "row 1: time 4 ps is before 5 ps"),
            (vec![GOOD, GOOD], "row 1: worker 0 has seq 0 after 1 updates"),
            (vec![GOOD, Update { seq: 2, ..GOOD }], "row 1: worker 0 has seq 2 after 1 updates"),
            (vec![GOOD, Update { seq: 1, cluster: 3, ..GOOD }], "row 1: worker 0 is in clusters 0 and 3"),
            (vec![Update { worker: 1, ..GOOD }], "dense from 0"),
            (vec![Update { worker: u32::MAX, ..GOOD }], "is not below 16777216"),
            (vec![Update { bytes: 75, ..GOOD }], "75 bytes; frames have 76 to 9036"),
            (vec![Update { bytes: 9037, ..GOOD }], "9037 bytes"),
            (vec![Update { bytes: 41, cluster: NO_CLUSTER, ..GOOD }], "frames have 42 to"),
            (
                vec![GOOD, Update { seq: 1, reward: None, ..GOOD }],
                "row 1: column \"reward\" has no reward, updates before have one",
            ),
            (
                vec![Update { reward: None, ..GOOD }, Update { seq: 1, ..GOOD }],
                "has a reward, updates before have none",
            ),
            (vec![Update { reward: Some(f32::NAN), ..GOOD }], "row 0: a value or reward is not a finite number"),
        ] {
            assert!(problems(&updates).contains(part), "{part}: {}", problems(&updates));
        }
        // Background traffic has no rewards.
        let plain = Update { cluster: NO_CLUSTER, worker: 1, reward: None, ..GOOD };
        assert_eq!(problems(&[GOOD, plain]), "");
        let mut rules = Rules::default();
        rules.update(&GOOD, &[1.0]);
        rules.pairs(76, &[], &[1.0]);
        rules.pairs(76, &[7], &[1.0]);
        rules.pairs(82, &[7, 8, 9, 10, 11], &[1.0; 5]);
        assert!(rules.problems().is_empty());
        rules.pairs(79, &[], &[1.0, 2.0]);
        assert!(
            rules.problems()[0].contains("2 values need a frame of 80 bytes, and it says 79"),
            "{:?}",
            rules.problems()
        );
        rules.problems.clear();
        rules.pairs(76, &[7, 8], &[1.0]);
        assert_eq!(rules.problems(), ["row 0: 2 keys for 1 values; there must be as many"]);
        assert_eq!(problems(&[GOOD; 50]).matches("row").count(), KEPT);
    }
}
