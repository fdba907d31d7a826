//! The tables available to queries: their columns, in a fixed order, with descriptions.
//!
//! Columns of streams follow from the record schema. Integers of up to 32 bits become 64-bit integers, so that sums and differences do not
//! wrap around; packet ids are unchanged. A column of codes is text, with the code in another column.

use pktgen_capture::tables::TABLES;
use pktgen_core::column::{Data, StreamTable};
use pktgen_core::record::{Action, BOOKS, Heat, ITERATIONS, RECEIVED, RESULTS, Reason, SENT, STATES, STREAMS, SumOk};
use pktgen_records::fates::Fate;
use pktgen_records::labels::NUMBERS;
use serde_json::json;

/// Streams of run dirs that are tables, in the order of lists.
const OF_STREAMS: [&str; 6] = [SENT, BOOKS, RECEIVED, RESULTS, ITERATIONS, STATES];

/// Column of the generation times of received packets: of packets without ids on the wire it follows from their names.
pub(crate) const GENERATED: &str = "newest_gen_ps";

/// Type of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit signed integers.
    Integer,
    /// 64-bit unsigned integers: packet ids, digests.
    Unsigned,
    /// Double precision.
    Float,
    /// UTF-8.
    Text,
    /// Booleans.
    Boolean,
}

impl Kind {
    /// Returns the name of its type in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Integer => "BIGINT",
            Kind::Unsigned => "UBIGINT",
            Kind::Float => "DOUBLE",
            Kind::Text => "TEXT",
            Kind::Boolean => "BOOLEAN",
        }
    }

    /// Returns the approximate size of a cell in memory, in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Kind::Text => 16,
            Kind::Boolean => 1,
            _ => 8,
        }
    }

    const fn of(data: Data) -> Kind {
        match data {
            Data::UInt64 => Kind::Unsigned,
            Data::Float32 | Data::Float64 => Kind::Float,
            Data::Boolean => Kind::Boolean,
            Data::Utf8 | Data::Binary => Kind::Text,
            _ => Kind::Integer,
        }
    }
}

/// How a column of a stream's table is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// The file's column of this name.
    Of(&'static str),
    /// The names of the codes in that column.
    Names(&'static str, &'static [&'static str]),
    /// These codes, as indices of the names.
    Codes(&'static str, &'static [&'static str]),
    /// The packet that a row of `sent` is.
    Packet,
    /// Worker, sequence number or attempt of a packet: position and number of bits.
    Bits(&'static str, u32, u32),
    /// Not computed from a column of the stream.
    Otherwise,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryColumn {
    /// Its name.
    pub name: String,
    /// What its cells hold.
    pub kind: Kind,
    /// Whether cells may be empty.
    pub optional: bool,
    /// Unit of numbers.
    pub unit: &'static str,
    /// Description.
    pub about: String,
    pub(crate) made: Made,
}

fn column(name: &str, kind: Kind, unit: &'static str, about: impl Into<String>) -> QueryColumn {
    QueryColumn { name: name.to_owned(), kind, optional: false, unit, about: about.into(), made: Made::Otherwise }
}

fn maybe(name: &str, kind: Kind, unit: &'static str, about: impl Into<String>) -> QueryColumn {
    QueryColumn { optional: true, ..column(name, kind, unit, about) }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryTable {
    /// Its name.
    pub name: &'static str,
    /// Description of a row.
    pub row: &'static str,
    /// Requirements for a run; empty if every run has the table.
    pub needs: &'static str,
    /// Its columns.
    pub columns: Vec<QueryColumn>,
}

impl QueryTable {
    /// Returns the names of its columns.
    pub fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// Returns the column with this name.
    pub(crate) fn column(&self, name: &str) -> Option<&QueryColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Adds a first column `run`, which all tables of sweeps have.
    pub(crate) fn of_sweep(mut self) -> QueryTable {
        if self.name != "runs" {
            self.columns.insert(0, run_column());
        }
        self
    }

    /// Returns one line of JSON per column.
    pub fn to_json(&self) -> Vec<String> {
        let line = |column: &QueryColumn| {
            json!({ "table": self.name, "column": column.name, "type": column.kind.name(), "optional": column.optional,
                    "unit": column.unit, "about": column.about })
            .to_string()
        };
        self.columns.iter().map(line).collect()
    }
}

fn run_column() -> QueryColumn {
    column("run", Kind::Text, "", "The run: its folder in the sweep; joins `runs`.")
}

/// Returns the names of the codes of a column.
fn codes(column: &str) -> &'static [&'static str] {
    match column {
        "action" => &Action::NAMES,
        "reason" => &Reason::NAMES,
        "heat" => &Heat::NAMES,
        "sum_ok" => &SumOk::NAMES,
        _ => &[],
    }
}

/// Returns the columns of a stream's table.
fn columns_of(stream: &StreamTable) -> Vec<QueryColumn> {
    let mut columns = Vec::new();
    for own in stream.columns {
        let names = codes(own.name);
        let base = QueryColumn {
            name: own.name.to_owned(),
            kind: Kind::of(own.data),
            optional: own.optional,
            unit: own.unit,
            about: own.about.to_owned(),
            made: Made::Of(own.name),
        };
        if names.is_empty() {
            // Counts are signed like all other integers; packet ids and digests are not.
            let kind = if base.unit == "count" { Kind::Integer } else { base.kind };
            columns.push(QueryColumn { kind, ..base });
            continue;
        }
        let (made, unit) = (Made::Names(own.name, names), "name");
        columns.push(QueryColumn { kind: Kind::Text, made, unit, ..base.clone() });
        let about = format!("The code of `{}`.", own.name);
        columns.push(QueryColumn { name: format!("{}_code", own.name), about, ..base });
    }
    match stream.name {
        SENT => {
            let packet =
                column("packet", Kind::Unsigned, "number", "Its packet: worker, attempt and seq in one number.");
            columns.push(QueryColumn { made: Made::Packet, ..packet });
        }
        BOOKS => {
            for (name, from, bits) in [("worker", 40, 24), ("seq", 0, 32), ("attempt", 32, 8)] {
                let about = format!("The {name} of `packet_in`.");
                let made = Made::Bits("packet_in", from, bits);
                columns.push(QueryColumn { made, ..column(name, Kind::Integer, "number", about) });
            }
        }
        _ => {}
    }
    columns
}

fn fates() -> QueryTable {
    use Kind::{Integer, Text, Unsigned};
    let of_codes = |made: Made, column: QueryColumn| QueryColumn { made, ..column };
    let about = format!("One of {}. What is merged shares the fate of what carries it.", Fate::NAMES.join(", "));
    let t_ps = "When it ended: was received, dropped, or made way; empty where it did not end, or that is unknown.";
    let aggregate = "The packet in which it ended: itself, unless it was merged; joins `received.packet` (not of SwitchML on wires with \
                     retransmissions). Empty where it did not end.";
    let (fate, reason) = (Made::Names("fate", &Fate::NAMES), Made::Names("reason", &Reason::NAMES));
    QueryTable {
        name: "fates",
        row: "one transmission of a worker, and what became of it",
        needs: FULL,
        columns: vec![
            column("packet", Unsigned, "number", "Its packet; joins `sent.packet`, `books.packet_in` and others."),
            column("worker", Integer, "number", "Worker."),
            maybe("cluster", Integer, "number", "As in `sent`. Empty in training."),
            maybe("job", Integer, "number", "As in `sent`. Empty but in training."),
            column("seq", Integer, "number", "Number of the update at its worker."),
            column("attempt", Integer, "number", "0 for the first transmission."),
            of_codes(fate, column("fate", Text, "name", about)),
            of_codes(Made::Of("fate"), column("fate_code", Integer, "code", "Its place in that list, from 0.")),
            of_codes(reason, maybe("reason", Text, "name", "Why it was dropped; empty for other fates.")),
            of_codes(Made::Of("reason"), maybe("reason_code", Integer, "code", "Code of `reason`.")),
            maybe("t_ps", Integer, "ps", t_ps),
            maybe("aggregate", Unsigned, "number", aggregate),
        ],
    }
}

/// Labels of metrics with a column of their own.
pub(crate) const LABELS: [&str; 13] =
    ["flow", "id", "n", "reason", "traffic", "job", "counter", "side", "link", "direction", "end", "tenth", "group"];

fn metrics() -> QueryTable {
    let mut columns = vec![
        column("metric", Kind::Text, "", "Its name, as in `pktgen explain`."),
        column("unit", Kind::Text, "", "In what `value` is."),
        maybe("value", Kind::Float, "as `unit` says", "How much; empty if it cannot be said."),
        maybe("key", Kind::Text, "", "The key in reports; empty of lines about one cluster, worker or bin."),
    ];
    for name in LABELS {
        let kind = if NUMBERS.contains(&name) { Kind::Integer } else { Kind::Text };
        columns.push(maybe(name, kind, "label", format!("The label `{name}`, on lines that have it.")));
    }
    columns.push(maybe("other", Kind::Text, "label", "All other labels, as `name=value`."));
    QueryTable {
        name: "metrics",
        row: "a line of `pktgen analyze`, without metrics that the experiment defines",
        needs: "",
        columns,
    }
}

fn runs(axes: &[String]) -> QueryTable {
    let mut columns = vec![
        column("run", Kind::Text, "", "Its folder in the sweep; of a run alone, the folder's name."),
        maybe("variant", Kind::Text, "", "Its variant; empty where there are none."),
        column("seed", Kind::Unsigned, "number", "Its seed."),
        column(
            "valid",
            Kind::Boolean,
            "yes or no",
            "As the run itself found; `pktgen analyze` looks at its records, too.",
        ),
        maybe("notes", Kind::Text, "", "Why it is invalid, and its notes."),
        column("experiment", Kind::Text, "", "The experiment."),
        column("records", Kind::Text, "", "How many of its transmissions were recorded: full, every:N or none."),
    ];
    columns.extend(axes.iter().map(|axis| maybe(axis, Kind::Text, "", "An axis of the sweep.")));
    QueryTable { name: "runs", row: "a run; one column more for each axis of its sweep", needs: "", columns }
}

const FULL: &str = "capture.records = \"full\"";

fn needs(stream: &str) -> &'static str {
    match stream {
        STATES => "capture.states = true, with transmission control",
        ITERATIONS => "synchronous training",
        RESULTS => "synchronous training, and capture.records = \"full\" or \"every:N\"",
        SENT | BOOKS | RECEIVED => "capture.records = \"full\" or \"every:N\"",
        _ => FULL,
    }
}

/// Returns the tables of run dirs; `axes` are those of a sweep.
pub(crate) fn of_runs(axes: &[String]) -> Vec<QueryTable> {
    let streams = OF_STREAMS.iter().filter_map(|name| STREAMS.iter().find(|stream| stream.name == *name));
    let of = |stream: &StreamTable| {
        let mut columns = columns_of(stream);
        if let Some(column) = columns.iter_mut().find(|column| column.name == GENERATED) {
            column.optional = true;
            column.about = "When the newest member was generated; 0 in training: results carry no generation time. Empty if no id is on the \
                            wire and the content names no packet."
                .to_owned();
        }
        QueryTable { name: stream.name, row: stream.row, needs: needs(stream.name), columns }
    };
    streams.map(of).chain([fates(), metrics(), runs(axes)]).collect()
}

/// Returns the tables of captures.
pub fn of_captures() -> Vec<QueryTable> {
    let of = |(name, table): (&'static str, &StreamTable)| {
        let mut columns = columns_of(table);
        columns[0].kind = Kind::Integer;
        columns.insert(0, column("cluster", Kind::Integer, "number", "The cluster, by the packet's addresses."));
        columns.insert(0, column("run", Kind::Text, "", "Name of the capture: `--run` of `pktgen analyze --tables`."));
        let about = "The format's name, as in `pktgen list formats`.";
        let format = columns.iter().position(|column| column.name == "format").expect("tables have formats");
        columns[format].name = "format_code".to_owned();
        columns.insert(format, column("format", Kind::Text, "name", about));
        QueryTable { name, row: table.row, needs: "a capture of that side", columns }
    };
    [SENT, RECEIVED].into_iter().zip(&TABLES).map(of).collect()
}

/// Formats the tables as a page of markdown.
pub fn markdown() -> String {
    let mut page = String::new();
    for (title, tables) in [("Of run dirs and sweeps", of_runs(&[])), ("Of captures", of_captures())] {
        page += &format!("### {title}\n\n");
        for table in tables {
            let needs = if table.needs.is_empty() { String::new() } else { format!(" Needs {}.", table.needs) };
            page += &format!("`{}`: a row is {}.{needs}\n\n", table.name, table.row);
            page += "| column | type | unit | meaning |\n| --- | --- | --- | --- |\n";
            for QueryColumn { name, kind, optional, unit, about, .. } in table.columns {
                let mark = if optional { "?" } else { "" };
                page += &format!("| `{name}`{mark} | {} | {unit} | {about} |\n", kind.name());
            }
            page.push('\n');
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_label_has_a_column() {
        for table in of_runs(&["target.slots".to_owned()]).into_iter().chain(of_captures()) {
            let mut names = table.names();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{}", table.name);
        }
        let definitions = pktgen_records::METRICS.iter().flat_map(|metric| metric.definitions());
        for label in definitions.flat_map(|definition| definition.labels) {
            assert!(LABELS.contains(&label.name), "the label {} has no column", label.name);
        }
    }
}
