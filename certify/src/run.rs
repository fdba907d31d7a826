//! Carries out the clauses of a suite, one after the other.

use std::io::Write;

use pktgen_core::record::Hashing;
use pktgen_core::registry::suggest;
use pktgen_core::seed::Seed;
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{
    Clause, ClauseProbe, ClauseSuite, ProbeBench, ProbeFrame, ProbeGround, ProbeMemory, ProbeStop,
};

use crate::certificate::{ClauseOutcome, ClauseVerdict};

/// How often a repeat that is not decidable is drawn again at most.
const DRAWS: u32 = 3;

/// Which clauses, and how.
#[derive(Debug, Clone, Default)]
pub struct CertifyOptions {
    /// The seed: the same makes the same probes.
    pub seed: u64,
    /// Repeats of each clause, if not what it says itself.
    pub repeats: Option<u32>,
    /// Only these clauses, by id or number; all if there are none.
    pub only: Vec<String>,
    /// Clauses that the device is not said to follow, by id or number.
    pub except: Vec<String>,
    /// Clauses that were carried out before: they are taken as they are.
    pub done: Vec<ClauseOutcome>,
}

/// Carries out clauses, and tells `each` what came of those that were not before.
pub fn certify(
    suite: &'static ClauseSuite,
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    options: &CertifyOptions,
    each: &mut dyn FnMut(&mut ClauseOutcome) -> Result<()>,
) -> Result<Vec<ClauseOutcome>> {
    let all: Vec<_> = suite.numbered().collect();
    for name in options.only.iter().chain(&options.except) {
        if !all.iter().any(|(number, clause)| name == number || name == clause.id) {
            let ids: Vec<_> = all.iter().map(|(_, clause)| clause.id).collect();
            return Err(Error::config(format!("clause \"{name}\" does not exist{}", suggest(name, &ids))));
        }
    }
    let mut memory = ProbeMemory::new();
    let mut outcomes = Vec::new();
    for (number, clause) in all {
        if !options.only.is_empty() && !options.only.iter().any(|name| *name == number || name == clause.id) {
            continue;
        }
        if let Some(done) = options.done.iter().find(|done| done.clause.id == clause.id) {
            outcomes.push(done.clone());
            continue;
        }
        let mut outcome = one(number, clause, ground, bench, (&mut memory, options))?;
        each(&mut outcome)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// How a repeat ended, if it decided against its clause, and why.
type Ended = Option<(ClauseVerdict, String)>;

/// One draw of a repeat: how it ended, and its frames.
fn try_once(
    clause: &Clause,
    (repeat, draw): (u32, u32),
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    (memory, seed): (&mut ProbeMemory, Seed),
) -> Result<(Ended, Vec<ProbeFrame>)> {
    if bench.restart(repeat)? {
        memory.clear();
    }
    let made = ClauseProbe::new(ground, memory, bench, seed, (clause.id, repeat, draw));
    let (ended, log) = match made {
        Ok(mut probe) => {
            // What is still under way from before is none of this clause's.
            let ended = probe.settle().and_then(|_| (clause.probe)(&mut probe));
            (ended, probe.into_log())
        }
        Err(stop) => (Err(stop), Vec::new()),
    };
    let verdict = match ended {
        Ok(()) => None,
        Err(ProbeStop::Breach(breach)) => Some((ClauseVerdict::Failed, breach.to_string())),
        Err(ProbeStop::Undecidable(why)) => Some((ClauseVerdict::NotDecidable, why)),
        Err(ProbeStop::Bench(error)) => return Err(error),
    };
    Ok((verdict, log))
}

/// All repeats of a clause.
fn one(
    number: String,
    clause: &'static Clause,
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    (memory, options): (&mut ProbeMemory, &CertifyOptions),
) -> Result<ClauseOutcome> {
    let outcome = blank(number, clause);
    let excepted = options.except.iter().any(|name| *name == outcome.number || name == clause.id);
    let exempt = excepted.then(|| "excepted by the user".to_owned()).or_else(|| (clause.exempt)(ground));
    if let Some(why) = exempt {
        return Ok(ClauseOutcome { verdict: ClauseVerdict::NotApplicable, why, ..outcome });
    }
    let count = options.repeats.unwrap_or(clause.repeats).max(1);
    let mut repeats = Repeats::new(outcome, count);
    for repeat in 0..count {
        let draw = |draw| try_once(clause, (repeat, draw), ground, bench, (memory, Seed(options.seed)));
        repeats.carry_out(repeat, draw)?;
    }
    Ok(repeats.end())
}

/// Repeats of a clause so far.
struct Repeats {
    outcome: ClauseOutcome,
    hashing: Hashing<std::io::Sink>,
    /// The first repeat that no draw decided, why, and the frames of its last draw.
    why: Option<(u32, String, Vec<ProbeFrame>)>,
    /// Draws that may still be made again.
    budget: u32,
}

/// What is known of a clause before its first repeat.
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
        frames: 0,
        digest: String::new(),
        evidence: Vec::new(),
        file: None,
    }
}

impl Repeats {
    /// Before the first of so many.
    fn new(outcome: ClauseOutcome, repeats: u32) -> Self {
        Repeats { outcome, hashing: Hashing::new(std::io::sink()), why: None, budget: repeats.max(DRAWS) }
    }

    /// A repeat: drawn again while it is not decidable and draws are left.
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
                Some((ClauseVerdict::Failed, why)) => {
                    if self.outcome.verdict != ClauseVerdict::Failed {
                        let own = &mut self.outcome;
                        (own.verdict, own.why, own.first, own.evidence) = (ClauseVerdict::Failed, why, repeat, log);
                    }
                    self.outcome.times += 1;
                    return Ok(());
                }
                Some(_) if draw < DRAWS && self.budget > 0 => {
                    (draw, self.budget) = (draw + 1, self.budget - 1);
                    self.outcome.redrawn += 1;
                }
                Some((_, why)) => {
                    self.outcome.undecided += 1;
                    self.why.get_or_insert((repeat, why, log));
                    return Ok(());
                }
            }
        }
    }

    /// What came of them: a clause that did not fail is not decidable if fewer than half of its repeats were decided.
    fn end(self) -> ClauseOutcome {
        let Repeats { mut outcome, hashing, why, .. } = self;
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
