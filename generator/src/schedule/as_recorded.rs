//! The times of a trace, as they are or scaled; [`crate::workload`] applies them.

use super::{Pace, Schedule, Timeline};
use crate::config::Section;
use crate::registry::Named;
use crate::seed::Seed;
use crate::units::Rate;
use crate::{Error, Result};

/// `kind = "as_recorded"`.
pub struct AsRecorded;

impl Named for AsRecorded {
    fn name(&self) -> &'static str {
        "as_recorded"
    }
    fn about(&self) -> &'static str {
        "the trace's own times, scaled by speed or to an offered rate"
    }
}

impl Schedule for AsRecorded {
    fn keys(&self) -> &'static [&'static str] {
        &["speed", "offered"]
    }

    fn open(&self, section: &mut Section, _: &Pace, _: Seed) -> Result<Box<dyn Timeline + Send>> {
        Tempo::read(section)?;
        Err(Error::config(format!(
            "{}: \"as_recorded\" needs a trace; set workload.trace to a file, or choose another schedule",
            section.place("kind")
        )))
    }
}

/// What is done to the times of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tempo {
    /// Nothing.
    Recorded,
    /// They are divided by this number, from 10⁻⁹ to 10⁹.
    Speed(f64),
    /// They are stretched so that the whole run has this mean rate, which is above 0.
    Offered(Rate),
}

impl Tempo {
    /// Reads `speed` or `offered`; with neither, times stay as recorded.
    ///
    /// The rule, whatever `schedule.kind` says (also where it is `as_recorded`): both keys belong to replayed
    /// traces and count exactly when they are written. So `--set workload.trace=FILE` on an experiment with
    /// `offered = "60Gbps"` replays the file at 60 Gbit/s, and an experiment that writes neither replays the
    /// times of the file. All other keys of schedules (`line_rate` too) shape synthetic times only.
    pub fn read(section: &mut Section) -> Result<Self> {
        let speed: Option<f64> = section.get_opt("speed")?;
        let offered: Option<Rate> = section.get_opt("offered")?;
        match (speed, offered) {
            (None, None) => Ok(Tempo::Recorded),
            (Some(_), Some(_)) => Err(Error::config(format!(
                "{}: \"speed\" and \"offered\" are both given; a trace is scaled by one of them",
                section.place("speed")
            ))),
            (Some(speed), None) if (1e-9..=1e9).contains(&speed) => Ok(Tempo::Speed(speed)),
            (Some(speed), None) => {
                Err(Error::config(format!("{}: {speed:e} is not from 1e-9 to 1e9", section.place("speed"))))
            }
            (None, Some(rate)) if rate.bps() > 0 => Ok(Tempo::Offered(rate)),
            (None, Some(rate)) => {
                Err(Error::config(format!("{}: {rate} is not above 0; choose more", section.place("offered"))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_when_they_are_written() {
        let read = |values: &[(&str, crate::config::Value)]| Tempo::read(&mut Section::of("schedule", values));
        assert_eq!(read(&[]).unwrap(), Tempo::Recorded);
        assert_eq!(read(&[("speed", 2.0.into())]).unwrap(), Tempo::Speed(2.0));
        assert_eq!(read(&[("offered", "1Gbps".into())]).unwrap(), Tempo::Offered(Rate::from_bps(1_000_000_000)));
        for values in [
            &[("speed", 0.0.into())][..],
            &[("speed", (-1.0).into())],
            &[("speed", 1e300.into())],
            &[("offered", "0bps".into())],
            &[("speed", 1.0.into()), ("offered", "1Gbps".into())],
        ] {
            let message = read(values).unwrap_err().to_string();
            assert!(message.contains("schedule."), "{message}");
        }
    }
}
