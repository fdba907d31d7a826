//! The functions that polars computes over several rows, in the one list that checks and rewritings use, and selects that consist of them.

use std::ops::ControlFlow;

use sqlparser::ast::{Distinct, Expr, Function, GroupByExpr, Select, Spanned, Visit, visit_expressions};
use sqlparser::tokenizer::Location;

use crate::names::{is_wildcard, word};
use crate::outer::{Outer, visit_outer};

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    /// A TOTAL of no rows is 0, a SUM is empty.
    Sum,
    /// The least or the greatest value.
    Extreme,
    First,
    /// Averages, medians and deviations.
    Mean,
    Quantile,
    /// Of pairs of values.
    Pairs,
    List,
    Other,
}

/// Every aggregate of polars, in lower case.
const AGGREGATES: [(AggregateKind, &[&str]); 9] = [
    (AggregateKind::Count, &["count"]),
    (AggregateKind::Sum, &["sum", "total"]),
    (AggregateKind::Extreme, &["min", "max"]),
    (AggregateKind::First, &["first"]),
    (
        AggregateKind::Mean,
        &["avg", "median", "stdev", "stddev", "stdev_samp", "stddev_samp", "var", "variance", "var_samp"],
    ),
    (AggregateKind::Quantile, &["quantile_cont", "quantile_disc"]),
    (AggregateKind::List, &["array_agg"]),
    (AggregateKind::Pairs, &["corr", "covar", "covar_pop", "covar_samp"]),
    (AggregateKind::Other, &["last", "string_agg", "listagg", "group_concat"]),
];

/// Functions beside aggregates that polars computes over a window as SQL does.
const OF_WINDOWS: [&str; 6] = ["dense_rank", "first_value", "lag", "lead", "rank", "row_number"];

/// Further functions whose rows are not those of their operands.
const OF_OTHER_ROWS: [&str; 2] = ["last_value", "unnest"];

/// Returns the kind of the aggregate `name`; `None` for other functions.
pub(crate) fn kind(name: &str) -> Option<AggregateKind> {
    AGGREGATES.iter().find(|(_, names)| is_in(names, name)).map(|(kind, _)| *kind)
}

/// Whether a call is an aggregate of its group, without OVER.
pub(crate) fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && kind(word(&function.name)).is_some()
}

/// Whether an expression contains an aggregate.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    visit_expressions(expr, |expr: &Expr| match expr {
        Expr::Function(function) if is_aggregate(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether polars computes windows of `name` as SQL does, without ORDER BY at least.
pub(crate) fn has_windows(name: &str) -> bool {
    match kind(name) {
        Some(
            AggregateKind::Count
            | AggregateKind::Sum
            | AggregateKind::Extreme
            | AggregateKind::First
            | AggregateKind::Mean,
        ) => true,
        Some(AggregateKind::Quantile | AggregateKind::Pairs | AggregateKind::List | AggregateKind::Other) => false,
        None => is_in(&OF_WINDOWS, name),
    }
}

/// Whether a call has one value for each row of its operands.
pub(crate) fn keeps_rows(function: &Function) -> bool {
    let name = word(&function.name);
    function.over.is_none() && kind(name).is_none() && !is_in(&OF_WINDOWS, name) && !is_in(&OF_OTHER_ROWS, name)
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a select has GROUP BY.
pub(crate) fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    }
}

/// Whether a select has one row: its columns are aggregates of all rows, and constants.
pub(crate) fn is_one_row(select: &Select) -> bool {
    if is_grouped(select) || select.from.is_empty() || matches!(select.distinct, Some(Distinct::On(_))) {
        return false;
    }
    let content = AnswerContent::of(select);
    content.aggregate.is_some() && content.column.is_none() && !content.has_others
}

/// What the columns of an answer, or a condition, consist of outside of subqueries.
#[derive(Default)]
pub(crate) struct AnswerContent {
    /// The first aggregate.
    pub(crate) aggregate: Option<(Location, String)>,
    /// The first column outside of aggregates.
    pub(crate) column: Option<(Location, String)>,
    /// Whether there are windows, subqueries or lists.
    has_others: bool,
}

impl AnswerContent {
    pub(crate) fn of(select: &Select) -> AnswerContent {
        let mut content = AnswerContent::default();
        content.add(&select.projection);
        if let Some(all) = select.projection.iter().find(|item| is_wildcard(item)) {
            content.column.get_or_insert_with(|| (all.span().start, all.to_string()));
        }
        content
    }

    /// Adds what columns or conditions consist of.
    pub(crate) fn add(&mut self, of: &impl Visit) {
        _ = visit_outer(of, is_aggregate, |outer, aggregates| {
            match outer {
                Outer::Subquery => self.has_others = true,
                Outer::Expr(expr) => self.add_expr(expr, aggregates),
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// Adds an expression within so many aggregates.
    fn add_expr(&mut self, expr: &Expr, aggregates: usize) {
        match expr {
            Expr::Function(function) if is_aggregate(function) => {
                self.has_others |= kind(word(&function.name)) == Some(AggregateKind::List);
                self.aggregate.get_or_insert_with(|| (expr.span().start, expr.to_string()));
            }
            Expr::Function(Function { over: Some(_), .. }) => self.has_others = true,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if aggregates == 0 => {
                self.column.get_or_insert_with(|| (expr.span().start, expr.to_string()));
            }
            _ => {}
        }
    }

    /// Whether the answer has nothing but constants.
    pub(crate) fn is_constant(&self) -> bool {
        self.aggregate.is_none() && self.column.is_none() && !self.has_others
    }
}
