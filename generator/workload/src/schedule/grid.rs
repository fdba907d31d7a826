//! Workers on grids of their own: every update is near its time on the grid, off by what the one before was off by, in part.
//!
//! [`super::constant`] adds up gaps, so that workers that begin together are at random phases after a while. Here the grid holds them:
//! the offset of update k is AR(1), x(k) = m · x(k − 1) + s · √(1 − m²) · N(0, 1), with deviation s and memory m. Who is early stays
//! early for about 1 / (1 − m) periods.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_distr::{Distribution, StandardNormal};

use super::speed::Written;
use super::{Pace, Schedule, Speed, Timeline};
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::seed::{Seed, Stream};
use crate::time::{HORIZON, SECOND, Time, too_late};
use crate::units::Span;
use crate::{Error, Result};

/// `kind = "grid"`.
pub(crate) struct Grid;

impl Named for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }
    fn about(&self) -> &'static str {
        "periodic workers without drift: each update has a correlated random offset from its grid time"
    }
}

settings! {
    /// What it reads from `[schedule]`, beside its speed.
    struct Settings {
        /// Standard deviation of an update's offset from its grid time.
        offset_sd: Span = "0ns";
        /// Correlation of consecutive offsets: the share of an offset that the next one keeps.
        offset_memory: f64 = 0.0 in 0.0..=1.0;
        /// Initial phase of workers within their period.
        phase: Option<bool> said "\"zero\"" of [("random", true, "anywhere"), ("zero", false, "all together")];
    }
}

impl Schedule for Grid {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS, Written::KEYS]
    }

    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
        let Settings { offset_sd, offset_memory: memory, phase } = Settings::read(section)?;
        let random = phase.unwrap_or(false);
        let mut streams: Vec<_> = (0..pace.period.len()).map(|w| seed.stream("schedule.grid", w as u64, 0)).collect();
        let phase =
            |(stream, period): (&mut Stream, &f64)| if random { crate::seed::unit(stream) * period } else { 0.0 };
        let phases: Vec<f64> = streams.iter_mut().zip(&pace.period).map(phase).collect();
        let unit = match Speed::read(section)? {
            Speed::Period(span) => span.ps() as f64,
            Speed::Offered(rate) => {
                let bits = pace.update_bits as f64 * f64::from(pace.updates) * phases.len() as f64;
                let wanted = bits / rate.bps() as f64 * SECOND as f64;
                let (first, last) = extent(pace, &phases);
                if last > first { wanted / (last - first) } else { 0.0 }
            }
        };
        let slowest = pace.period.iter().copied().fold(0.0, f64::max);
        let end = slowest * unit * f64::from(pace.updates);
        // Not a number counts as too late.
        if end.is_nan() || end > HORIZON as f64 {
            let what = format!("{}: the end of the run", section.place("period"));
            return Err(Error::config(too_late(
                &what,
                end,
                "lower schedule.period, raise schedule.offered, or send fewer updates",
            )));
        }
        let sd = offset_sd.ps() as f64;
        let worker = |((mut stream, phase), period): ((Stream, f64), &f64)| {
            let offset = sd * normal(&mut stream);
            // Offsets are early as often as late: the grid begins where hardly one is before 0.
            Worker { stream, next: phase * unit + 4.0 * sd, period: period * unit, offset, left: pace.updates }
        };
        let workers: Vec<_> = streams.into_iter().zip(phases).zip(&pace.period).map(worker).collect();
        let first = |(w, worker): (usize, &Worker)| (worker.left > 0).then(|| Reverse((worker.time(0), w as u32)));
        let heap = workers.iter().enumerate().filter_map(first).collect();
        Ok(Box::new(OnGrid { workers, heap, sd, memory }))
    }
}

/// Returns the first and the last grid time of all workers, in units of the relative period; offsets are not counted.
fn extent(pace: &Pace, phases: &[f64]) -> (f64, f64) {
    let gaps = f64::from(pace.updates.saturating_sub(1));
    let last = |(phase, period): (&f64, &f64)| phase + gaps * period;
    let first = phases.iter().copied().fold(f64::INFINITY, f64::min);
    (first, phases.iter().zip(&pace.period).map(last).fold(0.0, f64::max))
}

fn normal(stream: &mut Stream) -> f64 {
    StandardNormal.sample(stream)
}

struct Worker {
    stream: Stream,
    /// Next time on the grid, and the offset from it.
    next: f64,
    offset: f64,
    period: f64,
    left: u32,
}

impl Worker {
    /// When the next update is made: never before `last`, that of the one before.
    fn time(&self, last: Time) -> Time {
        ((self.next + self.offset).max(0.0) as Time).max(last)
    }
}

/// All workers, by time; ties go to the lower worker.
struct OnGrid {
    workers: Vec<Worker>,
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    sd: f64,
    memory: f64,
}

impl Timeline for OnGrid {
    fn next(&mut self) -> Option<(Time, u32)> {
        let mut top = self.heap.peek_mut()?;
        let Reverse((time, id)) = *top;
        let worker = &mut self.workers[id as usize];
        worker.left -= 1;
        if worker.left == 0 {
            std::collections::binary_heap::PeekMut::pop(top);
        } else {
            worker.next += worker.period;
            let news = self.sd * (1.0 - self.memory * self.memory).sqrt();
            worker.offset = self.memory * worker.offset + news * normal(&mut worker.stream);
            *top = Reverse((worker.time(time), id));
        }
        Some((time, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::time::MS;

    fn times(values: &[(&str, Value)], workers: usize, updates: u32) -> Vec<Vec<f64>> {
        let mut section = Section::of("schedule", values);
        let pace = Pace { period: vec![1.0; workers], updates, update_bits: 2048 };
        let mut timeline = Grid.open(&mut section, &pace, Seed(3)).unwrap();
        let (mut found, mut last) = (vec![Vec::new(); workers], 0);
        while let Some((t, worker)) = timeline.next() {
            assert!(t >= last);
            last = t;
            found[worker as usize].push(t as f64 / MS as f64);
        }
        found
    }

    /// Deviation and memory are those that were asked for, and the grid holds: no drift over 20,000 periods.
    #[test]
    fn offsets_have_their_deviation_and_memory_around_a_grid_that_holds() {
        let of = |memory: f64| -> [(&str, Value); 3] {
            [("period", "100ms".into()), ("offset_sd", "2ms".into()), ("offset_memory", memory.into())]
        };
        for memory in [0.0, 0.8] {
            for own in times(&of(memory), 3, 20_000) {
                let off: Vec<f64> = own.iter().enumerate().map(|(k, t)| t - 8.0 - 100.0 * k as f64).collect();
                let n = off.len() as f64;
                let mean = off.iter().sum::<f64>() / n;
                let variance = off.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                let lag = off.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n / variance;
                assert!(mean.abs() < 0.15 && (variance.sqrt() - 2.0).abs() < 0.1, "{mean} {variance}");
                assert!((lag - memory).abs() < 0.03, "{lag} {memory}");
            }
        }
    }

    #[test]
    fn without_offsets_all_are_in_phase_or_at_random_ones() {
        let exact: Vec<f64> = (0..50).map(|k| 100.0 * f64::from(k)).collect();
        assert_eq!(times(&[("period", "100ms".into())], 3, 50), vec![exact; 3]);
        let random = times(&[("period", "100ms".into()), ("phase", "random".into())], 3, 50);
        assert!(random[0][0] != random[1][0] && random.iter().all(|own| own[0] < 100.0));
        // Two updates of each of 3 workers, 2048 bits each: at 61.44 kbit/s they last 200 ms.
        assert_eq!(times(&[("offered", "61.44kbps".into())], 3, 2)[2], [0.0, 200.0]);
        assert_eq!(times(&[("offered", "61.44kbps".into())], 3, 1), [[0.0]; 3], "they are at one time");
    }

    /// All bits over the duration, as of every other schedule.
    #[test]
    fn the_run_has_the_offered_rate_whatever_the_periods() {
        for phase in ["zero", "random"] {
            let mut section = Section::of("schedule", &[("offered", "1Gbps".into()), ("phase", phase.into())]);
            let pace = Pace { period: vec![1.0, 1.0, 3.0, 3.0], updates: 500, update_bits: 2048 };
            let mut timeline = Grid.open(&mut section, &pace, Seed(3)).unwrap();
            let times: Vec<Time> = std::iter::from_fn(|| timeline.next()).map(|(t, _)| t).collect();
            assert_eq!(times.len(), 2000);
            let rate = 2000.0 * 2048.0 / ((times[1999] - times[0]) as f64 / SECOND as f64);
            assert!((rate / 1e9 - 1.0).abs() < 1e-5, "{phase}: {rate}");
        }
    }
}
