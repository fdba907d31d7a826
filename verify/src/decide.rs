//! From a setup to verdicts: do all behaviours keep the objective, and does any?
//!
//! Called by [`super::aom_fairness`] and [`super::rate`]. Behaviours that are easy to guess are tried first; the solver
//! decides the rest. Either way a behaviour counts only when both agree on it: a guessed one is given to the solver with
//! its times and decisions fixed, and a solver's one is executed by the reference, and all starts and sums are compared.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use pktgen_core::{Error, Result};
use serde::Serialize;

use super::candidates;
use super::encode::{Query, SmtModel, number};
use super::reference::{Run, run};
use super::setup::{Setup, Ticks};
use super::sexpr::Value;
use super::solver::{Reply, Solver};

/// The answer to "do all behaviours keep the objective?" or "does any?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// Yes, within the horizon.
    Holds,
    /// No.
    Fails,
    /// Neither was shown in time.
    Unknown,
}

impl Proof {
    /// The word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Proof::Holds => "holds",
            Proof::Fails => "fails",
            Proof::Unknown => "unknown",
        }
    }
}

/// Who found a behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BehaviourSource {
    /// The reference, among the candidates; the solver confirmed it.
    Simulation,
    /// The solver; the reference confirmed it.
    Solver,
}

/// A behaviour that was found.
#[derive(Debug, Clone)]
pub struct FoundBehaviour {
    /// What it does.
    pub run: Run,
    /// By whom.
    pub source: BehaviourSource,
}

/// A verdict, how long it took and the behaviour that shows it, if one does.
#[derive(Debug, Clone)]
pub struct CheckedQuery {
    /// The verdict.
    pub verdict: Proof,
    /// Time spent.
    pub spent: Duration,
    /// Why it is unknown; what was asked.
    pub note: String,
    /// A counterexample of "all", a witness of "any".
    pub found: Option<FoundBehaviour>,
}

/// What was found out about one case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What was asked about.
    pub setup: Setup,
    /// Whether all behaviours keep the objective. With a counterexample where not.
    pub all: CheckedQuery,
    /// Does any? With a witness.
    pub any: CheckedQuery,
}

/// Decides both questions.
pub fn check(setup: &Setup, solver: &Solver) -> Result<Case> {
    let model = SmtModel::new(setup);
    let all = decide_all(setup, &model, solver)?;
    let any = decide_any(setup, &model, solver)?;
    Ok(Case { setup: setup.clone(), all, any })
}

/// Only "do all?", for searches.
pub(crate) fn check_all(setup: &Setup, solver: &Solver) -> Result<CheckedQuery> {
    decide_all(setup, &SmtModel::new(setup), solver)
}

fn decide_all(setup: &Setup, model: &SmtModel, solver: &Solver) -> Result<CheckedQuery> {
    let start = (solver.clock)();
    let done = |verdict, note: String, found| CheckedQuery {
        verdict,
        spent: (solver.clock)().saturating_sub(start),
        note,
        found,
    };
    let left = || (solver.timeout + start).saturating_sub((solver.clock)());
    if let Some(run) = candidates::find(setup, |run| !run.keeps(setup.epsilon)) {
        let Some(query) = model.queries().into_iter().find(|query| shows(setup, &run, *query)) else {
            return Err(defect("no query describes a behaviour that breaks the objective"));
        };
        confirm(setup, model, &run, query, solver, left())?;
        return Ok(done(
            Proof::Fails,
            query.to_string(),
            Some(FoundBehaviour { run, source: BehaviourSource::Simulation }),
        ));
    }
    let mut open = Vec::new();
    for query in model.queries().into_iter().filter(|query| *query != Query::Keeps) {
        match solver.ask(model.script(query, ""), left())? {
            Reply::Unsat => {}
            Reply::Unknown(why) => open.push(format!("{query}: {why}")),
            Reply::Sat(values) => {
                let run = replay(setup, &values, query)?;
                return Ok(done(
                    Proof::Fails,
                    query.to_string(),
                    Some(FoundBehaviour { run, source: BehaviourSource::Solver }),
                ));
            }
        }
    }
    let verdict = if open.is_empty() { Proof::Holds } else { Proof::Unknown };
    Ok(done(verdict, open.join("; "), None))
}

fn decide_any(setup: &Setup, model: &SmtModel, solver: &Solver) -> Result<CheckedQuery> {
    let start = (solver.clock)();
    let done =
        |verdict, note, found| CheckedQuery { verdict, spent: (solver.clock)().saturating_sub(start), note, found };
    let left = || (solver.timeout + start).saturating_sub((solver.clock)());
    if let Some(run) = candidates::find(setup, |run| run.keeps(setup.epsilon)) {
        confirm(setup, model, &run, Query::Keeps, solver, left())?;
        return Ok(done(
            Proof::Holds,
            String::new(),
            Some(FoundBehaviour { run, source: BehaviourSource::Simulation }),
        ));
    }
    Ok(match solver.ask(model.script(Query::Keeps, ""), left())? {
        Reply::Unsat => done(Proof::Fails, String::new(), None),
        Reply::Unknown(why) => done(Proof::Unknown, why, None),
        Reply::Sat(values) => {
            let run = replay(setup, &values, Query::Keeps)?;
            done(Proof::Holds, String::new(), Some(FoundBehaviour { run, source: BehaviourSource::Solver }))
        }
    })
}

fn defect(what: &str) -> Error {
    Error::Invalid(format!("internal error of the verifier: {what}; please report it with the configuration"))
}

/// Whether `run` is an instance of `query`.
pub fn shows(setup: &Setup, run: &Run, query: Query) -> bool {
    let total = |v: usize| run.flows[v].total();
    match query {
        Query::Keeps => run.keeps(setup.epsilon),
        Query::Starves(v) => total(v).1 == 0,
        Query::Exceeds(u, v) => {
            let ((a, n), (b, m)) = (total(u), total(v));
            n > 0 && m > 0 && a * m - b * n > i128::from(setup.epsilon) * n * m
        }
    }
}

/// Has the solver agree to a behaviour that the reference found, with its times and decisions fixed.
fn confirm(setup: &Setup, model: &SmtModel, run: &Run, query: Query, solver: &Solver, limit: Duration) -> Result<()> {
    let mut fixed = String::new();
    for (v, flow) in run.flows.iter().enumerate() {
        for (k, (t, sent)) in flow.generated.iter().zip(&flow.sent).enumerate() {
            let sent = if *sent { format!("X_{v}_{k}") } else { format!("(not X_{v}_{k})") };
            // Writing to a text cannot fail.
            let _ = writeln!(fixed, "(assert (and (= G_{v}_{k} {}) {sent}))", number(*t));
        }
    }
    match solver.ask(model.script(query, &fixed), limit)? {
        Reply::Sat(values) => compare(setup, run, &values),
        // With all times fixed it is arithmetic; what is simulated holds all the same.
        Reply::Unknown(_) => Ok(()),
        Reply::Unsat => Err(defect("the solver refuses a behaviour that the reference executes")),
    }
}

/// Executes the solver's behaviour, which must be what it says it is.
fn replay(setup: &Setup, values: &HashMap<String, Value>, query: Query) -> Result<Run> {
    let mut generated = Vec::new();
    for (v, cluster) in setup.clusters.iter().enumerate() {
        generated.push((0..cluster.updates).map(|k| whole(values, "G", v, k)).collect::<Result<Vec<_>>>()?);
    }
    let sent = |v: usize, k: usize| values.get(&format!("X_{v}_{k}")) == Some(&Value::Truth(true));
    let run = run(setup, &generated, &mut |v, k| sent(v, k));
    compare(setup, &run, values)?;
    if !shows(setup, &run, query) {
        return Err(defect("the solver's behaviour is not what was asked for"));
    }
    Ok(run)
}

fn whole(values: &HashMap<String, Value>, letter: &str, v: usize, k: usize) -> Result<Ticks> {
    match values.get(&format!("{letter}_{v}_{k}")) {
        Some(Value::Number(n)) => Ok(*n),
        _ => Err(defect(&format!("the solver's model has no {letter}_{v}_{k}"))),
    }
}

/// Compares a run with the solver's model, tick for tick.
fn compare(setup: &Setup, run: &Run, values: &HashMap<String, Value>) -> Result<()> {
    for (v, flow) in run.flows.iter().enumerate() {
        for (k, start) in flow.latest_start.iter().enumerate() {
            let sent = values.get(&format!("X_{v}_{k}")) == Some(&Value::Truth(true));
            let said = whole(values, "S", v, k)?;
            if sent != flow.sent[k] || start.unwrap_or(-setup.service) != said {
                return Err(defect(&format!(
                    "update {k} of cluster {v}: the solver says sent {sent}, start {said}; the reference {}, {start:?}",
                    flow.sent[k]
                )));
            }
        }
        let (total, count) = flow.total();
        let number = |name: String| match values.get(&name) {
            Some(Value::Number(n)) => i128::from(*n),
            _ => -1,
        };
        if (number(format!("T_{v}")), number(format!("N_{v}"))) != (total, count) {
            return Err(defect(&format!(
                "the peaks of cluster {v}: the reference has {count} of {total} ticks in all"
            )));
        }
    }
    Ok(())
}
