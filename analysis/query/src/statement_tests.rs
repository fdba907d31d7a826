//! Tests of refusals and of error positions.

use super::*;
use crate::tables::of_runs;

fn parse(sql: &str) -> Result<Statement> {
    Statement::parse(sql, &of_runs(&[]))
}

fn refusal(sql: &str) -> String {
    match parse(sql) {
        Ok(statement) => panic!("{sql} was taken for {}", statement.guarded),
        Err(error) => error.to_string(),
    }
}

#[test]
fn selects_are_taken_with_what_they_name() {
    for (sql, tables, explains) in [
        ("SELECT 1", "", false),
        ("select * from sent;", "sent", false),
        ("SELECT s.seq FROM sent s JOIN books AS b ON s.packet = b.packet_in", "books sent", false),
        ("WITH w AS (SELECT worker FROM sent) SELECT * FROM w", "sent", false),
        ("EXPLAIN SELECT * FROM (SELECT seq FROM fates) x", "fates", true),
        ("SELECT 1 FROM sent UNION ALL (SELECT 2 FROM received)", "received sent", false),
        ("SELECT * FROM sent WHERE worker IN (SELECT worker FROM states)", "sent states", false),
        ("SELECT COUNT(*) FILTER (WHERE seq > 1) FROM sent", "sent", false),
        (
            "SELECT * FROM (SELECT seq, LAG(seq) OVER (ORDER BY seq) AS p FROM sent) q WHERE LN(p) / LN(2) > 1",
            "sent",
            false,
        ),
        ("SELECT COUNT(1), SUM(seq * 0 + 1), SUM(CASE WHEN seq > 1 THEN 1 ELSE 0 END) FROM sent", "sent", false),
        ("SELECT worker, cluster FROM sent s JOIN received r USING (packet, cluster)", "received sent", false),
    ] {
        let statement = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let named: Vec<&str> = statement.tables.iter().map(String::as_str).collect();
        assert_eq!((named.join(" ").as_str(), statement.explains), (tables, explains), "{sql}");
    }
}

/// Polars evaluates these once, regardless of the rows.
#[test]
fn aggregates_are_of_columns() {
    for (sql, says) in [
        ("SELECT worker, SUM(1) FROM sent GROUP BY worker", "SUM(1) is of no column"),
        ("SELECT worker FROM sent GROUP BY worker HAVING SUM(2 * 1.5) > 2", "is of no column"),
        ("SELECT STDDEV(1) FROM sent", "is of no column"),
        ("SELECT TOTAL(2) FROM sent", "TOTAL(2) is of no column"),
        ("SELECT 1 AS x WHERE FALSE", "without FROM are refused"),
        ("SELECT COUNT(*)", "without FROM are refused"),
    ] {
        let fault = parse(sql).unwrap_err().to_string();
        assert!(fault.contains(says), "{sql}: {fault}");
    }
}

/// Other checks would take an unknown aggregate for a function of single rows.
#[test]
fn unknown_functions_are_named_before_what_they_would_change() {
    for (sql, says) in [
        ("SELECT VAR_POP(seq) AS b, COUNT(*) AS n FROM sent", "column 8: unsupported function 'var_pop', did you mean"),
        (
            "SELECT seq, 1 + medain(seq) OVER () AS b FROM sent",
            "column 17: unsupported function 'medain', did you mean \"median\"?",
        ),
        ("SELECT seq FROM sent WHERE FOO(seq) > 1", "column 28: unsupported function 'foo'"),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY FOO(seq)", "column 41: unsupported function 'foo'"),
        ("SELECT pktgen_summed(seq) AS b FROM sent", "unsupported function 'pktgen_summed'"),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
    for name in ["TRUNC", "DIV", "\"abs\"", "Group_Concat", "bitAnd"] {
        let function = parse(&format!("SELECT {name}(seq, 1) AS b FROM sent"));
        assert!(function.is_ok(), "{name}: {:?}", function.err());
    }
}

#[test]
fn what_differs_between_dialects_is_refused() {
    for (sql, says) in [
        ("SELECT LOG(2, seq) FROM sent", "column 8: LOG(2, seq) is refused, since it is the logarithm of 2 or of seq"),
        (
            "SELECT seq FROM sent WHERE seq > 5 AND ROW_NUMBER() OVER (PARTITION BY worker ORDER BY seq) <= 2",
            "ORDER BY seq) in a condition is refused, since it would be of the rows before WHERE",
        ),
        ("SELECT seq, LAG(1) OVER (ORDER BY packet) AS x FROM sent", "is of no column, and would be empty everywhere"),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
}

#[test]
fn dates_and_several_groupings_are_refused() {
    for (sql, says) in [
        ("SELECT EXTRACT(year FROM DATE '2024-05-06') AS y FROM sent", "is refused, since no table has dates"),
        ("SELECT CAST('2024-05-06' AS DATE) AS y FROM sent", "CAST('2024-05-06' AS DATE) is refused"),
        ("SELECT seq + BIGINT '5' AS y FROM sent", "BIGINT '5' is refused: write CAST('5' AS BIGINT)"),
        (
            "SELECT worker, COUNT(*) AS n FROM sent GROUP BY ROLLUP(worker)",
            "ROLLUP, CUBE, TOTALS and GROUPING SETS are refused",
        ),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY CUBE(worker)", "with UNION ALL"),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY GROUPING SETS ((worker), ())", "with UNION ALL"),
        ("SELECT COUNT(*) AS n FROM sent GROUP BY ()", "GROUP BY () is refused: leave it out"),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
}

#[test]
fn everything_else_is_refused() {
    for (sql, says) in [
        ("INSERT INTO sent VALUES (1)", "INSERT is refused"),
        (
            "SELECT 1 FROM sent s LEFT JOIN books b ON s.packet = b.packet_in AND b.worker < 5",
            "on equal columns of both sides only",
        ),
        ("SELECT 1 FROM sent s FULL JOIN books b ON s.packet = b.packet_in + 1", "on equal columns of both sides only"),
        (
            "SELECT 1 FROM sent s RIGHT JOIN books b ON s.packet = b.packet_in AND b.worker = 5",
            "on equal columns of both sides only",
        ),
        (
            "SELECT 1 FROM sent s LEFT ANTI JOIN books b ON (s.packet = b.packet_in AND s.seq > b.seq)",
            "on equal columns of both sides only",
        ),
        ("SELECT COUNT(*) OVER () FROM sent GROUP BY worker", "beside GROUP BY are refused"),
        ("SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM sent GROUP BY worker", "beside GROUP BY are refused"),
        ("SELECT AVG(seq) OVER (PARTITION BY worker ORDER BY seq) FROM sent", "a running AVG is refused"),
        ("SELECT STDDEV(seq) OVER (ORDER BY seq) FROM sent", "a running STDDEV is refused"),
        ("CREATE TABLE x AS SELECT * FROM sent", "CREATE is refused"),
        ("CREATE TABLE x (a INT)", "CREATE is refused"),
        ("DROP TABLE sent", "DROP is refused"),
        ("TRUNCATE TABLE sent", "TRUNCATE is refused"),
        ("DELETE FROM sent", "DELETE is refused"),
        ("UPDATE sent SET seq = 1", "UPDATE is refused"),
        ("ALTER TABLE sent ADD COLUMN x INT", "ALTER is refused"),
        ("COPY sent TO '/tmp/x'", "COPY is refused"),
        ("SHOW TABLES", "SHOW is refused"),
        ("SET x = 1", "SET is refused"),
        ("ATTACH DATABASE 'x' AS y", "ATTACH is refused"),
        ("LOAD x", "LOAD is refused"),
        ("CALL f()", "CALL is refused"),
        ("EXPLAIN INSERT INTO sent VALUES (1)", "INSERT is refused"),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN is refused"),
        ("WITH w AS (SELECT 1) DELETE FROM sent", "DELETE"),
        ("WITH w AS (INSERT INTO sent VALUES (1)) SELECT 1", "INSERT is refused"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT 1; DROP TABLE sent", "several statements"),
        ("", "no statement"),
        (" -- nothing\n", "no statement"),
        ("SELECT * INTO x FROM sent", "SELECT INTO is refused"),
        ("TABLE sent", "TABLE"),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv(…) is refused"),
        ("SELECT * FROM read_parquet('x.parquet')", "read_parquet(…) is refused"),
        ("SELECT * FROM scan_ipc('x')", "scan_ipc(…) is refused"),
        ("SELECT * FROM TABLE(f(1))", "functions are refused"),
        ("SELECT * FROM LATERAL f(1)", "functions are refused"),
        ("SELECT * FROM UNNEST([1, 2])", "functions are refused"),
        ("SELECT * FROM '/etc/passwd'", "there is no table \"/etc/passwd\""),
        ("SELECT * FROM \"x.parquet\"", "there is no table \"x.parquet\""),
        ("SELECT * FROM a.sent", "a.sent is refused"),
        ("SELECT * FROM sent WHERE seq IN (SELECT 1 FROM read_csv('x'))", "read_csv(…) is refused"),
        ("WITH RECURSIVE w AS (SELECT 1) SELECT * FROM w", "WITH RECURSIVE is refused"),
        ("WITH sent AS (SELECT 1) SELECT * FROM sent", "\"sent\" is a table"),
        ("SELECT * FROM books AS sent", "\"sent\" is a table"),
        ("SELECT * FROM (SELECT 1) AS books", "\"books\" is a table"),
        (
            "WITH a AS (SELECT 1), b AS (WITH a AS (SELECT 2) SELECT * FROM a) SELECT * FROM b",
            "\"a\" is the name of another query",
        ),
        ("SELECT * FROM sent FOR UPDATE", "FOR is refused"),
        ("SELECT * FROM sent FORMAT CSV", "FORMAT"),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
}

/// Polars computes these over other rows than SQL, without an error.
#[test]
fn windows_are_those_of_sql() {
    for (sql, says) in [
        ("SELECT worker, QUANTILE_DISC(bytes, 0.5) OVER (PARTITION BY worker) FROM sent", "QUANTILE_DISC with OVER"),
        ("SELECT CORR(bytes, seq) OVER (PARTITION BY worker) FROM sent", "CORR with OVER is refused"),
        ("SELECT LAST_VALUE(seq) OVER (PARTITION BY worker) FROM sent", "LAST_VALUE with OVER is refused"),
        ("SELECT COUNT(seq) OVER w FROM sent WINDOW w AS (ORDER BY seq)", "a window with a name is refused"),
        ("SELECT SUM(seq) OVER (w) FROM sent WINDOW w AS (PARTITION BY worker)", "a window with a name is refused"),
        ("SELECT 1 + MEDIAN(seq) OVER (ORDER BY seq) FROM sent", "SQL, line 1, column 12: a running MEDIAN is refused"),
        ("SELECT COUNT(DISTINCT worker) OVER (ORDER BY seq) FROM sent", "a running COUNT(DISTINCT …) is refused"),
        ("SELECT TOTAL(seq) OVER (ORDER BY seq) FROM sent", "a running TOTAL is refused"),
        ("SELECT ROW_NUMBER() OVER (ORDER BY reward NULLS LAST) FROM sent", "NULLS LAST in OVER is refused"),
        ("SELECT LAG(seq) OVER (ORDER BY reward DESC NULLS LAST) FROM sent", "NULLS LAST in OVER is refused"),
        ("SELECT RANK() OVER (ORDER BY worker, reward NULLS LAST) FROM sent", "NULLS LAST in OVER is refused"),
        ("SELECT LAG(seq) OVER (ORDER BY worker, seq DESC) FROM sent", "ASC and DESC in one OVER are refused"),
        (
            "SELECT RANK() OVER (ORDER BY reward DESC NULLS FIRST, worker DESC) FROM sent",
            "NULLS FIRST in OVER with several columns and DESC is refused",
        ),
        ("SELECT seq FROM sent QUALIFY ROW_NUMBER() OVER (PARTITION BY worker ORDER BY seq) = 1", "QUALIFY is refused"),
        ("SELECT seq FROM sent ORDER BY AVG(bytes) OVER (ORDER BY seq)", "a running AVG is refused"),
        ("SELECT SUM(bytes) OVER () FROM sent", "SQL, line 1, column 8: SUM(bytes) OVER () without a column beside it"),
        ("SELECT 1, 2 * MAX(seq) OVER () AS x FROM sent", "MAX(seq) OVER () without a column beside it"),
        ("SELECT SUM(bytes), COUNT(*) OVER () FROM sent", "COUNT(*) OVER () without a column beside it"),
        ("SELECT seq FROM (SELECT AVG(seq) OVER () AS seq FROM sent) x", "AVG(seq) OVER () without a column beside it"),
        ("SELECT COALESCE(SUM(seq), 0), MAX(seq) OVER () FROM sent", "MAX(seq) OVER () without a column beside it"),
        ("SELECT ROUND(MAX(seq) OVER (), 1), ABS(-1) FROM sent", "MAX(seq) OVER () without a column beside it"),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
    for sql in [
        "SELECT ROW_NUMBER() OVER (ORDER BY reward NULLS FIRST), RANK() OVER (ORDER BY reward DESC NULLS FIRST) FROM sent",
        "SELECT RANK() OVER (ORDER BY reward DESC NULLS LAST, worker DESC) AS r FROM sent ORDER BY reward NULLS LAST",
        "SELECT SUM(bytes) OVER (ORDER BY seq) / COUNT(bytes) OVER (ORDER BY seq) FROM sent",
        "SELECT TOTAL(seq) OVER (PARTITION BY worker), COALESCE(SUM(seq) OVER (ORDER BY seq), 0) FROM sent",
        "SELECT seq, SUM(bytes) OVER () FROM sent",
        "SELECT *, SUM(bytes) OVER () FROM sent",
        "SELECT bytes - AVG(bytes) OVER () FROM sent",
        "SELECT COALESCE(reward, 0) - AVG(reward) OVER () FROM sent",
        "SELECT MAX(reward) OVER (), round(abs(reward), 1) FROM sent",
        "SELECT SUM(bytes) OVER (), SUM(bytes) OVER (PARTITION BY worker) FROM sent",
        "SELECT ROW_NUMBER() OVER (), MAX(seq) OVER () FROM sent",
        "SELECT MEDIAN(bytes) OVER (PARTITION BY worker), COUNT(DISTINCT seq) OVER (PARTITION BY worker) FROM sent",
        "SELECT first_value(seq) OVER (PARTITION BY worker ORDER BY seq), LAG(seq) OVER (ORDER BY seq) FROM sent",
        "SELECT seq FROM (SELECT seq, ROW_NUMBER() OVER (PARTITION BY worker ORDER BY seq) AS n FROM sent) x WHERE n = 1",
    ] {
        parse(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }
}

#[test]
fn errors_have_line_and_column_and_the_nearest_name() {
    for (sql, says) in [
        ("SELEC 1", "SQL, line 1, column 1: "),
        ("SELECT *\nFROM sent\nWHERE seq >", "SQL"),
        ("SELECT *\n  FROM sent WHERE )", "SQL, line 2, column 19: "),
        ("SELECT 'x\nFROM sent", "SQL, line 1, column 8: Unterminated string literal"),
        ("SELECT *\nFROM sents", "SQL, line 2, column 6: there is no table \"sents\", did you mean \"sent\"?"),
        ("SELECT * FROM receive", "SQL, line 1, column 15: there is no table \"receive\", did you mean \"received\"?"),
    ] {
        let refused = refusal(sql);
        assert!(refused.starts_with(says), "{sql}: {refused}");
    }
}

#[test]
fn what_polars_does_not_understand_is_told_in_words() {
    for (sql, says) in [
        ("SELECT (worker, seq) FROM sent", "SQL, line 1, column 9: a list in parentheses"),
        ("SELECT worker FROM sent GROUP BY worker HAVING (1, 2) IN ((1, 2))", "a list in parentheses"),
        ("SELECT EXISTS(SELECT 1 FROM sent) AS x", "SQL, line 1, column 15: EXISTS is refused: write SEMI JOIN"),
        ("SELECT seq FROM sent WHERE EXISTS (SELECT 1 FROM received)", "SQL, line 1, column 36: EXISTS is refused"),
        ("SELECT seq FROM sent WHERE NOT EXISTS (SELECT 1 FROM books WHERE packet_in = packet)", "EXISTS is refused"),
        (
            "SELECT seq IN (SELECT node FROM books) AS x FROM sent",
            "column 8: IN (SELECT …) is understood in WHERE only",
        ),
        ("SELECT seq FROM sent ORDER BY seq IN (SELECT node FROM books)", "understood in WHERE only"),
        ("SELECT COUNT(*) FILTER (WHERE seq IN (SELECT node FROM books)) AS n FROM sent", "understood in WHERE only"),
        (
            "SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker HAVING COUNT(*) IN (SELECT node FROM books)",
            "understood in WHERE only",
        ),
    ] {
        let refused = refusal(sql);
        assert!(refused.contains(says), "{sql}: {refused}");
    }
    assert!(parse("SELECT worker FROM sent WHERE packet IN (SELECT packet FROM received) AND seq IN (1, 2)").is_ok());
}

#[test]
fn a_subquery_names_its_own_tables() {
    for (sql, place) in [
        ("SELECT seq FROM sent s WHERE EXISTS (SELECT 1 FROM received r WHERE r.packet = s.packet)", 80),
        ("SELECT seq FROM sent WHERE NOT EXISTS (SELECT 1 FROM received WHERE received.packet = sent.packet)", 87),
        ("SELECT seq FROM sent WHERE packet IN (SELECT packet FROM received WHERE bytes > sent.bytes)", 81),
        ("SELECT s.seq FROM sent s CROSS JOIN (SELECT MAX(r.seq) AS m FROM received r WHERE r.seq > s.seq) m", 91),
    ] {
        let refused = refusal(sql);
        assert!(refused.starts_with(&format!("SQL, line 1, column {place}: s")), "{sql}: {refused}");
        assert!(refused.contains("SEMI JOIN … ON s"), "{sql}: {refused}");
    }
    assert!(
        refusal("SELECT seq FROM \"sent\" WHERE EXISTS (SELECT 1 FROM received WHERE bytes = sent.bytes)")
            .contains("SEMI")
    );
    for sql in [
        "SELECT seq FROM sent WHERE packet IN (SELECT packet FROM \"sent\" WHERE \"sent\".bytes > 1)",
        "SELECT s.seq FROM sent s WHERE s.packet IN (SELECT s.packet FROM received s WHERE s.bytes > 1)",
        "SELECT s.seq FROM sent s SEMI JOIN received r ON s.packet = r.packet WHERE s.seq > 1 ORDER BY s.seq",
        "SELECT a.n FROM (SELECT s.seq AS n FROM sent s UNION ALL SELECT r.seq AS n FROM received r) a WHERE a.n > 1",
        "WITH w AS (SELECT s.seq AS n FROM (sent s JOIN received r ON s.packet = r.packet)) SELECT w.n FROM w",
    ] {
        parse(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }
}

#[test]
fn numbers_with_exponents_are_decimals() {
    let guarded = parse("SELECT worker FROM sent WHERE worker > 1.5e3 OR worker < 2E-3").unwrap().guarded;
    assert!(guarded.contains("1500.0") && guarded.contains("0.002"), "{guarded}");
}

#[test]
fn an_aggregate_that_orders_is_one_that_is_selected() {
    let guarded =
        parse("SELECT worker, MAX(seq) FROM sent GROUP BY worker ORDER BY MAX(seq) DESC, worker").unwrap().guarded;
    assert!(guarded.ends_with("ORDER BY 2 DESC, \"worker\""), "{guarded}");
    let refused = refusal("SELECT worker FROM sent GROUP BY worker\nORDER BY COUNT(*)");
    assert!(refused.starts_with("SQL, line 2, column 10: ORDER BY COUNT(*)"), "{refused}");
}

#[test]
fn hostile_texts_are_refused_and_overflow_no_stack() {
    let deep = |open: &str, close: &str, n: usize| format!("SELECT {}1{}", open.repeat(n), close.repeat(n));
    assert!(refusal(&deep("(", ")", 900)).contains("levels deep"));
    assert!(refusal(&deep("NOT ", "", 1900)).contains("SQL, line 1, column "));
    assert!(refusal(&deep("- ", "", 1900)).contains("levels deep"));
    // At this depth it is taken for a name, not an expression.
    assert!(parse(&deep("CASE WHEN true THEN ", " END", 300)).is_ok());
    assert!(refusal(&deep("(SELECT ", ")", 400)).contains("levels deep"));
    assert!(refusal(&format!("SELECT * FROM {}sent{}", "(".repeat(900), ")".repeat(900))).contains("levels deep"));
    assert!(refusal(&deep("(", ")", 20_000)).contains("bytes"));
    assert!(refusal(&format!("SELECT 1{}", "+1".repeat(3000))).contains("words and marks"));
    assert!(parse(&format!("SELECT 1{}", "+1".repeat(900))).is_ok());
    assert!(parse(&format!("SELECT {}1", "1 = 1 OR ".repeat(400))).is_ok());
    assert!(refusal(&format!("SELECT {}", "\u{0}")).contains("SQL"));
}

/// polars keeps the names of subqueries in FROM for the whole statement.
#[test]
fn a_name_of_a_subquery_has_no_other_meaning() {
    for sql in [
        "WITH b AS (SELECT worker AS k FROM sent), x AS (SELECT SUM(b.k) AS s FROM (SELECT seq AS k FROM books) b) SELECT SUM(b.k) AS p FROM b",
        "WITH w AS (SELECT SUM(b.bytes) AS s FROM (SELECT bytes FROM sent) b) SELECT b.* FROM sent b CROSS JOIN w",
        "WITH b AS (SELECT seq AS x FROM sent) SELECT b.seq FROM sent b",
        "SELECT b.seq FROM sent b CROSS JOIN (SELECT b.n FROM (SELECT COUNT(*) AS n FROM books) b) w",
    ] {
        let said = refusal(sql);
        assert!(said.contains("\"b\" is the name of a") && said.contains("give each its own"), "{sql}: {said}");
    }
    for sql in [
        "SELECT b.n FROM (SELECT COUNT(*) AS n FROM books) b UNION ALL SELECT b.n FROM (SELECT COUNT(*) AS n FROM sent) b",
        "SELECT s.seq FROM sent s WHERE s.seq IN (SELECT s.seq FROM books s)",
        "WITH w AS (SELECT seq FROM sent) SELECT w.seq FROM w AS w",
    ] {
        assert!(parse(sql).is_ok(), "{sql}");
    }
}

#[test]
fn what_is_summed_is_guarded_and_counts_are_wide() {
    let guarded = parse("SELECT sum(bytes), COUNT(*) - 1 FROM sent").unwrap().guarded;
    assert!(guarded.contains("sum(pktgen_summed(\"bytes\"))"), "{guarded}");
    assert!(guarded.contains("CAST(COUNT(*) AS BIGINT) - 1"), "{guarded}");
    let guarded = parse("SELECT sum(DISTINCT seq) OVER (PARTITION BY worker) FROM sent").unwrap().guarded;
    assert!(guarded.contains("sum(DISTINCT pktgen_summed(\"seq\")) OVER"), "{guarded}");
    let guarded = parse("SELECT worker, TOTAL(bytes) FROM sent GROUP BY worker ORDER BY TOTAL(bytes)").unwrap().guarded;
    assert!(guarded.contains("TOTAL(pktgen_summed(\"bytes\"))") && guarded.ends_with("ORDER BY 2"), "{guarded}");
}

#[test]
fn every_column_stands_in_a_list_without_quotes() {
    let tables = of_runs(&[]);
    for table in &tables {
        for name in table.names() {
            let sql = format!("SELECT 1, {name} AS x FROM {} WHERE {name} = {name} GROUP BY 1, {name}", table.name);
            // The word that ends a CASE, and the one that begins GROUP BY.
            if !["end", "group"].contains(&name) {
                Statement::parse(&sql, &tables).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
            }
        }
    }
}

/// The parser takes all that follows for the right side.
#[test]
fn is_distinct_from_stands_in_brackets_before_and() {
    for condition in [
        "block IS DISTINCT FROM worker AND seq > 3",
        "block IS NOT DISTINCT FROM worker OR seq > 3",
        "seq > 3 AND block IS DISTINCT FROM worker OR seq = 1",
        "block IS DISTINCT FROM worker IS NULL",
    ] {
        let said = refusal(&format!("SELECT seq FROM sent WHERE {condition}"));
        assert!(said.contains("needs brackets") && said.starts_with("SQL, line 1, column "), "{condition}: {said}");
    }
    let said = refusal("SELECT COUNT(*) FILTER (WHERE block IS DISTINCT FROM worker AND seq > 3) AS n FROM sent");
    assert!(said.contains("needs brackets"), "{said}");
    for condition in [
        "(block IS DISTINCT FROM worker) AND seq > 3",
        "seq > 3 AND block IS NOT DISTINCT FROM worker",
        "block IS DISTINCT FROM worker + 1",
    ] {
        parse(&format!("SELECT seq FROM sent WHERE {condition}"))
            .unwrap_or_else(|fault| panic!("{condition}: {fault}"));
    }
}

#[test]
fn queries_of_aggregates_within_others_are_one_row() {
    for (sql, is_one) in [
        ("SELECT COUNT(*) AS n FROM (SELECT MEDIAN(seq) AS v FROM sent) q", true),
        ("WITH w AS (SELECT 2 * ROUND(AVG(bytes), 1) AS v, 'x' AS l FROM sent) SELECT l FROM w", true),
        ("SELECT COUNT(*) AS n FROM (SELECT CORR(seq, bytes) AS v FROM sent ORDER BY v LIMIT 1) q", true),
        ("SELECT MEDIAN(seq) AS v FROM sent", false),
        ("SELECT COUNT(*) AS n FROM (SELECT worker, MEDIAN(seq) AS v FROM sent GROUP BY worker) q", false),
        ("SELECT COUNT(*) AS n FROM (SELECT seq, SUM(bytes) OVER () AS v FROM sent) q", false),
        ("SELECT COUNT(*) AS n FROM (SELECT seq FROM sent) q", false),
        ("SELECT COUNT(*) AS n FROM (SELECT 1 AS v FROM sent) q", false),
    ] {
        let statement = parse(sql).unwrap();
        assert_eq!(statement.guarded.contains("SELECT DISTINCT"), is_one, "{}", statement.guarded);
        assert!(!statement.is_distinct(), "{sql}");
    }
    assert!(parse("SELECT DISTINCT seq FROM sent").unwrap().is_distinct());
}

#[test]
fn one_row_has_no_order() {
    for sql in [
        "SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent ORDER BY v",
        "SELECT COUNT(*) AS n, CORR(seq, worker) AS v FROM sent ORDER BY n DESC LIMIT 1",
        "SELECT v FROM (SELECT QUANTILE_DISC(seq, 0.5) AS v FROM sent ORDER BY v) q",
    ] {
        let guarded = parse(sql).unwrap().guarded;
        assert!(!guarded.contains("ORDER BY"), "{guarded}");
    }
}

#[test]
fn what_is_true_or_not_is_never_empty() {
    for (condition, written) in [
        ("last IS TRUE", "COALESCE(\"last\", false)"),
        ("last IS NOT TRUE", "(NOT COALESCE(\"last\", false))"),
        ("last IS FALSE", "(NOT COALESCE(\"last\", true))"),
        ("last IS NOT FALSE", "COALESCE(\"last\", true)"),
        ("last IS UNKNOWN", "\"last\" IS NULL"),
        ("last IS NOT UNKNOWN", "\"last\" IS NOT NULL"),
        ("NOT (part > 0 AND last) IS TRUE", "NOT COALESCE((\"part\" > 0 AND \"last\"), false)"),
    ] {
        let guarded = parse(&format!("SELECT packet FROM received WHERE {condition}")).unwrap().guarded;
        assert!(guarded.ends_with(&format!("WHERE {written}")), "{guarded}");
    }
}

/// Polars would order by the column of the answer.
#[test]
fn order_by_a_column_with_its_table_is_by_that_column() {
    let from = "FROM sent a JOIN books b ON a.packet = b.packet_in";
    for (columns, keys) in [
        ("b.seq", "a.seq"),
        ("b.*, a.seq AS x", "a.seq"),
        ("b.seq AS x, -a.worker AS seq", "b.node, ABS(a.seq)"),
        ("MAX(b.seq) AS seq", "a.seq"),
    ] {
        let grouped = if columns.starts_with("MAX") { "GROUP BY a.seq " } else { "" };
        let said = refusal(&format!("SELECT {columns} {from} {grouped}ORDER BY {keys}"));
        assert!(said.contains("\"seq\" of the answer is another column: select a.seq AS x"), "{said}");
    }
    assert!(refusal("SELECT -seq AS seq FROM sent ORDER BY sent.seq").contains("is another column"));
    for (columns, keys) in [
        ("b.seq", "b.seq"),
        ("b.seq AS seq", "b.seq"),
        ("b.node", "a.seq"),
        ("b.seq AS x", "a.seq, b.seq"),
        ("b.seq, a.seq AS x", "a.seq"),
        ("a.seq AS x, b.*", "a.seq"),
        ("b.worker, MAX(b.seq) AS seq", "MAX(b.seq)"),
    ] {
        let grouped = if columns.contains("MAX") { "GROUP BY b.worker " } else { "" };
        let sql = format!("SELECT {columns} {from} {grouped}ORDER BY {keys}");
        parse(&sql).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }
    parse("SELECT seq FROM sent ORDER BY sent.seq").unwrap();
}

/// Polars would repeat the aggregate for each row.
#[test]
fn a_column_beside_an_aggregate_needs_group_by() {
    for (sql, says) in [
        ("SELECT seq, MAX(bytes) AS m FROM sent", "SQL, line 1, column 8: seq has a value for each row"),
        (
            "SELECT seq, MAX(bytes) AS m FROM sent",
            "GROUP BY seq, write MAX(seq) if it has one value only, or MAX(bytes) OVER ()",
        ),
        ("SELECT COUNT(*) - worker AS n FROM sent", "worker has a value for each row, and COUNT(*)"),
        ("SELECT *, MEDIAN(seq) AS m FROM sent", "SQL, line 1, column 8: * has"),
        (
            "SELECT SUM(s.bytes) / q.n AS m FROM sent s CROSS JOIN (SELECT COUNT(*) AS n FROM books) q",
            "write MAX(q.n) if it has one value only",
        ),
        ("SELECT n FROM (SELECT seq AS n, MAX(bytes) AS m FROM sent) q", "column 23: seq has"),
    ] {
        let said = refusal(sql);
        assert!(said.contains(says), "{sql}: {said}");
    }
    for sql in [
        "SELECT MAX(seq) - MIN(seq) AS n, 'x' AS l FROM sent",
        "SELECT SUM(s.bytes) / MAX(q.n) AS m FROM sent s CROSS JOIN (SELECT COUNT(*) AS n FROM books) q",
        "SELECT seq, MAX(bytes) OVER () AS m FROM sent",
        "SELECT COUNT(*) FILTER (WHERE seq > 1) AS n, QUANTILE_DISC(ABS(seq), 0.5) AS q FROM sent",
        "SELECT worker, MAX(seq) AS m FROM sent GROUP BY worker",
        "SELECT worker, MAX(seq) AS m FROM sent GROUP BY ALL",
    ] {
        parse(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }
}

#[test]
fn having_may_have_columns_of_group_by() {
    for (sql, having) in [
        (
            "SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker HAVING worker > 1 AND COUNT(*) > 5",
            "HAVING MIN(\"worker\") > 1 AND CAST(COUNT(*) AS BIGINT) > 5",
        ),
        (
            "SELECT s.worker, COUNT(*) AS n FROM sent s GROUP BY s.worker HAVING worker IN (1, 2) OR s.worker IS NULL",
            "HAVING MIN(s.\"worker\") IN (1, 2) OR MIN(s.\"worker\") IS NULL",
        ),
        (
            "SELECT worker, COUNT(*) AS n FROM sent GROUP BY 1 HAVING worker < MAX(worker + seq)",
            "HAVING MIN(\"worker\") < MAX(\"worker\" + \"seq\")",
        ),
        ("SELECT worker % 3 AS k, COUNT(*) AS n FROM sent GROUP BY 1 HAVING k > 1", "HAVING MIN(\"worker\" % 3) > 1"),
        // A column that is no key has the name, too.
        (
            "SELECT worker % 3 AS seq, COUNT(*) AS n FROM sent GROUP BY 1 HAVING seq > 1",
            "HAVING MIN(\"worker\" % 3) > 1",
        ),
        (
            "SELECT worker AS seq, COUNT(*) AS n FROM sent GROUP BY seq, worker HAVING seq > 1",
            "HAVING MIN(\"seq\") > 1",
        ),
        ("SELECT worker, COUNT(*) AS total FROM sent GROUP BY worker HAVING total > 1", "HAVING total > 1"),
    ] {
        let guarded = parse(sql).unwrap().guarded;
        assert!(guarded.ends_with(having), "{guarded}");
    }
}

/// Queries in FROM have columns as tables have.
#[test]
fn names_in_group_by_are_those_of_queries_too() {
    for sql in [
        "SELECT s % 2 AS w, COUNT(*) AS n FROM (SELECT worker AS w, seq AS s FROM sent) q GROUP BY w",
        "SELECT q.s AS w, COUNT(*) AS n FROM (SELECT worker, seq FROM sent UNION ALL SELECT worker, seq FROM books) q(w, s) GROUP BY w",
        "WITH q AS (SELECT worker AS w, seq AS s FROM sent) SELECT s % 2 AS w, COUNT(*) AS n FROM q GROUP BY w",
        "WITH q(w, s) AS (SELECT worker, seq FROM sent), p AS (SELECT * FROM q) \
         SELECT s AS w, COUNT(*) AS n FROM p GROUP BY w UNION ALL SELECT worker, seq FROM books",
        "SELECT x.w FROM (SELECT s AS w, COUNT(*) AS n FROM (SELECT worker AS w, seq AS s FROM sent) q GROUP BY w) x",
    ] {
        let said = refusal(sql);
        assert!(said.contains("GROUP BY w is a column of FROM, and \"w\" of the answer is"), "{sql}: {said}");
    }
    let joined =
        "FROM (SELECT worker AS w, seq AS s FROM sent) p JOIN (SELECT worker AS w, seq AS s FROM books) q ON p.w = q.w";
    let guarded = parse(&format!("SELECT p.w + 1 AS s, COUNT(*) AS n {joined} GROUP BY s")).unwrap().guarded;
    assert!(guarded.ends_with("GROUP BY 1"), "{guarded}");
    // Polars may call MAX(seq) seq.
    for name in ["seq", "node"] {
        let from = "FROM (SELECT worker AS w, MAX(seq) FROM sent GROUP BY worker) q";
        let guarded = parse(&format!("SELECT w + 1 AS {name}, COUNT(*) AS n {from} GROUP BY {name}")).unwrap().guarded;
        assert!(guarded.ends_with(&format!("GROUP BY \"{name}\"")), "{guarded}");
    }
}

#[test]
fn expressions_of_aggregates_order_if_they_are_selected() {
    let sql = "SELECT worker, COUNT(*) * 2 AS n FROM sent GROUP BY worker ORDER BY COUNT(*) * 2 DESC, worker";
    let guarded = parse(sql).unwrap().guarded;
    assert!(guarded.ends_with("ORDER BY 2 DESC, \"worker\""), "{guarded}");
    let said = refusal("SELECT worker, COUNT(*) AS n FROM sent GROUP BY worker ORDER BY COUNT(*) + 1");
    assert!(said.contains("select it with a name, and order by that"), "{said}");
}

#[test]
fn renamed_columns_group_by_position() {
    let from = "FROM sent a JOIN books b ON a.packet = b.packet_in";
    for (columns, keys, written) in [
        ("b.seq AS x, COUNT(*) AS n", "b.seq", "1"),
        ("COUNT(*) AS n, b.seq AS x, a.worker", "a.worker, b.seq", "a.\"worker\", 2"),
        ("a.seq AS x, COUNT(*) AS n", "a.seq", "a.\"seq\""),
        ("b.seq, COUNT(*) AS n", "b.seq", "b.\"seq\""),
    ] {
        let guarded = parse(&format!("SELECT {columns} {from} GROUP BY {keys}")).unwrap().guarded;
        assert!(guarded.ends_with(&format!("GROUP BY {written}")), "{guarded}");
    }
}

#[test]
fn columns_of_a_subquery_beside_a_join_have_their_table() {
    let from = "FROM sent s JOIN received r ON s.packet = r.packet WHERE";
    for (condition, written) in [
        (
            "s.packet NOT IN (SELECT packet FROM received WHERE accepted ORDER BY packet LIMIT 3)",
            "s.\"packet\" NOT IN (SELECT received.\"packet\" FROM received WHERE received.\"accepted\" ORDER BY 1 LIMIT 3)",
        ),
        (
            "s.worker IN (SELECT x.worker FROM sent x WHERE bytes = 64 AND seq IN (SELECT seq FROM books))",
            "s.\"worker\" IN (SELECT x.\"worker\" FROM sent x WHERE x.\"bytes\" = 64 AND x.\"seq\" IN (SELECT books.\"seq\" FROM books))",
        ),
        (
            "seq IN (SELECT node - 1 AS seq FROM books ORDER BY seq LIMIT 1)",
            "\"seq\" IN (SELECT books.\"node\" - 1 AS seq FROM books ORDER BY \"seq\" LIMIT 1)",
        ),
    ] {
        let guarded = parse(&format!("SELECT s.seq AS n {from} {condition}")).unwrap().guarded;
        assert!(guarded.ends_with(&format!("WHERE {written}")), "{guarded}");
    }
    let guarded = parse("SELECT seq FROM sent WHERE packet IN (SELECT packet FROM received)").unwrap().guarded;
    assert!(guarded.ends_with("(SELECT \"packet\" FROM received)"), "{guarded}");
}

/// Polars would have one row.
#[test]
fn lists_of_constants_need_a_column() {
    for sql in ["SELECT 4 IN (1, 4) AS a FROM sent", "SELECT 1 AS b, CASE WHEN 4 IN (1, 4) THEN 1 END AS a FROM sent"] {
        let said = refusal(sql);
        assert!(said.contains("4 IN (1, 4) is of no column"), "{sql}: {said}");
    }
    for sql in [
        "SELECT 4 IN (1, 4) AS a",
        "SELECT 4 IN (1, 4) AS a, seq FROM sent",
        "SELECT seq IN (1, 4) AS a FROM sent",
        "SELECT 4 IN (1, 4) AS a, COUNT(*) AS n FROM sent",
        "SELECT 4 IN (1, 4) AS a FROM sent GROUP BY worker",
    ] {
        parse(sql).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }
}
