//! A comparison as GitHub-flavoured Markdown for pull requests: the verdict, what matters, and the rest collapsed.
//!
//! Called by [`super`].

use std::fmt::Write;

use pktgen_report::report::{markdown_provenance, plain};

use super::text::{HEADS, by_severity, cells, invalid, ranking_cells, ranking_heads, reasons, remarks};
use super::{Comparison, Judgement, Outcome, Versus};

/// Maximum number of judgements that are all shown.
const SHORT: usize = 8;

/// Formats the whole page.
pub(super) fn page(comparison: &Comparison) -> String {
    let verdict = comparison.verdict();
    // Writing to a String cannot fail.
    let mut out = format!("**{}**: {}\n\n", verdict.to_uppercase(), plain(&comparison.title));
    list(&comparison.lines, &mut out);
    list(&invalid(comparison), &mut out);
    for versus in comparison.versus.iter().filter(|versus| !versus.judgements.is_empty()) {
        judgements(versus, &mut out);
    }
    if !comparison.rankings.is_empty() {
        out.push_str("Places, and medians over the seeds that all have, with 95 % intervals from 5 seeds on:\n\n");
        let rows = comparison.rankings.iter().map(|ranking| ranking_cells(comparison, ranking));
        table(&ranking_heads(comparison), rows, &mut out);
    }
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        out.push_str("<details><summary>Remarks of runs</summary>\n\n");
        list(&remarks, &mut out);
        out.push_str("</details>\n\n");
    }
    out.push_str("<details><summary>What was run</summary>\n\n");
    for one in &comparison.implementations {
        let _ = writeln!(out, "{}: {}\n", plain(&one.name), plain(&one.experiment));
        list(&markdown_provenance(&one.made), &mut out);
    }
    out.push_str("</details>\n\n<details><summary>How it was compared</summary>\n\n");
    list(&comparison.notes, &mut out);
    for versus in &comparison.versus {
        let pairing = &versus.pairing;
        let _ = writeln!(
            out,
            "{} against {}: pairs: {}, points: {}, runs in no pair: {}.\n",
            plain(&versus.new),
            plain(&versus.old),
            pairing.pairs,
            pairing.points,
            pairing.unpaired.len()
        );
        list(&reasons(&pairing.unpaired), &mut out);
    }
    if !comparison.unranked.is_empty() {
        let _ = writeln!(out, "Runs left out of rankings: {}.\n", comparison.unranked.len());
        list(&reasons(&comparison.unranked), &mut out);
    }
    out.push_str("</details>\n");
    out
}

/// Outputs the judgements, the worst first; of many those other than "same", and all of them collapsed.
fn judgements(versus: &Versus, out: &mut String) {
    let heads = HEADS.map(str::to_owned);
    let rows = |all: Vec<&Judgement>| all.into_iter().map(|one| cells(one).to_vec()).collect::<Vec<_>>();
    let all: Vec<&Judgement> = versus.judgements.iter().collect();
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| by_severity(a, b));
    if all.len() <= SHORT {
        table(&heads, rows(sorted).into_iter(), out);
        return;
    }
    let mut telling: Vec<&Judgement> = sorted.into_iter().filter(|one| one.outcome != Outcome::Same).collect();
    let n = telling.len();
    if n > SHORT {
        let _ = writeln!(out, "{SHORT} of {n} that are not the same, the worst first:\n");
        telling.truncate(SHORT);
    }
    if !telling.is_empty() {
        table(&heads, rows(telling).into_iter(), out);
    }
    let _ = writeln!(out, "<details><summary>All {} judgements</summary>\n", all.len());
    table(&heads, rows(all).into_iter(), out);
    out.push_str("</details>\n\n");
}

fn table(heads: &[String], rows: impl Iterator<Item = Vec<String>>, out: &mut String) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(heads.iter().map(|head| plain(head)).collect()));
    out.push_str(&line(heads.iter().map(|_| "---".to_owned()).collect()));
    for row in rows {
        out.push_str(&line(row.iter().map(|cell| plain(cell)).collect()));
    }
    out.push('\n');
}

fn list(lines: &[String], out: &mut String) {
    for line in lines {
        let _ = writeln!(out, "- {}", plain(line));
    }
    if !lines.is_empty() {
        out.push('\n');
    }
}
