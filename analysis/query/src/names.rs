//! Names of tables and columns in a select, as SQL and as polars have them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, TableAlias, TableFactor, UnaryOperator, Value, ValueWithSpan,
    Visit, Visitor, visit_expressions, visit_expressions_mut,
};

use crate::columns::{Columns, Sources};
use crate::tables::QueryTable;

/// Whether an item of an answer is several columns, so that positions behind it are not known.
pub(crate) fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Returns the name of a column, without its table; `None` if an expression is no column.
pub(crate) fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

/// Whether there is a column in an expression.
pub(crate) fn has_column(expr: &Expr) -> bool {
    visit_expressions(expr, |inner: &Expr| match last_name(inner) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Returns a name of one word, without quotes: functions have no other names in polars.
pub(crate) fn word(name: &ObjectName) -> &str {
    name.0.first().and_then(|part| part.as_ident()).map_or("", |part| part.value.as_str())
}

/// Returns the name that a table or subquery has in its FROM.
pub(crate) fn table_name(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(&alias.name)
        }
        // Names have one word.
        TableFactor::Table { name, alias: None, .. } => name.0.first()?.as_ident(),
        _ => None,
    }
}

/// Whether an expression is the column `column`, one of both perhaps without its table.
pub(crate) fn is_column(expr: &Expr, column: &[Ident]) -> bool {
    match expr {
        Expr::Nested(inner) => is_column(inner, column),
        Expr::Identifier(own) => column.last().is_some_and(|last| last.value == own.value),
        Expr::CompoundIdentifier(own) if column.len() > 1 => {
            own.iter().map(|name| &name.value).eq(column.iter().map(|name| &name.value))
        }
        Expr::CompoundIdentifier(own) => own.last().map(|name| &name.value) == column.last().map(|name| &name.value),
        _ => false,
    }
}

/// Whether an answer gives the name of `column` to something else, by AS.
pub(crate) fn is_renamed(answer: &[SelectItem], column: &[Ident]) -> bool {
    answer.iter().any(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            column.last().is_some_and(|last| last.value == alias.value) && !is_column(expr, column)
        }
        _ => false,
    })
}

/// Returns an expression without its outer brackets, quotes of names and capitals of functions: two that are equal then are the same.
pub(crate) fn plain(expr: &Expr) -> Expr {
    let mut plain = bare(expr).clone();
    _ = visit_expressions_mut(&mut plain, |inner: &mut Expr| {
        match inner {
            Expr::Function(function) => {
                let name = word(&function.name).to_lowercase();
                function.name = ObjectName::from(vec![Ident::new(name)]);
            }
            Expr::Identifier(name) => name.quote_style = None,
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(|name| name.quote_style = None),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    plain
}

pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Returns the position of an expression in an answer, as ORDER BY has it; `None` of names that the answer has or may have, of positions, and
/// behind wildcards.
pub(crate) fn position(answer: &[SelectItem], of: &Expr) -> Option<Expr> {
    let may_have = |item: &SelectItem, name: &Ident| match item {
        SelectItem::UnnamedExpr(expr) => last_name(expr).is_some_and(|own| own.value == name.value),
        SelectItem::ExprWithAlias { alias, .. } => alias.value == name.value,
        _ => true,
    };
    match bare(of) {
        Expr::Value(_) => return None,
        Expr::Identifier(name) if answer.iter().any(|item| may_have(item, name)) => return None,
        _ => {}
    }
    let of = plain(of);
    let mut items = answer.iter().take_while(|item| !is_wildcard(item));
    let place = items.position(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => plain(expr) == of,
        _ => false,
    })?;
    Some(number(place + 1))
}

/// Returns the item of an answer that a position of GROUP BY is.
pub(crate) fn at_position<'a>(answer: &'a [SelectItem], key: &Expr) -> Option<&'a SelectItem> {
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) => {
            answer.get(place.parse::<usize>().ok()?.checked_sub(1)?)
        }
        _ => None,
    }
}

/// Returns a number in a statement.
pub(crate) fn number(number: usize) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

/// Whether polars may name an expression after the column `name`: it does so by the first operand, of functions perhaps by another one.
pub(crate) fn is_named_after(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::BinaryOp { left: inner, .. }
        | Expr::Between { expr: inner, .. }
        | Expr::InList { expr: inner, .. }
        | Expr::Like { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner) => is_named_after(inner, name),
        // As 0 - x.
        Expr::UnaryOp { op: UnaryOperator::Minus, .. } => false,
        // By the first result.
        Expr::Case { conditions, .. } => conditions.first().is_some_and(|when| is_named_after(&when.result, name)),
        // Windows by what they are of, but ranks by their order, and COUNT(*) FILTER by its condition.
        Expr::Function(function) if function.filter.is_none() && !is_rank(word(&function.name)) => {
            has_name(&function.args, name)
        }
        other => has_name(other, name),
    }
}

/// Whether a column of this name is in an expression, or in several ones.
fn has_name(of: &impl Visit, name: &str) -> bool {
    visit_expressions(of, |inner: &Expr| match last_name(inner) {
        Some(own) if own.value == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether `name` is the function of a rank, in which polars leaves out rows without a value.
pub(crate) fn is_rank(name: &str) -> bool {
    ["rank", "dense_rank"].iter().any(|rank| rank.eq_ignore_ascii_case(name))
}

/// Whether a table has a column of this name.
pub(crate) fn is_of_tables(name: &Ident, tables: &[QueryTable]) -> bool {
    tables.iter().any(|table| table.column(&name.value).is_some())
}

/// Queries of WITH: the names that they give to columns, by AS or in brackets behind the name of the query, and their columns.
#[derive(Clone, Default)]
pub(crate) struct NamesOfWith(BTreeMap<String, (BTreeSet<String>, Columns)>);

impl NamesOfWith {
    /// Adds the queries of WITH of a query.
    pub(crate) fn add(&mut self, query: &Query, tables: &[QueryTable]) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let mut names = GivenNames::of(&cte.query, self);
            names.extend(names_of_columns(&cte.alias));
            let columns = Sources { tables, with: self }.of_query(&cte.query, Some(&cte.alias));
            self.0.insert(cte.alias.name.value.clone(), (names, columns));
        }
    }

    /// Returns the columns of a query; `None` if there is none of this name.
    pub(crate) fn columns(&self, name: &str) -> Option<&Columns> {
        self.0.get(name).map(|(_, columns)| columns)
    }
}

/// Names of the columns that FROM may have.
pub(crate) struct NamesOfFrom<'a> {
    tables: &'a [QueryTable],
    /// Those of queries, by AS or in brackets behind the name of the query.
    given: BTreeSet<String>,
}

impl<'a> NamesOfFrom<'a> {
    pub(crate) fn of(select: &Select, tables: &'a [QueryTable], with: &NamesOfWith) -> NamesOfFrom<'a> {
        NamesOfFrom { tables, given: GivenNames::of(&select.from, with) }
    }

    pub(crate) fn has(&self, name: &Ident) -> bool {
        self.given.contains(&name.value) || is_of_tables(name, self.tables)
    }
}

/// Returns the names that `q(a, b)` gives to columns.
pub(crate) fn names_of_columns(alias: &TableAlias) -> impl Iterator<Item = String> {
    alias.columns.iter().map(|column| column.name.value.clone())
}

/// Collects the names that queries give to columns, by AS or in brackets behind the name of the query.
struct GivenNames<'a> {
    with: &'a NamesOfWith,
    names: BTreeSet<String>,
}

impl GivenNames<'_> {
    fn of(queries: &impl Visit, with: &NamesOfWith) -> BTreeSet<String> {
        let mut given = GivenNames { with, names: BTreeSet::new() };
        _ = queries.visit(&mut given);
        given.names
    }
}

impl Visitor for GivenNames<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.names.extend(select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        }));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } = factor
        {
            self.names.extend(names_of_columns(alias));
        }
        if let TableFactor::Table { name, .. } = factor
            && let Some((names, _)) = self.with.0.get(word(name))
        {
            self.names.extend(names.iter().cloned());
        }
        ControlFlow::Continue(())
    }
}
