//! Merging the workers' own rhythms into one timeline.

use std::cmp::Reverse;

use rand::RngExt;

use super::upcoming::{FEW, Upcoming};
use super::{Pace, Speed, Timeline};
use crate::config::Section;
use crate::seed::{Seed, Stream};
use crate::time::{HORIZON, SECOND, Time, too_late};
use crate::{Error, Result, prefetch};

/// Draws the gap to the next update, in units of the worker's mean period.
pub(super) type Gap = fn(&mut Stream, f64) -> f64;

/// One worker's rhythm in relative time: in one line of the caches.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Rhythm {
    stream: Stream,
    period: f64,
    at: f64,
    left: u32,
}

/// All workers' rhythms, merged by time; ties go to the lower worker.
pub(super) struct Merged {
    workers: Vec<Rhythm>,
    gap: Gap,
    parameter: f64,
    /// Picoseconds per unit of relative time.
    scale: f64,
    upcoming: Upcoming,
}

impl Merged {
    /// Workers start at a random phase of their period, or all at 0, and draw gaps with `gap(stream, parameter)`.
    pub(super) fn new(
        section: &Section,
        pace: &Pace,
        speed: Speed,
        (gap, parameter): (Gap, f64),
        random_phase: bool,
        seed: Seed,
    ) -> Result<Self> {
        let mut workers: Vec<_> = (0..pace.period.len())
            .map(|w| {
                let mut stream = seed.stream("schedule.gap", w as u64, 0);
                let phase: f64 = if random_phase { stream.random() } else { 0.0 };
                let period = pace.period[w];
                Rhythm { at: phase * period, stream, period, left: pace.updates }
            })
            .collect();
        let scale = scale(section, pace, speed, &workers, (gap, parameter))?;
        workers.retain(|w| w.left > 0);
        let all = (0..workers.len()).map(|w| Reverse(((workers[w].at * scale) as Time, w as u32))).collect();
        Ok(Merged { workers, gap, parameter, scale, upcoming: Upcoming::new(all, FEW) })
    }
}

/// Picoseconds per unit of relative time; refuses a speed at which the run would be too long.
///
/// With [`Speed::Offered`] the timeline is drawn twice: once to learn how long it is, once scaled so
/// that the whole run's mean is the rate asked for, not only its expectation.
fn scale(section: &Section, pace: &Pace, speed: Speed, workers: &[Rhythm], gap: (Gap, f64)) -> Result<f64> {
    let within = |key: &str, value: String, end: f64| {
        // Not a number counts as too late: periods beyond what floats hold.
        if end <= HORIZON as f64 {
            return Ok(());
        }
        let what = format!("{}: the end of the run, with {value},", section.place(key));
        let keys = "raise schedule.offered, lower schedule.period, send fewer updates, or bring the workers' periods \
                    nearer to each other (workload.cluster_sigma, worker_sigma, cluster_periods)";
        Err(Error::config(too_late(&what, end, keys)))
    };
    match speed {
        Speed::Period(span) => {
            // On the mean; a draw that goes beyond ends the timeline when it gets there.
            let slowest = pace.period.iter().copied().fold(0.0, f64::max);
            let end = slowest * f64::from(pace.updates.saturating_sub(1)) * span.ps() as f64;
            within("period", span.to_string(), end)?;
            Ok(span.ps() as f64)
        }
        Speed::Offered(rate) => {
            let bits = pace.update_bits as f64 * f64::from(pace.updates) * workers.len() as f64;
            let wanted = bits / rate.bps() as f64 * SECOND as f64;
            within("offered", rate.to_string(), wanted)?;
            let (first, last) = extent(workers, gap);
            let scale = if last > first { wanted / (last - first) } else { 0.0 };
            within("offered", rate.to_string(), last * scale)?;
            Ok(scale)
        }
    }
}

/// Relative times of the first and the last generation of all.
fn extent(workers: &[Rhythm], (gap, parameter): (Gap, f64)) -> (f64, f64) {
    let (mut first, mut last) = (f64::INFINITY, 0.0f64);
    for worker in workers {
        let mut worker = worker.clone();
        first = first.min(worker.at);
        for _ in 1..worker.left {
            worker.at += worker.period * gap(&mut worker.stream, parameter);
        }
        last = last.max(worker.at);
    }
    (first, last)
}

impl Timeline for Merged {
    fn next(&mut self) -> Option<(Time, u32)> {
        let Merged { workers, gap, parameter, scale, upcoming } = self;
        let next = upcoming.step(|id| {
            let worker = &mut workers[id as usize];
            worker.left -= 1;
            if worker.left == 0 {
                return None;
            }
            worker.at += worker.period * (*gap)(&mut worker.stream, *parameter);
            // Never back in time, whatever the rounding; what is beyond `Time` becomes its maximum, which is later
            // than the range that a run may have.
            Some((worker.at * *scale) as Time)
        })?;
        // Of many workers they are in no cache.
        upcoming.soon().for_each(|id| prefetch(&workers[id as usize]));
        Some(next)
    }
}
