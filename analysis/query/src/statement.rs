//! One SELECT, or EXPLAIN of one, and nothing else: checked after parsing, before polars receives it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use pktgen_core::registry::suggest;
use pktgen_core::{Error, Result};
use polars::prelude::PolarsError;
use sqlparser::ast::{
    Expr, Function, Ident, ObjectName, ObjectNamePart, Query, Select, SetExpr, Spanned, Statement as Parsed,
    TableFactor, Visit, VisitMut, Visitor, visit_expressions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::memory::deep;
use crate::names::word;
use crate::place::at;
use crate::rewrite::Rewriter;
use crate::tables::QueryTable;
use crate::{duplicates, exact, refusals, scopes, sides, threads, windows};

/// Maximum length of a statement in bytes.
const BYTES: usize = 32 << 10;
/// Maximum number of tokens: plans are as deep as chains of operators are long.
const TOKENS: usize = 2000;
/// Names of columns that are also keywords which no statement needs.
const NAMES: [&str; 1] = ["cluster"];
/// Maximum nesting depth of parentheses and subqueries.
const DEPTH: usize = 50;

/// A statement that may be executed.
#[derive(Debug)]
pub(crate) struct Statement {
    /// As it was written.
    text: String,
    tokens: Vec<TokenWithSpan>,
    /// The text for polars, with guards around sums.
    pub(crate) guarded: String,
    /// Whether it requests the plan.
    pub(crate) explains: bool,
    /// The tables that it uses.
    pub(crate) tables: BTreeSet<String>,
}

/// Converts an error of the parser, moving the position from the end of its message to the beginning.
fn parser_fault(fault: ParserError) -> Error {
    let text = match fault {
        ParserError::RecursionLimitExceeded => {
            return Error::config(format!("SQL: the statement nests more than {DEPTH} levels deep"));
        }
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
    };
    let place = text.rsplit_once(" at Line: ").and_then(|(what, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let place = Location { line: line.parse().ok()?, column: column.parse().ok()? };
        Some(at(place, what))
    });
    // For a statement that ends too early, there is no position but its end.
    place.unwrap_or_else(|| Error::config(format!("SQL: {text}")))
}

impl Statement {
    /// Parses `text`, which may name `tables`.
    pub(crate) fn parse(text: &str, tables: &[QueryTable]) -> Result<Statement> {
        threads::check(|name| std::env::var(name).ok())?;
        if text.len() > BYTES {
            return Err(Error::config(format!("SQL: the statement has {} bytes, and may have {BYTES}", text.len())));
        }
        let tokens = Tokenizer::new(&GenericDialect, text).tokenize_with_location();
        let mut tokens = tokens.map_err(|fault| at(fault.location, fault.message))?;
        for token in &mut tokens {
            plain_name(&mut token.token);
            plain_number(&mut token.token);
        }
        let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count();
        if words > TOKENS {
            return Err(Error::config(format!(
                "SQL: the statement has {words} words and marks, and may have {TOKENS}"
            )));
        }
        // Chains of operators become trees as deep as the chains are long.
        let parse = || Statement::checked(text, tokens, tables);
        deep(parse)?
    }

    fn checked(text: &str, tokens: Vec<TokenWithSpan>, tables: &[QueryTable]) -> Result<Statement> {
        let parser = Parser::new(&GenericDialect).with_recursion_limit(DEPTH);
        let parsed = parser.with_tokens_with_locations(tokens.clone()).parse_statements().map_err(parser_fault)?;
        let mut parsed = match <[Parsed; 1]>::try_from(parsed) {
            Ok([one]) => one,
            Err(others) => {
                let what = if others.is_empty() { "there is no statement" } else { "there are several statements" };
                return Err(Error::config(format!(
                    "SQL: {what}; one SELECT, WITH … SELECT or EXPLAIN SELECT is executed"
                )));
            }
        };
        let (query, explains) = match &parsed {
            Parsed::Query(query) => (query, false),
            Parsed::Explain { statement, analyze: false, .. } => match statement.as_ref() {
                Parsed::Query(query) => (query, true),
                other => return Err(refused(other)),
            },
            other => return Err(refused(other)),
        };
        let mut check = Check { tables, ctes: BTreeSet::new(), named: BTreeSet::new() };
        let mut names = Names::default();
        if let ControlFlow::Break(fault) = query.visit(&mut names) {
            return Err(fault);
        }
        check.ctes = names.ctes;
        if let ControlFlow::Break(fault) = query.visit(&mut check) {
            return Err(fault);
        }
        let named = check.named;
        scopes::check(query)?;
        if let ControlFlow::Break(fault) = VisitMut::visit(&mut parsed, &mut Rewriter::of(tables)) {
            return Err(fault);
        }
        let guarded = parsed.to_string();
        // The parser of polars has this limit, too.
        let again = Parser::new(&GenericDialect).with_recursion_limit(DEPTH).try_with_sql(&guarded);
        if again.and_then(|mut parser| parser.parse_statements()) == Err(ParserError::RecursionLimitExceeded) {
            let what = "the statement nests too deeply, where also each /, % and // of decimals, LEFT and RIGHT within another one is a level, and each change \
                        between set operations without brackets: take a part into a subquery of FROM";
            return Err(Error::config(format!("SQL: {what}")));
        }
        Ok(Statement { text: text.to_owned(), tokens, guarded, explains, tables: named })
    }

    /// Whether its own words may remove duplicate rows. Its text for polars also has a DISTINCT for every query of one row, which costs no memory.
    pub(crate) fn is_distinct(&self) -> bool {
        use Keyword::{DISTINCT, EXCEPT, INTERSECT, UNION};
        [DISTINCT, EXCEPT, INTERSECT, UNION].into_iter().any(|keyword| self.words(keyword) > 0)
    }

    /// Returns how often a keyword occurs.
    fn words(&self, keyword: Keyword) -> usize {
        let is_word = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == keyword);
        self.tokens.iter().filter(is_word).count()
    }

    /// Converts a polars error about this statement, with the position of the first name that the error quotes.
    pub(crate) fn fault(&self, theirs: &PolarsError, tables: &[QueryTable]) -> Error {
        let fault = exact::names().fold(theirs.to_string(), |text, name| text.replace(&format!("{name}("), "("));
        let known: Vec<&str> =
            tables.iter().filter(|table| self.tables.contains(table.name)).flat_map(QueryTable::names).collect();
        // After that, polars lists the valid names.
        let cause = fault.split("; valid ").next().unwrap_or_default();
        let quoted = |word: &str| ["\"", "'", "`"].iter().any(|mark| cause.contains(&format!("{mark}{word}{mark}")));
        let named = self.tokens.iter().find_map(|token| match &token.token {
            Token::Word(word) if quoted(&word.value) => Some((token.span.start, word.value.as_str())),
            _ => None,
        });
        let first = cause.lines().next().unwrap_or_default();
        if is_duplicate(theirs)
            && let Some((_, name)) = named
        {
            return Error::config(format!(
                "SQL: two columns of the answer or of GROUP BY have the name \"{name}\": name them by AS (a.{name} AS x, b.{name} AS y)"
            ));
        }
        if cause.contains("duplicate") && cause.contains("'literal'") {
            let what = "two columns of the answer are constants without a name: name them by AS (1 AS x, 2 AS y)";
            return Error::config(format!("SQL: {what}"));
        }
        if self.words(Keyword::HAVING) > 0 && first.contains("List") {
            let what = "HAVING has a name that is no aggregate, and no column as GROUP BY writes it: write the aggregate itself (HAVING MAX(x) > 1), \
                        the name or column that GROUP BY has (GROUP BY x HAVING x > 1), and conditions on single rows into WHERE";
            return Error::config(format!("SQL: {what}"));
        }
        let missing = is_missing(theirs);
        match named {
            Some((place, word)) if missing && !known.contains(&word) && !first.contains("function") => {
                let near = suggest(word, &known);
                let known = if near.is_empty() && !known.is_empty() {
                    format!("; there are: {}", known.join(", "))
                } else {
                    near
                };
                at(place, format!("there is no column \"{word}\" here{known}"))
            }
            Some((place, word)) if first.contains("ambiguous") && self.words(Keyword::SELECT) > 1 => at(
                place,
                format!(
                    "{first}; within a subquery, write its table (x.{word}), or give what it selects another name by AS"
                ),
            ),
            Some((place, _)) => at(place, first),
            None => Error::config(format!("SQL: {first}, in: {}", self.text.trim())),
        }
    }
}

/// Writes a number with an exponent as a decimal, since polars cannot read exponents.
fn plain_number(token: &mut Token) {
    if let Token::Number(text, _) = token
        && text.contains(['e', 'E'])
        && let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite())
    {
        *text = number.to_string();
        if !text.contains('.') {
            text.push_str(".0");
        }
    }
}

fn is_missing(theirs: &PolarsError) -> bool {
    match theirs {
        PolarsError::ColumnNotFound(_) => true,
        PolarsError::Context { error, .. } => is_missing(error),
        _ => false,
    }
}

fn is_duplicate(theirs: &PolarsError) -> bool {
    match theirs {
        PolarsError::Duplicate(_) => true,
        PolarsError::Context { error, .. } => is_duplicate(error),
        _ => false,
    }
}

/// Converts a keyword of some dialect into the name of a column: after a comma it would end a list.
fn plain_name(token: &mut Token) {
    if let Token::Word(word) = token
        && word.quote_style.is_none()
        && NAMES.contains(&word.value.as_str())
    {
        (word.quote_style, word.keyword) = (Some('"'), Keyword::NoKeyword);
    }
}

/// Returns the error for a statement that does not only read, with its first word.
fn refused(parsed: &Parsed) -> Error {
    let text = parsed.to_string();
    let word = text.split_whitespace().next().unwrap_or_default().to_owned();
    Error::config(format!(
        "SQL: {word} is refused: one SELECT, WITH … SELECT or EXPLAIN SELECT is executed, and nothing else"
    ))
}

/// Names that a statement defines for queries.
#[derive(Default)]
struct Names {
    ctes: BTreeSet<String>,
    /// Names of subqueries in FROM, and other names of tables there.
    subqueries: BTreeSet<String>,
    aliases: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        for cte in with {
            let name = &cte.alias.name.value;
            if !self.ctes.insert(name.clone()) || self.subqueries.contains(name) {
                let what = format!("\"{}\" is the name of another query: give each its own", cte.alias.name.value);
                return ControlFlow::Break(at(cte.alias.name.span.start, what));
            }
        }
        ControlFlow::Continue(())
    }

    /// Refuses names of subqueries that have another meaning elsewhere: polars keeps them for the whole statement.
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let (alias, is_query) = match factor {
            TableFactor::Table { alias: Some(alias), .. } => (alias, false),
            TableFactor::Derived { alias: Some(alias), .. } => (alias, true),
            _ => return ControlFlow::Continue(()),
        };
        let name = &alias.name.value;
        let is_own = matches!(factor, TableFactor::Table { name: own, .. } if own.to_string() == *name);
        if !is_query && !is_own && self.ctes.contains(name) {
            let what = format!("\"{name}\" is the name of a query in WITH and of a table in FROM: give each its own");
            return ControlFlow::Break(at(alias.name.span.start, what));
        }
        let others = if is_query { &self.aliases } else { &self.subqueries };
        if others.contains(name) || is_query && self.ctes.contains(name) {
            let what = format!("\"{name}\" is the name of a subquery and of something else: give each its own");
            return ControlFlow::Break(at(alias.name.span.start, what));
        }
        if is_query { &mut self.subqueries } else { &mut self.aliases }.insert(name.clone());
        ControlFlow::Continue(())
    }
}

/// Refuses everything but reading existing tables.
struct Check<'a> {
    tables: &'a [QueryTable],
    ctes: BTreeSet<String>,
    named: BTreeSet<String>,
}

impl Check<'_> {
    fn is_table(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table.name == name)
    }

    /// Refuses a name defined by the statement that is also a table's, since it would be ambiguous.
    fn own(&self, name: &Ident) -> ControlFlow<Error> {
        if !self.is_table(&name.value) {
            return ControlFlow::Continue(());
        }
        let what = format!("\"{}\" is a table: give the query or alias another name", name.value);
        ControlFlow::Break(at(name.span.start, what))
    }
}

impl Visitor for Check<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let refuse = |what: &str| ControlFlow::Break(at(query.span().start, format!("{what} is refused")));
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.own(&cte.alias.name)?;
        }
        match &query.with {
            Some(with) if with.recursive => return refuse("WITH RECURSIVE"),
            _ => {}
        }
        if !query.locks.is_empty() || query.for_clause.is_some() {
            return refuse("FOR");
        }
        if query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty() {
            return refuse("SETTINGS, FORMAT and |>");
        }
        refusals::order(query, self.tables)?;
        body(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.into.is_some() {
            return ControlFlow::Break(at(select.span().start, "SELECT INTO is refused: nothing is written"));
        }
        let counts = |expr: &Expr| match expr {
            Expr::Function(Function { name, .. }) if word(name).eq_ignore_ascii_case("count") => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let of_rows = || select.selection.is_some() || visit_expressions(&select.projection, counts).is_break();
        if select.from.is_empty() && of_rows() {
            let what = "WHERE and COUNT without FROM are refused: name a table, or a subquery";
            return ControlFlow::Break(at(select.span().start, what));
        }
        if let Some(condition) = &select.qualify {
            let what = "QUALIFY is refused, since it would see the answer's columns only: take the window in a subquery of FROM, and choose its rows by WHERE";
            return ControlFlow::Break(at(condition.span().start, what));
        }
        visit_expressions(&select.projection, refusals::unsupported)?;
        refusals::groupings(select)?;
        refusals::having_alone(select)?;
        windows::refuse(select)?;
        refusals::in_conditions(select)?;
        refusals::beside_aggregates(select)?;
        refusals::constant_lists(select)?;
        refusals::of_keys(select)?;
        refusals::chosen_by_queries(&select.projection)?;
        refusals::chosen_by_queries(&select.having)?;
        duplicates::refuse(select)?;
        select.from.iter().try_for_each(sides::equal)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        refusals::unsupported(expr)?;
        refusals::constant(expr)?;
        refusals::filtered_quantile(expr)?;
        refusals::logarithm(expr)?;
        refusals::dates(expr)?;
        refusals::distinct_from(expr)?;
        windows::check(expr)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let refuse = |what: &str| ControlFlow::Break(at(factor.span().start, what));
        let alias = match factor {
            TableFactor::Table { args: Some(_), name, .. } => {
                return refuse(&format!(
                    "{name}(…) is refused: tables are those of the run, and no functions or files"
                ));
            }
            TableFactor::Table {
                name,
                alias,
                version: None,
                with_ordinality: false,
                json_path: None,
                sample: None,
                ..
            } => {
                let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                    return refuse(&format!("{name} is refused: tables have names of one word"));
                };
                if let Some(alias) = alias.as_ref().filter(|alias| alias.name.value != name.value) {
                    self.own(&alias.name)?;
                }
                &None
            }
            TableFactor::Derived { lateral: false, sample: None, alias, .. } => alias,
            TableFactor::NestedJoin { alias, table_with_joins } => {
                sides::equal(table_with_joins)?;
                alias
            }
            _ => return refuse("only tables, subqueries and joins stand in FROM: functions are refused"),
        };
        alias.as_ref().map_or(ControlFlow::Continue(()), |alias| self.own(&alias.name))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Error> {
        let [ObjectNamePart::Identifier(name)] = relation.0.as_slice() else {
            return ControlFlow::Break(at(relation.span().start, format!("{relation} is no table")));
        };
        if self.is_table(&name.value) {
            self.named.insert(name.value.clone());
        } else if !self.ctes.contains(&name.value) {
            let mut names: Vec<&str> = self.tables.iter().map(|table| table.name).collect();
            names.extend(self.ctes.iter().map(String::as_str));
            let what = format!(
                "there is no table \"{}\"{}; there are: {}",
                name.value,
                suggest(&name.value, &names),
                names.join(", ")
            );
            return ControlFlow::Break(at(name.span.start, what));
        }
        ControlFlow::Continue(())
    }
}

/// Refuses writing statements, which PostgreSQL allows within WITH.
fn body(of: &SetExpr) -> ControlFlow<Error> {
    let refuse = |parsed: &Parsed| ControlFlow::Break(refused(parsed));
    match of {
        SetExpr::Insert(parsed) | SetExpr::Update(parsed) | SetExpr::Delete(parsed) | SetExpr::Merge(parsed) => {
            refuse(parsed)
        }
        SetExpr::Table(_) => ControlFlow::Break(Error::config("SQL: TABLE is refused: SELECT * FROM … does the same")),
        SetExpr::SetOperation { left, right, .. } => {
            body(left)?;
            body(right)
        }
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod tests;
