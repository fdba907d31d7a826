//! Writes VALUES such that each column has one type, of 64 bits: polars takes the type of the first row, to which it cuts off decimals, and gives
//! whole numbers 32 bits. Rows of different lengths are refused.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{Expr, SetExpr, Spanned, Value, ValueWithSpan, Values};

use crate::nested::query_of;
use crate::numbers::{decimal, number_of};
use crate::place::at;

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Whole,
    Decimal,
    Text,
    Truth,
}

/// Writes the VALUES of a query, of which `named` have names before. Whole numbers are written as text, and read as BIGINT. Polars orders a
/// SELECT only.
pub(crate) fn write(body: &mut SetExpr, is_ordered: bool, named: &mut usize) -> ControlFlow<Error> {
    let values = match body {
        // All branches are ordered together.
        SetExpr::SetOperation { left, right, .. } => {
            write(left, false, named)?;
            return write(right, false, named);
        }
        SetExpr::Values(values) => values,
        _ => return ControlFlow::Continue(()),
    };
    let width = values.rows.first().map_or(0, |row| row.len());
    if let Some(row) = values.rows.iter().find(|row| row.len() != width) {
        let what =
            format!("this row of VALUES has another number of cells ({}) than the first one ({width})", row.len());
        return ControlFlow::Break(at(row.span().start, what));
    }
    let mut columns = Vec::new();
    for column in 0..width {
        let is_whole = kind_of_column(values, column)? == Some(CellKind::Whole);
        if is_whole {
            cells(values, column).for_each(text);
        }
        let name = format!("column_{column}");
        columns.push(if is_whole { format!("CAST({name} AS BIGINT) AS {name}") } else { name });
    }
    if is_ordered || columns.iter().any(|column| column.starts_with("CAST")) {
        let sql = format!("SELECT {} FROM ({values}) AS pktgen_values_{named}", columns.join(", "));
        *named += 1;
        match query_of(&sql) {
            Ok(query) => *body = *query.body,
            Err(fault) => return ControlFlow::Break(at(values.span().start, fault)),
        }
    }
    ControlFlow::Continue(())
}

/// Returns what the cells of a column are, of which whole numbers become decimals beside decimals; refuses others beside each other.
fn kind_of_column(values: &mut Values, column: usize) -> ControlFlow<Error, Option<CellKind>> {
    use CellKind::{Decimal, Whole};
    let mut kind = None;
    for cell in cells(values, column) {
        kind = match (kind, kind_of(cell)) {
            (known, None) => known,
            (None, own) => own,
            (Some(known), Some(own)) if known == own => kind,
            (Some(Whole | Decimal), Some(Whole | Decimal)) => Some(Decimal),
            (Some(_), Some(_)) => {
                let what = format!(
                    "{cell} is of another type than the rows of VALUES before it: a column has numbers, texts, or TRUE and FALSE only"
                );
                return ControlFlow::Break(at(cell.span().start, what));
            }
        };
    }
    if kind == Some(Decimal) {
        for cell in cells(values, column) {
            if !decimal(cell) {
                let what = format!("{cell} is beside decimals in VALUES, where whole numbers are below 2^53");
                return ControlFlow::Break(at(cell.span().start, what));
            }
        }
    }
    ControlFlow::Continue(kind)
}

/// Returns the cells of a column.
fn cells(values: &mut Values, column: usize) -> impl Iterator<Item = &mut Expr> {
    values.rows.iter_mut().filter_map(move |row| row.get_mut(column))
}

/// Returns what a cell is; `None` of NULL and others.
fn kind_of(cell: &Expr) -> Option<CellKind> {
    match number_of(cell) {
        Some((_, digits)) if digits.contains('.') => Some(CellKind::Decimal),
        Some(_) => Some(CellKind::Whole),
        None => match cell {
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => Some(CellKind::Text),
            Expr::Value(ValueWithSpan { value: Value::Boolean(_), .. }) => Some(CellKind::Truth),
            _ => None,
        },
    }
}

/// Writes a whole number as text.
fn text(cell: &mut Expr) {
    let Some((is_negative, digits)) = number_of(cell) else { return };
    let sign = if is_negative { "-" } else { "" };
    *cell = Expr::value(Value::SingleQuotedString(format!("{sign}{digits}")));
}
