//! What a fault does to the k-th frame of one direction: decided by the seed, the end, the direction and k alone.

use std::fmt;

use pktgen_core::config::{Key, Section, settings};
use pktgen_core::seed::{Seed, Stream, unit};
use pktgen_core::time::Time;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

/// How far a frame may be held back, in frames.
const BY_MAX: u64 = 1024;

/// The keys of faults, read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Each frame is lost with this probability, whatever happens to others.
    pub loss: f64,
    /// Loss that comes in bursts.
    pub burst: Option<Burst>,
    /// Probability of arriving twice.
    pub duplicate: f64,
    /// Probability of being held back.
    pub reorder: f64,
    /// Until so many later frames have passed.
    pub by: u64,
    /// Or until nothing has passed for so long.
    pub hold: Time,
    /// Probability that one bit flips.
    pub corrupt: f64,
    /// Towards the server.
    pub up: bool,
    /// Towards the workers.
    pub down: bool,
}

/// The model of Gilbert and Elliott: a channel that is good or bad, and loses frames with a probability of each state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// From good to bad, per frame.
    pub p: f64,
    /// From bad to good, per frame.
    pub r: f64,
    /// Loss while good.
    pub loss_good: f64,
    /// Loss while bad.
    pub loss_bad: f64,
}

impl Burst {
    /// Share of frames that meet the bad state.
    pub(super) fn bad(&self) -> f64 {
        self.p / (self.p + self.r)
    }
}

impl Faults {
    /// The keys that are read.
    pub const KEYS: &'static [Key] = Written::KEYS;

    /// None if nothing is to happen.
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
    if p == 0.0 {
        return Ok(None);
    }
    let r = Written::fault_burst_r(section)?.unwrap_or(0.0);
    if r == 0.0 {
        return Err(Error::config(format!(
            "{}: with 0 a bad channel never becomes good again; give the probability per frame that it does, which is 1 \
             over the mean length of a burst in frames",
            section.place("fault_burst_r")
        )));
    }
    let loss_good = Written::fault_loss_good(section)?.unwrap_or(0.0);
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

/// Whether faults happen on the way up, and down.
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
        /// Probability of loss while a channel is good.
        fault_loss_good: Option<f64> said "0" in 0.0..=1.0;
        /// Probability of loss while a channel is bad.
        fault_loss_bad: Option<f64> said "1" in 0.0..=1.0;
        /// Probability that a frame is duplicated.
        fault_duplicate: Option<f64> said "0" in 0.0..=1.0;
        /// Probability that a frame is delayed (reordered).
        fault_reorder: Option<f64> said "0" in 0.0..=1.0;
        /// Frames that overtake a delayed frame.
        fault_reorder_by: u64 = 3 in 1..=BY_MAX;
        /// Maximum time for which a frame is delayed; below `linger`.
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

/// What happens to one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrameFault {
    /// It is lost; nothing else happens to it then.
    pub lost: bool,
    /// It is passed on twice.
    pub duplicated: bool,
    /// It is held back.
    pub held: bool,
    /// A bit flips: which, as a share of its bits.
    pub flip: Option<f64>,
}

impl FrameFault {
    /// Whether nothing happens.
    #[inline]
    pub fn is_clean(&self) -> bool {
        !self.lost && !self.duplicated && !self.held && self.flip.is_none()
    }
}

/// The fates of the frames of one direction, one after the other. Each kind of fault has a stream of its own, so that
/// none shifts another, and more loss loses the same frames and more.
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
    /// Of the link or the end with this number.
    pub fn new(faults: Faults, seed: Seed, place: u64, up: bool) -> Self {
        let stream = |what: &str| seed.stream(what, place, u64::from(up));
        let mut burst = stream("fault.burst");
        // As if the channel had been there for long, so that the mean holds from the first frame on.
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

    /// The next frame's.
    #[inline]
    pub fn draw(&mut self) -> FrameFault {
        let hits = |stream: &mut Stream, probability: f64| probability > 0.0 && unit(stream) < probability;
        // Every stream is drawn from, whatever the others say.
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
