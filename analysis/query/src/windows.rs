//! Windows that polars computes otherwise than SQL: refused, with what to write.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Select, Spanned, WindowType,
    visit_expressions,
};
use sqlparser::tokenizer::Location;

use crate::aggregates::{AggregateKind, has_windows, is_grouped, keeps_rows, kind};
use crate::names::{has_column, is_wildcard, word};
use crate::order;
use crate::outer::{Outer, visit_outer};
use crate::place::at;

/// Refuses windows beside GROUP BY, and windows of all rows without a column beside them, for which polars deviates from SQL.
pub(crate) fn refuse(select: &Select) -> ControlFlow<Error> {
    let groups = is_grouped(select);
    visit_expressions(&select.projection, |expr: &Expr| match expr {
        Expr::Function(Function { over: Some(_), .. }) if groups => {
            let what = "window functions beside GROUP BY are refused: group in a subquery of FROM, and take windows of its rows";
            ControlFlow::Break(at(expr.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    })?;
    in_conditions(select)?;
    if select.projection.iter().any(is_wildcard) {
        return ControlFlow::Continue(());
    }
    whole_window(select).map_or(ControlFlow::Continue(()), |(place, window)| {
        let what = format!(
            "{window} without a column beside it is refused, since it would be one row instead of one for each row: select a column, too, or leave OVER () out"
        );
        ControlFlow::Break(at(place, what))
    })
}

/// Refuses windows in WHERE and ON, which would be of the rows before all conditions.
fn in_conditions(select: &Select) -> ControlFlow<Error> {
    let check = |outer: Outer<'_>, _: usize| match outer {
        Outer::Expr(expr) if matches!(expr, Expr::Function(Function { over: Some(_), .. })) => {
            let what = format!(
                "{expr} in a condition is refused, since it would be of the rows before WHERE: take it in a subquery of FROM, and choose its rows by WHERE"
            );
            ControlFlow::Break(at(expr.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    };
    visit_outer(&select.selection, |_| false, check)?;
    visit_outer(&select.from, |_| false, check)
}

/// Finds the first window of all rows in the columns of an answer; `None` if one of them is of single rows, for which polars repeats the
/// window's value.
fn whole_window(select: &Select) -> Option<(Location, String)> {
    let mut found = None;
    let of_rows = visit_outer(
        &select.projection,
        |function| !keeps_rows(function),
        |outer, functions| {
            let Outer::Expr(expr) = outer else { return ControlFlow::Continue(()) };
            let is_of_rows = match expr {
                Expr::Function(function) if keeps_rows(function) => false,
                Expr::Function(function) => {
                    let is_whole = is_whole(function);
                    if is_whole {
                        found.get_or_insert_with(|| (expr.span().start, expr.to_string()));
                    }
                    function.over.is_some() && !is_whole && functions == 0
                }
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => functions == 0,
                _ => false,
            };
            if is_of_rows { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    if of_rows.is_break() { None } else { found }
}

/// Whether a call is a window of all rows, with one value.
fn is_whole(function: &Function) -> bool {
    matches!(&function.over, Some(WindowType::WindowSpec(spec))
        if spec.window_name.is_none() && spec.partition_by.is_empty() && spec.order_by.is_empty())
        && !word(&function.name).eq_ignore_ascii_case("row_number")
}

/// Refuses windows that polars computes over other rows than SQL: those with a name, running averages, medians and
/// numbers of distinct values, and all of functions whose OVER it ignores. Refuses a running TOTAL, whose first zeros are
/// empty there, a place of rows without a value that polars ignores, and a frame of a window without order, which it ignores, too.
pub(crate) fn check(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function { name, args, over: Some(over), .. }) = expr else { return ControlFlow::Continue(()) };
    let refuse = |what: String| ControlFlow::Break(at(expr.span().start, what));
    let spec = match over {
        WindowType::WindowSpec(spec) if spec.window_name.is_none() => spec,
        _ => return refuse("a window with a name is refused: write OVER (PARTITION BY … ORDER BY …)".to_owned()),
    };
    // Keys of ranks are written twice, and ranks within them would be, too.
    let is_nested = visit_expressions(spec, |inner: &Expr| match inner {
        Expr::Function(Function { over: Some(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if is_nested.is_break() {
        return refuse("a window in OVER is refused: take it in a subquery of FROM".to_owned());
    }
    if spec.window_frame.is_some() && spec.order_by.is_empty() {
        let what = "ROWS without ORDER BY is refused, since the window would be the whole partition: add ORDER BY, or leave ROWS out";
        return refuse(what.to_owned());
    }
    let name = word(name).to_uppercase();
    let distinct = matches!(args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct));
    // Computed over the whole partition even if the window is ordered.
    let whole = kind(&name) == Some(AggregateKind::Mean);
    if !has_windows(&name) {
        return refuse(format!("{name} with OVER is refused: group in a subquery of FROM, and JOIN it"));
    }
    if (whole || distinct) && !spec.order_by.is_empty() {
        let what = if distinct { format!("{name}(DISTINCT …)") } else { name };
        return refuse(format!(
            "a running {what} is refused: SUM(x) OVER (…) / COUNT(x) OVER (…) is a running average, and {what} OVER without ORDER BY that of all rows"
        ));
    }
    if ["LAG", "LEAD"].contains(&name.as_str()) && is_of_a_constant(args) {
        return refuse(format!("{expr} is of no column, and would be empty everywhere"));
    }
    if name == "TOTAL" && !spec.order_by.is_empty() {
        return refuse("a running TOTAL is refused: write COALESCE(SUM(x) OVER (…), 0)".to_owned());
    }
    match order::refusal(&spec.order_by) {
        Some(what) => refuse(what.to_owned()),
        None => ControlFlow::Continue(()),
    }
}

/// Whether the first operand of a call has no column.
fn is_of_a_constant(args: &FunctionArguments) -> bool {
    match args {
        FunctionArguments::List(list) => {
            matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) if !has_column(of))
        }
        _ => false,
    }
}
