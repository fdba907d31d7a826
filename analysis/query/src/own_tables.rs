//! Columns in subqueries of WHERE: written with their tables beside a JOIN, since polars looks for them in the tables of the query around, too.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut};

use crate::names::{is_renamed, table_name, word};
use crate::tables::QueryTable;

/// Writes the columns of subqueries in WHERE with their table, if that is the only one there, and known before execution.
pub(crate) fn write(select: &mut Select, tables: &[QueryTable]) {
    if select.from.iter().any(|table| !table.joins.is_empty()) {
        _ = VisitMut::visit(&mut select.selection, &mut OwnTables { tables, queries: Vec::new() });
    }
}

struct OwnTables<'a> {
    tables: &'a [QueryTable],
    /// The only tables of the queries around an expression, the innermost one last.
    queries: Vec<Option<OwnTable<'a>>>,
}

struct OwnTable<'a> {
    name: Ident,
    table: &'a QueryTable,
    answer: Vec<SelectItem>,
}

impl<'a> OwnTable<'a> {
    fn of(query: &Query, tables: &'a [QueryTable]) -> Option<OwnTable<'a>> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name: of, .. } = &from.relation else { return None };
        let table = tables.iter().find(|table| table.name == word(of))?;
        let (name, answer) = (table_name(&from.relation)?.clone(), select.projection.clone());
        (from.joins.is_empty() && query.with.is_none()).then_some(OwnTable { name, table, answer })
    }

    fn has(&self, column: &Ident) -> bool {
        self.table.column(&column.value).is_some() && !is_renamed(&self.answer, std::slice::from_ref(column))
    }
}

impl VisitorMut for OwnTables<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.queries.push(OwnTable::of(query, self.tables));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (Some(Some(own)), Expr::Identifier(column)) = (self.queries.last(), &*expr)
            && own.has(column)
        {
            *expr = Expr::CompoundIdentifier(vec![own.name.clone(), column.clone()]);
        }
        ControlFlow::Continue(())
    }
}
