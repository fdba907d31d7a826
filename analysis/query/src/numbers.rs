//! Writes numbers such that they have 64 bits: polars gives counts, lengths, and whole numbers without a column beside them 32.

use std::ops::{ControlFlow, RangeInclusive};

use pktgen_core::quantile::reduced;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, SelectItem, UnaryOperator, Value, ValueWithSpan, visit_expressions,
};

use crate::aggregates::{AggregateKind, kind};
use crate::exact::{QUOTIENT, REMAINDER, WHOLE_QUOTIENT};
use crate::names::{has_column, word};
use crate::order;

/// Counts, ranks and lengths, which have 32 bits in polars: converted to 64 bits, so that differences do not wrap around.
const COUNTS: [&str; 10] = [
    "count",
    "row_number",
    "rank",
    "dense_rank",
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "array_length",
];

/// Functions whose value is one of their operands, or has the type of it.
const OF_OPERANDS: [&str; 5] = ["abs", "coalesce", "greatest", "ifnull", "least"];

/// The same, of their first operand.
const OF_THE_FIRST: [&str; 2] = ["nullif", "round"];

/// Powers, which polars computes of whole numbers in 32 or 64 bits, and SQL as DOUBLE.
const POWERS: [&str; 2] = ["pow", "power"];

/// Types of fewer than 64 bits, by their first word, and their bits.
const NARROW: [(&str, u32); 20] = [
    ("INT", 32),
    ("INT1", 8),
    ("INT16", 16),
    ("INT2", 16),
    ("INT32", 32),
    ("INT4", 32),
    ("INTEGER", 32),
    ("MEDIUMINT", 32),
    ("SMALLINT", 16),
    ("TINYINT", 8),
    ("UINT", 32),
    ("UINT1", 8),
    ("UINT16", 16),
    ("UINT2", 16),
    ("UINT32", 32),
    ("UINT4", 32),
    ("UINTEGER", 32),
    ("UNSIGNED", 32),
    ("USMALLINT", 16),
    ("UTINYINT", 8),
];

/// Gives the value of an expression 64 bits where polars would give it 32, without a column to say more.
pub(crate) fn widen(expr: &mut Expr) {
    match expr {
        Expr::Cast { expr: of, data_type, .. } => {
            let Some(range) = narrow(data_type) else { return };
            if whole_number(of).is_some_and(|number| range.contains(&number)) {
                *data_type = DataType::BigInt(None);
            } else {
                // The inner CAST refuses what does not fit.
                *expr = whole(expr.clone());
            }
        }
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter_mut().map(|when| &mut when.result);
            long(results.chain(else_result.as_deref_mut()).collect());
        }
        Expr::BinaryOp { .. } => divide(expr),
        Expr::Floor { expr, .. } | Expr::Ceil { expr, .. } => long(vec![&mut **expr]),
        Expr::Function(function) => {
            let name = word(&function.name).to_lowercase();
            if COUNTS.contains(&name.as_str()) {
                *expr = whole(expr.clone());
            } else if OF_OPERANDS.contains(&name.as_str()) {
                long(operands(function));
            } else if OF_THE_FIRST.contains(&name.as_str()) {
                long(operands(function).into_iter().take(1).collect());
            } else if name == "if" {
                long(operands(function).into_iter().skip(1).collect());
            } else if POWERS.contains(&name.as_str()) {
                operands(function).into_iter().for_each(double);
            } else if let Some(divided) = operator_of(&name).and_then(|op| by_operator(function, op)) {
                *expr = divided;
            }
        }
        _ => {}
    }
}

/// Writes quotients, and whole quotients and remainders of decimals, as functions that divide: polars would multiply by the reciprocal of a
/// constant, and have less than 1 for 49 / 49.
fn divide(expr: &mut Expr) {
    use BinaryOperator::{Divide, DuckIntegerDivide, Modulo};
    let Expr::BinaryOp { left, op, right } = expr else { return };
    // Constants are divided by each other as they are.
    if !has_rows(left) {
        return;
    }
    let of_decimals = is_decimal(left) || is_decimal(right);
    let call = |name: &str| order::call(name, vec![(**left).clone(), (**right).clone()]);
    *expr = match op {
        Divide => call(QUOTIENT),
        Modulo if of_decimals => call(REMAINDER),
        DuckIntegerDivide if of_decimals => cast(CastKind::TryCast, call(WHOLE_QUOTIENT), DataType::BigInt(None)),
        _ => return,
    };
}

/// Returns the operator that a function is.
fn operator_of(name: &str) -> Option<BinaryOperator> {
    match name {
        "div" => Some(BinaryOperator::DuckIntegerDivide),
        "mod" => Some(BinaryOperator::Modulo),
        _ => None,
    }
}

/// Returns what is written in place of a call that is an operator, if it is one of decimals.
fn by_operator(function: &mut Function, op: BinaryOperator) -> Option<Expr> {
    let operands: Vec<Expr> = operands(function).into_iter().map(|operand| operand.clone()).collect();
    let [left, right] = <[Expr; 2]>::try_from(operands).ok()?.map(Box::new);
    let mut divided = Expr::BinaryOp { left, op, right };
    divide(&mut divided);
    (!matches!(divided, Expr::BinaryOp { .. })).then_some(divided)
}

/// Whether an expression may have another value for each row: it has a column, or calls a function.
fn has_rows(expr: &Expr) -> bool {
    visit_expressions(expr, |inner: &Expr| match inner {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether an expression is written as a decimal: a number with a point, a quotient, a CAST to DOUBLE, or a sum, difference, product or
/// remainder of one.
fn is_decimal(expr: &Expr) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.contains('.'),
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_decimal(inner)
        }
        Expr::BinaryOp { op: Divide, .. } => true,
        Expr::BinaryOp { left, op: Plus | Minus | Multiply | Modulo, right } => is_decimal(left) || is_decimal(right),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Double(_) | DataType::DoublePrecision | DataType::Float(_))
        }
        Expr::Function(function) => {
            let name = word(&function.name);
            [QUOTIENT, REMAINDER].contains(&name)
                || POWERS.contains(&name.to_lowercase().as_str())
                || kind(name) == Some(AggregateKind::Mean)
        }
        _ => false,
    }
}

/// Gives columns of a query that are whole numbers alone 64 bits.
pub(crate) fn widen_constants(answer: &mut [SelectItem]) {
    for item in answer {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            long(vec![expr]);
        }
    }
}

/// Returns `CAST(expr AS BIGINT)`.
fn whole(expr: Expr) -> Expr {
    cast(CastKind::Cast, expr, DataType::BigInt(None))
}

/// Writes an expression as DOUBLE.
fn double(expr: &mut Expr) {
    *expr = cast(CastKind::Cast, expr.clone(), DataType::Double(ExactNumberInfo::None));
}

fn cast(kind: CastKind, expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Gives the whole numbers among results 64 bits, unless one of these has a column: numbers have the type of that, which may be UBIGINT.
fn long(results: Vec<&mut Expr>) {
    if !results.iter().any(|result| has_column(result)) {
        results.into_iter().for_each(numbers);
    }
}

/// Writes the whole numbers that an expression consists of as BIGINT.
fn numbers(expr: &mut Expr) {
    if is_number(expr) {
        *expr = whole(expr.clone());
        return;
    }
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            numbers(inner);
        }
        Expr::BinaryOp { left, op, right } => {
            use BinaryOperator::{Minus, Modulo, Multiply, Plus};
            if matches!(op, Plus | Minus | Multiply | Modulo) {
                numbers(left);
                numbers(right);
            }
        }
        _ => {}
    }
}

/// Returns whether a number is negative, and its digits, whatever brackets and signs are around it; `None` of other expressions.
pub(crate) fn number_of(expr: &Expr) -> Option<(bool, &str)> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some((false, digits.as_str())),
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => number_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            number_of(inner).map(|(is_negative, digits)| (!is_negative, digits))
        }
        _ => None,
    }
}

/// Whether an expression is a whole number.
fn is_number(expr: &Expr) -> bool {
    number_of(expr).is_some_and(|(_, digits)| !digits.contains('.'))
}

/// Writes a whole number as a decimal, and leaves other expressions. Returns false if it would become equal to another number, from 2^53.
pub(crate) fn decimal(expr: &mut Expr) -> bool {
    let Some((is_negative, digits)) = number_of(expr).filter(|(_, digits)| !digits.contains('.')) else { return true };
    if !digits.parse::<u64>().is_ok_and(|number| number < 1 << 53) {
        return false;
    }
    *expr = signed(is_negative, format!("{digits}.0"));
    true
}

/// Returns the number of these digits.
fn signed(is_negative: bool, digits: String) -> Expr {
    let number = Expr::value(Value::Number(digits, false));
    if is_negative { Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) } } else { number }
}

/// Writes several signs of a number as one, and others with brackets between them: two minus signs in a row begin a comment.
pub(crate) fn signs(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } = &*expr else { return };
    if matches!(**inner, Expr::Value(_)) {
        return;
    }
    if let Some((is_negative, digits)) = number_of(expr) {
        *expr = signed(is_negative, digits.to_owned());
        return;
    }
    if let Expr::UnaryOp { expr: inner, .. } = expr
        && matches!(**inner, Expr::UnaryOp { .. })
    {
        **inner = Expr::Nested(inner.clone());
    }
}

/// Writes the quantile of QUANTILE_DISC such that polars finds its nearest rank: it multiplies in f64, and rounds up.
pub(crate) fn discrete_quantile(function: &mut Function) {
    if !word(&function.name).eq_ignore_ascii_case("quantile_disc") {
        return;
    }
    let mut operands = operands(function);
    let [_, q] = operands.as_mut_slice() else { return };
    let Some((false, digits)) = number_of(q) else { return };
    // Beyond 1, polars refuses what was written.
    if let Some(share) = digits.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share)) {
        **q = Expr::value(Value::Number(reduced(share).to_string(), false));
    }
}

/// Returns the value of a whole number; `None` of other expressions, and of numbers beyond BIGINT.
fn whole_number(expr: &Expr) -> Option<i64> {
    let (is_negative, digits) = number_of(expr)?;
    let number: i64 = digits.parse().ok()?;
    Some(if is_negative { -number } else { number })
}

/// Returns the range of a type of fewer than 64 bits; `None` of other types.
fn narrow(of: &DataType) -> Option<RangeInclusive<i64>> {
    let name = of.to_string().to_uppercase();
    let first = name.split([' ', '(']).next()?;
    let (_, bits) = *NARROW.iter().find(|(own, _)| *own == first)?;
    let is_unsigned = first.starts_with('U') || name.contains("UNSIGNED");
    let half = 1i64 << (bits - 1);
    Some(if is_unsigned { 0..=2 * half - 1 } else { -half..=half - 1 })
}

/// Returns the operands of a call.
pub(crate) fn operands(function: &mut Function) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return Vec::new() };
    let operand = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    operand.collect()
}
