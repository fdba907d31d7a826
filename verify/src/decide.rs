//! Determines verdicts for a setup: whether all behaviours keep the objective, and whether any does.
//!
//! Called by [`super::aom_fairness`] and [`super::rate`]. Behaviours that are easily guessed are tried first, and the
//! solver decides the rest. A behaviour counts only if both agree: a guessed one is given to the solver with fixed
//! times and decisions, and one of the solver is executed by the reference with a comparison of all starts and sums.

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
    /// Undecided within the time limit.
    Unknown,
}

impl Proof {
    /// Returns the word for users and programs.
    pub fn word(self) -> &'static str {
        match self {
            Proof::Holds => "holds",
            Proof::Fails => "fails",
            Proof::Unknown => "unknown",
        }
    }
}

/// The origin of a behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BehaviourSource {
    /// Found by the reference among the candidates, and confirmed by the solver.
    Simulation,
    /// Found by the solver, and confirmed by the reference.
    Solver,
}

/// A behaviour that was found.
#[derive(Debug, Clone)]
pub struct FoundBehaviour {
    /// The behaviour.
    pub run: Run,
    /// Its origin.
    pub source: BehaviourSource,
}

/// A verdict with its duration and the behaviour that proves it, if any.
#[derive(Debug, Clone)]
pub struct CheckedQuery {
    /// The verdict.
    pub verdict: Proof,
    /// Time spent.
    pub spent: Duration,
    /// The reason if it is unknown, and the question.
    pub note: String,
    /// A counterexample of "all", a witness of "any".
    pub found: Option<FoundBehaviour>,
}

/// Results for one case.
#[derive(Debug, Clone)]
pub struct Case {
    /// The setup.
    pub setup: Setup,
    /// Whether all behaviours keep the objective, otherwise with a counterexample.
    pub all: CheckedQuery,
    /// Whether any does, with a witness.
    pub any: CheckedQuery,
}

/// Decides both questions.
pub fn check(setup: &Setup, solver: &Solver) -> Result<Case> {
    let model = SmtModel::new(setup);
    let all = decide_all(setup, &model, solver)?;
    let any = decide_any(setup, &model, solver)?;
    Ok(Case { setup: setup.clone(), all, any })
}

/// Decides only whether all behaviours keep the objective, for searches.
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

/// Confirms a behaviour of the reference with the solver, with fixed times and decisions.
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
        // With all times fixed only arithmetic remains; the simulated behaviour is valid anyway.
        Reply::Unknown(_) => Ok(()),
        Reply::Unsat => Err(defect("the solver refuses a behaviour that the reference executes")),
    }
}

/// Executes the solver's behaviour and checks that it is an instance of the query.
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

/// Compares a run with the solver's model tick by tick.
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
