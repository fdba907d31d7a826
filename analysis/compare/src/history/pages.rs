//! A history as a page of charts.

use std::fmt::Write;

use pktgen_core::printable::escape;
use pktgen_records::human;
use pktgen_report::plot::ticks::marks;

use super::{LeftOut, Series, counted, extreme, is_flat};
use crate::changes::{self, RUNS_MIN, STRETCH_RUNS_MIN, shortest_stretch};
use crate::html;

/// Formats series as one self-contained page, with what they leave out.
pub fn page(series: &[Series], left_out: &LeftOut) -> String {
    let changed = series.iter().filter(|one| !one.changes.is_empty()).count();
    let short: Vec<&Series> = series.iter().filter(|one| one.is_short()).collect();
    let all = series.len();
    let (class, said) = match (changed, short.len()) {
        (0, n) if n == all => {
            let most = short.iter().map(|one| one.values.len()).max().unwrap_or(0);
            ("open", format!("{}: too few to detect a change ({RUNS_MIN} are needed).", counted(most)))
        }
        (_, n) => {
            let hidden = series.iter().filter(|one| !one.is_short() && one.is_short_for_stretches()).count();
            let missing = left_out.newest_invalid > 0 || series.iter().any(|one| one.without > 0);
            let apart = series.iter().filter(|one| !one.of_clocks.is_empty()).count();
            let whole = changed + n + hidden + apart == 0 && !missing;
            let few = |which: &str, n: usize, what: &str| match n {
                0 => String::new(),
                1 => format!("; 1{which} has too few runs to detect {what}"),
                n => format!("; {n}{which} have too few runs to detect {what}"),
            };
            let of_clocks = match apart {
                0 => String::new(),
                1 => "; 1 has a difference that clocks may explain".to_owned(),
                n => format!("; {n} have a difference that clocks may explain"),
            };
            let more = few(" more", n, "one") + &few("", hidden, "one that was taken back") + &of_clocks;
            (if whole { "fine" } else { "open" }, format!("{changed} of {} series have a change{more}.", all - n))
        }
    };
    let fewest = series.iter().map(|one| one.values.len()).filter(|n| *n >= STRETCH_RUNS_MIN).min();
    let shortest = fewest.and_then(|n| Some(format!(" (of {n}, it needs to last {})", shortest_stretch(n)?)));
    let shortest = shortest.unwrap_or_default();
    let left_out: String = left_out.lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    let mut out = format!(
        "<section class=\"verdict {class}\" aria-label=\"Verdict\">\n<p>{said}</p>\n{left_out}<p>A series without one is reported to have \
         one with a probability of {} %; a change needs {RUNS_MIN} runs, one that was taken back {STRETCH_RUNS_MIN}{shortest}.</p>\n\
         </section>\n<div class=\"charts\">\n",
        100.0 * changes::ALPHA
    );
    series.iter().for_each(|one| out.push_str(&figure(one)));
    out.push_str("</div>\n");
    html::framed("History", &out)
}

/// Size of a series in the same units as other charts.
const SIZE: (f64, f64) = (520.0, 176.0);
const LEFT: f64 = 96.0;
const BOTTOM: f64 = 140.0;

/// Draws a series as a line and changes as vertical lines, with the means between them. The axis begins at 0 unless all
/// values are far from it; then its ends are marked.
fn figure(series: &Series) -> String {
    let values: Vec<f64> = series.values.iter().map(|value| value.value).collect();
    let (lowest, highest) = (extreme(&values, f64::min), extreme(&values, f64::max));
    let from_zero = lowest >= 0.0 && (lowest < 0.7 * highest || is_flat(lowest, highest));
    let least = if from_zero { 0.0 } else { lowest - 0.25 * (highest - lowest).max(lowest.abs() * 0.02) };
    let most = highest + 0.25 * (highest - lowest).max(highest.abs() * 0.02);
    let (least, most) = if most > least { (least, most) } else { (least, least + 1.0) };
    let x = |i: usize| LEFT + 10.0 + (i as f64 + 0.5) / values.len() as f64 * (SIZE.0 - LEFT - 20.0);
    let y = |value: f64| BOTTOM - (value - least) / (most - least) * (BOTTOM - 10.0);
    let name = escape(&series.name());
    let remarks = series.remarks();
    let mut out = format!(
        "<figure>\n<figcaption>{name}</figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{name}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n<desc>{} from {} to {}.</desc>\n",
        SIZE.0,
        SIZE.1,
        counted(values.len()),
        escape(&human::show(&series.unit, lowest)),
        escape(&human::show(&series.unit, highest))
    );
    let scale = human::scale_for(&series.unit, least.abs().max(most.abs()));
    for (mark, text) in marks((least, most), &scale, 5) {
        let (at, right) = (y(mark), SIZE.0 - 10.0);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>");
        let text = escape(&human::with_unit(text, scale.unit));
        let _ = writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 8.0, at + 4.0);
    }
    let points: Vec<String> =
        values.iter().enumerate().map(|(i, value)| format!("{:.1},{:.1}", x(i), y(*value))).collect();
    let _ = writeln!(out, "<polyline class=\"line s0\" points=\"{}\"/>", points.join(" "));
    for (i, value) in series.values.iter().enumerate() {
        let tip = escape(&format!("{} ({}): {}", value.day, value.tool, human::show(&series.unit, value.value)));
        let (cx, cy) = (x(i), y(value.value));
        let _ = writeln!(
            out,
            "<circle class=\"bar s0\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\"><title>{tip}</title></circle>"
        );
    }
    for change in &series.changes {
        let at = (x(change.at) + x(change.at - 1)) / 2.0;
        let later = series.changes.iter().chain(&series.of_clocks).map(|other| other.at).filter(|at| *at > change.at);
        let end = later.min().unwrap_or(values.len());
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{at:.1}\" y1=\"10\" x2=\"{at:.1}\" y2=\"{BOTTOM}\"/>");
        let (from, to, level) = (x(change.at), x(end - 1), y(change.after));
        let _ = writeln!(
            out,
            "<line class=\"line s1\" x1=\"{from:.1}\" y1=\"{level:.1}\" x2=\"{to:.1}\" y2=\"{level:.1}\"/>"
        );
    }
    let below = BOTTOM + 24.0;
    if let (Some(first), Some(last)) = (series.values.first(), series.values.last()) {
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{below}\">{}</text>", escape(&first.day));
        if last.day != first.day {
            let (day, right) = (escape(&last.day), SIZE.0 - 10.0);
            let _ = writeln!(out, "<text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{day}</text>");
        }
    }
    out.push_str("</svg>\n");
    let from = if from_zero { None } else { Some("The axis does not begin at 0.".to_owned()) };
    for remark in from.into_iter().chain(remarks) {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&remark));
    }
    series.told().iter().for_each(|change| out.push_str(&format!("<p>{}</p>\n", escape(change))));
    out.push_str("</figure>\n");
    out
}
