//! `limit`: the workers' end accepts at most what a token bucket permits.

use std::sync::Arc;

use pktgen_core::config::{FromValue, KeyTables, Section, Value, settings};
use pktgen_core::registry::Named;
use pktgen_core::time::{SECOND, Time};
use pktgen_core::units::{Rate, Size};
use pktgen_core::{Error, Result};

use super::filter::{Filter, Filtered, Offer};
use super::{Declared, Layer, Middleware, Site};
use crate::clock::RunClock;
use crate::transport::Submitted;
use crate::transport::{End, Wire};

/// `limit = "1Gbps"`.
pub(crate) struct RateLimit;

impl Named for RateLimit {
    fn name(&self) -> &'static str {
        "limit"
    }
    fn about(&self) -> &'static str {
        "token bucket on the sending side of the workers' end"
    }
}

/// The fact with the share of the sending time in which the limit held frames back.
pub(crate) const HELD_SHARE: &str = "limit.held_share";

/// A rate, or none.
struct Limiting(Option<Rate>);

impl FromValue for Limiting {
    fn takes() -> String {
        format!("{}, or none", Rate::takes())
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "none" => Ok(Limiting(None)),
            other => Rate::from_value(other).map(|rate| Limiting(Some(rate))),
        }
    }
}

settings! {
    /// What it reads from `[transport]`.
    keys Settings {
        /// Rate limit of the workers' end; `none`: unlimited.
        limit: Option<Limiting> said "\"none\"";
        /// Size of the token bucket.
        limit_burst: Size = "64KiB";
        /// Overhead that each frame counts for in addition to its bytes.
        limit_overhead: Size = "0B";
    }
}

impl Middleware for RateLimit {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn declares(&self) -> Declared {
        Declared { one_wire: true, by_time: true, ..Declared::default() }
    }

    fn sample(&self) -> Vec<(&'static str, Value)> {
        vec![("limit", "100Gbps".into())]
    }

    fn read(&self, section: &mut Section, _linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        let Some(Limiting(Some(rate))) = Settings::limit(section)? else { return Ok(None) };
        if rate.bps() == 0 {
            return Err(Error::config(format!(
                "{}: with {rate} nothing is ever sent; give a rate above 0, or leave the key out",
                section.place("limit")
            )));
        }
        let burst = Settings::limit_burst(section)?;
        let overhead = Settings::limit_overhead(section)?;
        Ok(Some(Arc::new(Limit { rate, burst, overhead })))
    }
}

/// The limit.
#[derive(Debug, Clone, Copy)]
struct Limit {
    rate: Rate,
    burst: Size,
    /// Overhead of each frame beside its bytes.
    overhead: Size,
}

impl Layer for Limit {
    fn check(&self, frame_max: usize) -> Result<()> {
        if self.burst.bits() >= frame_max as u64 * 8 + self.overhead.bits() {
            return Ok(());
        }
        Err(Error::config(format!(
            "transport.limit_burst: {} is below the run's largest frame of {frame_max} bytes and {} of overhead, which would \
             never leave; raise it, or lower workload.bytes",
            self.burst, self.overhead
        )))
    }

    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        if end != End::Workers {
            return Ok(wire);
        }
        let bucket = Bucket::full(self.rate, self.burst, site.clock.now());
        Ok(Box::new(Filtered::new(wire, Limited::new(site.clock.clone(), *self, bucket))))
    }
}

/// A token bucket in exact integers, counted in bit/s times ps, that is 10⁻¹² bits.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: u128,
    depth: u128,
    credit: u128,
    filled: Time,
}

impl Bucket {
    fn full(rate: Rate, depth: Size, now: Time) -> Self {
        let depth = price(depth.bits());
        Bucket { rate: u128::from(rate.bps()), depth, credit: depth, filled: now }
    }

    /// Adds the credit since the last call; a clock that stands still or goes back adds nothing.
    fn fill(&mut self, now: Time) {
        if now > self.filled {
            self.credit = (self.credit + self.rate * (now - self.filled) as u128).min(self.depth);
            self.filled = now;
        }
    }

    /// Returns how many frames of these sizes in bits may leave, from the first on.
    fn allows(&self, sizes: impl Iterator<Item = u64>) -> usize {
        let mut left = self.credit;
        sizes.map_while(|bits| left.checked_sub(price(bits)).map(|rest| left = rest)).count()
    }

    /// Deducts a frame that left.
    fn pay(&mut self, bits: u64) {
        self.credit = self.credit.saturating_sub(price(bits));
    }
}

/// Converts bits to the unit of the bucket.
fn price(bits: u64) -> u128 {
    u128::from(bits) * SECOND as u128
}

/// Passes what the limit permits.
struct Limited {
    clock: RunClock,
    limit: Limit,
    bucket: Bucket,
    /// Number of calls in which the limit accepted fewer frames than offered.
    cut: u64,
    /// Time in which frames waited for the limit, and the start of the current wait.
    held: Time,
    since: Option<Time>,
    /// Departure of the first and of the last frame.
    first: Option<Time>,
    last: Time,
}

impl Limited {
    fn new(clock: RunClock, limit: Limit, bucket: Bucket) -> Self {
        Limited { clock, limit, bucket, cut: 0, held: 0, since: None, first: None, last: 0 }
    }

    /// Measures the time in which frames wait.
    fn watch(&mut self, now: Time, cut: bool) {
        match (cut, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(since)) => {
                self.held += now - since;
                self.since = None;
            }
            _ => {}
        }
    }

    /// Returns the share of the time from the first to the last frame in which frames waited.
    fn held_share(&self) -> f64 {
        let span = self.first.map_or(0, |first| self.last - first);
        let held = self.held + self.since.map_or(0, |since| (self.last - since).max(0));
        if span > 0 { (held as f64 / span as f64).min(1.0) } else { 0.0 }
    }

    fn bits(&self, frame: &[u8]) -> u64 {
        frame.len() as u64 * 8 + self.limit.overhead.bits()
    }
}

impl Filter for Limited {
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        let now = self.clock.now();
        self.bucket.fill(now);
        let allowed = self.bucket.allows(frames.iter().map(|frame| self.bits(frame)));
        self.cut += u64::from(allowed < frames.len());
        self.watch(now, allowed < frames.len());
        if allowed == 0 {
            return Ok(Submitted::default());
        }
        let sent = offer(&frames[..allowed])?;
        for frame in &frames[..sent.taken] {
            self.bucket.pay(self.bits(frame));
        }
        if sent.taken > 0 {
            self.first.get_or_insert(now);
            self.last = now;
        }
        Ok(sent)
    }

    fn mode(&self) -> String {
        let Limit { rate, burst, overhead } = self.limit;
        format!("limit {rate}, burst {burst}, overhead {overhead} per frame")
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        vec![
            ("limit.workers".into(), format!("{} calls were offered more than the limit let through", self.cut)),
            (HELD_SHARE.into(), format!("{:.3}", self.held_share())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Memory, frame, site};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any window holds at most the credit of its length plus one bucket; with a backlog, and gaps shorter than the
        /// bucket, the rate is reached except for one frame.
        #[test]
        fn a_bucket_bounds_every_window_and_reaches_its_rate(
            bps in 1_000_000u64..40_000_000_000,
            depth in 1u64..200,
            steps in prop::collection::vec((0.0f64..1.0, 64u64..1500), 1..300),
        ) {
            let rate = Rate::from_bps(bps);
            let depth = Size::from_bytes(1500 * depth);
            let mut bucket = Bucket::full(rate, depth, 0);
            let fill_time = (depth.bits() - 1500 * 8) as f64 / bps as f64 * SECOND as f64;
            let mut sent: Vec<(Time, u64)> = vec![];
            let (mut now, mut total) = (0, 0);
            for (i, (gap, bytes)) in steps.into_iter().enumerate() {
                // It begins full, so credit before the first frame is discarded.
                now += if i == 0 { 0 } else { (fill_time * gap) as Time };
                bucket.fill(now);
                // A backlog: as many frames of this size as it allows.
                let n = bucket.allows(std::iter::repeat(bytes * 8));
                for _ in 0..n {
                    bucket.pay(bytes * 8);
                    total += bytes * 8;
                    sent.push((now, bytes * 8));
                }
            }
            let brings = |from: Time, to: Time| (u128::from(bps) * (to - from) as u128).div_ceil(SECOND as u128);
            for (i, (from, _)) in sent.iter().enumerate() {
                let mut window = 0u128;
                for (to, bits) in &sent[i..] {
                    window += u128::from(*bits);
                    prop_assert!(window <= brings(*from, *to) + u128::from(depth.bits()));
                }
                if i > 40 { break; }
            }
            prop_assert!(u128::from(total) + 1500 * 8 >= brings(0, now) + u128::from(depth.bits()) - 1);
        }
    }

    /// On the real clock: with a backlog for 60 ms the configured rate is reached.
    #[test]
    fn a_backlog_leaves_at_the_rate() {
        const BPS: f64 = 80e6;
        let (memory, bench) = Memory::new();
        let site = site();
        let (rate, burst) = (Rate::from_bps(BPS as u64), Size::from_bytes(1 << 16));
        let limit = Limit { rate, burst, overhead: Size::from_bytes(24) };
        let begin = site.clock.now();
        let mut wire = limit.wrap(End::Workers, &site, Box::new(memory)).unwrap();
        let (one, depth) = (frame(1, 104), burst.bits() as f64);
        let backlog = [one.as_slice(); 64];
        let brings = |from: Time, to: Time| (to - from) as f64 / SECOND as f64 * BPS;
        let (mut sent, mut cut, mut spilt, mut last) = (0, 0, 0.0, site.clock.now());
        while last - begin < SECOND / 1000 * 60 {
            let before = last;
            last = site.clock.now();
            while wire.send(&backlog).map(|own| (sent += own.taken, own.taken)).unwrap().1 == 64 {}
            cut += 1;
            // While this thread was not running, the bucket may have overflowed: that credit is lost.
            spilt += (brings(before, site.clock.now()) + 1024.0 - depth).max(0.0);
        }
        let bits = sent as f64 * 128.0 * 8.0;
        let most = brings(begin, site.clock.now()) + depth;
        assert!(bits <= most, "{bits} bits are above {most}");
        let least = brings(begin, last) + depth - spilt - 2.0 * 1024.0 - 0.001 * BPS;
        assert!(bits > least, "{bits} bits are below {least}, {spilt} were spilt");
        assert_eq!(bench.lock().unwrap().sent.len(), sent);
        let notes = wire.notes();
        assert!(notes[1].1.starts_with(&format!("{cut} calls")), "{notes:?}");
        let share: f64 = notes[2].1.parse().unwrap();
        assert!(notes[2].0 == HELD_SHARE && (0.0..=1.0).contains(&share) && share > 0.0, "{notes:?}");
    }

    #[test]
    fn only_what_the_wire_took_is_paid_for_and_only_workers_are_limited() {
        let (memory, bench) = Memory::new();
        let limit = Limit { rate: Rate::from_bps(1), burst: Size::from_bytes(300), overhead: Size::default() };
        let mut wire = limit.wrap(End::Workers, &site(), Box::new(memory)).unwrap();
        let one = frame(1, 100);
        bench.lock().unwrap().room = 1;
        assert_eq!(wire.send(&[&one, &one, &one, &one]).unwrap(), Submitted { taken: 1, lost: 0b101, refused: false });
        bench.lock().unwrap().room = 9;
        assert_eq!(wire.send(&[&one, &one, &one, &one]).unwrap().taken, 2, "300 bytes in all");
        bench.lock().unwrap().refuses = true;
        let nothing = Submitted::default();
        assert_eq!(wire.send(&[&one]).unwrap(), nothing, "the bucket is empty, and the wire was offered nothing");
        assert!(wire.mode().starts_with("memory; limit 1bps, burst 300B"), "{}", wire.mode());
        for end in [End::DeviceDown, End::DeviceUp, End::Server] {
            let mut wire = limit.wrap(end, &site(), Box::new(Memory::new().0)).unwrap();
            assert_eq!((wire.send(&[one.as_slice(); 60]).unwrap().taken, wire.mode().as_str()), (60, "memory"));
        }
    }

    #[test]
    fn what_could_never_leave_is_refused() {
        let read = |values: &[(&str, pktgen_core::config::Value)]| {
            RateLimit.read(&mut Section::of("transport", values), 0).map(|layer| layer.is_some())
        };
        assert!(!read(&[]).unwrap());
        assert!(!read(&[("limit", "none".into())]).unwrap());
        assert!(read(&[("limit", "1Gbps".into())]).unwrap());
        assert!(read(&[("limit", "0bps".into())]).unwrap_err().to_string().contains("transport.limit"));
        let limit = Limit { rate: Rate::from_bps(1), burst: Size::from_bytes(130), overhead: Size::from_bytes(24) };
        let error = limit.check(128).unwrap_err().to_string();
        assert!(error.contains("limit_burst: 130B") && error.contains("128 bytes"), "{error}");
        assert!(limit.check(106).is_ok() && limit.check(107).is_err());
    }
}
