//! Writes functions of texts that polars computes otherwise than SQL.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{CaseWhen, Expr, Spanned, visit_expressions};

use crate::exact::{LEFT, PLACE, RIGHT};
use crate::names::{number, word};
use crate::numbers::{number_of, operands};
use crate::order;
use crate::place::at;

/// Refuses SUBSTR with a computed length in the length of another one: a computed length is written twice, so the statement would double
/// with each level.
pub(crate) fn lengths(expr: &Expr) -> ControlFlow<Error> {
    let Some(length) = computed_length(expr) else { return ControlFlow::Continue(()) };
    let is_nested = visit_expressions(length, |inner: &Expr| match computed_length(inner) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if is_nested.is_continue() {
        return ControlFlow::Continue(());
    }
    let what = "SUBSTR in the length of SUBSTR is refused: take the length in a subquery of FROM";
    ControlFlow::Break(at(expr.span().start, what))
}

/// Writes POSITION, STRPOS, LEFT, RIGHT and SUBSTR such that they count characters, return no value for empty cells,
/// and accept places before the text.
pub(crate) fn write(expr: &mut Expr) {
    match expr {
        Expr::Position { expr: wanted, r#in: text } => {
            *expr = order::call(PLACE, vec![(**text).clone(), (**wanted).clone()]);
        }
        // With a length, polars leaves out what is before the text.
        Expr::Substring { substring_from: Some(from), substring_for: length @ None, .. } if !is_value(from) => {
            *length = Some(Box::new(number(i32::MAX as usize)));
        }
        Expr::Substring { .. } => {
            let Some(length) = computed_length(expr) else { return };
            let condition = Expr::IsNotNull(Box::new(Expr::Nested(Box::new(length.clone()))));
            *expr = where_true(condition, expr.clone());
        }
        Expr::Function(function) => {
            let name = word(&function.name).to_lowercase();
            let operands: Vec<Expr> = operands(function).into_iter().map(|operand| operand.clone()).collect();
            let Ok([text, other]) = <[Expr; 2]>::try_from(operands) else { return };
            let name = match name.as_str() {
                "strpos" => PLACE,
                "left" => LEFT,
                "right" => RIGHT,
                _ => return,
            };
            *expr = order::call(name, vec![text, other]);
        }
        _ => {}
    }
}

/// Returns the length of SUBSTR if it is no constant.
fn computed_length(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Substring { substring_for: Some(length), .. } if !is_value(length) && number_of(length).is_none() => {
            Some(length)
        }
        _ => None,
    }
}

/// Returns `CASE WHEN condition THEN result END`: polars takes an empty length for that of the whole text.
fn where_true(condition: Expr, result: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    }
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_))
}
