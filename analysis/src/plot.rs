//! Charts as inline SVG, drawn here so that a report needs nothing from elsewhere.
//!
//! Called by [`crate::report`]'s HTML. Colours are classes (`s0`…`s7`) that the page's style defines for
//! light and dark; lines also differ by their dashes, so that colour is never the only difference.

use std::fmt::Write;

use crate::chart::{Chart, Kind, Series};
use crate::human::{Scale, scale_for};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Width of a letter of the axes.
const LETTER: f64 = 6.5;
const DASHES: [&str; 8] = ["none", "7 3", "2 2", "9 3 2 3", "12 4", "4 4", "1 3", "6 2 1 2 1 2"];

/// `text` for use inside HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The chart as a figure: title, legend and drawing.
pub fn figure(chart: &Chart) -> String {
    let mut out = format!("<figure>\n<figcaption>{}</figcaption>\n", escape(&chart.title));
    legend(chart, &mut out);
    let title = escape(&chart.title);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\">"
    );
    let frame = Frame::around(chart);
    frame.axes(chart, &mut out);
    for (i, series) in chart.series.iter().enumerate() {
        match chart.kind {
            Kind::Line => frame.line(&series.points, i, &series.name, &mut out),
            Kind::Step => frame.line(&corners(&series.points), i, &series.name, &mut out),
            Kind::Bars => frame.bars(chart, series, i, &mut out),
        }
        frame.spans(chart, series, i, &mut out);
        frame.crosses(series, i, &mut out);
    }
    out.push_str("</svg>\n</figure>\n");
    out
}

fn legend(chart: &Chart, out: &mut String) {
    if chart.series.len() < 2 && chart.kind != Kind::Step {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (i, series) in chart.series.iter().enumerate() {
        let (name, class) = (escape(&series.name), i % DASHES.len());
        let swatch = match chart.kind {
            Kind::Bars => format!("<rect class=\"bar s{class}\" width=\"26\" height=\"10\"/>"),
            _ => format!(
                "<line class=\"line s{class}\" stroke-dasharray=\"{}\" x1=\"0\" y1=\"5\" x2=\"26\" y2=\"5\"/>",
                DASHES[class]
            ),
        };
        let _ = write!(
            out,
            "<li><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">{swatch}</svg>{name}</li>"
        );
    }
    out.push_str("</ul>\n");
}

/// A step line's corners: flat up to the next point, then up; from 0 on the left.
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

/// Maps values to the drawing.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    x_scale: Scale,
    y_scale: Scale,
}

impl Frame {
    fn around(chart: &Chart) -> Frame {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let spans = chart.series.iter().flat_map(|series| &series.spans).map(|span| span.hi);
        let top = points().map(|point| point.1).chain(spans).fold(0.0, f64::max);
        let x = match chart.kind {
            Kind::Bars => (-0.5, chart.categories.len() as f64 - 0.5),
            Kind::Step => (0.0, most.max(1.0) + 0.5),
            Kind::Line => (least, most),
        };
        let x = if x.0.is_finite() && x.1 > x.0 { x } else { (0.0, 1.0) };
        let y = (0.0, if top > 0.0 { top * if chart.y.1 == "share" { 1.0 } else { 1.05 } } else { 1.0 });
        Frame { x, y, x_scale: scale_for(chart.x.1, x.1), y_scale: scale_for(chart.y.1, y.1) }
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - (y - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, chart: &Chart, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for y in ticks(self.y, self.y_scale.factor, 5) {
            let (py, text) = (self.py(y), tick_text(&self.y_scale, y));
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>");
            let _ = writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, py + 4.0);
        }
        let marks: Vec<(f64, String)> = match chart.kind {
            Kind::Bars => self.fitting(&chart.categories),
            _ => ticks(self.x, self.x_scale.factor, 8).into_iter().map(|x| (x, tick_text(&self.x_scale, x))).collect(),
        };
        for (x, text) in marks {
            let (px, py) = (self.px(x), bottom + 16.0);
            let _ = writeln!(out, "<text x=\"{px:.1}\" y=\"{py:.1}\" text-anchor=\"middle\">{text}</text>");
        }
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
        let (x_name, y_name) = (axis_name(&chart.x.0, &self.x_scale), axis_name(&chart.y.0, &self.y_scale));
        let (middle_x, middle_y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(out, "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{x_name}</text>", HEIGHT - 8.0);
        let _ = writeln!(
            out,
            "<text transform=\"translate(13 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{y_name}</text>"
        );
    }

    /// Names of as many categories as fit beside each other, evenly chosen.
    fn fitting(&self, categories: &[String]) -> Vec<(f64, String)> {
        let longest = categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let wanted = longest as f64 * LETTER + 4.0;
        let step = (wanted / (self.px(1.0) - self.px(0.0))).ceil().max(1.0) as usize;
        categories.iter().enumerate().step_by(step).map(|(i, name)| (i as f64, escape(name))).collect()
    }

    fn line(&self, points: &[(f64, f64)], i: usize, name: &str, out: &mut String) {
        let class = i % DASHES.len();
        let mut path = String::new();
        for &(x, y) in points {
            let _ = write!(path, "{:.1},{:.1} ", self.px(x), self.py(y));
        }
        let _ = writeln!(
            out,
            "<polyline class=\"line s{class}\" stroke-dasharray=\"{}\" points=\"{}\"><title>{}</title></polyline>",
            DASHES[class],
            path.trim_end(),
            escape(name)
        );
    }

    /// Where the bar of series `i` at `x` begins, and its width.
    fn bar(&self, chart: &Chart, x: f64, i: usize) -> (f64, f64) {
        let slot = (self.px(1.0) - self.px(0.0)) * 0.8;
        let width = slot / chart.series.len() as f64;
        (self.px(x) - slot / 2.0 + width * i as f64, width)
    }

    /// Whiskers, and dots where lines have their points.
    fn spans(&self, chart: &Chart, series: &Series, i: usize, out: &mut String) {
        let class = i % DASHES.len();
        // In its own colour a whisker would be lost on its bar.
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
        if chart.kind != Kind::Bars && !series.spans.is_empty() {
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
            let (top, height) = (self.py(y), HEIGHT - BOTTOM - self.py(y));
            let category = chart.categories.get(x as usize).map_or("", String::as_str);
            let tip = format!("{} {category}, {}: {}", chart.x.0, series.name, self.y_scale.show(y));
            let _ = writeln!(
                out,
                "<rect class=\"bar s{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
                i % DASHES.len(),
                (width - 1.0).max(0.5),
                escape(&tip)
            );
        }
    }
}

fn axis_name(name: &str, scale: &Scale) -> String {
    if scale.unit.is_empty() { escape(name) } else { format!("{} ({})", escape(name), scale.unit) }
}

/// A round value as it is: without the digits that columns of numbers keep.
fn tick_text(scale: &Scale, value: f64) -> String {
    let text = format!("{:.6}", value * scale.factor);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if ["0", "-0"].contains(&text) && value != 0.0 { scale.number(value) } else { text.replace('-', "−") }
}

/// Round values inside `range`, round in the shown unit, about `wanted` of them.
fn ticks(range: (f64, f64), factor: f64, wanted: usize) -> Vec<f64> {
    let (from, to) = (range.0 * factor, range.1 * factor);
    let raw = (to - from) / wanted as f64;
    if !raw.is_finite() || raw <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    let first = (from / step).ceil() as i64;
    // Rounding cannot make more than this many.
    (0..=2 * wanted as i64)
        .map(|i| (first + i) as f64 * step)
        .take_while(|x| *x <= to + step * 1e-9)
        .map(|x| x / factor)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_the_shown_unit() {
        assert_eq!(ticks((0.0, 0.97), 100.0, 5), [0.0, 0.2, 0.4, 0.6, 0.8]);
        assert_eq!(ticks((1_200.0, 9_800.0), 1e-3, 5), [2000.0, 4000.0, 6000.0, 8000.0]);
        assert!(ticks((1.0, 1.0), 1.0, 5).is_empty() && ticks((0.0, f64::NAN), 1.0, 5).is_empty());
    }

    #[test]
    fn ticks_are_written_alike() {
        let seconds = scale_for("ns", 8e9);
        assert_eq!(
            ticks((0.0, 3.2e9), 1e-9, 3).iter().map(|t| tick_text(&seconds, *t)).collect::<Vec<_>>(),
            ["0", "2"]
        );
        assert_eq!((tick_text(&seconds, 8.000_000_001e9), tick_text(&seconds, 2.5e8)), ("8".into(), "0.25".into()));
        assert_eq!(
            (tick_text(&scale_for("", 1.0), 0.1 + 0.2), tick_text(&scale_for("share", 1.0), 0.2)),
            ("0.3".into(), "20".into())
        );
    }

    #[test]
    fn names_of_categories_never_overlap() {
        let chart = |names: Vec<String>| {
            let points = (0..names.len()).map(|i| (i as f64, 1.0)).collect();
            Chart {
                kind: Kind::Bars,
                title: String::new(),
                x: (String::new(), ""),
                y: (String::new(), ""),
                categories: names,
                series: vec![Series { points, ..Default::default() }],
            }
        };
        let shown = |chart: Chart| Frame::around(&chart).fitting(&chart.categories).len();
        assert_eq!(shown(chart((0..9).map(|i| i.to_string()).collect())), 9);
        assert_eq!(shown(chart((0..30).map(|i| format!("Olaf_TC at {i} kbit/s")).collect())), 5);
    }

    #[test]
    fn figures_escape_names_and_place_points() {
        let series = Series { name: "<a&b>".to_owned(), points: vec![(0.0, 0.0), (10.0, 2.0)], ..Default::default() };
        let chart = Chart {
            kind: Kind::Line,
            title: "t".to_owned(),
            x: ("x".to_owned(), ""),
            y: ("y".to_owned(), "share"),
            categories: vec![],
            series: vec![series.clone(), series],
        };
        let svg = figure(&chart);
        assert!(svg.contains("&lt;a&amp;b&gt;") && !svg.contains("<a&b>"));
        // From the lower left to the upper right corner of the frame.
        assert!(svg.contains("points=\"76.0,256.0 708.0,12.0\""), "{svg}");
        assert!(figure(&Chart { series: vec![], ..chart }).contains("<svg"));
    }
}
