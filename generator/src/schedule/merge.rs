//! Merging the workers' own rhythms into one timeline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::RngExt;

use super::{Pace, Speed, Timeline};
use crate::seed::{Seed, Stream};
use crate::time::{SECOND, Time};

/// Draws the gap to the next update, in units of the worker's mean period.
pub(super) type Gap = fn(&mut Stream, f64) -> f64;

/// One worker's rhythm in relative time.
#[derive(Debug, Clone)]
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
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Merged {
    /// Workers start at a random phase of their period and draw gaps with `gap(stream, parameter)`.
    ///
    /// With [`Speed::Offered`] the timeline is drawn twice: once to learn how long it is, once scaled so
    /// that the whole run's mean is the rate asked for, not only its expectation.
    pub(super) fn new(pace: &Pace, speed: Speed, gap: Gap, parameter: f64, seed: Seed) -> Self {
        let mut workers: Vec<_> = (0..pace.period.len())
            .map(|w| {
                let mut stream = seed.stream("schedule.gap", w as u64, 0);
                let phase: f64 = stream.random();
                let period = pace.period[w];
                Rhythm { at: phase * period, stream, period, left: pace.updates }
            })
            .collect();
        let scale = match speed {
            Speed::Period(span) => span.ps() as f64,
            Speed::Offered(rate) => {
                let bits = pace.update_bits as f64 * pace.updates as f64 * workers.len() as f64;
                let length = length(&workers, gap, parameter);
                if length > 0.0 { bits / rate.bps() as f64 * SECOND as f64 / length } else { 0.0 }
            }
        };
        workers.retain(|w| w.left > 0);
        let heap = (0..workers.len()).map(|w| Reverse(((workers[w].at * scale) as Time, w as u32))).collect();
        Merged { workers, gap, parameter, scale, heap }
    }
}

/// Relative time from the first to the last generation of all.
fn length(workers: &[Rhythm], gap: Gap, parameter: f64) -> f64 {
    let (mut first, mut last) = (f64::INFINITY, 0.0f64);
    for worker in workers {
        let mut worker = worker.clone();
        first = first.min(worker.at);
        for _ in 1..worker.left {
            worker.at += worker.period * gap(&mut worker.stream, parameter);
        }
        last = last.max(worker.at);
    }
    last - first
}

impl Timeline for Merged {
    fn next(&mut self) -> Option<(Time, u32)> {
        let mut top = self.heap.peek_mut()?;
        let Reverse((time, id)) = *top;
        let worker = &mut self.workers[id as usize];
        worker.left -= 1;
        if worker.left == 0 {
            std::collections::binary_heap::PeekMut::pop(top);
        } else {
            worker.at += worker.period * (self.gap)(&mut worker.stream, self.parameter);
            // Never back in time, whatever the rounding.
            *top = Reverse(((worker.at * self.scale) as Time, id));
        }
        Some((time, id))
    }
}
