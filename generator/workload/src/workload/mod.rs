//! WHAT is sent: updates with their worker, cluster, reward, size and gradients.
//!
//! A [`Source`] hands out updates in the order of their generation; it is the one thing that
//! endpoints pull from, whether the updates are synthetic or come from a trace file.

mod background;
pub mod build;
mod dense;
mod edit;
mod held;
mod learn;
mod mix;
mod open;
pub mod raw;
mod repeat;
mod rl;
mod share;
mod sparse;
mod survey;
mod tempo;
mod trace_file;

use std::sync::Arc;

use crate::Result;
use crate::config::{KeyTables, Section};
use crate::dense::Dense;
use crate::learner::Learning;
use crate::registry::Named;
use crate::seed::Seed;
use crate::sparse::Sparse;
use crate::time::Time;
use crate::topology::Population;

pub use open::{DEFAULT, HASHED_FILES, Opened, open};
pub use share::share;

/// One model update, its gradients apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Generation time.
    pub t_gen: Time,
    /// Cluster, or [`crate::record::NO_CLUSTER`] for plain traffic.
    pub cluster: u16,
    /// Worker.
    pub worker: u32,
    /// Number of the update at its worker, from 0.
    pub seq: u32,
    /// Frame length.
    pub bytes: u32,
    /// Reward; none for plain traffic.
    pub reward: Option<f32>,
    /// Iteration, in synchronous systems.
    pub iteration: Option<u32>,
}

/// Updates in the order of their generation.
pub trait Source: Send {
    /// Who works.
    fn population(&self) -> &Population;

    /// Returns what is known before the first update.
    fn known(&self) -> Known;

    /// The next update; none at the end.
    fn peek(&self) -> Option<&Update>;

    /// The worker of the update that comes `n` after the next one, where that is drawn already: its memory can be fetched meanwhile.
    fn ahead(&self, _n: usize) -> Option<u32> {
        None
    }

    /// Takes the next update and writes its gradients into `values` as little-endian f32s, as many as
    /// fit. Does nothing at the end.
    fn take(&mut self, values: &mut [u8]);

    /// From its first update on, repeats itself: so many passes in all, 0 for no end. False if it has to be opened anew for each.
    fn repeat(&mut self, _passes: u32) -> bool {
        false
    }

    /// Passes that are left, this one too, where all of them have the same frames and only times and numbers differ. None where that is
    /// not known.
    fn passes(&self) -> Option<u32> {
        None
    }

    /// Why the source ended early, if it did: a damaged trace, an update later than time reaches. Asked once at
    /// the end of a run.
    fn failure(&self) -> Option<&str>;
}

/// Opens a source anew for its next pass, without reading again what is known of it.
pub(crate) type NextPass = Arc<dyn Fn() -> Result<Box<dyn Source>> + Send + Sync>;

/// What is known of a source before its first update.
#[derive(Clone, Default)]
pub struct Known {
    /// Bytes of its largest frame.
    pub frame_max: u32,
    /// Bytes of its largest update, without the traffic beside it.
    pub update_max: u32,
    /// What lies between two passes of the source if all its updates are at one time; none if nothing says so.
    pub(crate) rest: Option<Time>,
    /// Opens it anew for its next pass; none where the whole workload must be opened.
    pub(crate) again: Option<NextPass>,
    /// The flows of frames that are sent as they are; none where updates get headers of ours.
    pub raw: Option<Arc<raw::RawFlows>>,
    /// Whether there is traffic beside it, which only endpoints that pull would send.
    pub beside: bool,
    /// What endpoints in a closed loop drive instead of pulling updates. None where something changes the times or members of the
    /// workload, which the endpoints would not see.
    driven: Option<Driven>,
}

/// What endpoints in a closed loop drive.
#[derive(Clone)]
enum Driven {
    /// Workers that compute, send their blocks as results come back, and wait for each other.
    Dense(Arc<Dense>),
    /// Workers that push pairs of keys and gradients.
    Sparse(Arc<Sparse>),
    /// Agents that learn: what they send depends on the model that they were answered with.
    Learning(Arc<Learning>),
}

impl Known {
    /// A source that is only pulled, of updates up to so many bytes and no traffic beside them.
    pub(crate) fn pulled(frame_max: u32) -> Self {
        Known { frame_max, update_max: frame_max, ..Known::default() }
    }

    /// What is left where times or numbers of it were changed: how large its frames are, and whether they are sent as they are.
    pub(crate) fn changed(self) -> Self {
        Known { raw: self.raw, update_max: self.update_max, ..Known::pulled(self.frame_max) }
    }

    /// The same without what endpoints could drive.
    pub(crate) fn only_pulled(self) -> Self {
        Known { driven: None, again: None, ..self }
    }

    /// The same where gradients or traffic are changed as agents that learn would not see.
    pub(crate) fn without_learning(self) -> Self {
        Known { driven: self.driven.filter(|driven| !matches!(driven, Driven::Learning(_))), ..self }
    }

    /// Returns whether endpoints drive it in a closed loop.
    pub fn is_driven(&self) -> bool {
        self.driven.is_some()
    }

    /// Synchronous training, if it is that.
    pub fn dense(&self) -> Option<Arc<Dense>> {
        if let Some(Driven::Dense(dense)) = &self.driven { Some(dense.clone()) } else { None }
    }

    /// Sparse training, if it is that.
    pub fn sparse(&self) -> Option<Arc<Sparse>> {
        if let Some(Driven::Sparse(sparse)) = &self.driven { Some(sparse.clone()) } else { None }
    }

    /// Learning in the loop, if it is that.
    pub fn learning(&self) -> Option<Arc<Learning>> {
        if let Some(Driven::Learning(learning)) = &self.driven { Some(learning.clone()) } else { None }
    }
}

/// Makes sources.
pub trait Workload: Named + Sync {
    /// The keys of `[workload]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other
    /// workloads.
    fn keys(&self) -> KeyTables;

    /// Reads its keys from `[workload]` and the schedule's from `[schedule]`.
    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>>;

    /// Does [`open`](Self::open) apply `schedule.speed` and `schedule.pps` itself? What does not is scaled from
    /// outside.
    fn keeps_tempo(&self) -> bool {
        false
    }

    /// Are its times recorded ones? Then `schedule.offered` stretches them, which no schedule has read.
    fn is_timed(&self, _section: &Section) -> bool {
        false
    }

    /// Does [`open`](Self::open) read `workload.trace` itself? Every other workload makes way for `kind = "trace"` where a trace
    /// is named.
    fn replays_traces(&self) -> bool {
        false
    }
}

/// The keys of `[workload]` that are read whichever it is.
pub const COMMON: KeyTables = &[open::Passes::KEYS, survey::Replayed::KEYS, background::Beside::KEYS];

/// Every workload, by name.
pub static WORKLOADS: &[&dyn Workload] = &[
    &rl::Rl,
    &background::Background,
    &trace_file::TraceFile,
    &dense::Dense,
    &sparse::Sparse,
    &learn::Learn,
    &raw::Raw,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn workloads_name_the_keys_that_they_read() {
        for workload in WORKLOADS {
            let mut asked = BTreeSet::new();
            // Which keys of rewards are read depends on their process, and which of curves on the curve.
            for (reward, curve) in [("normal", "fitted"), ("learning", "mandelbrot"), ("normal", "empirical")] {
                let mut section = Section::of("workload", &[("reward", reward.into()), ("curve", curve.into())]);
                let mut schedule = Section::of("schedule", &[("offered", "1Gbps".into())]);
                // A trace without a file refuses; it has read its keys by then.
                let _ = workload.open(&mut section, &mut schedule, Seed(1));
                asked.extend(section.asked().to_vec());
            }
            let named: BTreeSet<_> = crate::config::names_of(workload.keys()).map(str::to_owned).collect();
            assert_eq!(asked, named, "{}", workload.name());
        }
    }
}
