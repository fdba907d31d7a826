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

/// One repeat: how it ended, and its frames.
fn try_once(
    clause: &Clause,
    repeat: u32,
    ground: &ProbeGround,
    bench: &mut dyn ProbeBench,
    (memory, seed): (&mut ProbeMemory, Seed),
) -> Result<(Ended, Vec<ProbeFrame>)> {
    if bench.restart(repeat)? {
        memory.clear();
    }
    let made = ClauseProbe::new(ground, memory, bench, seed, (clause.id, repeat));
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
    let mut outcome = ClauseOutcome {
        number,
        clause,
        verdict: ClauseVerdict::Passed,
        why: String::new(),
        repeats: 0,
        times: 0,
        first: 0,
        frames: 0,
        digest: String::new(),
        evidence: Vec::new(),
        file: None,
    };
    let excepted = options.except.iter().any(|name| *name == outcome.number || name == clause.id);
    let exempt = excepted.then(|| "excepted by the user".to_owned()).or_else(|| (clause.exempt)(ground));
    if let Some(why) = exempt {
        return Ok(ClauseOutcome { verdict: ClauseVerdict::NotApplicable, why, ..outcome });
    }
    let mut hashing = Hashing::new(std::io::sink());
    for repeat in 0..options.repeats.unwrap_or(clause.repeats).max(1) {
        let (verdict, log) = try_once(clause, repeat, ground, bench, (memory, Seed(options.seed)))?;
        outcome.repeats += 1;
        outcome.frames += log.len() as u64;
        log.iter().try_for_each(|frame| hash(frame, &mut hashing)).map_err(|e| Error::Invalid(e.to_string()))?;
        let Some((verdict, why)) = verdict else { continue };
        let worse = verdict == ClauseVerdict::Failed && outcome.verdict != ClauseVerdict::Failed;
        if worse || outcome.verdict == ClauseVerdict::Passed {
            outcome = ClauseOutcome { verdict, why, times: 0, first: repeat, evidence: log, ..outcome };
        }
        outcome.times += u32::from(verdict == outcome.verdict);
    }
    outcome.digest = hashing.digest().map(|digest| digest.sha256).unwrap_or_default();
    Ok(outcome)
}

/// Direction, port, length and bytes of a frame. Times are left out: on wires they differ.
fn hash(frame: &ProbeFrame, into: &mut impl Write) -> std::io::Result<()> {
    into.write_all(&[u8::from(frame.inward)])?;
    into.write_all(&frame.port.to_be_bytes())?;
    into.write_all(&(frame.bytes.len() as u32).to_be_bytes())?;
    into.write_all(&frame.bytes)
}
