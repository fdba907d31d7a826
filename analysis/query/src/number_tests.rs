//! Types and values of numbers, compared with values computed by hand.

use crate::answer_tests::{answers, refusals, tables_of_runs};
use crate::statement::Statement;

#[test]
fn sums_of_conditions_and_lengths_have_64_bits() {
    answers(&[
        ("SELECT SUM(last) - 10 AS a, SUM(NOT last) - SUM(last) AS b FROM received", "-8 -1"),
        (
            "SELECT sum_ok_code, SUM(last) - 10 AS a FROM received GROUP BY sum_ok_code ORDER BY sum_ok_code",
            "0 -9, 1 -10, - -9",
        ),
        ("SELECT t_recv_ps, SUM(last) OVER () - 10 AS a FROM received LIMIT 1", "1 -8"),
        ("SELECT MEDIAN(t_recv_ps) AS m, TOTAL(last) - 10 AS a FROM received", "2.5 -8"),
        ("SELECT worker FROM sent GROUP BY worker HAVING SUM(seq = 1) - SUM(seq > 1) < 0 ORDER BY worker", "0, 2"),
        (
            "SELECT CHARACTER_LENGTH('abc') - 20 AS a, POSITION('b' IN 'abc') - 5 AS b, seq FROM sent LIMIT 1",
            "-17 -3 0",
        ),
    ]);
}

#[test]
fn constants_have_64_bits() {
    answers(&[
        ("SELECT CASE WHEN seq >= 0 THEN 5000 ELSE 7000 END * 1000000 AS x FROM sent LIMIT 1", "5000000000"),
        ("SELECT SUM(CASE WHEN seq > 2 THEN 50000 ELSE 0 END * 100000) AS x FROM sent", "15000000000"),
        ("SELECT MAX(CASE WHEN seq > 2 THEN 50000 ELSE -(7) END) * 100000 AS x FROM sent", "5000000000"),
        (
            "WITH p AS (SELECT 5000 AS us) SELECT p.us * 1000000 AS x, seq FROM sent CROSS JOIN p LIMIT 1",
            "5000000000 0",
        ),
        (
            "SELECT q.us * 1000000 AS x FROM (SELECT worker, 5000 AS us FROM sent GROUP BY worker) q LIMIT 1",
            "5000000000",
        ),
        (
            "SELECT COALESCE(NULL, 5000) * 1000000 AS a, ABS(-5000) * 1000000 AS b, NULLIF(5000, seq) * 1000000 AS c, \
             IF(seq < 9, 5000, 1) * 1000000 AS d FROM sent LIMIT 1",
            "5000000000 5000000000 5000000000 5000000000",
        ),
        (
            "SELECT CAST(seq AS INT) * 2000000000 AS x, CAST(5000 AS SMALLINT) * 1000000 AS y FROM sent WHERE seq = 4",
            "8000000000 5000000000",
        ),
        ("SELECT seq FROM sent WHERE seq IN (CAST(1 AS INT), CAST(4 AS INT)) ORDER BY seq", "1, 4"),
        (
            "SELECT TRY_CAST(300 AS TINYINT) AS a, TRY_CAST(-1 AS UINTEGER) AS b, CAST(-128 AS TINYINT) * 1000000000 AS c, seq FROM sent LIMIT 1",
            "- - -128000000000 0",
        ),
    ]);
}

/// Polars would take the column of FROM with that name.
#[test]
fn having_has_names_of_numbers_with_signs() {
    answers(&[
        (
            "SELECT worker, -2 AS seq, COUNT(*) AS n FROM sent GROUP BY worker HAVING seq > worker - 4 ORDER BY worker",
            "0 -2 2, 1 -2 2",
        ),
        ("SELECT worker, (-(2)) AS seq, COUNT(*) AS n FROM sent GROUP BY worker HAVING -seq > worker + 1", "0 -2 2"),
        ("SELECT worker, +2 AS seq, COUNT(*) AS n FROM sent GROUP BY worker HAVING seq > worker + 1", "0 2 2"),
    ]);
}

#[test]
fn numbers_and_columns_may_have_several_signs() {
    answers(&[
        (
            "SELECT - -2 AS a, + -2 AS b, - (-2) AS c, - - -2 AS d, - + 2.5 AS e, seq FROM sent LIMIT 1",
            "2 -2 2 -2 -2.5 0",
        ),
        ("SELECT - -seq AS a, 1 - - -seq AS b, -(-seq) AS c, + -seq AS d FROM sent WHERE seq = 4", "4 -3 4 -4"),
        ("SELECT - - (seq + 1) AS a, ABS(- -5000) * 1000000 AS b FROM sent WHERE seq = 4", "5 5000000000"),
        ("SELECT seq FROM sent WHERE seq IN (- -1, -(-4)) ORDER BY seq DESC", "4, 1"),
    ]);
}

#[test]
fn casts_of_constants_refuse_what_their_type_does_not_hold() {
    for (cast, written) in [
        ("CAST(70000 AS SMALLINT)", "CAST(CAST(70000 AS SMALLINT) AS BIGINT)"),
        ("CAST(32768 AS SMALLINT)", "CAST(CAST(32768 AS SMALLINT) AS BIGINT)"),
        ("CAST(32767 AS SMALLINT)", "CAST(32767 AS BIGINT)"),
        ("CAST(-1 AS UINTEGER)", "CAST(CAST(-1 AS UINTEGER) AS BIGINT)"),
        ("CAST(4294967295 AS INT UNSIGNED)", "CAST(4294967295 AS BIGINT)"),
        ("CAST(4294967295 AS INT)", "CAST(CAST(4294967295 AS INT) AS BIGINT)"),
    ] {
        let statement = Statement::parse(&format!("SELECT {cast} AS x FROM sent"), &tables_of_runs());
        let statement = statement.unwrap_or_else(|fault| panic!("{cast}: {fault}"));
        assert!(statement.guarded.contains(&format!("SELECT {written} AS x")), "{}", statement.guarded);
    }
}

#[test]
fn powers_are_decimals() {
    answers(&[
        ("SELECT POWER(10, 12) = 1000000000000.0 AS p, POW(10, -2) = 0.01 AS q, seq FROM sent LIMIT 1", "true true 0"),
        ("SELECT POW(seq, 2) AS x, pow(seq + 1000, seq + 5) > 1e26 AS y FROM sent WHERE seq = 4", "16.0 true"),
        ("SELECT MAX(t_gen_ps) / POWER(10, 1) AS x FROM sent", "6.0"),
    ]);
}

/// Polars multiplies by the reciprocal of a constant: 49 * (1 / 49) is below 1.
#[test]
fn quotients_by_constants_are_exact() {
    answers(&[
        (
            "SELECT FLOOR(seq * 49 / 49) AS a, seq * 49 // 49.0 AS b, seq * 49 % 49.0 AS c FROM sent WHERE seq = 1",
            "1.0 1 0.0",
        ),
        (
            "SELECT MOD(seq * 49, 49.0) AS a, DIV(seq * 49, 49.0) AS b, MOD(seq, 2) AS c FROM sent WHERE seq = 1",
            "0.0 1 1",
        ),
        ("SELECT COUNT(*) AS n FROM sent WHERE seq / 10 = 0.3", "2"),
        ("SELECT (seq + 1) / 3 = 1.6666666666666667 AS x FROM sent WHERE seq = 4", "true"),
        ("SELECT CAST(seq * 103 / 103 AS BIGINT) AS x FROM sent ORDER BY seq LIMIT 3", "0, 1, 2"),
        ("SELECT MAX(seq) * 49 / 49 AS x, AVG(seq) // 0.5 AS y FROM sent", "4.0 4"),
        (
            "SELECT worker, (SUM(seq) - 1) / 10 = 0.3 AS x FROM sent GROUP BY worker ORDER BY worker",
            "0 true, 1 true, 2 false",
        ),
        (
            "SELECT seq / 10 AS x, COUNT(*) AS n FROM sent GROUP BY seq / 10 HAVING COUNT(*) / 2 = 1 ORDER BY seq / 10",
            "0.3 2",
        ),
        ("WITH q AS (SELECT seq / 10 AS x FROM sent) SELECT COUNT(*) AS n FROM q WHERE x = 0.3", "2"),
        ("SELECT COUNT(*) AS n FROM sent WHERE seq IN (SELECT seq * 49 / 49 AS x FROM books)", "4"),
        (
            "SELECT seq / 10 AS x FROM sent WHERE seq > 3 UNION ALL SELECT seq / 10 AS x FROM books WHERE seq = 3",
            "0.4, 0.3",
        ),
        ("SELECT 1 / seq AS x, seq / MAX(seq) OVER () AS y, -(seq / 2) AS z FROM sent WHERE seq = 4", "0.25 1.0 -2.0"),
        ("SELECT sum_ok_code / 2 AS x FROM received ORDER BY t_recv_ps", "0.0, 0.5, 0.0, -"),
        (
            "SELECT RANK() OVER (ORDER BY sum_ok_code / 2) AS r, t_recv_ps FROM received ORDER BY t_recv_ps",
            "2 1, 4 2, 2 3, 1 4",
        ),
    ]);
}

/// 28.7 / 0.1 rounds to 287, and 0.1 * 287 to more than 28.7.
#[test]
fn remainders_of_decimals_are_those_of_whole_quotients() {
    answers(&[
        (
            "SELECT seq * 7.175 % 0.1 > 0.09 AS x, seq * 7.175 % 0.1 < 0.1 AS y, seq * 7.175 // 0.1 AS z FROM sent WHERE seq = 4",
            "true true 286",
        ),
        ("SELECT seq * 25000000000000000.0 % 3.0 AS x FROM sent WHERE seq = 4", "1.0"),
        (
            "SELECT (seq - 7) % 2.0 AS a, (seq - 7) // 2.0 AS b, seq % -3.0 AS c, seq // -3.0 AS d, -seq % 2.0 AS e FROM sent WHERE seq = 4",
            "1.0 -2 -2.0 -2 0.0",
        ),
        ("SELECT seq // 0.0 AS x FROM sent WHERE seq = 4", "-"),
        ("SELECT DIV(seq * 7.175, 0.1) AS a, MOD(seq * 7.175, 0.1) > 0 AS b FROM sent WHERE seq = 4", "286 true"),
        (
            "SELECT RANK() OVER (ORDER BY sum_ok_code // 0.5) AS r, t_recv_ps FROM received ORDER BY t_recv_ps",
            "2 1, 4 2, 2 3, 1 4",
        ),
    ]);
}

/// Polars takes the type of the first row.
#[test]
fn values_have_one_type_of_64_bits() {
    answers(&[
        ("SELECT a * 1000000 AS x FROM (VALUES (5000), (NULL), (-7)) v(a)", "5000000000, -, -7000000"),
        ("SELECT v.a + 1 AS x, v.b FROM (VALUES (1, 'p'), (3000000000, 'q')) v(a, b)", "2 \"p\", 3000000001 \"q\""),
        ("SELECT * FROM (VALUES (1), (2.5)) v(a)", "1.0, 2.5"),
        ("SELECT * FROM (VALUES (2.5), (-1)) v(a)", "2.5, -1.0"),
        ("SELECT COUNT(*) AS n FROM sent WHERE seq IN (VALUES (1), (3))", "3"),
        ("SELECT COUNT(*) AS n FROM sent JOIN (VALUES (1), (3)) v(a) ON sent.seq = v.a", "3"),
        ("WITH w(a) AS (VALUES (2), (3)) SELECT a * 2000000000 AS x FROM w", "4000000000, 6000000000"),
        ("VALUES (TRUE), (FALSE)", "true, false"),
        ("SELECT a * 1000000 AS x FROM (VALUES ((5000)), (-(7)), (- -3)) v(a)", "5000000000, -7000000, 3000000"),
        ("SELECT * FROM (VALUES (2.5), (-(1)), ((3))) v(a)", "2.5, -1.0, 3.0"),
        ("SELECT COUNT(*) AS n FROM sent WHERE seq IN (1, +3, -2.5)", "3"),
        ("SELECT 1 AS a UNION ALL VALUES (2)", "1, 2"),
        ("VALUES ('c'), ('a'), ('b') ORDER BY 1 LIMIT 2", "\"a\", \"b\""),
        ("SELECT * FROM (VALUES (3.5), (1.5) ORDER BY 1 LIMIT 1) AS t(x)", "1.5"),
    ]);
    refusals(&[
        (
            "SELECT * FROM (VALUES (TRUE), (3)) v(a)",
            "line 1, column 32: 3 is of another type than the rows of VALUES before",
        ),
        ("VALUES ('x', 1), ('y', 'z')", "column 24: 'z' is of another type"),
        ("VALUES (1.5), (9007199254740993)", "9007199254740993 is beside decimals"),
        (
            "VALUES (1, NULL), (3)",
            "line 1, column 19: this row of VALUES has another number of cells (1) than the first one (2)",
        ),
        ("SELECT * FROM (VALUES (1), (2, 3)) v(a)", "has another number of cells (2) than the first one (1)"),
    ]);
}

/// BIGINT and UBIGINT together would be DOUBLE.
#[test]
fn constants_beside_a_column_have_its_type() {
    for sql in [
        "SELECT COALESCE(packet, 0) AS x FROM sent",
        "SELECT CASE WHEN seq > 1 THEN packet ELSE 7 END AS x FROM sent",
        "SELECT packet % 10 AS x, ROUND(reward, 2) AS y, SUBSTR(heat, 1, 2) AS z FROM sent ORDER BY 1 LIMIT 3",
    ] {
        let statement = Statement::parse(sql, &tables_of_runs()).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        assert!(!statement.guarded.contains("CAST"), "{}", statement.guarded);
    }
}

/// Polars would multiply 0.28 by 25 in f64, have more than 7, and take the 8th.
#[test]
fn discrete_quantiles_are_those_of_nearest_rank() {
    let rows = (1..=25).map(|v| format!("({v})")).collect::<Vec<_>>().join(", ");
    let of = |q: &str| format!("SELECT QUANTILE_DISC(v, {q}) AS x FROM (VALUES {rows}) t(v)");
    for (q, value) in [
        ("0.28", "7.0"),
        ("28e-2", "7.0"),
        ("(0.56)", "14.0"),
        ("0.29", "8.0"),
        ("0.0", "1.0"),
        ("0", "1.0"),
        ("1.0", "25.0"),
    ] {
        answers(&[(of(q).as_str(), value)]);
    }
    answers(&[(
        format!("SELECT v % 1 AS g, quantile_disc(v, 0.28) AS x FROM (VALUES {rows}) t(v) GROUP BY g").as_str(),
        "0 7.0",
    )]);
}

/// Polars calls functions by quoted names, too.
#[test]
fn functions_with_quoted_names_are_those_without_quotes() {
    let rows = (1..=25).map(|v| format!("({v})")).collect::<Vec<_>>().join(", ");
    for name in ["\"quantile_disc\"", "\"QUANTILE_DISC\""] {
        answers(&[(format!("SELECT {name}(v, 0.28) AS x FROM (VALUES {rows}) t(v)").as_str(), "7.0")]);
    }
    refusals(&[
        ("SELECT \"quantile_disc\"(bytes, 0.5) OVER (PARTITION BY worker) FROM sent", "QUANTILE_DISC with OVER"),
        ("SELECT \"count\"(*) AS n", "WHERE and COUNT without FROM are refused"),
        ("SELECT \"log\"(seq, 2) AS x FROM sent", "it is the logarithm of seq or of 2"),
    ]);
    for (quoted, plain) in [
        ("SELECT \"sum\"(bytes) AS x FROM sent", "SELECT sum(bytes) AS x FROM sent"),
        ("SELECT \"count\"(*) AS x FROM sent", "SELECT count(*) AS x FROM sent"),
        ("SELECT \"strpos\"(heat, 'o') AS x FROM sent", "SELECT strpos(heat, 'o') AS x FROM sent"),
    ] {
        let of = |sql: &str| Statement::parse(sql, &tables_of_runs()).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        let unquoted = ["sum", "count", "strpos"]
            .iter()
            .fold(of(quoted).guarded, |text, name| text.replace(&format!("\"{name}\""), name));
        assert_eq!(unquoted, of(plain).guarded);
    }
}
