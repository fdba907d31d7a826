//! An experiment's own metrics: a SELECT whose answer has a column `value`, and labels.
//!
//! Called by analyses of runs through [`pktgen_records::user`], and by commands that read experiments, which [`check`]
//! them before running anything.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use pktgen_core::registry::suggest;
use pktgen_core::user_metric::UserMetric;
use pktgen_core::{Error, Result};
use pktgen_records::Line;
use pktgen_records::labels::NUMBERS;
use pktgen_records::memory::MemoryBound;
use pktgen_records::user::{Unanswered, UserMetrics, is_taken};
use polars::prelude::*;
use polars::sql::SQLContext;
use serde_json::Value;

use crate::database::{Database, Options};
use crate::exact::Functions;
use crate::memory::LEAST;
use crate::nested;
use crate::output::QueryAnswer;
use crate::source::data_type;
use crate::statement::Statement;
use crate::tables::{QueryTable, of_runs};

/// The column that holds the values.
const VALUE: &str = "value";
/// Names that lines have in addition to labels, or that readers of several runs add.
const NOT_LABELS: [&str; 5] = ["metric", "unit", "run", "variant", "seed"];
/// Maximum number of lines of a metric.
const LINES_MAX: usize = 10_000;

/// Computes metrics by SQL.
#[derive(Debug)]
pub struct SqlMetrics;

impl UserMetrics for SqlMetrics {
    fn lines(
        &self,
        dir: &Path,
        metric: &UserMetric,
        memory: MemoryBound,
    ) -> std::result::Result<Vec<Line>, Unanswered> {
        // The analysis has checked the digests of the files or was told not to.
        // Runs analysed at the same time grow the process, too.
        let (memory, process) = (memory.bound().max(LEAST), memory.of_all().max(LEAST));
        let options = Options { no_verify: true, memory, process };
        let database = Database::open(dir, options).map_err(Unanswered::Failed)?;
        if let Some(lacking) = database.lacking(&metric.sql).map_err(Unanswered::Failed)? {
            return Err(Unanswered::NotRecorded(lacking));
        }
        let answer = database.query(&metric.sql).map_err(Unanswered::Failed)?;
        lines_of(metric, &answer).map_err(Unanswered::Failed)
    }
}

/// Refuses metrics that are not a SELECT over the tables of a run, or whose answers are not metrics; `axes` are those of the sweep.
pub fn check(metrics: &[UserMetric], axes: &[String]) -> Result<()> {
    let tables = of_runs(axes);
    for metric in metrics {
        let place = format!("metrics.{}", metric.name);
        if is_taken(&metric.name) {
            let what = "there is a metric of this name (pktgen explain); give it another one";
            return Err(Error::config(format!("{place}: {what}")));
        }
        let wrong = |fault: Error| Error::config(format!("{place}.sql: {fault}"));
        let answer = on_nothing(&metric.sql, &tables).map_err(wrong)?;
        lines_of(metric, &answer).map_err(wrong)?;
        check_numbers(&answer).map_err(wrong)?;
    }
    Ok(())
}

/// Refuses labels without numbers whose names are those of numbers in all metrics. Runs of older versions may have them.
fn check_numbers(answer: &QueryAnswer) -> Result<()> {
    match answer.columns().into_iter().enumerate().find(|(at, name)| NUMBERS.contains(name) && !answer.is_number(*at)) {
        None => Ok(()),
        Some((_, name)) => Err(Error::config(format!(
            "the column \"{name}\" holds no numbers, and the label {name} is a number in all metrics: name it otherwise"
        ))),
    }
}

/// Executes `sql` over tables without rows.
fn on_nothing(sql: &str, tables: &[QueryTable]) -> Result<QueryAnswer> {
    let statement = Statement::parse(sql, tables)?;
    if statement.explains {
        return Err(Error::config("EXPLAIN gives a plan and no values; write a SELECT"));
    }
    let mut context = SQLContext::new().with_function_registry(Functions::all());
    for table in tables {
        let fields = table.columns.iter().map(|column| Field::new(column.name.as_str().into(), data_type(column.kind)));
        context.register(table.name, DataFrame::empty_with_schema(&fields.collect()).lazy());
    }
    let answered =
        crate::memory::deep(|| nested::execute(&mut context, &statement.guarded).and_then(LazyFrame::collect))?;
    QueryAnswer::of(answered.map_err(|fault| statement.fault(&fault, tables))?)
}

/// Converts an answer into lines.
fn lines_of(metric: &UserMetric, answer: &QueryAnswer) -> Result<Vec<Line>> {
    let names = answer.columns();
    let value = match names.as_slice() {
        [_] => 0,
        several => several.iter().position(|name| *name == VALUE).ok_or_else(|| no_value(several))?,
    };
    let labels: Vec<(usize, &str)> = names.iter().copied().enumerate().filter(|(at, _)| *at != value).collect();
    if let Some((_, name)) = labels.iter().find(|(_, name)| NOT_LABELS.contains(name)) {
        let what = format!("the column \"{name}\" is no label, since lines have one of that name; name it otherwise");
        return Err(Error::config(what));
    }
    if answer.rows() > LINES_MAX {
        let what = format!("the answer has {} rows, and a metric has at most {LINES_MAX}: group it", answer.rows());
        return Err(Error::config(what));
    }
    if !answer.is_number(value) {
        return Err(Error::config(format!("the column \"{}\" holds no numbers: CAST it to DOUBLE", names[value])));
    }
    if answer.rows() == 0 {
        return Ok(vec![Line::of_user(metric, None)]);
    }
    let (mut lines, mut known) = (Vec::with_capacity(answer.rows()), BTreeSet::new());
    for row in 0..answer.rows() {
        let mut line = Line::of_user(metric, answer.cell(row, value).as_f64());
        for (column, name) in &labels {
            match answer.cell(row, *column) {
                Value::Null => {}
                Value::Bool(truth) => line = line.with(name, truth.to_string()),
                other => line = line.with(name, other),
            }
        }
        let own: Vec<String> = line.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let own = own.join(", ");
        if !known.insert(own.clone()) {
            let which = if own.is_empty() { "without labels".to_owned() } else { format!("with {own}") };
            let what =
                format!("the answer has two rows {which}: a metric has one value, or one for each of its labels");
            return Err(Error::config(what));
        }
        lines.push(line);
    }
    // Groups have no defined order.
    lines.sort_by(|one, other| order(one).partial_cmp(&order(other)).unwrap_or(Ordering::Equal));
    Ok(lines)
}

/// Returns the sort key of lines: their labels, with numbers by value. Names of packets are integers that no float holds.
fn order(line: &Line) -> Vec<(&str, i128, f64, &str)> {
    let keys = line.labels.iter().map(|(name, value)| {
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let float = value.as_f64().filter(|_| whole.is_none());
        (name.as_str(), whole.unwrap_or(0), float.unwrap_or(0.0), value.as_str().unwrap_or_default())
    });
    keys.collect()
}

fn no_value(names: &[&str]) -> Error {
    let (near, all) = (suggest(VALUE, names), names.join(", "));
    Error::config(format!("the answer has no column \"{VALUE}\"{near}; its columns are {all}: write … AS {VALUE}"))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering as Order};
    use std::thread;

    use pktgen_core::definition::Better;
    use pktgen_records::testing::Story;

    use super::*;

    fn metric(name: &str, sql: &str) -> UserMetric {
        let (unit, better, about) = ("ns".to_owned(), Better::Lower, String::new());
        UserMetric { name: name.to_owned(), sql: sql.to_owned(), unit, better, about }
    }

    #[test]
    fn what_is_no_metric_is_refused_before_anything_runs() {
        let slots = ["target.slots".to_owned()];
        for (name, sql, wanted) in [
            ("loss", "SELECT 1 AS value", "metrics.loss: there is a metric of this name"),
            (
                "a",
                "SELECT wroker AS value FROM sent",
                "metrics.a.sql: SQL, line 1, column 8: there is no column \"wroker\"",
            ),
            ("a", "SELECT 1 AS value FROM send", "did you mean \"sent\"?"),
            ("a", "DELETE FROM sent", "DELETE is refused"),
            ("a", "SELECT * FROM read_csv('/etc/passwd')", "is refused"),
            ("a", "EXPLAIN SELECT 1 AS value FROM sent", "EXPLAIN gives a plan"),
            (
                "a",
                "SELECT worker, COUNT(*) AS vaule FROM sent GROUP BY worker",
                "no column \"value\", did you mean \"vaule\"?",
            ),
            ("a", "SELECT action AS value FROM books", "holds no numbers"),
            ("a", "SELECT seed AS value, run FROM runs", "the column \"run\" is no label"),
            (
                "a",
                "SELECT action AS id, COUNT(*) AS value FROM books GROUP BY action",
                "metrics.a.sql: the column \"id\" holds no numbers, and the label id is a number in all metrics",
            ),
            ("a", "SELECT 'x' AS n, 1 AS value FROM runs", "the column \"n\" holds no numbers"),
        ] {
            let fault = check(&[metric(name, sql)], &slots).unwrap_err().to_string();
            assert!(fault.contains(wanted), "{sql}: {fault}");
        }
        for sql in [
            "SELECT COUNT(*) FROM fates WHERE fate = 'dropped'",
            "SELECT cluster AS id, 'cluster' AS flow, AVG(bytes) AS value FROM sent GROUP BY cluster",
            "SELECT SUM(value) / 2 AS value FROM metrics WHERE metric = 'loss'",
            "SELECT \"target.slots\" AS slots, 1 AS value FROM runs",
            "SELECT worker AS id, attempt AS n, job, COUNT(*) AS value FROM sent GROUP BY worker, attempt, job",
            "SELECT QUANTILE_DISC(t_recv_ps - newest_gen_ps, 0.99) / 1000 AS value FROM received",
        ] {
            check(&[metric("a", sql)], &slots).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        }
    }

    #[test]
    fn answers_become_lines_with_labels() {
        let frame = df!("flow" => ["cluster", "cluster"], "id" => [14i64, 3], "value" => [None, Some(1.5)]).unwrap();
        let own = metric("tail", "");
        let lines = lines_of(&own, &QueryAnswer::of(frame).unwrap()).unwrap();
        assert_eq!(
            lines[0].to_json(),
            r#"{"metric":"tail","unit":"ns","value":1.5,"labels":{"flow":"cluster","id":3}}"#
        );
        assert_eq!((lines[1].value, lines.len()), (None, 2));
        // Neighbours that are one number as floats.
        let packets =
            df!("packet" => [(1u64 << 53) + 2, (1 << 53) + 1, 1 << 53, 9], "value" => [4.0, 3.0, 2.0, 1.0]).unwrap();
        let lines = lines_of(&own, &QueryAnswer::of(packets).unwrap()).unwrap();
        assert_eq!(lines.iter().map(|line| line.value).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0].map(Some));
        let below = df!("n" => [1i64, -1, 0], "value" => [3.0, 1.0, 2.0]).unwrap();
        let lines = lines_of(&own, &QueryAnswer::of(below).unwrap()).unwrap();
        assert_eq!(lines.iter().map(|line| line.value).collect::<Vec<_>>(), [1.0, 2.0, 3.0].map(Some));
        let shares = df!("share" => [0.5, 0.25], "value" => [2.0, 1.0]).unwrap();
        let lines = lines_of(&own, &QueryAnswer::of(shares).unwrap()).unwrap();
        assert_eq!(lines.iter().map(|line| line.value).collect::<Vec<_>>(), [1.0, 2.0].map(Some));
        let twice = df!("value" => [1.0, 2.0]).unwrap();
        let fault = lines_of(&own, &QueryAnswer::of(twice).unwrap()).unwrap_err().to_string();
        assert!(fault.contains("two rows without labels"), "{fault}");
        let none = DataFrame::empty_with_schema(&Schema::from_iter([Field::new("n".into(), DataType::Int64)]));
        assert_eq!(lines_of(&own, &QueryAnswer::of(none).unwrap()).unwrap()[0].value, None);
    }

    /// Other analyses of a sweep grow the process, and are not counted against this one's share.
    #[test]
    fn memory_of_other_threads_does_not_end_a_metric() {
        let (mut story, rows) = (Story::new(), 1500u32);
        for seq in 0..rows {
            story.sent_seq(0, seq, i64::from(seq), Some(i64::from(seq)), 0);
        }
        let folder = tempfile::tempdir().unwrap();
        story.write(folder.path());
        let slow = metric(
            "pairs",
            "SELECT a.worker, COUNT(*) AS value FROM sent a JOIN sent b ON a.cluster = b.cluster GROUP BY a.worker",
        );
        let memory = MemoryBound::bytes(4 << 30).shared_by(256);
        let done = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Order::Relaxed) {
                    let held: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1 << 20]).collect();
                    black_box(held);
                }
            });
            let answers: Vec<_> = (0..5).map(|_| SqlMetrics.lines(folder.path(), &slow, memory)).collect();
            done.store(true, Order::Relaxed);
            answers
        });
        for answer in answers {
            let lines = answer.unwrap();
            assert_eq!((lines.len(), lines[0].value), (1, Some(f64::from(rows) * f64::from(rows))));
        }
    }
}
