//! Which tables a part of a statement may name: subqueries that use a table of the query around them are refused, since polars executes each
//! subquery once, and not once for each row around it.

use std::ops::ControlFlow;

use pktgen_core::{Error, Result};
use sqlparser::ast::{Expr, Query, SetExpr, Spanned, TableFactor, TableWithJoins, Visit, Visitor};

use crate::names::table_name;
use crate::place::at;

/// Refuses `query` if one of its subqueries names a table of a query around it.
pub(crate) fn check(query: &Query) -> Result<()> {
    match query.visit(&mut Scopes::default()) {
        ControlFlow::Break(fault) => Err(fault),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Names in FROM of the query that is visited, last, and of those around it.
#[derive(Default)]
struct Scopes(Vec<Vec<String>>);

impl Visitor for Scopes {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let mut names = Vec::new();
        of_body(&query.body, &mut names);
        self.0.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.0.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let (Expr::CompoundIdentifier(names), Some((own, around))) = (expr, self.0.split_last()) else {
            return ControlFlow::Continue(());
        };
        let Some(table) = names.first().map(|name| &name.value) else { return ControlFlow::Continue(()) };
        if own.contains(table) || !around.iter().flatten().any(|name| name == table) {
            return ControlFlow::Continue(());
        }
        let what = format!(
            "{expr} is of a table of the query around this subquery, which is executed once and not for each row: write \
             SEMI JOIN … ON {expr} = … in place of EXISTS, ANTI JOIN in place of NOT EXISTS, or a JOIN"
        );
        ControlFlow::Break(at(expr.span().start, what))
    }
}

fn of_body(body: &SetExpr, names: &mut Vec<String>) {
    match body {
        SetExpr::Select(select) => select.from.iter().for_each(|table| of_joins(table, names)),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, names);
            of_body(right, names);
        }
        _ => {}
    }
}

fn of_joins(table: &TableWithJoins, names: &mut Vec<String>) {
    let joined = table.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&table.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => of_joins(table_with_joins, names),
            other => names.extend(table_name(other).map(|name| name.value.clone())),
        }
    }
}
