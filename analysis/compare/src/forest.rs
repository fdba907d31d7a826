//! Plots of effects and their intervals over the tolerance, one per metric. The name of each point is above its row, so
//! that the row has the full width, and omits what all points share.
//!
//! Called by [`super::html`].

use std::fmt::Write;

use pktgen_core::printable::escape;
use pktgen_records::human::{Scale, scale_for, title};
use pktgen_report::answer::setting;
use pktgen_report::plot::ticks::{axis_name, marks};
use pktgen_report::sweep::data::{Labels, VARIANT};

use super::text::point;
use super::{EffectKind, Judgement, Versus};

/// Width of a plot in its own units, like that of other charts: phones show them at two thirds.
const WIDTH: f64 = 520.0;
/// Space at both sides for the numbers below the ends of the axis.
const SIDE: f64 = 34.0;
/// Height of a line of a name and of the row below it.
const LINE: f64 = 19.0;
const ROW: f64 = 22.0;
/// Maximum number of characters in a line of a name, in the larger font on phones.
const LETTERS: usize = 56;

/// Outputs all plots of a comparison, one per metric.
pub(super) fn forests(versus: &Versus, out: &mut String) {
    let mut metrics: Vec<(&str, EffectKind)> = Vec::new();
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

/// Returns what all points share, and the rest of each point's name.
fn names(rows: &[&Judgement]) -> (String, Vec<String>) {
    let first = &rows[0].labels;
    let same = |axis: &str, value: &str| rows.iter().all(|row| row.labels.get(axis).is_some_and(|own| own == value));
    let part = |labels: &Labels, shared: bool| -> Labels {
        let kept = labels.iter().filter(|(axis, value)| same(axis, value) == shared);
        kept.map(|(axis, value)| (axis.clone(), value.clone())).collect()
    };
    let shown = |labels: &Labels| if labels.is_empty() { String::new() } else { point(labels) };
    if rows.len() == 1 {
        return (String::new(), vec![point(first)]);
    }
    let own = rows.iter().map(|row| {
        let own = part(&row.labels, false);
        // The variant is the most important difference, so it is first.
        match own.get(VARIANT) {
            Some(variant) if own.len() > 1 => format!("{variant}, {}", setting(&own)),
            _ => shown(&own),
        }
    });
    (shown(&part(first, true)), own.collect())
}

/// Breaks `name` into lines after commas or between words.
fn lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + word.trim_end().chars().count() > LETTERS {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines
}

/// Returns the range that must be visible, with a margin.
fn range(rows: &[&Judgement]) -> (f64, f64) {
    let mut ends = vec![0.0];
    for one in rows {
        ends.extend(one.band);
        ends.extend(one.effect.iter().flat_map(|effect| [effect.lo, effect.hi, effect.value]));
    }
    ends.retain(|end: &f64| end.is_finite());
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = 0.03 * (most - least);
    if most > least { (least - room, most + room) } else { (least - 1.0, most + 1.0) }
}

fn forest(rows: &[&Judgement]) -> String {
    let first = rows[0];
    let (least, most) = range(rows);
    let x = |value: f64| SIDE + (value.clamp(least, most) - least) / (most - least) * (WIDTH - 2.0 * SIDE);
    let (shared, names) = names(rows);
    let names: Vec<Vec<String>> = names.iter().map(|name| lines(name)).collect();
    let bottom = names.iter().map(|lines| LINE * lines.len() as f64 + ROW).sum::<f64>() + 6.0;
    let height = bottom + 46.0;
    let at = if shared.is_empty() { String::new() } else { format!(" at {shared}") };
    let caption = format!("{}{at}: effect and tolerance ({} is better)", title(&first.metric), first.direction.name());
    let caption = escape(&caption);
    let mut out = format!(
        "<figure>\n<figcaption>{caption}</figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{caption}\" xmlns=\"http://www.w3.org/2000/svg\">\n<desc>{}</desc>\n",
        escape(&words(rows))
    );
    let scale = match first.kind {
        EffectKind::Ratio => scale_for("share", 1.0),
        EffectKind::Difference => first.scale(),
    };
    // Writing to a String cannot fail.
    for (mark, text) in marks((least, most), &scale, 6) {
        let at = x(mark);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"6\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>");
        let below = bottom + 18.0;
        let _ = writeln!(out, "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{text}</text>");
    }
    let zero = x(0.0);
    let _ = writeln!(out, "<line class=\"axis\" x1=\"{zero:.1}\" y1=\"6\" x2=\"{zero:.1}\" y2=\"{bottom:.1}\"/>");
    let mut top = 0.0;
    for (one, lines) in rows.iter().zip(&names) {
        for line in lines {
            top += LINE;
            let _ = writeln!(out, "<text class=\"row\" x=\"0\" y=\"{:.1}\">{}</text>", top - 5.0, escape(line));
        }
        row(one, top, &x, &mut out);
        top += ROW;
    }
    let unit = if first.kind == EffectKind::Ratio { scale.unit } else { scale.difference_unit };
    let name = axis_name("new against old", &Scale { unit, ..scale });
    let _ =
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>", WIDTH / 2.0, bottom + 38.0);
    out.push_str("</svg>\n</figure>\n");
    out
}

/// Draws the tolerance, the interval over it, and the effect.
fn row(one: &Judgement, top: f64, x: &dyn Fn(f64) -> f64, out: &mut String) {
    let (from, to, middle) = (x(one.band[0]), x(one.band[1]), top + ROW / 2.0 - 2.0);
    let _ = writeln!(
        out,
        "<rect class=\"zone\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{}\"/>",
        (to - from).max(1.0),
        ROW - 4.0
    );
    let Some(effect) = &one.effect else { return };
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

/// Describes the plot in words, for readers who cannot see it.
fn words(rows: &[&Judgement]) -> String {
    let one = |row: &&Judgement| format!("{}: {}, {}.", point(&row.labels), row.shown_effect(), row.shown_outcome());
    rows.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_in_lines_that_fit() {
        let long = "Olaf, output 75 % busy, rate 40 Gbit/s, workers per cluster 30, timeout 2 µs, window 64";
        let lines = lines(long);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.trim_end().chars().count() <= LETTERS), "{lines:?}");
        assert_eq!(lines.concat(), long);
    }
}
