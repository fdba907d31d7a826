//! Plain traffic: frames that belong to no cluster and go around the aggregation queue (OLAF §7:
//! packets of unknown sources bypass all model-related processing).

use super::{Source, Update, Workload};
use crate::config::Section;
use crate::record::NO_CLUSTER;
use crate::registry::Named;
use crate::schedule::Timeline;
use crate::seed::{Seed, Stream};
use crate::time::{SECOND, Time};
use crate::topology::Population;
use crate::units::{Rate, Size};
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::{Error, Result};
use rand::RngExt;

/// `kind = "background"`.
pub struct Background;

impl Named for Background {
    fn name(&self) -> &'static str {
        "background"
    }
    fn about(&self) -> &'static str {
        "plain UDP frames of unknown sources; alone, or beside another workload (background_rate)"
    }
}

impl Workload for Background {
    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let flows: u32 = section.get("flows", 4u32)?;
        let packets: u32 = section.get("packets", 1000u32)?;
        let bytes = frame_bytes(section, "bytes", "1000B", HEAD)?;
        let pace = crate::schedule::Pace {
            period: vec![1.0; flows as usize],
            updates: packets,
            update_bits: u64::from(bytes) * 8,
        };
        let timeline = crate::schedule::open(schedule, "poisson", &pace, seed)?;
        Ok(Box::new(Plain::new(timeline, 0, flows, bytes)))
    }
}

/// Reads a frame size in whole bytes between `min` and the jumbo limit.
pub(super) fn frame_bytes(section: &mut Section, key: &str, default: &str, min: usize) -> Result<u32> {
    let size: Size = section.get(key, default)?;
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
    let Some(rate) = section.get_opt::<Rate>("background_rate")? else { return Ok(None) };
    let flows: u32 = section.get("background_flows", 4u32)?;
    let bytes = frame_bytes(section, "background_bytes", "1000B", HEAD)?;
    if rate.bps() == 0 || flows == 0 {
        return Err(Error::config(format!(
            "{}: background of {rate} over {flows} flows; both must be above 0",
            section.place("background_rate")
        )));
    }
    let mean_gap = f64::from(bytes) * 8.0 * SECOND as f64 / rate.bps() as f64;
    let stream = seed.stream("background", 0, 0);
    let timeline = Box::new(Endless { stream, at: 0.0, mean_gap, flows });
    Ok(Some(Box::new(Plain::new(timeline, first, flows, bytes))))
}

/// Poisson arrivals over all flows, without an end.
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
        Some((self.at as Time, self.stream.random_range(0..self.flows)))
    }
}

/// Frames of one size from a timeline.
struct Plain {
    timeline: Box<dyn Timeline + Send>,
    population: Population,
    first: u32,
    bytes: u32,
    seq: Vec<u32>,
    head: Option<Update>,
}

impl Plain {
    fn new(timeline: Box<dyn Timeline + Send>, first: u32, flows: u32, bytes: u32) -> Self {
        let population = Population { cluster_of: vec![NO_CLUSTER; flows as usize] };
        let mut plain = Plain { timeline, population, first, bytes, seq: vec![0; flows as usize], head: None };
        plain.advance();
        plain
    }

    fn advance(&mut self) {
        self.head = self.timeline.next().map(|(t_gen, flow)| {
            let seq = self.seq[flow as usize];
            self.seq[flow as usize] += 1;
            let worker = self.first + flow;
            Update { t_gen, cluster: NO_CLUSTER, worker, seq, bytes: self.bytes, reward: None, iteration: None }
        });
    }
}

impl Source for Plain {
    fn population(&self) -> &Population {
        &self.population
    }

    fn frame_max(&self) -> u32 {
        self.bytes
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, _: &mut [u8]) {
        self.advance();
    }
}
