//! Writes functions of texts that polars computes otherwise than SQL.

use sqlparser::ast::{Expr, Value, ValueWithSpan};

use crate::exact::PLACE;
use crate::names::number;
use crate::numbers::operands;
use crate::order;

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
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            let operands: Vec<Expr> = operands(function).into_iter().map(|operand| operand.clone()).collect();
            let Ok([text, other]) = <[Expr; 2]>::try_from(operands) else { return };
            *expr = match name.as_str() {
                "strpos" => order::call(PLACE, vec![text, other]),
                "left" | "right" if is_zero(&other) => nothing_of(text),
                "right" if !is_null(&other) => right(text, other),
                _ => return,
            };
        }
        _ => {}
    }
}

/// Returns the last characters of a text: polars would count from the wrong end if there are fewer.
fn right(text: Expr, count: Expr) -> Expr {
    let backwards = |of: Expr| order::call("REVERSE", vec![of]);
    backwards(order::call("LEFT", vec![backwards(text), count]))
}

/// Returns no characters of a text, and an empty cell of an empty one.
fn nothing_of(text: Expr) -> Expr {
    Expr::Substring {
        expr: Box::new(text),
        substring_from: Some(Box::new(number(1))),
        substring_for: Some(Box::new(number(0))),
        special: true,
        shorthand: true,
    }
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_))
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) if digits == "0")
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}
