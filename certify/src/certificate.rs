//! Results of the clauses of a suite.

use std::collections::BTreeMap;

use pktgen_core::record::Hashing;
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{Clause, ClauseSuite, ProbeFrame};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::measure::MeasuredNumber;
use crate::profile::CertifyProfile;

/// Version of the method: 2 repeats undecidable draws and measures performance; 3 uses kernel stamps, and the time for
/// which sent frames keep an output busy; 4 counts times in lockstep from the arrival at the device.
pub(crate) const METHOD: u32 = 4;

/// Why a clause that the user left out does not apply.
pub(crate) const EXCEPTED: &str = "excepted by the user";

/// The result of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClauseVerdict {
    /// It held in every decided repeat, and at least half of the repeats were decided.
    Passed,
    /// It did not hold in at least one.
    Failed,
    /// More than half of its repeats were undecided, and none showed a violation.
    NotDecidable,
    /// Its precondition is not met.
    NotApplicable,
    /// A performance clause without a goal: it has a measurement.
    Measured,
}

impl ClauseVerdict {
    /// All verdicts.
    pub const ALL: [Self; 5] = [Self::Passed, Self::Failed, Self::NotDecidable, Self::NotApplicable, Self::Measured];

    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        ["passed", "failed", "not decidable", "not applicable", "measured"][self as usize]
    }
}

/// A clause with its result, whether it was carried out or not.
#[derive(Debug, Clone)]
pub struct ClauseOutcome {
    /// Its number in the suite.
    pub number: String,
    /// The clause.
    pub clause: &'static Clause,
    /// The result.
    pub verdict: ClauseVerdict,
    /// The reason if it did not pass, from the first repeat that decided.
    pub why: String,
    /// Repeats that were carried out.
    pub repeats: u32,
    /// The number of repeats with this verdict, if the clause did not pass; performance is judged by all together.
    pub times: u32,
    /// Repeats that remained undecided after all draws.
    pub undecided: u32,
    /// Additional draws after undecided ones.
    pub redrawn: u32,
    /// Number of the first repeat that decided.
    pub first: u32,
    /// The measurements of a performance clause.
    pub measured: Vec<MeasuredNumber>,
    /// All its trials.
    pub trials: Value,
    /// Number of frames of all repeats, in both directions; for trials, those that were sent.
    pub frames: u64,
    /// SHA-256 of them.
    pub digest: String,
    /// Frames of the repeat that decided, if the clause did not pass.
    pub evidence: Vec<ProbeFrame>,
    /// The device's counters since its start, if the clause failed and the device prints them.
    pub counted: Option<BTreeMap<String, u64>>,
    /// The file with the evidence, once it is written.
    pub file: Option<String>,
}

impl ClauseOutcome {
    /// Returns the result as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "clause": self.clause.id,
            "number": self.number,
            "title": self.clause.title,
            "verdict": self.verdict,
            "why": (!self.why.is_empty()).then_some(&self.why),
            "repeats": self.repeats,
            "times": self.times,
            "undecided": self.undecided,
            "redrawn": self.redrawn,
            "measured": self.measured,
            "frames": self.frames,
            "digest": self.digest,
            "evidence": self.file,
            "counted": self.counted,
        })
    }

    /// Parses such an object, with `first` beside it; none if it does not belong to this suite.
    pub(crate) fn of_json(one: &Value, suite: &'static ClauseSuite) -> Option<Self> {
        let (number, clause) = suite.numbered().find(|(_, clause)| one["clause"] == clause.id)?;
        let count = |key: &str| one[key].as_u64();
        let small = |key: &str| count(key).and_then(|n| u32::try_from(n).ok());
        Some(ClauseOutcome {
            number,
            clause,
            verdict: ClauseVerdict::deserialize(&one["verdict"]).ok()?,
            why: one["why"].as_str().unwrap_or_default().to_owned(),
            repeats: small("repeats")?,
            times: small("times")?,
            undecided: small("undecided")?,
            redrawn: small("redrawn")?,
            measured: Vec::deserialize(&one["measured"]).ok()?,
            trials: Value::Null,
            first: small("first")?,
            frames: count("frames")?,
            digest: one["digest"].as_str()?.to_owned(),
            evidence: Vec::new(),
            counted: Option::deserialize(&one["counted"]).ok()?,
            file: one["evidence"].as_str().map(str::to_owned),
        })
    }

    /// Returns the result as one line.
    pub fn line(&self) -> String {
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        let share = match self.verdict {
            ClauseVerdict::Failed | ClauseVerdict::NotDecidable if self.times > 0 => {
                format!(" ({} of {})", self.times, self.repeats)
            }
            _ => String::new(),
        };
        let drawn = self.drawn().map_or(String::new(), |drawn| format!(" ({drawn})"));
        format!(
            "{:<5} {:<14} {}{share}{why}{drawn}{}{}",
            self.number,
            self.verdict.name(),
            self.clause.id,
            self.numbers(),
            self.counters()
        )
    }

    /// Returns the device's counters in words; empty if they are unknown.
    pub(crate) fn counters(&self) -> String {
        let all = self.counted.iter().flatten().map(|(name, value)| format!("{name} {value}"));
        let all: Vec<_> = all.collect();
        if all.is_empty() { String::new() } else { format!("; the device counted {}", all.join(", ")) }
    }

    /// Returns the measurements in words; empty if there are none.
    pub(crate) fn numbers(&self) -> String {
        let all: Vec<_> = self.measured.iter().map(MeasuredNumber::words).collect();
        if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
    }

    /// Returns a measured number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.measured.iter().find(|it| it.name == name).and_then(|it| it.value)
    }

    /// Returns a sentence on undecided repeats, if there were any.
    pub(crate) fn drawn(&self) -> Option<String> {
        let own = |count, what| format!("{count} of {} repeats {what}", self.repeats);
        let said = match (self.verdict, self.undecided) {
            (ClauseVerdict::NotDecidable, _) | (_, 0) => None,
            (_, undecided) => Some(own(undecided, "not decidable")),
        };
        let again = (self.redrawn > 0).then(|| format!("{} drawn again", self.redrawn));
        let all: Vec<_> = said.into_iter().chain(again).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Results of all clauses, with their context.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The suite, and its version.
    pub suite: (&'static str, u32),
    /// The part of the suite that was carried out.
    pub profile: CertifyProfile,
    /// The program that certified, and its version.
    pub by: String,
    /// The device.
    pub device: String,
    /// The experiment.
    pub experiment: String,
    /// The seed.
    pub seed: u64,
    /// The experiment with all defaults.
    pub config: String,
    /// Information that a reader needs before the clauses.
    pub notes: Vec<String>,
    /// The clauses.
    pub outcomes: Vec<ClauseOutcome>,
    /// Clauses of the suite that were not chosen, where some were named.
    pub not_chosen: usize,
}

/// Returns the SHA-256 of this text.
pub(crate) fn sha256(text: &str) -> Result<String> {
    let mut hashing = Hashing::new(std::io::sink());
    let failed = |e| Error::Invalid(format!("a digest cannot be made: {e}"));
    std::io::Write::write_all(&mut hashing, text.as_bytes()).map_err(failed)?;
    Ok(hashing.digest().map(|digest| digest.sha256).unwrap_or_default())
}

impl Certificate {
    /// Returns the number of clauses with this verdict.
    pub fn count(&self, verdict: ClauseVerdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// Returns whether every applicable clause passed.
    pub fn is_whole(&self) -> bool {
        self.count(ClauseVerdict::Failed) + self.count(ClauseVerdict::NotDecidable) == 0
    }

    /// Returns the SHA-256 of the configuration.
    pub(crate) fn config_digest(&self) -> Result<String> {
        sha256(&self.config)
    }

    /// Returns the SHA-256 of the evidence: the verdicts and digests of all clauses.
    pub fn digest(&self) -> Result<String> {
        let lines = self.outcomes.iter().map(|it| format!("{} {} {}\n", it.clause.id, it.verdict.name(), it.digest));
        sha256(&lines.collect::<String>())
    }

    /// Returns the counts of the verdicts as one sentence.
    pub fn summary(&self) -> String {
        let measures = |it: &ClauseVerdict| *it != ClauseVerdict::Measured || self.count(*it) > 0;
        let counts = ClauseVerdict::ALL.iter().filter(|it| measures(it));
        let counts: Vec<_> = counts.map(|it| format!("{} {}", self.count(*it), it.name())).collect();
        format!("{} clauses of {}: {}", self.outcomes.len(), self.suite.0, counts.join(", "))
    }

    /// Returns the statement on the device, in words.
    pub fn statement(&self) -> String {
        let excepted = self.excepted();
        match (self.is_sound(), excepted.is_empty()) {
            (true, false) => format!("the device conforms, except: {} (left out by --except)", excepted.join(", ")),
            (_, true) => self.words(),
            (_, false) => format!("{}; left out by --except: {}", self.words(), excepted.join(", ")),
        }
    }

    /// Returns the clauses that the user left out.
    fn excepted(&self) -> Vec<&'static str> {
        let all = self.outcomes.iter().filter(|it| it.why == EXCEPTED);
        all.map(|it| it.clause.id).collect()
    }

    /// Returns whether the whole suite was carried out except for clauses left out by name, and all applicable clauses held.
    fn is_sound(&self) -> bool {
        let says = self.profile.is_conformance() && self.has_correctness();
        says && self.is_whole() && self.not_chosen == 0 && self.count(ClauseVerdict::Passed) > 0
    }

    /// Returns the statement for the case in which all clauses count.
    fn words(&self) -> String {
        let words = if !self.has_correctness() && self.is_whole() {
            "nothing failed; no clause of correctness was carried out"
        } else if !self.has_correctness() {
            self.trouble()
        } else if self.is_whole() && self.count(ClauseVerdict::Passed) == 0 {
            "nothing failed, and no clause applies: whether the device conforms is not known"
        } else {
            return self.of_correctness();
        };
        words.to_owned()
    }

    /// Returns why the certificate is not whole.
    fn trouble(&self) -> &'static str {
        match self.count(ClauseVerdict::Failed) {
            0 => "a clause is not decidable",
            _ => "a clause failed",
        }
    }

    /// Returns the statement for the case in which there are clauses of correctness.
    fn of_correctness(&self) -> String {
        let words = match (self.profile.is_conformance(), self.is_whole()) {
            (true, true) if self.not_chosen > 0 => {
                let all = self.outcomes.len() + self.not_chosen;
                return format!(
                    "nothing failed; {} of {all} clauses were not chosen: whether the device conforms is not known",
                    self.not_chosen
                );
            }
            (true, true) => "the device conforms",
            (true, false) if self.count(ClauseVerdict::Failed) == 0 => {
                "nothing failed, and clauses are not decidable: whether the device conforms is not known"
            }
            (true, false) => "the device does not conform",
            (false, true) => "nothing failed; profile quick is no conformance",
            (false, false) => return format!("{}; profile quick is no conformance", self.trouble()),
        };
        words.to_owned()
    }

    /// Returns whether the device conforms; none if the profile does not determine it, or no clause failed but some are
    /// undecidable or were left out.
    fn conforms(&self) -> Option<bool> {
        let says = self.profile.is_conformance() && self.has_correctness();
        match self.count(ClauseVerdict::Failed) {
            1.. if says => Some(false),
            _ if self.is_sound() && self.excepted().is_empty() => Some(true),
            _ => None,
        }
    }

    /// Returns whether it has clauses of correctness.
    fn has_correctness(&self) -> bool {
        self.outcomes.iter().any(|it| it.clause.measure.is_none())
    }

    /// Returns the context of the certificate as one JSON object.
    pub fn to_json(&self) -> Result<Value> {
        Ok(json!({
            "suite": self.suite.0,
            "suite_version": self.suite.1,
            "method_version": METHOD,
            "profile": self.profile.name(),
            "by": self.by,
            "device": self.device,
            "experiment": self.experiment,
            "seed": self.seed,
            "statement": self.statement(),
            "conforms": self.conforms(),
            "excepted": self.excepted(),
            "notes": self.notes,
            "passed": self.count(ClauseVerdict::Passed),
            "failed": self.count(ClauseVerdict::Failed),
            "not_decidable": self.count(ClauseVerdict::NotDecidable),
            "not_applicable": self.count(ClauseVerdict::NotApplicable),
            "measured": self.count(ClauseVerdict::Measured),
            "config_sha256": self.config_digest()?,
            "evidence_sha256": self.digest()?,
        }))
    }
}
