//! Joins: conditions whose sides polars would take for each other are turned or refused, and so are joins that it executes differently from SQL.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Spanned, TableFactor, TableWithJoins, Visit, Visitor, visit_expressions,
};
use sqlparser::tokenizer::Location;

use crate::aggregates::keeps_rows;
use crate::names::{table_name, word};
use crate::operators::{JoinKind, parts, parts_mut};
use crate::outer::{Outer, visit_outer};
use crate::place::at;
use crate::tables::QueryTable;

/// Refuses outer, semi and anti joins with conditions other than equal columns: polars treats them as inner joins.
pub(crate) fn equal(of: &TableWithJoins) -> ControlFlow<Error> {
    for join in &of.joins {
        let (kind, Some(JoinConstraint::On(on))) = parts(&join.join_operator) else { continue };
        if kind != JoinKind::Inner && !equal_columns(on) {
            let what = "an outer, semi or anti join is on equal columns of both sides only (a.x = b.x AND a.y = b.y): put what else is asked of a side \
                        into a subquery in its place";
            return ControlFlow::Break(at(on.span().start, what));
        }
    }
    ControlFlow::Continue(())
}

/// Whether a condition only compares columns for equality.
fn equal_columns(on: &Expr) -> bool {
    let column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    match on {
        Expr::Nested(inner) => equal_columns(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => equal_columns(left) && equal_columns(right),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => column(left) && column(right),
        _ => false,
    }
}

/// Writes FROM as one chain of joins, with the columns of the joined table on the right of each `=` of ON: polars knows the first and the
/// joined table by their names only, and would look up other columns by name on the wrong side.
pub(crate) fn arrange(select: &mut Select, tables: &[QueryTable]) -> ControlFlow<Error> {
    chain(&mut select.from)?;
    let Some(from) = select.from.first_mut() else { return ControlFlow::Continue(()) };
    let mut scope = Scope { earlier: vec![FromTable::of(&from.relation, tables)?], ..Scope::default() };
    // Rows that the last of these joins adds would be chosen by conditions of earlier joins, too.
    let last_adding = from.joins.iter().rposition(|join| parts(&join.join_operator).0.adds_rows());
    let mut moved = Vec::new();
    for (position, join) in from.joins.iter_mut().enumerate() {
        let mut own = FromTable::of(&join.relation, tables)?;
        let is_used = scope.earlier.iter().any(|one| one.name == own.name) || scope.hidden.contains(&own.name);
        if is_used && !own.name.is_empty() {
            let what = format!("two tables of FROM have the name \"{}\": give each its own alias", own.name);
            return ControlFlow::Break(at(join.relation.span().start, what));
        }
        scope.adds_behind = last_adding.is_some_and(|last| last > position);
        if !scope.adds_behind
            && let (JoinKind::Inner, Some(JoinConstraint::On(on))) = parts_mut(&mut join.join_operator)
        {
            moved.extend(conditions_for_where(on, &own, &scope)?);
        }
        constraint(join, &mut own, &scope)?;
        if parts(&join.join_operator).0.hides() {
            scope.hidden.push(own.name);
        } else {
            scope.earlier.push(own);
        }
    }
    let conditions = select.selection.take().into_iter().chain(moved);
    select.selection = conditions.reduce(|left, right| and(bracketed(left), bracketed(right)));
    few_crossed(select)?;
    hidden(select, &scope.hidden)
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn bracketed(condition: Expr) -> Expr {
    match condition {
        Expr::Nested(_) => condition,
        other => Expr::Nested(Box::new(other)),
    }
}

/// Takes the conditions off an inner join's ON that do not compare the joined table with earlier ones: polars joins by them in no way or on the
/// wrong side, and WHERE chooses the same rows by them. Windows stay, and columns without tables, which later tables may have, too.
fn conditions_for_where(on: &mut Expr, own: &FromTable<'_>, scope: &Scope<'_>) -> ControlFlow<Error, Vec<Expr>> {
    let mut parts = Vec::new();
    conjuncts(on.clone(), &mut parts);
    let (mut kept, mut others, mut is_joined) = (Vec::new(), Vec::new(), false);
    for part in parts {
        let stays = visit_expressions(&part, |expr| match expr {
            Expr::Function(function) if !keeps_rows(function) => ControlFlow::Break(()),
            Expr::Identifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let all = Operand::of(&part, own, scope)?;
        let is_known = !all.is_missing && all.unknown.is_none() && (all.own || all.earlier);
        let is_apart = match &part {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                let (one, other) = (Operand::of(left, own, scope)?, Operand::of(right, own, scope)?);
                let is_pure = !(one.own && one.earlier || other.own && other.earlier);
                let is_of_both = is_pure && (one.own && other.earlier || one.earlier && other.own);
                is_joined |= *op == BinaryOperator::Eq && is_of_both;
                !is_of_both
            }
            _ => true,
        };
        if is_apart && is_known && stays.is_continue() {
            others.push(part);
        } else {
            kept.push(part);
        }
    }
    if !is_joined {
        return ControlFlow::Continue(Vec::new());
    }
    if let Some(condition) = kept.into_iter().reduce(and)
        && !others.is_empty()
    {
        *on = condition;
    }
    ControlFlow::Continue(others)
}

/// Adds the conditions that AND joins.
fn conjuncts(condition: Expr, parts: &mut Vec<Expr>) {
    match condition {
        Expr::Nested(inner) => match *inner {
            Expr::Nested(_) | Expr::BinaryOp { op: BinaryOperator::And, .. } => conjuncts(*inner, parts),
            Expr::BinaryOp { ref op, .. } if is_comparison(op) => parts.push(*inner),
            _ => parts.push(Expr::Nested(inner)),
        },
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, parts);
            conjuncts(*right, parts);
        }
        other => parts.push(other),
    }
}

/// Leaves out conditions that are written twice, which polars refuses.
fn once(on: &mut Expr) {
    let mut parts = Vec::new();
    conjuncts(on.clone(), &mut parts);
    let all = parts.len();
    let mut different: Vec<Expr> = Vec::new();
    for part in parts {
        if !different.contains(&part) {
            different.push(part);
        }
    }
    if different.len() < all
        && let Some(condition) = different.into_iter().reduce(and)
    {
        *on = condition;
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Refuses columns of the semi and anti joins `names` in a select outside of their ON.
fn hidden(select: &Select, names: &[String]) -> ControlFlow<Error> {
    for item in &select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) = item
            && names.iter().any(|name| name == word(of))
        {
            return ControlFlow::Break(at(of.span().start, outside(&item.to_string())));
        }
    }
    hidden_columns(&select.distinct, names)?;
    hidden_columns(&select.projection, names)?;
    hidden_columns(&select.selection, names)?;
    hidden_columns(&select.group_by, names)?;
    hidden_columns(&select.having, names)?;
    hidden_columns(&select.named_window, names)
}

/// Refuses columns of semi and anti joins in the ORDER BY of a query.
pub(crate) fn ordered(query: &Query) -> ControlFlow<Error> {
    let mut names = Vec::new();
    names_of_body(&query.body, &mut names);
    hidden_columns(&query.order_by, &names)
}

fn names_of_body(body: &SetExpr, names: &mut Vec<String>) {
    match body {
        SetExpr::Select(select) => select.from.iter().for_each(|table| names_of_joins(table, names)),
        SetExpr::Query(query) => names_of_body(&query.body, names),
        SetExpr::SetOperation { left, right, .. } => {
            names_of_body(left, names);
            names_of_body(right, names);
        }
        _ => {}
    }
}

/// Adds the names of tables of semi and anti joins, also in brackets that begin FROM.
fn names_of_joins(table: &TableWithJoins, names: &mut Vec<String>) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &table.relation {
        names_of_joins(table_with_joins, names);
    }
    for join in &table.joins {
        if parts(&join.join_operator).0.hides()
            && let ControlFlow::Continue(own) = FromTable::of(&join.relation, &[])
        {
            names.push(own.name);
        }
    }
}

fn outside(column: &str) -> String {
    format!("{column} is of a semi or anti join, whose columns stand in its ON only: write JOIN to select them")
}

/// Takes the brackets off a join that begins FROM, and writes commas as CROSS JOIN.
fn chain(from: &mut Vec<TableWithJoins>) -> ControlFlow<Error> {
    for table in from.iter_mut() {
        while let TableFactor::NestedJoin { table_with_joins, alias: None } = &table.relation {
            let mut inner = table_with_joins.as_ref().clone();
            inner.joins.append(&mut table.joins);
            *table = inner;
        }
    }
    if from.len() < 2 {
        return ControlFlow::Continue(());
    }
    let others = from.split_off(1);
    let Some(first) = from.first_mut() else { return ControlFlow::Continue(()) };
    for TableWithJoins { relation, joins } in others {
        let of_all = joins.iter().find(|join| {
            let (kind, constraint) = parts(&join.join_operator);
            kind.adds_rows() || kind == JoinKind::Inner && matches!(constraint, Some(JoinConstraint::Natural))
        });
        if let Some(join) = of_all {
            let what = "a RIGHT, FULL or NATURAL JOIN behind a comma of FROM is refused: put it into a subquery, or name its tables first";
            return ControlFlow::Break(at(join.relation.span().start, what));
        }
        let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
        first.joins.push(Join { relation, global: false, join_operator });
        first.joins.extend(joins);
    }
    ControlFlow::Continue(())
}

/// A table in FROM.
struct FromTable<'a> {
    /// Its name there; empty if it has none.
    name: String,
    /// Its columns, if they are known before execution.
    table: Option<&'a QueryTable>,
    /// Its columns that are one with those of earlier tables, by USING or NATURAL.
    merged: Vec<String>,
}

impl<'a> FromTable<'a> {
    fn of(factor: &TableFactor, tables: &'a [QueryTable]) -> ControlFlow<Error, FromTable<'a>> {
        let table = match factor {
            TableFactor::Table { name, .. } => tables.iter().find(|table| table.name == word(name)),
            TableFactor::NestedJoin { .. } => {
                let what = "a join in brackets begins FROM, without a name: write a subquery in its place, (SELECT … FROM … JOIN …) x";
                return ControlFlow::Break(at(factor.span().start, what));
            }
            _ => None,
        };
        let name = table_name(factor).map(|name| name.value.clone()).unwrap_or_default();
        ControlFlow::Continue(FromTable { name, table, merged: Vec::new() })
    }

    /// Whether it has the column `name`, if that is known.
    fn has(&self, name: &str) -> Option<bool> {
        self.table.map(|table| table.column(name).is_some())
    }
}

/// The tables before a join.
#[derive(Default)]
struct Scope<'a> {
    earlier: Vec<FromTable<'a>>,
    /// Names of tables of semi and anti joins, whose columns exist in their own ON only.
    hidden: Vec<String>,
    /// Whether a RIGHT or FULL JOIN comes behind, which adds rows that WHERE would leave out.
    adds_behind: bool,
}

impl Scope<'_> {
    /// Returns where conditions stand that ON cannot have.
    fn elsewhere(&self) -> &'static str {
        if self.adds_behind {
            "a subquery in place of the table, (SELECT * FROM b WHERE …) b, since a RIGHT or FULL JOIN comes behind"
        } else {
            "WHERE, or of an outer, semi or anti join into a subquery in place of the table"
        }
    }

    /// Whether one of the tables has the column `name`, if that is known.
    fn has(&self, name: &str) -> Option<bool> {
        let mut all = self.earlier.iter().map(|one| one.has(name));
        if all.clone().any(|has| has == Some(true)) {
            return Some(true);
        }
        if all.any(|has| has.is_none()) { None } else { Some(false) }
    }

    /// Whether several tables may have the column `name`: polars would take that of the first one.
    fn is_ambiguous(&self, name: &str) -> bool {
        let may_have =
            |one: &&FromTable<'_>| one.has(name) != Some(false) && !one.merged.iter().any(|merged| merged == name);
        self.earlier.iter().filter(may_have).count() > 1
    }
}

/// Turns or refuses what polars would misunderstand in the condition of a join.
fn constraint(join: &mut Join, own: &mut FromTable<'_>, scope: &Scope<'_>) -> ControlFlow<Error> {
    let place = join.relation.span().start;
    let refuse = |what: &str| ControlFlow::Break(at(place, what));
    let (kind, constraint) = parts_mut(&mut join.join_operator);
    match (kind, constraint.as_deref()) {
        (JoinKind::RightSemiOrAnti, _) => {
            return refuse(
                "RIGHT SEMI and RIGHT ANTI JOIN are refused: begin FROM with this table, and write SEMI or ANTI JOIN",
            );
        }
        (JoinKind::Right | JoinKind::Full, Some(JoinConstraint::Using(_))) => {
            return refuse(
                "USING of a RIGHT or FULL JOIN is refused, since its columns would be empty in rows of this table alone: write ON a.x = b.x, and COALESCE(a.x, b.x)",
            );
        }
        (JoinKind::Left | JoinKind::Right | JoinKind::Full, Some(JoinConstraint::Natural)) => {
            return refuse(
                "NATURAL of a LEFT, RIGHT or FULL JOIN is refused, since its columns would have values in rows of the other table alone: write ON a.x = b.x",
            );
        }
        _ => {}
    }
    let Some(constraint) = constraint else { return ControlFlow::Continue(()) };
    let mut keys = Vec::new();
    match constraint {
        JoinConstraint::On(on) => {
            turn(on, own, scope)?;
            once(on);
            compared(on, &mut keys);
        }
        JoinConstraint::Using(columns) => {
            for column in columns.iter().map(word) {
                if scope.is_ambiguous(column) {
                    return refuse(&format!(
                        "\"{column}\" of USING may be a column of several tables: write ON a.x = b.x"
                    ));
                }
                own.merged.push(column.to_owned());
            }
        }
        JoinConstraint::Natural => {
            let Some(common) = common(own, scope) else {
                return refuse(
                    "columns of this NATURAL JOIN may be of several tables, or are those of a subquery: write ON a.x = b.x",
                );
            };
            own.merged = common;
        }
        JoinConstraint::None => {}
    }
    keys.extend(own.merged.iter().cloned().map(Some));
    few_keys(&keys, own, place, kind == JoinKind::Inner && !scope.adds_behind)
}

/// Maximum number of compared columns with empty cells: with more, polars may take rows that have nothing but empty cells there for equal.
const EMPTY_KEYS: usize = 3;

/// Refuses joins by more columns that may be empty; others may stand in WHERE if that `chooses` the same rows.
fn few_keys(keys: &[Option<String>], own: &FromTable<'_>, place: Location, chooses: bool) -> ControlFlow<Error> {
    let may_be_empty = |key: &&Option<String>| match (key, own.table) {
        (Some(name), Some(table)) => table.column(name).is_none_or(|column| column.optional),
        _ => true,
    };
    if keys.iter().filter(may_be_empty).count() <= EMPTY_KEYS {
        return ControlFlow::Continue(());
    }
    let instead = if chooses {
        "compare fewer, and the others in WHERE"
    } else {
        "write several columns as one in subqueries, as (x * 1000 + y) AS k"
    };
    let what = format!(
        "a join by more than {EMPTY_KEYS} columns that may be empty is refused, since empty ones could be taken for equal: {instead}"
    );
    ControlFlow::Break(at(place, what))
}

/// Refuses more comparisons by WHERE of tables that are joined by commas or CROSS JOIN: polars joins by them.
fn few_crossed(select: &Select) -> ControlFlow<Error> {
    let mut joins = select.from.iter().flat_map(|table| &table.joins);
    let is_crossed = joins.any(|join| parts(&join.join_operator).0 == JoinKind::Cross);
    let Some(condition) = select.selection.as_ref().filter(|_| is_crossed) else { return ControlFlow::Continue(()) };
    let mut keys = Vec::new();
    compared(condition, &mut keys);
    if keys.len() <= EMPTY_KEYS {
        return ControlFlow::Continue(());
    }
    let what = format!(
        "more than {EMPTY_KEYS} comparisons by = in WHERE are refused beside a comma or CROSS JOIN, since empty cells could be taken for equal: write \
         JOIN … ON with up to {EMPTY_KEYS} of them, and the others in WHERE"
    );
    ControlFlow::Break(at(condition.span().start, what))
}

/// Adds what is on the right of each `=` but those with constants: the column's name, if it is one.
fn compared(on: &Expr, keys: &mut Vec<Option<String>>) {
    match on {
        Expr::Nested(inner) => compared(inner, keys),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            compared(left, keys);
            compared(right, keys);
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
            if !matches!(**left, Expr::Value(_)) && !matches!(**right, Expr::Value(_)) =>
        {
            keys.push(match right.as_ref() {
                Expr::Identifier(name) => Some(name.value.clone()),
                Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
                _ => None,
            });
        }
        _ => {}
    }
}

/// Returns the columns that a table may share with earlier ones, unless they are not known, or one may be of several earlier tables.
fn common(own: &FromTable<'_>, scope: &Scope<'_>) -> Option<Vec<String>> {
    let table = own.table?;
    let names = table.names().into_iter().filter(|name| scope.has(name) != Some(false));
    let common: Vec<String> = names.map(str::to_owned).collect();
    let is_known = !common.iter().any(|name| scope.is_ambiguous(name));
    is_known.then_some(common)
}

/// Puts the operand of the joined table on the right of each `=`, and refuses comparisons that are not of both sides.
fn turn(on: &mut Expr, own: &FromTable<'_>, scope: &Scope<'_>) -> ControlFlow<Error> {
    let place = on.span().start;
    // polars knows conditions without brackets only.
    while let Expr::Nested(inner) = on
        && matches!(**inner, Expr::Nested(_) | Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Eq, .. })
    {
        let bare = inner.as_ref().clone();
        *on = bare;
    }
    let (left, op, right) = match on {
        Expr::Nested(inner) => return turn(inner, own, scope),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            turn(left, own, scope)?;
            return turn(right, own, scope);
        }
        Expr::BinaryOp { left, op, right } if is_comparison(op) => (left, op, right),
        _ => {
            let what = format!(
                "a condition of ON compares the joined table with earlier tables, by = or < (a.x = b.y): put other conditions into {}",
                scope.elsewhere()
            );
            return ControlFlow::Break(at(place, what));
        }
    };
    let (one, other) = (Operand::of(left, own, scope)?, Operand::of(right, own, scope)?);
    if one.is_missing || other.is_missing {
        return ControlFlow::Continue(());
    }
    if let Some(name) = one.unknown.or(other.unknown) {
        // Columns without tables are found by polars if each is in one table.
        if !one.has_table && !other.has_table {
            return ControlFlow::Continue(());
        }
        return ControlFlow::Break(at(
            place,
            format!("{name} needs its table in ON, as other columns here: a.x = b.y"),
        ));
    }
    let is_mixed = |(own, earlier): (bool, bool)| own && earlier;
    let sides = ((one.own, one.earlier), (other.own, other.earlier));
    match (op, sides) {
        (BinaryOperator::Eq, ((true, false), (false, true))) => {
            std::mem::swap(left, right);
            // On the right of =, other operators bind less than before.
            if !matches!(**right, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_)) {
                **right = Expr::Nested(right.clone());
            }
        }
        (BinaryOperator::Eq, ((false, true), (true, false))) => {}
        (BinaryOperator::Eq, _) => {
            let what = format!(
                "an = of ON compares a column of the joined table with one of an earlier table: put other conditions into {}",
                scope.elsewhere()
            );
            return ControlFlow::Break(at(place, what));
        }
        (_, (one, other)) if is_mixed(one) || is_mixed(other) => {
            let what = format!(
                "a comparison of ON has the joined table on one side and earlier tables on the other (b.y > a.x + 1): put other conditions into {}",
                scope.elsewhere()
            );
            return ControlFlow::Break(at(place, what));
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// The columns in one side of a comparison.
struct Operand<'a> {
    table: &'a FromTable<'a>,
    scope: &'a Scope<'a>,
    /// Whether there are columns of the joined table.
    own: bool,
    /// Whether there are columns of earlier tables.
    earlier: bool,
    /// Whether there is a column with its table.
    has_table: bool,
    /// Whether there is a column that no table has, which polars reports.
    is_missing: bool,
    /// A column without its table, if that is not known before execution.
    unknown: Option<String>,
}

impl<'a> Operand<'a> {
    fn of(expr: &Expr, table: &'a FromTable<'a>, scope: &'a Scope<'a>) -> ControlFlow<Error, Operand<'a>> {
        let mut operand =
            Operand { table, scope, own: false, earlier: false, has_table: false, is_missing: false, unknown: None };
        expr.visit(&mut operand)?;
        ControlFlow::Continue(operand)
    }
}

impl Visitor for Operand<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        ControlFlow::Break(at(query.span().start, "a subquery in ON is refused: CROSS JOIN it, or put it into WHERE"))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::CompoundIdentifier(names) => {
                let Some(table) = names.first().map(|name| name.value.as_str()) else {
                    return ControlFlow::Continue(());
                };
                self.has_table = true;
                if self.table.name == table {
                    self.own = true;
                } else if self.scope.earlier.iter().any(|one| one.name == table) {
                    self.earlier = true;
                } else {
                    let what =
                        format!("{expr} is of no table that is joined here or before, without semi and anti joins");
                    return ControlFlow::Break(at(expr.span().start, what));
                }
            }
            Expr::Identifier(name) if self.scope.is_ambiguous(&name.value) => {
                let what = format!("{name} may be a column of several tables: write its table, too (a.{name})");
                return ControlFlow::Break(at(name.span.start, what));
            }
            Expr::Identifier(name) => match (self.table.has(&name.value), self.scope.has(&name.value)) {
                (Some(true), Some(true)) => {
                    let what = format!("{name} is a column of several tables: write its table, too (a.{name})");
                    return ControlFlow::Break(at(name.span.start, what));
                }
                (Some(true) | None, Some(false)) => self.own = true,
                (Some(false), Some(true) | None) => self.earlier = true,
                (Some(false), Some(false)) => self.is_missing = true,
                (None, _) | (_, None) => self.unknown = Some(name.to_string()),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Refuses columns of semi and anti joins outside of their ON, but not in subqueries, which have their own tables: polars would take columns
/// of other tables for them.
fn hidden_columns(of: &impl Visit, names: &[String]) -> ControlFlow<Error> {
    visit_outer(
        of,
        |_| false,
        |outer, _| {
            let Outer::Expr(expr) = outer else { return ControlFlow::Continue(()) };
            match expr {
                Expr::CompoundIdentifier(column) if column.first().is_some_and(|own| names.contains(&own.value)) => {
                    ControlFlow::Break(at(expr.span().start, outside(&expr.to_string())))
                }
                _ => ControlFlow::Continue(()),
            }
        },
    )
}

#[cfg(test)]
#[path = "sides_tests.rs"]
mod tests;
