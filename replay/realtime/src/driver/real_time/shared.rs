//! State shared by the threads of a run.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pktgen_core::time::{MS, NEVER, NS, Time, US};
use pktgen_core::{Error, Result};

use super::{Progress, RunOrder, Serve};
use crate::clock::RunClock;
use crate::transport::{TransportPlan, Wait, Wire};

/// Usual oversleep (20 µs on a virtual machine): the remainder of a wait is spun.
const OVERSLEEP: Time = 25 * US;
/// Spinning threads begin to spin this long before the start; until then they sleep.
const SPUN_AT_FIRST: Time = 2 * MS;
/// Maximum sleep: a stop may be requested.
const NAP_MAX_NS: u64 = 1_000_000;

/// Minimum wait of workers for required results, and of a sender for the acceptance of its frames.
pub(super) const PATIENCE: Time = 2000 * MS;

/// State shared by all threads.
pub(super) struct Shared<'a> {
    pub(super) clock: RunClock,
    pub(super) plan: &'a TransportPlan,
    /// Set when the user requests a stop.
    pub(super) stop: &'a AtomicBool,
    /// Whether every frame of an open loop was made.
    pub(super) fed_all: AtomicBool,
    /// Time at which the workers had sent everything; [`NEVER`] before.
    sent_all_at: AtomicI64,
    /// Threads that still send for an open loop.
    pub(super) pumps: AtomicUsize,
    /// Whether a role failed, so that the others must stop sending; frames under way are still received.
    pub(super) given_up: AtomicBool,
    /// The first error of a role.
    failure: Mutex<Option<Error>>,
    /// Whether a thread stopped unexpectedly: all end.
    pub(super) failed: AtomicBool,
    /// The progress.
    pub(super) live: Live,
    /// End of a process without workers.
    serve: Option<Serve>,
    /// Whether the device is the only role here, so that its received frames are the progress.
    pub(super) device_only: bool,
}

/// The progress of a run, updated by its threads.
#[derive(Default)]
pub(super) struct Live {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    /// Frames lost at the device's ends, and at the server's.
    pub(super) lost: AtomicU64,
    pub(super) lost_server: AtomicU64,
    /// Send attempts of the workers that the kernel or a card refused.
    pub(super) refused: AtomicU64,
    /// Frames waiting in the device's ports.
    pub(super) queued: AtomicU64,
    /// Maximum lateness since the last report.
    pub(super) late_ns: AtomicU64,
}

impl<'a> Shared<'a> {
    pub(super) fn new(clock: RunClock, order: &RunOrder<'a>, pumps: usize) -> Self {
        Shared {
            clock,
            plan: order.plan,
            stop: order.stop,
            fed_all: AtomicBool::new(false),
            sent_all_at: AtomicI64::new(NEVER),
            pumps: AtomicUsize::new(pumps),
            given_up: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            live: Live::default(),
            serve: (!order.roles.workers).then_some(order.serve),
            device_only: !order.roles.workers && !order.roles.server,
        }
    }

    /// Idles: nothing is due before `next`.
    pub(super) fn idle(&self, wire: &mut dyn Wire, next: Time) -> Result<()> {
        self.idle_from(wire, next, self.clock.now())
    }

    /// Idles from `now` on.
    #[inline]
    pub(super) fn idle_from(&self, wire: &mut dyn Wire, next: Time, now: Time) -> Result<()> {
        if let Some(file) = self.clock.file() {
            file.wait_until(next);
            return Ok(());
        }
        let gap = next - now;
        match self.plan.wait {
            Wait::Block if gap > OVERSLEEP + 10 * US => {
                wire.wait((((gap - OVERSLEEP) / 1000) as u64).min(NAP_MAX_NS))?;
            }
            _ => std::hint::spin_loop(),
        }
        Ok(())
    }

    /// Waits for the start of time: shortly after the threads start, or at an instant agreed on by several hosts; at once for files.
    pub(super) fn wait_for_the_beginning(&self) {
        let spun = if self.plan.wait == Wait::Block { OVERSLEEP } else { SPUN_AT_FIRST };
        while self.clock.file().is_none() && self.clock.now() <= 0 && !self.ending() {
            let asleep = ((self.clock.ahead() - spun) / NS).max(0) as u64;
            match asleep {
                0 => std::hint::spin_loop(),
                _ => std::thread::sleep(Duration::from_nanos(asleep.min(NAP_MAX_NS))),
            }
        }
    }

    /// Records that everything was sent; remaining waits begin now.
    pub(super) fn sent_all(&self) {
        let _ = self.sent_all_at.compare_exchange(NEVER, self.clock.now(), Ordering::Release, Ordering::Relaxed);
    }

    /// Records that a thread of an open loop sends no more; after the last one everything was sent.
    pub(super) fn pump_is_over(&self) {
        if self.pumps.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.sent_all();
        }
    }

    /// Records that a role ends with `error`: the others stop sending, receive frames under way, and end.
    pub(super) fn give_up(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.given_up.store(true, Ordering::Relaxed);
        self.sent_all();
    }

    /// Returns the first error of a role, once all have ended.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether a stop was requested, or a thread failed.
    pub(super) fn ending(&self) -> bool {
        let on = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        on(&self.failed) || on(self.stop) || on(&self.given_up)
    }

    /// Returns whether a role has nothing more to expect; `quiet_since` is the time of its last activity, or 0.
    pub(super) fn over(&self, quiet_since: Time) -> bool {
        if self.failed.load(Ordering::Relaxed) {
            return true;
        }
        let now = self.clock.now();
        if let Some(serve) = &self.serve
            && (serve.idle.is_some_and(|idle| quiet_since > 0 && now - quiet_since > idle)
                || serve.first.is_some_and(|first| quiet_since == 0 && now > first)
                || self.called_off(now))
        {
            self.sent_all();
        }
        let sent_all_at = self.sent_all_at.load(Ordering::Acquire);
        // The last frames are under way, however long it was quiet before.
        sent_all_at != NEVER && now - quiet_since.max(sent_all_at) > self.plan.linger
    }

    /// Returns whether a process without workers must end by now, even if frames still arrive. It has `linger` after the request.
    pub(super) fn is_cut_off(&self, now: Time) -> bool {
        if self.serve.is_none() || !self.called_off(now) {
            return false;
        }
        self.sent_all();
        now - self.sent_all_at.load(Ordering::Acquire) > self.plan.linger
    }

    fn called_off(&self, now: Time) -> bool {
        let most = self.serve.as_ref().and_then(|serve| serve.most);
        let on = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        on(self.stop) || on(&self.given_up) || most.is_some_and(|most| now > most)
    }

    /// Returns the progress of the run.
    pub(super) fn progress(&self) -> Progress {
        let live = &self.live;
        Progress {
            // In this order: received frames had been sent.
            received: live.received.load(Ordering::Acquire),
            sent: live.sent.load(Ordering::Relaxed),
            sent_before: 0,
            refused: live.refused.load(Ordering::Relaxed),
            lost: live.lost.load(Ordering::Relaxed) + live.lost_server.load(Ordering::Relaxed),
            queued: live.queued.load(Ordering::Relaxed),
            late_ns: live.late_ns.swap(0, Ordering::Relaxed),
            t: self.clock.now(),
            over: false,
        }
    }
}
