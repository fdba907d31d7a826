//! Statistics of a run per interval, as CSV or JSON lines: `--stats`, `--stats-to`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_realtime::live::{ClusterStats, Glance, LiveTotals, StatsInterval};
use serde_json::{Value, json};

use crate::schemas::STATS;
use crate::ui::Ui;

/// Destination of rows.
enum Sink {
    /// Standard output, as JSON lines.
    Output,
    Json(File),
    Csv(File),
    /// A file in each run dir: the folder of the current run, and its file.
    Runs(Option<(Arc<Path>, File)>),
}

/// `--stats-to run`.
const RUN: &str = "run";
/// The file in a run dir that `pktgen serve` reads, locked while its run is in progress.
pub(crate) const RUN_ROWS: &str = "stats.jsonl";
/// Maximum number of clusters in a row, from the first on.
const CLUSTERS_MAX: usize = 16;

/// Writes a row for each interval.
pub(super) struct StatsWriter {
    sink: Sink,
    path: PathBuf,
    rows: u64,
    /// Whether its file was created for it.
    is_new: bool,
    /// Why writing stopped.
    failure: Option<std::io::Error>,
}

/// A run that does not begin leaves no file.
impl Drop for StatsWriter {
    fn drop(&mut self) {
        if self.is_new && self.rows == 0 && self.failure.is_none() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl StatsWriter {
    /// Opens `--stats-to`; without it rows go to standard output.
    pub(super) fn open(to: Option<&Path>) -> Result<Self> {
        let path = to.unwrap_or(Path::new("-")).to_owned();
        let mut is_new = false;
        let mut created = || {
            let (file, new) = create(&path)?;
            is_new = new;
            Ok::<_, Error>(file)
        };
        let sink = match path.extension().and_then(|word| word.to_str()) {
            _ if path == Path::new("-") => Sink::Output,
            None if path == Path::new(RUN) => Sink::Runs(None),
            Some("csv") => Sink::Csv(created()?),
            Some("jsonl") => Sink::Json(created()?),
            _ => {
                return Err(Error::config(format!(
                    "--stats-to {}: unknown extension; there are: .csv, .jsonl, - for JSON lines on standard output, \
                     and run for stats.jsonl in the run dir",
                    path.display()
                )));
            }
        };
        Ok(StatsWriter { sink, path, rows: 0, is_new, failure: None })
    }

    /// Writes the finished interval, if any.
    pub(super) fn write(&mut self, glance: &Glance, ui: &Ui) {
        if self.failure.is_some() {
            return;
        }
        if let Sink::Runs(open) = &mut self.sink
            && open.as_ref().is_none_or(|(dir, _)| *dir != glance.dir)
        {
            // Before its first row, so that observers see that the run is in progress.
            match open_in(&glance.dir) {
                Ok(file) => *open = Some((glance.dir.clone(), file)),
                Err(why) => {
                    *open = None;
                    self.failure = Some(why);
                    return;
                }
            }
        }
        let Some(interval) = &glance.interval else { return };
        let row = row(&glance.name, interval);
        let object = || {
            let more = [("clusters", clusters(glance)), ("warnings", warnings(glance))];
            let more = more.map(|(name, value)| (name.to_owned(), value));
            Value::Object(row.iter().cloned().chain(more).collect()).to_string()
        };
        let written = match &mut self.sink {
            Sink::Output => {
                ui.object(&STATS, &object());
                Ok(())
            }
            Sink::Json(file) => writeln!(file, "{}", STATS.stamp(&object())),
            Sink::Csv(file) => write_csv(file, self.rows == 0, &row),
            Sink::Runs(Some((_, file))) => file.write_all(format!("{}\n", STATS.stamp(&object())).as_bytes()),
            Sink::Runs(None) => Ok(()),
        };
        match written {
            Ok(()) => self.rows += 1,
            Err(why) => self.failure = Some(why),
        }
    }

    /// Prints any failure. Returns the exit code.
    pub(super) fn end(&self, ui: &Ui) -> u8 {
        match &self.failure {
            Some(why) => {
                ui.error(&format!("--stats-to {}: {} rows were written: {why}", self.path.display(), self.rows));
                1
            }
            None => 0,
        }
    }
}

/// Creates a new file, or opens a pipe or an empty file that no other run writes. Returns also whether it is new.
fn create(path: &Path) -> Result<(File, bool)> {
    let refuse = |why: &str| Err(Error::config(format!("--stats-to {}: {why}; choose another", path.display())));
    let opened = match File::create_new(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            File::options().create(true).truncate(false).write(true).open(path).map(|file| (file, false))
        }
        created => created.map(|file| (file, true)),
    };
    let (file, is_new) = opened.map_err(Error::io("create", path))?;
    let about = file.metadata().map_err(Error::io("read", path))?;
    if about.is_file() && matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
        return refuse("another run writes the file");
    }
    // Checked while holding the lock: until then another process may have written.
    match file.metadata().map_err(Error::io("read", path))?.len() {
        1.. if about.is_file() => refuse("the file is there already"),
        _ => Ok((file, is_new)),
    }
}

/// Creates the file of a run dir, which must not exist. It is locked before it gets its name, since a file without a
/// lock would be attributed to a killed run.
fn open_in(dir: &Path) -> std::io::Result<File> {
    let (path, unnamed) = (dir.join(RUN_ROWS), dir.join(format!(".{RUN_ROWS}")));
    if path.exists() {
        return Err(std::io::ErrorKind::AlreadyExists.into());
    }
    let file = File::create_new(&unnamed)?;
    file.lock()?;
    std::fs::rename(unnamed, path)?;
    Ok(file)
}

/// Returns the first clusters: counts since the beginning of the run, and ages. Values unknown to this process are null.
fn clusters(glance: &Glance) -> Value {
    let Glance { clusters, totals, .. } = glance;
    let one = |cluster: &ClusterStats| {
        let ClusterStats { id, totals: own, age, age_mean_ps, .. } = cluster;
        json!({
            "id": id,
            "sent_total": totals.sent.map(|_| own.sent),
            "received_total": totals.received_bytes.map(|_| own.packets),
            "represented_total": totals.represented.map(|_| own.updates),
            "age_s": age.map(seconds),
            "age_mean_s": age_mean_ps.map(|mean| mean / SECOND as f64),
        })
    };
    clusters.iter().take(CLUSTERS_MAX).map(one).collect()
}

/// Returns the warnings of the last second.
fn warnings(glance: &Glance) -> Value {
    let refused = glance.refused.iter().map(ToString::to_string);
    refused.chain(glance.warnings.iter().take(CLUSTERS_MAX).map(ToString::to_string)).collect()
}

fn seconds(t: Time) -> Value {
    json!(t as f64 / SECOND as f64)
}

/// The members of a row in the order of columns.
type Members = Vec<(String, Value)>;

fn row(run: &str, interval: &StatsInterval) -> Members {
    let StatsInterval { begin, end, last, during, total, late_ns, unread, device, queued } = interval;
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
    put("queued", json!(queued));
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

/// Writes a line, preceded by the column names if it is the first. Unknown values are empty.
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
    use std::fs::TryLockError;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pktgen_realtime::live::DeviceCounts;

    use super::*;

    #[test]
    fn rows_of_a_run_are_never_seen_without_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let dirs: Vec<_> = (0..200).map(|i| folder.path().join(i.to_string())).collect();
        let over = AtomicBool::new(false);
        let (made, unlocked) = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let unlocked = |dir: &&PathBuf| loop {
                    let over = over.load(Ordering::Acquire);
                    match File::open(dir.join(RUN_ROWS)) {
                        Ok(file) => break !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
                        Err(_) if over => break true,
                        Err(_) => std::hint::spin_loop(),
                    }
                };
                dirs.iter().find(unlocked)
            });
            let make = |dir: &PathBuf| std::fs::create_dir(dir).and_then(|()| open_in(dir));
            let made: Vec<_> = dirs.iter().map(make).collect();
            over.store(true, Ordering::Release);
            (made, looks.join().unwrap())
        });
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        assert_eq!(unlocked, None);
        assert!(open_in(&dirs[0]).is_err(), "a second file");
    }

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
            queued: None,
        };
        let row = row("a,b", &interval);
        let of = |name: &str| row.iter().find(|(member, _)| member == name).unwrap().1.clone();
        assert_eq!([of("sent"), of("received"), of("late_p99_ns")], [json!(7), Value::Null, Value::Null]);
        assert_eq!(of("device"), json!({ "drops": 3, "rx": 9 }));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let (mut file, _) = create(&path).unwrap();
        assert!(create(&path).unwrap_err().to_string().contains("another run writes the file"));
        write_csv(&mut file, true, &row).unwrap();
        drop(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let [names, cells] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(names.starts_with("schema,run,begin_s,end_s,last,sent,received,"), "{names}");
        assert_eq!(cells, "stats/1,\"a,b\",0.0,0.5,true,7,,,,,,,,,,7,,,,,,0.25,drops=3;rx=9,");
        assert!(create(&path).unwrap_err().to_string().contains("choose another"));
    }
}
