//! A comparison as one self-contained page: the verdict, a plot per metric ([`super::forest`]), then the tables.
//!
//! Called by [`super`] and [`super::history`]. Uses the style of reports with a few additions.

use std::fmt::Write;

use pktgen_core::printable::escape;
use pktgen_report::report::{SCROLLS, STYLE, html_provenance};

use super::forest::forests;
use super::text::{HEADS, by_severity, cells, doubts, ranking_cells, ranking_heads, reasons, remarks};
use super::{Comparison, Outcome};

/// Additions to the style of reports.
const OWN_STYLE: &str = "\
.zone { fill: var(--rule); opacity: 0.45; }
.dot { fill: var(--text); } .dot.worse { fill: var(--worse); } .dot.better { fill: var(--fine); }
.whisker.worse { stroke: var(--worse); } .whisker.better { stroke: var(--fine); }
.worse-text { color: var(--worse); font-weight: 600; } .better-text { color: var(--fine); font-weight: 600; }
.verdict.worse p:first-child { color: var(--worse); }
.verdict.open { border-color: var(--soft); } .verdict.open p:first-child { color: var(--soft); }
";
/// Wraps a body into a page with this title and the style.
pub(super) fn framed(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Formats the whole page.
pub(super) fn page(comparison: &Comparison) -> String {
    let mut out = String::new();
    let class = match (comparison.valid, comparison.outcome) {
        (false, _) => "invalid",
        (true, Some(Outcome::Worse)) => "worse",
        (true, Some(Outcome::CannotTell) | None) => "open",
        _ => "fine",
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<section class=\"verdict {class}\" aria-label=\"Verdict\">");
    let _ = writeln!(out, "<p>{}</p>", escape(&comparison.verdict().to_uppercase()));
    // What may make values unusable stands before the first of them.
    let doubts = doubts(comparison);
    paragraphs(comparison.lines.iter().take(doubts), &mut out);
    answers(comparison, &mut out);
    paragraphs(comparison.lines.iter().skip(doubts), &mut out);
    out.push_str("</section>\n");
    for one in &comparison.implementations {
        list(&format!("Invalid runs of {}", one.name), &one.invalid, &mut out);
    }
    for versus in comparison.versus.iter().filter(|versus| !versus.judgements.is_empty()) {
        if comparison.versus.len() > 1 {
            let _ = writeln!(out, "<h2>{} against {}</h2>", escape(&versus.new), escape(&versus.old));
        }
        out.push_str("<div class=\"charts\">\n");
        forests(versus, &mut out);
        out.push_str("</div>\n<details><summary>All judgements</summary>\n");
        let rows = versus.judgements.iter().map(|one| (cells(one).to_vec(), one.outcome));
        table(&HEADS.map(str::to_owned), rows, true, &mut out);
        out.push_str("</details>\n");
    }
    if !comparison.rankings.is_empty() {
        out.push_str(
            "<h2>Places</h2>\n<p>Place and median over the seeds that all have, with its 95&nbsp;% interval from 5 seeds on.</p>\n",
        );
        let rows = comparison.rankings.iter().map(|ranking| (ranking_cells(comparison, ranking), Outcome::Same));
        table(&ranking_heads(comparison), rows, false, &mut out);
    }
    for one in &comparison.implementations {
        let _ = writeln!(out, "<p class=\"about\">{}: {}</p>", escape(&one.name), escape(&one.experiment));
        html_provenance(&one.made, &mut out);
    }
    folded("Remarks of runs", &remarks(comparison), &mut out);
    folded("How it was compared", &comparison.notes, &mut out);
    for versus in &comparison.versus {
        let lines = reasons(&versus.pairing.unpaired);
        folded(&format!("Runs in no pair: {} against {}", versus.new, versus.old), &lines, &mut out);
    }
    folded("Runs left out of rankings", &reasons(&comparison.unranked), &mut out);
    framed(&question(comparison), &out)
}

/// Returns the question that a comparison answers.
fn question(comparison: &Comparison) -> String {
    match comparison.versus.as_slice() {
        [only] if comparison.implementations.len() == 2 => format!("Is {} better than {}?", only.new, only.old),
        _ => {
            let names: Vec<&str> = comparison.implementations.iter().map(|one| one.name.as_str()).collect();
            format!("Which is best: {}?", names.join(", "))
        }
    }
}

/// Maximum number of judgements shown in large type in the verdict.
const ANSWERS_MAX: usize = 4;

/// Outputs the most important judgements, the worst first: the effect in large type with its interval.
fn answers(comparison: &Comparison, out: &mut String) {
    let several = comparison.versus.len() > 1;
    let all = comparison.versus.iter().flat_map(|versus| versus.judgements.iter().map(move |one| (versus, one)));
    let mut all: Vec<_> = all.filter(|(_, one)| one.effect.is_some()).collect();
    all.sort_by(|a, b| by_severity(a.1, b.1));
    if all.is_empty() {
        return;
    }
    out.push_str("<ul class=\"answers\">\n");
    for (versus, one) in all.iter().take(ANSWERS_MAX) {
        let [metric, at, _, _, effect, ..] = cells(one);
        let (value, interval) = effect
            .split_once(" [")
            .map_or((effect.as_str(), String::new()), |(value, interval)| (value, format!(" [{interval}")));
        let of = if several { format!("{}: ", versus.new) } else { String::new() };
        let class = match one.outcome {
            Outcome::Worse => "worse",
            Outcome::Better => "better",
            _ => "open",
        };
        let at = if one.labels.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&at)) };
        let _ = writeln!(
            out,
            "<li class=\"{class}\"><div class=\"values\"><span><strong>{value}</strong>{interval}{at}</span> \
             <span><b>{}{}</b>: <em>{}</em></span></div></li>",
            escape(&of),
            escape(&metric),
            one.outcome.name()
        );
    }
    out.push_str("</ul>\n");
}

/// Outputs a table with words in its first two columns, and in the last one if `last_is_words`.
fn table(heads: &[String], rows: impl Iterator<Item = (Vec<String>, Outcome)>, last_is_words: bool, out: &mut String) {
    let _ = writeln!(out, "{SCROLLS}<div class=\"scroll\"><table>\n<thead><tr>");
    for (i, head) in heads.iter().enumerate() {
        let class = if i < 2 || last_is_words && i + 1 == heads.len() { "" } else { " class=\"n\"" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (cells, outcome) in rows {
        let class = match outcome {
            Outcome::Worse => " class=\"worse-text\"",
            Outcome::Better => " class=\"better-text\"",
            _ => "",
        };
        out.push_str("<tr>");
        for (i, cell) in cells.iter().enumerate() {
            let cell = escape(cell);
            let _ = match i {
                0 | 1 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ if last_is_words && i + 1 == cells.len() => write!(out, "<td{class}>{cell}</td>"),
                _ => write!(out, "<td class=\"n\">{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn paragraphs<'a>(lines: impl Iterator<Item = &'a String>, out: &mut String) {
    lines.for_each(|line| out.push_str(&format!("<p>{}</p>\n", escape(line))));
}

/// Outputs a list that is shown on demand.
fn folded(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        let _ = writeln!(out, "<details><summary>{}</summary>\n<ul>", escape(title));
        lines.iter().for_each(|line| out.push_str(&format!("<li>{}</li>\n", escape(line))));
        out.push_str("</ul></details>\n");
    }
}

fn list(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        let _ = writeln!(out, "<h2>{}</h2>\n<ul>", escape(title));
        lines.iter().for_each(|line| out.push_str(&format!("<li>{}</li>\n", escape(line))));
        out.push_str("</ul>\n");
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Note;

    use super::*;
    use crate::Rules;
    use crate::tests::{AOM, invalid, run, side};

    #[test]
    fn validity_and_cautions_stand_before_the_first_value() {
        let of = |name: &str, age: f64| side(name, (1..=7).map(|seed| run("", seed, &[(AOM, age)])).collect());
        let (old, mut new) = (of("old", 100.0), of("new", 200.0));
        new.sweep.runs[0].validity = invalid("it was aborted");
        for run in &mut new.sweep.runs {
            run.validity.notes.push(Note::LimitDecided { share_percent: 95 });
        }
        let comparison = Comparison::of(&[old, new], Some(0), &Rules::built_in()).unwrap();
        let page = page(&comparison);
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
        let values = at("<ul class=\"answers\">");
        assert!(at("<p>INVALID: 1 of 14 runs") < values && at("<p>new: Caution, ") < values, "{page}");
        assert!(values < at("<p>Configurations of old and new"), "{page}");
        for line in &comparison.lines {
            assert_eq!(page.matches(&format!("<p>{}</p>", escape(line))).count(), 1, "{line}: {page}");
        }
    }
}
