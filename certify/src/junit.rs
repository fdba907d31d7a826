//! A certificate as JUnit XML, which continuous integration shows: a case per clause.

use std::fmt::Write;

use pktgen_core::printable::printable;

use crate::certificate::{Certificate, ClauseOutcome, ClauseVerdict};
use crate::measure::MeasuredNumber;

impl Certificate {
    /// Returns the whole document.
    pub(crate) fn junit(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let (failed, errors) = (self.count(ClauseVerdict::Failed), self.count(ClauseVerdict::NotDecidable));
        let skipped = self.count(ClauseVerdict::NotApplicable);
        let counts = format!(
            "tests=\"{}\" failures=\"{failed}\" errors=\"{errors}\" skipped=\"{skipped}\"",
            self.outcomes.len()
        );
        let name = escape(&format!("{} on {}", self.suite.0, self.device));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<testsuites name=\"pktgen certify\" {counts}>\n<testsuite name=\"{name}\" {counts} time=\"0\">"
        );
        let said = std::iter::once(("statement", self.statement()));
        let said = said.chain(self.notes.iter().map(|note| ("note", note.clone())));
        let said: String =
            said.map(|(name, value)| format!("<property name=\"{name}\" value=\"{}\"/>", escape(&value))).collect();
        let _ = writeln!(out, "<properties>{said}</properties>");
        self.outcomes.iter().for_each(|outcome| case(outcome, self.suite.0, &mut out));
        out.push_str("</testsuite>\n</testsuites>\n");
        out
    }
}

fn case(outcome: &ClauseOutcome, suite: &str, out: &mut String) {
    let name = escape(&format!("{} {}: {}", outcome.number, outcome.clause.id, outcome.clause.title));
    let head = format!("<testcase classname=\"{}\" name=\"{name}\" time=\"0\"", escape(suite));
    let element = match outcome.verdict {
        ClauseVerdict::Passed | ClauseVerdict::Measured => None,
        ClauseVerdict::Failed => Some("failure"),
        ClauseVerdict::NotDecidable => Some("error"),
        ClauseVerdict::NotApplicable => Some("skipped"),
    };
    let _ = match element {
        None if outcome.measured.is_empty() => writeln!(out, "{head}/>"),
        None => writeln!(out, "{head}>{}</testcase>", properties(outcome)),
        Some(element) => {
            let why = escape(&format!("{}{}", outcome.why, outcome.counters()));
            writeln!(out, "{head}>{}<{element} message=\"{why}\"/></testcase>", properties(outcome))
        }
    };
}

/// Returns the measurements as properties.
fn properties(outcome: &ClauseOutcome) -> String {
    let one = |it: &MeasuredNumber| {
        let value = it.value.map_or_else(|| "not decidable".to_owned(), |value| format!("{value} {}", it.unit));
        format!("<property name=\"{}\" value=\"{}\"/>", escape(&it.name), escape(value.trim_end()))
    };
    let all: String = outcome.measured.iter().map(one).collect();
    if all.is_empty() { all } else { format!("<properties>{all}</properties>") }
}

fn escape(text: &str) -> String {
    let text = printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
