//! Rows without a value in ORDER BY of windows: polars fixes their place, and gives them no rank.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    OrderByExpr, Value,
};

use crate::exact::{LEFT, PLACE, QUOTIENT, REMAINDER, RIGHT, WHOLE_QUOTIENT};

/// Returns why ORDER BY of a window is refused: polars knows one direction for all columns, and ignores NULLS FIRST and NULLS LAST.
pub(crate) fn refusal(keys: &[OrderByExpr]) -> Option<&'static str> {
    if keys.iter().any(is_descending) && !keys.iter().all(is_descending) {
        return Some(
            "ASC and DESC in one OVER are refused: order by the negative of a number (ORDER BY -seq, t), or by a column of a subquery of FROM",
        );
    }
    // Several keys are compared as one, in which no value is the least.
    let are_last = keys.len() > 1 && keys.iter().all(is_descending);
    let is_refused = keys.iter().any(|key| key.options.nulls_first == Some(are_last));
    is_refused.then_some(if are_last {
        "NULLS FIRST in OVER with several columns and DESC is refused: there rows without a value come last; leave them out by \
         WHERE, or order by COALESCE(x, …)"
    } else {
        "NULLS LAST in OVER is refused: there rows without a value come first; leave them out by WHERE, or order by COALESCE(x, …)"
    })
}

fn is_descending(key: &OrderByExpr) -> bool {
    key.options.asc == Some(false)
}

/// Rewrites the only key of a rank such that rows without a value have ranks, too, before all others. Two keys in polars need
/// two names: that of `x IS NULL` is the name of x.
pub(crate) fn rank_all(keys: &mut Vec<OrderByExpr>) {
    let [key] = keys.as_slice() else { return };
    if !is_named_by_a_column(&key.expr) {
        return;
    }
    let value = Box::new(Expr::Nested(Box::new(key.expr.clone())));
    let first = if is_descending(key) { Expr::IsNull(value) } else { Expr::IsNotNull(value) };
    let renamed = call("COALESCE", vec![Expr::value(Value::Null), key.expr.clone()]);
    *keys = vec![OrderByExpr { expr: first, ..key.clone() }, OrderByExpr { expr: renamed, ..key.clone() }];
}

/// Whether polars names the expression after a column: it does so by its first operand.
fn is_named_by_a_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::BinaryOp { left: inner, .. } => {
            is_named_by_a_column(inner)
        }
        // Inserted calls have the name of their first operand.
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if [LEFT, PLACE, QUOTIENT, REMAINDER, RIGHT, WHOLE_QUOTIENT].contains(&name.to_string().as_str()) =>
        {
            matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) if is_named_by_a_column(of))
        }
        _ => false,
    }
}

/// Returns the call of a function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
