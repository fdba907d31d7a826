//! Parses a solver's model: the answer to `get-value`, `((G_0_0 5) (T_0 (- 3)) (X_0_1 true))`.
//!
//! Used by [`super::solver`].

use std::collections::HashMap;

/// A value of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Number(i64),
    /// A boolean.
    Truth(bool),
}

/// An expression.
#[derive(Debug)]
enum Expression {
    Atom(String),
    List(Vec<Expression>),
}

/// Parses the pairs of a `get-value` answer; errors describe what was not understood.
pub fn values(text: &str) -> Result<HashMap<String, Value>, String> {
    let Expression::List(pairs) = parse(text)? else { return Err("the model is not a list".into()) };
    let mut found = HashMap::new();
    for pair in pairs {
        match pair {
            Expression::List(pair) => match &pair[..] {
                [Expression::Atom(name), value] => {
                    let value =
                        evaluate(value).ok_or_else(|| format!("the value of {name} is neither whole nor a truth"))?;
                    found.insert(name.clone(), value);
                }
                _ => return Err("an entry of the model is no pair".into()),
            },
            Expression::Atom(text) => return Err(format!("\"{text}\" stands where a pair should be")),
        }
    }
    Ok(found)
}

fn evaluate(expression: &Expression) -> Option<Value> {
    match expression {
        Expression::Atom(text) => match text.as_str() {
            "true" => Some(Value::Truth(true)),
            "false" => Some(Value::Truth(false)),
            number => number.parse().ok().map(Value::Number),
        },
        Expression::List(items) => match &items[..] {
            [Expression::Atom(minus), value] if minus == "-" => match evaluate(value)? {
                Value::Number(n) => n.checked_neg().map(Value::Number),
                Value::Truth(_) => None,
            },
            _ => None,
        },
    }
}

/// Parses the first expression of `text`, with a stack instead of recursion, since answers may be deep.
fn parse(text: &str) -> Result<Expression, String> {
    let mut open: Vec<Vec<Expression>> = Vec::new();
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    for token in spaced.split_whitespace() {
        let done = match token {
            "(" => {
                open.push(Vec::new());
                continue;
            }
            ")" => Expression::List(open.pop().ok_or("a parenthesis closes that none opened")?),
            atom => Expression::Atom(atom.to_owned()),
        };
        match open.last_mut() {
            Some(list) => list.push(done),
            None => return Ok(done),
        }
    }
    Err("the answer ends within an expression".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_solvers_write() {
        let found = values("((G_0_0 5)\n (T_0 (- 3))\n (X_0_1 false))\n").unwrap();
        assert_eq!(found["G_0_0"], Value::Number(5));
        assert_eq!(found["T_0"], Value::Number(-3));
        assert_eq!(found["X_0_1"], Value::Truth(false));
        for broken in ["", "((a 1)", "x", "((a))", "((a 1.5))", "((a (/ 1 2)))", ") (", "((a (- true)))"] {
            assert!(values(broken).is_err(), "{broken}");
        }
        assert!(values(&"(".repeat(100_000)).is_err(), "deep nonsense neither panics nor overflows");
    }
}
