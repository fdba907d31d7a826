//! Output of a report for the terminal: the verdict, a compact table, and where to read on.
//!
//! Called by the CLI, which prints it.

use std::fmt::Write;

use pktgen_core::printable::one_line;
use pktgen_records::human;

use crate::headings::Heading;
use crate::model::{Cell, Model, RunNote, TableRow};
use crate::sweep::data::VARIANT;

/// Maximum line width.
pub const WIDTH: usize = 110;
/// Space between columns.
const GAP: usize = 2;
/// Maximum number of invalid runs that are listed.
const NAMED_MAX: usize = 5;

/// Returns the verdict (validity first), invalid runs, the table, and the number of published values outside our
/// intervals; `see` is where the report is.
pub fn summary(model: &Model, see: &str) -> String {
    let mut out = String::new();
    model.verdict.lines.iter().for_each(|line| wrapped(line, &mut out));
    invalid(&model.invalid, see, &mut out);
    if !model.made.overrides.is_empty() {
        wrapped(&format!("Overrides: {}.", model.made.overrides.join(", ")), &mut out);
    }
    out.push('\n');
    out.push_str(&summary_table(model));
    let missing = model.disagreements.len() - model.outside;
    if missing + model.outside > 0 {
        let verb = if model.outside == 1 { "value lies" } else { "values lie" };
        let also = if missing > 0 { format!("; {missing} could not be compared") } else { String::new() };
        out.push('\n');
        wrapped(&format!("{} published {verb} outside our intervals{also}: see {see}", model.outside), &mut out);
    }
    out
}

fn invalid(notes: &[RunNote], see: &str, out: &mut String) {
    for note in notes.iter().take(NAMED_MAX) {
        wrapped(&format!("invalid: {}: {}", note.run, note.reasons.join("; ")), out);
    }
    if notes.len() > NAMED_MAX {
        wrapped(&format!("invalid: {} more kinds of runs; see {see}", notes.len() - NAMED_MAX), out);
    }
}

/// Wraps `text` between words into lines of at most [`WIDTH`]; longer words are not split.
fn wrapped(text: &str, out: &mut String) {
    let mut used = 0;
    for word in one_line(text).split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            out.push_str("\n ");
            used = 1;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

/// Returns the main table of `model` with at most [`WIDTH`] characters per line, and the rows of a variant below its name. Columns that do
/// not fit are put below, with the points repeated. Medians only; a published value follows in parentheses.
pub(crate) fn summary_table(model: &Model) -> String {
    let groups = groups(model);
    let order: Vec<usize> = groups.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    let names = names(model, &order);
    let columns = columns(model, &order);
    let mut out = String::new();
    let mut next = 0;
    while next < columns.len() || next == 0 {
        let mut taken = 0;
        let mut used = width(&names);
        while let Some(column) = columns.get(next + taken)
            && (taken == 0 || used + GAP + width(column) <= WIDTH)
        {
            used += GAP + width(column);
            taken += 1;
        }
        if next > 0 {
            out.push('\n');
        }
        block(&groups, &names, &columns[next..next + taken], &mut out);
        next += taken.max(1);
    }
    out
}

/// Returns rows by the name of their variant, in the order of first appearance; one group without a name unless the
/// variant is one label of several.
fn groups(model: &Model) -> Vec<(Option<&str>, Vec<usize>)> {
    if model.axes.len() < 2 || !model.axes.iter().any(|axis| axis == VARIANT) {
        return vec![(None, (0..model.rows.len()).collect())];
    }
    let mut groups: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    for (i, row) in model.rows.iter().enumerate() {
        let name = Some(row.labels.get(VARIANT).map_or("–", String::as_str));
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rows)) => rows.push(i),
            None => groups.push((name, vec![i])),
        }
    }
    groups
}

/// Returns the first column: the names of the points, with a header.
fn names(model: &Model, order: &[usize]) -> Vec<String> {
    let grouped = model.axes.len() > 1;
    let axes: Vec<&String> = model.axes.iter().filter(|axis| !grouped || *axis != VARIANT).collect();
    if axes.is_empty() {
        return std::iter::once(String::new()).chain(order.iter().map(|_| "run".to_owned())).collect();
    }
    let value = |row: &TableRow, axis: &String| row.labels.get(axis).map_or("–".to_owned(), |value| one_line(value));
    let parts: Vec<Vec<String>> = axes
        .iter()
        .map(|axis| {
            let values = order.iter().map(|row| value(&model.rows[*row], axis));
            std::iter::once(last_part(axis, &axes)).chain(values).collect()
        })
        .collect();
    let indent = if grouped && model.axes.iter().any(|axis| axis == VARIANT) { "  " } else { "" };
    let line = |i: usize| {
        let cells = parts.iter().map(|column| format!("{:w$}", column[i], w = width(column)));
        format!("{indent}{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    // A point's name may take half of the width, so that at least one value is visible.
    (0..=order.len()).map(|i| cut(line(i), WIDTH / 2)).collect()
}

/// Returns the last part of an axis name ("rate" for "topology.rate"), unless another axis has the same.
fn last_part(axis: &str, all: &[&String]) -> String {
    let last = |axis: &str| axis.rsplit('.').next().unwrap_or_default().to_owned();
    let same = all.iter().filter(|other| last(other) == last(axis)).count();
    if same > 1 { axis.to_owned() } else { last(axis) }
}

/// Returns the columns of values, each with its header.
fn columns(model: &Model, order: &[usize]) -> Vec<Vec<String>> {
    let column = |(i, heading): (usize, &Heading)| {
        let cell = |row: &usize| {
            model.rows[*row].cells.get(i).map_or(String::new(), |cell| show(cell, heading, model.rows[*row].runs))
        };
        let cells = order.iter().map(cell).map(|text| cut(text, WIDTH / 3));
        std::iter::once(cut(title(heading), WIDTH / 3)).chain(cells).collect()
    };
    model.columns.iter().enumerate().map(column).collect()
}

fn block(groups: &[(Option<&str>, Vec<usize>)], names: &[String], columns: &[Vec<String>], out: &mut String) {
    let name_width = width(names);
    let line = |i: usize, out: &mut String| {
        let mut text = format!("{:name_width$}", names[i]);
        for column in columns {
            let column_width = width(column) + GAP;
            let _ = write!(text, "{:>column_width$}", column[i]);
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(0, out);
    let mut next = 1;
    for (name, rows) in groups {
        if let Some(name) = name {
            let _ = writeln!(out, "{}", cut(one_line(name), WIDTH));
        }
        for _ in rows {
            line(next, out);
            next += 1;
        }
    }
}

fn title(heading: &Heading) -> String {
    let name = human::title(&heading.key);
    if heading.scale.unit.is_empty() { name } else { format!("{name} [{}]", heading.scale.unit) }
}

fn show(cell: &Cell, heading: &Heading, runs: usize) -> String {
    let ours = cell.ours.map_or("–".to_owned(), |ours| heading.scale.number(ours.median));
    let ours = format!("{ours}{}", cell.shown_runs(runs));
    match &cell.paper {
        None => ours,
        Some(paper) => format!("{ours} (paper {}{})", paper.sign, heading.scale.number(paper.value)),
    }
}

/// Returns the width of a column; every character of labels and numbers has width one.
fn width(column: &[String]) -> usize {
    column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn cut(text: String, most: usize) -> String {
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
