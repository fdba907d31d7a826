//! Charts with rows: stacked bars, dots with intervals, heat maps. The name of a row is above it with the full width,
//! so that long names are readable on phones.

use std::collections::HashSet;
use std::fmt::Write;

use pktgen_records::human::{Scale, scale_for};

use super::ticks::{axis_name, marks};
use super::{DASHES, LETTER_OF_PHONE, WIDTH, cut, escape};
use crate::chart::{Chart, Kind};

const LEFT: f64 = 12.0;
const RIGHT: f64 = 22.0;
/// Height of a row with its name, and the position and height of the band in it.
const PITCH: f64 = 42.0;
const BAND: (f64, f64) = (19.0, 16.0);
const TOP: f64 = 2.0;
const BOTTOM: f64 = 50.0;
/// Characters of a stack's total, at the end of the row's name, and of the space before it.
const TOTAL: f64 = 9.0;
/// Minimum width of cells with a number.
const CELL_MIN: f64 = 44.0;
/// Colours of heat maps from low to high: cividis (Nuñez, Anderton, Renslow 2018), which looks similar to colour-blind readers.
const HEAT: [[f64; 3]; 5] =
    [[0.0, 34.0, 78.0], [65.0, 77.0, 107.0], [124.0, 123.0, 120.0], [187.0, 174.0, 108.0], [254.0, 232.0, 56.0]];

/// Returns the drawing and its size.
pub(super) fn draw(chart: &Chart) -> (String, f64, f64) {
    let names: Vec<&str> = match chart.kind {
        Kind::Heat => chart.series.iter().map(|series| series.name.as_str()).collect(),
        _ => chart.categories.iter().map(String::as_str).collect(),
    };
    let height = TOP + PITCH * names.len() as f64 + BOTTOM;
    let total = if chart.kind == Kind::Stack { TOTAL * LETTER_OF_PHONE } else { 0.0 };
    let most = ((WIDTH - LEFT - RIGHT - total) / LETTER_OF_PHONE) as usize;
    let mut out = String::new();
    for (row, (name, shown)) in names.iter().zip(shortened(&names, most)).enumerate() {
        let y = TOP + PITCH * row as f64 + 14.0;
        let _ = writeln!(
            out,
            "<text class=\"row\" x=\"{LEFT}\" y=\"{y:.1}\">{}<title>{}</title></text>",
            escape(&shown),
            escape(name)
        );
    }
    match chart.kind {
        Kind::Heat => heat(chart, height, &mut out),
        Kind::Dots => dots(chart, height, &mut out),
        _ => stack(chart, height, &mut out),
    }
    (out, WIDTH, height)
}

/// Shortens names to at most `most` characters and keeps both ends: without the middle, or with it if else different names look
/// the same.
fn shortened(names: &[&str], most: usize) -> Vec<String> {
    let at = |head: usize| -> Vec<String> {
        let one = |name: &&str| {
            let count = name.chars().count();
            if count <= most {
                return (*name).to_owned();
            }
            let tail = name.chars().skip(count + 1 + head - most);
            name.chars().take(head).chain(['…']).chain(tail).collect()
        };
        names.iter().map(one).collect()
    };
    let different: HashSet<&str> = names.iter().copied().collect();
    let differ = |shown: &Vec<String>| shown.iter().collect::<HashSet<_>>().len() == different.len();
    let middle = most / 2;
    let heads = (0..middle).flat_map(|by| [middle + by, middle - by]);
    heads.map(at).find(differ).unwrap_or_else(|| at(middle))
}

/// Returns the top of the band of a row.
fn band(row: f64) -> f64 {
    TOP + PITCH * row + BAND.0
}

/// An axis of values below the rows.
struct Along {
    range: (f64, f64),
    scale: Scale,
    bottom: f64,
}

impl Along {
    fn new(chart: &Chart, range: (f64, f64), height: f64) -> Along {
        let range = if range.1 > range.0 { range } else { (range.0 - 0.5, range.0 + 0.5) };
        let largest = range.0.abs().max(range.1.abs());
        Along { range, scale: scale_for(chart.x.1, largest), bottom: height - BOTTOM }
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + (x - self.range.0) / (self.range.1 - self.range.0) * (WIDTH - LEFT - RIGHT)
    }

    fn draw(&self, chart: &Chart, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom);
        for (x, text) in marks(self.range, &self.scale, 5) {
            let px = self.px(x);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>",
                bottom + 5.0
            );
            let _ =
                writeln!(out, "<text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", bottom + 20.0);
        }
        let _ =
            writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>");
        let name = axis_name(&chart.x.0, &self.scale);
        let middle = (LEFT + right) / 2.0;
        let _ = writeln!(out, "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>", bottom + 42.0);
    }
}

fn stack(chart: &Chart, height: f64, out: &mut String) {
    let mut ends = vec![0.0; chart.categories.len()];
    for (row, value) in chart.series.iter().flat_map(|series| &series.points) {
        ends[*row as usize] += value;
    }
    let along = Along::new(chart, (0.0, ends.iter().copied().fold(0.0, f64::max)), height);
    along.draw(chart, out);
    let mut from = vec![0.0; ends.len()];
    for (i, series) in chart.series.iter().enumerate() {
        for &(row, value) in series.points.iter().filter(|(_, value)| *value > 0.0) {
            let at = row as usize;
            let (left, right) = (along.px(from[at]), along.px(from[at] + value));
            from[at] += value;
            let tip = format!("{}: {} {}", chart.categories[at], series.name, along.scale.show(value));
            let _ = writeln!(
                out,
                "<rect class=\"bar part s{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
                i % DASHES.len(),
                band(row),
                (right - left).max(0.3),
                BAND.1,
                escape(&tip)
            );
        }
    }
    // The total as a number, at the end of the row's name.
    for (row, end) in ends.iter().enumerate() {
        let (x, y) = (WIDTH - RIGHT, TOP + PITCH * row as f64 + 14.0);
        let _ = writeln!(
            out,
            "<text class=\"value\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            along.scale.show(*end)
        );
    }
}

/// Draws the marker of a series: a dot, a diamond, or triangles, filled with its colour.
pub(super) fn marker(i: usize, x: f64, y: f64, tip: &str) -> String {
    let shape = match i {
        0 => format!("<circle class=\"bar s0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\">"),
        1 => format!("<path class=\"bar s1\" d=\"M{:.1} {y:.1}l6 -6l6 6l-6 6z\">", x - 6.0),
        2 => format!("<path class=\"bar s1\" d=\"M{:.1} {:.1}l10 6l-10 6z\">", x, y - 6.0),
        _ => format!("<path class=\"bar s1\" d=\"M{:.1} {:.1}l-10 6l10 6z\">", x, y - 6.0),
    };
    let end = if shape.starts_with("<circle") { "</circle>" } else { "</path>" };
    let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) };
    format!("{shape}{tip}{end}")
}

fn dots(chart: &Chart, height: f64, out: &mut String) {
    let values = || {
        let points = chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        points.chain(chart.series.iter().flat_map(|series| &series.spans).flat_map(|span| [span.lo, span.hi]))
    };
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    // From 0 if it is not far away, so that lengths can be compared.
    let least = if least > 0.0 && least < 0.7 * most { 0.0 } else { least };
    let room = (most - least) * 0.03;
    let along = Along::new(chart, (if least == 0.0 { 0.0 } else { least - room }, most + room), height);
    along.draw(chart, out);
    for row in 0..chart.categories.len() {
        let y = band(row as f64) + BAND.1 / 2.0;
        let _ =
            writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
    }
    for (i, series) in chart.series.iter().enumerate() {
        for span in &series.spans {
            let y = band(span.x) + BAND.1 / 2.0;
            let (lo, hi, top, low) = (along.px(span.lo), along.px(span.hi), y - 5.0, y + 5.0);
            let _ = writeln!(
                out,
                "<path class=\"whisker s{i}\" d=\"M{lo:.1} {top:.1}V{low:.1}M{hi:.1} {top:.1}V{low:.1}M{lo:.1} {y:.1}H{hi:.1}\"/>"
            );
        }
        for &(row, value) in &series.points {
            let name = chart.categories.get(row as usize).map_or("", String::as_str);
            let tip = format!("{name}: {} {}", series.name, along.scale.show(value));
            let y = band(row) + BAND.1 / 2.0;
            let _ = writeln!(out, "{}", marker(i, along.px(value), y, &tip));
        }
    }
}

fn colour(share: f64) -> String {
    let at = share.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let low = (at as usize).min(HEAT.len() - 2);
    let part = |c: usize| (HEAT[low][c] + (HEAT[low + 1][c] - HEAT[low][c]) * (at - low as f64)).round();
    format!("rgb({},{},{})", part(0), part(1), part(2))
}

fn heat(chart: &Chart, height: f64, out: &mut String) {
    let values = || chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let scale = scale_for(chart.y.1, values().map(f64::abs).fold(0.0, f64::max));
    // Values of very different size are coloured by their logarithm; otherwise, all but the largest would look alike.
    let log = least > 0.0 && most > 30.0 * least;
    let share = |value: f64| match log {
        true => (value / least).ln() / (most / least).ln(),
        false if most > least => (value - least) / (most - least),
        false => 0.0,
    };
    let columns = chart.categories.len().max(1);
    let wide = (WIDTH - LEFT - RIGHT) / columns as f64;
    for (row, series) in chart.series.iter().enumerate() {
        for &(column, value) in &series.points {
            let (x, y) = (LEFT + wide * column, band(row as f64));
            let name = chart.categories.get(column as usize).map_or("", String::as_str);
            let tip = escape(&format!("{}, {} {name}: {}", series.name, chart.x.0, scale.show(value)));
            let _ = writeln!(
                out,
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"><title>{tip}</title></rect>",
                (wide - 1.0).max(0.5),
                BAND.1 + 4.0,
                colour(share(value))
            );
            if wide >= CELL_MIN {
                let light = if share(value) > 0.5 { "dark" } else { "light" };
                let text = scale.number(value);
                let _ = writeln!(
                    out,
                    "<text class=\"cell-text {light}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                    x + wide / 2.0,
                    y + 14.0
                );
            }
        }
    }
    columns_of(chart, wide, height - BOTTOM + 10.0, out);
    legend(chart, (least, most, log), &scale, height - 8.0, out);
}

/// Writes the names of as many columns as fit.
fn columns_of(chart: &Chart, wide: f64, y: f64, out: &mut String) {
    let longest = chart.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let step = ((longest as f64 * LETTER_OF_PHONE + 8.0) / wide).ceil().max(1.0) as usize;
    for (i, name) in chart.categories.iter().enumerate().step_by(step) {
        let (x, anchor) =
            if step > 1 { (LEFT + wide * i as f64, "start") } else { (LEFT + wide * (i as f64 + 0.5), "middle") };
        if step == 1 || x + longest as f64 * LETTER_OF_PHONE <= WIDTH {
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(name));
        }
    }
}

/// Draws the legend of colours.
fn legend(chart: &Chart, (least, most, log): (f64, f64, bool), scale: &Scale, y: f64, out: &mut String) {
    let (left, steps, wide) = (WIDTH - RIGHT - 270.0, 24, 4.0);
    let x_name = escape(&cut(&chart.x.0, 22));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{y:.1}\">{x_name}</text>");
    for i in 0..steps {
        let fill = colour(f64::from(i) / f64::from(steps - 1));
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"4.2\" height=\"11\" fill=\"{fill}\"/>",
            left + 60.0 + wide * f64::from(i),
            y - 10.0
        );
    }
    let (from, to) = (scale.number(least), if log { format!("{} log", scale.show(most)) } else { scale.show(most) });
    let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{from}</text>", left + 55.0);
    let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{y:.1}\">{to}</text>", left + 60.0 + wide * f64::from(steps) + 5.0);
}
