//! A run in real time, steered while it lasts: paused, faster, slower, ended.
//!
//! Called from outside of the run's threads ([`Steering::apply`]). Nothing on the packet path waits: a thread that sends looks at one
//! number per batch ([`follower`]), and moves due and generation times by itself ([`warp`]).

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

/// A change is in force so long after it was asked for: all threads know of it by then.
const LEAD: Time = 4 * MS;
/// How far a factor goes, against the schedule.
const SPEEDS: (f64, f64) = (1e-6, 1e6);
/// The highest rate, in packets per second.
const PPS_MAX: f64 = 1e9;
/// Changes that a run keeps.
const CHANGES_MAX: usize = 1 << 20;

/// What a run can be told to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SteerCommand {
    /// Begin to send, or go on.
    Resume,
    /// Send nothing until told to go on.
    Pause,
    /// Send at this mean rate, in packets per second.
    Rate(f64),
    /// Send so many times as fast as now.
    Factor(f64),
    /// Count from 0 in live statistics; records keep everything.
    Reset,
    /// End, as at the end of the updates.
    Stop,
}

/// How a run is steered at present.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerState {
    /// Its name; none while no run is in progress.
    pub run: Option<String>,
    /// Its time.
    pub t: Time,
    /// It sends nothing.
    pub held: bool,
    /// Against its schedule, when it is not held; none for workers that react.
    pub speed: Option<f64>,
    /// Mean rate that follows from it, or the cap of workers that react; none where there is no cap.
    pub pps: Option<f64>,
    /// Changes so far.
    pub changes: u64,
}

/// What the steered part of a run is.
pub(crate) struct Steerable {
    pub(crate) name: String,
    /// Packets and bits per second that the schedule offers; none of workers that react.
    pub(crate) offered: Option<(f64, f64)>,
    /// Bits of the longest frame, on a link.
    pub(crate) frame_bits: f64,
    pub(crate) transport: TransportPlan,
    /// Frames have deadlines.
    pub(crate) paced: bool,
    /// Workers react, and their frames are dropped if they are late.
    pub(crate) drops_late: bool,
}

/// What is told of a change: the state after it, and from when on it is in force.
type Tell = Box<dyn Fn(&SteerState, Option<Time>) + Send + Sync>;

/// Steers the runs of a process, one at a time.
pub struct Steering {
    stop: Arc<AtomicBool>,
    view: Arc<View>,
    /// Runs begin held.
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
    /// The latest piece; of workers that react only its beginning counts.
    last: WarpPiece,
    held: bool,
    speed: f64,
    /// The cap of workers that react.
    cap: Option<f64>,
    rows: Vec<SteeredRow>,
    changes: u64,
}

impl Steering {
    /// Steers runs that `stop` ends, whose live statistics are in `view`, and which begin held if `hold`. `socket` is where it is
    /// reached, for manifests; `tell` hears of changes.
    pub fn new(stop: Arc<AtomicBool>, view: Arc<View>, hold: bool, socket: Option<PathBuf>, tell: Tell) -> Self {
        Steering { stop, view, hold, socket, tell, run: Mutex::new(None) }
    }

    /// Where it is reached.
    pub(crate) fn socket(&self) -> Option<String> {
        self.socket.as_ref().map(|path| path.display().to_string())
    }

    /// A run is about to begin.
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

    /// Followers for so many threads that move frames of a schedule.
    pub(crate) fn followers(&self, threads: usize) -> Vec<Follower> {
        let mut guard = self.lock();
        let Some(run) = guard.as_mut() else { return Vec::new() };
        let (publishers, followers): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| Follower::open(&run.published, run.held)).unzip();
        run.publishers = publishers;
        followers
    }

    /// The cap of workers that react.
    pub(crate) fn cap(&self) -> Option<Cap> {
        let mut guard = self.lock();
        let run = guard.as_mut()?;
        let (publisher, cap) = Cap::open(&run.published, run.held);
        run.publishers = vec![publisher];
        Some(cap)
    }

    /// Its time begins.
    pub(crate) fn begin(&self, clock: &RunClock) {
        if let Some(run) = self.lock().as_mut() {
            run.clock = Some(clock.clone());
        }
        (self.tell)(&self.state(), None);
    }

    /// The run has ended. Returns its changes.
    pub(crate) fn end(&self) -> Vec<SteeredRow> {
        let rows = self.lock().take().map(|run| run.rows).unwrap_or_default();
        (self.tell)(&self.state(), None);
        rows
    }

    /// How the run is steered at present.
    pub fn state(&self) -> SteerState {
        self.lock().as_ref().filter(|run| run.clock.is_some()).map_or_else(SteerState::idle, SteeredRun::state)
    }

    /// Does it. Returns from when on it is in force, or why it cannot be done.
    pub fn apply(&self, command: SteerCommand) -> Result<Time, String> {
        let mut guard = self.lock();
        let run = guard.as_mut().filter(|run| run.clock.is_some());
        let run = run.ok_or("no run is in progress; try again when one is")?;
        let applied = run.apply(command)?;
        let state = run.state();
        drop(guard);
        match command {
            SteerCommand::Stop => self.stop.store(true, Ordering::Relaxed),
            SteerCommand::Reset => self.view.reset(),
            _ => {}
        }
        (self.tell)(&state, Some(applied));
        Ok(applied)
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

    /// The mean rate that follows from a speed, or the cap.
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
        if self.rows.len() >= CHANGES_MAX {
            return Err(format!("a run keeps {CHANGES_MAX} changes, and there are as many"));
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

    /// The speed at which the schedule has this rate, if there is a schedule; refused where the rate is.
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

    /// Frames that wait are late, and some runs drop those.
    fn may_hold(&self) -> Result<(), String> {
        match self.plan.drops_late {
            true => Err("transport.late: these workers react, and what is held back would be dropped as too late; use late = \"catch_up\"".into()),
            false => Ok(()),
        }
    }

    /// Makes a change that is in force from `at` on, and publishes it to all threads, or to none.
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
        // First the one that keeps the records: it knows a change before what was sent under it comes back.
        self.publishers.iter_mut().rev().for_each(|publisher| publisher.push(piece));
        self.published.fetch_add(1, Ordering::Release);
        self.last = piece;
        Ok(at)
    }
}
