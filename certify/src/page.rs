//! Pages: the methodology, which lists all clauses and their common rules, and a certificate.

use std::fmt::Write;

use pktgen_core::Result;
use pktgen_core::printable::printable;
use pktgen_engine::clause::{Clause, ClauseSuite};

use crate::certificate::{Certificate, ClauseOutcome, ClauseVerdict, METHOD};

/// The text before the clauses.
const HEAD: &str = include_str!("methodology.txt");

/// Returns docs/certify.md: the methodology, with the clauses of these suites.
pub fn methodology(suites: &[&'static ClauseSuite]) -> String {
    let mut out = String::from(HEAD);
    for suite in suites {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n## Clauses of `{}`, version {}\n", suite.name, suite.version);
        for (term, meaning) in suite.terms {
            let _ = writeln!(out, "- *{term}*: {meaning}.");
        }
        for (index, group) in suite.groups.iter().enumerate() {
            let _ = writeln!(out, "\n### {}. {}\n", index + 1, group.title);
            for (number, clause) in
                suite.numbered().filter(|(number, _)| number.split('.').next() == Some(&(index + 1).to_string()))
            {
                text(&number, clause, &mut out);
            }
        }
    }
    out
}

fn text(number: &str, clause: &Clause, out: &mut String) {
    let precondition = if clause.precondition.is_empty() { "none" } else { clause.precondition };
    let _ = writeln!(out, "**{number} `{}`: {}.** {}\n", clause.id, clause.title, clause.rule);
    for (what, said) in [
        ("Precondition", precondition),
        ("Stimulus", clause.stimulus),
        ("Observation", clause.observation),
        ("Oracle", clause.oracle),
    ] {
        let _ = writeln!(out, "- {what}: {said}.");
    }
    let missed = clause.measure.map_or_else(|| format!("; {}", missed(clause.repeats)), |_| String::new());
    let _ = writeln!(out, "- Repeats: {}. Error: {}{missed}.\n", clause.repeats, clause.error);
}

/// Returns the probability that this many repeats miss a defect that occurs only in some.
fn missed(repeats: u32) -> String {
    let percent = |share: f64| {
        let missed = 100.0 * (1.0 - share).powi(repeats as i32);
        if missed < 10.0 { format!("{missed:.2}") } else { format!("{missed:.0}") }
    };
    format!(
        "a defect that shows in half of the repeats is missed in {} % of certificates, in a tenth in {} %",
        percent(0.5),
        percent(0.1)
    )
}

/// Escapes text for a table cell.
pub(crate) fn cell(text: &str) -> String {
    printable(text).replace('|', "\\|").replace('<', "&lt;")
}

impl Certificate {
    /// Writes the measurements.
    fn numbers(&self, out: &mut String) {
        let all = self.outcomes.iter().flat_map(|it| it.measured.iter().map(move |own| (it, own)));
        let mut all = all.peekable();
        if all.peek().is_some() {
            out.push_str("\n## measured\n\n| clause | | value | unit |\n| --- | --- | ---: | --- |\n");
        }
        for (it, own) in all {
            let value = match (own.value, &own.why) {
                (Some(value), None) => format!("{value}"),
                (Some(value), Some(why)) => format!("{value} ({})", cell(why)),
                (None, why) => format!("not decidable: {}", cell(why.as_deref().unwrap_or_default())),
            };
            let _ = writeln!(out, "| {} `{}` | {} | {value} | {} |", it.number, it.clause.id, own.name, own.unit);
        }
    }

    /// Returns the page of a certificate.
    pub(crate) fn page(&self) -> Result<String> {
        let mut out = format!("# {}: {}\n\n{}.\n\n", cell(&self.device), self.statement(), self.summary());
        self.notes.iter().for_each(|note| out.push_str(&format!("Note: {}.\n\n", cell(note))));
        let (suite, version) = self.suite;
        for (what, said) in [
            ("suite", format!("{suite}, version {version}")),
            ("profile", format!("{}, version {METHOD} of the method", self.profile.name())),
            ("experiment", cell(&self.experiment)),
            ("certified by", self.by.clone()),
            ("seed", self.seed.to_string()),
            ("SHA-256 of the configuration", self.config_digest()?),
            ("SHA-256 of the evidence", self.digest()?),
        ] {
            let _ = writeln!(out, "- {what}: {said}");
        }
        out.push_str("\n| clause | | verdict | repeats | frames |\n| --- | --- | --- | ---: | ---: |\n");
        for it in &self.outcomes {
            let _ = writeln!(
                out,
                "| {} `{}` | {} | {} | {} | {} |",
                it.number,
                it.clause.id,
                it.clause.title,
                it.verdict.name(),
                it.repeats,
                it.frames
            );
        }
        self.numbers(&mut out);
        for verdict in [ClauseVerdict::Failed, ClauseVerdict::NotDecidable, ClauseVerdict::NotApplicable] {
            let mut own = self.outcomes.iter().filter(|it| it.verdict == verdict).peekable();
            if own.peek().is_some() {
                let _ = writeln!(out, "\n## {}\n", verdict.name());
            }
            for it in own {
                let share = if it.times > 0 { format!(" ({} of {})", it.times, it.repeats) } else { String::new() };
                let what = if it.clause.measure.is_some() { "trials" } else { "frames" };
                let file = it.file.as_ref().map_or(String::new(), |file| format!("; {what} in [{file}]({file})"));
                let why = cell(&format!("{}{}", it.why, it.counters()));
                let _ = writeln!(out, "- {} `{}`{share}: {why}{file}", it.number, it.clause.id);
            }
        }
        let drawn = |it: &ClauseOutcome| Some(format!("- {} `{}`: {}", it.number, it.clause.id, it.drawn()?));
        let drawn: Vec<_> = self.outcomes.iter().filter_map(drawn).collect();
        if !drawn.is_empty() {
            let _ = writeln!(out, "\n## repeats that were not decidable at once\n\n{}", drawn.join("\n"));
        }
        let _ = writeln!(out, "\n## Configuration\n\n```toml\n{}\n```", self.config.trim_end());
        Ok(out)
    }
}
