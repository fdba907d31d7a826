//! One trial of performance on a bench: sends paced frames, receives frames, and keeps an account.

use pktgen_core::Result;
use pktgen_core::time::{MS, Time, US};
use pktgen_engine::clause::{LoadAccount, LoadModel, LoadWorkers, OfferedLoad, ProbeBench, ProbeGround, ProbeMemory};

/// Frames that are sent before received ones are read.
const BURST: usize = 16;
/// How often missing frames are requested from a device after a trial.
const ASKED: usize = 4;
/// Maximum lateness of the bench: a trial's length divided by this.
const LATE: Time = 100;

/// A completed trial.
#[derive(Debug, Clone)]
pub(crate) struct MadeTrial {
    pub(crate) account: LoadAccount,
    /// The reason why the result is a limit of the bench, not of the device.
    pub(crate) bench_limit: Option<String>,
    /// Whether the bench offered the rate: it may have caused losses in between, and no others.
    pub(crate) is_offered: bool,
}

/// Lateness of the frames that could leave.
#[derive(Debug, Clone, Copy, Default)]
struct Lateness {
    most: Time,
    /// That of the last one.
    last: Time,
}

/// The reason why there is no trial.
pub(crate) enum NoTrial {
    /// It cannot be made.
    Impossible(String),
    /// The device ended, or its end was wrong.
    Ended(String),
}

/// Makes the trials of a clause.
pub(crate) struct TrialMaker<'a> {
    pub(crate) model: &'static LoadModel,
    pub(crate) ground: &'a ProbeGround,
    pub(crate) bench: &'a mut dyn ProbeBench,
    pub(crate) memory: &'a mut ProbeMemory,
    /// How long after a trial missing frames are awaited.
    pub(crate) wait: Time,
    /// Distinguishes the contents of this certificate.
    pub(crate) seed: u64,
    /// Trials so far.
    pub(crate) made: u32,
    /// Frames of them that were sent.
    pub(crate) frames: u64,
}

type Tried<T> = Result<std::result::Result<T, NoTrial>>;

impl<'a> TrialMaker<'a> {
    /// Creates the maker for the trials of one clause.
    pub(crate) fn new(
        model: &'static LoadModel,
        ground: &'a ProbeGround,
        bench: &'a mut dyn ProbeBench,
        memory: &'a mut ProbeMemory,
        (wait, seed): (Time, u64),
    ) -> Self {
        TrialMaker { model, ground, bench, memory, wait, seed, made: 0, frames: 0 }
    }

    /// Returns the workers for the next trial.
    pub(crate) fn workers(&mut self, mut load: OfferedLoad) -> Tried<Box<dyn LoadWorkers>> {
        load.draw = load.draw.wrapping_add(self.seed.rotate_left(20)).wrapping_add(u64::from(self.made) << 8);
        Ok((self.model.open)(self.ground, self.memory, load).map_err(NoTrial::Impossible))
    }

    /// Prepares a trial: restarts the device if possible.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.bench.restart(self.made)? {
            self.memory.clear();
        }
        self.made += 1;
        self.bench.settle(&mut |_, _, _| {})
    }

    /// Makes a trial.
    pub(crate) fn one(&mut self, load: OfferedLoad) -> Tried<MadeTrial> {
        self.begin()?;
        let (length, is_burst) = (load.length(), load.phases.iter().all(|phase| phase.gap_ps == 0.0));
        let mut workers = match self.workers(load)? {
            Ok(workers) => workers,
            Err(why) => return Ok(Err(why)),
        };
        self.carry_out(workers.as_mut(), length, is_burst)
    }

    /// Makes a trial with a second job beside it, whose frames are not counted.
    pub(crate) fn one_beside(&mut self, load: OfferedLoad, other: OfferedLoad) -> Tried<MadeTrial> {
        self.begin()?;
        let length = load.length();
        let (own, other) = match (self.workers(load)?, self.workers(other)?) {
            (Ok(own), Ok(other)) => (own, other),
            (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
        };
        self.carry_out(&mut SideBySide { pair: [own, other], chosen: 0 }, length, false)
    }

    fn carry_out(&mut self, workers: &mut dyn LoadWorkers, length: Time, is_burst: bool) -> Tried<MadeTrial> {
        let (lost, begin) = (self.bench.lost()?, self.bench.now());
        let (late, apart) = ((length / LATE).max(MS / 100), workers.apart());
        let behind = self.send(workers, (begin, length), if is_burst { Time::MAX } else { length + late })?;
        let end = self.bench.now() + self.wait;
        while !workers.is_complete() && self.bench.now() < end && self.bench.ended().is_none() {
            self.bench.next_frame(end, &mut |t, port, bytes| workers.take(t - begin, port, bytes))?;
        }
        let account = workers.account();
        self.leave(workers, begin)?;
        self.frames += account.offered - account.unsent;
        if let Some(why) = self.bench.ended().or_else(|| self.bench.quit()) {
            return Ok(Err(NoTrial::Ended(why)));
        }
        let lost = self.bench.lost()? - lost;
        let is_offered = lost == 0 && behind.last <= late;
        // An intermediate late frame may have caused the lost burst; a rate was not offered if the last frame was late.
        let (behind, is_late) = match account.loss() > 0.0 {
            true => (behind.most, behind.most > late || behind.most >= apart),
            false => (behind.last, behind.last > late),
        };
        let bench_limit = match (lost, is_late && !is_burst) {
            (0, false) => None,
            (0, true) => Some(format!("the bench was {} µs late for its schedule", behind / US)),
            (lost, _) => Some(format!("{lost} frames were lost between the device and its cables' ends")),
        };
        Ok(Ok(MadeTrial { account, bench_limit, is_offered }))
    }

    /// Sends the frames that are due; returns the lateness of those that could leave.
    fn send(
        &mut self,
        workers: &mut dyn LoadWorkers,
        (begin, length): (Time, Time),
        give_up: Time,
    ) -> Result<Lateness> {
        let (mut behind, mut sent) = (Lateness::default(), 0);
        loop {
            let now = self.bench.now() - begin;
            let next = workers.next();
            if let Some(due) = next.filter(|due| now >= give_up && *due <= now) {
                return Ok(Lateness { most: behind.most.max(now - due), last: now - due });
            }
            let until = match next {
                Some(due) if due <= now => {
                    behind = Lateness { most: behind.most.max(now - due), last: now - due };
                    let arrival = self.bench.arrival() - begin;
                    let (port, bytes) = workers.send(arrival);
                    self.bench.frame_in(port, bytes)?;
                    // A pause before the frame has left delays it, too.
                    behind.most = behind.most.max(self.bench.now() - begin - due);
                    sent += 1;
                    if !usize::is_multiple_of(sent, BURST) {
                        continue;
                    }
                    now
                }
                Some(due) => due,
                None if now < length => length,
                None => return Ok(behind),
            };
            self.bench.next_frame(begin + until, &mut |t, port, bytes| workers.take(t - begin, port, bytes))?;
            if self.bench.ended().is_some() {
                return Ok(behind);
            }
        }
    }

    /// Lets the device finish, so that another trial may follow.
    fn leave(&mut self, workers: &mut dyn LoadWorkers, begin: Time) -> Result<()> {
        for _ in 0..ASKED {
            self.bench.settle(&mut |t, port, bytes| workers.take(t - begin, port, bytes))?;
            let asks = workers.asks();
            if asks.is_empty() {
                break;
            }
            asks.iter().try_for_each(|(port, bytes)| self.bench.frame_in(*port, bytes))?;
        }
        workers.leave(self.memory);
        Ok(())
    }

    /// Workers send at once, lose all results, and request them at once; the account has the results by the time since the request.
    pub(crate) fn lost_results(&mut self, load: OfferedLoad) -> Tried<MadeTrial> {
        self.begin()?;
        let mut workers = match self.workers(load)? {
            Ok(workers) => workers,
            Err(why) => return Ok(Err(why)),
        };
        let lost = self.bench.lost()?;
        while workers.next().is_some() {
            let arrival = self.bench.arrival();
            let (port, bytes) = workers.send(arrival);
            self.bench.frame_in(port, bytes)?;
        }
        self.bench.settle(&mut |_, _, _| {})?;
        let asks = workers.asks();
        let begin = self.bench.arrival();
        for (at, (port, bytes)) in asks.iter().enumerate() {
            self.bench.frame_in(*port, bytes)?;
            if at.is_multiple_of(BURST) {
                let now = self.bench.now();
                self.bench.next_frame(now, &mut |t, port, bytes| workers.take(t - begin, port, bytes))?;
            }
        }
        let end = self.bench.now() + self.wait;
        while !workers.is_complete() && self.bench.now() < end && self.bench.ended().is_none() {
            self.bench.next_frame(end, &mut |t, port, bytes| workers.take(t - begin, port, bytes))?;
        }
        let account = workers.account();
        self.leave(workers.as_mut(), begin)?;
        self.frames += account.offered + asks.len() as u64;
        if let Some(why) = self.bench.ended().or_else(|| self.bench.quit()) {
            return Ok(Err(NoTrial::Ended(why)));
        }
        let lost = self.bench.lost()? - lost;
        let bench_limit =
            (lost > 0).then(|| format!("{lost} frames were lost between the device and its cables' ends"));
        Ok(Ok(MadeTrial { account, bench_limit, is_offered: lost == 0 }))
    }
}

/// Workers of a trial and others, of which nothing is counted.
struct SideBySide {
    pair: [Box<dyn LoadWorkers>; 2],
    chosen: usize,
}

impl LoadWorkers for SideBySide {
    fn next(&mut self) -> Option<Time> {
        let all = [self.pair[0].next(), self.pair[1].next()];
        let (t, chosen) = (0..2).filter_map(|n| Some((all[n]?, n))).min()?;
        self.chosen = chosen;
        Some(t)
    }

    fn send(&mut self, t: Time) -> (u16, &[u8]) {
        self.pair[self.chosen].send(t)
    }

    fn take(&mut self, t: Time, port: u16, bytes: &[u8]) {
        self.pair.iter_mut().for_each(|own| own.take(t, port, bytes));
    }

    fn is_complete(&self) -> bool {
        self.pair[0].is_complete()
    }

    fn account(&mut self) -> LoadAccount {
        self.pair[0].account()
    }

    fn asks(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.pair.iter_mut().flat_map(|own| own.asks()).collect()
    }

    fn leave(&mut self, memory: &mut ProbeMemory) {
        self.pair.iter_mut().for_each(|own| own.leave(memory));
    }

    fn apart(&self) -> Time {
        self.pair[0].apart().min(self.pair[1].apart())
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
