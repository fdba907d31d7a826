//! Executes nested queries with sums or quotients one by one in the context of the statement: polars gives queries in WITH, FROM,
//! expressions and UNION a context without the functions of this crate.

use std::ops::ControlFlow;

use polars::prelude::*;
use polars::sql::SQLContext;
use sqlparser::ast::{Query, SetExpr, Statement as Parsed, VisitMut, VisitorMut};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use crate::exact::has_functions;

/// Executes `sql`, which must have been checked.
pub(crate) fn execute(context: &mut SQLContext, sql: &str) -> PolarsResult<LazyFrame> {
    if !has_functions(sql) {
        return context.execute(sql);
    }
    let mut statement = parsed(sql)?;
    let query = match &mut statement {
        Parsed::Query(query) => Some(query),
        Parsed::Explain { statement, .. } => match statement.as_mut() {
            Parsed::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    };
    if let Some(query) = query {
        Nested { context, named: 0, entered: false }.flatten(query)?;
    }
    context.execute(&statement.to_string())
}

fn parsed(sql: &str) -> PolarsResult<Parsed> {
    let wrong = |fault: &dyn std::fmt::Display| polars_err!(SQLSyntax: "{fault}");
    let mut all = Parser::parse_sql(&GenericDialect, sql).map_err(|fault| wrong(&fault))?;
    all.pop().ok_or_else(|| wrong(&"there is no statement"))
}

struct Nested<'a> {
    context: &'a mut SQLContext,
    /// Number of queries that have been given a name.
    named: usize,
    /// Whether the visitor is inside the query that it was called with.
    entered: bool,
}

impl Nested<'_> {
    /// Executes the queries in `query` that contain functions of this crate, and replaces them by their names.
    fn flatten(&mut self, query: &mut Query) -> PolarsResult<()> {
        for mut cte in query.with.take().map(|with| with.cte_tables).unwrap_or_default() {
            self.flatten(&mut cte.query)?;
            let name = self.register(&cte.query.to_string())?;
            let columns = cte.alias.columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let of = if columns.is_empty() { name } else { format!("(SELECT * FROM {name}) AS t ({columns})") };
            let lazy = self.context.execute(&format!("SELECT * FROM {of}"))?;
            self.context.register(&cte.alias.name.value, lazy);
        }
        self.branches(&mut query.body)?;
        let entered = std::mem::replace(&mut self.entered, false);
        let walked = VisitMut::visit(query, self);
        self.entered = entered;
        match walked {
            ControlFlow::Break(fault) => Err(fault),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// Handles the branches of a set operation such as UNION.
    fn branches(&mut self, body: &mut SetExpr) -> PolarsResult<()> {
        let SetExpr::SetOperation { left, right, .. } = body else { return Ok(()) };
        for branch in [left, right] {
            self.branches(branch)?;
            if matches!(branch.as_ref(), SetExpr::Select(_)) && has_functions(&branch.to_string()) {
                let mut alone = query_of(&branch.to_string())?;
                self.flatten(&mut alone)?;
                let name = self.register(&alone.to_string())?;
                **branch = *query_of(&format!("SELECT * FROM {name}"))?.body;
            }
        }
        Ok(())
    }

    /// Executes a query; returns the name of the table with its result.
    fn register(&mut self, sql: &str) -> PolarsResult<String> {
        let name = format!("pktgen_query_{}", self.named);
        self.named += 1;
        let lazy = self.context.execute(sql)?;
        self.context.register(&name, lazy);
        Ok(name)
    }

    fn replace(&mut self, query: &mut Query) -> PolarsResult<()> {
        self.flatten(query)?;
        let name = self.register(&query.to_string())?;
        *query = *query_of(&format!("SELECT * FROM {name}"))?;
        Ok(())
    }
}

/// Parses a query that this crate wrote.
pub(crate) fn query_of(sql: &str) -> PolarsResult<Box<Query>> {
    match parsed(sql)? {
        Parsed::Query(query) => Ok(query),
        other => Err(polars_err!(SQLSyntax: "{other} is no query")),
    }
}

impl VisitorMut for Nested<'_> {
    type Break = PolarsError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PolarsError> {
        if !std::mem::replace(&mut self.entered, true) || !has_functions(&query.to_string()) {
            return ControlFlow::Continue(());
        }
        match self.replace(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::{Functions, GUARD};

    /// Returns the numbers of the answer to `sql`, in which `SUM[x]` is a guarded sum.
    fn answer(sql: &str) -> Vec<i64> {
        let mut context = SQLContext::new().with_function_registry(Functions::all());
        context.register("t", df!("a" => [1i64, 1, 2, 3], "b" => [10i64, 20, 30, 40]).unwrap().lazy());
        let sql = sql.replace("SUM[", &format!("SUM({GUARD}(")).replace(']', "))");
        let frame =
            execute(&mut context, &sql).and_then(LazyFrame::collect).unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        let cells = frame.columns()[0].cast(&DataType::Int64).unwrap();
        let mut cells: Vec<i64> = cells.i64().unwrap().iter().flatten().collect();
        cells.sort_unstable();
        cells
    }

    #[test]
    fn sums_stand_in_queries_of_every_place() {
        for (sql, wanted) in [
            ("SELECT SUM[b] AS s FROM t GROUP BY a", &[30i64, 30, 40][..]),
            ("WITH x AS (SELECT a, SUM[b] AS s FROM t GROUP BY a) SELECT SUM[s] AS s FROM x WHERE a < 3", &[60]),
            ("WITH x AS (SELECT SUM[b] AS s FROM t), y AS (SELECT s + 1 AS s FROM x) SELECT s FROM y", &[101]),
            ("WITH x (p, q) AS (SELECT a, SUM[b] FROM t GROUP BY a) SELECT q FROM x WHERE p = 1", &[30]),
            ("SELECT s FROM (SELECT SUM[b] AS s FROM t GROUP BY a) AS d WHERE s > 30", &[40]),
            ("SELECT s FROM (SELECT SUM[s] AS s FROM (SELECT SUM[b] AS s FROM t) AS e) AS d", &[100]),
            ("SELECT a FROM t WHERE b IN (SELECT SUM[b] - 60 AS s FROM t)", &[3]),
            ("SELECT SUM[b] AS s FROM t UNION ALL SELECT SUM[a] AS s FROM t", &[7, 100]),
            ("SELECT s FROM (SELECT SUM[b] AS s FROM t UNION ALL SELECT 5 AS s FROM t WHERE a = 2) AS u", &[5, 100]),
            (
                "WITH x AS (WITH y AS (SELECT SUM[b] AS s FROM t) SELECT s FROM y) SELECT x.s + v.s AS s FROM x CROSS JOIN (SELECT SUM[a] AS s FROM t) AS v",
                &[107],
            ),
        ] {
            assert_eq!(answer(sql), wanted, "{sql}");
        }
    }
}
