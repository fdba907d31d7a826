//! From `[schedule]` to a timeline, serialised at a line rate if asked for.

use super::{Pace, SCHEDULES, Timeline};
use crate::config::Section;
use crate::registry::find;
use crate::seed::Seed;
use crate::time::{Serialiser, Time};
use crate::units::{Rate, Size};
use crate::{Error, Result};

/// Opens the schedule that `kind` names, or `default`. With `line_rate`, generations follow each other no faster
/// than frames at that rate: one generator emulates all workers, and a worker's update exists when the
/// generator gets to it. (OLAF's AoM counts from the send time, Figure 5.)
pub fn open(section: &mut Section, default: &str, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>> {
    let kind: String = section.get("kind", default)?;
    let kind = find(SCHEDULES, "schedule", &kind, &section.place("kind"))?;
    let timeline = kind.open(section, pace, seed)?;
    let Some(rate) = section.get_opt::<Rate>("line_rate")? else { return Ok(timeline) };
    if rate.bps() == 0 {
        return Err(Error::config(format!("{}: a line rate must be above 0", section.place("line_rate"))));
    }
    let line = Serialiser::new(rate, Size::default());
    Ok(Box::new(Serialised { timeline, line, bytes: (pace.update_bits / 8) as u32, free_at: 0 }))
}

struct Serialised {
    timeline: Box<dyn Timeline + Send>,
    line: Serialiser,
    bytes: u32,
    free_at: Time,
}

impl Timeline for Serialised {
    fn next(&mut self) -> Option<(Time, u32)> {
        let (time, worker) = self.timeline.next()?;
        let starts = time.max(self.free_at);
        self.free_at = starts + self.line.take(self.bytes);
        Some((starts, worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_keep_the_line_rate_and_their_order() {
        let values = [("offered", "60Gbps".into()), ("line_rate", "100Gbps".into())];
        let pace = Pace { period: vec![1.0, 1.0, 4.0], updates: 300, update_bits: 2048 };
        let mut timeline = open(&mut Section::of("schedule", &values), "poisson", &pace, Seed(1)).unwrap();
        let times: Vec<_> = std::iter::from_fn(|| timeline.next()).map(|x| x.0).collect();
        assert_eq!(times.len(), 900);
        assert!(times.windows(2).all(|w| w[1] - w[0] >= 20_480), "2048 bit at 100 Gbit/s");
        assert!(times.windows(2).any(|w| w[1] - w[0] == 20_480));
    }
}
