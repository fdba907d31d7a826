//! Fault of the k-th frame of one direction: a function of the seed, the end, the direction and k alone.

use std::fmt;

use pktgen_core::config::{Key, Section, settings};
use pktgen_core::seed::{Seed, Stream, unit};
use pktgen_core::time::Time;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

/// Maximum number of frames by which a frame may be held back.
const BY_MAX: u64 = 1024;

/// The configured faults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Probability of independent loss of a frame.
    pub loss: f64,
    /// Bursty loss.
    pub burst: Option<Burst>,
    /// Probability of duplication.
    pub duplicate: f64,
    /// Probability of delay.
    pub reorder: f64,
    /// Number of later frames that overtake a delayed frame.
    pub by: u64,
    /// Maximum delay if no frame passes.
    pub hold: Time,
    /// Probability that one bit flips.
    pub corrupt: f64,
    /// Whether they apply towards the server.
    pub up: bool,
    /// Whether they apply towards the workers.
    pub down: bool,
}

/// The Gilbert-Elliott model: a channel that is good or bad, with a loss probability in each state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Probability per frame of a change from good to bad.
    pub p: f64,
    /// Probability per frame of a change from bad to good.
    pub r: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl Burst {
    /// Returns the share of frames that meet the bad state.
    pub(super) fn bad(&self) -> f64 {
        self.p / (self.p + self.r)
    }
}

impl Faults {
    /// All keys.
    pub const KEYS: &'static [Key] = Written::KEYS;

    /// Reads the keys; `None` if there are no faults.
    pub fn read(section: &mut Section, linger: Time) -> Result<Option<Self>> {
        let loss = Written::fault_loss(section)?.unwrap_or(0.0);
        let burst = read_burst(section)?;
        let duplicate = Written::fault_duplicate(section)?.unwrap_or(0.0);
        let reorder = Written::fault_reorder(section)?.unwrap_or(0.0);
        let corrupt = Written::fault_corrupt(section)?.unwrap_or(0.0);
        if burst.is_none() && loss + duplicate + reorder + corrupt == 0.0 {
            return Ok(None);
        }
        let (by, hold) = read_reorder(section, linger, reorder > 0.0)?;
        let (up, down) = Written::fault_at(section)?;
        Ok(Some(Faults { loss, burst, duplicate, reorder, by, hold, corrupt, up, down }))
    }
}

fn read_burst(section: &mut Section) -> Result<Option<Burst>> {
    let p = Written::fault_burst_p(section)?.unwrap_or(0.0);
    let loss_good = Written::fault_loss_good(section)?.unwrap_or(0.0);
    if p == 0.0 {
        // The channel stays good.
        return Ok((loss_good > 0.0).then_some(Burst { p, r: 1.0, loss_good, loss_bad: 1.0 }));
    }
    let r = Written::fault_burst_r(section)?.unwrap_or(0.0);
    if r == 0.0 {
        return Err(Error::config(format!(
            "{}: with 0 a bad channel never becomes good again; give the probability per frame that it does, which is 1 \
             over the mean length of a burst in frames",
            section.place("fault_burst_r")
        )));
    }
    let loss_bad = Written::fault_loss_bad(section)?.unwrap_or(1.0);
    Ok(Some(Burst { p, r, loss_good, loss_bad }))
}

fn read_reorder(section: &mut Section, linger: Time, wanted: bool) -> Result<(u64, Time)> {
    if !wanted {
        return Ok((1, 0));
    }
    let by = Written::fault_reorder_by(section)?;
    let hold = Written::fault_reorder_hold(section)?;
    if hold.ps() >= linger {
        return Err(Error::config(format!(
            "{}: {hold} is not below transport.linger, so the last frames could be held beyond the run's end",
            section.place("fault_reorder_hold")
        )));
    }
    Ok((by, hold.ps()))
}

/// Whether faults apply upwards, and downwards.
type Ways = (bool, bool);

settings! {
    /// What is read from `[transport]`; what is not written and means nothing is not put into the resolved whole.
    keys Written {
        /// Probability that a frame is lost.
        fault_loss: Option<f64> said "0" in 0.0..=1.0;
        /// Probability per frame that a good channel becomes bad: losses come in bursts.
        fault_burst_p: Option<f64> said "0" in 0.0..=1.0;
        /// Probability per frame that a bad channel becomes good again.
        fault_burst_r: Option<f64> said "0" in 0.0..=1.0;
        /// Probability of loss while a channel is good; with `fault_burst_p` 0 it always is.
        fault_loss_good: Option<f64> said "0" in 0.0..=1.0;
        /// Probability of loss while a channel is bad.
        fault_loss_bad: Option<f64> said "1" in 0.0..=1.0;
        /// Probability that a frame is duplicated.
        fault_duplicate: Option<f64> said "0" in 0.0..=1.0;
        /// Probability that a frame is delayed (reordered).
        fault_reorder: Option<f64> said "0" in 0.0..=1.0;
        /// Frames that overtake a delayed frame.
        fault_reorder_by: u64 = 3 in 1..=BY_MAX;
        /// Maximum time for which a frame is delayed, on wires time without a later frame; below `linger`.
        fault_reorder_hold: Span = "5ms";
        /// Probability that one bit of a frame is flipped, anywhere in it.
        fault_corrupt: Option<f64> said "0" in 0.0..=1.0;
        /// Direction of the faults.
        fault_at: Ways = "both" of [
            ("up", (true, false), "towards the server"), ("down", (false, true), "towards the workers"), ("both", (true, true), "")
        ];
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loss {}", self.loss)?;
        if let Some(Burst { p, r, loss_good, loss_bad }) = self.burst {
            write!(f, ", bursts p {p} r {r} with loss {loss_good} while good and {loss_bad} while bad")?;
        }
        write!(f, ", duplicate {}, corrupt {}", self.duplicate, self.corrupt)?;
        if self.reorder > 0.0 {
            write!(f, ", reorder {} by {} frames or {}", self.reorder, self.by, Span::from_ps(self.hold))?;
        }
        Ok(())
    }
}

/// The faults of one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrameFault {
    /// It is lost; no other fault applies then.
    pub lost: bool,
    /// It is duplicated.
    pub duplicated: bool,
    /// It is delayed.
    pub held: bool,
    /// One bit is flipped, at this share of its bits.
    pub flip: Option<f64>,
}

impl FrameFault {
    /// Returns whether there is no fault.
    #[inline]
    pub fn is_clean(&self) -> bool {
        !self.lost && !self.duplicated && !self.held && self.flip.is_none()
    }
}

/// The faults of the frames of one direction, in order. Each kind of fault has a separate random stream, so that none
/// shifts another, and a higher loss loses the same frames and more.
#[derive(Debug)]
pub struct FaultStreams {
    faults: Faults,
    loss: Stream,
    burst: Stream,
    duplicate: Stream,
    reorder: Stream,
    corrupt: Stream,
    bad: bool,
}

impl FaultStreams {
    /// The faults of the link or end numbered `place`.
    pub fn new(faults: Faults, seed: Seed, place: u64, up: bool) -> Self {
        let stream = |what: &str| seed.stream(what, place, u64::from(up));
        let mut burst = stream("fault.burst");
        // Drawn from the stationary distribution, so that the mean holds from the first frame on.
        let bad = faults.burst.is_some_and(|model| unit(&mut burst) < model.bad());
        FaultStreams {
            faults,
            loss: stream("fault.loss"),
            burst,
            duplicate: stream("fault.duplicate"),
            reorder: stream("fault.reorder"),
            corrupt: stream("fault.corrupt"),
            bad,
        }
    }

    /// Draws the faults of the next frame.
    #[inline]
    pub fn draw(&mut self) -> FrameFault {
        let hits = |stream: &mut Stream, probability: f64| probability > 0.0 && unit(stream) < probability;
        // Every stream advances, regardless of the others.
        let alone = hits(&mut self.loss, self.faults.loss);
        let in_burst = self.lost_in_burst();
        let fate = FrameFault {
            lost: false,
            duplicated: hits(&mut self.duplicate, self.faults.duplicate),
            held: hits(&mut self.reorder, self.faults.reorder),
            flip: self.flip(),
        };
        if alone || in_burst { FrameFault { lost: true, ..FrameFault::default() } } else { fate }
    }

    fn lost_in_burst(&mut self) -> bool {
        let Some(model) = self.faults.burst else { return false };
        let lost = unit(&mut self.burst) < if self.bad { model.loss_bad } else { model.loss_good };
        let turns = unit(&mut self.burst) < if self.bad { model.r } else { model.p };
        self.bad ^= turns;
        lost
    }

    fn flip(&mut self) -> Option<f64> {
        if self.faults.corrupt == 0.0 {
            return None;
        }
        let (hit, place) = (unit(&mut self.corrupt), unit(&mut self.corrupt));
        (hit < self.faults.corrupt).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Value;
    use pktgen_core::time::SECOND;

    use super::*;

    fn read(values: &[(&str, Value)]) -> Option<Faults> {
        Faults::read(&mut Section::of("transport", values), SECOND).unwrap()
    }

    #[test]
    fn a_channel_that_never_becomes_bad_loses_as_a_good_one() {
        let good = [("fault_burst_p", 0.0.into()), ("fault_loss_good", 0.2.into()), ("fault_burst_r", 0.5.into())];
        let faults = read(&good).expect("there are faults");
        assert_eq!(read(&good[1..2]), Some(faults));
        let mut streams = FaultStreams::new(faults, Seed(1), 0, true);
        let lost = (0..100_000).filter(|_| streams.draw().lost).count();
        assert!((19_000..21_000).contains(&lost), "{lost}");
        assert_eq!(read(&[("fault_burst_p", 0.0.into()), ("fault_loss_good", 0.0.into())]), None);
        // The limit of rare changes.
        let rare = [("fault_burst_p", 1e-9.into()), ("fault_loss_good", 0.2.into()), ("fault_burst_r", 0.5.into())];
        let mut rarely = FaultStreams::new(read(&rare).expect("there are faults"), Seed(1), 0, true);
        assert_eq!((0..100_000).filter(|_| rarely.draw().lost).count(), lost);
    }
}
