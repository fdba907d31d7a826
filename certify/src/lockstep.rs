//! The bench for a device in another process in virtual time (docs/lockstep.md): restarted for every repeat if pktgen starts it.
//!
//! Frames enter and leave at the device itself, without links: only the device limits its output.

use pktgen_core::Result;
use pktgen_core::time::{NEVER, Time, US};
use pktgen_engine::clause::{EachFrame, ProbeBench, ProbeGround, ProbeWitness};
use pktgen_engine::driver::admit;
use pktgen_engine::target::remote::{Advanced, Remote};
use pktgen_realtime::plan::Plan;

use crate::ground::{at_node, strangers};
use crate::link::is_of_link;
use crate::settings::CertifySettings;

/// Time between two input frames: more than a hardware device needs for one.
const APART: Time = US;
/// Maximum step by which a busy device advances at once.
const STEP: Time = 10 * US;

/// Starts the device of a plan, or waits for it; none where the plan has another.
type Couple<'a> = dyn Fn(&Plan) -> Result<Option<Box<dyn Remote>>> + 'a;

/// A device in another process.
pub struct LockstepBench<'a> {
    plan: Plan,
    couple: Box<Couple<'a>>,
    remote: Option<Box<dyn Remote>>,
    /// Whether pktgen starts the device, and can restart it.
    is_own: bool,
    is_new: bool,
    flood: Time,
    now: Time,
    /// The earliest time at which a frame can leave.
    next: Time,
    ended: Option<String>,
}

impl<'a> LockstepBench<'a> {
    /// Opens the device of a plan, another process in virtual time, with the facts for clauses; `is_own` if pktgen starts it.
    pub fn open(
        mut plan: Plan,
        settings: CertifySettings,
        is_own: bool,
        couple: impl Fn(&Plan) -> Result<Option<Box<dyn Remote>>> + 'a,
    ) -> Result<(Self, ProbeGround)> {
        let ground = at_node(&plan, settings.late(false))?;
        // Clauses write frames as devices expect them.
        plan.spec.transport.dialect = None;
        plan.spec.transport.outer = strangers(plan.spec.transport.outer.as_deref());
        let remote = couple(&plan)?;
        let bench = LockstepBench {
            plan,
            couple: Box::new(couple),
            remote,
            is_own,
            is_new: true,
            flood: settings.flood.ps(),
            now: 0,
            next: NEVER,
            ended: None,
        };
        Ok((bench, ground))
    }

    /// Lets the device act until a time or its earlier first departure; departed frames go to `each`.
    fn advance(&mut self, until: Time, each: EachFrame) -> Option<Advanced> {
        let remote = self.remote.as_mut()?;
        let mut left = Vec::new();
        let mut note = |port, frame: &[u8]| {
            // Link-level frames between devices are no answers.
            if admit::strangers(frame) > 0 && !is_of_link(frame) {
                left.push((port, frame.to_vec()));
            }
        };
        match remote.advance(until, &mut note) {
            Ok(advanced) => {
                left.iter().for_each(|(port, frame)| each(advanced.t, *port, frame));
                (self.now, self.next) = (self.now.max(advanced.t), advanced.next);
                Some(advanced)
            }
            Err(why) => {
                self.ends(why);
                None
            }
        }
    }

    fn ends(&mut self, why: impl ToString) {
        self.remote = None;
        self.ended = Some(why.to_string());
    }
}

impl Drop for LockstepBench<'_> {
    fn drop(&mut self) {
        let _ = self.remote.take().map(|mut remote| remote.end());
    }
}

impl ProbeWitness for LockstepBench<'_> {
    fn ended(&mut self) -> Option<String> {
        self.ended.clone()
    }

    fn quit(&mut self) -> Option<String> {
        if !self.is_own {
            return None;
        }
        self.is_new = false;
        let mut remote = self.remote.take()?;
        remote.end().err().map(|why| why.to_string())
    }
}

impl ProbeBench for LockstepBench<'_> {
    fn now(&mut self) -> Time {
        self.now
    }

    fn arrival(&mut self) -> Time {
        // After the time that the device has reached.
        self.now + APART
    }

    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.is_new = false;
        let arrival = self.arrival();
        let Some(remote) = self.remote.as_mut() else { return Ok(()) };
        self.now = arrival;
        match remote.frame_in(arrival, port, bytes) {
            Ok(()) => self.next = self.next.min(self.now),
            Err(why) => self.ends(why),
        }
        Ok(())
    }

    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.now + span;
        while self.next <= until && self.now < until {
            let Some(_) = self.advance(until, each) else { break };
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        let mut came = false;
        while !came && self.next <= until && self.now < until {
            let note: EachFrame = &mut |t, port, bytes| {
                came = true;
                each(t, port, bytes);
            };
            let Some(_) = self.advance(until, note) else { break };
        }
        if !came {
            self.now = self.now.max(until);
        }
        Ok(())
    }

    fn settle(&mut self, each: EachFrame) -> Result<()> {
        let begun = self.now;
        while self.next != NEVER && self.now - begun < self.flood {
            let until = self.next.max(self.now) + STEP;
            let Some(_) = self.advance(until, each) else { break };
        }
        Ok(())
    }

    fn restart(&mut self, _repeat: u32) -> Result<bool> {
        if !self.is_new {
            if !self.is_own {
                return Ok(false);
            }
            // One that is still there failed its clause already: its end is ignored.
            let _ = self.remote.take().map(|mut remote| remote.end());
            self.remote = (self.couple)(&self.plan)?;
            (self.now, self.next, self.ended, self.is_new) = (0, NEVER, None, true);
        }
        Ok(true)
    }
}
