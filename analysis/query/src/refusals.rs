//! Expressions that polars computes otherwise than SQL, or does not know: refused, with what to write.

use std::ops::ControlFlow;

use pktgen_core::Error;
use pktgen_core::registry::suggest;
use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Spanned, TableFactor,
    TypedString, Value, Visit, visit_expressions,
};

use crate::aggregates::{AggregateKind, AnswerContent, has_aggregate, is_grouped, is_one_row, kind};
use crate::names::{at_position, is_column, is_named_after, is_renamed, last_name, position, table_name, word};
use crate::place::at;
use crate::tables::QueryTable;

/// Functions of polars that its own list lacks, in lower case.
const UNLISTED: [&str; 20] = [
    "array_agg",
    "bit_not",
    "bitand",
    "bitcount",
    "bitnot",
    "bitor",
    "bitxor",
    "datetime",
    "div",
    "group_concat",
    "listagg",
    "normalize",
    "split_part",
    "string_agg",
    "string_to_array",
    "time",
    "timestamp",
    "trunc",
    "truncate",
    "xor",
];

/// Refuses functions that polars does not have: an unknown aggregate would be taken for a function of single rows.
pub(crate) fn unsupported(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function { name, .. }) = expr else { return ControlFlow::Continue(()) };
    let name = word(name).to_lowercase();
    let known = polars::sql::keywords::all_functions();
    if known.contains(&name.as_str()) || UNLISTED.contains(&name.as_str()) {
        return ControlFlow::Continue(());
    }
    ControlFlow::Break(at(expr.span().start, format!("unsupported function '{name}'{}", suggest(&name, &known))))
}

/// Refuses aggregates of constants, and counts with constant conditions, which polars evaluates once, regardless of the rows.
pub(crate) fn constant(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function { name, args: FunctionArguments::List(arguments), filter, .. }) = expr else {
        return ControlFlow::Continue(());
    };
    let kind = kind(word(name));
    let is_count = kind == Some(AggregateKind::Count);
    let is_other = matches!(
        kind,
        Some(
            AggregateKind::Sum
                | AggregateKind::Extreme
                | AggregateKind::Mean
                | AggregateKind::Quantile
                | AggregateKind::Pairs
                | AggregateKind::Other
        )
    );
    if !is_count && !is_other || is_of_rows(arguments) {
        return ControlFlow::Continue(());
    }
    if !is_count {
        let what = format!("{expr} is of no column: write COUNT(*) times the number, or aggregate a column");
        return ControlFlow::Break(at(expr.span().start, what));
    }
    // COUNT(*) and COUNT(1) have all rows, also those of a condition on columns.
    let is_plain = arguments.args.iter().all(|argument| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::Expr(Expr::Value(_))))
    });
    if is_plain && filter.as_ref().is_none_or(is_of_rows) {
        return ControlFlow::Continue(());
    }
    let what = format!("{expr} is of no column: write COUNT(*), and FILTER with a condition on columns only");
    ControlFlow::Break(at(expr.span().start, what))
}

/// Refuses quantiles with FILTER, which polars would apply to the share, too.
pub(crate) fn filtered_quantile(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function {
        name, args: FunctionArguments::List(list), filter: Some(condition), over: None, ..
    }) = expr
    else {
        return ControlFlow::Continue(());
    };
    let (Some(AggregateKind::Quantile), [of, share]) = (kind(word(name)), list.args.as_slice()) else {
        return ControlFlow::Continue(());
    };
    let what = format!("{name} with FILTER is refused: write {name}(CASE WHEN {condition} THEN {of} END, {share})");
    ControlFlow::Break(at(expr.span().start, what))
}

/// Refuses dates and intervals, of which no table has columns, and other types before a text, which polars does not know.
pub(crate) fn dates(expr: &Expr) -> ControlFlow<Error> {
    let is_of_dates = match expr {
        Expr::Interval(_) | Expr::Extract { .. } => true,
        Expr::TypedString(TypedString { data_type, value, .. }) if !is_date(data_type) => {
            let what = format!("{expr} is refused: write CAST({value} AS {data_type})");
            return ControlFlow::Break(at(expr.span().start, what));
        }
        Expr::TypedString(_) => true,
        Expr::Cast { data_type, .. } => is_date(data_type),
        _ => false,
    };
    if !is_of_dates {
        return ControlFlow::Continue(());
    }
    let what = format!("{expr} is refused, since no table has dates: times are whole numbers in ps");
    ControlFlow::Break(at(expr.span().start, what))
}

fn is_date(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Date
            | DataType::Time(..)
            | DataType::Datetime(_)
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
    )
}

/// Refuses keys of GROUP BY that are several groupings, or none.
pub(crate) fn groupings(select: &Select) -> ControlFlow<Error> {
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = &select.group_by;
    let keys: &[Expr] = match &select.group_by {
        GroupByExpr::All(_) => &[],
        GroupByExpr::Expressions(keys, _) => keys,
    };
    if keys.iter().any(|key| matches!(key, Expr::Tuple(items) if items.is_empty())) {
        return ControlFlow::Break(at(select.span().start, "GROUP BY () is refused: leave it out"));
    }
    let several = keys.iter().find(|key| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_)));
    if several.is_none() && modifiers.is_empty() {
        return ControlFlow::Continue(());
    }
    let what = "ROLLUP, CUBE, TOTALS and GROUPING SETS are refused: write one SELECT for each grouping, with UNION ALL";
    ControlFlow::Break(at(several.map_or(select.span(), Spanned::span).start, what))
}

/// Refuses a logarithm to a base, which polars has behind the number, and other dialects before it.
pub(crate) fn logarithm(expr: &Expr) -> ControlFlow<Error> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return ControlFlow::Continue(());
    };
    let ("log", [x, y]) = (word(name).to_lowercase().as_str(), list.args.as_slice()) else {
        return ControlFlow::Continue(());
    };
    let what = format!(
        "{expr} is refused, since it is the logarithm of {x} or of {y}, depending on the dialect: write LN(x) / LN(base), LOG2 or LOG10"
    );
    ControlFlow::Break(at(expr.span().start, what))
}

/// Whether there is a column, or a subquery.
fn is_of_rows(of: &impl Visit) -> bool {
    visit_expressions(of, |inner: &Expr| match inner {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
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

/// Refuses a column in ORDER BY if the answer has another column of that name: polars would order by that.
pub(crate) fn order(query: &Query, tables: &[QueryTable]) -> ControlFlow<Error> {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &query.order_by) else {
        return ControlFlow::Continue(());
    };
    chosen_by_queries(order)?;
    let OrderByKind::Expressions(keys) = &order.kind else { return ControlFlow::Continue(()) };
    if is_one_row(select) {
        return keys.iter().try_for_each(|key| of_one_row(&key.expr, select));
    }
    // Aggregates are columns of the answer, and other columns have their positions.
    let is_of_rows = |key: &Expr| !has_aggregate(key) && position(&select.projection, key).is_none();
    for key in keys.iter().filter(|key| is_of_rows(&key.expr)) {
        visit_expressions(&key.expr, |expr: &Expr| of_another(expr, select, tables))?;
    }
    ControlFlow::Continue(())
}

/// Refuses a column in ORDER BY of one row that is no name or position of the answer.
fn of_one_row(key: &Expr, select: &Select) -> ControlFlow<Error> {
    if has_aggregate(key) {
        return ControlFlow::Continue(());
    }
    let is_number = matches!(key, Expr::Value(number) if matches!(number.value, Value::Number(..)));
    if is_number && at_position(&select.projection, key).is_none() {
        return not_in_one_row(key);
    }
    let is_named = |name: &Ident| {
        let is_alias =
            |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value);
        select.projection.iter().any(is_alias)
    };
    visit_expressions(key, |expr: &Expr| match expr {
        Expr::CompoundIdentifier(_) => not_in_one_row(expr),
        Expr::Identifier(name) if !is_named(name) => not_in_one_row(expr),
        _ => ControlFlow::Continue(()),
    })
}

fn not_in_one_row(column: &Expr) -> ControlFlow<Error> {
    let what = format!("ORDER BY {column}: the answer has no such column, and one row: leave ORDER BY out");
    ControlFlow::Break(at(column.span().start, what))
}

/// Refuses a column that polars would look for in the answer, and find as another one there, or as a key of GROUP BY.
fn of_another(expr: &Expr, select: &Select, tables: &[QueryTable]) -> ControlFlow<Error> {
    let column = match expr {
        Expr::CompoundIdentifier(names) => names.as_slice(),
        Expr::Identifier(name) => std::slice::from_ref(name),
        _ => return ControlFlow::Continue(()),
    };
    let [table @ .., last] = column else { return ControlFlow::Continue(()) };
    let answer = &select.projection;
    let is_own = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(own) if is_column(own, column));
    if answer.iter().any(is_own) {
        return ControlFlow::Continue(());
    }
    let place = expr.span().start;
    let is_alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => table.is_empty() && alias.value == last.value,
        _ => false,
    };
    if !answer.iter().any(is_alias) && is_in_a_key(select, &last.value) {
        let what = format!(
            "ORDER BY {expr}: GROUP BY has an expression of it, which would be taken for it: select what orders with a name, and order by that"
        );
        return ControlFlow::Break(at(place, what));
    }
    let unnamed = answer.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(own) if last_name(own).is_none() && is_named_after(own, &last.value) => Some(own),
        _ => None,
    });
    if let Some(own) = unnamed {
        let what = format!("ORDER BY {expr}: {own} of the answer would be taken for it: name that by AS");
        return ControlFlow::Break(at(place, what));
    }
    // Without its table, a name is that of the answer.
    let [table, ..] = table else { return ControlFlow::Continue(()) };
    let is_other = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(own) => last_name(own).is_some_and(|own| own.value == last.value),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
            word(of) != table.value && may_have(select, word(of), &last.value, tables)
        }
        _ => false,
    };
    let is_all = |item: &SelectItem| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => word(of) == table.value,
        _ => false,
    };
    if !is_renamed(answer, column) && (answer.iter().any(is_all) || !answer.iter().any(is_other)) {
        return ControlFlow::Continue(());
    }
    let what = format!(
        "ORDER BY {expr}: \"{}\" of the answer is another column: select {expr} AS x, and order by x",
        last.value
    );
    ControlFlow::Break(at(place, what))
}

/// Whether the table of FROM with this name may have a column.
fn may_have(select: &Select, table: &str, column: &str, tables: &[QueryTable]) -> bool {
    let factors = select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    // A join in brackets has no name.
    let mut named = factors.filter(|factor| table_name(factor).is_none_or(|name| name.value == table));
    named.any(|factor| match factor {
        TableFactor::Table { name, .. } => {
            let known = tables.iter().find(|table| table.name == word(name));
            known.is_none_or(|table| table.column(column).is_some())
        }
        _ => true,
    })
}

/// Refuses a column beside an aggregate without GROUP BY: polars would repeat the aggregate of all rows for each of them.
pub(crate) fn beside_aggregates(select: &Select) -> ControlFlow<Error> {
    if is_grouped(select) {
        return ControlFlow::Continue(());
    }
    let AnswerContent { aggregate: Some((_, aggregate)), column: Some((place, column)), .. } =
        AnswerContent::of(select)
    else {
        return ControlFlow::Continue(());
    };
    let instead = if column.ends_with('*') {
        "name its columns, and GROUP BY them".to_owned()
    } else {
        format!("GROUP BY {column}, write MAX({column}) if it has one value only")
    };
    let what = format!(
        "{column} has a value for each row, and {aggregate} one for all of them: {instead}, or {aggregate} OVER () for a value beside each row"
    );
    ControlFlow::Break(at(place, what))
}

/// Refuses quantiles and covariances of columns of GROUP BY only: polars would compute them of the keys of all groups.
pub(crate) fn of_keys(select: &Select) -> ControlFlow<Error> {
    if !is_grouped(select) {
        return ControlFlow::Continue(());
    }
    visit_expressions(&select.projection, |expr: &Expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(AggregateKind::Quantile | AggregateKind::Pairs) = kind(word(&function.name)) else {
            return ControlFlow::Continue(());
        };
        let of_rows = visit_expressions(&function.args, |inner: &Expr| match last_name(inner) {
            Some(name) if !is_key(select, &name.value) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if of_rows.is_break() {
            return ControlFlow::Continue(());
        }
        let what = format!(
            "{expr} is of columns that GROUP BY has: a key has one value in each group, write MIN(…); if it is an expression of them, name that by AS, \
             and group by the name"
        );
        ControlFlow::Break(at(expr.span().start, what))
    })
}

/// Returns the keys that GROUP BY lists, with the names of those that are positions of named columns.
fn listed_keys(select: &Select) -> impl Iterator<Item = (Option<&Ident>, &Expr)> {
    let keys: &[Expr] = match &select.group_by {
        // Each key is a column of the answer.
        GroupByExpr::All(_) => &[],
        GroupByExpr::Expressions(keys, _) => keys,
    };
    keys.iter().filter_map(move |key| match at_position(&select.projection, key) {
        Some(SelectItem::UnnamedExpr(expr)) => Some((None, expr)),
        Some(SelectItem::ExprWithAlias { expr, alias }) => Some((Some(alias), expr)),
        Some(_) => None,
        None => Some((None, key)),
    })
}

/// Whether polars may give the name of a column to a key of GROUP BY.
fn is_key(select: &Select, name: &str) -> bool {
    let of_all = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => !has_aggregate(expr) && is_named_after(expr, name),
        SelectItem::ExprWithAlias { expr, alias } => {
            !has_aggregate(expr) && (alias.value == name || is_named_after(expr, name))
        }
        _ => true,
    };
    match &select.group_by {
        GroupByExpr::All(_) => select.projection.iter().any(of_all),
        GroupByExpr::Expressions(..) => listed_keys(select).any(|(alias, key)| match alias {
            Some(alias) => alias.value == name,
            None => is_named_after(key, name),
        }),
    }
}

/// Whether polars gives the name of a column to a key of GROUP BY that is another expression.
pub(crate) fn is_in_a_key(select: &Select, name: &str) -> bool {
    let is_other = |key: &Expr| last_name(key).is_none() && is_named_after(key, name);
    listed_keys(select).any(|(alias, key)| alias.is_none() && is_other(key))
}

/// Refuses aggregates in WHERE and ON, which polars would compute of all rows.
pub(crate) fn in_conditions(select: &Select) -> ControlFlow<Error> {
    let mut content = AnswerContent::default();
    content.add(&select.selection);
    content.add(&select.from);
    let Some((place, aggregate)) = content.aggregate else { return ControlFlow::Continue(()) };
    let what = format!(
        "{aggregate} is no condition on rows: write HAVING behind GROUP BY, or CROSS JOIN (SELECT {aggregate} AS x FROM …) q, and q.x here"
    );
    ControlFlow::Break(at(place, what))
}

/// Refuses HAVING of an answer of one row, which polars does not know.
pub(crate) fn having_alone(select: &Select) -> ControlFlow<Error> {
    match &select.having {
        Some(condition) if !is_grouped(select) => {
            let what = "HAVING without GROUP BY is refused: choose the row in a query around this one (SELECT * FROM (…) q WHERE …)";
            ControlFlow::Break(at(condition.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Refuses IN with a list in an answer of constants: polars would have one row, regardless of the rows.
pub(crate) fn constant_lists(select: &Select) -> ControlFlow<Error> {
    if select.from.is_empty() || is_grouped(select) || !AnswerContent::of(select).is_constant() {
        return ControlFlow::Continue(());
    }
    visit_expressions(&select.projection, |expr: &Expr| match expr {
        Expr::InList { .. } => {
            let what = format!("{expr} is of no column, and would be one row: select a column, too");
            ControlFlow::Break(at(expr.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    })
}

/// Refuses EXISTS, of which polars understands only some, and not as SQL.
pub(crate) fn exists(expr: &Expr) -> ControlFlow<Error> {
    if !matches!(expr, Expr::Exists { .. }) {
        return ControlFlow::Continue(());
    }
    let what = "EXISTS is refused: write SEMI JOIN … ON a.x = b.x, or ANTI JOIN for NOT EXISTS; if it compares no columns, CROSS JOIN \
                (SELECT COUNT(*) AS n FROM …) q, and WHERE q.n > 0";
    ControlFlow::Break(at(expr.span().start, what))
}

/// Refuses IN (SELECT …) outside of WHERE, which is the only place where polars understands it.
pub(crate) fn chosen_by_queries(of: &impl Visit) -> ControlFlow<Error> {
    visit_expressions(of, |expr: &Expr| match expr {
        Expr::InSubquery { .. } => {
            let what = "IN (SELECT …) is understood in WHERE only: LEFT JOIN the subquery, and ask whether its column IS NOT NULL";
            ControlFlow::Break(at(expr.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    })
}
