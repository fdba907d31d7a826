//! Types and values of numbers, compared with values computed by hand.

use crate::answer_tests::{answers, tables_of_runs};
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
    ]);
}

#[test]
fn powers_are_decimals() {
    answers(&[
        ("SELECT POWER(10, 12) = 1000000000000.0 AS p, POW(10, -2) = 0.01 AS q, seq FROM sent LIMIT 1", "true true 0"),
        ("SELECT POW(seq, 2) AS x, pow(seq + 1000, seq + 5) > 1e26 AS y FROM sent WHERE seq = 4", "16.0 true"),
        ("SELECT MAX(t_gen_ps) / POWER(10, 1) AS x FROM sent", "6.0"),
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
