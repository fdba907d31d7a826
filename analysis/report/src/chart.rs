//! The data of a report's pictures, chosen and thinned so that they can be read.
//!
//! [`crate::picture`] has one file per picture that makes it; [`crate::plot`] draws it.

use serde::Serialize;

/// Most pictures of one kind, and most series in one picture: more cannot be read.
pub(crate) const CHARTS_MAX: usize = 8;
pub(crate) const SERIES_MAX: usize = 8;
/// Most rows of bars, dots or cells in one picture.
pub(crate) const ROWS_MAX: usize = 24;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Straight lines between points.
    #[default]
    Line,
    /// Horizontal up to the next point, then up: cumulative shares.
    Step,
    /// Bars; x is the position in the chart's categories.
    Bars,
    /// Bars along rows (the categories), the series one after the other; points are (row, value).
    Stack,
    /// Dots in rows, ours with their intervals, published ones beside them; points are (row, value).
    Dots,
    /// Coloured cells: each series is a row, each category a column; points are (column, value).
    Heat,
    /// Nodes and cables.
    Network,
}

/// A picture's data.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    /// Name of its maker in [`crate::CHARTS`].
    pub picture: &'static str,
    /// How to draw it.
    pub kind: Kind,
    /// What it shows.
    pub title: String,
    /// What a reader must know about its data: what was thinned, what is left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// What x is, and its unit (`ns`, `share`, or empty).
    pub x: (String, &'static str),
    /// What y is, and its unit.
    pub y: (String, &'static str),
    /// Names of the bars' groups, of rows, or of columns.
    pub categories: Vec<String>,
    /// What is compared.
    pub series: Vec<Series>,
    /// Can be zoomed: this part of x is shown first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zoom: Option<(f64, f64)>,
    /// Shown on demand only.
    #[serde(skip)]
    pub folded: bool,
    /// Nodes and cables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Keys of the metrics that it shows, where it shows metrics.
    #[serde(skip)]
    pub keys: Vec<String>,
}

/// One line, or the bars of one colour.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour and shape, of those that a page has; none for those of its place in the chart.
    #[serde(skip)]
    pub class: Option<usize>,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Intervals around its points, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Points that are crossed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(f64, f64)>,
}

impl Chart {
    /// The colour and shape of series `i`.
    pub(crate) fn class(&self, i: usize) -> usize {
        self.series.get(i).and_then(|series| series.class).unwrap_or(i)
    }

    /// Gives each variant the colour that it has in every chart of the page; other series take what is left.
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
    /// Where.
    pub x: f64,
    /// Its lower end.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
}

/// A network and what its cables carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Network {
    /// Nodes; hosts of one switch stand together.
    pub nodes: Vec<ChartNode>,
    /// Cables between them.
    pub cables: Vec<Cable>,
}

/// A node, or several hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartNode {
    /// What it is called, or how many it is.
    pub name: String,
    /// What stands on it.
    pub label: String,
    /// Its class: `host`, `common`, `aggregator`, `server` or `controller`.
    pub role: &'static str,
}

/// A cable, or those of several hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cable {
    /// The end nearer to the workers.
    pub from: usize,
    /// The other.
    pub to: usize,
    /// Share of what it could have carried towards the server in the run; none if unknown.
    pub up: Option<f64>,
    /// The same away from the server.
    pub down: Option<f64>,
    /// Bytes on the wire towards the server, overhead included.
    pub up_bytes: Option<f64>,
}

/// Says how many of `all` rows are missing, if any.
pub(crate) fn rows_note(all: usize) -> String {
    match all.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("{more} further points are not drawn; the table has them all."),
    }
}
