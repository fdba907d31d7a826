//! A compact table for the terminal: points down, metrics across, the paper's values beside ours.
//!
//! Called by the CLI, which prints it.

use std::fmt::Write;

use crate::model::{Cell, Heading, Model};

/// Widest line.
pub const WIDTH: usize = 110;
/// Between columns.
const GAP: usize = 2;

/// The main table of `model` in lines of at most [`WIDTH`] columns; what does not fit beside is put
/// below, with the points repeated. Medians only; a published value follows in parentheses.
pub fn summary_table(model: &Model) -> String {
    let mut names: Vec<String> = vec![model.axes.join(" ")];
    names.extend(model.rows.iter().map(|row| row.name(&model.axes)));
    // A point's name may take half of the width; the rest must show at least one value.
    let names: Vec<String> = names.into_iter().map(|name| cut(name, WIDTH / 2)).collect();
    let mut columns: Vec<Vec<String>> = Vec::new();
    for (i, heading) in model.columns.iter().enumerate() {
        let mut column = vec![cut(title(heading), WIDTH / 3)];
        column.extend(
            model
                .rows
                .iter()
                .map(|row| cut(row.cells.get(i).map_or(String::new(), |cell| show(cell, heading)), WIDTH / 3)),
        );
        columns.push(column);
    }
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
        block(&names, &columns[next..next + taken], &mut out);
        next += taken.max(1);
    }
    out
}

fn block(names: &[String], columns: &[Vec<String>], out: &mut String) {
    let name_width = width(names);
    for (line, name) in names.iter().enumerate() {
        let mut text = format!("{name:name_width$}");
        for column in columns {
            let column_width = width(column) + GAP;
            let _ = write!(text, "{:>column_width$}", column[line]);
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

fn title(heading: &Heading) -> String {
    if heading.scale.unit.is_empty() {
        heading.key.clone()
    } else {
        format!("{} [{}]", heading.key, heading.scale.unit)
    }
}

fn show(cell: &Cell, heading: &Heading) -> String {
    let ours = cell.ours.map_or("–".to_owned(), |ours| heading.scale.number(ours.median));
    match &cell.paper {
        None => ours,
        Some(paper) => format!("{ours} (paper {})", heading.scale.number(paper.value)),
    }
}

/// Characters are one column wide here: labels and numbers.
fn width(column: &[String]) -> usize {
    column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn cut(text: String, most: usize) -> String {
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
