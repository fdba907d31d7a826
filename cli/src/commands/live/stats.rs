//! Statistics of a run per interval, as CSV or JSON lines: `--stats`, `--stats-to`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_realtime::live::{LiveTotals, StatsInterval};
use serde_json::{Value, json};

use crate::schemas::STATS;
use crate::ui::Ui;

/// Where rows go.
enum Sink {
    /// Standard output, as JSON lines.
    Output,
    Json(File),
    Csv(File),
}

/// Writes a row for each interval.
pub(super) struct StatsWriter {
    sink: Sink,
    path: PathBuf,
    rows: u64,
    /// Why no more is written.
    failure: Option<std::io::Error>,
}

impl StatsWriter {
    /// Opens `--stats-to`; without it rows go to standard output.
    pub(super) fn open(to: Option<&Path>) -> Result<Self> {
        let path = to.unwrap_or(Path::new("-")).to_owned();
        let sink = match path.extension().and_then(|word| word.to_str()) {
            _ if path == Path::new("-") => Sink::Output,
            Some("csv") => Sink::Csv(create(&path)?),
            Some("jsonl") => Sink::Json(create(&path)?),
            _ => {
                return Err(Error::config(format!(
                    "--stats-to {}: the extension says the form; there are: .csv, .jsonl, and - for JSON lines on standard output",
                    path.display()
                )));
            }
        };
        Ok(StatsWriter { sink, path, rows: 0, failure: None })
    }

    /// Writes an interval of the run of this name.
    pub(super) fn write(&mut self, run: &str, interval: &StatsInterval, ui: &Ui) {
        if self.failure.is_some() {
            return;
        }
        let row = row(run, interval);
        let object = || Value::Object(row.iter().cloned().collect()).to_string();
        let written = match &mut self.sink {
            Sink::Output => {
                ui.object(&STATS, &object());
                Ok(())
            }
            Sink::Json(file) => writeln!(file, "{}", STATS.stamp(&object())),
            Sink::Csv(file) => write_csv(file, self.rows == 0, &row),
        };
        self.rows += 1;
        self.failure = written.err();
    }

    /// Says what was wrong. Returns the exit code.
    pub(super) fn end(&self, ui: &Ui) -> u8 {
        match &self.failure {
            Some(why) => {
                ui.error(&format!("--stats-to {}: written up to row {}: {why}", self.path.display(), self.rows - 1));
                1
            }
            None => 0,
        }
    }
}

/// Makes a file that is not there yet, or opens a pipe or an empty file.
fn create(path: &Path) -> Result<File> {
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Err(Error::config(format!("--stats-to {}: the file is there already; choose another", path.display())));
    }
    File::create(path).map_err(Error::io("create", path))
}

fn seconds(t: Time) -> Value {
    json!(t as f64 / SECOND as f64)
}

/// The members of a row, in the order of columns.
type Members = Vec<(String, Value)>;

fn row(run: &str, interval: &StatsInterval) -> Members {
    let StatsInterval { begin, end, last, during, total, late_ns, unread, device } = interval;
    let late = |i: usize| late_ns.map(|late| late[i]);
    let mut row = Members::new();
    let mut put = |name: &str, value: Value| row.push((name.to_owned(), value));
    put("run", json!(run));
    put("begin_s", seconds(*begin));
    put("end_s", seconds(*end));
    put("last", json!(last));
    for (name, value) in counts(during) {
        put(name, json!(value));
    }
    for (i, name) in ["late_p50_ns", "late_p99_ns", "late_max_ns"].into_iter().enumerate() {
        put(name, json!(late(i)));
    }
    put("unread", json!(unread));
    for (name, value) in counts(total) {
        put(&format!("{name}_total"), json!(value));
    }
    let device = device.as_ref();
    put("device_s", device.map_or(Value::Null, |device| seconds(device.t)));
    put("device", json!(device.map(|device| &device.counts)));
    row
}

fn counts(totals: &LiveTotals) -> [(&'static str, Option<u64>); 6] {
    let LiveTotals { sent, received, represented, received_bytes, lost, refused } = *totals;
    [
        ("sent", sent),
        ("received", received),
        ("represented", represented),
        ("received_bytes", received_bytes),
        ("lost", lost),
        ("refused", refused),
    ]
}

/// A line, behind the line of names if it is the first. What is not known is empty.
fn write_csv(file: &mut File, first: bool, row: &Members) -> std::io::Result<()> {
    let mut text = String::new();
    if first {
        let names: Vec<_> = row.iter().map(|(name, _)| name.as_str()).collect();
        text = format!("schema,{}\n", names.join(","));
    }
    let cells: Vec<_> = row.iter().map(|(_, value)| cell(value)).collect();
    text += &format!("{}/{},{}\n", STATS.name, STATS.version, cells.join(","));
    file.write_all(text.as_bytes())
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(counts) => {
            counts.iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(";")
        }
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use pktgen_realtime::live::DeviceCounts;

    use super::*;

    #[test]
    fn what_is_not_known_is_null_and_an_empty_cell() {
        let during = LiveTotals { sent: Some(7), ..LiveTotals::default() };
        let device = DeviceCounts { t: SECOND / 4, counts: [("drops".to_owned(), 3), ("rx".to_owned(), 9)].into() };
        let interval = StatsInterval {
            begin: 0,
            end: SECOND / 2,
            last: true,
            during,
            total: during,
            late_ns: None,
            unread: None,
            device: Some(device),
        };
        let row = row("a,b", &interval);
        let of = |name: &str| row.iter().find(|(member, _)| member == name).unwrap().1.clone();
        assert_eq!([of("sent"), of("received"), of("late_p99_ns")], [json!(7), Value::Null, Value::Null]);
        assert_eq!(of("device"), json!({ "drops": 3, "rx": 9 }));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        write_csv(&mut create(&path).unwrap(), true, &row).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let [names, cells] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(names.starts_with("schema,run,begin_s,end_s,last,sent,received,"), "{names}");
        assert_eq!(cells, "stats/1,\"a,b\",0.0,0.5,true,7,,,,,,,,,,7,,,,,,0.25,drops=3;rx=9");
        assert!(create(&path).unwrap_err().to_string().contains("choose another"));
    }
}
