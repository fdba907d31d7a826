//! Charts as inline SVG, drawn without external dependencies.
//!
//! Called by [`crate::report`]'s HTML, and for plots as files (`file`, [`png`]). Colours are classes (`s0`…`s7`) that the page's style
//! defines for light and dark mode. Lines also differ by their dashes and dots by their shape; parts of bars and stacks differ
//! by their colour and their order. `frame` draws charts with two axes, `rows` those with rows, and `network` nodes and cables.

mod file;
mod frame;
mod network;
#[cfg(any(test, not(feature = "png")))]
pub mod no_png;
#[cfg(feature = "png")]
pub mod png;
#[cfg(not(feature = "png"))]
pub use no_png as png;
mod rows;
pub mod ticks;

use std::fmt::Write;

pub use file::{file_name, standalone};

use pktgen_core::printable::escape;
use pktgen_records::human::scale_for;

use crate::chart::{Chart, Kind};
use frame::Frame;

/// Width of a chart in its own units: phones show them at two thirds, desktops at full size.
const WIDTH: f64 = 520.0;
const DASHES: [&str; 8] = ["none", "7 3", "2 2", "9 3 2 3", "12 4", "4 4", "1 3", "6 2 1 2 1 2"];
/// Width of a character in charts, and on phones, where text is larger.
const LETTER: f64 = 6.5;
const LETTER_OF_PHONE: f64 = 8.6;

/// Shortens `text` to at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Returns the contents of the `svg` of a chart, and its size.
fn inner(chart: &Chart) -> (String, f64, f64) {
    match chart.kind {
        Kind::Line | Kind::Step | Kind::Bars => (Frame::around(chart).draw(chart), WIDTH, frame::HEIGHT),
        Kind::Stack | Kind::Dots | Kind::Heat => rows::draw(chart),
        Kind::Network => network::draw(chart),
    }
}

/// Returns the chart as a figure: title, legend, drawing, and a note on its data.
pub fn figure(chart: &Chart) -> String {
    let zoom = chart.zoom.map_or(String::new(), |_| Frame::around(chart).zoom_data(chart));
    let mut out = format!("<figure{zoom}>\n<figcaption>{}</figcaption>\n", escape(&chart.title));
    legend(chart, &mut out);
    let (drawn, width, height) = inner(chart);
    let (title, about) = (escape(&chart.title), escape(&describe(chart)));
    let wide = if width > WIDTH { format!(" style=\"min-width:{width:.0}px\"") } else { String::new() };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<div class=\"scroll\"><svg class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\"{wide} aria-label=\"{title}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n<desc>{about}</desc>\n{drawn}</svg></div>"
    );
    if chart.zoom.is_some() {
        out.push_str(TOOLS);
    }
    if !chart.note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&chart.note));
    }
    out.push_str("</figure>\n");
    out
}

/// The zoom controls, shown by the script that implements them.
const TOOLS: &str = "<div class=\"tools\" hidden role=\"group\" aria-label=\"Zoom\">\
<button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>\
<button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">−</button>\
<button type=\"button\" data-do=\"left\" aria-label=\"Earlier\">◀</button>\
<button type=\"button\" data-do=\"right\" aria-label=\"Later\">▶</button>\
<button type=\"button\" data-do=\"all\">all</button>\
<button type=\"button\" data-do=\"first\">reset</button>\
<output></output></div>\n";

/// Describes the chart in words, for readers who cannot see it.
fn describe(chart: &Chart) -> String {
    if let Some(network) = &chart.network {
        return format!("{} nodes or groups of hosts, {} cables.", network.nodes.len(), network.cables.len());
    }
    let across = matches!(chart.kind, Kind::Stack | Kind::Dots);
    let values = if across { &chart.x } else { &chart.y };
    let all = || chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let scale = scale_for(values.1, all().map(f64::abs).fold(0.0, f64::max));
    let mut words = format!("{}.", values.0);
    for series in chart.series.iter().filter(|series| !series.points.is_empty()) {
        let own = || series.points.iter().map(|point| point.1);
        let (least, most) = (own().fold(f64::INFINITY, f64::min), own().fold(f64::NEG_INFINITY, f64::max));
        let _ = write!(words, " {}: {} to {}.", series.name, scale.show(least), scale.show(most));
    }
    words
}

/// Returns the symbol of a series in a legend, in a box of 26 by 10.
fn swatch(kind: Kind, i: usize) -> String {
    let class = i % DASHES.len();
    match kind {
        Kind::Bars | Kind::Stack => format!("<rect class=\"bar s{class}\" width=\"26\" height=\"10\"/>"),
        Kind::Dots => rows::marker(i, 13.0, 5.0, ""),
        _ => format!(
            "<line class=\"line s{class}\" stroke-dasharray=\"{}\" x1=\"0\" y1=\"5\" x2=\"26\" y2=\"5\"/>",
            DASHES[class]
        ),
    }
}

/// Returns the series in the legend: none if there is only one, which the title describes; a step that cannot be zoomed and a
/// part of a stack are not in the title.
fn named(chart: &Chart) -> Vec<(usize, &str)> {
    let untold = chart.kind == Kind::Stack || chart.kind == Kind::Step && chart.zoom.is_none();
    let one = chart.series.len() < 2 && !untold;
    if one || matches!(chart.kind, Kind::Heat | Kind::Network) {
        return Vec::new();
    }
    let with = chart.series.iter().enumerate().filter(|(_, series)| !series.points.is_empty());
    with.map(|(i, series)| (i, series.name.as_str())).collect()
}

fn legend(chart: &Chart, out: &mut String) {
    let named = named(chart);
    if named.is_empty() {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (i, name) in named {
        let _ = write!(
            out,
            "<li><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">{}</svg>{}</li>",
            swatch(chart.kind, chart.class(i)),
            escape(name)
        );
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests;
