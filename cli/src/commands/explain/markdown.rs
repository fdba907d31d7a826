//! Formats entries as a page of tables: docs/schema.md.

use pktgen_core::definition::Timing;

use super::{Entry, label_text};

const HEAD: &str = "\
<!-- Written by `pktgen explain --markdown`; `UPDATE_DOCS=1 cargo test --release --workspace --test cli explain::` writes it anew. -->

# Metrics, columns and codes

`pktgen explain NAME` says the same about one of them.
";

/// Formats the page.
pub(super) fn page(entries: &[&Entry]) -> String {
    let mut out = HEAD.to_owned();
    let (mut section, mut group) = (String::new(), String::new());
    for entry in entries {
        let (of_section, about_section, of_group, columns) = place(entry);
        if section != of_section {
            out += &format!("\n## {of_section}\n\n{about_section}\n");
        }
        if section != of_section || group != of_group {
            out += &format!("\n{of_group}\n\n{}", row(&columns.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>()));
            out += &row(&vec!["---".to_owned(); columns.len()]);
        }
        (section, group) = (of_section.to_owned(), of_group);
        out += &row(&cells(entry));
    }
    out.trim_end().to_owned()
}

/// Returns its section, the description of this, the heading of its table, and the table's columns.
fn place(entry: &Entry) -> (&'static str, &'static str, String, &'static [&'static str]) {
    match entry {
        Entry::Metric { family, about, .. } => (
            "Metrics",
            "Of each: which values are better, its labels, what a run must have recorded or be, and where the definition is \
             from. Keys of reports are the metric and its labels' values, with slashes; lines with `id` or `n` have none. Times \
             in ns have a timing: of one clock, or one-way, from a worker's clock to the server's (compare.md, Verdicts).",
            format!("### {family}\n\n{about}"),
            &["metric", "unit", "better", "timing", "meaning", "labels", "needs", "source"],
        ),
        Entry::Column { stream, .. } => (
            "Columns",
            "A `?` marks columns that may be empty.",
            format!("### {}\n\nA row is {}.", stream.name, stream.row),
            &["column", "type", "unit", "meaning"],
        ),
        Entry::Code { list, .. } => {
            ("Codes", "What numbers in columns stand for.", format!("### {list}"), &["code", "name", "meaning"])
        }
        Entry::Finding { list, .. } => {
            ("Verdicts", "Codes of what a verdict says: verdicts.md.", format!("### {list}"), &["code", "meaning"])
        }
        Entry::Named { list, .. } => {
            ("Names", "What `pktgen list` shows.", format!("### {list}"), &["name", "what it is"])
        }
    }
}

fn cells(entry: &Entry) -> Vec<String> {
    match entry {
        Entry::Metric { definition, .. } => vec![
            format!("`{}`", definition.metric),
            definition.unit.to_owned(),
            definition.better.name().to_owned(),
            definition.timing.map_or("", Timing::name).to_owned(),
            definition.definition.to_owned(),
            definition.labels.iter().map(label_text).collect::<Vec<_>>().join("; "),
            definition.needs.to_owned(),
            definition.source.to_owned(),
        ],
        Entry::Column { column, .. } => vec![
            format!("`{}`{}", column.name, if column.optional { "?" } else { "" }),
            column.data.name().to_owned(),
            column.unit.to_owned(),
            column.about.to_owned(),
        ],
        Entry::Code { code, name, about, .. } => vec![code.to_string(), format!("`{name}`"), (*about).to_owned()],
        Entry::Finding { name, about, .. } | Entry::Named { name, about, .. } => {
            vec![format!("`{name}`"), (*about).to_owned()]
        }
    }
}

/// Formats a row; a bar would end a cell.
fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}
