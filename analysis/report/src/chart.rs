//! The data of a report's charts, selected and thinned so that they are readable.
//!
//! [`crate::picture`] creates them, with one file per picture; [`crate::plot`] draws them.

use serde::Serialize;

/// Maximum numbers of charts of one kind and of series in one chart: more are not readable.
pub(crate) const CHARTS_MAX: usize = 8;
pub(crate) const SERIES_MAX: usize = 8;
/// Maximum number of rows of bars, dots or cells in one chart.
pub(crate) const ROWS_MAX: usize = 24;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Straight lines between points.
    #[default]
    Line,
    /// Horizontal up to the next point, then vertical: cumulative shares.
    Step,
    /// Bars; x is the position in the chart's categories.
    Bars,
    /// Bars along rows (the categories), with the series one after another; points are (row, value).
    Stack,
    /// Dots in rows, with intervals for our values and published ones beside them; points are (row, value).
    Dots,
    /// Coloured cells: each series is a row, each category a column; points are (column, value).
    Heat,
    /// Nodes and cables.
    Network,
}

/// The data of a chart.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    /// Name of its picture in [`crate::CHARTS`].
    pub picture: &'static str,
    /// How to draw it.
    pub kind: Kind,
    /// Its title.
    pub title: String,
    /// Note on its data for readers: what was thinned or omitted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Name of x, and its unit (`ns`, `share`, or empty).
    pub x: (String, &'static str),
    /// Name of y, and its unit.
    pub y: (String, &'static str),
    /// Names of the groups of bars, of rows, or of columns.
    pub categories: Vec<String>,
    /// The data series.
    pub series: Vec<Series>,
    /// If set, the chart can be zoomed and this range of x is shown first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zoom: Option<(f64, f64)>,
    /// Whether it is shown only on demand.
    #[serde(skip)]
    pub folded: bool,
    /// Nodes and cables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Keys of the metrics that it shows, if any.
    #[serde(skip)]
    pub keys: Vec<String>,
}

/// A line, or the bars of one colour.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Index of its colour and shape on the page; `None` for those of its position in the chart.
    #[serde(skip)]
    pub class: Option<usize>,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Intervals around its points, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Points marked by crosses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(f64, f64)>,
}

impl Chart {
    /// Returns the index of the colour and shape of series `i`.
    pub(crate) fn class(&self, i: usize) -> usize {
        self.series.get(i).and_then(|series| series.class).unwrap_or(i)
    }

    /// Adds a sentence, if there is one, to its note.
    pub(crate) fn remark(&mut self, sentence: &str) {
        let gap = if self.note.is_empty() || sentence.is_empty() { "" } else { " " };
        self.note = format!("{}{gap}{sentence}", self.note);
    }

    /// Gives each variant the same colour in every chart of the page; other series use the remaining colours.
    pub(crate) fn colour(&mut self, variants: &[&str]) {
        let of = |name: &str| {
            let own = |variant: &&str| {
                name.strip_prefix(*variant).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
            };
            let found = (0..variants.len()).filter(|i| own(&variants[*i])).max_by_key(|i| variants[*i].len())?;
            (found < SERIES_MAX).then_some(found)
        };
        let lines = matches!(self.kind, Kind::Line | Kind::Step | Kind::Bars);
        if !lines || !self.series.iter().any(|series| of(&series.name).is_some()) {
            return;
        }
        let mut taken: Vec<usize> = Vec::new();
        for series in &mut self.series {
            series.class = of(&series.name).filter(|class| !taken.contains(class));
            taken.extend(series.class);
        }
        for series in self.series.iter_mut().filter(|series| series.class.is_none()) {
            let free = (0..SERIES_MAX).rev().find(|class| !taken.contains(class)).unwrap_or(0);
            series.class = Some(free);
            taken.push(free);
        }
    }
}

/// An interval of y at an x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// The x.
    pub x: f64,
    /// Its lower end.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
}

/// A network with the load of its cables.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Network {
    /// Nodes; the hosts of a switch are grouped.
    pub nodes: Vec<ChartNode>,
    /// Cables between them.
    pub cables: Vec<Cable>,
}

/// A node, or a group of hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartNode {
    /// Its name, or the number of hosts.
    pub name: String,
    /// Text inside the node.
    pub label: String,
    /// Its class: `host`, `common`, `aggregator`, `server` or `controller`.
    pub role: &'static str,
}

/// A cable, or the cables of a group of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cable {
    /// The end closer to the workers.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// Share of its capacity towards the server used in the run; `None` if unknown.
    pub up: Option<f64>,
    /// The same away from the server.
    pub down: Option<f64>,
    /// Bytes on the wire towards the server, including overhead.
    pub up_bytes: Option<f64>,
}

/// Draws the first of `all` that have a chart, at most [`CHARTS_MAX`]. The note of the last one has the number of the others, one per
/// `what`, which are not drawn to count them.
pub(crate) fn first_charts<T>(
    mut all: impl Iterator<Item = T>,
    draw: impl FnMut(T) -> Option<Chart>,
    what: &str,
) -> Vec<Chart> {
    let mut charts: Vec<Chart> = all.by_ref().take(CHARTS_MAX).filter_map(draw).collect();
    note_further(&mut charts, all.count(), what);
    charts
}

/// Adds to the note of the last chart that `more` further ones are not drawn.
pub(crate) fn note_further(charts: &mut [Chart], more: usize, what: &str) {
    if let Some(last) = charts.last_mut() {
        last.remark(&not_drawn(more, what, "."));
    }
}

/// Returns " (first 8 of 11 variants)" for the title of a chart with fewer than `all` series; empty if it has all.
pub(crate) fn first_of(all: usize, what: &str) -> String {
    if all > SERIES_MAX { format!(" (first {SERIES_MAX} of {all} {what})") } else { String::new() }
}

/// Describes how many of `all` rows are not drawn, if any.
pub(crate) fn rows_note(all: usize) -> String {
    not_drawn(all.saturating_sub(ROWS_MAX), "point", "; the table has all.")
}

/// Returns "1 further point is not drawn" or "2 further points are not drawn" with `rest` after it; empty for none.
pub(crate) fn not_drawn(more: usize, what: &str, rest: &str) -> String {
    match more {
        0 => String::new(),
        1 => format!("1 further {what} is not drawn{rest}"),
        _ => format!("{more} further {what}s are not drawn{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_beyond_the_maximum_are_counted() {
        let chart = Chart { note: "A note.".to_owned(), ..Chart::default() };
        let of = |n: usize| {
            let mut drawn = 0;
            let draw = |_| {
                drawn += 1;
                Some(chart.clone())
            };
            let charts = first_charts(0..n, draw, "setting");
            assert_eq!(drawn, n.min(CHARTS_MAX));
            charts
        };
        assert!(of(0).is_empty());
        assert!(of(CHARTS_MAX).iter().all(|chart| chart.note == "A note."));
        let most = of(CHARTS_MAX + 2);
        let notes: Vec<&str> = most.iter().map(|chart| chart.note.as_str()).collect();
        assert_eq!(notes[CHARTS_MAX - 2..], ["A note.", "A note. 2 further settings are not drawn."]);
        assert_eq!([8, 9].map(|all| first_of(all, "variants")), ["", " (first 8 of 9 variants)"]);
    }
}
