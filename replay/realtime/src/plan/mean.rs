//! Mean rates of schedules: dry runs and runs in real time compare them with the rates of ports and links.

use pktgen_core::time::{SECOND, Time};

/// Times of updates, in order.
#[derive(Debug, Clone, Copy, Default)]
struct UpdateTimes {
    first: Time,
    last: Time,
    /// Number of different ones.
    different: Time,
}

impl UpdateTimes {
    fn add(&mut self, t: Time) {
        if self.different == 0 {
            self.first = t;
        }
        self.different += Time::from(self.different == 0 || t != self.last);
        self.last = t;
    }

    /// Returns the time from the first to a mean gap after the last, rounded up: rates are compared with limits. 0 if all are at one time.
    fn span(&self) -> Time {
        let (gaps, between) = (self.last - self.first, self.different - 1);
        if between > 0 { gaps + (gaps + between - 1) / between } else { 0 }
    }
}

/// Minimum bytes of a frame on an Ethernet link, without FCS: cards pad shorter ones.
const FRAME_LEAST: u64 = 60;

/// Returns the bits on an Ethernet link of a frame of this many bytes, with `overhead` more for FCS, preamble and gap.
pub(crate) fn link_bits(bytes: u64, overhead: u64) -> u64 {
    (bytes.max(FRAME_LEAST) + overhead) * 8
}

/// Mean rates of the workers of a schedule.
///
/// A worker's updates have its own span, from its first update to one of its mean gaps after its last, or that of the updates of all workers if
/// that is longer and the worker does not send all the time. So a steady schedule has its own rate from two updates of each worker on, whatever
/// their phases and wherever the updates end.
#[derive(Debug, Default)]
pub(crate) struct MeanRates {
    all: UpdateTimes,
    /// Times and bits by worker.
    workers: Vec<(UpdateTimes, u64)>,
}

impl MeanRates {
    /// Adds an update. They come in the order of their times.
    pub(crate) fn add(&mut self, worker: u32, t: Time, bits: u64) {
        let worker = worker as usize;
        if worker >= self.workers.len() {
            self.workers.resize(worker + 1, (UpdateTimes::default(), 0));
        }
        self.all.add(t);
        self.workers[worker].0.add(t);
        self.workers[worker].1 += bits;
    }

    /// Returns whether a worker sends from the first update of all to the last one: less than a mean gap is missing at either end.
    fn is_covered_by(&self, times: &UpdateTimes) -> bool {
        let own = times.span();
        let gap = own / times.different.max(1);
        own > 0 && times.first - self.all.first < gap && times.first + own >= self.all.last
    }

    /// Returns the mean rates by worker, in bit/s; `None` if all updates are at one time. Workers after the last with an update are left out.
    pub(crate) fn bps(&self) -> Option<Vec<u64>> {
        let all = self.all.span();
        let rate = |(times, bits): &(UpdateTimes, u64)| {
            let span = if self.is_covered_by(times) { times.span() } else { times.span().max(all) };
            (u128::from(*bits) * SECOND as u128 / span as u128) as u64
        };
        (all > 0).then(|| self.workers.iter().map(rate).collect())
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::time::US;
    use proptest::prelude::*;

    use super::*;

    fn rates(mut updates: Vec<(Time, u32)>) -> Option<Vec<u64>> {
        updates.sort_unstable();
        let mut rates = MeanRates::default();
        updates.iter().for_each(|(t, worker)| rates.add(*worker, *t, 10_000));
        rates.bps()
    }

    proptest! {
        /// Workers that send 10,000 bits each 10 µs have 1 Gbit/s each at most, and hardly less.
        #[test]
        fn a_steady_schedule_has_its_own_rate(phases in prop::collection::vec(0..10 * US, 1..9), updates in 2u32..200) {
            let of = |worker: u32| (0..updates).map(move |k| (Time::from(k) * 10 * US, worker));
            let times = (0u32..).zip(&phases).flat_map(|(worker, phase)| of(worker).map(move |(t, w)| (t + phase, w)));
            let means = rates(times.collect()).unwrap();
            prop_assert_eq!(means.len(), phases.len());
            let least = 1_000_000_000 / u64::from(updates + 1) * u64::from(updates - 1);
            prop_assert!(means.iter().all(|mean| (least..=1_000_000_000).contains(mean)), "{:?}", means);
        }
    }

    #[test]
    fn a_steady_schedule_that_ends_within_a_period_has_its_own_rate() {
        // Eight workers each 80 µs, in order: the first ones of the last period are there, or all but the last one.
        let until = |updates: i64, apart: Time| {
            let all = (0..updates).map(|k| (k / 8 * 80 * US + k % 8 * apart, (k % 8) as u32));
            rates(all.collect()).expect("rates")
        };
        for updates in [20, 23, 25, 44, 84] {
            assert_eq!(until(updates, 10 * US), [125_000_000; 8], "{updates} updates, phases");
            assert_eq!(until(updates, 0), [125_000_000; 8], "{updates} updates at the same times");
        }
    }

    #[test]
    fn workers_that_send_for_a_part_of_the_run_have_the_mean_of_the_run() {
        // One in the first half, one in the second.
        let halves = (0i64..100).map(|k| (k * 10 * US, u32::from(k >= 50)));
        assert_eq!(rates(halves.collect()), Some(vec![500_000_000; 2]));
        // One update of each worker.
        let single = (0u32..1000).map(|k| (Time::from(k) * 10 * US, k));
        assert_eq!(rates(single.collect()), Some(vec![1_000_000; 1000]));
        // Another period, and a worker without updates.
        let slow = (0i64..1000).map(|k| (k * 10 * US, 0u32)).chain((0i64..10).map(|k| (k * 1000 * US, 2)));
        assert_eq!(rates(slow.collect()), Some(vec![1_000_000_000, 0, 10_000_000]));
        assert_eq!(rates(vec![(7, 0), (7, 1)]), None, "one time has no rate");
        assert_eq!(rates(Vec::new()), None);
    }
}
