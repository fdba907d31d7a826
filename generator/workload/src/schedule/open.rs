//! From `[schedule]` to a timeline, serialised at a line rate if asked for, within the range of time.

use super::{COMMON, Pace, SCHEDULES, Timeline};
use crate::config::{Section, settings};
use crate::registry::find;
use crate::seed::Seed;
use crate::time::{HORIZON, SECOND, Serialiser, Time, too_late};
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// Opens the schedule that `kind` names, or `default`. With `line_rate`, generations follow each other no faster
/// than frames at that rate: one generator emulates all workers, and a worker's update exists when the
/// generator gets to it. (OLAF's AoM counts from the send time, Figure 5.)
pub fn open(section: &mut Section, default: &str, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
    let kind: String = section.get("kind", default)?;
    let kind = find(SCHEDULES, "schedule", &kind, &section.place("kind"))?;
    let timeline = kind.open(section, pace, seed)?;
    let line = read_line(section, pace)?;
    Ok(Box::new(Bounded { timeline, line, bytes: (pace.update_bits / 8) as u32, free_at: 0, failure: None }))
}

/// Makes the keys of all schedules valid in `section`: a sweep over kinds needs those of each. Called after one is
/// open, or after a trace took the place of all.
pub(crate) fn allow_unused(section: &mut Section) {
    section.allow_elsewhere("kind");
    section.allow(COMMON);
    for schedule in SCHEDULES {
        section.allow(schedule.keys());
    }
}

settings! {
    /// What is read from `[schedule]` whichever it is.
    pub(crate) keys Line {
        /// Line rate of the generator that emulates all workers; limits the rate of synthetic schedules.
        line_rate: Option<Rate>;
        /// Time after which nothing is generated, after all scaling and all passes.
        stop: Option<Span>;
    }
}

fn read_line(section: &mut Section, pace: &Pace) -> Result<Option<Serialiser>> {
    let Some(rate) = Line::line_rate(section)? else { return Ok(None) };
    let place = section.place("line_rate");
    if rate.bps() == 0 {
        return Err(Error::config(format!("{place}: a line rate must be above 0")));
    }
    let bits = pace.update_bits as f64 * f64::from(pace.updates) * pace.period.len() as f64;
    let length = bits / rate.bps() as f64 * SECOND as f64;
    if length > HORIZON as f64 {
        let what = format!("{place}: the end of the run, at {rate},");
        return Err(Error::config(too_late(&what, length, "raise schedule.line_rate or send fewer updates")));
    }
    Ok(Some(Serialiser::new(rate, Size::default())))
}

/// A timeline that keeps a line rate and ends, with a reason, where time ends.
struct Bounded {
    timeline: Box<dyn Timeline + Send>,
    line: Option<Serialiser>,
    bytes: u32,
    free_at: Time,
    failure: Option<String>,
}

impl Timeline for Bounded {
    fn next(&mut self) -> Option<(Time, u32)> {
        if self.failure.is_some() {
            return None;
        }
        let (time, worker) = self.timeline.next()?;
        let starts = time.max(self.free_at);
        if starts > HORIZON {
            self.failure = Some(too_late(
                "the next update",
                starts as f64,
                "lower schedule.period, raise schedule.offered or schedule.line_rate, or send fewer updates \
                 (workload.updates, workload.packets)",
            ));
            return None;
        }
        if let Some(line) = &mut self.line {
            self.free_at = starts + line.take(self.bytes);
        }
        Some((starts, worker))
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.timeline.failure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn opened(kind: &str, values: &[(&str, Value)], pace: &Pace) -> Result<Box<dyn Timeline + Send>> {
        open(&mut Section::of("schedule", values), kind, pace, Seed(1))
    }

    #[test]
    fn generations_keep_the_line_rate_and_their_order() {
        let values = [("offered", "60Gbps".into()), ("line_rate", "100Gbps".into())];
        let pace = Pace { period: vec![1.0, 1.0, 4.0], updates: 300, update_bits: 2048 };
        let mut timeline = opened("poisson", &values, &pace).unwrap();
        let times: Vec<_> = std::iter::from_fn(|| timeline.next()).map(|x| x.0).collect();
        assert_eq!(times.len(), 900);
        assert!(times.windows(2).all(|w| w[1] - w[0] >= 20_480), "2048 bit at 100 Gbit/s");
        assert!(times.windows(2).any(|w| w[1] - w[0] == 20_480));
    }

    #[test]
    fn runs_beyond_the_range_of_time_are_refused() {
        let pace = Pace { period: vec![1.0, 1.0], updates: 1000, update_bits: 72_288 };
        let far = Pace { period: vec![1.0, 1e308], ..pace.clone() };
        for (kind, values, pace, key) in [
            ("constant", &[("offered", "1bps".into())][..], &pace, "schedule.offered"),
            ("poisson", &[("offered", "1bps".into())], &pace, "schedule.offered"),
            ("constant", &[("period", "2500h".into())], &pace, "schedule.period"),
            ("poisson", &[("period", "1ms".into())], &far, "schedule.period"),
            ("on_off", &[("offered", "1bps".into())], &pace, "schedule.offered"),
            ("constant", &[("offered", "1Gbps".into()), ("line_rate", "1bps".into())], &pace, "schedule.line_rate"),
        ] {
            let message = opened(kind, values, pace).err().expect(kind).to_string();
            assert!(message.contains(key) && message.contains("26 days"), "{kind}: {message}");
        }
    }

    #[test]
    fn a_timeline_that_reaches_the_end_of_time_says_so() {
        // Within the range on the mean, but not in every draw: the gaps are exponential.
        let pace = Pace { period: vec![1.0; 64], updates: 2, update_bits: 8 };
        let mut timeline = opened("poisson", &[("period", "600h".into())], &pace).unwrap();
        let times: Vec<_> = std::iter::from_fn(|| timeline.next()).map(|x| x.0).collect();
        assert!(times.len() < 128 && times.is_sorted() && *times.last().unwrap() <= HORIZON);
        let failure = timeline.failure().expect("a reason");
        assert!(failure.contains("26 days") && failure.contains("schedule.period"), "{failure}");
    }
}
