//! Expressions that polars computes otherwise than SQL, or does not know: refused, with what to write.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{Expr, Function, FunctionArguments, Spanned, visit_expressions};

use crate::aggregates::{AggregateKind, kind};
use crate::place::at;

/// Refuses aggregates of constants, which polars evaluates once, regardless of the rows.
pub(crate) fn constant(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function { name, args: FunctionArguments::List(arguments), .. }) = expr else {
        return ControlFlow::Continue(());
    };
    let Some(AggregateKind::Sum | AggregateKind::Extreme | AggregateKind::Mean | AggregateKind::Quantile) =
        kind(&name.to_string())
    else {
        return ControlFlow::Continue(());
    };
    let column = |inner: &Expr| match inner {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if visit_expressions(arguments, column).is_break() {
        return ControlFlow::Continue(());
    }
    let what = format!("{expr} is of no column: write COUNT(*) times the number, or aggregate a column");
    ControlFlow::Break(at(expr.span().start, what))
}
