//! The report as one self-contained HTML file that includes style and charts and loads nothing.

use std::fmt::Write;

use pktgen_core::Result;
use pktgen_core::printable::escape;
use pktgen_core::registry::Named;
use pktgen_records::stats::Interval;

use super::{Report, STYLE};
use crate::CHARTS;
use crate::answer::Shown;
use crate::headings::Heading;
use crate::lead::Answer;
use crate::made::RunProvenance;
use crate::model::{Cell, Model, RunNote};
use crate::plot::figure;

/// See the module documentation.
pub(super) struct Html;

impl Named for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn about(&self) -> &'static str {
        "one self-contained page with plots, for reading, printing and sending"
    }
}

impl Report for Html {
    fn extension(&self) -> &'static str {
        "html"
    }

    fn render(&self, model: &Model) -> Result<String> {
        let title = escape(&model.title);
        let question = escape(&model.lead.question);
        let sections = sections(model);
        let mut out = String::with_capacity(256 * 1024);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{}</style>\n</head>\n<body>\n<nav class=\"toc\" aria-label=\"Contents\"><ul>",
            STYLE
        );
        for (id, name, _) in &sections {
            let _ = write!(out, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        let about = match model.about.is_empty() {
            true => title.clone(),
            false => format!("{title}: {}", escape(&stated(model, &model.about))),
        };
        let _ = writeln!(out, "</ul></nav>\n<main>\n<h1>{question}</h1>\n<p class=\"about\">{about}</p>");
        for (id, name, text) in &sections {
            section(id, name, text, &mut out);
        }
        let _ = writeln!(out, "</main>\n<script>\n{}</script>\n</body>\n</html>", include_str!("../zoom.js"));
        Ok(out)
    }
}

/// Outputs a section. Reasons for doubt are shown immediately, as is the summary, whose heading is only for screen
/// readers; all others are collapsed.
fn section(id: &str, name: &str, text: &str, out: &mut String) {
    let _ = match id {
        "summary" => writeln!(out, "<section id=\"{id}\" aria-label=\"{name}\">\n{text}</section>"),
        "mistakes" | "invalid" => {
            writeln!(out, "<section id=\"{id}\" aria-label=\"{name}\">\n<h2>{name}</h2>\n{text}</section>")
        }
        _ => writeln!(
            out,
            "<details class=\"section\"><summary><h2>{name}</h2></summary>\n\
             <section id=\"{id}\" aria-label=\"{name}\">\n{text}</section></details>"
        ),
    };
}

/// Returns id, name and contents of each section that is not empty, in the reader's order.
fn sections(model: &Model) -> Vec<(&'static str, &'static str, String)> {
    let mut budget = CHARTS_BYTES;
    let summary = summary(model, &mut budget);
    let paper = format!("{}{}", bullets(&model.disagreements), charts(model, true, &mut budget));
    let mut results = format!("<p>{}</p>\n", escape(&model.legend));
    table(model, &mut results);
    let all = vec![
        ("summary", "Summary", summary),
        ("mistakes", "Mistakes in the experiment's [report] and [paper]", bullets(&model.warnings)),
        ("invalid", "Invalid runs", notes(&model.invalid)),
        ("paper", "Paper beside ours", paper),
        ("plots", "Plots", charts(model, false, &mut budget)),
        ("results", "Results", results),
        ("fitted", "Fitted parameters", fitted(model)),
        ("notes", "Notes", bullets(&model.notes)),
        ("remarks", "Remarks of runs", notes(&model.remarks)),
    ];
    all.into_iter().filter(|(_, _, text)| !text.is_empty()).collect()
}

/// Returns a text of the experiment file, with a note that overrides may have changed its subject.
fn stated(model: &Model, text: &str) -> String {
    model.made.before_overrides().map_or_else(|| text.to_owned(), |before| format!("{before}: {text}"))
}

fn fitted(model: &Model) -> String {
    let before = model.made.before_overrides().filter(|_| !model.fitted.is_empty());
    let before = before.map_or(String::new(), |before| format!("<p>{}:</p>\n", escape(&before)));
    format!("{before}{}", bullets(&model.fitted))
}

/// Outputs what made the runs, collapsed: the first question of readers of an archived page.
pub fn provenance(made: &RunProvenance, out: &mut String) {
    let line = format!("pktgen {} ({}), {}, seeds: {}", made.version, made.commit, made.date, made.seeds);
    let over = if made.overrides.is_empty() { String::new() } else { format!("; {}", made.overrides.join(", ")) };
    let _ = writeln!(out, "<details class=\"made\"><summary>{}</summary>\n<dl>", escape(&format!("{line}{over}")));
    for (name, value) in made.lines() {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl></details>\n");
}

/// Maximum size of charts in a page, in bytes: further charts are omitted, and the page notes this.
const CHARTS_BYTES: usize = 4_000_000;

/// Returns the charts of the paper's values, or all others under the headings of their pictures.
fn charts(model: &Model, paper: bool, budget: &mut usize) -> String {
    let (mut out, mut left_out) = (String::new(), 0);
    for picture in CHARTS.iter().filter(|picture| (picture.name() == "paper") == paper) {
        let others =
            model.charts.iter().enumerate().filter(|(i, _)| Some(*i) != model.lead_chart).map(|(_, chart)| chart);
        let own = || others.clone().filter(|chart| chart.picture == picture.name());
        let mut draw = |folded: bool| {
            let mut all = String::new();
            for figure in own().filter(|chart| chart.folded == folded).map(figure) {
                match budget.checked_sub(figure.len()) {
                    Some(rest) => {
                        *budget = rest;
                        all.push_str(&figure);
                    }
                    None => left_out += 1,
                }
            }
            all
        };
        let (open, folded) = (draw(false), draw(true));
        if open.is_empty() && folded.is_empty() {
            continue;
        }
        if !paper {
            let _ = writeln!(out, "<h3>{}</h3>", picture.heading());
        }
        let _ = writeln!(out, "<div class=\"charts\">\n{open}</div>");
        if !folded.is_empty() {
            let count = folded.matches("<figure").count();
            let _ = writeln!(
                out,
                "<details><summary>{count} more</summary>\n<div class=\"charts\">\n{folded}</div></details>"
            );
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} left out, so that the page stays small; \
             <code>pktgen report RUN --plots DIR</code> writes all of them as files.</p>",
            if left_out == 1 { "1 chart is".to_owned() } else { format!("{left_out} charts are") }
        );
    }
    out
}

/// Shown above tables that are wider than a phone, on phones only.
pub const SCROLLS: &str = "<p class=\"note scrolls\">The table goes on to the right: swipe it sideways.</p>\n";

/// Returns the verdict and the data that it is based on.
fn summary(model: &Model, budget: &mut usize) -> String {
    let chart = model.lead_chart.and_then(|i| model.charts.get(i)).map(figure).unwrap_or_default();
    *budget = budget.saturating_sub(chart.len());
    let mut out = String::from("<div class=\"lead\">\n");
    verdict(model, &mut out);
    let _ = writeln!(out, "{chart}</div>");
    let told = &model.verdict.lines[model.verdict.compared.clone()];
    if !told.is_empty() {
        let lines: String = told.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        let _ = writeln!(out, "<details><summary>In words</summary>\n{lines}</details>");
    }
    provenance(&model.made, &mut out);
    let runs: usize = model.rows.iter().map(|row| row.runs).sum();
    let counted = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let (runs, points) = (counted(runs, "run"), counted(model.rows.len(), "point"));
    let _ = writeln!(out, "<p class=\"note\">{runs} at {points}; {}.</p>", counted(model.charts.len(), "chart"));
    out
}

fn verdict(model: &Model, out: &mut String) {
    let class = match (model.verdict.valid, model.verdict.worse) {
        (false, _) => "invalid",
        (true, true) => "worse",
        (true, false) => "fine",
    };
    let _ = writeln!(out, "<div class=\"verdict {class}\">");
    let compared = &model.verdict.compared;
    let lines = |own: &[String]| own.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect::<String>();
    out.push_str(&lines(&model.verdict.lines[..compared.start]));
    answers(&model.lead.answers, out);
    if !model.lead.more.is_empty() {
        let _ = writeln!(out, "<details><summary>{} more</summary>", model.lead.more.len());
        answers(&model.lead.more, out);
        out.push_str("</details>\n");
    }
    out.push_str(&lines(&model.verdict.lines[compared.end..]));
    out.push_str("</div>\n");
}

/// Outputs the answer with a line per comparison: values in large type, intervals and points in small type.
fn answers(answers: &[Answer], out: &mut String) {
    if answers.is_empty() {
        return;
    }
    out.push_str("<ul class=\"answers\">\n");
    for answer in answers {
        let value = |one: &Shown| {
            let interval = one.interval.as_ref().map_or(String::new(), |interval| format!(" {interval}"));
            let at = if one.at.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&one.at)) };
            format!("<span><strong>{}</strong>{interval}{at}</span>", one.value)
        };
        let values: Vec<String> = answer.values.iter().map(value).collect();
        let values = if answer.values.len() < answer.points { values.join(" to ") } else { values.join(" ") };
        let told = if answer.told.is_empty() { String::new() } else { format!(": <em>{}</em>", escape(&answer.told)) };
        let name = escape(&answer.name);
        let _ = writeln!(
            out,
            "<li class=\"{}\"><div><b>{name}</b>{told}</div>\n<div class=\"values\">{values}</div></li>",
            answer.class
        );
    }
    out.push_str("</ul>\n");
}

fn table(model: &Model, out: &mut String) {
    let _ = writeln!(out, "{SCROLLS}<div class=\"scroll\"><table>\n<thead><tr>");
    for axis in &model.axes {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(axis));
    }
    out.push_str("<th scope=\"col\" class=\"n\">runs</th>");
    for column in &model.columns {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{}</th>", escape(&column.key));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &model.rows {
        out.push_str("<tr>");
        for axis in &model.axes {
            let value = row.labels.get(axis).map_or("–", String::as_str);
            let _ = write!(out, "<th scope=\"row\">{}</th>", escape(value));
        }
        let _ = write!(out, "<td class=\"n\">{}</td>", row.runs);
        for (cell, column) in row.cells.iter().zip(&model.columns) {
            show(cell, column, row.runs, out);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn show(cell: &Cell, column: &Heading, runs: usize, out: &mut String) {
    let scale = cell.scale(column.scale);
    out.push_str("<td class=\"n\">");
    match &cell.ours {
        None => out.push('–'),
        Some(ours) => {
            out.push_str(&scale.show(ours.median));
            if let Some(Interval { lo, hi }) = ours.spread() {
                let _ = write!(out, " <small>[{}, {}]</small>", scale.number(lo), scale.number(hi));
            }
        }
    }
    out.push_str(&cell.shown_runs(runs));
    if let Some(paper) = &cell.paper {
        let class = if paper.inside == Some(false) { "paper off" } else { "paper" };
        let difference = paper.difference.map(|by| format!(", {}", scale.difference(by))).unwrap_or_default();
        let (value, source) = (format!("{}{}", escape(paper.sign), scale.show(paper.value)), escape(&paper.source));
        let _ = write!(out, "<div class=\"{class}\">paper {value}{difference} <cite>{source}</cite></div>");
    }
    out.push_str("</td>");
}

fn bullets(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{items}</ul>\n")
}

fn notes(notes: &[RunNote]) -> String {
    let lines: Vec<String> = notes.iter().map(|note| format!("{}: {}", note.run, note.reasons.join("; "))).collect();
    bullets(&lines)
}

#[cfg(test)]
mod tests {
    use pktgen_records::testing::write_sweep;

    use super::*;
    use crate::SweepData;

    #[test]
    fn folded_charts_that_are_left_out_are_not_counted_as_more() {
        let dir = tempfile::tempdir().unwrap();
        write_sweep(dir.path(), 1);
        let mut model = Model::build(&SweepData::open(dir.path(), &mut |_, _| {}).unwrap());
        let chart = crate::chart::Chart { folded: true, ..model.charts[0].clone() };
        let mut budget = 2 * figure(&chart).len();
        (model.lead_chart, model.charts) = (None, vec![chart; 3]);
        let text = charts(&model, false, &mut budget);
        assert!(text.contains("2 more</summary>") && text.contains("1 chart is left out"), "{text}");
    }
}
