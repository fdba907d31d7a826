//! Other times for updates that have times already: those of a trace, and those that a schedule has made.
//!
//! All definitions of speeds and mean rates are here. A pass is what a workload sends once, as a whole, without the
//! background beside it: `count` updates with `bits` in all, the first at `first`, the last at `last`. `schedule.stop`
//! cuts the run after all scaling and all passes: what is sent by then has another mean if the rate is not even.
//!
//! - `speed = F`: every time is divided by F. It comes last: `offered` times F is what is sent.
//! - `pps = P`: times are stretched so that `(count − 1) / (last − first)` is P, whatever made them.
//! - `offered = R`: `bits / (last − first)` is R. Schedules make such times; a trace is stretched to them.
//!
//! Times are stretched by a ratio of whole numbers and rounded down to whole picoseconds one by one, so nothing
//! drifts: with `pps` and `offered`, the ratio is the span wanted, in whole picoseconds, by `last − first`. Passes
//! follow each other by the mean gap of the pass, `(last − first) / (count − 1)`, so the mean of P lasts over all of
//! them. Updates that are all at one time stay so; with `pps` or `offered`, the next pass begins as much later as the
//! pass would last at that mean.

use crate::config::{Section, settings};
use crate::time::{SECOND, Time, too_late};
use crate::trace::Stretch;
use crate::units::{Decimal, PacketRate, Rate};
use crate::{Error, Result};

/// What one pass of updates amounts to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Updates.
    pub count: u64,
    /// Bits of all.
    pub bits: u128,
    /// Time of the first.
    pub first: Time,
    /// Time of the last.
    pub last: Time,
}

impl Pass {
    /// Counts the next update.
    pub fn add(&mut self, t_gen: Time, bytes: u32) {
        if self.count == 0 {
            self.first = t_gen;
        }
        self.last = t_gen;
        self.count += 1;
        self.bits += u128::from(bytes) * 8;
    }

    /// The mean gap between its updates, rounded down, at least a tick: what lies between two passes.
    pub fn gap(&self) -> Time {
        ((self.last - self.first) / (self.count.max(2) - 1) as Time).max(1)
    }
}

/// A mean over a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mean {
    Bits(Rate),
    Packets(PacketRate),
}

/// What is done to times.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tempo {
    mean: Option<Mean>,
    speed: Option<Decimal>,
}

settings! {
    /// What is read from `[schedule]` of times that there are already.
    pub(super) keys Times {
        /// Mean packet rate to which the times of a pass are scaled, whatever made them; not with `speed`.
        pps: Option<PacketRate>;
        /// Divisor of all times, 1e-9 to 1e9.
        speed: Option<Decimal>;
    }
}

settings! {
    /// What is read beside it of the times of a trace.
    pub(super) keys Recorded {
        /// Mean rate to which the trace is scaled (all bits over its duration); if no key is set, recorded times are
        /// kept.
        offered: Option<Rate>;
    }
}

impl Tempo {
    /// Reads what is done to the times of a trace: `offered`, `pps`, `speed`; without any they stay as recorded.
    ///
    /// The rule, whatever `schedule.kind` says (also where it is `as_recorded`): these keys count exactly when they
    /// are written. So `--set workload.trace=FILE` on an experiment with `offered = "60Gbps"` replays the file at 60
    /// Gbit/s, and an experiment that writes none replays the times of the file. All other keys of schedules
    /// (`line_rate` too) shape synthetic times only.
    pub(crate) fn of_trace(section: &mut Section) -> Result<Self> {
        let offered = Recorded::offered(section)?;
        let tempo = Tempo::of_made(section)?;
        match offered {
            Some(rate) if rate.bps() == 0 => {
                Err(Error::config(format!("{}: {rate} is not above 0; choose more", section.place("offered"))))
            }
            _ => Ok(Tempo { mean: tempo.mean.or(offered.map(Mean::Bits)), ..tempo }),
        }
    }

    /// Reads what is done to times that a schedule has made: `pps` or `speed`. The schedule has read `offered`.
    pub(crate) fn of_made(section: &mut Section) -> Result<Self> {
        let speed = Times::speed(section)?;
        let pps = Times::pps(section)?;
        if speed.is_some() && pps.is_some() {
            return Err(Error::config(format!(
                "{}: \"speed\" and \"pps\" are both given; times are scaled by one of them, so leave one out",
                section.place("speed")
            )));
        }
        if let Some(speed) = speed.filter(|speed| !speed.is_within(9, 9)) {
            return Err(Error::config(format!("{}: {speed} is not from 1e-9 to 1e9", section.place("speed"))));
        }
        Ok(Tempo { mean: pps.map(Mean::Packets), speed })
    }

    /// Whether times stay unchanged.
    pub fn is_none(&self) -> bool {
        *self == Tempo::default()
    }

    /// Whether the pass must be known to stretch it, or to check that its end is within time.
    pub(crate) fn needs_pass(&self) -> bool {
        self.mean.is_some() || self.speed.is_some_and(|speed| !speed.is_at_least_one())
    }

    /// How the times of `pass`, counted from `origin`, are stretched; refuses what ends later than a run can.
    pub(crate) fn stretch(&self, pass: &Pass, origin: Time, section: &Section) -> Result<Stretch> {
        let since = u128::from(pass.last.abs_diff(pass.first));
        let stretch = match (self.mean, self.speed) {
            // What is all at once has no mean to be stretched to.
            (Some(_), speed) if since > 0 => {
                let wanted = self.wanted(pass, pass.count.saturating_sub(1));
                Stretch::span(origin, since, speed.map_or(wanted, |speed| divided(wanted, speed)))
            }
            (_, Some(speed)) => Stretch::speed(origin, speed),
            _ => Stretch::none(origin),
        };
        if pass.count > 0 && stretch.at(pass.last).is_none() {
            let key = match (self.mean, self.speed) {
                (Some(Mean::Packets(_)), _) => "pps",
                (Some(Mean::Bits(_)), None) => "offered",
                _ => "speed",
            };
            let what = format!("{}: the last update of the workload", section.place(key));
            let keys =
                "raise schedule.offered, schedule.pps or schedule.speed, or send fewer updates (a shorter trace)";
            return Err(Error::config(too_late(&what, stretch.about(pass.last), keys)));
        }
        Ok(stretch)
    }

    /// What lies between two passes whose updates are all at one time: as long as they would last at the mean.
    pub(crate) fn rest(&self, pass: &Pass) -> Option<Time> {
        self.mean?;
        let wanted = self.wanted(pass, pass.count);
        let wanted = self.speed.map_or(wanted, |speed| divided(wanted, speed));
        Some(Time::try_from(wanted).unwrap_or(Time::MAX).clamp(1, crate::time::HORIZON))
    }

    /// How long `gaps` gaps, or all bits, of `pass` last at the mean.
    fn wanted(&self, pass: &Pass, gaps: u64) -> u128 {
        match self.mean {
            // A run has below 2⁵⁶ updates, of below 2¹⁷ bits; a product beyond 128 bits would be beyond time anyway.
            Some(Mean::Bits(rate)) => pass.bits.saturating_mul(SECOND as u128) / u128::from(rate.bps().max(1)),
            Some(Mean::Packets(rate)) => {
                let (packets, seconds) = rate.ratio();
                (u128::from(gaps) * SECOND as u128).saturating_mul(seconds) / packets
            }
            None => 0,
        }
    }
}

/// `span / speed`, rounded down.
fn divided(span: u128, speed: Decimal) -> u128 {
    let (numerator, denominator) = speed.ratio();
    span.saturating_mul(denominator) / numerator.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::time::HORIZON;

    fn section(values: &[(&str, Value)]) -> Section {
        Section::of("schedule", values)
    }

    #[test]
    fn keys_count_when_they_are_written() {
        let read = |values: &[(&str, Value)]| Tempo::of_trace(&mut section(values));
        assert!(read(&[]).unwrap().is_none());
        let two = Tempo { mean: None, speed: Some("2".parse().unwrap()) };
        assert_eq!(read(&[("speed", 2.0.into())]).unwrap(), two);
        assert_eq!(read(&[("speed", 2i64.into())]).unwrap(), two);
        assert_eq!(read(&[("speed", "2.0".into())]).unwrap(), two);
        let rate = Mean::Bits(Rate::from_bps(1_000_000_000));
        assert_eq!(read(&[("offered", "1Gbps".into())]).unwrap(), Tempo { mean: Some(rate), speed: None });
        assert_eq!(read(&[("offered", "1Gbps".into()), ("speed", "2".into())]).unwrap().mean, Some(rate));
        let packets = Tempo { mean: Some(Mean::Packets("2M".parse().unwrap())), speed: None };
        assert_eq!(read(&[("offered", "1Gbps".into()), ("pps", "2M".into())]).unwrap(), packets);
        assert_eq!(read(&[("pps", 2_000_000i64.into())]).unwrap(), packets);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (values, key) in [
            (&[("speed", 0.0.into())][..], "schedule.speed"),
            (&[("speed", (-1.0).into())], "schedule.speed"),
            (&[("speed", 1e300.into())], "schedule.speed"),
            (&[("speed", 1e-300.into())], "schedule.speed"),
            (&[("speed", "0.00000000099".into())], "1e-9 to 1e9"),
            (&[("speed", "1000000000.1".into())], "1e-9 to 1e9"),
            (&[("speed", true.into())], "schedule.speed"),
            (&[("offered", "0bps".into())], "schedule.offered"),
            (&[("pps", 0i64.into())], "schedule.pps"),
            (&[("pps", "2X".into())], "schedule.pps"),
            (&[("speed", 1.0.into()), ("pps", "1k".into())], "both given"),
        ] {
            let message = Tempo::of_trace(&mut section(values)).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains("schedule."), "{message}");
        }
    }

    #[test]
    fn means_are_what_they_say() {
        let pass = Pass { count: 1001, bits: 1001 * 2048, first: 5_000, last: 7_005_000 };
        let last = |key: &'static str, text: &str| {
            let section = &mut section(&[(key, text.into())]);
            Tempo::of_trace(section).unwrap().stretch(&pass, pass.first, section).unwrap().at(pass.last).unwrap()
        };
        assert_eq!(last("pps", "1"), 1000 * SECOND);
        assert_eq!(last("pps", "0.5"), 2000 * SECOND);
        assert_eq!(last("pps", "2M"), 500_000_000);
        assert_eq!(last("pps", "3"), 333_333_333_333_333);
        assert_eq!(last("offered", "1bps"), 1001 * 2048 * SECOND);
        assert_eq!(last("speed", "0.0000002"), 7_000_000 * 5_000_000);
        let late = &mut section(&[("pps", "0.0001".into())]);
        let message = Tempo::of_made(late).unwrap().stretch(&pass, 0, late).unwrap_err().to_string();
        assert!(message.contains("schedule.pps") && message.contains("26 days"), "{message}");
    }

    #[test]
    fn a_pass_without_gaps_rests_as_long_as_its_mean_says() {
        let rest = |values: &[(&str, Value)], count| {
            let pass = Pass { count, bits: u128::from(count) * 1000, first: 9, last: 9 };
            Tempo::of_trace(&mut section(values)).unwrap().rest(&pass)
        };
        assert_eq!(rest(&[("speed", 2i64.into())], 1), None);
        assert_eq!(rest(&[("pps", 1i64.into())], 1), Some(SECOND));
        assert_eq!(rest(&[("pps", 1i64.into())], 4), Some(4 * SECOND));
        assert_eq!(rest(&[("offered", "1kbps".into()), ("speed", "0.5".into())], 1), Some(2 * SECOND));
        assert_eq!(rest(&[("pps", "0.000000001".into())], 1_000_000), Some(HORIZON));
    }
}
