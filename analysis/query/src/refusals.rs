//! Expressions that polars computes otherwise than SQL, or does not know: refused, with what to write.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArguments, Spanned, visit_expressions};

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

/// Refuses what the parser takes for the right side of IS DISTINCT FROM: all that follows, with AND, OR and IS.
pub(crate) fn distinct_from(expr: &Expr) -> ControlFlow<Error> {
    let (Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right)) = expr else {
        return ControlFlow::Continue(());
    };
    let binds_less = matches!(
        right.as_ref(),
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
    );
    if !binds_less {
        return ControlFlow::Continue(());
    }
    let what = "IS DISTINCT FROM before AND, OR or IS needs brackets, since what follows would be its right side: (a IS DISTINCT FROM b) AND …";
    ControlFlow::Break(at(expr.span().start, what))
}
