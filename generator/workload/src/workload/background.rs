//! Plain traffic: frames that belong to no cluster and go around the aggregation queue (OLAF §7:
//! packets of unknown sources bypass all model-related processing).

use super::{Known, Source, Update, Workload};
use crate::config::{KeyTables, Section, settings};
use crate::record::{NO_CLUSTER, PacketId};
use crate::registry::Named;
use crate::schedule::Timeline;
use crate::seed::{Seed, Stream};
use crate::time::{HORIZON, SECOND, Time};
use crate::topology::Population;
use crate::units::{Rate, Size};
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::{Error, Result};
use rand::RngExt;

/// Most flows: each has an address of its own in 198.19.0.0/16.
pub(super) const FLOWS_MAX: u32 = 1 << 16;

/// `kind = "background"`.
pub struct Background;

impl Named for Background {
    fn name(&self) -> &'static str {
        "background"
    }
    fn about(&self) -> &'static str {
        "background traffic: UDP frames of unknown sources; alone, or beside another workload (background_rate)"
    }
}

settings! {
    /// What it reads from `[workload]`.
    keys Alone {
        /// Flows, each with its own address.
        flows: u32 = 4 in 1..=FLOWS_MAX;
        /// Packets per flow.
        packets: u32 = 1000 in 1..=u32::MAX, "every flow needs some";
        /// Frame size.
        bytes: Size = "1000B";
    }
}

settings! {
    /// What is read of traffic beside another workload.
    pub(super) keys Beside {
        /// Mean rate of background traffic beside the workload; none if not set.
        background_rate: Option<Rate>;
        /// Flows of the background traffic.
        background_flows: u32 = 4 in 1..=FLOWS_MAX;
        /// Frame size of the background traffic.
        background_bytes: Size = "1000B";
    }
}

impl Workload for Background {
    fn keys(&self) -> KeyTables {
        &[Alone::KEYS]
    }

    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let flows = Alone::flows(section)?;
        let packets = Alone::packets(section)?;
        let bytes = Alone::bytes(section).and_then(|size| frame_bytes(section, "bytes", size, HEAD))?;
        let pace = crate::schedule::Pace {
            period: vec![1.0; flows as usize],
            updates: packets,
            update_bits: u64::from(bytes) * 8,
        };
        let timeline = crate::schedule::open(schedule, "poisson", &pace, seed)?;
        Ok(Box::new(Plain::new(timeline, 0, flows, bytes)))
    }
}

/// A frame size in whole bytes between `min` and the jumbo limit.
pub(super) fn frame_bytes(section: &Section, key: &str, size: Size, min: usize) -> Result<u32> {
    match size.bytes() {
        Some(bytes) if (min as u64..=FRAME_MAX as u64).contains(&bytes) => Ok(bytes as u32),
        _ => Err(Error::config(format!(
            "{}: frames of {size}; they must have whole bytes, from {min} B to {FRAME_MAX} B",
            section.place(key)
        ))),
    }
}

/// The traffic beside another workload, if `background_rate` asks for some.
pub(super) fn beside(section: &mut Section, first: u32, seed: Seed) -> Result<Option<Box<dyn Source>>> {
    let Some(rate) = Beside::background_rate(section)? else { return Ok(None) };
    let flows = Beside::background_flows(section)?;
    if flows > PacketId::WORKERS_MAX.saturating_sub(first) {
        return Err(Error::config(format!(
            "{}: {flows} flows beside {first} workers; there must be at most {} of both",
            section.place("background_flows"),
            PacketId::WORKERS_MAX
        )));
    }
    let size = Beside::background_bytes(section)?;
    let bytes = frame_bytes(section, "background_bytes", size, HEAD)?;
    if rate.bps() == 0 {
        return Err(Error::config(format!(
            "{}: a background of {rate}; choose a rate above 0, or leave the key out",
            section.place("background_rate")
        )));
    }
    let mean_gap = f64::from(bytes) * 8.0 * SECOND as f64 / rate.bps() as f64;
    let stream = seed.stream("background", 0, 0);
    let timeline = Box::new(Endless { stream, at: 0.0, mean_gap, flows });
    Ok(Some(Box::new(Plain::new(timeline, first, flows, bytes))))
}

/// Poisson arrivals over all flows, until time ends: what they accompany has ended by then.
struct Endless {
    stream: Stream,
    at: f64,
    mean_gap: f64,
    flows: u32,
}

impl Timeline for Endless {
    fn next(&mut self) -> Option<(Time, u32)> {
        let unit: f64 = self.stream.random();
        self.at -= (1.0 - unit).ln() * self.mean_gap;
        if self.at > HORIZON as f64 {
            return None;
        }
        Some((self.at as Time, self.stream.random_range(0..self.flows)))
    }
}

/// Frames of one size from a timeline.
struct Plain {
    timeline: Box<dyn Timeline + Send>,
    population: Population,
    first: u32,
    bytes: u32,
    /// The next packet's number, by flow.
    seq: Vec<u32>,
    head: Option<Update>,
    failure: Option<String>,
}

impl Plain {
    fn new(timeline: Box<dyn Timeline + Send>, first: u32, flows: u32, bytes: u32) -> Self {
        let population = Population { cluster_of: vec![NO_CLUSTER; flows as usize], moves: Vec::new() };
        let seq = vec![0; flows as usize];
        let mut plain = Plain { timeline, population, first, bytes, seq, head: None, failure: None };
        plain.advance();
        plain
    }

    fn advance(&mut self) {
        self.head = None;
        let Some((t_gen, flow)) = self.timeline.next() else { return };
        let (seq, worker) = (self.seq[flow as usize], self.first + flow);
        let Some(next) = seq.checked_add(1) else {
            self.failure = Some(format!(
                "background flow {worker} has used all its {} packet numbers; give workload.background_flows more",
                u32::MAX
            ));
            return;
        };
        self.seq[flow as usize] = next;
        let bytes = self.bytes;
        self.head = Some(Update { t_gen, cluster: NO_CLUSTER, worker, seq, bytes, reward: None, iteration: None });
    }
}

impl Source for Plain {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        Known::pulled(self.bytes)
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, _: &mut [u8]) {
        if self.head.is_some() {
            self.advance();
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.timeline.failure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    #[test]
    fn impossible_backgrounds_are_refused() {
        for (key, value) in [("flows", 0), ("flows", 65_537), ("flows", u32::MAX), ("packets", 0)] {
            let mut section = Section::of("workload", &[(key, value.into())]);
            let mut schedule = Section::of("schedule", &[("offered", "1Gbps".into())]);
            let message = Background.open(&mut section, &mut schedule, Seed(1)).err().unwrap().to_string();
            assert!(message.contains(&format!("workload.{key}")), "{message}");
        }
        let refused = |first: u32, values: &[(&str, Value)]| {
            beside(&mut Section::of("workload", values), first, Seed(1)).err().map(|e| e.to_string())
        };
        let rate = ("background_rate", Value::from("1Gbps"));
        assert_eq!(refused(PacketId::WORKERS_MAX - 4, std::slice::from_ref(&rate)), None);
        for (first, flows, part) in [
            (PacketId::WORKERS_MAX - 3, 4, "at most 16777216"),
            (u32::MAX, 1, "at most 16777216"),
            (0, u32::MAX, "is not from 1 to 65536"),
            (0, 0, "is not from 1 to 65536"),
        ] {
            let message = refused(first, &[rate.clone(), ("background_flows", flows.into())]).expect("refused");
            assert!(message.contains("background_flows") && message.contains(part), "{message}");
        }
        assert!(refused(0, &[("background_rate", "0bps".into())]).unwrap().contains("background_rate"));
    }

    #[test]
    fn a_background_beside_another_ends_quietly_at_the_end_of_time() {
        let stream = Seed(1).stream("background", 0, 0);
        let timeline = Box::new(Endless { stream, at: 0.0, mean_gap: HORIZON as f64 / 8.0, flows: 1 });
        let mut plain = Plain::new(timeline, 0, 1, 100);
        let mut last = 0;
        while let Some(update) = plain.peek().copied() {
            assert!((last..=HORIZON).contains(&update.t_gen));
            last = update.t_gen;
            plain.take(&mut []);
        }
        assert_eq!(plain.failure(), None);
    }
}
