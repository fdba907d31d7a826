//! Converts a run dir into lines: computes every metric and collects notes for readers.
//!
//! Called by the CLI's `analyze` and by `pktgen_report::sweep`.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::Fault;

use crate::line::{Line, Measured, Note};
use crate::metric::{METRICS, findings, stamps};
use crate::provenance::{Answer, Provenance};
use crate::resolved::{Analysis, Options, sends_raw_frames};
use crate::rounds::Rounds;

impl Analysis {
    /// Returns all lines of all metrics, in the order of [`METRICS`], then those of the experiment's own metrics.
    pub fn lines(&self) -> Result<Vec<Line>> {
        let mut out = Vec::new();
        if self.manifest.study.is_some() {
            out.extend(findings::lines(&self.manifest));
        } else {
            METRICS.iter().try_for_each(|metric| metric.compute(self, &mut out))?;
        }
        out.extend(self.user.lines.iter().cloned());
        Ok(out)
    }

    /// Returns notes for readers of the lines, beginning with the verdict.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let validity = self.validity();
        if !validity.is_valid() {
            notes.push(Note { note: "invalid", text: format!("the run is invalid: {}", validity.why()) });
        }
        notes.extend(validity.notes.iter().map(|note| Note { note: note.code(), text: note.to_string() }));
        notes.append(&mut self.remarks());
        notes
    }

    /// Returns notes on the lines themselves: metrics that could not be computed, and why.
    pub fn remarks(&self) -> Vec<Note> {
        let mut notes = self.user.notes.clone();
        if let Some(goal) = self.goal.as_ref().filter(|goal| goal.t_ps.is_none()) {
            let (updates, short, workers) = (goal.updates, goal.short(), goal.workers);
            let text = format!(
                "the goal of {updates} updates per worker was not reached: {short} of {workers} workers were short of it"
            );
            notes.push(Note { note: "goal_missed", text });
        }
        let one_clock = self.manifest.has_one_clock();
        let contradicts = |found: &Provenance| found.packets(|answer| *answer == Answer::Contradiction);
        if let Some(packets) = self.provenance.as_ref().map(contradicts).filter(|packets| *packets > 0) {
            let why = match self.validity().faults.iter().any(Fault::is_kill) {
                true => "rows of updates that they hold may be among those that were lost with the killed process",
                false if !one_clock => {
                    "members are found by times, and the offset of the clocks of workers and server is unknown"
                }
                false => {
                    "a device does other than format.lanes_merge says, updates wait longer than format.lanes_window, or packets were \
                     copied or damaged"
                }
            };
            let text = format!(
                "the lanes of {packets} packets are explained by no set of updates: {why} (docs/provenance.md)"
            );
            notes.push(Note { note: "lanes_contradict", text });
        }
        if (self.resolved.is_some() || self.has_sums_by_key()) && !one_clock {
            let withheld = match self.has_sums_by_key() {
                true => "one-way ages and latencies, rates with hot sums, and busy shares of servers",
                false => "one-way ages and latencies",
            };
            let lanes = match self.provenance {
                Some(_) => ", and members by lanes may be wrong, since they are found by times",
                None => "",
            };
            let text = format!(
                "workers and server are on different hosts, and the offset of their clocks is unknown: {withheld} are \
                 withheld{lanes}; see docs/ranks.md, and pktgen merge --clock-error"
            );
            notes.push(Note { note: "clocks_not_comparable", text });
        }
        if sends_raw_frames(&self.manifest) {
            let text = "raw frames have no Age-of-Model: no model is in them".to_owned();
            notes.push(Note { note: "age_of_model_not_defined", text });
        }
        if let Some(why) = stamps::refusal(self) {
            let text = format!("delays by stamps are withheld: {why}; see docs/real-time.md");
            notes.push(Note { note: "stamps_not_comparable", text });
        }
        if let Some(rounds) = &self.rounds {
            notes.extend(self.notes_of_training(rounds));
        } else if self.resolved.is_none() && self.manifest.study.is_none() {
            let text = format!(
                "only the counters were read, since capture.records = \"{}\": Age-of-Model, latency and aggregation need \
                 capture.records = \"full\"",
                self.manifest.records
            );
            notes.push(Note { note: "records_not_full", text });
        }
        notes
    }

    /// Returns the notes of synchronous training.
    fn notes_of_training(&self, rounds: &Rounds) -> Vec<Note> {
        let text = "synchronous training has no Age-of-Model: its results carry no generation time".to_owned();
        let mut notes = vec![Note { note: "age_of_model_not_defined", text }];
        if let Some((ended, planned)) = self.iterations_short() {
            let text = format!(
                "{ended} of {planned} iterations of workers ended: times and shares are theirs, and say nothing of those \
                 that were still waiting"
            );
            notes.push(Note { note: "iterations_short", text });
        }
        if self.resolved.is_none() {
            let results = match &rounds.results {
                Some(_) => "latencies of results and recovery times are of the recorded blocks alone",
                None => "latencies of results and recovery times need at least \"every:N\"",
            };
            let text = format!(
                "only counters and iterations are complete, since capture.records = \"{}\": {results}; latency in \
                 devices and aggregation need capture.records = \"full\"",
                self.manifest.records
            );
            notes.push(Note { note: "records_not_full", text });
        }
        notes
    }
}

/// Computes all metrics of the run in `dir` with default options.
pub fn analyze_run(dir: &Path) -> Result<Measured> {
    analyze_run_with(dir, Options::default())
}

/// Computes all metrics of the run in `dir`.
pub fn analyze_run_with(dir: &Path, options: Options) -> Result<Measured> {
    let analysis = Analysis::open(dir, options)?;
    Ok(Measured { lines: analysis.lines()?, notes: analysis.notes() })
}
