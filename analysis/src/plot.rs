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
        let top = points().map(|point| point.1).fold(0.0, f64::max);
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
            let (py, text) = (self.py(y), self.y_scale.number(y));
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>");
            let _ = writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, py + 4.0);
        }
        let marks: Vec<(f64, String)> = match chart.kind {
            Kind::Bars => chart.categories.iter().enumerate().map(|(i, name)| (i as f64, escape(name))).collect(),
            _ => ticks(self.x, self.x_scale.factor, 8).into_iter().map(|x| (x, self.x_scale.number(x))).collect(),
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

    fn bars(&self, chart: &Chart, series: &Series, i: usize, out: &mut String) {
        let slot = (self.px(1.0) - self.px(0.0)) * 0.8;
        let width = slot / chart.series.len() as f64;
        for &(x, y) in &series.points {
            let left = self.px(x) - slot / 2.0 + width * i as f64;
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
    fn figures_escape_names_and_place_points() {
        let series = Series { name: "<a&b>".to_owned(), points: vec![(0.0, 0.0), (10.0, 2.0)] };
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
