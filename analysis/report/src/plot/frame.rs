//! Charts with an x and a y axis: lines, steps and bars, with whiskers and crosses.

use std::fmt::Write;

use pktgen_records::human::{Scale, scale_for};

use super::ticks::{axis_name, marks};
use super::{DASHES, LETTER_OF_PHONE, WIDTH, escape};
use crate::chart::{Chart, Kind, ROWS_MAX, Series};

pub(super) const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 50.0;
/// Size of the area in which lines are drawn.
const INNER: (f64, f64) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
/// Factor of space above the highest value and below the lowest negative one, so that they are not cut off.
const ROOM: f64 = 1.05;

/// Returns the corners of a step line: flat up to the next point, then up; from 0 on the left.
fn corners(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut all = Vec::with_capacity(2 * points.len());
    let mut level = 0.0;
    for &(x, y) in points {
        all.push((x, level));
        all.push((x, y));
        level = y;
    }
    all
}

/// Whether the range of y is the same in all views: that of shares.
fn has_fixed_range(chart: &Chart) -> bool {
    chart.y.1 == "share"
}

/// Maps values to positions in the drawing.
pub(super) struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    x_scale: Scale,
    y_scale: Scale,
}

impl Frame {
    pub(super) fn around(chart: &Chart) -> Frame {
        // A range that stays as it is covers all views.
        let view = chart.zoom.filter(|_| !has_fixed_range(chart));
        let shown = |point: &&(f64, f64)| view.is_none_or(|(from, to)| (from..=to).contains(&point.0));
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let spans = || chart.series.iter().flat_map(|series| &series.spans);
        let top = points().filter(shown).map(|point| point.1).chain(spans().map(|span| span.hi)).fold(0.0, f64::max);
        let low = points().filter(shown).map(|point| point.1).chain(spans().map(|span| span.lo)).fold(0.0, f64::min);
        let x = match (chart.kind, chart.zoom) {
            (_, Some(first)) => first,
            (Kind::Bars, _) => (-0.5, chart.categories.len() as f64 - 0.5),
            (Kind::Step, _) => (least.min(0.0), most.max(1.0) + 0.5),
            _ => (least, most),
        };
        let x = match x {
            (from, to) if from.is_finite() && to > from => x,
            // A single place is in the middle.
            (at, _) if at.is_finite() && at != 0.0 => (at - at.abs() / 2.0, at + at.abs() / 2.0),
            _ => (0.0, 1.0),
        };
        // Sums of shares may differ from 1 by rounding errors.
        let top = if (top - 1.0).abs() < 1e-9 { 1.0 } else { top };
        let room = if has_fixed_range(chart) { 1.0 } else { ROOM };
        let y = if top > 0.0 || low < 0.0 { (low * room, top * room) } else { (0.0, 1.0) };
        let largest = y.1.max(-y.0);
        Frame { x, y, x_scale: scale_for(chart.x.1, x.1), y_scale: scale_for(chart.y.1, largest) }
    }

    /// Draws the whole chart.
    pub(super) fn draw(&self, chart: &Chart) -> String {
        let mut out = String::new();
        self.axes(chart, &mut out);
        if chart.zoom.is_some() {
            self.zoomed(chart, &mut out);
            return out;
        }
        for (i, series) in chart.series.iter().enumerate() {
            match chart.kind {
                Kind::Step => self.line(&corners(&series.points), chart.class(i), &series.name, &mut out),
                Kind::Bars => self.bars(chart, series, i, &mut out),
                _ => self.line(&series.points, chart.class(i), &series.name, &mut out),
            }
            self.spans(chart, series, i, &mut out);
            self.crosses(series, chart.class(i), &mut out);
        }
        out
    }

    /// Draws lines in a nested view that the page's script moves: it begins as the frame, and the lines extend beyond it.
    fn zoomed(&self, chart: &Chart, out: &mut String) {
        let (width, height) = INNER;
        let _ = writeln!(
            out,
            "<svg class=\"view\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" overflow=\"hidden\">"
        );
        let place = |(x, y): (f64, f64)| (self.px(x) - LEFT, self.py(y) - TOP);
        for (i, series) in chart.series.iter().enumerate() {
            let points = if chart.kind == Kind::Step { corners(&series.points) } else { series.points.clone() };
            polyline(points.into_iter().map(place), chart.class(i), &series.name, out);
        }
        out.push_str("</svg>\n");
    }

    /// Returns the data of the script: the whole range of x and the first view, both in display units; the largest y in its
    /// unit, of the first view or of all views; and whether the range of y is fixed, so that it is that of all views.
    pub(super) fn zoom_data(&self, chart: &Chart) -> String {
        let points = || chart.series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let least = points().fold(self.x.0, f64::min) * self.x_scale.factor;
        let most = points().fold(self.x.1, f64::max) * self.x_scale.factor;
        let (from, to) = (self.x.0 * self.x_scale.factor, self.x.1 * self.x_scale.factor);
        let top = self.y.1 * self.y_scale.factor;
        let fixed = u8::from(has_fixed_range(chart));
        let unit = escape(self.x_scale.unit);
        format!(" data-zoom=\"{least} {most} {from} {to} {top} {fixed}\" data-unit=\"{unit}\"")
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - (y - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, chart: &Chart, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        out.push_str("<g class=\"yt\">\n");
        for (y, text) in marks(self.y, &self.y_scale, 5) {
            let py = self.py(y);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>");
            let _ = writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, py + 4.0);
        }
        out.push_str("</g>\n<g class=\"xt\">\n");
        let named: Vec<(f64, String)> = match chart.kind {
            Kind::Bars => self.fitting(&chart.categories),
            _ => marks(self.x, &self.x_scale, 5),
        };
        for (x, text) in named {
            let (px, py) = (self.px(x), bottom + 18.0);
            let _ = writeln!(out, "<text x=\"{px:.1}\" y=\"{py:.1}\" text-anchor=\"middle\">{text}</text>");
        }
        out.push_str("</g>\n");
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
        let (x_name, y_name) = (axis_name(&chart.x.0, &self.x_scale), axis_name(&chart.y.0, &self.y_scale));
        let (middle_x, middle_y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(out, "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{x_name}</text>", HEIGHT - 8.0);
        let _ = writeln!(
            out,
            "<text transform=\"translate(15 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{y_name}</text>"
        );
    }

    /// Returns the names of as many categories as fit, evenly selected.
    pub(super) fn fitting(&self, categories: &[String]) -> Vec<(f64, String)> {
        let longest = categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let wanted = longest as f64 * LETTER_OF_PHONE + 4.0;
        let step = (wanted / (self.px(1.0) - self.px(0.0))).ceil().max(1.0) as usize;
        categories.iter().enumerate().step_by(step).map(|(i, name)| (i as f64, escape(name))).collect()
    }

    fn line(&self, points: &[(f64, f64)], i: usize, name: &str, out: &mut String) {
        polyline(points.iter().map(|(x, y)| (self.px(*x), self.py(*y))), i, name, out);
    }

    /// Returns the beginning and the width of the bar of series `i` at `x`.
    fn bar(&self, chart: &Chart, x: f64, i: usize) -> (f64, f64) {
        let slot = (self.px(1.0) - self.px(0.0)) * 0.8;
        let width = slot / chart.series.len() as f64;
        (self.px(x) - slot / 2.0 + width * i as f64, width)
    }

    /// Draws whiskers, and dots at the points of lines.
    fn spans(&self, chart: &Chart, series: &Series, i: usize, out: &mut String) {
        let class = chart.class(i) % DASHES.len();
        // A whisker in the colour of its bar would be invisible.
        let colour = if chart.kind == Kind::Bars { String::new() } else { format!(" s{class}") };
        let middle = |x: f64| match chart.kind {
            Kind::Bars => {
                let (left, width) = self.bar(chart, x, i);
                left + width / 2.0
            }
            _ => self.px(x),
        };
        for span in &series.spans {
            let (x, lo, hi) = (middle(span.x), self.py(span.lo), self.py(span.hi));
            let (left, right) = (x - 4.0, x + 4.0);
            let _ = writeln!(
                out,
                "<path class=\"whisker{colour}\" d=\"M{left:.1} {lo:.1}H{right:.1}M{left:.1} {hi:.1}H{right:.1}M{x:.1} {lo:.1}V{hi:.1}\"/>"
            );
        }
        let few = chart.kind == Kind::Line && series.points.len() <= ROWS_MAX;
        if few || chart.kind != Kind::Bars && !series.spans.is_empty() {
            for &(x, y) in &series.points {
                let tip = escape(&format!("{}: {} at {}", series.name, self.y_scale.show(y), self.x_scale.show(x)));
                let (px, py) = (self.px(x), self.py(y));
                let _ = writeln!(
                    out,
                    "<circle class=\"bar s{class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\"><title>{tip}</title></circle>"
                );
            }
        }
    }

    fn crosses(&self, series: &Series, i: usize, out: &mut String) {
        for &(x, y) in &series.marks {
            let (px, py) = (self.px(x), self.py(y));
            let (left, top) = (px - 4.0, py - 4.0);
            let class = i % DASHES.len();
            let _ = writeln!(out, "<path class=\"cross s{class}\" d=\"M{left:.1} {top:.1}l8 8m0 -8l-8 8\"/>");
        }
    }

    fn bars(&self, chart: &Chart, series: &Series, i: usize, out: &mut String) {
        for &(x, y) in &series.points {
            let (left, width) = self.bar(chart, x, i);
            // From 0, which is the bottom unless there are negative values.
            let top = self.py(y.max(0.0));
            let height = self.py(y.min(0.0)) - top;
            let category = chart.categories.get(x as usize).map_or("", String::as_str);
            let tip = format!("{} {category}, {}: {}", chart.x.0, series.name, self.y_scale.show(y));
            let _ = writeln!(
                out,
                "<rect class=\"bar s{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
                chart.class(i) % DASHES.len(),
                (width - 1.0).max(0.5),
                escape(&tip)
            );
        }
    }
}

fn polyline(points: impl Iterator<Item = (f64, f64)>, i: usize, name: &str, out: &mut String) {
    let class = i % DASHES.len();
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{x:.1},{y:.1} ");
    }
    let _ = writeln!(
        out,
        "<polyline class=\"line s{class}\" stroke-dasharray=\"{}\" points=\"{}\"><title>{}</title></polyline>",
        DASHES[class],
        path.trim_end(),
        escape(name)
    );
}
