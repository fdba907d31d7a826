//! The columns that tables and queries of FROM have, as far as their names are known before a statement is executed.

use std::collections::BTreeSet;
use std::iter::once;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, JoinConstraint, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, WildcardAdditionalOptions, visit_expressions,
};

use crate::names::{NamesOfWith, bare, is_wildcard, last_name, names_of_columns, table_name, word};
use crate::operators::{JoinKind, parts};
use crate::tables::QueryTable;

/// The columns of a table or a query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    names: BTreeSet<String>,
    /// Names that polars may give to columns without a name.
    perhaps: BTreeSet<String>,
    /// Whether there may be others.
    is_open: bool,
}

impl Columns {
    fn unknown() -> Columns {
        Columns { is_open: true, ..Columns::default() }
    }

    /// Whether one has this name; `None` if that is not known.
    fn has(&self, name: &str) -> Option<bool> {
        if self.names.contains(name) {
            return Some(true);
        }
        (!self.is_open && !self.perhaps.contains(name)).then_some(false)
    }

    fn extend(&mut self, others: Columns) {
        self.names.extend(others.names);
        self.perhaps.extend(others.perhaps);
        self.is_open |= others.is_open;
    }
}

/// What FROM may name.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) tables: &'a [QueryTable],
    pub(crate) with: &'a NamesOfWith,
}

impl Sources<'_> {
    /// Returns how many tables and queries of FROM have a column, and how many different columns these are, since USING and NATURAL make several one;
    /// `None` if that is not known.
    pub(crate) fn owners(&self, select: &Select, name: &Ident) -> Option<(usize, usize)> {
        let (mut owners, mut columns) = (0, 0);
        for (factor, constraint) in factors(select) {
            if !self.of_factor(factor).has(&name.value)? {
                continue;
            }
            let is_merged = match constraint {
                Some(JoinConstraint::Using(merged)) => merged.iter().any(|own| word(own) == name.value),
                Some(JoinConstraint::Natural) => owners > 0,
                _ => false,
            };
            owners += 1;
            columns += usize::from(!is_merged);
        }
        Some((owners, columns))
    }

    fn of_factor(&self, factor: &TableFactor) -> Columns {
        match factor {
            TableFactor::Table { alias: Some(alias), .. } if !alias.columns.is_empty() => Columns::unknown(),
            TableFactor::Table { name, .. } => self.of_name(word(name)).unwrap_or_else(Columns::unknown),
            TableFactor::Derived { subquery, alias, .. } => self.of_query(subquery, alias.as_ref()),
            _ => Columns::unknown(),
        }
    }

    fn of_name(&self, name: &str) -> Option<Columns> {
        let of_table = |table: &QueryTable| Columns {
            names: table.names().into_iter().map(str::to_owned).collect(),
            ..Columns::default()
        };
        let table = || self.tables.iter().find(|table| table.name == name).map(of_table);
        self.with.columns(name).cloned().or_else(table)
    }

    /// Returns the columns of a query, which has an alias perhaps with names of columns.
    pub(crate) fn of_query(&self, query: &Query, alias: Option<&TableAlias>) -> Columns {
        let given: BTreeSet<String> = alias.into_iter().flat_map(names_of_columns).collect();
        if !given.is_empty() {
            let is_open = width(&query.body) != alias.map(|alias| alias.columns.len());
            return Columns { names: given, is_open, ..Columns::default() };
        }
        if query.with.is_none() {
            return self.of_body(&query.body);
        }
        let mut with = self.with.clone();
        with.add(query, self.tables);
        Sources { tables: self.tables, with: &with }.of_body(&query.body)
    }

    fn of_body(&self, body: &SetExpr) -> Columns {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Query(query) => self.of_query(query, None),
            _ => Columns::unknown(),
        }
    }

    fn of_select(&self, select: &Select) -> Columns {
        let is_plain = |options: &WildcardAdditionalOptions| *options == WildcardAdditionalOptions::default();
        let mut columns = Columns::default();
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => _ = columns.names.insert(alias.value.clone()),
                SelectItem::UnnamedExpr(expr) => match last_name(bare(expr)) {
                    Some(name) => _ = columns.names.insert(name.value.clone()),
                    None => add_names(expr, &mut columns.perhaps),
                },
                SelectItem::Wildcard(options) if is_plain(options) => {
                    factors(select).for_each(|(factor, _)| columns.extend(self.of_factor(factor)));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), options)
                    if is_plain(options) =>
                {
                    let is_it = |factor: &TableFactor| table_name(factor).is_some_and(|name| name.value == word(of));
                    let it = factors(select).map(|(factor, _)| factor).find(|factor| is_it(factor));
                    columns.extend(it.map_or_else(Columns::unknown, |factor| self.of_factor(factor)));
                }
                _ => columns.is_open = true,
            }
        }
        columns
    }
}

/// Returns the tables and queries of FROM whose columns the answer may have, with the constraints of their joins.
fn factors(select: &Select) -> impl Iterator<Item = (&TableFactor, Option<&JoinConstraint>)> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| (&join.relation, parts(&join.join_operator)));
        let all = once((&from.relation, (JoinKind::Inner, None))).chain(joined);
        all.filter(|(_, (kind, _))| !kind.hides()).map(|(factor, (_, constraint))| (factor, constraint))
    })
}

/// Adds the names of the columns in an expression.
fn add_names(expr: &Expr, names: &mut BTreeSet<String>) {
    _ = visit_expressions(expr, |inner: &Expr| {
        names.extend(last_name(inner).map(|name| name.value.clone()));
        ControlFlow::<()>::Continue(())
    });
}

/// Returns the number of columns of an answer; `None` if it is not known.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) if !select.projection.iter().any(is_wildcard) => Some(select.projection.len()),
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Query(query) => width(&query.body),
        _ => None,
    }
}
