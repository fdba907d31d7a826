//! Compares skipped row groups and grouped aggregates with polars over the whole table: random predicates, keys and aggregates.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::RecordBatch;
use pktgen_core::record::digest::file_digest;
use pktgen_core::record::{Name, Note, PacketId, Reason, Row};
use pktgen_records::batches::Batches;
use pktgen_records::testing::{Dice, Story, write_sweep};
use polars::prelude::*;
use polars::sql::SQLContext;
use polars_core::runtime::RAYON;
use tempfile::TempDir;

use crate::choice::Choice;
use crate::exact::Functions;
use crate::grouped::in_batches;
use crate::keys::Keys;
use crate::memory::Budget;
use crate::scan::{Fault, Scan};
use crate::source::{Part, Stream};
use crate::statement::Statement;
use crate::tables::{QueryTable, of_runs};
use crate::{Database, Options, QueryAnswer};

/// Rows of a row group.
const GROUP: usize = 200;
const ROWS: usize = 3000;
/// Columns that constructed runs have.
const OF_SENT: &str = "t_gen_ps, t_sent_ps, cluster, job, worker, seq, attempt, bytes, reward, packet";

/// Returns a random integer below `most`.
fn below(dice: &mut Dice, most: usize) -> usize {
    (dice.uniform() * most as f64) as usize
}

fn one<'a>(dice: &mut Dice, of: &[&'a str]) -> &'a str {
    of[below(dice, of.len())]
}

/// Creates a run whose files have many row groups.
fn run() -> TempDir {
    let (mut story, mut dice, mut t) = (Story::new(), Dice::new(23), 0);
    for row in 0..ROWS {
        let (worker, seq) = (below(&mut dice, 9) as u32, (row / 10) as u32);
        let id = PacketId::new(worker, seq, 0);
        t += below(&mut dice, 1000) as i64;
        story.sent_seq(worker, seq, t, (row % 7 != 0).then_some(t + 5), (worker / 3) as u16);
        match below(&mut dice, 4) {
            0 => story.dropped(t, (row % 3) as u16, worker, Reason::ALL[below(&mut dice, 3)]),
            1 => story.dropped_seq(t, worker, seq),
            2 => story.merged_into(t, id, PacketId::new(worker, seq + 1, 0)),
            _ => story.queued(t, (row % 3) as u16, worker),
        };
    }
    story.records.sent.reward = (0..ROWS).map(|row| (row % 5 != 0).then_some(row as f32 / 7.0 - 100.0)).collect();
    let folder = tempfile::tempdir().unwrap();
    story.write(folder.path());
    for name in ["sent", "books"] {
        in_groups(&folder.path().join(format!("{name}.parquet")), GROUP);
    }
    folder
}

/// Rewrites a file with row groups of this many rows.
fn in_groups(path: &Path, rows: usize) {
    let mut batches = Batches::open(path).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batches.schema(), Some(properties)).unwrap();
    while let Some(batch) = batches.next_batch().unwrap() {
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    std::fs::write(path, file).unwrap();
}

struct Whole {
    database: Database,
    tables: Vec<QueryTable>,
    frames: Vec<(&'static str, DataFrame)>,
}

impl Whole {
    fn of(folder: &Path) -> Whole {
        let database = Database::open(folder, Options { no_verify: true, memory: 1 << 30, process: 1 << 30 }).unwrap();
        let frame = |of: &str, name| database.query(&format!("SELECT {of} FROM {name}")).unwrap().0;
        let frames = [("sent", OF_SENT), ("books", "*")].map(|(name, of)| (name, frame(of, name)));
        assert!(frames.iter().all(|(_, frame)| frame.height() == ROWS), "{frames:?}");
        Whole { database, tables: of_runs(&[]), frames: frames.into() }
    }

    /// Returns the answer of polars over frames of all rows.
    fn by_polars(&self, sql: &str) -> PolarsResult<DataFrame> {
        let mut context = SQLContext::new().with_function_registry(Functions::all());
        self.frames.iter().for_each(|(name, frame)| context.register(name, frame.clone().lazy()));
        let statement = Statement::parse(sql, &self.tables).unwrap();
        Ok(QueryAnswer::of(context.execute(&statement.guarded)?.collect()?).unwrap().0)
    }

    /// Compares the answers, ignoring the order of rows and the last bits of floats; returns whether there is an answer.
    fn compare(&self, sql: &str) -> bool {
        match (self.database.query(sql), self.by_polars(sql)) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours.0.schema(), theirs.schema(), "{sql}");
                assert_eq!(rows(&ours.0), rows(&theirs), "{sql}");
                true
            }
            (Err(_), Err(_)) => false,
            (ours, theirs) => panic!("{sql}: {ours:?}, and polars {theirs:?}"),
        }
    }
}

/// Formats the rows, sorted; floats with nine digits.
fn rows(frame: &DataFrame) -> Vec<String> {
    let cell = |row: usize, column: &Column| match column.get(row).unwrap() {
        AnyValue::Float64(value) => format!("{value:.9e}"),
        other => other.to_string(),
    };
    let row = |row| frame.columns().iter().map(|column| cell(row, column)).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = (0..frame.height()).map(row).collect();
    rows.sort_unstable();
    rows
}

/// Returns a comparison with a constant that rows may contain.
fn comparison(dice: &mut Dice, table: &str) -> String {
    let op = one(dice, &["=", "<>", "<", "<=", ">", ">="]);
    let value =
        match one(dice, if table == "sent" { &["t", "w", "s", "p", "f"] } else { &["t", "w", "s", "i", "a", "r"] }) {
            "t" => (if table == "sent" { "t_gen_ps" } else { "t_ps" }, below(dice, 1_600_000).to_string()),
            "w" => ("worker", below(dice, 10).to_string()),
            "s" => ("seq", (below(dice, 320) as i64 - 10).to_string()),
            "i" => ("packet_in", (below(dice, 10) << 40 | below(dice, 310)).to_string()),
            "p" => ("packet", (below(dice, 10) << 40 | below(dice, 310)).to_string()),
            "f" => return format!("{}.5 {op} t_sent_ps", below(dice, 1_600_000)),
            "a" => return format!("action {} 'dropped'", one(dice, &["=", "<>"])),
            _ => {
                return one(dice, &["reason IS NULL", "reason LIKE 'q%'", "action_code < 3", "reason_code = 1"])
                    .to_owned();
            }
        };
    format!("{} {op} {}", value.0, value.1)
}

fn predicate(dice: &mut Dice, table: &str) -> String {
    let parts: Vec<String> = (0..1 + below(dice, 3)).map(|_| comparison(dice, table)).collect();
    let more = match below(dice, 5) {
        0 => " AND seq BETWEEN 20 AND 90",
        1 => " AND worker IN (1, 2, 7)",
        2 => " AND NOT worker = 3",
        _ => "",
    };
    format!("({}){more}", parts.join(one(dice, &[" AND ", " OR "])))
}

fn grouping(dice: &mut Dice, table: &str) -> String {
    let keys: &[&str] = match table {
        "sent" => &["worker", "cluster", "seq // 50", "worker % 2 = 0", "packet", "t_sent_ps // 100000"],
        _ => &["action", "reason", "worker", "node", "seq // 50", "worker % 2 = 0", "packet_in", "reason_code"],
    };
    let value = one(
        dice,
        &["worker", "seq", "packets", "times", "worker - seq", if table == "sent" { "reward" } else { "reason_code" }],
    );
    let value = match (value, table) {
        ("packets", "sent") => "packet",
        ("packets", _) => "packet_out",
        ("times", "sent") => "t_sent_ps",
        ("times", _) => "t_ps",
        (other, _) => other,
    };
    let texts = if table == "books" {
        ", AVG(CASE WHEN action = 'dropped' THEN 1.0 ELSE 0.0 END) AS f, COUNT(reason) AS g"
    } else {
        ""
    };
    let aggregates = format!(
        "COUNT(*) AS a, COUNT({value}) AS b, SUM({value}) AS c, MIN({value}) AS d, MAX({value}) + 1 AS e, AVG({value}) AS h, \
         SUM({value}) FILTER (WHERE worker > 2) AS i, COUNT(*) FILTER (WHERE seq < 100) AS j, SUM({value} * 0 + 1.5) AS k{texts}"
    );
    let aggregates =
        if below(dice, 4) > 0 { aggregates.replace(&format!(", SUM({value} * 0 + 1.5) AS k"), "") } else { aggregates };
    let having = one(dice, &["", " HAVING COUNT(*) > 20", " HAVING MIN(worker) < 2"]);
    let chosen: Vec<String> =
        (0..below(dice, 3)).map(|key| format!("{} AS k{key}", keys[(below(dice, 20) + key) % keys.len()])).collect();
    let names: Vec<String> = (1..=chosen.len()).map(|place| place.to_string()).collect();
    let of = predicate(dice, table);
    match chosen.is_empty() {
        true => format!("SELECT {aggregates} FROM {table} WHERE {of}"),
        false => format!(
            "SELECT {}, {aggregates} FROM {table} WHERE {of} GROUP BY {}{having}",
            chosen.join(", "),
            names.join(", ")
        ),
    }
}

#[test]
fn answers_are_those_of_polars_over_all_rows() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let (mut dice, mut answered) = (Dice::new(1), 0);
    for round in 0..150 {
        let table = ["sent", "books"][round % 2];
        let columns = if table == "sent" { OF_SENT } else { "*" };
        answered +=
            i32::from(whole.compare(&format!("SELECT {columns} FROM {table} WHERE {}", predicate(&mut dice, table))));
        answered += i32::from(whole.compare(&grouping(&mut dice, table)));
    }
    // Sums of packet ids are refused.
    assert!(answered > 250, "{answered} of 300 were answered");
    for sql in [
        "SELECT COUNT(*) AS n FROM sent",
        "SELECT COUNT(*) AS n FROM (SELECT seq, worker FROM sent WHERE worker = 2) x WHERE seq < 30",
        "SELECT worker, MIN(n) AS least FROM (SELECT worker, seq, COUNT(*) AS n FROM sent GROUP BY worker, seq) x GROUP BY worker",
        "SELECT s.worker, s.n, b.n AS m FROM (SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker) s \
         JOIN (SELECT worker, COUNT(*) AS n FROM books GROUP BY worker) b ON s.worker = b.worker",
        "SELECT COUNT(*) AS c FROM (SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker LIMIT 3) x",
        "SELECT COUNT(*) AS c FROM (SELECT DISTINCT worker FROM (SELECT worker, action, COUNT(*) AS n FROM books GROUP BY worker, action) x) y",
        "SELECT worker, n FROM (SELECT worker, COUNT(*) AS n, MAX(seq) AS m FROM sent GROUP BY worker) x",
        "WITH x AS (SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker), y AS (SELECT worker, COUNT(*) AS n FROM books GROUP BY worker) \
         SELECT x.worker, y.n FROM x JOIN y ON x.worker = y.worker",
        "WITH x AS (SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker), y AS (SELECT worker, COUNT(*) AS n FROM books GROUP BY worker) \
         SELECT AVG(y.n) AS m FROM x JOIN y ON x.worker = y.worker",
        "SELECT MAX(n) AS m FROM (SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker) x WHERE worker > 1",
        "SELECT action, COUNT(DISTINCT worker) AS n, MEDIAN(seq) AS m FROM books GROUP BY action",
        "SELECT SUM(t_gen_ps * 100000000000) AS x FROM sent",
        "SELECT TOTAL(t_gen_ps * 100000000000) AS x FROM sent",
        "SELECT worker, SUM(t_gen_ps * 100000000000) AS x FROM sent GROUP BY worker",
        "SELECT worker, MAX(reward) AS x FROM sent WHERE seq > 100000 GROUP BY worker",
        "SELECT MAX(reward) AS x, SUM(seq) AS y, COUNT(*) AS n FROM sent WHERE seq > 100000",
        "SELECT action, COUNT(*) AS n FROM books GROUP BY action ORDER BY n DESC LIMIT 2",
        "SELECT action, COUNT(*) AS n FROM books WHERE action = 'merged' OR worker = 2 GROUP BY action",
        "SELECT COUNT(*) FILTER (WHERE action = 'merged') AS n FROM books WHERE action = 'merged' OR worker = 2",
        "SELECT SUM(CASE WHEN action = 'dropped' THEN 1 ELSE 0 END) AS n, MAX(CASE WHEN worker = 2 THEN 2 ELSE 1 END) AS m FROM books",
        "SELECT node, AVG(CASE WHEN action = 'dropped' THEN 1 END) AS n, MIN(CASE WHEN worker = 2 THEN 0.5 ELSE 1.5 END) AS m FROM books GROUP BY node",
        "SELECT node, SUM(action = 'dropped') - SUM(action <> 'dropped') AS n FROM books GROUP BY node",
        "SELECT SUM(worker = 2) - 1000000 AS n, MAX(CASE WHEN worker = 2 THEN 50000 ELSE 0 END) * 100000 AS m FROM books",
        "SELECT worker, SUM(seq) / COUNT(*) / 49 AS x, AVG(seq * 49 / 49) AS y, SUM(seq) % 49.0 AS z FROM sent GROUP BY worker",
        "SELECT COUNT(*) AS n, SUM(seq / 49) / 1000 AS s FROM sent WHERE seq * 49 / 49 = 7 OR FLOOR(seq / 103) = 1",
        "SELECT action, reason, seq FROM books WHERE reason = 'queue_full' OR action = 'merged'",
        "SELECT s.seq, cluster FROM sent s JOIN (SELECT worker, cluster FROM sent WHERE seq = 7) t USING (worker, cluster)",
        "SELECT a.seq, b.seq AS other, b.t_ps FROM sent a JOIN books b ON a.packet = b.packet_in WHERE a.worker = 2 AND a.seq < 90",
        "SELECT a.seq, b.t_ps FROM sent a LEFT JOIN books b ON a.packet = b.packet_out WHERE a.worker = 2 AND a.seq < 90",
        "SELECT a.seq, b.t_ps FROM (SELECT packet, seq FROM sent WHERE worker < 2) a JOIN books b ON b.packet_in = a.packet",
        "SELECT a.seq, COUNT(*) AS n FROM sent a JOIN books b ON a.packet = b.packet_in WHERE a.seq IN (3, 4) AND b.node = 1 GROUP BY a.seq",
        "SELECT a.seq, b.t_ps FROM sent a RIGHT JOIN books b ON a.packet = b.packet_in WHERE a.seq < 5",
    ] {
        assert_eq!(whole.compare(sql), !sql.contains("100000000000"), "{sql}");
    }
}

#[test]
fn rows_without_a_value_have_ranks_before_all_others() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let answer = |sql: &str| rows(&whole.database.query(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0);
    for key in ["reason", "b.reason", "reason DESC", "reason_code + 1", "(CAST(reason_code AS DOUBLE)) DESC"] {
        for (partition, groups) in [("", "reason"), ("PARTITION BY node ", "node, reason")] {
            let window = format!("OVER ({partition}ORDER BY {key})");
            let bounds = |function: &str, last: &str| {
                answer(&format!(
                    "SELECT {groups}, MIN(n) AS a, {last}(n) AS b FROM \
                     (SELECT node, reason, {function}() {window} AS n FROM books b) x GROUP BY {groups}"
                ))
            };
            assert_eq!(bounds("RANK", "MAX"), bounds("ROW_NUMBER", "MIN"), "{window}");
        }
        let sql = format!("SELECT COUNT(n) AS n FROM (SELECT DENSE_RANK() OVER (ORDER BY {key}) AS n FROM books b) x");
        assert_eq!(answer(&sql), [ROWS.to_string()], "{key}");
    }
}

#[test]
fn windows_of_all_rows_have_a_row_for_each_beside_functions_of_rows() {
    let folder = run();
    let whole = Whole::of(folder.path());
    for sql in ["ABS(seq), SUM(bytes) OVER () AS s", "COALESCE(reward, 0) - AVG(reward) OVER () AS d"] {
        let answer = whole.database.query(&format!("SELECT {sql} FROM sent"));
        assert_eq!(answer.unwrap_or_else(|fault| panic!("{sql}: {fault}")).0.height(), ROWS, "{sql}");
    }
}

#[test]
fn a_query_of_aggregates_is_one_row_also_if_none_of_its_columns_is_used() {
    let folder = run();
    let whole = Whole::of(folder.path());
    for (from, expected) in [
        ("(SELECT MEDIAN(seq) AS v FROM sent) q", 1),
        ("(SELECT MEDIAN(seq) AS v FROM sent WHERE seq > 100000) q", 1),
        ("(SELECT SUM(seq) AS v FROM sent) q", 1),
        ("(SELECT COUNT(DISTINCT worker) AS v FROM sent) q CROSS JOIN sent s", ROWS),
        ("sent s CROSS JOIN (SELECT MAX(b.seq) AS v FROM books b JOIN sent r ON b.packet_in = r.packet) q", ROWS),
        ("(SELECT MAX(seq) AS v FROM sent UNION ALL SELECT MAX(node) AS v FROM books) q", 2),
        ("(SELECT AVG(x) AS v FROM (SELECT seq, COUNT(*) AS x FROM books GROUP BY seq) a) q", 1),
    ] {
        let sql = format!("SELECT COUNT(*) AS n FROM {from}");
        let answer = whole.database.query(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0;
        assert_eq!(rows(&answer), [expected.to_string()], "{sql}");
    }
}

#[test]
fn ordered_aggregates_are_one_row() {
    let folder = run();
    let whole = Whole::of(folder.path());
    for sql in [
        "SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent ORDER BY v",
        "SELECT COUNT(*) AS n, CORR(seq, worker) AS v FROM sent ORDER BY n",
        "SELECT v FROM (SELECT QUANTILE_CONT(seq, 0.5) AS v FROM sent ORDER BY v) q",
    ] {
        let answer = whole.database.query(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0;
        assert_eq!(answer.height(), 1, "{sql}");
    }
}

#[test]
fn a_comparison_without_a_value_is_neither_true_nor_false() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let count = |condition: &str| {
        let sql = format!("SELECT COUNT(*) AS n FROM sent WHERE {condition}");
        let answer = whole.database.query(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0;
        rows(&answer)[0].parse::<usize>().unwrap()
    };
    let (yes, no, empty) = (count("reward > 0"), count("reward <= 0"), count("reward IS NULL"));
    assert_eq!((yes + no + empty, empty), (ROWS, ROWS / 5));
    for (condition, expected) in [
        ("(reward > 0) IS TRUE", yes),
        ("(reward > 0) IS NOT TRUE", no + empty),
        ("NOT ((reward > 0) IS TRUE)", no + empty),
        ("(reward > 0) IS FALSE", no),
        ("(reward > 0) IS NOT FALSE", yes + empty),
        ("(reward > 0) IS UNKNOWN", empty),
        ("(reward > 0) IS NOT UNKNOWN", yes + no),
    ] {
        assert_eq!(count(condition), expected, "{condition}");
    }
}

#[test]
fn packets_are_compared_with_other_integers_by_cast() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let query = |right: &str| {
        let sql = format!("SELECT COUNT(*) AS n FROM sent a JOIN sent b ON a.packet = {right}");
        whole.database.query(&sql)
    };
    let fault = query("b.seq").unwrap_err().to_string();
    assert!(fault.contains("CAST(x AS UBIGINT)"), "{fault}");
    // Packets of worker 0 have the numbers of their updates.
    assert_ne!(rows(&query("CAST(b.seq AS UBIGINT)").unwrap().0), ["0"]);
}

#[test]
fn having_chooses_groups_by_their_keys() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let query = |sql: &str| whole.database.query(sql).map(|answer| rows(&answer.0));
    for (having, condition) in [
        ("worker > 3", "worker > 3"),
        ("worker IN (1, 2) AND node < 2", "worker IN (1, 2) AND node < 2"),
        ("reason IS NULL", "reason IS NULL"),
        ("reason = 'queue_full'", "reason = 'queue_full'"),
    ] {
        let grouped = "SELECT worker, node, reason, COUNT(*) AS n FROM books";
        let keys = "GROUP BY worker, node, reason";
        let expected = query(&format!("{grouped} WHERE {condition} {keys} HAVING COUNT(*) > 2")).unwrap();
        let found = query(&format!("{grouped} {keys} HAVING {having} AND COUNT(*) > 2"));
        assert_eq!(found.unwrap_or_else(|fault| panic!("{having}: {fault}")), expected, "{having}");
        assert!(!expected.is_empty(), "{having}");
    }
    let fault = query("SELECT worker, MAX(seq) AS m FROM sent GROUP BY worker HAVING seq > 3").unwrap_err().to_string();
    assert!(fault.contains("into WHERE"), "{fault}");
}

#[test]
fn a_renamed_column_of_a_later_table_is_grouped_by() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let query = |columns: &str, key: &str| {
        let sql = format!(
            "SELECT {columns}, COUNT(*) AS n FROM sent a JOIN books b ON a.packet = b.packet_in GROUP BY {key}"
        );
        rows(&whole.database.query(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0)
    };
    assert_eq!(query("b.worker AS x", "b.worker"), query("b.worker", "b.worker"));
    assert_eq!(query("b.worker AS x", "b.worker HAVING b.worker < 2").len(), 2);
}

#[test]
fn a_subquery_beside_a_join_has_columns_of_its_own_table() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let query = |condition: &str| {
        let from = "sent s JOIN books b ON s.packet = b.packet_in";
        let sql = format!("SELECT COUNT(*) AS n FROM {from} WHERE {condition}");
        rows(&whole.database.query(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0)
    };
    let some = query("s.seq IN (SELECT seq FROM sent WHERE worker = 1 AND bytes > 0)");
    assert_eq!(some, query("s.seq IN (SELECT x.seq FROM sent x WHERE x.worker = 1 AND x.bytes > 0)"));
    assert!(some != ["0"] && some != query("s.seq >= 0"), "{some:?}");
}

#[test]
fn a_list_may_have_whole_numbers_and_decimals() {
    let folder = run();
    let whole = Whole::of(folder.path());
    let answer = |condition: &str| {
        let sql = format!("SELECT seq, worker FROM sent WHERE {condition}");
        rows(&whole.database.query(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0)
    };
    let either = answer("reward = -99 OR reward = 0.5 OR reward = 98");
    assert!(!either.is_empty());
    for list in ["-99, 0.5, 98", "0.5, -99, 98", "98, -99, 5e-1"] {
        assert_eq!(answer(&format!("reward IN ({list})")), either, "{list}");
    }
    assert_eq!(answer("worker IN (1, -0.5, 2)"), answer("worker IN (1, 2)"));
    let all = answer("reward IS NOT NULL").len();
    assert_eq!(answer("reward NOT IN (-99, 0.5, 98)").len(), all - either.len());
    // As decimals, numbers from there are equal to others.
    assert_eq!(answer("worker IN (1, 9007199254740991, 0.5)"), answer("worker = 1"));
    for list in ["9007199254740993, 0.5", "0.5, -9007199254740992", "0.5, 99999999999999999999"] {
        let fault =
            whole.database.query(&format!("SELECT seq FROM sent WHERE packet IN ({list})")).unwrap_err().to_string();
        assert!(fault.contains("below 2^53"), "{list}: {fault}");
    }
}

/// Returns six packets, whose headers have the time of arrival as without ids on the wire.
fn six() -> Story {
    let mut story = Story::new();
    for seq in 0..6u32 {
        let t = i64::from(seq) * 1000;
        story.sent_seq(0, seq, t, Some(t + 5), 0).received_seq(t + 700, 0, seq, t + 700, 1);
    }
    story
}

/// Names all of these packets but the fourth one by their contents.
fn write_names(folder: &Path) {
    let name = |seq: u32| Name {
        t_recv: i64::from(seq) * 1000 + 700,
        packet: (seq != 3).then_some(PacketId::new(0, seq, 0)),
        count: u16::from(seq != 3),
    };
    let named: Vec<Name> = (0..6).map(name).collect();
    let batch = RecordBatch::try_new(Name::schema(), Name::arrays(&named)).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    std::fs::write(folder.join("names.parquet"), file).unwrap();
}

#[test]
fn generation_times_of_packets_without_ids_are_those_of_the_named_packets() {
    let (story, folder) = (six(), tempfile::tempdir().unwrap());
    story.write(folder.path());
    let answer = |sql: &str| {
        let options = Options { no_verify: true, memory: 1 << 30, process: 1 << 30 };
        let database = Database::open(folder.path(), options).unwrap();
        rows(&database.query(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0)
    };
    let ages = "SELECT MIN(t_recv_ps - newest_gen_ps) AS least, MAX(t_recv_ps - newest_gen_ps) AS most FROM received";
    assert_eq!(answer(ages), ["0 0"]);
    // Without ids, and not settled.
    let mut manifest = story.manifest();
    manifest.incidents.notes.push(Note::Headless {});
    story.write_with(folder.path(), &manifest);
    in_groups(&folder.path().join("received.parquet"), 2);
    assert_eq!(answer("SELECT COUNT(newest_gen_ps) AS n FROM received"), ["0"]);
    write_names(folder.path());
    assert_eq!(answer(ages), ["700 700"]);
    let known = "SELECT newest_gen_ps FROM received WHERE newest_gen_ps IS NOT NULL";
    assert_eq!(answer(known), ["0", "1000", "2000", "4000", "5000"]);
    assert_eq!(answer("SELECT t_recv_ps FROM received WHERE newest_gen_ps IS NULL"), ["3700"]);
    // The row group is kept although all of its times in the file are later.
    assert_eq!(answer("SELECT t_recv_ps FROM received WHERE newest_gen_ps < 700"), ["700"]);
    assert_eq!(answer("SELECT t_recv_ps FROM received WHERE newest_gen_ps = 700"), Vec::<String>::new());
    let whole = "SELECT COUNT(*) AS n, SUM(bytes) AS bytes FROM received";
    assert_eq!(answer(whole), ["6 1536"]);
}

#[test]
fn only_generation_times_need_the_files_that_name_packets() {
    let (story, folder) = (six(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(format!("{name}.parquet"));
    story.write(folder.path());
    write_names(folder.path());
    let mut manifest = story.manifest();
    manifest.incidents.notes.push(Note::Headless {});
    for name in ["sent", "received", "names"] {
        manifest.files.insert(format!("{name}.parquet"), file_digest(&path(name)).unwrap());
    }
    story.write_with(folder.path(), &manifest);
    let query = |sql: &str| {
        let options = Options { no_verify: false, memory: 1 << 30, process: 1 << 30 };
        Database::open(folder.path(), options)?.query(sql).map(|answer| rows(&answer.0))
    };
    let times =
        ["SELECT MAX(newest_gen_ps) AS m FROM received", "SELECT t_recv_ps FROM received WHERE newest_gen_ps > 4500"];
    let whole = "SELECT COUNT(*) AS n, MAX(t_recv_ps) AS m FROM received";
    assert_eq!(query(times[0]).unwrap(), ["5000"]);
    for name in ["sent", "names"] {
        let file = std::fs::read(path(name)).unwrap();
        std::fs::write(path(name), [file.as_slice(), &[0]].concat()).unwrap();
        for sql in times {
            let fault = query(sql).unwrap_err().to_string();
            // Its content, or that it ends with something else.
            assert!(fault.contains(&format!("{name}.parquet: it")), "{fault}");
        }
        assert_eq!(query(whole).unwrap(), ["6 5700"], "{name}");
        std::fs::write(path(name), file).unwrap();
    }
    std::fs::remove_file(path("sent")).unwrap();
    assert!(query(times[0]).unwrap_err().to_string().contains("sent.parquet: it is missing"));
    assert_eq!(query(whole).unwrap(), ["6 5700"]);
}

/// Each thread reads one run after the other.
#[test]
fn generation_times_are_held_while_their_run_is_read() {
    let folder = tempfile::tempdir().unwrap();
    six().write(folder.path());
    write_names(folder.path());
    in_groups(&folder.path().join("received.parquet"), 2);
    let both = |memory: u64| {
        let own = scan(folder.path(), "received");
        let stream = || Stream::new(folder.path().join("received.parquet"), "received");
        let part = || (None, Part::Stream(stream().named_in(folder.path().to_owned(), true)));
        Scan { parts: vec![part(), part()], budget: Arc::new(Budget::new(memory)), ..own }
    };
    let read = |scan: &Scan, column: &str| {
        let (schema, with_columns) = (Arc::new(Schema::default()), Some(Arc::from([PlSmallStr::from_str(column)])));
        let args = AnonymousScanArgs { n_rows: None, with_columns, schema, output_schema: None, predicate: None };
        scan.scanned(args, None)
    };
    // Rows have 8 bytes, and transmissions 64 while times are read.
    let needed = 2 * 6 * 8 + RAYON.current_num_threads().min(2) as u64 * 6 * 64;
    let fault = read(&both(needed - 1), "newest_gen_ps").unwrap_err().to_string();
    assert!(fault.contains("needs about"), "{fault}");
    assert!(read(&both(needed), "newest_gen_ps").is_ok());
    let twice = both(1 << 20);
    let empty = || read(&twice, "newest_gen_ps").unwrap().column("newest_gen_ps").unwrap().null_count();
    assert_eq!(empty(), 2);
    // Without names none is known, and those of before are not held.
    std::fs::remove_file(folder.path().join("names.parquet")).unwrap();
    assert_eq!(empty(), 12);
    assert_eq!(read(&both(400), "t_recv_ps").unwrap().height(), 12);
}

fn scan(folder: &Path, name: &'static str) -> Scan {
    let table = of_runs(&[]).into_iter().find(|table| table.name == name).unwrap();
    let parts = vec![(None, Part::Stream(Stream::new(folder.join(format!("{name}.parquet")), name)))];
    let (budget, fault) = (Arc::new(Budget::new(1 << 30)), Fault::default());
    Scan { table, parts, budget, fault, doing: Arc::new(Mutex::new(String::new())) }
}

/// Returns the number of row groups of `sent` that are read for a predicate.
fn groups_read(folder: &Path, predicate: Expr) -> usize {
    let scan = scan(folder, "sent");
    let choice = Choice::of(&scan.table, Some(predicate));
    let (_, Part::Stream(stream)) = &scan.parts[0] else { panic!("a stream") };
    let file = stream.file().unwrap();
    assert_eq!(file.footer().num_row_groups(), ROWS / GROUP);
    (0..ROWS / GROUP).filter(|group| choice.may_keep(&scan.table, file, *group)).count()
}

#[test]
fn row_groups_without_rows_are_not_read() {
    let folder = run();
    let read = |predicate| groups_read(folder.path(), predicate);
    // Each group has 20 sequence numbers.
    assert_eq!(read(col("seq").lt(lit(20))), 1);
    assert_eq!(read(lit(19).lt(col("seq"))), ROWS / GROUP - 1);
    assert_eq!(read(col("seq").eq(lit(25)).or(col("seq").eq(lit(299)))), 2);
    assert_eq!(read(col("packet").eq(lit(PacketId::new(3, 45, 0).0))), 1);
    assert_eq!(read(col("worker").gt(lit(8)).and(col("t_gen_ps").gt(lit(0)))), 0);
    assert_eq!(read(col("t_gen_ps").lt(lit(-0.5))), 0);
    assert_eq!(read((col("seq") + lit(1)).lt(lit(1))), ROWS / GROUP);
}

#[test]
fn runs_that_the_statement_excludes_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    write_sweep(folder.path(), 1);
    // The pages are damaged, but not the footer, whose length is before the last four bytes.
    let path = folder.path().join("olaf-20-1/sent.parquet");
    let mut file = std::fs::read(&path).unwrap();
    let end = file.len() - 8;
    let footer = u32::from_le_bytes(file[end..end + 4].try_into().unwrap());
    file[4..end - footer as usize].fill(0);
    std::fs::write(&path, file).unwrap();
    let database =
        Database::open(folder.path(), Options { no_verify: true, memory: 1 << 30, process: 1 << 30 }).unwrap();
    for of in ["SUM(seq) AS s", "seq", "worker, SUM(seq) AS s"] {
        let by = if of.starts_with("worker") { " GROUP BY worker" } else { "" };
        let query = |chosen: &str| database.query(&format!("SELECT {of} FROM sent WHERE {chosen}{by}"));
        for chosen in
            ["run = 'fifo-20-1'", "worker >= 0 AND run <> 'olaf-20-1'", "run = 'fifo-20-1' OR run = 'olaf-40-1'"]
        {
            assert!(query(chosen).unwrap().0.height() > 0, "{of} of {chosen}");
        }
        for chosen in ["run = 'olaf-20-1'", "seq = 1", "run = 'fifo-20-1' OR seq = 1"] {
            assert!(query(chosen).is_err(), "{of} of {chosen}");
        }
    }
}

#[test]
fn groupings_that_decompose_are_gathered_and_others_are_not() {
    let folder = run();
    let gathered = |sql: &str| {
        let mut context = SQLContext::new().with_function_registry(Functions::all());
        context.register("books", scan(folder.path(), "books").lazy().unwrap());
        let statement = Statement::parse(sql, &of_runs(&[])).unwrap();
        in_batches(context.execute(&statement.guarded).unwrap().logical_plan).unwrap().1
    };
    for sql in [
        "SELECT action, reason, COUNT(*) AS n FROM books GROUP BY action, reason",
        "SELECT COALESCE(reason, 'none') AS reason, COUNT(*) AS n FROM books GROUP BY reason",
        "SELECT COUNT(*) AS n, SUM(seq) AS s FROM books WHERE action = 'merged'",
        "SELECT node, AVG(seq) FILTER (WHERE worker = 1) AS s FROM books GROUP BY node HAVING COUNT(*) > 2 ORDER BY s LIMIT 3",
        "SELECT w, n FROM (SELECT worker % 3 AS w, COUNT(reason) AS n FROM books GROUP BY w) x WHERE n > 1",
        "SELECT AVG(CASE WHEN action = 'dropped' THEN 1.0 ELSE 0.0 END) AS f FROM books",
        "SELECT SUM(CASE WHEN action = 'dropped' THEN 1 ELSE 0 END) AS n FROM books",
    ] {
        assert!(gathered(sql), "{sql}");
    }
    for sql in [
        "SELECT seq FROM books",
        "SELECT action, MEDIAN(seq) AS m FROM books GROUP BY action",
        "SELECT MAX(action) AS m FROM books",
        "SELECT COUNT(DISTINCT worker) AS n FROM books",
        "SELECT a.node, COUNT(*) AS n FROM books a JOIN books b ON a.packet_in = b.packet_in GROUP BY a.node",
    ] {
        assert!(!gathered(sql), "{sql}");
    }
}

#[test]
fn rows_that_no_join_keeps_are_left_out() {
    let folder = run();
    let frame = |keys| {
        let (scan, schema) = (scan(folder.path(), "sent"), Arc::new(Schema::default()));
        let with_columns = Some(Arc::from([PlSmallStr::from("packet")]));
        let args = AnonymousScanArgs { n_rows: None, with_columns, schema, output_schema: None, predicate: None };
        scan.scanned(args, keys).unwrap()
    };
    let all = frame(None);
    assert_eq!(all.height(), ROWS);
    let keys = Arc::new(OnceLock::new());
    assert_eq!(frame(Some(("packet".into(), keys.clone()))).height(), ROWS);
    let few = all.column("packet").unwrap().slice(0, 10);
    assert!(keys.set(Keys::of(&few).unwrap()).is_ok());
    let left = frame(Some(("packet".into(), keys))).height();
    assert!((10..ROWS / 2).contains(&left), "{left}");
}

#[test]
fn groups_are_held_once_and_not_once_per_row_group() {
    let (workers, times) = (5000u32, 200u32);
    let mut story = Story::new();
    for seq in 0..times {
        for worker in 0..workers {
            story.sent_seq(worker, seq, i64::from(seq), Some(i64::from(seq)), 0);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    story.write(folder.path());
    in_groups(&folder.path().join("sent.parquet"), workers as usize);
    // Groups of one row group take half a megabyte. Threads are ahead of the slowest one by far less than a hundred.
    let options = Options { no_verify: true, memory: 64 << 20, process: 4 << 30 };
    let database = Database::open(folder.path(), options).unwrap();
    let answer = database.query("SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker").unwrap().0;
    assert_eq!(answer.height(), workers as usize);
    assert!(rows(&answer).iter().all(|row| row.ends_with(" 200")));
}
