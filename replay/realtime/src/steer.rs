//! Steering of a run in real time: pause, rate, end.
//!
//! Called from outside the run's threads ([`Steering::apply`]). Nothing on the packet path waits: a sending thread
//! checks one number per batch ([`follower`]), and shifts due and generation times by itself ([`warp`]).

mod follower;
mod warp;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::record::SteeredRow;
use pktgen_core::time::{MS, Time};

use crate::clock::RunClock;
use crate::live::View;
use crate::transport::TransportPlan;
pub(crate) use follower::{COPIES, Cap, Copies, Follower};
use follower::{Publisher, WAITING};
use warp::WarpPiece;

/// Delay until a change takes effect: all threads have received it by then.
const LEAD: Time = 4 * MS;
/// Range of the speed relative to the schedule.
const SPEEDS: (f64, f64) = (1e-6, 1e6);
/// Maximum rate, in packets per second.
const PPS_MAX: f64 = 1e9;
/// Number of changes that a run records; a stop is possible after them, too.
const CHANGES_MAX: u64 = 1 << 20;

/// A steering command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SteerCommand {
    /// Begins or resumes sending.
    Resume,
    /// Sends nothing until resumed.
    Pause,
    /// Sets the mean rate, in packets per second.
    Rate(f64),
    /// Multiplies the current rate.
    Factor(f64),
    /// Restarts live statistics at 0; records are not affected.
    Reset,
    /// Ends the run, as at the end of the updates.
    Stop,
}

/// The current steering of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerState {
    /// Name of the run; none if no run is in progress.
    pub run: Option<String>,
    /// Time of the run.
    pub t: Time,
    /// Whether it is paused.
    pub held: bool,
    /// Speed relative to its schedule when not paused; none for workers that react.
    pub speed: Option<f64>,
    /// The resulting mean rate, or the cap of workers that react; none without a cap.
    pub pps: Option<f64>,
    /// Number of changes so far.
    pub changes: u64,
}

/// The steerable properties of a run.
pub(crate) struct Steerable {
    pub(crate) name: String,
    /// Packets and bits per second that the schedule offers; none for workers that react.
    pub(crate) offered: Option<(f64, f64)>,
    /// Bits of the longest frame on a link.
    pub(crate) frame_bits: f64,
    pub(crate) transport: TransportPlan,
    /// Whether frames have deadlines.
    pub(crate) paced: bool,
    /// Whether workers react and drop late frames.
    pub(crate) drops_late: bool,
}

/// Called with the state after a change, and the time from which it takes effect.
type Tell = Box<dyn Fn(&SteerState, Option<Time>) + Send + Sync>;

/// Steers the runs of a process, one at a time.
pub struct Steering {
    stop: Arc<AtomicBool>,
    view: Arc<View>,
    /// Whether runs begin paused.
    hold: bool,
    socket: Option<PathBuf>,
    tell: Tell,
    run: Mutex<Option<SteeredRun>>,
}

/// The run in progress.
struct SteeredRun {
    plan: Steerable,
    clock: Option<RunClock>,
    published: Arc<AtomicU64>,
    publishers: Vec<Publisher>,
    /// The latest piece; for workers that react only its beginning is relevant.
    last: WarpPiece,
    held: bool,
    speed: f64,
    /// The cap of workers that react.
    cap: Option<f64>,
    rows: Vec<SteeredRow>,
    changes: u64,
}

impl Steering {
    /// Steers runs that `stop` ends, whose live statistics are in `view`, and which begin paused if `hold`. `socket` is
    /// the path for control, for manifests; `tell` is called with changes.
    pub fn new(stop: Arc<AtomicBool>, view: Arc<View>, hold: bool, socket: Option<PathBuf>, tell: Tell) -> Self {
        Steering { stop, view, hold, socket, tell, run: Mutex::new(None) }
    }

    /// Returns the path of its control socket.
    pub(crate) fn socket(&self) -> Option<String> {
        self.socket.as_ref().map(|path| path.display().to_string())
    }

    /// Registers a run that is about to begin.
    pub(crate) fn plan(&self, plan: Steerable) {
        let held = self.hold;
        *self.lock() = Some(SteeredRun {
            plan,
            clock: None,
            published: Arc::default(),
            publishers: Vec::new(),
            last: WarpPiece::first(held),
            held,
            speed: 1.0,
            cap: None,
            rows: Vec::new(),
            changes: 0,
        });
    }

    /// Returns followers for `threads` threads that move frames of a schedule.
    pub(crate) fn followers(&self, threads: usize) -> Vec<Follower> {
        let mut guard = self.lock();
        let Some(run) = guard.as_mut() else { return Vec::new() };
        let (publishers, followers): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| Follower::open(&run.published, run.held)).unzip();
        run.publishers = publishers;
        followers
    }

    /// Returns the cap for workers that react.
    pub(crate) fn cap(&self) -> Option<Cap> {
        let mut guard = self.lock();
        let run = guard.as_mut()?;
        let (publisher, cap) = Cap::open(&run.published, run.held);
        run.publishers = vec![publisher];
        Some(cap)
    }

    /// Starts its time.
    pub(crate) fn begin(&self, clock: &RunClock) {
        if let Some(run) = self.lock().as_mut() {
            run.clock = Some(clock.clone());
        }
        (self.tell)(&self.state(), None);
    }

    /// Ends the run. Returns its changes.
    pub(crate) fn end(&self) -> Vec<SteeredRow> {
        let rows = self.lock().take().map(|run| run.rows).unwrap_or_default();
        (self.tell)(&self.state(), None);
        rows
    }

    /// Returns the current steering of the run.
    pub fn state(&self) -> SteerState {
        self.lock().as_ref().filter(|run| run.clock.is_some()).map_or_else(SteerState::idle, SteeredRun::state)
    }

    /// Applies a command. Returns when it takes effect, or why it is impossible; a stop between runs, and during one that cannot be
    /// steered, has no time.
    pub fn apply(&self, command: SteerCommand) -> Result<Option<Time>, String> {
        let mut guard = self.lock();
        let Some(run) = guard.as_mut().filter(|run| run.clock.is_some()) else {
            if command != SteerCommand::Stop {
                return Err("no run that can be steered is in progress; try again when one is".into());
            }
            self.stop.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        let applied = run.apply(command)?;
        let state = run.state();
        drop(guard);
        match command {
            SteerCommand::Stop => self.stop.store(true, Ordering::Relaxed),
            SteerCommand::Reset => self.view.reset(),
            _ => {}
        }
        (self.tell)(&state, Some(applied));
        Ok(Some(applied))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SteeredRun>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SteerState {
    fn idle() -> Self {
        SteerState { run: None, t: 0, held: false, speed: None, pps: None, changes: 0 }
    }
}

impl SteeredRun {
    fn now(&self) -> Time {
        self.clock.as_ref().map_or(0, RunClock::now)
    }

    /// Returns the mean rate at the current speed, or the cap.
    fn pps(&self) -> Option<f64> {
        self.plan.offered.map_or(self.cap, |(pps, _)| self.plan.paced.then_some(pps * self.speed))
    }

    fn state(&self) -> SteerState {
        SteerState {
            run: Some(self.plan.name.clone()),
            t: self.now(),
            held: self.held,
            speed: self.plan.offered.filter(|_| self.plan.paced).map(|_| self.speed),
            pps: self.pps(),
            changes: self.changes,
        }
    }

    fn apply(&mut self, command: SteerCommand) -> Result<Time, String> {
        let asked = self.now();
        let applied = (asked + LEAD).max(self.last.run + 1);
        if self.changes >= CHANGES_MAX && command != SteerCommand::Stop {
            return Err(format!("a run keeps {CHANGES_MAX} changes, and there are as many; stop is possible"));
        }
        let applied = match command {
            SteerCommand::Stop | SteerCommand::Reset => asked,
            SteerCommand::Resume => self.publish(applied, |run| run.held = false)?,
            SteerCommand::Pause => {
                self.may_hold()?;
                self.publish(applied, |run| run.held = true)?
            }
            SteerCommand::Rate(pps) => {
                let speed = self.speed_for(pps)?;
                self.publish(applied, |run| (run.speed, run.cap) = (speed.unwrap_or(run.speed), Some(pps)))?
            }
            SteerCommand::Factor(factor) => {
                let Some(now) = self.pps() else {
                    return Err("these workers react to what they receive, and have no cap yet that a factor could \
                     change; set one: rate PPS"
                        .into());
                };
                let pps = now * factor;
                let speed = self.speed_for(pps)?;
                self.publish(applied, |run| (run.speed, run.cap) = (speed.unwrap_or(run.speed), Some(pps)))?
            }
        };
        self.changes += 1;
        self.rows.push(SteeredRow {
            t: asked,
            applied,
            schedule: self.plan.offered.map(|_| self.last.reach(applied).max(self.last.schedule)),
            held: self.held,
            speed: self.plan.offered.map(|_| self.speed as f32),
            pps: self.pps().map(|pps| pps as f32),
            reset: command == SteerCommand::Reset,
            stopped: command == SteerCommand::Stop,
        });
        Ok(applied)
    }

    /// Returns the speed at which the schedule has this rate, if there is a schedule; refuses invalid rates.
    fn speed_for(&self, pps: f64) -> Result<Option<f64>, String> {
        if !(pps > 0.0 && pps <= PPS_MAX) {
            return Err(format!("a rate of {pps} packets/s; give one above 0 and up to {PPS_MAX:e}, or pause"));
        }
        if !self.plan.paced {
            return Err(
                "transport.pacing = \"top\": these frames leave as fast as they can; pause and resume are possible"
                    .into(),
            );
        }
        let Some((offered, bits)) = self.plan.offered else {
            self.may_hold()?;
            self.plan.transport.check_link(pps * self.plan.frame_bits).map_err(|error| error.to_string())?;
            return Ok(None);
        };
        if !offered.is_finite() {
            return Err("the schedule has no rate: its updates are of one moment; pause and resume are possible".into());
        }
        let speed = pps / offered;
        let (low, high) = SPEEDS;
        if !(low..=high).contains(&speed) {
            return Err(format!(
                "{pps} packets/s are {speed:e} times the schedule's {offered:.1}; {low:e} to {high:e} times are possible"
            ));
        }
        self.plan.transport.check_link(bits * speed).map_err(|error| error.to_string())?;
        Ok(Some(speed))
    }

    /// Refuses to pause if frames that wait would be dropped as late.
    fn may_hold(&self) -> Result<(), String> {
        match self.plan.drops_late {
            true => Err("transport.late: these workers react, and what is held back would be dropped as too late; use late = \"catch_up\"".into()),
            false => Ok(()),
        }
    }

    /// Makes a change that takes effect at `at`, and publishes it to all threads, or to none.
    fn publish(&mut self, at: Time, change: impl FnOnce(&mut Self)) -> Result<Time, String> {
        if !self.publishers.iter().all(Publisher::has_room) {
            return Err(format!("{WAITING} changes wait for the run's threads; try again later"));
        }
        let before = (self.held, self.speed, self.cap);
        change(self);
        if before == (self.held, self.speed, self.cap) {
            return Ok(at);
        }
        let piece = match self.plan.offered {
            Some(_) => self.last.then(at, if self.held { 0.0 } else { self.speed }),
            None => Cap::piece(at, if self.held { 0.0 } else { self.cap.unwrap_or(f64::INFINITY) }),
        };
        // The thread that keeps the records first: it knows a change before frames sent under it return.
        self.publishers.iter_mut().rev().for_each(|publisher| publisher.push(piece));
        self.published.fetch_add(1, Ordering::Release);
        self.last = piece;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TRANSPORTS;

    /// A sweep may have runs in virtual time, which cannot be steered.
    #[test]
    fn a_stop_needs_no_run_that_can_be_steered() {
        let stop = Arc::new(AtomicBool::new(false));
        let steering = Steering::new(stop.clone(), Arc::default(), false, None, Box::new(|_, _| {}));
        for command in [SteerCommand::Pause, SteerCommand::Rate(5.0), SteerCommand::Reset] {
            let why = steering.apply(command).unwrap_err();
            assert!(why.contains("no run that can be steered is in progress"), "{why}");
        }
        assert!(!stop.load(Ordering::Relaxed));
        assert_eq!(steering.apply(SteerCommand::Stop), Ok(None));
        assert!(stop.load(Ordering::Relaxed));
    }

    #[test]
    fn a_run_with_all_changes_that_it_keeps_can_be_stopped() {
        let steering = Steering::new(Arc::default(), Arc::default(), false, None, Box::new(|_, _| {}));
        let transport = TransportPlan::of(TRANSPORTS[0]);
        let offered = Some((1e3, 1e6));
        let (name, frame_bits) = ("run".to_owned(), 8e3);
        steering.plan(Steerable { name, offered, frame_bits, transport, paced: true, drops_late: false });
        let mut guard = steering.lock();
        let run = guard.as_mut().unwrap();
        run.changes = CHANGES_MAX - 1;
        assert!(run.apply(SteerCommand::Pause).is_ok());
        for command in [SteerCommand::Resume, SteerCommand::Factor(2.0), SteerCommand::Reset] {
            assert!(run.apply(command).unwrap_err().contains("keeps 1048576 changes"), "{command:?}");
        }
        assert!(run.apply(SteerCommand::Stop).is_ok());
        assert!(run.rows.len() == 2 && run.rows[1].stopped);
    }
}
