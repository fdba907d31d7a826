//! Executes statements over small tables, and compares their rows with those of SQL.

use polars::prelude::*;
use polars::sql::SQLContext;

use crate::QueryAnswer;
use crate::exact::Functions;
use crate::nested::execute;
use crate::statement::Statement;
use crate::tables::{QueryTable, of_runs};

fn tables() -> [(&'static str, DataFrame); 3] {
    let sent = df!(
        "worker" => [0i64, 0, 1, 1, 2, 2],
        "seq" => [0i64, 4, 1, 3, 2, 3],
        "t_gen_ps" => [10i64, 20, 30, 40, 50, 60],
        "cluster" => [0i64, 0, 0, 1, 1, 1]
    );
    let books = df!("worker" => [0i64, 1, 2], "seq" => [4i64, 3, 0], "node" => [1i64, 0, 2], "t_ps" => [7i64, 8, 9]);
    let received = df!(
        "sum_ok_code" => [Some(0i64), Some(1), Some(0), None],
        "last" => [Some(true), Some(false), None, Some(true)],
        "t_recv_ps" => [1i64, 2, 3, 4]
    );
    [("sent", sent.unwrap()), ("books", books.unwrap()), ("received", received.unwrap())]
}

/// Returns the rows of an answer in their order; an empty cell is `-`.
fn rows(sql: &str) -> Vec<String> {
    let statement = Statement::parse(sql, &of_runs(&[])).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    let mut context = SQLContext::new().with_function_registry(Functions::all());
    for (name, frame) in tables() {
        context.register(name, frame.lazy());
    }
    let collected = execute(&mut context, &statement.guarded).and_then(LazyFrame::collect);
    let frame = collected.unwrap_or_else(|fault| panic!("{sql}: {fault}, in {}", statement.guarded));
    let frame = QueryAnswer::of(frame).unwrap_or_else(|fault| panic!("{sql}: {fault}")).0;
    let cell = |row: usize, column: &Column| match column.get(row).unwrap() {
        AnyValue::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let line = |row| frame.columns().iter().map(|column| cell(row, column)).collect::<Vec<_>>().join(" ");
    (0..frame.height()).map(line).collect()
}

/// Compares rows, which are separated by commas here.
pub(crate) fn answers(of: &[(&str, &str)]) {
    for (sql, expected) in of {
        assert_eq!(rows(sql).join(", "), *expected, "{sql}");
    }
}

pub(crate) fn tables_of_runs() -> Vec<QueryTable> {
    of_runs(&[])
}

pub(crate) fn refusals(of: &[(&str, &str)]) {
    for (sql, says) in of {
        let refused = match Statement::parse(sql, &of_runs(&[])) {
            Ok(statement) => panic!("{sql} was taken for {}", statement.guarded),
            Err(fault) => fault.to_string(),
        };
        assert!(refused.contains(says), "{sql}: {refused}");
    }
}

/// Polars would compute it of the answer's columns, that is, twice.
#[test]
fn a_selected_expression_orders_by_its_value() {
    answers(&[
        ("SELECT seq * -1, t_gen_ps FROM sent ORDER BY seq * -1, t_gen_ps LIMIT 3", "-4 20, -3 40, -3 60"),
        ("SELECT t_gen_ps - seq, seq FROM sent ORDER BY t_gen_ps - seq DESC, seq LIMIT 2", "57 3, 48 2"),
        ("SELECT ABS(seq - 2), t_gen_ps FROM sent ORDER BY ABS(seq - 2), t_gen_ps LIMIT 3", "0 50, 1 30, 1 40"),
        (
            "SELECT worker * -1 AS x, COUNT(*) AS n FROM sent GROUP BY worker * -1 ORDER BY worker * -1",
            "-2 2, -1 2, 0 2",
        ),
        (
            "SELECT last IS NOT TRUE, t_recv_ps FROM received ORDER BY last IS NOT TRUE, t_recv_ps",
            "false 1, false 4, true 2, true 3",
        ),
        ("WITH a AS (SELECT seq * -1 FROM sent ORDER BY seq * -1 NULLS LAST LIMIT 2) SELECT * FROM a", "-4, -3"),
        ("SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker ORDER BY count(*), worker DESC LIMIT 1", "2 2"),
        ("SELECT seq * -1 AS x, t_gen_ps FROM sent ORDER BY (seq * -1), t_gen_ps LIMIT 1", "-4 20"),
        ("SELECT ABS(seq - 4), t_gen_ps FROM sent ORDER BY abs(seq - 4), t_gen_ps LIMIT 2", "0 20, 1 40"),
        ("SELECT seq AS x, seq * 3 FROM sent ORDER BY seq LIMIT 2", "0 0, 1 3"),
        // A name is that of the answer.
        ("SELECT t_gen_ps AS x, seq * -1 AS worker FROM sent ORDER BY worker LIMIT 1", "20 -4"),
        // Positions behind a wildcard are not known.
        (
            "SELECT q.*, COUNT(*) AS n FROM (SELECT worker, cluster FROM sent) q GROUP BY worker, cluster ORDER BY n DESC, worker, cluster",
            "0 0 2, 2 1 2, 1 0 1, 1 1 1",
        ),
    ]);
    refusals(&[(
        "SELECT q.*, COUNT(*) AS n FROM (SELECT worker, cluster FROM sent) q GROUP BY worker, cluster ORDER BY COUNT(*)",
        "select it with a name, and order by that",
    )]);
}

#[test]
fn columns_of_group_by_order_under_any_name() {
    let joined = "FROM sent a JOIN books b ON a.worker = b.worker";
    answers(&[
        (
            format!("SELECT a.seq AS x, COUNT(*) AS n {joined} GROUP BY a.seq ORDER BY a.seq").as_str(),
            "0 1, 1 1, 2 1, 3 2, 4 1",
        ),
        (format!("SELECT b.seq AS x, COUNT(*) AS n {joined} GROUP BY b.seq ORDER BY b.seq").as_str(), "0 2, 3 2, 4 2"),
        (format!("SELECT b.seq, COUNT(*) AS n {joined} GROUP BY b.seq ORDER BY b.seq").as_str(), "0 2, 3 2, 4 2"),
        ("SELECT sent.seq AS x, COUNT(*) AS n FROM sent GROUP BY sent.seq ORDER BY seq LIMIT 2", "0 1, 1 1"),
        ("SELECT sent.seq AS x, COUNT(*) AS n FROM sent GROUP BY sent.seq ORDER BY sent.seq LIMIT 2", "0 1, 1 1"),
    ]);
}

/// Polars names expressions after a column, and would order by them.
#[test]
fn order_by_a_column_is_not_by_another_one_of_its_name() {
    let joined = "FROM sent a JOIN books b ON a.worker = b.worker";
    let another = "\"seq\" of the answer is another column: select a.seq AS x";
    refusals(&[
        (format!("SELECT b.* {joined} ORDER BY a.seq, b.t_ps").as_str(), another),
        (
            format!("SELECT q.*, b.node {joined} JOIN (SELECT seq FROM sent) q ON q.seq = a.seq ORDER BY a.seq")
                .as_str(),
            another,
        ),
        (
            format!("SELECT a.t_gen_ps, b.seq + 1 {joined} ORDER BY a.seq").as_str(),
            "ORDER BY a.seq: b.seq + 1 of the answer would be taken for it: name that by AS",
        ),
        ("SELECT ABS(seq - 2), t_gen_ps FROM sent ORDER BY sent.seq", "name that by AS"),
        ("SELECT worker * -1, COUNT(*) FROM sent GROUP BY worker ORDER BY worker", "name that by AS"),
        ("SELECT CAST(seq AS DOUBLE) * -1 FROM sent ORDER BY seq", "name that by AS"),
    ]);
    answers(&[
        (format!("SELECT b.*, a.seq AS x {joined} ORDER BY a.t_gen_ps LIMIT 2").as_str(), "0 4 1 7 0, 0 4 1 7 4"),
        (format!("SELECT b.*, a.seq AS x {joined} ORDER BY b.seq, x LIMIT 2").as_str(), "2 0 2 9 2, 2 0 2 9 3"),
        ("SELECT worker, MAX(seq - worker) FROM sent GROUP BY worker ORDER BY worker DESC", "2 1, 1 2, 0 4"),
        ("SELECT 5 - seq, worker FROM sent ORDER BY seq LIMIT 2", "5 0, 4 1"),
        ("SELECT seq % 2 AS x, worker FROM sent ORDER BY seq LIMIT 2", "0 0, 1 1"),
        ("SELECT worker * -1 AS x, COUNT(*) AS n FROM sent GROUP BY worker ORDER BY worker", "0 2, -1 2, -2 2"),
    ]);
}

/// Polars names windows after their argument, and CASE after its first result.
#[test]
fn windows_and_cases_without_a_name_are_no_columns_of_their_order_and_conditions() {
    answers(&[
        ("SELECT seq, ROW_NUMBER() OVER (ORDER BY t_gen_ps) FROM sent ORDER BY t_gen_ps LIMIT 3", "0 1, 4 2, 1 3"),
        ("SELECT SUM(worker) OVER (PARTITION BY seq), t_gen_ps FROM sent ORDER BY seq, t_gen_ps LIMIT 2", "0 10, 1 30"),
        ("SELECT LAG(seq) OVER (ORDER BY t_gen_ps), worker FROM sent ORDER BY t_gen_ps LIMIT 3", "- 0, 0 0, 4 1"),
        (
            "SELECT CASE WHEN seq > 2 THEN 1 ELSE 0 END, t_gen_ps FROM sent ORDER BY seq DESC, t_gen_ps LIMIT 4",
            "1 20, 1 40, 1 60, 0 50",
        ),
        (
            "SELECT CASE WHEN seq > 2 THEN 1 ELSE 0 END AS c, QUANTILE_DISC(seq, 0.5) AS m FROM sent \
             GROUP BY CASE WHEN seq > 2 THEN 1 ELSE 0 END ORDER BY c",
            "0 1.0, 1 3.0",
        ),
    ]);
    let says = "name that by AS";
    refusals(&[
        ("SELECT CASE WHEN worker > 1 THEN seq ELSE 0 END, t_gen_ps FROM sent ORDER BY seq", says),
        ("SELECT SUM(seq) OVER (PARTITION BY worker), t_gen_ps FROM sent ORDER BY seq", says),
        ("SELECT RANK() OVER (ORDER BY seq), t_gen_ps FROM sent ORDER BY seq", says),
        ("SELECT COUNT(*) FILTER (WHERE worker > 1) FROM sent GROUP BY worker ORDER BY worker", says),
    ]);
}

/// Polars would take the key for the column, and compute it twice.
#[test]
fn expressions_of_group_by_order_by_name() {
    let says = "GROUP BY has an expression of it, which would be taken for it";
    let of = "COUNT(*) AS n, SUM(t_gen_ps) AS t FROM sent GROUP BY";
    refusals(&[
        (format!("SELECT {of} seq * -1 ORDER BY seq * -1 LIMIT 2").as_str(), says),
        (format!("SELECT {of} ABS(seq - 2) ORDER BY ABS(seq - 2)").as_str(), says),
        (format!("SELECT seq - 2 AS d, {of} seq - 2 ORDER BY ABS(seq - 2), d").as_str(), says),
        (format!("SELECT t_gen_ps // 10 AS d, {of} t_gen_ps // 10 ORDER BY t_gen_ps // 10 % 3, d").as_str(), says),
        (format!("SELECT worker % 2 AS x, {of} worker % 2 ORDER BY sent.worker").as_str(), says),
    ]);
    answers(&[
        ("SELECT seq - 2 AS d, COUNT(*) AS n FROM sent GROUP BY d ORDER BY ABS(d), d", "0 1, -1 1, 1 2, -2 1, 2 1"),
        ("SELECT seq, COUNT(*) AS n FROM sent GROUP BY seq ORDER BY ABS(seq - 2), seq", "2 1, 1 1, 3 2, 0 1, 4 1"),
        (format!("SELECT seq * -1 AS x, {of} seq * -1 ORDER BY seq * -1 LIMIT 2").as_str(), "-4 1 20, -3 2 100"),
    ]);
}

/// Polars would compute them of the keys of all groups.
#[test]
fn quantiles_of_keys_are_refused() {
    let says = "is of columns that GROUP BY has";
    refusals(&[
        ("SELECT cluster, QUANTILE_DISC(cluster, 0.5) AS v FROM sent GROUP BY cluster", says),
        ("SELECT worker, COALESCE(QUANTILE_CONT(seq, 0.5), 0) AS q FROM sent GROUP BY worker, seq", says),
        ("SELECT worker * -1 AS x, QUANTILE_DISC(worker, 0.5) AS v FROM sent GROUP BY worker * -1", says),
        ("SELECT seq % 2, QUANTILE_DISC(sent.seq, 0.5) AS v FROM sent GROUP BY 1", says),
        ("SELECT cluster, COVAR_POP(cluster, cluster) AS v FROM sent GROUP BY ALL", says),
        ("SELECT cluster AS x, CORR(cluster, cluster + 1) AS v FROM sent GROUP BY sent.cluster", says),
    ]);
    answers(&[
        (
            "SELECT worker, QUANTILE_DISC(seq, 0.5) AS v FROM sent GROUP BY worker ORDER BY worker",
            "0 0.0, 1 1.0, 2 2.0",
        ),
        ("SELECT seq % 2 AS x, QUANTILE_DISC(seq, 0.5) AS v FROM sent GROUP BY x ORDER BY x", "0 2.0, 1 3.0"),
        ("SELECT cluster AS x, QUANTILE_DISC(cluster, 0.5) AS v FROM sent GROUP BY 1 ORDER BY x", "0 0.0, 1 1.0"),
        ("SELECT cluster, MEDIAN(cluster) AS v FROM sent GROUP BY cluster ORDER BY cluster", "0 0.0, 1 1.0"),
    ]);
}

/// Polars would have the aggregates once for each row of the table, and not at all without rows.
#[test]
fn aggregates_in_a_subquery_of_in_are_one_row() {
    let none = "FROM books WHERE seq > 100";
    let count = "SELECT COUNT(*) AS n FROM received WHERE sum_ok_code";
    answers(&[
        (format!("{count} IN (SELECT COUNT(*) AS v {none})").as_str(), "2"),
        (format!("{count} IN (SELECT COALESCE(MAX(seq), 0) AS v {none})").as_str(), "2"),
        (format!("{count} IN (SELECT SUM(seq) - 6 AS v FROM books)").as_str(), "1"),
        (format!("{count} NOT IN (SELECT COUNT(*) AS v {none}) OR t_recv_ps = 1").as_str(), "2"),
    ]);
}

/// Polars orders each branch, and would take some aggregates for expressions of rows.
#[test]
fn ordered_branches_of_aggregates_are_one_row_each() {
    answers(&[
        (
            "SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent UNION ALL SELECT QUANTILE_DISC(node, 0.5) AS v FROM books ORDER BY v",
            "1.0, 2.0",
        ),
        (
            "SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent UNION ALL SELECT QUANTILE_DISC(node, 0.5) AS v FROM books \
             UNION ALL SELECT COVAR_SAMP(node, node) AS v FROM books ORDER BY v DESC",
            "2.0, 1.0, 1.0",
        ),
        ("SELECT MEDIAN(node) AS v FROM books EXCEPT SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent ORDER BY v", "1.0"),
    ]);
}

/// Polars would execute EXCEPT within another set operation as INTERSECT, or the other way round.
#[test]
fn set_operations_without_brackets_bind_as_in_sql() {
    let (sent, books, workers) =
        ("SELECT seq AS x FROM sent", "SELECT seq AS x FROM books", "SELECT worker AS x FROM sent");
    answers(&[
        (format!("{sent} EXCEPT {books} UNION ALL {workers} WHERE seq = 4 ORDER BY x").as_str(), "0, 1, 2"),
        (format!("{sent} EXCEPT {books} UNION {workers} WHERE seq = 4 ORDER BY x DESC LIMIT 2").as_str(), "2, 1"),
        // INTERSECT binds more than EXCEPT.
        (format!("{sent} EXCEPT {books} INTERSECT {workers} ORDER BY x").as_str(), "1, 2, 3, 4"),
        (format!("{sent} INTERSECT {books} EXCEPT {workers} ORDER BY x").as_str(), "3, 4"),
        (format!("{sent} EXCEPT {books} EXCEPT {workers} WHERE seq = 1").as_str(), "2"),
        (format!("{sent} EXCEPT {books} UNION {workers} WHERE seq = 4 EXCEPT {books} ORDER BY x").as_str(), "1, 2"),
        (format!("SELECT COUNT(*) AS n FROM ({sent} EXCEPT {books} UNION ALL {workers}) q").as_str(), "8"),
        (
            format!("{sent} WHERE seq / 2 > 0 EXCEPT {books} UNION {workers} WHERE seq / 2 = 2 ORDER BY x").as_str(),
            "0, 1, 2",
        ),
        ("SELECT 5 AS x FROM sent INTERSECT SELECT 5 AS x FROM books EXCEPT SELECT 4 AS x FROM sent", "5"),
    ]);
}

/// Polars would count one row.
#[test]
fn counts_of_constants_are_refused() {
    let says = "is of no column: write COUNT(*)";
    refusals(&[
        ("SELECT COUNT(*) FILTER (WHERE TRUE) AS n FROM sent", says),
        ("SELECT worker, COUNT(*) FILTER (WHERE 1 = 1) AS n FROM sent GROUP BY worker", says),
        ("SELECT COUNT(1) FILTER (WHERE 4 > 2) AS n FROM sent", says),
        ("SELECT COUNT(1 + 1) AS n FROM sent", says),
        ("SELECT COUNT(CASE WHEN TRUE THEN 1 END) AS n FROM sent", says),
        ("SELECT worker, STRING_AGG('x', ',') AS k FROM sent GROUP BY worker", "is of no column"),
        ("SELECT COVAR_SAMP(1, 1) AS v FROM sent", "is of no column"),
    ]);
    answers(&[
        ("SELECT COUNT(1) AS a, COUNT('x') AS b, COUNT(*) AS c FROM sent", "6 6 6"),
        ("SELECT COUNT(*) FILTER (WHERE seq > 1) AS a, COUNT(1) FILTER (WHERE seq > 1) AS b FROM sent", "4 4"),
        ("SELECT COUNT(seq) FILTER (WHERE TRUE) AS a, COUNT(seq + 1) AS b FROM sent", "6 6"),
    ]);
}

/// Polars would filter the share, and refuse it as it is rewritten.
#[test]
fn quantiles_with_a_filter_are_refused_as_they_are_written() {
    refusals(&[
        (
            "SELECT quantile_disc(seq, 0.28) FILTER (WHERE worker > 0) AS v FROM sent",
            "SQL, line 1, column 8: quantile_disc with FILTER is refused: write quantile_disc(CASE WHEN worker > 0 THEN seq END, 0.28)",
        ),
        (
            "SELECT worker FROM sent GROUP BY worker HAVING QUANTILE_CONT(seq, 0.5) FILTER (WHERE seq > 1) > 1",
            "write QUANTILE_CONT(CASE WHEN seq > 1 THEN seq END, 0.5)",
        ),
    ]);
    let window = "SELECT QUANTILE_CONT(seq, 0.5) FILTER (WHERE seq > 1) OVER (PARTITION BY worker) FROM sent";
    refusals(&[(window, "QUANTILE_CONT with OVER")]);
    answers(&[
        ("SELECT QUANTILE_DISC(CASE WHEN worker > 0 THEN seq END, 0.5) AS v FROM sent", "2.0"),
        ("SELECT MEDIAN(seq) FILTER (WHERE worker > 0) AS v FROM sent", "2.5"),
    ]);
}

/// Polars would compute them of all rows.
#[test]
fn aggregates_are_no_conditions_on_rows() {
    refusals(&[
        (
            "SELECT worker, COUNT(*) AS n FROM sent WHERE COUNT(*) > 5 GROUP BY worker",
            "SQL, line 1, column 46: COUNT(*) is no condition on rows: write HAVING",
        ),
        ("SELECT seq FROM sent WHERE worker = 1 AND seq = MAX(seq)", "CROSS JOIN (SELECT MAX(seq) AS x FROM …) q"),
        ("SELECT a.seq FROM sent a JOIN books b ON a.seq = MAX(b.seq)", "MAX(b.seq) is no condition on rows"),
    ]);
    answers(&[
        ("SELECT t_gen_ps FROM sent WHERE seq IN (SELECT MAX(seq) AS x FROM sent)", "20"),
        ("SELECT s.t_gen_ps FROM sent s CROSS JOIN (SELECT MAX(seq) AS x FROM sent) q WHERE s.seq = q.x", "20"),
    ]);
}

#[test]
fn conditions_of_on_with_functions_are_those_of_where() {
    let answer = "1 3, 1 1";
    answers(&[
        (
            "SELECT a.worker, a.seq FROM sent a JOIN books b ON a.worker = b.worker AND ABS(a.seq - b.seq) < 3 AND b.node < 1 ORDER BY a.seq DESC",
            answer,
        ),
        (
            "SELECT a.worker, a.seq FROM sent a JOIN books b ON a.worker = b.worker WHERE ABS(a.seq - b.seq) < 3 AND b.node < 1 ORDER BY a.seq DESC",
            answer,
        ),
    ]);
    let two = "FROM sent a JOIN books b ON a.worker = b.worker JOIN books c ON c.worker = a.worker";
    answers(&[
        (format!("SELECT COUNT(*) AS n {two} AND a.seq > b.seq - 2").as_str(), "4"),
        (format!("SELECT COUNT(*) AS n {two} WHERE a.seq > b.seq - 2").as_str(), "4"),
        (format!("SELECT COUNT(*) AS n {two} AND a.seq > 2 AND c.seq < 4").as_str(), "2"),
    ]);
    let refused = "put other conditions into WHERE";
    refusals(&[
        ("SELECT a.seq FROM sent a JOIN books b ON a.worker = b.worker AND TRUE", refused),
        ("SELECT a.seq FROM sent a JOIN books b ON a.worker = b.worker AND action IS NOT NULL", refused),
    ]);
}

/// Polars would have all rows of the group in place of the key.
#[test]
fn keys_of_groups_stand_beside_aggregates() {
    answers(&[
        (
            "SELECT worker, SUM(seq) / worker AS y FROM sent WHERE worker > 0 GROUP BY worker ORDER BY worker",
            "1 4.0, 2 2.5",
        ),
        (
            "SELECT worker, CAST(COUNT(*) + worker AS BIGINT) AS y FROM sent GROUP BY worker ORDER BY worker",
            "0 2, 1 3, 2 4",
        ),
        (
            "SELECT worker + 1 AS x, COUNT(*) * (worker + 1) AS y FROM sent GROUP BY worker + 1 ORDER BY x",
            "1 2, 2 4, 3 6",
        ),
        (
            "SELECT seq, CASE WHEN seq > 2 THEN COUNT(*) ELSE 0 END AS y FROM sent GROUP BY seq ORDER BY seq DESC LIMIT 3",
            "4 1, 3 2, 2 0",
        ),
        (
            "SELECT seq, CASE WHEN seq IN (1, 2) THEN 1 ELSE 0 END AS y FROM sent GROUP BY seq ORDER BY seq LIMIT 3",
            "0 0, 1 1, 2 1",
        ),
        ("SELECT seq IN (1, 2) AS y, COUNT(*) AS n FROM sent GROUP BY seq IN (1, 2) ORDER BY n", "true 2, false 4"),
        (
            "SELECT v FROM (SELECT b.seq AS k, SUM(a.seq) + b.seq AS v FROM sent a JOIN books b ON a.worker = b.worker GROUP BY b.seq) q ORDER BY v",
            "5, 7, 8",
        ),
    ]);
}

/// Polars would compute them of the key instead of the column.
#[test]
fn expressions_of_keys_are_of_the_value_of_the_group() {
    answers(&[
        (
            "SELECT t_gen_ps // 20 AS b, t_gen_ps // 20 * 20 AS lo, COUNT(*) AS n FROM sent GROUP BY t_gen_ps // 20 ORDER BY b",
            "0 0 1, 1 20 2, 2 40 2, 3 60 1",
        ),
        (
            "SELECT t_gen_ps // 20 * 20 AS lo, t_gen_ps // 20 * 20 + 20 AS hi, COUNT(*) AS n FROM sent GROUP BY lo ORDER BY lo",
            "0 20 1, 20 40 2, 40 60 2, 60 80 1",
        ),
        ("SELECT worker * -1 AS x, worker * -1 * 2 AS y FROM sent GROUP BY 1 ORDER BY x", "-2 -4, -1 -2, 0 0"),
        (
            "SELECT worker * -1 AS x, (worker * -1) * 2 AS y FROM sent GROUP BY (worker * -1) ORDER BY x",
            "-2 -4, -1 -2, 0 0",
        ),
        (
            "SELECT abs(worker - 2) AS x, ABS(worker - 2) + 1 AS y FROM sent GROUP BY ABS(worker - 2) ORDER BY x",
            "0 1, 1 2, 2 3",
        ),
        (
            "SELECT seq > 1 AS b, CASE WHEN seq > 1 THEN 7 ELSE 8 END AS c FROM sent GROUP BY seq > 1 ORDER BY b",
            "false 8, true 7",
        ),
        (
            "SELECT worker + seq AS s, (worker + seq) * 2 AS x FROM sent GROUP BY worker + seq ORDER BY s",
            "0 0, 2 4, 4 8, 5 10",
        ),
        ("SELECT seq AS x, seq * 2 AS d FROM sent GROUP BY x ORDER BY x LIMIT 2", "0 0, 1 2"),
        (
            "SELECT b.seq AS x, b.seq * 2 AS d FROM sent a JOIN books b ON a.worker = b.worker GROUP BY b.seq ORDER BY x",
            "0 0, 3 6, 4 8",
        ),
        ("SELECT worker % 2 AS x, SUM(worker) AS y FROM sent GROUP BY worker % 2 ORDER BY x", "0 4, 1 2"),
        ("SELECT worker, worker * 2 AS y, COUNT(*) AS n FROM sent GROUP BY ALL ORDER BY worker", "0 0 2, 1 2 2, 2 4 2"),
    ]);
    let says = "worker is no key of GROUP BY, which has an expression of it";
    refusals(&[
        ("SELECT worker AS y, COUNT(*) AS n FROM sent GROUP BY worker % 2", says),
        ("SELECT worker % 2 AS x, ABS(worker) AS y FROM sent GROUP BY worker % 2", says),
        ("SELECT worker % 2, worker AS y FROM sent GROUP BY 1", says),
    ]);
}

#[test]
fn columns_whose_names_keys_have_in_the_answer_are_refused() {
    let says = "is no key of GROUP BY, and one has its name in the answer";
    refusals(&[
        ("SELECT worker % 2 AS seq, seq AS y, COUNT(*) AS n FROM sent GROUP BY 1", says),
        ("SELECT worker % 2 AS seq, seq + 1 AS y FROM sent GROUP BY 1", says),
        (
            "SELECT b.seq AS worker, a.worker + 1 AS y FROM sent a JOIN books b ON a.worker = b.worker GROUP BY b.seq",
            says,
        ),
        ("SELECT w AS z, z + 1 AS y FROM (SELECT worker AS w, seq AS z FROM sent) q GROUP BY w", says),
        (
            "SELECT w AS z, z + 1 AS y FROM (SELECT * FROM (SELECT worker AS w, seq AS z FROM sent) p) q GROUP BY 1",
            says,
        ),
        (
            "WITH p AS (SELECT worker AS w, seq AS z FROM sent), q AS (SELECT * FROM p) SELECT w AS z, z + 1 AS y FROM q GROUP BY w",
            says,
        ),
    ]);
    // A query that FROM does not have gives no names.
    answers(&[
        (
            "WITH q AS (SELECT MAX(seq) AS x FROM sent) SELECT worker % 2 AS x, COUNT(*) AS n FROM sent GROUP BY x HAVING x < 1 ORDER BY x",
            "0 4",
        ),
        (
            "SELECT x AS x, x + 1 AS y, COUNT(*) AS n FROM (SELECT worker AS x FROM sent) q GROUP BY x ORDER BY x",
            "0 1 2, 1 2 2, 2 3 2",
        ),
    ]);
}

/// A column of one table has precedence over a name of the answer, as in PostgreSQL and DuckDB, and an ambiguous name is that of the answer.
#[test]
fn names_of_the_answer_that_tables_have_are_keys_of_group_by() {
    let joined = "FROM sent a JOIN books b ON a.worker = b.worker";
    answers(&[
        (format!("SELECT b.seq AS seq, COUNT(*) AS n {joined} GROUP BY seq ORDER BY seq").as_str(), "0 2, 3 2, 4 2"),
        (format!("SELECT b.seq, COUNT(*) AS n {joined} GROUP BY seq ORDER BY b.seq").as_str(), "0 2, 3 2, 4 2"),
        (
            format!("SELECT a.seq AS seq, COUNT(*) AS n {joined} GROUP BY seq HAVING seq > 2 ORDER BY seq").as_str(),
            "3 2, 4 1",
        ),
        (
            format!("SELECT b.seq AS seq, COUNT(*) AS n {joined} GROUP BY seq HAVING seq > 2 ORDER BY seq").as_str(),
            "3 2, 4 2",
        ),
        (format!("SELECT b.node AS seq, COUNT(*) AS n {joined} GROUP BY seq ORDER BY seq").as_str(), "0 2, 1 2, 2 2"),
        (
            format!("SELECT a.seq % 2 AS worker, COUNT(*) AS n {joined} GROUP BY worker ORDER BY worker").as_str(),
            "0 3, 1 3",
        ),
        (
            "SELECT b.worker AS worker, COUNT(*) AS n FROM sent a JOIN books b USING (worker) GROUP BY worker ORDER BY worker",
            "0 2, 1 2, 2 2",
        ),
        (
            "SELECT q.seq AS seq, COUNT(*) AS n FROM sent a JOIN (SELECT worker, seq FROM books) q ON a.worker = q.worker GROUP BY seq ORDER BY seq",
            "0 2, 3 2, 4 2",
        ),
        ("SELECT worker // 2 AS worker, COUNT(*) AS n FROM sent GROUP BY worker ORDER BY worker", "0 2, 0 2, 1 2"),
        (
            "SELECT worker AS seq, COUNT(*) AS n FROM sent WHERE seq > 2 GROUP BY seq, worker ORDER BY seq",
            "0 1, 1 1, 2 1",
        ),
        ("SELECT MAX(seq) AS worker FROM sent GROUP BY worker ORDER BY MAX(seq)", "3, 3, 4"),
        // Items are of the columns, also if one of these is a key and gives its name to an item.
        ("SELECT seq + worker AS seq, COUNT(*) AS n FROM sent GROUP BY worker, seq ORDER BY 1 LIMIT 2", "0 1, 2 1"),
        ("SELECT MAX(cluster) AS b, t_gen_ps - seq AS seq FROM sent GROUP BY t_gen_ps, seq ORDER BY 2 LIMIT 1", "0 10"),
        (
            "SELECT t + w AS t, COUNT(*) AS n FROM (SELECT worker AS w, seq AS t FROM sent) q GROUP BY w, t ORDER BY 1",
            "0 1, 2 1, 4 1, 4 1, 4 1, 5 1",
        ),
        ("SELECT seq + worker AS b, worker + 1 AS seq FROM sent GROUP BY worker, seq ORDER BY 1 LIMIT 2", "0 1, 2 2"),
        ("SELECT seq + COUNT(*) AS seq FROM sent GROUP BY seq ORDER BY 1", "1, 2, 3, 5, 5"),
        ("SELECT worker AS x, worker + 1 AS worker FROM sent GROUP BY x ORDER BY 1", "0 1, 1 2, 2 3"),
        ("SELECT seq + worker AS seq, worker + 1 AS worker FROM sent GROUP BY worker, seq ORDER BY 1 LIMIT 1", "0 1"),
        ("SELECT worker IN (1, 2) AS worker FROM sent GROUP BY worker ORDER BY 1", "false, true, true"),
        ("SELECT worker AS seq, seq // 2 * 2 AS y FROM sent GROUP BY worker, seq // 2 ORDER BY 2, 1 LIMIT 1", "0 0"),
    ]);
    refusals(&[
        (
            "SELECT t_gen_ps AS worker, COUNT(*) AS n FROM sent GROUP BY worker",
            "column 61: GROUP BY worker is a column of FROM, and \"worker\" of the answer is t_gen_ps: give that another name, or GROUP BY t_gen_ps",
        ),
        ("SELECT seq % 2 AS worker, COUNT(*) AS n FROM sent GROUP BY worker", "or GROUP BY seq % 2"),
        (
            format!("SELECT b.seq AS node, COUNT(*) AS n {joined} GROUP BY node").as_str(),
            "\"node\" of the answer is b.seq: give that another name, or GROUP BY b.seq",
        ),
        (
            "SELECT a.seq AS worker, COUNT(*) AS n FROM sent a JOIN books b USING (worker) GROUP BY worker",
            "or GROUP BY a.seq",
        ),
    ]);
}

#[test]
fn having_has_keys_of_every_form() {
    let joined = "FROM sent a JOIN books b ON a.worker = b.worker";
    answers(&[
        ("SELECT worker + 1 AS x, COUNT(*) AS n FROM sent GROUP BY worker + 1 HAVING x > 2", "3 2"),
        ("SELECT worker + 1 AS x, COUNT(*) AS n FROM sent GROUP BY x HAVING worker + 1 > 2", "3 2"),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY worker + 1 HAVING worker + 1 > 2", "2"),
        ("SELECT worker, COUNT(*) AS n FROM sent GROUP BY ALL HAVING worker > 1", "2 2"),
        (
            format!(
                "SELECT a.seq AS x, b.seq AS y, COUNT(*) AS n {joined} GROUP BY x, y HAVING b.seq > a.seq ORDER BY x"
            )
            .as_str(),
            "0 4 1, 1 3 1",
        ),
        // Names of the answer that other columns have, as DuckDB has them.
        (format!("SELECT a.worker + 1 AS seq, COUNT(*) AS n {joined} GROUP BY seq HAVING seq > 2").as_str(), "3 2"),
        (format!("SELECT b.node AS seq, COUNT(*) AS n {joined} GROUP BY seq HAVING seq > 1").as_str(), "2 2"),
        ("SELECT worker + 1 AS node, COUNT(*) AS n FROM sent GROUP BY node HAVING node > 2", "3 2"),
        ("SELECT worker AS seq, COUNT(*) AS n FROM sent GROUP BY worker HAVING seq > 1", "2 2"),
        ("SELECT seq + 1 AS seq, COUNT(*) AS n FROM sent GROUP BY 1 HAVING seq > 4", "5 1"),
        ("SELECT worker AS seq, COUNT(*) AS n FROM sent GROUP BY seq, worker HAVING seq > 3", "0 1"),
        ("SELECT 1 AS k, COUNT(*) AS n FROM sent GROUP BY k HAVING k > 0", "1 6"),
        ("SELECT worker, 2 AS seq, COUNT(*) AS n FROM sent GROUP BY worker HAVING seq > worker + 1", "0 2 2"),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY (worker + 1) HAVING worker + 1 > 2", "2"),
        ("SELECT sent.worker, COUNT(*) AS n FROM sent GROUP BY worker HAVING sent.worker > 1", "2 2"),
        ("SELECT q.w, COUNT(*) AS n FROM (SELECT worker AS w FROM sent) q GROUP BY w HAVING q.w > 1", "2 2"),
        (
            "SELECT worker, CAST(sent.worker + COUNT(*) AS BIGINT) AS n FROM sent GROUP BY worker ORDER BY worker",
            "0 2, 1 3, 2 4",
        ),
    ]);
    refusals(&[
        ("SELECT COUNT(*) AS n FROM sent HAVING COUNT(*) > 1", "HAVING without GROUP BY is refused"),
        (
            "SELECT seq + 1 AS seq, COUNT(*) AS n FROM sent GROUP BY 1 HAVING seq + 1 > 4",
            "column 66: HAVING seq + 1: a name in it is that of a column and of the answer",
        ),
    ]);
}

/// Polars would have z of the answer.
#[test]
fn columns_named_behind_a_query_are_no_keys() {
    let says = "z is no key of GROUP BY, and one has its name in the answer";
    refusals(&[
        ("SELECT w AS z, z + 1 AS y FROM (SELECT worker, seq FROM sent) q(w, z) GROUP BY w", says),
        ("WITH q(w, z) AS (SELECT worker, seq FROM sent) SELECT w AS z, z + 1 AS y FROM q GROUP BY w", says),
        ("SELECT w AS z, z + 1 AS y FROM (VALUES (1, 10), (2, 20)) v(w, z) GROUP BY w", says),
    ]);
}

#[test]
fn refusals_say_what_helps() {
    refusals(&[
        (
            "SELECT *, COUNT(*) AS m FROM sent",
            "for all of them: name its columns, and GROUP BY them, or COUNT(*) OVER ()",
        ),
        (
            "SELECT MAX(seq) AS v FROM sent ORDER BY nonsense",
            "ORDER BY nonsense: the answer has no such column, and one row",
        ),
        ("SELECT MAX(seq) AS v FROM sent ORDER BY sent.seq", "leave ORDER BY out"),
        ("SELECT MAX(seq) AS v FROM sent ORDER BY 7", "ORDER BY 7: the answer has no such column"),
    ]);
    answers(&[
        ("SELECT MAX(seq) AS v FROM sent ORDER BY v", "4"),
        ("SELECT MAX(seq) AS v FROM sent ORDER BY MAX(seq), 1", "4"),
    ]);
    let sql = "SELECT cluster, worker, COUNT(*) AS n FROM sent GROUP BY worker";
    let statement = Statement::parse(sql, &of_runs(&[])).unwrap();
    let mut context = SQLContext::new();
    for (name, frame) in tables() {
        context.register(name, frame.lazy());
    }
    let theirs = execute(&mut context, &statement.guarded).and_then(LazyFrame::collect).unwrap_err();
    let said = statement.fault(&theirs, &of_runs(&[])).to_string();
    assert!(said.contains("GROUP BY") && !said.contains("did you mean"), "{said}");
    let statement = Statement::parse("SELECT 1, 2 FROM sent", &of_runs(&[])).unwrap();
    let theirs = execute(&mut context, &statement.guarded).and_then(LazyFrame::collect).unwrap_err();
    let said = statement.fault(&theirs, &of_runs(&[])).to_string();
    assert!(said.contains("constants without a name: name them by AS"), "{said}");
}

/// Quotients are written as calls within calls.
#[test]
fn windows_in_windows_are_refused() {
    let nested = (0..3).fold("seq".to_owned(), |key, _| format!("seq + RANK() OVER (ORDER BY {key})"));
    refusals(&[(format!("SELECT seq, {nested} AS x FROM sent").as_str(), "a window in OVER is refused")]);
}

#[test]
fn long_chains_of_quotients_say_what_to_write() {
    let sql = format!("SELECT seq{} AS x FROM sent", " / 1".repeat(60));
    refusals(&[(sql.as_str(), "take a part into a subquery of FROM")]);
    let (inner, outer) = (" / 1".repeat(30), " / 1".repeat(30));
    let sql = format!("SELECT x{outer} AS x FROM (SELECT seq{inner} AS x FROM sent) q ORDER BY x LIMIT 2");
    answers(&[(sql.as_str(), "0.0, 1.0")]);
}

/// Polars would count bytes, and RIGHT and SUBSTR from the wrong end.
#[test]
fn texts_are_counted_in_characters_and_empty_of_empty_cells() {
    let some = "CASE WHEN seq > 3 THEN 'ab.c' END";
    answers(&[
        ("SELECT STRPOS('äöfoo', 'f') AS a, POSITION('.' IN 'ab.c') AS b, STRPOS('a(b', '(') AS c, seq FROM sent LIMIT 1", "3 3 2 0"),
        ("SELECT STRPOS('abc', '') AS a, STRPOS('abc', 'x') AS b, STRPOS('', 'x') AS c, seq FROM sent LIMIT 1", "1 0 0 0"),
        (
            format!(
                "SELECT seq, POSITION('c' IN {some}) AS a, STRPOS({some}, 'c') - 5 AS b, LEFT({some}, 0) IS NULL AS c FROM sent \
                 WHERE seq IN (1, 4) ORDER BY seq"
            )
            .as_str(),
            "1 - - true, 4 4 -1 false",
        ),
        ("SELECT RIGHT('abcd', 12) AS a, RIGHT('abcd', 3) AS b, RIGHT('abcd', -1) AS c, RIGHT('abcd', seq) AS d FROM sent WHERE seq = 4", "\"abcd\" \"bcd\" \"bcd\" \"abcd\""),
        (format!("SELECT COUNT(LEFT({some}, 0)) AS x, COUNT(*) AS n FROM sent").as_str(), "1 6"),
        (
            "SELECT seq, SUBSTR('abcd', seq) AS a, SUBSTR('abcd', seq - 2) AS b FROM sent WHERE seq < 3 ORDER BY seq",
            "0 \"abcd\" \"abcd\", 1 \"abcd\" \"abcd\", 2 \"bcd\" \"abcd\"",
        ),
        ("SELECT LEFT('abcd', 2) AS a, LEFT('abcd', -1) AS b, LEFT('abcd', -5) AS c, LEFT('äöü', 9) AS d, seq FROM sent LIMIT 1", "\"ab\" \"abc\" \"\" \"äöü\" 0"),
        ("SELECT RIGHT('a🇩🇪b', 2) = SUBSTR('a🇩🇪b', 3) AS x, RIGHT('a', 0) AS y, RIGHT('a', -3) AS z, seq FROM sent LIMIT 1", "true \"\" \"\" 0"),
        (
            "SELECT COUNT(LEFT(t, -0)) AS a, COUNT(LEFT(t, (0))) AS b, COUNT(RIGHT(t, -(0))) AS c \
             FROM (SELECT CASE WHEN seq > 0 THEN 'abc' END AS t FROM sent) q",
            "5 5 5",
        ),
        (
            "SELECT LEFT(t, n) AS a, RIGHT(t, n) AS b, SUBSTR(t, 1, n) AS c, p \
             FROM (SELECT CASE WHEN t_recv_ps > 0 THEN 'abc' END AS t, sum_ok_code AS n, t_recv_ps AS p FROM received) q \
             WHERE p IN (2, 4) ORDER BY p",
            "\"a\" \"c\" \"a\" 2, - - - 4",
        ),
    ]);
}

/// Each length is written twice, and so would be all lengths within it.
#[test]
fn lengths_of_texts_are_not_nested() {
    for levels in [2, 8] {
        let nested = (0..levels).fold("3".to_owned(), |n, _| format!("LENGTH(SUBSTR('abc', 1, {n} + seq))"));
        let sql = format!("SELECT {nested} AS x FROM sent");
        refusals(&[(sql.as_str(), "SUBSTR in the length of SUBSTR is refused: take the length in a subquery of FROM")]);
    }
    for sql in [
        "SELECT SUBSTR(SUBSTR('abc', 1, seq), 1, seq) AS x FROM sent",
        "SELECT SUBSTR('abc', 1, seq + LENGTH(SUBSTR('abc', 2, 1))) AS x FROM sent",
    ] {
        assert!(Statement::parse(sql, &tables_of_runs()).is_ok(), "{sql}");
    }
}

/// Polars gives rows without a value no rank.
#[test]
fn places_in_texts_have_a_rank_in_all_rows() {
    for place in ["STRPOS(reason, 'full')", "POSITION('full' IN reason)", "LEFT(reason, 2)", "RIGHT(reason, 2)"] {
        let sql = format!("SELECT seq, RANK() OVER (ORDER BY {place}) AS r FROM books");
        let statement = Statement::parse(&sql, &tables_of_runs()).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        assert!(statement.guarded.contains("IS NOT NULL"), "{}", statement.guarded);
    }
}

/// Polars would have the value of the whole partition.
#[test]
fn frames_need_an_order() {
    let frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    let of = |order: &str| {
        format!(
            "SELECT seq, COUNT(*) OVER (PARTITION BY worker {order} {frame}) AS n FROM sent WHERE worker = 0 ORDER BY seq"
        )
    };
    refusals(&[(of("").as_str(), "ROWS without ORDER BY is refused")]);
    answers(&[(of("ORDER BY seq").as_str(), "0 1, 4 2")]);
}
