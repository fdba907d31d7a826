//! Differences between two dumps (docs/dump.md), by name: run, part, column, first row.

use std::collections::{BTreeMap, BTreeSet};

/// Number of differences of a part that are reported one by one.
const TOLD: usize = 4;

/// Lines by run and part.
type Parts<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a str>>;

fn parts(dump: &str) -> Parts<'_> {
    let (mut parts, mut run) = (Parts::new(), ".");
    for line in dump.lines() {
        let (kind, rest) = line.split_once('\t').unwrap_or((line, ""));
        let part = match kind {
            "run" => {
                run = rest;
                continue;
            }
            "columns" => rest.split('\t').next().unwrap_or_default(),
            "metric" => "metrics",
            "valid" | "fault" | "note" | "remark" => "verdict",
            stream => stream,
        };
        parts.entry((run, part)).or_default().push(line);
    }
    parts
}

/// Returns sentences on the lines that only one of `found` and `kept` has.
pub fn differences(kept: &str, found: &str) -> Vec<String> {
    let (old, new) = (parts(kept), parts(found));
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut told = Vec::new();
    for key in keys {
        let (run, part) = key;
        let says = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), None) => vec!["it is missing".to_owned()],
            (None, Some(new)) => vec![format!("it is new, with {} lines", new.len())],
            (Some(old), Some(new)) if old[0].starts_with("columns\t") => vec![of_stream(old, new)],
            (Some(old), Some(new)) if *part == "metrics" => of_metrics(old, new),
            (old, new) => of_lines(old.map_or(&[], Vec::as_slice), new.map_or(&[], Vec::as_slice)),
        };
        let more = says.len().saturating_sub(TOLD);
        told.extend(says.into_iter().take(TOLD).map(|what| format!("run {run}, {part}: {what}")));
        if more > 0 {
            told.push(format!("run {run}, {part}: and {more} more"));
        }
    }
    told
}

/// Compares two versions of a stream: names of columns, then rows.
fn of_stream(old: &[&str], new: &[&str]) -> String {
    let columns = |lines: &[&str]| -> Vec<String> { lines[0].split('\t').skip(2).map(str::to_owned).collect() };
    let names = columns(old);
    if names != columns(new) {
        return format!("its columns are {}, not {}", columns(new).join(", "), names.join(", "));
    }
    let cells = |lines: &[&str]| -> Vec<Vec<String>> {
        lines[1..].iter().map(|line| line.split('\t').skip(1).map(str::to_owned).collect()).collect()
    };
    let (old, new) = (cells(old), cells(new));
    let row = (0..old.len().max(new.len())).find(|row| old.get(*row) != new.get(*row)).unwrap_or(0);
    let show = |rows: &[Vec<String>]| rows.get(row).map_or("nothing".to_owned(), |row| row.join(" "));
    let first = format!("first at row {row}: {}, not {}", show(&new), show(&old));
    if old.len() != new.len() {
        return format!("{} rows, not {}; {first}", new.len(), old.len());
    }
    // Rows are sorted, so one changed cell moves others: a column with the same cells in any order did not change.
    let sorted = |rows: &[Vec<String>], column: usize| {
        let mut cells: Vec<String> = rows.iter().map(|row| row[column].clone()).collect();
        cells.sort_unstable();
        cells
    };
    let mut changed: Vec<&str> =
        (0..names.len()).filter(|i| sorted(&old, *i) != sorted(&new, *i)).map(|i| names[i].as_str()).collect();
    if changed.is_empty() {
        changed = (0..names.len()).filter(|i| old[row][*i] != new[row][*i]).map(|i| names[i].as_str()).collect();
    }
    let rows = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    format!("column {} differs, in {rows} of {} rows; {first}", changed.join(", "), old.len())
}

fn of_metrics(old: &[&str], new: &[&str]) -> Vec<String> {
    let table = |lines: &[&str]| -> BTreeMap<String, (String, String)> {
        let mut table = BTreeMap::new();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let name = [fields[1], fields[2]].join(" ").trim_end().to_owned();
            table.insert(name, (fields[3].to_owned(), fields[4].to_owned()));
        }
        table
    };
    let (old, new) = (table(old), table(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let says = |name: &String| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) if old == new => None,
        (Some((unit, _)), Some((other, _))) if unit != other => Some(format!("{name} is in {other}, not {unit}")),
        (Some((_, value)), Some((unit, other))) => Some(format!("{name} is {other} {unit}, not {value}")),
        (Some((unit, value)), None) => Some(format!("{name} is missing (it was {value} {unit})")),
        (None, new) => new.map(|(unit, value)| format!("{name} is new: {value} {unit}")),
    };
    names.into_iter().filter_map(says).collect()
}

fn of_lines(old: &[&str], new: &[&str]) -> Vec<String> {
    let shown = |line: &str| line.replace('\t', " ");
    let new_set: BTreeSet<&&str> = new.iter().collect();
    let old_set: BTreeSet<&&str> = old.iter().collect();
    let gone = old.iter().filter(|line| !new_set.contains(line)).map(|line| format!("missing: {}", shown(line)));
    let come = new.iter().filter(|line| !old_set.contains(line)).map(|line| format!("new: {}", shown(line)));
    let all: Vec<String> = gone.chain(come).collect();
    if all.is_empty() { vec!["its lines are in another order or number".to_owned()] } else { all }
}
