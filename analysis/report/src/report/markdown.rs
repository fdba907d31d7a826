//! The report as GitHub-flavoured Markdown: for pull requests, issues and notes.

use std::fmt::Write;

use pktgen_core::Result;
use pktgen_core::printable::printable;
use pktgen_core::registry::Named;
use pktgen_records::stats::Interval;

use super::Report;
use crate::headings::Heading;
use crate::made::RunProvenance;
use crate::model::{Cell, Model, RunNote};

/// See the module documentation.
pub(super) struct Markdown;

impl Named for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn about(&self) -> &'static str {
        "GitHub-flavoured Markdown, for pull requests and notes"
    }
}

impl Report for Markdown {
    fn extension(&self) -> &'static str {
        "md"
    }

    fn render(&self, model: &Model) -> Result<String> {
        let mut out = format!("# {}\n\n", plain(&model.title));
        if !model.about.is_empty() {
            let before = model.made.before_overrides().map_or(String::new(), |before| format!("{before}: "));
            let _ = writeln!(out, "{}\n", plain(&format!("{before}{}", model.about)));
        }
        out.push_str("## Verdict\n\n");
        list(&model.verdict.lines, &mut out);
        section("Mistakes in the experiment's report and paper sections", &model.warnings, &mut out);
        notes("Invalid runs", &model.invalid, &mut out);
        let _ = writeln!(out, "## Results\n\n{}\n", plain(&model.legend));
        table(model, &mut out);
        section("Published values outside our intervals", &model.disagreements, &mut out);
        let fitted = match model.made.before_overrides() {
            Some(before) => format!("Fitted parameters ({})", plain(&before)),
            None => "Fitted parameters".to_owned(),
        };
        section(&fitted, &model.fitted, &mut out);
        section("Notes", &model.notes, &mut out);
        notes("Remarks of runs", &model.remarks, &mut out);
        out.push_str("## What was run\n\n");
        list(&provenance(&model.made), &mut out);
        Ok(out)
    }
}

/// Returns what made the runs, with one line each.
pub fn provenance(made: &RunProvenance) -> Vec<String> {
    made.lines().into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

fn table(model: &Model, out: &mut String) {
    let axes = model.axes.iter().map(|axis| plain(axis));
    let heads = model.columns.iter().map(|column| plain(&column.key));
    let names: Vec<String> = axes.chain(["runs".to_owned()]).chain(heads).collect();
    let _ = writeln!(out, "| {} |", names.join(" | "));
    let text = model.axes.iter().map(|_| "---");
    let numbers = std::iter::repeat_n("---:", model.columns.len() + 1);
    let _ = writeln!(out, "| {} |", text.chain(numbers).collect::<Vec<_>>().join(" | "));
    for row in &model.rows {
        let labels = model.axes.iter().map(|axis| row.labels.get(axis).map_or("–".to_owned(), |value| plain(value)));
        let cells = row.cells.iter().zip(&model.columns).map(|(cell, column)| show(cell, column, row.runs));
        let all: Vec<String> = labels.chain([row.runs.to_string()]).chain(cells).collect();
        let _ = writeln!(out, "| {} |", all.join(" | "));
    }
    out.push('\n');
}

fn show(cell: &Cell, column: &Heading, runs: usize) -> String {
    let scale = cell.scale(column.scale);
    let mut text = match &cell.ours {
        None => "–".to_owned(),
        Some(ours) => match ours.spread() {
            None => scale.show(ours.median),
            Some(Interval { lo, hi }) => {
                format!("{} [{}, {}]", scale.show(ours.median), scale.number(lo), scale.number(hi))
            }
        },
    };
    text.push_str(&cell.shown_runs(runs));
    if let Some(paper) = &cell.paper {
        let difference = paper.difference.map(|by| format!(", {}", scale.difference(by))).unwrap_or_default();
        let _ = write!(
            text,
            "<br>*paper {}{}{difference} ({})*",
            paper.sign,
            scale.show(paper.value),
            plain(&paper.source)
        );
    }
    text
}

fn section(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        let _ = writeln!(out, "## {title}\n");
        list(lines, out);
    }
}

fn list(lines: &[String], out: &mut String) {
    for line in lines {
        let _ = writeln!(out, "- {}", plain(line));
    }
    out.push('\n');
}

fn notes(title: &str, notes: &[RunNote], out: &mut String) {
    if !notes.is_empty() {
        let _ = writeln!(out, "## {title}\n");
        let lines: Vec<String> =
            notes.iter().map(|note| format!("{}: {}", note.run, note.reasons.join("; "))).collect();
        list(&lines, out);
    }
}

/// Escapes text so that it neither becomes markup nor ends a table cell.
pub fn plain(text: &str) -> String {
    let text = printable(text);
    let text = text.trim_start();
    let marks = [mark_of_block(text), mark_of_end(text)];
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '\n' => out.push(' '),
            '\\' | '|' | '<' | '*' | '_' | '`' | '[' | '~' | '&' | '$' => out.extend(['\\', c]),
            _ if marks.contains(&Some(at)) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// Returns the position of the mark that makes a text a heading, a quotation, a rule or an item of a list, if it begins with one.
fn mark_of_block(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text[digits..].chars();
    let (mark, next) = (rest.next()?, rest.next());
    let is_alone = next.is_none_or(|next| next.is_whitespace() || next == mark);
    match mark {
        '#' | '>' if digits == 0 => Some(0),
        '+' | '-' if digits == 0 && is_alone => Some(0),
        '.' | ')' if digits > 0 && is_alone => Some(digits),
        _ => None,
    }
}

/// Returns the position of the last `#` of a closing sequence, which is no part of a heading (CommonMark 0.31, §4.2).
fn mark_of_end(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let before = text.trim_end_matches('#');
    (before.len() < text.len() && before.ends_with(char::is_whitespace)).then(|| text.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        for (text, escaped) in [
            (r"\<img src=x>", r"\\\<img src=x>"),
            (r"\*a\* ~~b~~ &lt;", r"\\\*a\\\* \~\~b\~\~ \&lt;"),
            (r"LIKE '\_%'", r"LIKE '\\\_%'"),
            ("a\nb|c", r"a b\|c"),
            ("# two $x$ > y", r"\# two \$x\$ > y"),
            ("  > a # b", r"\> a # b"),
            ("1. one", r"1\. one"),
            ("12)", r"12\)"),
            ("- a + b", r"\- a + b"),
            ("+", r"\+"),
            ("---", r"\---"),
            // The end of a heading, and what is none.
            ("burst #", r"burst \#"),
            ("burst ### ", r"burst ##\# "),
            ("#", r"\#"),
            ("# #", r"\# \#"),
            ("C#", "C#"),
            ("a # b#", "a # b#"),
            // Numbers are no marks.
            ("1.5 µs", "1.5 µs"),
            ("-5", "-5"),
            ("+10.00 %", "+10.00 %"),
            ("", ""),
        ] {
            assert_eq!(plain(text), escaped, "{text}");
        }
    }
}
