//! Columns in subqueries of WHERE: written with their tables beside a JOIN, since polars looks for them in the tables of the query around, too.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut};

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
    /// Names that the answer gives to other expressions.
    renamed: Vec<String>,
}

impl<'a> OwnTable<'a> {
    fn of(query: &Query, tables: &'a [QueryTable]) -> Option<OwnTable<'a>> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, alias, .. } = &from.relation else { return None };
        let named = name.0.first()?.as_ident()?;
        let table = tables.iter().find(|table| table.name == named.value)?;
        let name = alias.as_ref().map_or(named, |alias| &alias.name).clone();
        let renamed = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                let is_own = matches!(expr, Expr::Identifier(own) if own.value == alias.value);
                (!is_own).then(|| alias.value.clone())
            }
            _ => None,
        });
        let renamed = renamed.collect();
        (from.joins.is_empty() && query.with.is_none()).then_some(OwnTable { name, table, renamed })
    }

    fn has(&self, column: &str) -> bool {
        self.table.column(column).is_some() && !self.renamed.iter().any(|renamed| renamed == column)
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
            && own.has(&column.value)
        {
            *expr = Expr::CompoundIdentifier(vec![own.name.clone(), column.clone()]);
        }
        ControlFlow::Continue(())
    }
}
