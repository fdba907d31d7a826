//! Frames without a training story: those of a capture as they are, or made ones with flows, sizes and fields that vary (docs/raw.md).
//!
//! A frame is an update here, whose flow is its worker. [`Source::take`] writes the whole frame, from Ethernet's header on.

mod flow;
mod made;
mod recorded;
mod vary;

use std::sync::Arc;

use super::background::FLOWS_MAX;
use super::{Known, NextPass, Source, Update, Workload};
use crate::config::{KeyTables, Section, settings};
use crate::record::PacketId;
use crate::registry::Named;
use crate::seed::Seed;
use crate::time::Time;
use crate::topology::Population;
use crate::wire::frame::{Checksums, FRAME_MAX, HEAD, checksums, tags_of, unpadded_behind};
use crate::wire::update::padded;
use crate::{Error, Result};

use flow::FlowKey;
pub use flow::RawFlows;

/// `kind = "raw"`.
pub(crate) struct Raw;

impl Named for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }
    fn about(&self) -> &'static str {
        "unchanged frames of a capture (workload.frames = FILE), or generated frames: flows, sizes, varying fields"
    }
}

settings! {
    /// What it reads from `[workload]`.
    keys RawSettings {
        /// Capture whose frames are sent unchanged, at their recorded times; if not set, frames are generated.
        frames: Option<String>;
        /// Flows of generated frames.
        flows: u32 = 4 in 1..=FLOWS_MAX;
        /// Generated frames per flow.
        packets: u32 = 1000 in 1..=u32::MAX, "every flow needs some";
        /// Sizes of generated frames in bytes, without FCS, used in turn; empty: 60.
        sizes: Vec<u32> = [] in (HEAD as u32)..=(FRAME_MAX as u32), "bytes of UDP frames, without FCS";
        /// How often each size occurs per round, at most 10000 in all; empty: once.
        weights: Vec<u32> = [] in 1..=made::ROUND_MAX;
        /// Capture whose frames are the templates of generated ones, instead of UDP frames of `sizes`.
        pattern: Option<String>;
        /// Fields that count up or are random in generated frames, as `udp_src=count:1024..2047` or `26+4=random`.
        vary: Vec<String> = [];
        /// IPv4 source address of generated frames.
        from: String = "198.18.0.1";
        /// IPv4 destination address of generated frames.
        to: String = "198.19.0.1";
        /// Ethernet source address of generated frames.
        from_mac: String = "02:12:c6:12:00:01";
        /// Ethernet destination address of generated frames.
        to_mac: String = "02:12:c6:13:00:01";
    }
}

impl Workload for Raw {
    fn keys(&self) -> KeyTables {
        &[RawSettings::KEYS]
    }

    fn is_timed(&self, section: &Section) -> bool {
        RawSettings::frames(&mut section.clone()).is_ok_and(|frames| frames.is_some())
    }

    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let frames = RawSettings::frames(section)?;
        let made = made::MadeSettings::read(section)?;
        made.check_used(section, frames.is_some())?;
        if let Some(path) = frames {
            return recorded::open(&path, section, schedule).map(|source| Box::new(source) as Box<dyn Source>);
        }
        made::open(made, section, schedule, seed).map(|source| Box::new(source) as Box<dyn Source>)
    }
}

/// What frames are, one after the other.
trait RawFrames: Send + 'static {
    /// The next frame: its time and its bytes, appended to `frame`; none at the end.
    fn next(&mut self, frame: &mut Vec<u8>) -> Option<Time>;

    /// Why there are no more, if that is not the end.
    fn failure(&self) -> Option<&str>;

    /// What begins with the first frame again; none where the whole workload must be opened.
    fn again(&self) -> Option<BeginAgain<Self>>
    where
        Self: Sized,
    {
        None
    }
}

/// Begins frames that are held with the first one.
type BeginAgain<F> = Box<dyn Fn() -> F + Send + Sync>;

/// Frames with their flows and numbers.
struct RawSource<F> {
    frames: F,
    flows: Arc<RawFlows>,
    population: Population,
    frame_max: u32,
    /// The next number of each flow.
    numbers: Vec<u32>,
    head: Option<Update>,
    /// The next frame.
    bytes: Vec<u8>,
    failure: Option<String>,
}

impl<F: RawFrames> RawSource<F> {
    fn new(frames: F, flows: Arc<RawFlows>, frame_max: u32) -> Self {
        let population = Population { cluster_of: vec![0; flows.len()], moves: Vec::new() };
        let numbers = vec![0; flows.len()];
        let (head, bytes, failure) = (None, Vec::new(), None);
        let mut source = RawSource { frames, flows, population, frame_max, numbers, head, bytes, failure };
        source.load();
        source
    }

    fn load(&mut self) {
        self.head = None;
        self.bytes.clear();
        let Some(t_gen) = self.frames.next(&mut self.bytes) else { return };
        let Some(worker) = self.flows.of(&self.bytes) else {
            self.failure = Some("the capture was changed while it was replayed".to_owned());
            return;
        };
        let number = &mut self.numbers[worker as usize];
        let (seq, bytes) = (*number, self.bytes.len() as u32);
        let Some(next) = seq.checked_add(1) else {
            self.failure = Some(format!("flow {worker} has used all its {} packet numbers; send fewer", u32::MAX));
            return;
        };
        *number = next;
        self.head = Some(Update { t_gen, cluster: 0, worker, seq, bytes, reward: None, iteration: None });
    }
}

impl<F: RawFrames> Source for RawSource<F> {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        let (flows, frame_max) = (self.flows.clone(), self.frame_max);
        let again = self.frames.again().map(|begin| -> NextPass {
            Arc::new(move || -> Result<Box<dyn Source>> {
                Ok(Box::new(RawSource::new(begin(), flows.clone(), frame_max)))
            })
        });
        Known { raw: Some(self.flows.clone()), again, ..Known::pulled(self.frame_max) }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        if self.head.is_some() {
            let most = values.len().min(self.bytes.len());
            values[..most].copy_from_slice(&self.bytes[..most]);
            self.load();
        }
    }

    fn passes(&self) -> Option<u32> {
        Some(1)
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.frames.failure())
    }
}

/// Flows that are found in frames, one after the other.
#[derive(Default)]
struct FlowSurvey {
    flows: RawFlows,
    frame_max: u32,
}

impl FlowSurvey {
    /// Takes a frame; refuses one flow too many.
    fn add(&mut self, frame: &[u8], place: &str) -> Result<()> {
        self.frame_max = self.frame_max.max(frame.len() as u32);
        self.flows.misfit |= checksums(frame) != Checksums::Fit;
        if !self.flows.add(FlowKey::of(frame)) {
            return Err(Error::config(format!(
                "{place}: there are more than {} flows (addresses, protocol and ports); let fewer fields vary, or send fewer frames",
                RawFlows::MOST.min(PacketId::WORKERS_MAX as usize)
            )));
        }
        Ok(())
    }
}

/// What is compared of a frame that arrived, in words: what follows the headers of Ethernet, with its tags, IPv4 and UDP. What pads its
/// IPv4 packet is none of it.
pub fn content(frame: &[u8]) -> Vec<u8> {
    let tags = tags_of(frame);
    let whole = unpadded_behind(frame, tags);
    let (words, rest) = whole.get(HEAD + tags..).unwrap_or_default().as_chunks::<4>();
    words.iter().copied().chain(padded(rest)).flatten().collect()
}

#[cfg(test)]
mod tests;
