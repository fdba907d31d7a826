//! Tests of joins: refusals, and answers against nested loops.

use pktgen_records::testing::Dice;
use polars::prelude::*;
use polars::sql::SQLContext;

use crate::statement::Statement;
use crate::tables::of_runs;

fn refusal(sql: &str) -> String {
    match Statement::parse(sql, &of_runs(&[])) {
        Ok(statement) => panic!("{sql} was taken for {}", statement.guarded),
        Err(error) => error.to_string(),
    }
}

fn guarded(sql: &str) -> String {
    Statement::parse(sql, &of_runs(&[])).unwrap_or_else(|fault| panic!("{sql}: {fault}")).guarded
}

#[test]
fn the_joined_table_is_on_the_right() {
    for (from, arranged) in [
        (
            "sent s JOIN fates f ON f.packet = s.packet LEFT JOIN fates g ON g.packet = f.aggregate",
            "sent s JOIN fates f ON s.\"packet\" = f.\"packet\" LEFT JOIN fates g ON f.\"aggregate\" = g.\"packet\"",
        ),
        (
            "received r JOIN sent s ON r.packet = s.packet JOIN books k ON (k.worker = s.worker) AND ABS(k.attempt) = s.seq",
            "received r JOIN sent s ON r.\"packet\" = s.\"packet\" JOIN books k ON s.\"worker\" = k.\"worker\" AND s.\"seq\" = ABS(k.\"attempt\")",
        ),
        (
            "(sent s JOIN fates f ON f.packet = s.packet) ANTI JOIN books k ON k.attempt = s.seq",
            "sent s JOIN fates f ON s.\"packet\" = f.\"packet\" ANTI JOIN books k ON s.\"seq\" = k.\"attempt\"",
        ),
        (
            "sent s ANTI JOIN fates f ON ((f.packet = s.packet))",
            "sent s ANTI JOIN fates f ON s.\"packet\" = f.\"packet\"",
        ),
        ("sent a JOIN books b ON b.seq - 1 = a.seq", "sent a JOIN books b ON a.\"seq\" = (b.\"seq\" - 1)"),
        ("sent JOIN books ON packet_in = packet", "sent JOIN books ON \"packet\" = \"packet_in\""),
        (
            "sent s, fates f JOIN books b ON b.packet_in = f.packet",
            "sent s CROSS JOIN fates f JOIN books b ON f.\"packet\" = b.\"packet_in\"",
        ),
        (
            "sent s, (fates f JOIN books b ON b.packet_in = f.packet)",
            "sent s CROSS JOIN fates f JOIN books b ON f.\"packet\" = b.\"packet_in\"",
        ),
        (
            "received a JOIN received b ON a.cluster = b.cluster AND b.count > 2 AND b.count = a.count + 1 AND b.bytes > a.bytes + 1",
            "received a JOIN received b ON a.\"cluster\" = b.\"cluster\" AND a.\"count\" + 1 = b.\"count\" AND b.\"bytes\" > a.\"bytes\" + 1 WHERE b.\"count\" > 2",
        ),
        // Conditions that are written twice.
        (
            "sent a JOIN books b ON a.packet = b.packet_in AND (b.packet_in = a.packet AND a.seq = b.seq)",
            "sent a JOIN books b ON a.\"packet\" = b.\"packet_in\" AND a.\"seq\" = b.\"seq\"",
        ),
        // Other conditions of inner joins are those of WHERE.
        (
            "sent s JOIN books b ON b.worker = s.worker AND b.seq = 0 AND (b.action IN ('merged', 'dropped') OR s.seq < b.seq)",
            "sent s JOIN books b ON s.\"worker\" = b.\"worker\" WHERE (b.\"seq\" = 0) AND (b.\"action\" IN ('merged', 'dropped') OR s.\"seq\" < b.\"seq\")",
        ),
        (
            "received a RIGHT JOIN received b ON a.packet = b.packet JOIN received c ON a.cluster = c.cluster AND c.newest_seq - a.count = b.count WHERE a.count = 1 OR b.count = 1",
            "received a RIGHT JOIN received b ON a.\"packet\" = b.\"packet\" JOIN received c ON a.\"cluster\" = c.\"cluster\" WHERE (a.\"count\" = 1 OR b.\"count\" = 1) AND (c.\"newest_seq\" - a.\"count\" = b.\"count\")",
        ),
        (
            "sent s JOIN books b ON s.worker = b.worker AND ABS(s.seq - b.seq) < 2 AND COALESCE(b.reason, 'x') = 'x'",
            "sent s JOIN books b ON s.\"worker\" = b.\"worker\" WHERE (ABS(s.\"seq\" - b.\"seq\") < 2) AND (COALESCE(b.\"reason\", 'x') = 'x')",
        ),
        (
            "sent s JOIN books b ON s.packet = b.packet_in AND b.seq = b.node LEFT JOIN fates f ON s.packet = f.packet",
            "sent s JOIN books b ON s.\"packet\" = b.\"packet_in\" LEFT JOIN fates f ON s.\"packet\" = f.\"packet\" WHERE b.\"seq\" = b.\"node\"",
        ),
    ] {
        let text = guarded(&format!("SELECT 1 AS x FROM {from}"));
        assert_eq!(text, format!("SELECT 1 AS x FROM {arranged}"), "{from}");
    }
    for sql in [
        "WITH x AS (SELECT seq AS n FROM sent), y AS (SELECT seq AS m FROM books) SELECT n FROM x JOIN y ON m = n",
        "SELECT s.seq FROM sent s NATURAL JOIN books",
        "SELECT s.seq FROM sent s LEFT JOIN fates f USING (packet) LEFT JOIN received r USING (packet)",
        "SELECT s.seq FROM sent s ANTI JOIN books b ON s.packet = b.packet_in WHERE s.seq IN (SELECT b.seq FROM books b)",
    ] {
        guarded(sql);
    }
}

#[test]
fn conditions_that_polars_would_evaluate_on_the_other_table_are_refused() {
    let sides = "compares a column of the joined table with one of an earlier table";
    let mixed = "has the joined table on one side and earlier tables on the other";
    let others = "by = or < (a.x = b.y): put other conditions into WHERE";
    let many = "by more than 3 columns that may be empty is refused";
    for (from, says) in [
        ("received a JOIN received b ON b.count = 2", sides),
        ("sent s JOIN books b ON s.packet = b.packet_in AND b.seq = node", sides),
        (
            "received a JOIN received b ON a.cluster = b.cluster AND b.count = 2 FULL JOIN sent s ON a.packet = s.packet",
            sides,
        ),
        ("received a JOIN received b ON ABS(b.count) = 2", sides),
        ("received a LEFT JOIN received b ON a.cluster = b.cluster AND b.newest_seq = b.count", sides),
        ("sent a JOIN sent b ON b.seq - a.seq > 1", mixed),
        ("sent s JOIN books b ON s.packet = b.packet_in AND b.seq = seq", "seq is a column of several tables"),
        ("sent s JOIN (SELECT seq AS n, worker FROM books) b ON b.worker = n", sides),
        ("sent s JOIN (SELECT seq, worker AS n FROM books) b ON b.n = seq", "seq needs its table in ON"),
        ("sent a JOIN fates f ON a.attempt = f.seq OR a.seq = f.seq", others),
        ("sent s JOIN books b ON s.worker = b.worker AND action IS NOT NULL", others),
        ("sent s JOIN books b ON s.worker < b.worker AND b.reason IS NULL", others),
        ("sent s JOIN books b ON s.worker = b.worker AND (action = 'merged' OR reason = 'queue_full')", others),
        ("received a JOIN books b ON a.part IS NOT DISTINCT FROM b.seq", others),
        ("sent a JOIN fates f ON a.seq = (SELECT MAX(seq) FROM books)", "a subquery in ON is refused"),
        ("sent JOIN sent ON sent.seq = sent.attempt", "two tables of FROM have the name \"sent\""),
        ("sent s JOIN books s ON s.seq = s.attempt", "two tables of FROM have the name \"s\""),
        ("sent a RIGHT SEMI JOIN books b ON a.attempt = b.seq", "RIGHT SEMI and RIGHT ANTI JOIN are refused"),
        ("sent a RIGHT ANTI JOIN books b USING (seq)", "RIGHT SEMI and RIGHT ANTI JOIN are refused"),
        ("sent a FULL JOIN fates b USING (packet)", "USING of a RIGHT or FULL JOIN is refused"),
        ("sent a LEFT JOIN fates f ON a.packet = f.packet JOIN books b USING (seq)", "a column of several tables"),
        ("sent a JOIN (fates f JOIN books b ON f.packet = b.packet_in) ON f.packet = a.packet", "a join in brackets"),
        ("(sent a JOIN fates f ON f.packet = a.packet) x", "a join in brackets"),
        ("sent a, fates f RIGHT JOIN books b ON f.packet = b.packet_in", "behind a comma of FROM is refused"),
        ("received a JOIN received b USING (packet, job, heat, part, last)", many),
        (
            "received a SEMI JOIN received b ON a.job = b.job AND a.heat = b.heat AND (b.part = a.part) AND a.last = b.last",
            many,
        ),
        ("received a NATURAL JOIN received b", many),
        ("sent s NATURAL JOIN (SELECT packet FROM fates) f", "or are those of a subquery"),
        ("sent s NATURAL LEFT JOIN fates f", "NATURAL of a LEFT, RIGHT or FULL JOIN is refused"),
        ("sent s NATURAL FULL JOIN fates f", "NATURAL of a LEFT, RIGHT or FULL JOIN is refused"),
        ("sent s, books b NATURAL JOIN fates f", "behind a comma of FROM is refused"),
        ("sent s, received r JOIN books k ON k.packet_in = packet", "packet may be a column of several tables"),
        (
            "sent s JOIN received r ON s.worker = r.newest_worker JOIN books k ON k.packet_in = packet",
            "packet may be a column of several tables",
        ),
        ("(SELECT packet FROM sent) a, received r JOIN fates f USING (packet)", "\"packet\" of USING may be"),
        (
            "sent s JOIN received r ON s.worker = r.newest_worker NATURAL JOIN fates f",
            "of this NATURAL JOIN may be of several tables",
        ),
        (
            "sent a JOIN fates b USING (packet) JOIN received c ON a.worker = c.newest_worker JOIN fates d USING (packet)",
            "\"packet\" of USING may be",
        ),
        (
            "sent s SEMI JOIN books b ON s.packet = b.packet_in JOIN fates f ON f.seq = b.seq",
            "b.seq is of no table that is joined here or before",
        ),
        (
            "sent s SEMI JOIN books b ON s.packet = b.packet_in WHERE b.seq > 1",
            "b.seq is of a semi or anti join, whose columns stand in its ON only",
        ),
    ] {
        let refused = refusal(&format!("SELECT 1 AS x FROM {from}"));
        assert!(refused.contains(says) && refused.starts_with("SQL, line 1, column "), "{from}: {refused}");
    }
}

/// WHERE would leave out rows that a later join adds, or that have no partner.
#[test]
fn conditions_go_where_they_choose_the_same_rows() {
    let joined = "FROM sent a JOIN books b ON a.packet = b.packet_in";
    let behind = "RIGHT JOIN received r ON r.node = b.node";
    for condition in ["b.seq = 4", "b.seq - a.seq > 1"] {
        let said = refusal(&format!("SELECT a.seq AS x {joined} AND {condition} {behind}"));
        assert!(said.contains("into a subquery in place of the table") && !said.contains("into WHERE"), "{said}");
    }
    let said = refusal("SELECT 1 AS x FROM received a JOIN received b ON b.count = 2");
    assert!(said.contains("into WHERE"), "{said}");
    let keys = "a.job = b.job AND a.heat = b.heat AND a.part = b.part AND a.last = b.last";
    for (kind, is_inner) in [("", true), ("LEFT", false), ("RIGHT", false), ("ANTI", false)] {
        let said = refusal(&format!("SELECT a.count AS x FROM received a {kind} JOIN received b ON {keys}"));
        assert_eq!(said.contains("the others in WHERE"), is_inner, "{said}");
    }
}

#[test]
fn columns_of_semi_joins_stand_in_their_on_only() {
    let joined = "FROM sent s SEMI JOIN books b ON s.packet = b.packet_in";
    for (sql, column) in [
        (format!("SELECT s.seq AS n {joined} ORDER BY b.seq LIMIT 5"), "b.seq"),
        (format!("SELECT s.seq AS n {joined} ORDER BY s.worker, ABS(b.seq)"), "b.seq"),
        (format!("SELECT n FROM (SELECT s.seq AS n {joined} ORDER BY b.seq LIMIT 5) x"), "b.seq"),
        (
            "SELECT s.seq AS n FROM (sent s ANTI JOIN books b ON s.packet = b.packet_in) ORDER BY b.seq".to_owned(),
            "b.seq",
        ),
        (format!("SELECT b.* {joined}"), "b.*"),
        (format!("SELECT DISTINCT ON (b.seq) s.seq AS n {joined}"), "b.seq"),
    ] {
        let refused = refusal(&sql);
        assert!(refused.contains(&format!("{column} is of a semi or anti join")), "{sql}: {refused}");
    }
    guarded(&format!("SELECT s.* {joined} ORDER BY s.seq"));
}

#[test]
fn few_comparisons_stand_beside_commas() {
    let where_ = "WHERE a.job = b.job AND a.heat = b.heat AND a.part = b.part";
    for from in ["received a, received b", "received a CROSS JOIN received b"] {
        let refused = refusal(&format!("SELECT COUNT(*) AS n FROM {from} {where_} AND a.last = b.last"));
        assert!(refused.contains("more than 3 comparisons by = in WHERE are refused"), "{from}: {refused}");
        guarded(&format!("SELECT COUNT(*) AS n FROM {from} {where_} AND a.count = 2"));
    }
    guarded(&format!(
        "SELECT COUNT(*) AS n FROM received a JOIN received b ON a.packet = b.packet {where_} AND a.last = b.last"
    ));
}

type Row = [Option<i64>; 3];

const COLUMNS: [&str; 3] = ["worker", "seq", "attempt"];
const TABLES: [&str; 3] = ["sent", "books", "fates"];
const ALIASES: [&str; 4] = ["a", "b", "c", "d"];
const KINDS: [&str; 6] = ["", "LEFT ", "SEMI ", "ANTI ", "RIGHT ", "FULL "];

/// Joins by loops. A condition is an earlier table, its column, and the column of the joined table.
fn joined(
    rows: &[Vec<Option<Row>>],
    new: &[Row],
    kind: &str,
    on: &[(usize, usize, usize)],
    earlier: usize,
) -> Vec<Vec<Option<Row>>> {
    let fits = |row: &[Option<Row>], other: &Row| {
        on.iter().all(|(table, left, right)| {
            let value = row[*table].and_then(|cells| cells[*left]);
            value.is_some() && value == other[*right]
        })
    };
    let with = |row: &[Option<Row>], other: Option<Row>| {
        let mut row = row.to_vec();
        row.push(other);
        row
    };
    let mut all = Vec::new();
    for row in rows {
        let found: Vec<Row> = new.iter().copied().filter(|other| fits(row, other)).collect();
        match kind {
            "SEMI " | "ANTI " => {
                if found.is_empty() == (kind == "ANTI ") {
                    all.push(with(row, None));
                }
            }
            _ => {
                all.extend(found.iter().map(|other| with(row, Some(*other))));
                if found.is_empty() && matches!(kind, "LEFT " | "FULL ") {
                    all.push(with(row, None));
                }
            }
        }
    }
    if matches!(kind, "RIGHT " | "FULL ") {
        let alone = new.iter().filter(|other| !rows.iter().any(|row| fits(row, other)));
        all.extend(alone.map(|other| with(&vec![None; earlier], Some(*other))));
    }
    all
}

/// Returns the answer of polars, as sorted lines.
fn answer(sql: &str, data: &[Vec<Row>]) -> Vec<String> {
    let mut context = SQLContext::new();
    for (name, rows) in TABLES.iter().zip(data) {
        let column = |at: usize| rows.iter().map(|row| row[at]).collect::<Vec<Option<i64>>>();
        let frame = df!(COLUMNS[0] => column(0), COLUMNS[1] => column(1), COLUMNS[2] => column(2)).unwrap();
        context.register(name, frame.lazy());
    }
    let frame = context.execute(&guarded(sql)).and_then(|frame| frame.collect());
    let frame = frame.unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    let cell = |row: usize, column: &Column| match column.get(row).unwrap() {
        AnyValue::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let line = |row| frame.columns().iter().map(|column| cell(row, column)).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = (0..frame.height()).map(line).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn chains_of_joins_have_the_rows_that_loops_find() {
    let mut dice = Dice::new(7);
    let mut below = |most: usize| (dice.uniform() * most as f64) as usize;
    let mut data: Vec<Vec<Row>> = Vec::new();
    for _ in TABLES {
        let mut cell = || Some(below(5) as i64).filter(|value| *value < 4);
        data.push((0..9).map(|_| [cell(), cell(), cell()]).collect());
    }
    for _ in 0..200 {
        let chosen: Vec<usize> = (0..2 + below(3)).map(|_| below(TABLES.len())).collect();
        let mut from = format!("{} a", TABLES[chosen[0]]);
        let mut rows: Vec<Vec<Option<Row>>> = data[chosen[0]].iter().map(|row| vec![Some(*row)]).collect();
        let mut visible = vec![0];
        // Without joins that add rows of the joined table, inner ones may have other conditions.
        let kinds = [KINDS.len(), 4][below(2)];
        for (new, table) in chosen.iter().enumerate().skip(1) {
            let (kind, left, right) = (KINDS[below(kinds)], below(3), below(3));
            let (mut on, mut texts) = (Vec::new(), Vec::new());
            for key in 0..1 + below(2) {
                let (table, left, right) = (visible[below(visible.len())], (left + key) % 3, (right + key) % 3);
                let earlier = format!("{}.{}", ALIASES[table], COLUMNS[left]);
                let own = format!("{}.{}", ALIASES[new], COLUMNS[right]);
                texts.push(if below(2) == 0 { format!("{earlier} = {own}") } else { format!("{own} = {earlier}") });
                on.push((table, left, right));
            }
            from += &format!(" {kind}JOIN {} {} ON {}", TABLES[*table], ALIASES[new], texts.join(" AND "));
            let other =
                (kinds < KINDS.len() && kind.is_empty()).then(|| (visible[below(visible.len())], below(3), below(3)));
            rows = joined(&rows, &data[*table], kind, &on, new);
            if let Some((table, left, right)) = other {
                let (earlier, own) = (ALIASES[table], ALIASES[new]);
                let (a, b) = (COLUMNS[left], COLUMNS[right]);
                from += &format!(" AND (({own}.{b} = 2) OR {own}.{b} - {earlier}.{a} >= 1) AND {own}.{b} IN (1, 2, 3)");
                rows.retain(|row| {
                    let cell = |table: usize, column: usize| row[table].and_then(|cells| cells[column]);
                    let own = cell(new, right);
                    let is_ahead = own.zip(cell(table, left)).is_some_and(|(own, earlier)| own - earlier >= 1);
                    own.is_some_and(|own| own > 0) && (own == Some(2) || is_ahead)
                });
            }
            if !matches!(kind, "SEMI " | "ANTI ") {
                visible.push(new);
            }
        }
        let shown: Vec<(usize, usize)> =
            visible.iter().flat_map(|table| (0..3).map(move |column| (*table, column))).collect();
        let columns: Vec<String> = shown
            .iter()
            .enumerate()
            .map(|(at, (table, column))| format!("{}.{} AS z{at}", ALIASES[*table], COLUMNS[*column]))
            .collect();
        let cell = |row: &[Option<Row>], (table, column): (usize, usize)| {
            row[table].and_then(|cells| cells[column]).map_or("-".to_owned(), |value| value.to_string())
        };
        let line = |row: &Vec<Option<Row>>| shown.iter().map(|at| cell(row, *at)).collect::<Vec<_>>().join(" ");
        let mut expected: Vec<String> = rows.iter().map(line).collect();
        expected.sort_unstable();
        let sql = format!("SELECT {} FROM {from}", columns.join(", "));
        assert_eq!(answer(&sql, &data), expected, "{sql}");
    }
}

#[test]
fn commas_are_joins_by_where() {
    let cell = |at: usize, by: usize| Some((at / by % 4) as i64);
    let data: Vec<Vec<Row>> =
        (0..3).map(|of| (0..9).map(|at| [cell(at + of, 1), cell(at, 2), cell(at, 3)]).collect()).collect();
    let chosen = "SELECT a.seq AS x, b.worker AS y, c.attempt AS z FROM";
    let commas = format!("{chosen} sent a, books b, fates c WHERE b.seq = a.worker AND c.worker = b.attempt");
    let joins = format!("{chosen} sent a JOIN books b ON a.worker = b.seq JOIN fates c ON b.attempt = c.worker");
    let expected = answer(&joins, &data);
    assert!(!expected.is_empty());
    assert_eq!(answer(&commas, &data), expected);
    let mixed = format!("{chosen} sent a, books b JOIN fates c ON c.worker = b.attempt WHERE b.seq = a.worker");
    assert_eq!(answer(&mixed, &data), expected);
}
