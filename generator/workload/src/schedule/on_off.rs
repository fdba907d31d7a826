//! Bursts: packets back to back at a peak rate, then silence, so that the mean is the offered rate.
//!
//! The source as a whole is on and off, as a hardware generator is; whose update comes next is
//! random among the workers that have updates left, or round robin.

use rand::RngExt;

use super::{Pace, Schedule, Timeline};
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::seed::{Seed, Stream};
use crate::time::{HORIZON, SECOND, Serialiser, Time, too_late};
use crate::units::{Rate, Size};
use crate::{Error, Result};

/// `kind = "on_off"`.
pub(crate) struct OnOff;

impl Named for OnOff {
    fn name(&self) -> &'static str {
        "on_off"
    }
    fn about(&self) -> &'static str {
        "bursts of the whole source at a peak rate, followed by pauses"
    }
}

settings! {
    /// What it reads from `[schedule]`.
    struct Settings {
        /// Updates per burst.
        burst: u32 = 128 in 1..=u32::MAX;
        /// Rate within a burst.
        peak: Rate = "100Gbps";
        /// Mean rate, above 0 and at most `peak`.
        offered: Rate = "60Gbps";
        /// Order of workers within bursts.
        order: bool = "random" of [("random", false, ""), ("round_robin", true, "")];
    }
}

impl Schedule for OnOff {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
        let Settings { burst, peak, offered, order: round_robin } = Settings::read(section)?;
        if offered.bps() == 0 || offered > peak {
            return Err(Error::config(format!(
                "{}: bursts of {burst} at {peak} cannot have the mean {offered}; it must be above 0 and at most the peak",
                section.place("offered")
            )));
        }
        // The source as a whole has a rhythm, its workers have none: periods would silently do nothing.
        if pace.period.iter().any(|p| *p != pace.period[0]) {
            return Err(Error::config(format!(
                "{}: \"on_off\" gives workers no periods of their own, but the workload does; set \
                 workload.cluster_sigma and workload.worker_sigma to 0 and leave workload.cluster_periods out, or \
                 choose the schedule \"constant\" or \"poisson\"",
                section.place("kind")
            )));
        }
        let total = u64::from(pace.updates) * pace.period.len() as u64;
        let cycle = Cycle::new(burst, pace.update_bits, offered);
        let cycles = total.div_ceil(burst.into());
        if cycle.length(cycles) > HORIZON as f64 {
            let what = format!("{}: the end of {cycles} cycles of {burst} updates", section.place("offered"));
            let keys = "raise schedule.offered, lower schedule.burst or send fewer updates";
            return Err(Error::config(too_late(&what, cycle.length(cycles), keys)));
        }
        Ok(Box::new(Bursts {
            left: Left::new(pace.updates, pace.period.len()),
            total,
            burst,
            cycle,
            bytes: (pace.update_bits / 8) as u32,
            peak: Serialiser::new(peak, Size::default()),
            in_burst: 0,
            cycles: 0,
            at: 0,
            turn: 0,
            round_robin,
            stream: seed.stream("schedule.order", 0, 0),
        }))
    }
}

/// One burst and its pause, as an exact ratio: no rounding accumulates over cycles.
struct Cycle {
    /// Picoseconds times `rate_bps`.
    product: u128,
    rate_bps: u64,
}

impl Cycle {
    fn new(burst: u32, update_bits: u64, offered: Rate) -> Self {
        // At most 2³² · 2⁵⁰ · 2⁴⁰.
        let bits = u128::from(burst) * u128::from(update_bits);
        Cycle { product: bits * SECOND as u128, rate_bps: offered.bps() }
    }

    /// How long so many cycles last.
    fn length(&self, cycles: u64) -> f64 {
        self.product as f64 / self.rate_bps as f64 * cycles as f64
    }

    /// When cycle `number` starts. Cycles that start within the range of time fit: `open` saw to that.
    fn start(&self, number: u64) -> Time {
        let product = self.product.checked_mul(number.into());
        product.and_then(|p| Time::try_from(p / u128::from(self.rate_bps)).ok()).unwrap_or(Time::MAX)
    }
}

/// Updates that each worker has left, with sums (a Fenwick tree), so that a ticket finds its worker in logarithmic time.
struct Left {
    of: Vec<u32>,
    /// `sums[i]` is the sum of the last `i & -i` workers up to worker `i - 1`; `sums[0]` is 0.
    sums: Vec<u64>,
}

impl Left {
    fn new(updates: u32, workers: usize) -> Self {
        let sums = (0..=workers as u64).map(|i| u64::from(updates) * (i & i.wrapping_neg())).collect();
        Left { of: vec![updates; workers], sums }
    }

    /// The worker with this ticket: the first up to which there are more updates than that.
    fn find(&self, mut ticket: u64) -> usize {
        let workers = self.of.len();
        let mut worker = 0;
        let mut step = 1usize << workers.ilog2();
        while step > 0 {
            if worker + step <= workers && self.sums[worker + step] <= ticket {
                worker += step;
                ticket -= self.sums[worker];
            }
            step >>= 1;
        }
        worker
    }

    /// Takes an update from a worker that has one.
    fn take(&mut self, worker: usize) {
        self.of[worker] -= 1;
        let mut i = worker + 1;
        while i < self.sums.len() {
            self.sums[i] -= 1;
            i += i & i.wrapping_neg();
        }
    }
}

struct Bursts {
    left: Left,
    total: u64,
    burst: u32,
    cycle: Cycle,
    bytes: u32,
    peak: Serialiser,
    in_burst: u32,
    cycles: u64,
    at: Time,
    turn: usize,
    round_robin: bool,
    stream: Stream,
}

impl Bursts {
    /// Whose turn it is: in proportion to what each has left, so that no worker is left over at the end.
    fn pick(&mut self) -> usize {
        if self.round_robin {
            while self.left.of[self.turn] == 0 {
                self.turn = (self.turn + 1) % self.left.of.len();
            }
            let worker = self.turn;
            self.turn = (self.turn + 1) % self.left.of.len();
            return worker;
        }
        // Tickets are fewer than updates left.
        self.left.find(self.stream.random_range(0..self.total))
    }
}

impl Timeline for Bursts {
    fn next(&mut self) -> Option<(Time, u32)> {
        if self.total == 0 {
            return None;
        }
        if self.in_burst == self.burst {
            self.in_burst = 0;
            self.cycles += 1;
            // At an offered rate that is the peak rate, a burst may end within the picosecond after.
            self.at = self.cycle.start(self.cycles).max(self.at);
        }
        let worker = self.pick();
        let time = self.at;
        self.at = self.at.saturating_add(self.peak.take(self.bytes));
        self.in_burst += 1;
        self.left.take(worker);
        self.total -= 1;
        Some((time, worker as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tickets_find_the_worker_that_counting_finds(updates in 1u32..5, workers in 1usize..40, draws in prop::collection::vec(0.0f64..1.0, 0..160)) {
            let mut left = Left::new(updates, workers);
            for draw in draws {
                let total: u64 = left.of.iter().map(|own| u64::from(*own)).sum();
                if total == 0 {
                    break;
                }
                let ticket = (draw * total as f64) as u64;
                let mut before = 0;
                let counted = left.of.iter().position(|own| {
                    before += u64::from(*own);
                    ticket < before
                });
                prop_assert_eq!(Some(left.find(ticket)), counted);
                left.take(left.find(ticket));
            }
        }
    }

    fn collect(order: &str) -> Vec<(Time, u32)> {
        let values = [("burst", 125u32.into()), ("order", order.into())];
        let pace = Pace { period: vec![1.0; 27], updates: 500, update_bits: 2048 };
        let mut timeline = OnOff.open(&mut Section::of("schedule", &values), &pace, Seed(3)).unwrap();
        std::iter::from_fn(|| timeline.next()).collect()
    }

    #[test]
    fn bursts_at_the_peak_with_the_mean_asked_for() {
        for order in ["random", "round_robin"] {
            let times = collect(order);
            assert_eq!(times.len(), 13_500);
            assert!((0..27).all(|w| times.iter().filter(|x| x.1 == w).count() == 500));
            let gap = times[1].0 - times[0].0;
            assert_eq!(gap, 20_480, "2048 bit at 100 Gbit/s");
            assert_eq!(times[125].0, 125 * 2048 * 1000 / 60, "one burst per cycle at 60 Gbit/s");
        }
        assert_eq!(collect("round_robin")[28].1, 1);
    }

    #[test]
    fn cycles_do_not_drift() {
        // A cycle of 8 bit at 7 bit/s has no whole number of picoseconds.
        let values = [("burst", 1u32.into()), ("offered", "7bps".into())];
        let pace = Pace { period: vec![1.0], updates: 100_000, update_bits: 8 };
        let mut timeline = OnOff.open(&mut Section::of("schedule", &values), &pace, Seed(3)).unwrap();
        let last = std::iter::from_fn(|| timeline.next()).last().unwrap().0;
        assert_eq!(i128::from(last), 99_999 * 8 * i128::from(SECOND) / 7);
    }

    #[test]
    fn periods_of_workers_are_refused() {
        let pace = Pace { period: vec![1.0, 2.0], updates: 1, update_bits: 8 };
        let message = OnOff.open(&mut Section::of("schedule", &[]), &pace, Seed(1)).err().unwrap().to_string();
        assert!(message.contains("cluster_sigma"), "{message}");
        let alike = Pace { period: vec![2.0, 2.0], ..pace };
        assert!(OnOff.open(&mut Section::of("schedule", &[]), &alike, Seed(1)).is_ok());
    }

    #[test]
    fn impossible_bursts_are_refused() {
        let pace = Pace { period: vec![1.0], updates: 1, update_bits: 8 };
        for values in [[("burst", 0u32.into())], [("offered", "101Gbps".into())], [("order", "rnd".into())]] {
            assert!(OnOff.open(&mut Section::of("schedule", &values), &pace, Seed(1)).is_err());
        }
    }
}
