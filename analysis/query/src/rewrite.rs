//! Writes a checked statement for polars, so that its rows are those of SQL.
//!
//! Polars names a column without AS after its first operand (`seq * -1` and `MAX(seq)` are `seq`), and a column of a later table after both if
//! an earlier one has its name (`seq:b`). It looks for the columns of ORDER BY and HAVING in the answer first, computes ORDER BY of what it finds
//! there, and evaluates HAVING, and what stands beside aggregates, over all rows of a group. It computes items without aggregates behind the
//! grouping, where a key that is an expression has the name of its first operand. A query of aggregates is a column that is repeated
//! for each row, unless something asks for one row. What cannot be written so that this does not matter, `refusals` refuses.

use std::ops::ControlFlow;

use pktgen_core::Error;
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator,
    Spanned, TableWithJoins, UnaryOperator, Value, Values, VisitorMut, WindowType, visit_expressions,
};

use crate::aggregates::{AggregateKind, AnswerContent, has_aggregate, is_aggregate, is_one_row, kind};
use crate::columns::Sources;
use crate::exact::GUARD;
use crate::names::{
    NamesOfFrom, NamesOfWith, at_position, bare, has_column, is_column, is_of_tables, is_rank, is_renamed, is_wildcard,
    last_name, number, plain, position, table_name, word,
};
use crate::outer::{Outer, visit_outer, visit_outer_mut};
use crate::place::at;
use crate::tables::QueryTable;
use crate::{numbers, order, own_tables, refusals, sides, texts, values};

/// Rewrites queries from the outermost to the innermost one, and expressions from the innermost to the outermost one: sums have guards, whole
/// numbers 64 bits, all rows a rank, and columns quotes, since the name of one is a keyword of some dialect.
pub(crate) struct Rewriter<'a> {
    tables: &'a [QueryTable],
    with: NamesOfWith,
    /// Number of queries around an expression.
    queries: usize,
    /// Number of VALUES that have names.
    values: usize,
}

impl VisitorMut for Rewriter<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        sides::arrange(select, self.tables)?;
        own_tables::write(select, self.tables);
        let sources = Sources { tables: self.tables, with: &self.with };
        names_of_keys(select, sources)?;
        let from = NamesOfFrom::of(select, self.tables, &self.with);
        keys_of_groups(select, &from, sources)?;
        constants_in_having(select);
        renamed_keys(select);
        // Polars would drop the aggregates if no column is used, and have the rows of the table.
        if self.queries > 1 && is_one_row(select) {
            select.distinct = Some(Distinct::Distinct);
        }
        // Those of the outermost query are converted when they are written.
        if self.queries > 1 {
            numbers::widen_constants(&mut select.projection);
        }
        ControlFlow::Continue(())
    }

    /// Polars computes ORDER BY of columns of the answer: what is selected is replaced by its position, and an aggregate must be selected.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        self.with.add(query, self.tables);
        values::write(&mut query.body, query.order_by.is_some(), &mut self.values)?;
        sides::ordered(query)?;
        if query.order_by.is_some() {
            one_row_branches(&mut query.body);
        }
        if let SetExpr::SetOperation { op, .. } = query.body.as_ref() {
            let op = *op;
            branches(&mut query.body, op);
        }
        let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        // Polars would take some aggregates for expressions of rows if they are ordered.
        if is_one_row(select) {
            query.order_by = None;
        }
        let Some(order) = &mut query.order_by else { return ControlFlow::Continue(()) };
        let OrderByKind::Expressions(keys) = &mut order.kind else { return ControlFlow::Continue(()) };
        for key in keys.iter_mut() {
            match position(&select.projection, &key.expr) {
                Some(position) => key.expr = position,
                None if has_aggregate(&key.expr) => {
                    let what = format!("ORDER BY {}: select it with a name, and order by that", key.expr);
                    return ControlFlow::Break(at(key.expr.span().start, what));
                }
                None => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        one_row_in(expr);
        texts::lengths(expr)?;
        // Here, since `scopes` has better advice for subqueries that use columns around them.
        refusals::exists(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        truth(expr);
        match expr {
            Expr::Identifier(name) => self.quote(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(|name| self.quote(name)),
            Expr::Tuple(_) => {
                let what = "a list in parentheses, as (a, b), is not understood; compare column by column";
                return ControlFlow::Break(at(expr.span().start, what));
            }
            _ => {}
        }
        if let Expr::InList { list, .. } = expr
            && !decimals(list)
        {
            let what = "a list of IN with decimals has whole numbers below 2^53 only: compare larger ones by =";
            return ControlFlow::Break(at(expr.span().start, what));
        }
        if let Expr::Function(function) = expr {
            let name = word(&function.name).to_owned();
            if is_rank(&name)
                && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            {
                order::rank_all(&mut spec.order_by);
            }
            if kind(&name) == Some(AggregateKind::Sum)
                && let [summed] = numbers::operands(function).as_mut_slice()
            {
                **summed = guard(summed.clone());
            }
            numbers::discrete_quantile(function);
        }
        texts::write(expr);
        numbers::signs(expr);
        numbers::widen(expr);
        ControlFlow::Continue(())
    }
}

impl<'a> Rewriter<'a> {
    pub(crate) fn of(tables: &'a [QueryTable]) -> Rewriter<'a> {
        Rewriter { tables, with: NamesOfWith::default(), queries: 0, values: 0 }
    }

    fn quote(&self, name: &mut Ident) {
        if is_of_tables(name, self.tables) {
            name.quote_style = Some('"');
        }
    }
}

/// Makes branches of aggregates one row: polars orders each branch of a set operation, too.
fn one_row_branches(body: &mut SetExpr) {
    let SetExpr::SetOperation { left, right, .. } = body else { return };
    for branch in [left, right] {
        match branch.as_mut() {
            SetExpr::Select(select) if is_one_row(select) => select.distinct = Some(Distinct::Distinct),
            other => one_row_branches(other),
        }
    }
}

/// Puts EXCEPT and INTERSECT within another set operation into brackets, since polars would execute all of a query as `outermost`, and gives
/// constants of branches 64 bits, since it compares columns of one type only.
fn branches(body: &mut SetExpr, outermost: SetOperator) {
    let SetExpr::SetOperation { left, right, .. } = body else { return };
    for branch in [left, right] {
        let branch: &mut SetExpr = branch;
        match branch {
            SetExpr::Select(select) => numbers::widen_constants(&mut select.projection),
            SetExpr::SetOperation { op, .. } if *op != SetOperator::Union && *op != outermost => in_brackets(branch),
            other => branches(other, outermost),
        }
    }
}

/// Makes a branch of a set operation a query of its own.
fn in_brackets(branch: &mut SetExpr) {
    let nothing = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
    let body = Box::new(std::mem::replace(branch, nothing));
    *branch = SetExpr::Query(Box::new(Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }));
}

/// Gives the subquery of IN a LIMIT if it is one row: polars would have its aggregates once for each row of the table, and not at all without rows.
fn one_row_in(expr: &mut Expr) {
    let Expr::InSubquery { subquery, .. } = expr else { return };
    if subquery.limit_clause.is_none()
        && subquery.fetch.is_none()
        && let SetExpr::Select(select) = subquery.body.as_ref()
        && is_one_row(select)
    {
        let limit = Some(number(1));
        subquery.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
    }
}

fn guard(summed: Expr) -> Expr {
    order::call(GUARD, vec![summed])
}

/// Writes the whole numbers of a list that also has decimals as decimals, since polars needs one type. Returns false if one of them would
/// become equal to another number, from 2^53.
fn decimals(list: &mut [Expr]) -> bool {
    let is_decimal = |item: &Expr| numbers::number_of(item).is_some_and(|(_, digits)| digits.contains('.'));
    !list.iter().any(is_decimal) || list.iter_mut().all(numbers::decimal)
}

/// Writes IS [NOT] TRUE, FALSE and UNKNOWN such that they are never empty, as polars has them of empty cells.
fn truth(expr: &mut Expr) {
    // The value that an empty cell has instead, and whether the other one is asked for.
    let (of, empty, is_negated) = match expr {
        Expr::IsTrue(of) => (of, false, false),
        Expr::IsNotTrue(of) => (of, false, true),
        Expr::IsFalse(of) => (of, true, true),
        Expr::IsNotFalse(of) => (of, true, false),
        Expr::IsUnknown(of) => {
            *expr = Expr::IsNull(of.clone());
            return;
        }
        Expr::IsNotUnknown(of) => {
            *expr = Expr::IsNotNull(of.clone());
            return;
        }
        _ => return,
    };
    let known = order::call("COALESCE", vec![(**of).clone(), Expr::value(Value::Boolean(empty))]);
    *expr = if is_negated {
        let negation = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(known) };
        Expr::Nested(Box::new(negation))
    } else {
        known
    };
}

/// Writes keys of GROUP BY in HAVING, and in expressions of the answer, as MIN(key): polars has all rows of a group there, and no value, or
/// computes the expression behind the grouping, where a key that is an expression has the name of its first operand.
fn keys_of_groups(select: &mut Select, from: &NamesOfFrom<'_>, sources: Sources<'_>) -> ControlFlow<Error> {
    let keys = group_keys(select, from, sources);
    if keys.is_empty() {
        return ControlFlow::Continue(());
    }
    let known: Vec<Expr> = keys.iter().map(|key| key.plain.clone()).collect();
    let shadowed: Vec<&GroupKey> = keys.iter().filter(|key| key.is_shadowed(&select.projection, from)).collect();
    keys_in_having(&mut select.having, &keys, &shadowed)?;
    // Behind the grouping these keys are the columns that items name, which needs no aggregates of texts.
    let is_there = |key: &GroupKey| key.is_column_of_first(&select.from) && key.is_shadowed(&select.projection, from);
    let others: Vec<&GroupKey> = keys.iter().filter(|key| !is_there(key)).collect();
    let write = |expr: &mut Expr| {
        if let Some(key) = keys.iter().find(|key| key.is(expr)) {
            *expr = key.in_group();
        }
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && last_name(expr).is_none()
            && !known.contains(&plain(expr))
            && is_in_group(expr, &others)
        {
            visit_outer_mut(expr, is_aggregate, write);
        }
    }
    columns_of_keys(select, &known, from)
}

/// Whether an expression has one of these keys, or polars computes it within a group: aggregates, and those with lists.
fn is_in_group(expr: &Expr, keys: &[&GroupKey]) -> bool {
    visit_expressions(expr, |inner: &Expr| match inner {
        Expr::InList { .. } => ControlFlow::Break(()),
        Expr::Function(function) if is_aggregate(function) => ControlFlow::Break(()),
        _ if keys.iter().any(|key| key.is(inner)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Writes keys of GROUP BY in HAVING. A name that is no key is that of the answer, as in DuckDB: another column has no value there. Refuses a key
/// that is an expression of a name of the answer, which is that name or the column, depending on the dialect.
fn keys_in_having(having: &mut Option<Expr>, keys: &[GroupKey], shadowed: &[&GroupKey]) -> ControlFlow<Error> {
    visit_outer(&*having, is_aggregate, |outer, aggregates| match outer {
        Outer::Expr(expr)
            if aggregates == 0 && last_name(expr).is_none() && shadowed.iter().any(|key| key.is(expr)) =>
        {
            let what = format!(
                "HAVING {expr}: a name in it is that of a column and of the answer, which dialects take for one or the other: give that of the answer another name"
            );
            ControlFlow::Break(at(expr.span().start, what))
        }
        _ => ControlFlow::Continue(()),
    })?;
    visit_outer_mut(having, is_aggregate, |expr| {
        if let Some(key) = keys.iter().find(|key| key.is(expr)) {
            *expr = key.in_group();
        }
    });
    visit_outer_mut(having, is_aggregate, |expr| {
        let Expr::Identifier(name) = expr else { return };
        let is_named = |key: &&GroupKey| key.alias.as_ref().is_some_and(|alias| alias.value == name.value);
        if let Some(key) = keys.iter().find(is_named) {
            *expr = key.in_group();
        }
    });
    ControlFlow::Continue(())
}

/// Writes constants of the answer in place of their names in HAVING, where polars would take a column of FROM with that name.
fn constants_in_having(select: &mut Select) {
    let (having, answer) = (&mut select.having, &select.projection);
    let constant = |name: &Ident| {
        answer.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(bare(expr)),
            _ => None,
        })
    };
    visit_outer_mut(having, is_aggregate, |expr| {
        let Expr::Identifier(name) = expr else { return };
        match constant(name) {
            Some(value @ Expr::Value(_)) => *expr = value.clone(),
            // In brackets, since a sign before it would begin a comment.
            Some(signed) if numbers::number_of(signed).is_some() => *expr = Expr::Nested(Box::new(signed.clone())),
            _ => {}
        }
    });
}

/// Refuses columns of the answer that are no keys, but have the name that polars gives to a key.
fn columns_of_keys(select: &Select, known: &[Expr], from: &NamesOfFrom<'_>) -> ControlFlow<Error> {
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if known.contains(&plain(expr)) {
            continue;
        }
        let mut content = AnswerContent::default();
        content.add(expr);
        let Some((place, column)) = content.column else { continue };
        let name = Ident::new(column.rsplit('.').next().unwrap_or_default().trim_matches('"'));
        let what = if from.has(&name) && is_name_of_a_key(select, known, &name.value) {
            format!(
                "{column} is no key of GROUP BY, and one has its name in the answer: give that another name, or aggregate {column} (MIN({column}))"
            )
        } else if refusals::is_in_a_key(select, &name.value) {
            format!(
                "{column} is no key of GROUP BY, which has an expression of it: write that as GROUP BY does, or aggregate {column} (MIN({column}))"
            )
        } else {
            continue;
        };
        return ControlFlow::Break(at(place, what));
    }
    ControlFlow::Continue(())
}

/// Whether the answer gives the name of a column to a key of GROUP BY that is another one.
fn is_name_of_a_key(select: &Select, known: &[Expr], name: &str) -> bool {
    let is_it = |expr: &Expr| last_name(expr).is_some_and(|own| own.value == name);
    let is_other = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            alias.value == name && !is_it(expr) && known.contains(&plain(expr))
        }
        _ => false,
    };
    match &select.group_by {
        // Each key is a column of the answer.
        GroupByExpr::All(_) => false,
        GroupByExpr::Expressions(keys, _) => !keys.iter().any(is_it) && select.projection.iter().any(is_other),
    }
}

/// A key of GROUP BY.
struct GroupKey {
    /// What it is; of a constant its name in the answer.
    expr: Expr,
    /// The same, for comparisons.
    plain: Expr,
    /// Its name in the answer.
    alias: Option<Ident>,
    /// The same, unless a column of FROM may have that.
    name: Option<Ident>,
}

impl GroupKey {
    fn of(expr: &Expr, alias: Option<&Ident>, from: &NamesOfFrom<'_>) -> Option<GroupKey> {
        let name = alias.filter(|name| !from.has(name)).cloned();
        let expr = if has_column(expr) { expr.clone() } else { Expr::Identifier(name.clone()?) };
        Some(GroupKey { plain: plain(&expr), expr, alias: alias.cloned(), name })
    }

    /// Returns its value in a group, of which polars has all rows.
    fn in_group(&self) -> Expr {
        order::call("MIN", vec![self.expr.clone()])
    }

    /// Whether an expression is this key; a name without its table is that of any key.
    fn is(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(name) => {
                let is_name = |own: &Ident| own.value == name.value;
                self.name.as_ref().is_some_and(is_name) || last_name(&self.plain).is_some_and(is_name)
            }
            // A key without its table is the only column of its name.
            Expr::CompoundIdentifier(names) => is_column(&self.plain, names) && !self.is_name_of_answer(),
            // Copies are made of what may be equal only.
            other => {
                std::mem::discriminant(&self.plain) == std::mem::discriminant(bare(other)) && self.plain == plain(other)
            }
        }
    }

    /// Whether it is written as its name in the answer, as constants are.
    fn is_name_of_answer(&self) -> bool {
        matches!((&self.plain, &self.name), (Expr::Identifier(own), Some(name)) if own.value == name.value)
    }

    /// Whether it is a column that has its own name behind the grouping: polars renames those of later tables, and items of the answer.
    fn is_column_of_first(&self, from: &[TableWithJoins]) -> bool {
        self.alias.is_none() && last_name(&self.plain).is_some() && !is_of_later(&self.plain, from)
    }

    /// Whether another column of the answer has the name of one of its columns.
    fn is_shadowed(&self, answer: &[SelectItem], from: &NamesOfFrom<'_>) -> bool {
        visit_expressions(&self.expr, |inner: &Expr| match last_name(inner) {
            Some(name) if from.has(name) && is_renamed(answer, std::slice::from_ref(name)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}

/// Returns the keys of GROUP BY.
fn group_keys(select: &Select, from: &NamesOfFrom<'_>, sources: Sources<'_>) -> Vec<GroupKey> {
    let answer = &select.projection;
    // `names_of_keys` wrote the others as positions.
    let is_of_from = |name: &Ident| sources.owners(select, name).is_some_and(|(owners, _)| owners > 0);
    let of_item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => GroupKey::of(expr, None, from),
        SelectItem::ExprWithAlias { expr, alias } => GroupKey::of(expr, Some(alias), from),
        _ => None,
    };
    let is_item = |item: &&SelectItem, key: &Expr| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let is_own = |name: &Ident| last_name(bare(expr)).is_some_and(|own| own.value == name.value);
            let is_alias = |name: &Ident| name.value == alias.value && (is_own(name) || !is_of_from(name));
            plain(expr) == plain(key) || matches!(key, Expr::Identifier(name) if is_alias(name))
        }
        _ => false,
    };
    match &select.group_by {
        GroupByExpr::All(_) => answer.iter().filter_map(of_item).filter(|key| !has_aggregate(&key.expr)).collect(),
        GroupByExpr::Expressions(keys, _) => {
            let of_key = |key: &Expr| {
                let item = at_position(answer, key).or_else(|| answer.iter().find(|item| is_item(item, key)));
                item.map_or_else(|| GroupKey::of(key, None, from), of_item)
            };
            keys.iter().filter_map(of_key).collect()
        }
    }
}

/// Writes a name in GROUP BY that the answer and tables have as its position in the answer, where polars would take a column of the first table:
/// if the answer has it for that column of a later table, or if it is ambiguous among the tables. A column of one table has precedence over the
/// answer, as in PostgreSQL and DuckDB; refused if the answer then has columns that are no keys.
fn names_of_keys(select: &mut Select, sources: Sources<'_>) -> ControlFlow<Error> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return ControlFlow::Continue(()) };
    let answer = &select.projection;
    let mut positions = Vec::new();
    for (place, key) in keys.iter().enumerate() {
        let Expr::Identifier(name) = bare(key) else { continue };
        let is_it = |own: &Ident| own.value == name.value;
        let mut items = answer.iter().take_while(|item| !is_wildcard(item)).enumerate();
        let named = items.find_map(|(index, item)| match item {
            SelectItem::UnnamedExpr(expr) if last_name(expr).is_some_and(is_it) => Some((index, expr)),
            SelectItem::ExprWithAlias { expr, alias } if is_it(alias) => Some((index, expr)),
            _ => None,
        });
        let Some((index, expr)) = named.filter(|(_, expr)| !has_aggregate(expr)) else { continue };
        let owners = sources.owners(select, name);
        let is_of_answer = if last_name(bare(expr)).is_some_and(is_it) {
            is_of_later(bare(expr), &select.from) && owners.is_none_or(|(tables, _)| tables > 1)
        } else {
            let is_column = owners.is_some_and(|(_, columns)| columns == 1);
            if is_column && !is_of_keys(expr, keys, answer, place) {
                let what = format!(
                    "GROUP BY {name} is a column of FROM, and \"{}\" of the answer is {expr}: give that another name, or GROUP BY {expr}",
                    name.value
                );
                return ControlFlow::Break(at(name.span.start, what));
            }
            owners.is_some_and(|(_, columns)| columns > 1)
        };
        if is_of_answer {
            positions.push((place, number(index + 1)));
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        positions.into_iter().for_each(|(place, position)| keys[place] = position);
    }
    ControlFlow::Continue(())
}

/// Whether an expression is a key of GROUP BY, or has columns only that are keys, where the key at `place` is a column of FROM.
fn is_of_keys(expr: &Expr, keys: &[Expr], answer: &[SelectItem], place: usize) -> bool {
    let of_answer = |key: &Expr| {
        let is_named = |item: &&SelectItem| match (item, key) {
            (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => alias.value == name.value,
            _ => false,
        };
        match at_position(answer, key).or_else(|| answer.iter().find(is_named)) {
            Some(SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. }) => own.clone(),
            _ => key.clone(),
        }
    };
    let others = keys.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, key)| of_answer(key));
    let known: Vec<Expr> = keys.iter().cloned().chain(others).collect();
    let is_known = |column: &[Ident]| known.iter().any(|key| is_column(key, column));
    let has_other = visit_expressions(expr, |inner: &Expr| match inner {
        Expr::Identifier(name) if !is_known(std::slice::from_ref(name)) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(names) if !is_known(names) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    has_other.is_continue() || known.iter().any(|key| plain(key) == plain(expr))
}

/// Whether an expression is a column of a table behind the first one of FROM.
fn is_of_later(expr: &Expr, from: &[TableWithJoins]) -> bool {
    let first = from.first().and_then(|from| table_name(&from.relation)).map(|name| &name.value);
    matches!(expr, Expr::CompoundIdentifier(names) if names.first().map(|name| &name.value) != first)
}

/// Writes columns of later tables in GROUP BY that have another name in the answer as their position: polars would look for the name that they
/// have beside a column of an earlier table.
fn renamed_keys(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    if select.projection.iter().any(is_wildcard) {
        return;
    }
    for key in keys.iter_mut().filter(|key| is_of_later(key, &select.from)) {
        let is_key = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { expr, .. } if *expr == *key);
        if let Some(place) = select.projection.iter().position(is_key) {
            *key = number(place + 1);
        }
    }
}
