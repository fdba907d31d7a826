//! The table of a comparison.

use std::fmt::Write;

use super::{Fidelity, PropertyOutcome};

impl Fidelity {
    /// Returns the text for the terminal.
    pub fn text(&self) -> String {
        let factor =
            self.time_factor.map_or(String::new(), |factor| format!("; mean gaps are {factor:.3e} of the original's"));
        let (was, is) = (&self.original, &self.scaled);
        let mut text = format!(
            "original   {} updates of {} workers\nscaled     {} updates of {} workers{factor}\n\n",
            was.updates, was.workers, is.updates, is.workers
        );
        let _ = writeln!(text, "{:<16}{:<54}{:>8}{:>9}", "property", "statistic", "value", "at most");
        for finding in &self.findings {
            let number = |number: Option<f64>| number.map_or(String::new(), |x| format!("{x:.3}"));
            let outcome = match finding.outcome {
                PropertyOutcome::Pass => "kept",
                PropertyOutcome::Fail => "NOT KEPT",
                PropertyOutcome::NotApplicable => "not applicable",
            };
            let (value, limit) = (number(finding.value), number(finding.limit));
            let _ = writeln!(text, "{:<16}{:<54}{value:>8}{limit:>9}  {outcome}", finding.property, finding.statistic);
        }
        let mut failed: Vec<_> =
            self.findings.iter().filter(|f| f.outcome == PropertyOutcome::Fail).map(|f| f.property).collect();
        failed.dedup();
        let _ = match failed.as_slice() {
            [] => write!(text, "\nall that applies was kept"),
            failed => write!(text, "\nnot kept: {}", failed.join(", ")),
        };
        text
    }
}
