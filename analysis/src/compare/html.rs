//! A comparison as one self-contained page: verdict first, a forest plot per metric, then the tables.
//!
//! Called by [`super`] and [`super::history`]. The style is that of reports; what only comparisons need is below it.

use std::fmt::Write;

use super::text::{HEADS, cells, ranking_cells, ranking_heads};
use super::{Comparison, Judgement, Outcome, Versus};
use crate::human::title;
use crate::model::describe;
use crate::plot::escape;
use crate::report::html_provenance;

/// What the style of reports lacks.
const STYLE: &str = "\
.zone { fill: var(--rule); opacity: 0.45; }
.dot { fill: var(--text); } .dot.worse { fill: var(--worse); } .dot.better { fill: var(--fine); }
.whisker.worse { stroke: var(--worse); } .whisker.better { stroke: var(--fine); }
.worse-text { color: var(--worse); font-weight: 600; } .better-text { color: var(--fine); font-weight: 600; }
.verdict.worse p:first-child { color: var(--worse); }
.verdict.open { border-color: var(--soft); } .verdict.open p:first-child { color: var(--soft); }
";
const WIDTH: f64 = 720.0;
/// Where names of points end and the plot begins.
const LEFT: f64 = 270.0;
const RIGHT: f64 = 50.0;
const ROW: f64 = 24.0;
/// Longest name of a point, in letters.
const NAME_MAX: usize = 34;

/// A page with this title and body, style inside.
pub(super) fn framed(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n",
        include_str!("../style.css")
    )
}

/// The whole page.
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
    comparison.lines.iter().for_each(|line| out.push_str(&format!("<p>{}</p>\n", escape(line))));
    out.push_str("</section>\n");
    for one in &comparison.implementations {
        let _ = writeln!(out, "<p class=\"about\">{}: {}</p>", escape(&one.name), escape(&one.experiment));
        html_provenance(&one.made, &mut out);
        list(&format!("Invalid runs of {}", one.name), &one.invalid, &mut out);
    }
    for versus in comparison.versus.iter().filter(|versus| !versus.judgements.is_empty()) {
        let _ = writeln!(out, "<h2>{} against {}</h2>", escape(&versus.new), escape(&versus.old));
        forests(versus, &mut out);
        let rows = versus.judgements.iter().map(|one| (cells(one).to_vec(), one.outcome));
        table(&HEADS.map(str::to_owned), rows, &mut out);
    }
    if !comparison.rankings.is_empty() {
        out.push_str(
            "<h2>Places</h2>\n<p>Place and median over the seeds that all have, with its 95&nbsp;% interval from 5 seeds on.</p>\n",
        );
        let rows = comparison.rankings.iter().map(|ranking| (ranking_cells(comparison, ranking), Outcome::Same));
        table(&ranking_heads(comparison), rows, &mut out);
    }
    list("How it was compared", &comparison.notes, &mut out);
    for versus in &comparison.versus {
        let unpaired = versus.pairing.unpaired.iter();
        let lines: Vec<String> =
            unpaired.map(|one| format!("{} of {}: {}", one.run, one.implementation, one.why)).collect();
        list(&format!("Runs in no pair: {} against {}", versus.new, versus.old), &lines, &mut out);
    }
    framed(&comparison.title, &out)
}

fn table(heads: &[String], rows: impl Iterator<Item = (Vec<String>, Outcome)>, out: &mut String) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    heads.iter().for_each(|head| out.push_str(&format!("<th scope=\"col\">{}</th>", escape(head))));
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
                _ if i + 1 == cells.len() => write!(out, "<td{class}>{cell}</td>"),
                _ => write!(out, "<td class=\"n\">{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn list(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        let _ = writeln!(out, "<h2>{}</h2>\n<ul>", escape(title));
        lines.iter().for_each(|line| out.push_str(&format!("<li>{}</li>\n", escape(line))));
        out.push_str("</ul>\n");
    }
}

/// One plot per metric: a row per point, the tolerance as a band.
fn forests(versus: &Versus, out: &mut String) {
    let mut metrics: Vec<(&str, super::Kind)> = Vec::new();
    for one in &versus.judgements {
        if !metrics.contains(&(one.metric.as_str(), one.kind)) {
            metrics.push((&one.metric, one.kind));
        }
    }
    for (metric, kind) in metrics {
        let wanted = |one: &&Judgement| one.metric == metric && one.kind == kind && one.effect.is_some();
        let rows: Vec<&Judgement> = versus.judgements.iter().filter(wanted).collect();
        if !rows.is_empty() {
            out.push_str(&forest(&rows));
        }
    }
}

/// From the least to the largest of what must be seen.
fn range(rows: &[&Judgement]) -> (f64, f64) {
    let mut ends = vec![0.0];
    for one in rows {
        ends.extend(one.band);
        ends.extend(one.effect.iter().flat_map(|effect| [effect.lo, effect.hi, effect.value]));
    }
    ends.retain(|end: &f64| end.is_finite());
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most > least { (least, most) } else { (least - 1.0, most + 1.0) }
}

fn forest(rows: &[&Judgement]) -> String {
    let first = rows[0];
    let (least, most) = range(rows);
    let x = |value: f64| LEFT + (value.clamp(least, most) - least) / (most - least) * (WIDTH - LEFT - RIGHT);
    let bottom = ROW * rows.len() as f64 + 10.0;
    let height = bottom + 36.0;
    let caption = format!("{}: effect and tolerance ({} is better)", title(&first.metric), first.direction.name());
    let caption = escape(&caption);
    let mut out = format!(
        "<figure>\n<figcaption>{caption}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{caption}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for (i, one) in rows.iter().enumerate() {
        let y = 10.0 + ROW * i as f64;
        let (from, to, middle) = (x(one.band[0]), x(one.band[1]), y + ROW / 2.0);
        let _ = writeln!(
            out,
            "<rect class=\"zone\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{ROW}\"/>",
            (to - from).max(1.0)
        );
        let name: String = describe(&one.labels).chars().take(NAME_MAX).collect();
        let name = escape(&name);
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>", LEFT - 40.0, middle + 4.0);
        let Some(effect) = &one.effect else { continue };
        let class = one.outcome.name().replace(' ', "-");
        let (lo, hi, at) = (x(effect.lo), x(effect.hi), x(effect.value));
        let _ = writeln!(
            out,
            "<path class=\"whisker {class}\" d=\"M{lo:.1} {middle:.1}H{hi:.1}M{lo:.1} {:.1}v8M{hi:.1} {:.1}v8\">\
             <title>{}</title></path>\n<circle class=\"dot {class}\" cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"4\"/>",
            middle - 4.0,
            middle - 4.0,
            escape(&format!("{}: {}", one.shown_effect(), one.shown_outcome()))
        );
    }
    let zero = x(0.0);
    let _ = writeln!(out, "<line class=\"axis\" x1=\"{zero:.1}\" y1=\"6\" x2=\"{zero:.1}\" y2=\"{bottom:.1}\"/>");
    // Labels side by side must not run into each other.
    let apart = |value: f64| (x(value) - zero).abs() > 70.0;
    for value in [least, most].into_iter().filter(|end| apart(*end)).chain([0.0]) {
        let text = if value == 0.0 { "0".to_owned() } else { escape(&first.amount(value)) };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            x(value),
            bottom + 18.0
        );
    }
    out.push_str("</svg>\n</figure>\n");
    out
}
