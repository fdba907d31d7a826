//! Two columns of one name in an answer or in GROUP BY: refused with the place of the second one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{Expr, GroupByExpr, Ident, Select, SelectItem};

use crate::place::at;

/// Refuses a second column of one name. Names that follow from wildcards and functions are left to polars.
pub(crate) fn refuse(select: &Select) -> ControlFlow<Error> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => name(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        _ => None,
    });
    if let Some(second) = second(named) {
        let name = &second.value;
        let what = format!(
            "two columns of the answer have the name \"{name}\": name them by AS (a.{name} AS x, b.{name} AS y)"
        );
        return ControlFlow::Break(at(second.span.start, what));
    }
    let GroupByExpr::Expressions(columns, _) = &select.group_by else { return ControlFlow::Continue(()) };
    if let Some(second) = second(columns.iter().filter_map(name)) {
        let name = &second.value;
        let what = format!(
            "two columns of GROUP BY have the name \"{name}\": name them by AS in the answer, and group by these names (SELECT a.{name} AS x, \
             b.{name} AS y … GROUP BY x, y)"
        );
        return ControlFlow::Break(at(second.span.start, what));
    }
    ControlFlow::Continue(())
}

/// Returns the name of a column that an expression is.
fn name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        Expr::Nested(inner) => name(inner),
        _ => None,
    }
}

/// Returns the first name that came before.
fn second<'a>(mut names: impl Iterator<Item = &'a Ident>) -> Option<&'a Ident> {
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(name.value.clone()))
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;
    use crate::tables::of_runs;

    #[test]
    fn the_place_is_that_of_the_second_column() {
        let from = "FROM sent a JOIN books b ON a.packet = b.packet_in";
        for (sql, marked) in [
            (format!("SELECT COUNT(a.seq) OVER () AS n, a.seq, b.^seq {from}"), "answer have the name \"seq\""),
            (format!("SELECT a.seq AS x, b.worker AS seq, a.^seq {from}"), "answer have the name \"seq\""),
            (
                format!("WITH t AS (SELECT seq FROM sent WHERE seq > 1) SELECT a.seq, b.^seq {from}"),
                "answer have the name \"seq\"",
            ),
            (
                format!(
                    "SELECT a.seq AS x, COUNT(*) AS n {from} WHERE a.seq IN (SELECT seq FROM sent GROUP BY seq) GROUP BY a.seq, b.^seq"
                ),
                "GROUP BY have the name \"seq\"",
            ),
        ] {
            let column = sql.chars().position(|mark| mark == '^').unwrap() + 1;
            let refused = Statement::parse(&sql.replace('^', ""), &of_runs(&[])).unwrap_err().to_string();
            let begins = format!("SQL, line 1, column {column}: two columns of ");
            assert!(refused.starts_with(&begins) && refused.contains(marked), "{sql}: {refused}");
        }
        for sql in [
            format!("SELECT a.seq AS x, b.seq AS y, COUNT(*) AS n {from} GROUP BY x, y"),
            "SELECT seq, worker AS \"Seq\" FROM sent".to_owned(),
        ] {
            Statement::parse(&sql, &of_runs(&[])).unwrap();
        }
    }
}
