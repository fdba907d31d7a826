//! Certificates of all runs of a sweep side by side: measurements by the axes that differ.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};

use crate::certificate::{Certificate, ClauseOutcome, ClauseVerdict};
use crate::measure::{MeasuredNumber, number};
use crate::page::cell;

/// The certificate of one run of a sweep.
#[derive(Debug, Clone)]
pub struct CertifiedRun {
    /// Its folder below that of the table.
    pub name: String,
    /// Its settings: axes of the sweep with their values, and the seed.
    pub labels: BTreeMap<String, String>,
    /// Its certificate.
    pub certificate: Certificate,
}

/// Certificates of all runs of a sweep.
#[derive(Debug, Clone)]
pub struct CertificateTable {
    runs: Vec<CertifiedRun>,
    /// Axes that have more than one value.
    axes: Vec<String>,
}

impl CertificateTable {
    /// Creates the table of these runs.
    pub fn new(runs: Vec<CertifiedRun>) -> Self {
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (axis, value) in runs.iter().flat_map(|run| &run.labels) {
            let all = values.entry(axis).or_default();
            if !all.contains(&value.as_str()) {
                all.push(value);
            }
        }
        let axes = values.iter().filter(|(_, all)| all.len() > 1).map(|(axis, _)| (*axis).to_owned()).collect();
        CertificateTable { runs, axes }
    }

    /// Writes `measured.csv` and `certificates.md`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_whole(&folder.join("measured.csv"), self.csv()?)?;
        write_whole(&folder.join("certificates.md"), self.page()).map(drop)
    }

    /// A line for each number of each clause of each run: the axes, the clause and its verdict, the number, its unit, and why there is none.
    fn csv(&self) -> Result<String> {
        let failed = |e: csv::Error| Error::Invalid(format!("measured.csv cannot be made: {e}"));
        let mut out = csv::Writer::from_writer(Vec::new());
        let axes = self.axes.iter().map(String::as_str);
        out.write_record(["run"].into_iter().chain(axes).chain(["clause", "verdict", "name", "value", "unit", "why"]))
            .map_err(failed)?;
        for (run, outcome) in self.runs.iter().flat_map(|run| run.certificate.outcomes.iter().map(move |it| (run, it)))
        {
            for own in &outcome.measured {
                let value = own.value.map_or(String::new(), |value| value.to_string());
                let why = own.why.as_deref().unwrap_or_default();
                let said = [outcome.clause.id, outcome.verdict.name(), &own.name, &value, &own.unit, why];
                out.write_record([run.name.as_str()].into_iter().chain(self.at(run)).chain(said)).map_err(failed)?;
            }
        }
        let bytes = out.into_inner().map_err(|e| Error::Invalid(format!("measured.csv cannot be made: {e}")))?;
        String::from_utf8(bytes).map_err(|e| Error::Invalid(e.to_string()))
    }

    /// Returns the values of the axes of a run.
    fn at<'a>(&'a self, run: &'a CertifiedRun) -> impl Iterator<Item = &'a str> {
        self.axes.iter().map(|axis| run.labels.get(axis).map_or("", String::as_str))
    }

    /// Returns the page: verdicts of all runs, then a table for each clause that measures.
    pub fn page(&self) -> String {
        let failed = self.runs.iter().filter(|run| !run.certificate.is_whole()).count();
        let count = self.runs.len();
        let title = match failed {
            0 => format!("{count} certificates: nothing failed in any"),
            _ => format!("{count} certificates: in {failed} a clause failed or is not decidable"),
        };
        let mut out = format!("# {title}\n\n");
        self.head(&["certificate".into(), "passed".into(), "failed".into(), "not decidable".into()], &mut out);
        for run in &self.runs {
            let count = |verdict| run.certificate.count(verdict).to_string();
            let own = [ClauseVerdict::Passed, ClauseVerdict::Failed, ClauseVerdict::NotDecidable].map(count);
            let link = format!("[{}]({}/certificate.md)", cell(&run.certificate.statement()), run.name);
            self.row(run, [link].into_iter().chain(own), &mut out);
        }
        for clause in self.measuring() {
            self.clause(clause, &mut out);
        }
        out
    }

    /// Returns the clauses with numbers, in the order of the suite.
    fn measuring(&self) -> Vec<&ClauseOutcome> {
        let mut all: Vec<&ClauseOutcome> = Vec::new();
        for it in self.runs.iter().flat_map(|run| &run.certificate.outcomes).filter(|it| !it.measured.is_empty()) {
            if !all.iter().any(|own| own.clause.id == it.clause.id) {
                all.push(it);
            }
        }
        all
    }

    /// Writes the measurements of a clause in each run.
    fn clause(&self, first: &ClauseOutcome, out: &mut String) {
        let _ = writeln!(out, "\n## {} `{}`: {}\n", first.number, first.clause.id, first.clause.title);
        let unit = |own: &MeasuredNumber| if own.unit.is_empty() { String::new() } else { format!(", {}", own.unit) };
        let names: Vec<_> =
            first.measured.iter().map(|own| (own.name.as_str(), format!("{}{}", own.name, unit(own)))).collect();
        let titles: Vec<_> = names.iter().map(|(_, title)| title.clone()).collect();
        self.head(&titles, out);
        let mut reasons: Vec<String> = Vec::new();
        for run in &self.runs {
            let outcome = run.certificate.outcomes.iter().find(|it| it.clause.id == first.clause.id);
            let find = |name: &str| outcome?.measured.iter().find(|own| own.name == name);
            let values = names.iter().map(|(name, _)| match find(name) {
                Some(MeasuredNumber { value: Some(value), .. }) => number(*value),
                _ => "–".to_owned(),
            });
            self.row(run, values, out);
            let Some(outcome) = outcome else { continue };
            let of = |own: &MeasuredNumber| Some(format!("{}: {}", own.name, own.why.as_deref()?));
            let whole = (!outcome.why.is_empty()).then(|| format!("{}: {}", outcome.verdict.name(), outcome.why));
            let said = outcome.measured.iter().filter_map(of).chain(whole);
            reasons.extend(said.map(|said| format!("- {}: {}", cell(&run.name), cell(&said))));
        }
        if !reasons.is_empty() {
            let _ = writeln!(out, "\n{}", reasons.join("\n"));
        }
    }

    fn head(&self, titles: &[String], out: &mut String) {
        let axes = self.axes.iter().map(|axis| cell(axis));
        let all: Vec<_> = axes.chain(titles.iter().cloned()).collect();
        let lines = self.axes.iter().map(|_| "---").chain(titles.iter().map(|_| "---:"));
        let _ = writeln!(out, "| {} |\n| {} |", all.join(" | "), lines.collect::<Vec<_>>().join(" | "));
    }

    fn row(&self, run: &CertifiedRun, values: impl Iterator<Item = String>, out: &mut String) {
        let all: Vec<_> = self.at(run).map(cell).chain(values).collect();
        let _ = writeln!(out, "| {} |", all.join(" | "));
    }
}
