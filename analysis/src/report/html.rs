//! The report as one self-contained HTML file: style and pictures are inside, nothing is fetched.

use std::fmt::Write;

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Report;
use crate::model::{Cell, Heading, Model, RunNote};
use crate::plot::{escape, figure};

/// See the module.
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
        let mut out = String::with_capacity(64 * 1024);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
            include_str!("../style.css")
        );
        if !model.about.is_empty() {
            let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(&model.about));
        }
        verdict(model, &mut out);
        list("Mistakes in the experiment's [report] and [paper]", &model.warnings, &mut out);
        notes("Invalid runs", &model.invalid, &mut out);
        out.push_str("<h2>Results</h2>\n<p>Median over the seeds with its 95&nbsp;% bootstrap interval; published values below ours.</p>\n");
        table(model, &mut out);
        list("Published values outside our intervals", &model.disagreements, &mut out);
        list("Fitted parameters", &model.fitted, &mut out);
        list("Notes", &model.notes, &mut out);
        if !model.charts.is_empty() {
            out.push_str("<h2>Plots</h2>\n");
            model.charts.iter().for_each(|chart| out.push_str(&figure(chart)));
        }
        notes("Remarks of runs", &model.remarks, &mut out);
        out.push_str("</main>\n</body>\n</html>\n");
        Ok(out)
    }
}

fn verdict(model: &Model, out: &mut String) {
    let class = match (model.verdict.valid, model.verdict.worse) {
        (false, _) => "invalid",
        (true, true) => "worse",
        (true, false) => "fine",
    };
    let _ = writeln!(out, "<section class=\"verdict {class}\" aria-label=\"Verdict\">");
    for line in &model.verdict.lines {
        let _ = writeln!(out, "<p>{}</p>", escape(line));
    }
    out.push_str("</section>\n");
}

fn table(model: &Model, out: &mut String) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
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
            show(cell, column, out);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn show(cell: &Cell, column: &Heading, out: &mut String) {
    let scale = &column.scale;
    out.push_str("<td class=\"n\">");
    match &cell.ours {
        None => out.push('–'),
        Some(ours) => {
            out.push_str(&scale.show(ours.median));
            if ours.lo < ours.hi {
                let _ = write!(out, " <small>[{}, {}]</small>", scale.number(ours.lo), scale.number(ours.hi));
            }
        }
    }
    if let Some(paper) = &cell.paper {
        let class = if paper.inside { "paper" } else { "paper off" };
        let difference = paper.difference.map(|by| format!(", {}", scale.difference(by))).unwrap_or_default();
        let (value, source) = (format!("{}{}", escape(paper.sign), scale.show(paper.value)), escape(&paper.source));
        let _ = write!(out, "<div class=\"{class}\">paper {value}{difference} <cite>{source}</cite></div>");
    }
    out.push_str("</td>");
}

fn list(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        let _ = writeln!(out, "<h2>{title}</h2>\n<ul>");
        for line in lines {
            let _ = writeln!(out, "<li>{}</li>", escape(line));
        }
        out.push_str("</ul>\n");
    }
}

fn notes(title: &str, notes: &[RunNote], out: &mut String) {
    let lines: Vec<String> = notes.iter().map(|note| format!("{}: {}", note.run, note.reasons.join("; "))).collect();
    list(title, &lines, out);
}
