//! Writes functions of texts that polars computes otherwise than SQL.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{CaseWhen, Expr};

use crate::exact::{LEFT, PLACE, RIGHT};
use crate::names::number;
use crate::numbers::{number_of, operands};
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
        Expr::Substring { substring_for: Some(length), .. } if !is_value(length) && number_of(length).is_none() => {
            let condition = Expr::IsNotNull(Box::new(Expr::Nested(length.clone())));
            *expr = where_true(condition, expr.clone());
        }
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
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
