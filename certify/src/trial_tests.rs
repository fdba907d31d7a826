//! Whose limit a trial shows whose bench was late once.

use pktgen_core::config::Document;
use pktgen_core::time::SECOND;
use pktgen_core::topology::Population;
use pktgen_engine::clause::{EachFrame, LoadMeasure, LoadPhase, ProbeWitness};
use pktgen_realtime::run::SearchGoal;

use super::*;
use crate::certificate::ClauseVerdict;
use crate::measure::{Earlier, carry_out};
use crate::profile::MeasurePlan;

/// Time in which the device replaces an update by the next.
const BUSY: Time = 500 * US;
/// Time between two updates.
const GAP: Time = MS;

/// A device that loses an update if another one follows too early, on a bench that stalls once.
struct Stalling {
    now: Time,
    /// When it stalls, and for how long.
    stall: Option<(Time, Time)>,
    waiting: Option<Time>,
}

impl Stalling {
    fn leave(&mut self, each: EachFrame) {
        let now = self.now;
        if let Some(t) = self.waiting.filter(|t| *t + BUSY <= now) {
            self.waiting = None;
            each(t + BUSY, 1, &[]);
        }
    }
}

impl ProbeWitness for Stalling {}

impl ProbeBench for Stalling {
    fn now(&mut self) -> Time {
        self.now
    }

    fn frame_in(&mut self, _port: u16, _bytes: &[u8]) -> Result<()> {
        self.waiting = Some(self.now);
        Ok(())
    }

    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.now + span;
        // An update that is due to leave does so before the time of the next step.
        self.now = self.waiting.map_or(until, |t| (t + BUSY).clamp(self.now, until));
        let now = self.now;
        if let Some((_, length)) = self.stall.take_if(|stall| stall.0 <= now) {
            self.now += length;
        }
        self.leave(each);
        Ok(())
    }

    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.now += BUSY;
        self.leave(each);
        Ok(())
    }
}

/// A worker that sends updates by a schedule, and counts those that come back.
struct Paced {
    load: OfferedLoad,
    sent: u64,
    account: LoadAccount,
}

impl LoadWorkers for Paced {
    fn next(&mut self) -> Option<Time> {
        self.load.due(self.sent)
    }

    fn send(&mut self, _t: Time) -> (u16, &[u8]) {
        self.sent += 1;
        (0, &[])
    }

    fn take(&mut self, t: Time, _port: u16, _bytes: &[u8]) {
        self.account.forwarded += 1;
        self.account.last_back = Some(t);
    }

    fn is_complete(&self) -> bool {
        self.account.forwarded == self.sent
    }

    fn account(&mut self) -> LoadAccount {
        LoadAccount { unsent: self.account.offered - self.sent, ..self.account.clone() }
    }

    fn asks(&mut self) -> Vec<(u16, Vec<u8>)> {
        Vec::new()
    }

    fn leave(&mut self, _memory: &mut ProbeMemory) {}

    fn apart(&self) -> Time {
        GAP
    }
}

static MODEL: LoadModel = LoadModel {
    unit: "updates",
    longest: |_, _| (1, "one worker sends"),
    step: |_| 1,
    open: |_, _, load| {
        let account = LoadAccount { offered: load.count(), ..LoadAccount::default() };
        Ok(Box::new(Paced { load, sent: 0, account }))
    },
};

/// Returns the ground of one worker.
fn ground() -> ProbeGround {
    ProbeGround {
        port_of: vec![0],
        server: Some(1),
        workers: Population::regular(1, 1).into(),
        late: 0,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: 256,
        hot: None,
        keys: Document::parse("", "test").expect("an empty document"),
    }
}

/// Returns the lost updates of a trial of one second on a bench that stalls for so long, and the bench's limit.
fn stalled(length: Time) -> (u64, Option<String>) {
    let ground = ground();
    let mut bench = Stalling { now: 0, stall: Some((SECOND / 2, length)), waiting: None };
    let mut memory = ProbeMemory::new();
    let mut maker = TrialMaker::new(&MODEL, &ground, &mut bench, &mut memory, (10 * MS, 0));
    match maker.one(OfferedLoad::of(LoadPhase::rate(1000.0, SECOND), 0)).expect("a trial") {
        Ok(trial) => (trial.account.lost(), trial.bench_limit),
        Err(NoTrial::Impossible(why) | NoTrial::Ended(why)) => panic!("{why}"),
    }
}

#[test]
fn a_loss_of_updates_that_a_late_bench_let_meet_is_no_limit_of_the_device() {
    assert_eq!(stalled(0), (0, None));
    // Within the time between two updates, none meet.
    assert_eq!(stalled(GAP / 4), (0, None));
    // Later by less than a hundredth of the trial.
    let (lost, limit) = stalled(4 * GAP);
    assert!(lost > 0 && limit.as_deref().is_some_and(|why| why.contains("late")), "{lost} {limit:?}");
    let (lost, limit) = stalled(12 * GAP);
    assert!(lost > 0 && limit.is_some(), "{lost} {limit:?}");
}

#[test]
fn latency_is_that_of_the_trials_that_a_late_bench_did_not_spoil() {
    let plan = MeasurePlan {
        goal: SearchGoal { loss: 0.0, exceed: 0.0, trial_ps: SECOND, sum_ps: SECOND },
        precision: 0.05,
        from_pps: 1000.0,
        may_lengthen: false,
        wait: 10 * MS,
        throughput: None,
        latency: None,
        burst: None,
        recovery: None,
    };
    let earlier = Earlier { throughput: Some(1111.0), ..Earlier::default() };
    // Two trials of a second at each of three rates: the bench stalls in none, or in the first or second one at 90 %.
    for stall in [None, Some((9 * SECOND / 2, 12 * GAP)), Some((11 * SECOND / 2, 12 * GAP))] {
        let (ground, mut memory) = (ground(), ProbeMemory::new());
        let mut bench = Stalling { now: 0, stall, waiting: None };
        let mut maker = TrialMaker::new(&MODEL, &ground, &mut bench, &mut memory, (10 * MS, 0));
        let result = carry_out(LoadMeasure::Latency, 2, &mut maker, &plan, earlier).expect("a result");
        assert_eq!(result.verdict, ClauseVerdict::Measured, "{stall:?} {}", result.why);
        let spoiled = result.trials.as_array().expect("trials").iter().filter(|trial| !trial["bench_limit"].is_null());
        assert_eq!(spoiled.count(), usize::from(stall.is_some()), "{stall:?}");
        let loss = result.measured.iter().find(|number| number.name == "loss_at_90").expect("a number");
        assert_eq!(loss.value, Some(0.0), "{stall:?}");
    }
}
