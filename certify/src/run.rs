//! Carries out the clauses of a suite, one after the other.

use std::io::Write;

use pktgen_core::record::Hashing;
use pktgen_core::registry::suggest;
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, Time};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{
    Clause, ClauseBreach, ClauseProbe, ClauseSuite, LoadMeasure, ProbeBench, ProbeFrame, ProbeGround, ProbeMemory,
    ProbeStop,
};
use serde_json::{Value, json};

use crate::certificate::{ClauseOutcome, ClauseVerdict, EXCEPTED, sha256};
use crate::measure::{Earlier, carry_out};
use crate::profile::{CertifyProfile, MeasurePlan};
use crate::trial::TrialMaker;

/// Maximum number of additional draws of an undecided repeat.
const DRAWS: u32 = 3;

/// The clauses to carry out, and how.
#[derive(Debug, Clone)]
pub struct CertifyOptions {
    /// The seed: the same makes the same probes.
    pub seed: u64,
    /// Repeats of each clause, if not its own number.
    pub repeats: Option<u32>,
    /// Only these clauses, by id, number or number of the section; all if there are none.
    pub only: Vec<String>,
    /// Clauses that the device does not claim to follow, selected in the same way.
    pub except: Vec<String>,
    /// Clauses that were carried out before: their outcomes are kept.
    pub done: Vec<ClauseOutcome>,
    /// The part of the suite that is carried out if no clauses are named.
    pub profile: CertifyProfile,
    /// How performance is measured.
    pub plan: MeasurePlan,
}

impl CertifyOptions {
    /// Returns whether this clause is to be carried out.
    fn has(&self, number: &str, clause: &Clause) -> bool {
        if self.only.is_empty() {
            return self.profile.has(clause);
        }
        names(&self.only, number, clause)
    }

    /// Returns how many of the profile's clauses were not selected by name.
    pub fn not_chosen(&self, suite: &'static ClauseSuite) -> usize {
        suite.numbered().filter(|(number, clause)| self.profile.has(clause) && !self.has(number, clause)).count()
    }

    /// Refuses names of clauses that the suite does not have.
    pub fn check(&self, suite: &'static ClauseSuite) -> Result<()> {
        for name in self.only.iter().chain(&self.except) {
            let one = std::slice::from_ref(name);
            if !suite.numbered().any(|(number, clause)| names(one, &number, clause)) {
                let ids: Vec<_> = suite.numbered().map(|(_, clause)| clause.id).collect();
                return Err(Error::config(format!(
                    "clause \"{name}\" does not exist{}; name it by id or number, or all of a section by its number (pktgen certify --list)",
                    suggest(name, &ids)
                )));
            }
        }
        Ok(())
    }

    /// Returns the number of repeats.
    fn repeats(&self, clause: &Clause) -> u32 {
        self.repeats.unwrap_or(self.profile.repeats(clause)).max(1)
    }

    /// Returns the maximum time of the selected performance clauses, in the device's time; none if there are none.
    pub fn estimate(&self, suite: &'static ClauseSuite, ground: &ProbeGround) -> Option<Time> {
        let applies = |clause: &Clause| clause.measure.is_some() && (clause.exempt)(ground).is_none();
        let all = suite.numbered().filter(|(number, clause)| self.has(number, clause) && applies(clause));
        let times: Vec<_> = all.map(|(_, clause)| self.plan.estimate(clause, self.repeats(clause))).collect();
        (!times.is_empty()).then(|| times.iter().sum())
    }
}

/// Returns whether one of these names is that of the clause: its id, its number, or the number of its section.
fn names(all: &[String], number: &str, clause: &Clause) -> bool {
    let section = number.split('.').next();
    all.iter().any(|name| name == number || name == clause.id || Some(name.as_str()) == section)
}

/// Carries out clauses, and passes the new outcomes to `each`.
pub fn certify(
    suite: &'static ClauseSuite,
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    options: &CertifyOptions,
    each: &mut dyn FnMut(&mut ClauseOutcome) -> Result<()>,
) -> Result<Vec<ClauseOutcome>> {
    options.check(suite)?;
    let mut memory = ProbeMemory::new();
    let mut outcomes = Vec::new();
    for (number, clause) in suite.numbered() {
        if !options.has(&number, clause) {
            continue;
        }
        if let Some(done) = options.done.iter().find(|done| done.clause.id == clause.id) {
            outcomes.push(done.clone());
            continue;
        }
        let earlier = earlier(&outcomes);
        let mut outcome = match clause.measure {
            None => one(number, clause, ground, bench, (&mut memory, options))?,
            Some(measure) => {
                let load = suite.load.ok_or_else(|| {
                    Error::Invalid(format!("{}: the suite {} has no load for it", clause.id, suite.name))
                })?;
                let maker = TrialMaker::new(load, ground, bench, &mut memory, (options.plan.wait, options.seed));
                measured((number, clause, measure), maker, options, earlier)?
            }
        };
        each(&mut outcome)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Returns results of performance clauses so far that others need.
fn earlier(outcomes: &[ClauseOutcome]) -> Earlier {
    let of = |measure, name| {
        let own = outcomes.iter().find(|it| it.clause.measure == Some(measure));
        own.and_then(|it| it.number(name))
    };
    Earlier {
        throughput: of(LoadMeasure::Throughput, "lower_bound"),
        trial: of(LoadMeasure::Throughput, "trial").map(|ms| (ms * MS as f64).round() as Time),
        shortest_burst: of(LoadMeasure::Burst, "shortest").map(|burst| burst as u64),
    }
}

/// Returns the reason why a clause is not carried out.
fn exempt(number: &str, clause: &Clause, ground: &ProbeGround, options: &CertifyOptions) -> Option<String> {
    names(&options.except, number, clause).then(|| EXCEPTED.to_owned()).or_else(|| (clause.exempt)(ground))
}

/// Carries out a performance clause.
fn measured(
    (number, clause, measure): (String, &'static Clause, LoadMeasure),
    mut maker: TrialMaker,
    options: &CertifyOptions,
    earlier: Earlier,
) -> Result<ClauseOutcome> {
    let why = exempt(&number, clause, maker.ground, options);
    let mut outcome = blank(number, clause);
    if let Some(why) = why {
        return Ok(ClauseOutcome { verdict: ClauseVerdict::NotApplicable, why, ..outcome });
    }
    outcome.repeats = options.repeats(clause);
    let found = carry_out(measure, outcome.repeats, &mut maker, &options.plan, earlier)?;
    outcome.frames = maker.frames;
    outcome.digest = sha256(&format!("{} {}", json!(found.measured), found.trials))?;
    // All repeats are judged together.
    let is_against = matches!(found.verdict, ClauseVerdict::Failed | ClauseVerdict::NotDecidable);
    outcome.times = if is_against { outcome.repeats } else { 0 };
    Ok(ClauseOutcome {
        verdict: found.verdict,
        why: found.why,
        measured: found.measured,
        trials: found.trials,
        ..outcome
    })
}

/// The end of a repeat that did not pass; none if it passed.
type Ended = Option<RepeatStop>;

/// Why a repeat did not pass.
enum RepeatStop {
    Breach(ClauseBreach),
    Undecidable(String),
}

/// Makes one draw of a repeat; returns its end and its frames.
fn try_once(
    clause: &Clause,
    (repeat, draw): (u32, u32),
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    memory: &mut ProbeMemory,
    seed: Seed,
) -> Result<(Ended, Vec<ProbeFrame>)> {
    if bench.restart(repeat)? {
        memory.clear();
    }
    let made = ClauseProbe::new(ground, memory, bench, seed, (clause.id, repeat, draw));
    let (ended, log) = match made {
        Ok(mut probe) => {
            // Frames still in transit from before do not belong to this clause.
            let ended = probe.settle().and_then(|_| (clause.probe)(&mut probe));
            (ended, probe.into_log())
        }
        Err(stop) => (Err(stop), Vec::new()),
    };
    let ended = match ended {
        Err(stop @ (ProbeStop::Breach(_) | ProbeStop::Bench(_))) => Err(stop),
        other => match bench.quit() {
            Some(why) => Err(ClauseBreach::stop("the device", "counters, and exit code 0 after quit", why)),
            None => other,
        },
    };
    let ended = match ended {
        Ok(()) => None,
        Err(ProbeStop::Breach(breach)) => Some(RepeatStop::Breach(bench.on_cables(breach))),
        Err(ProbeStop::Undecidable(why)) => Some(RepeatStop::Undecidable(why)),
        Err(ProbeStop::Bench(error)) => return Err(error),
    };
    Ok((ended, log))
}

/// Carries out all repeats of a clause.
fn one(
    number: String,
    clause: &'static Clause,
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    (memory, options): (&mut ProbeMemory, &CertifyOptions),
) -> Result<ClauseOutcome> {
    let outcome = blank(number, clause);
    if let Some(why) = exempt(&outcome.number, clause, ground, options) {
        return Ok(ClauseOutcome { verdict: ClauseVerdict::NotApplicable, why, ..outcome });
    }
    let count = options.repeats(clause);
    let mut repeats = Repeats::new(outcome, count);
    for repeat in 0..count {
        let draw = |draw| try_once(clause, (repeat, draw), ground, bench, memory, Seed(options.seed));
        repeats.carry_out(repeat, draw)?;
    }
    let mut outcome = repeats.end();
    for frame in &mut outcome.evidence {
        if let Some(bytes) = bench.on_cable(frame) {
            frame.bytes = bytes;
        }
    }
    if outcome.verdict == ClauseVerdict::Failed {
        outcome.counted = bench.counted();
    }
    Ok(outcome)
}

/// Repeats of a clause so far.
struct Repeats {
    outcome: ClauseOutcome,
    hashing: Hashing<std::io::Sink>,
    /// The first breach, with the setting that fits all.
    breach: Option<ClauseBreach>,
    /// The first repeat that no draw decided, why, and the frames of its last draw.
    why: Option<(u32, String, Vec<ProbeFrame>)>,
    /// Number of draws that may still be repeated.
    budget: u32,
}

/// Returns the outcome of a clause before its first repeat.
fn blank(number: String, clause: &'static Clause) -> ClauseOutcome {
    ClauseOutcome {
        number,
        clause,
        verdict: ClauseVerdict::Passed,
        why: String::new(),
        repeats: 0,
        times: 0,
        undecided: 0,
        redrawn: 0,
        first: 0,
        measured: Vec::new(),
        trials: Value::Null,
        frames: 0,
        digest: String::new(),
        evidence: Vec::new(),
        counted: None,
        file: None,
    }
}

impl Repeats {
    /// Returns the state before the first of `repeats` repeats.
    fn new(outcome: ClauseOutcome, repeats: u32) -> Self {
        Repeats { outcome, hashing: Hashing::new(std::io::sink()), breach: None, why: None, budget: repeats.max(DRAWS) }
    }

    /// Carries out a repeat: it is drawn again while it is undecided and draws are left.
    fn carry_out(
        &mut self,
        repeat: u32,
        mut draw_of: impl FnMut(u32) -> Result<(Ended, Vec<ProbeFrame>)>,
    ) -> Result<()> {
        self.outcome.repeats += 1;
        let mut draw = 0;
        loop {
            let (ended, log) = draw_of(draw)?;
            self.outcome.frames += log.len() as u64;
            let hashed = log.iter().try_for_each(|frame| hash(frame, &mut self.hashing));
            hashed.map_err(|e| Error::Invalid(e.to_string()))?;
            match ended {
                None => return Ok(()),
                Some(RepeatStop::Breach(breach)) => {
                    let own = &mut self.outcome;
                    own.times += 1;
                    match &mut self.breach {
                        None => {
                            (own.verdict, own.first, own.evidence) = (ClauseVerdict::Failed, repeat, log);
                            self.breach = Some(breach);
                        }
                        // A setting explains the device if it fits all repeats.
                        Some(first) if first.fits != breach.fits => first.fits.clear(),
                        Some(_) => {}
                    }
                    return Ok(());
                }
                // If no repeat could be decided so far, others will not be, either.
                Some(_)
                    if draw < DRAWS
                        && self.budget > 0
                        && (self.outcome.repeats == 1 || self.outcome.undecided + 1 < self.outcome.repeats) =>
                {
                    (draw, self.budget) = (draw + 1, self.budget - 1);
                    self.outcome.redrawn += 1;
                }
                Some(RepeatStop::Undecidable(why)) => {
                    self.outcome.undecided += 1;
                    self.why.get_or_insert((repeat, why, log));
                    return Ok(());
                }
            }
        }
    }

    /// Returns the outcome: a clause that did not fail is undecidable if fewer than half of its repeats were decided.
    fn end(self) -> ClauseOutcome {
        let Repeats { mut outcome, mut hashing, breach, why, .. } = self;
        outcome.why = breach.map(|breach| breach.to_string()).unwrap_or_default();
        outcome.digest = hashing.digest().map(|digest| digest.sha256).unwrap_or_default();
        if let (false, Some((first, why, evidence))) = (outcome.verdict == ClauseVerdict::Failed, why)
            && 2 * outcome.undecided > outcome.repeats
        {
            (outcome.verdict, outcome.why, outcome.first) = (ClauseVerdict::NotDecidable, why, first);
            (outcome.times, outcome.evidence) = (outcome.undecided, evidence);
        }
        outcome
    }
}

/// Direction, port, length and bytes of a frame. Times are left out: on wires they differ.
fn hash(frame: &ProbeFrame, into: &mut impl Write) -> std::io::Result<()> {
    into.write_all(&[u8::from(frame.inward)])?;
    into.write_all(&frame.port.to_be_bytes())?;
    into.write_all(&(frame.bytes.len() as u32).to_be_bytes())?;
    into.write_all(&frame.bytes)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
