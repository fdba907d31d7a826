//! A chart as a separate SVG file that contains its title, its legend and its colours.

use std::fmt::Write;

use super::{LETTER, describe, escape, inner, named, swatch};
use crate::chart::Chart;

/// Colours of the series on white, equal to those of the page's style.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#a8518a", "#b08800", "#3d9bd1", "#444c56", "#8c6d1f"];
/// Fonts in the order of preference.
pub(super) const FONTS: [&str; 6] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Cantarell"];
/// Height of a line of text.
const LINE: f64 = 17.0;
const EDGE: f64 = 12.0;

fn style(font: &str) -> String {
    let mut style = format!(
        "text{{font-family:{font};font-size:12px;fill:#57606a}}.title{{font-size:13px;font-weight:bold;fill:#1b1f24}}\
         .row,.value{{fill:#1b1f24}}.small,.cell-text{{font-size:10px}}.count{{fill:#1b1f24;stroke:#ffffff;stroke-width:3;paint-order:stroke}}\
         .light{{fill:#ffffff}}.dark{{fill:#000000}}\
         .grid{{stroke:#d0d7de;stroke-width:1}}.axis{{stroke:#1b1f24;stroke-width:1}}.line{{fill:none;stroke-width:1.8;stroke-linejoin:round}}\
         .whisker{{fill:none;stroke:#1b1f24;stroke-width:1.4}}.cross{{fill:none;stroke-width:2.2}}.part{{stroke:#ffffff;stroke-width:1}}\
         .cable{{stroke:#6e7781}}.node{{stroke:#57606a;fill:#ffffff}}.host{{fill:#e8ebee}}.common{{fill:#f6d5d0}}\
         .aggregator{{fill:#2e6fb3}}.on-aggregator{{fill:#ffffff}}"
    );
    for (i, colour) in COLOURS.iter().enumerate() {
        let _ = write!(style, ".line.s{i},.whisker.s{i},.cross.s{i}{{stroke:{colour}}}.bar.s{i}{{fill:{colour}}}");
    }
    style
}

/// Returns the chart as the text of an SVG file, in `font`.
pub(super) fn standalone_in(chart: &Chart, font: &str) -> String {
    let (drawn, width, body) = inner(chart);
    let fitting = ((width - 2.0 * EDGE) / LETTER / 1.15) as usize;
    let title = wrapped(&chart.title, fitting);
    let note = wrapped(&chart.note, ((width - 2.0 * EDGE) / LETTER) as usize);
    let (legend, legend_height) = legend(chart, width);
    let head = EDGE + LINE * title.len() as f64 + legend_height;
    let height = head + body + LINE * note.len() as f64 + EDGE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\"><title>{}</title><desc>{}</desc><style>{}</style>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n",
        escape(&chart.title),
        escape(&describe(chart)),
        style(font)
    );
    let mut y = EDGE;
    for line in &title {
        y += LINE;
        let _ = writeln!(out, "<text class=\"title\" x=\"{EDGE}\" y=\"{:.1}\">{}</text>", y - 4.0, escape(line));
    }
    let _ = writeln!(out, "<g transform=\"translate(0 {y:.1})\">{legend}</g>");
    let _ = writeln!(out, "<g transform=\"translate(0 {head:.1})\">\n{drawn}</g>");
    let mut y = head + body;
    for line in &note {
        y += LINE;
        let _ = writeln!(out, "<text x=\"{EDGE}\" y=\"{:.1}\">{}</text>", y - 4.0, escape(line));
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the chart as the text of an SVG file.
pub fn standalone(chart: &Chart) -> String {
    standalone_in(chart, &format!("'{}',sans-serif", FONTS.join("','")))
}

/// Returns a name for the chart's file without an extension: its number, its picture and the beginning of its title.
pub fn file_name(number: usize, chart: &Chart) -> String {
    let mut name = format!("{number:02}-{}-", chart.picture);
    for c in chart.title.chars().take(60) {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(c.to_ascii_lowercase()),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.trim_end_matches('-').to_owned()
}

/// Wraps `text` between words into lines of at most `most` characters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the legend and its height.
fn legend(chart: &Chart, width: f64) -> (String, f64) {
    let mut out = String::new();
    let (mut x, mut y) = (EDGE, 0.0);
    let named = named(chart);
    for (i, name) in &named {
        let wide = 34.0 + name.chars().count() as f64 * (LETTER + 0.6) + 14.0;
        if x > EDGE && x + wide > width {
            (x, y) = (EDGE, y + LINE);
        }
        let _ = write!(
            out,
            "<g transform=\"translate({x:.1} {:.1})\">{}</g><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y + 3.0,
            swatch(chart.kind, chart.class(*i)),
            x + 34.0,
            y + 12.0,
            escape(name)
        );
        x += wide;
    }
    (out, if named.is_empty() { 0.0 } else { y + LINE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_page() {
        let page = crate::report::STYLE;
        for (i, colour) in COLOURS.iter().enumerate() {
            assert!(page.contains(&format!("--s{i}: {colour};")), "{i}");
        }
    }

    #[test]
    fn names_of_files_are_safe() {
        let chart = Chart { picture: "loss", title: "../<a>: 5 % | ß".to_owned(), ..Default::default() };
        assert_eq!(file_name(3, &chart), "03-loss-a-5");
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert!(wrapped("", 7).is_empty());
    }
}
