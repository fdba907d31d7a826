//! Imports between source files: no cycle has more than three files.
//!
//! A file's edges are the `use` declarations and the paths in its code, resolved to the file with the longest prefix of their modules.
//! Edges to the modules below a file, which it declares and lists, and code compiled only for tests are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Maximum number of files in one cycle.
const CIRCLE_MAX: usize = 3;

/// Returns the names and punctuation of a source, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let starts = |at: usize, what: &str| text[at..].starts_with(what);
    while at < bytes.len() {
        let byte = bytes[at];
        if starts(at, "//") {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
        } else if starts(at, "/*") {
            at += text[at..].find("*/").map_or(text.len() - at, |end| end + 2);
        } else if byte == b'"' {
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += 1 + usize::from(bytes[at] == b'\\');
            }
            at += 1;
        } else if starts(at, "r\"") || starts(at, "r#") {
            let marks = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
            if bytes.get(at + 1 + marks) == Some(&b'"') {
                let end = format!("\"{}", "#".repeat(marks));
                let from = at + 2 + marks;
                at = from + text[from..].find(&end).map_or(text.len() - from, |length| length + end.len());
            } else {
                at += 1 + marks;
            }
        } else if byte == b'\'' {
            // A character literal, or a lifetime.
            let rest = &text[at + 1..];
            let length = rest.chars().next().map_or(0, char::len_utf8);
            at += match rest.as_bytes() {
                [b'\\', ..] => 2 + rest[2..].find('\'').map_or(0, |end| end + 2),
                _ if rest[length..].starts_with('\'') => length + 2,
                _ => 1,
            };
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            found.push(text[at..at + length].to_owned());
            at += length;
        } else if starts(at, "::") {
            found.push("::".to_owned());
            at += 2;
        } else {
            if !byte.is_ascii_whitespace() && byte.is_ascii() {
                found.push((byte as char).to_string());
            }
            at += 1;
        }
    }
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Returns the end of the item that begins at `at`: after its body or its semicolon.
fn end_of_item(tokens: &[String], at: usize) -> usize {
    let (mut depth, mut i) = (0usize, at);
    while i < tokens.len() {
        match tokens[i].as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 && tokens[i] == "}" {
                    return i + 1;
                }
            }
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    tokens.len()
}

/// Returns the tokens without items that are only for tests.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at..].len() >= mark.len() && tokens[at..].iter().zip(mark).all(|(token, mark)| token == mark) {
            at = end_of_item(&tokens, at + mark.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Returns every path of at least two names; `use` trees are expanded to paths.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if is_name(&tokens[at]) && (at == 0 || tokens[at - 1] != "::") {
            at = path(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found.retain(|path: &Vec<String>| path.len() > 1);
    found
}

/// Parses the path or tree of paths that begins at `at`; returns its end.
fn path(tokens: &[String], mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut own = before.to_vec();
    while let Some(token) = tokens.get(at).filter(|token| is_name(token)) {
        own.push(token.clone());
        at += 1;
        if tokens.get(at).is_none_or(|token| token != "::") {
            break;
        }
        at += 1;
        if tokens.get(at).is_some_and(|token| token == "{") {
            at += 1;
            while at < tokens.len() && tokens[at] != "}" {
                at = if is_name(&tokens[at]) { path(tokens, at, &own, found) } else { at + 1 };
            }
            return at + 1;
        }
    }
    found.push(own);
    at
}

/// Returns the files of a crate by their modules, with their tokens.
fn files(krate: &str) -> BTreeMap<Vec<String>, Vec<String>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
    let (mut found, mut folders) = (BTreeMap::new(), vec![src.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let file = entry.expect("an entry").path();
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let for_tests = name == "tests" || name.ends_with("_tests") || name.starts_with("testing");
            if for_tests {
                continue;
            }
            if file.is_dir() {
                folders.push(file);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let below = file.parent().expect("a folder").strip_prefix(&src).expect("below src");
                let mut modules: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if !["mod", "lib", "main"].contains(&name.as_str()) {
                    modules.push(name);
                }
                found.insert(modules, without_tests(tokens(&fs::read_to_string(&file).expect("readable"))));
            }
        }
    }
    found
}

/// Returns the module of the crate that a path in `from` leads to.
fn target(path: &[String], from: &[String], modules: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut full: Vec<String> = match path[0].as_str() {
        "crate" => Vec::new(),
        "self" => from.to_vec(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        name => {
            let mut child = from.to_vec();
            child.push(name.to_owned());
            modules.contains(&child).then_some(child)?
        }
    };
    for name in &path[1..] {
        match name.as_str() {
            "super" => _ = full.pop(),
            "self" => {}
            name => full.push(name.to_owned()),
        }
    }
    while !modules.contains(&full) {
        full.pop()?;
    }
    Some(full)
}

/// Returns the edges between the modules of a crate.
fn arrows(krate: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let files = files(krate);
    let modules: BTreeSet<Vec<String>> = files.keys().cloned().collect();
    let of = |from: &Vec<String>, tokens: &Vec<String>| {
        let all = paths(tokens).into_iter().filter_map(|path| target(&path, from, &modules));
        all.filter(|to| !to.starts_with(from) && !to.is_empty()).collect::<BTreeSet<_>>()
    };
    files.iter().map(|(from, tokens)| (from.clone(), of(from, tokens))).collect()
}

/// Returns the groups of modules that all reach each other, the largest first.
fn circles(arrows: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Vec<Vec<Vec<String>>> {
    let reached = |from: &Vec<String>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(arrows[at].iter().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reach: BTreeMap<_, _> = arrows.keys().map(|from| (from, reached(from))).collect();
    let mut left: BTreeSet<_> = arrows.keys().filter(|module| reach[module].contains(*module)).collect();
    let mut found = Vec::new();
    while let Some(first) = left.pop_first() {
        let mut circle = vec![first.clone()];
        circle.extend(
            left.iter()
                .filter(|other| reach[first].contains(**other) && reach[*other].contains(first))
                .map(|m| (*m).clone()),
        );
        left.retain(|module| !circle.contains(module));
        found.push(circle);
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

#[test]
fn no_circle_has_more_than_three_files() {
    let mut problems = Vec::new();
    for krate in &crate::support::crates() {
        let arrows = arrows(krate);
        for circle in circles(&arrows).iter().filter(|circle| circle.len() > CIRCLE_MAX) {
            problems.push(format!("{krate}: {} files in a circle, at most {CIRCLE_MAX}:", circle.len()));
            for from in circle {
                let to: Vec<_> = arrows[from].iter().filter(|to| circle.contains(to)).map(|to| to.join("::")).collect();
                problems.push(format!("  {} imports {}", from.join("::"), to.join(", ")));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn arrows_are_read_from_code() {
    let text = r##"
        use crate::a::{self, b::{C, D}, e};
        // crate::comment::x
        fn f() { let s = "crate::text::x"; super::g::h('{', r#"crate::raw::y"#); }
        #[cfg(test)]
        mod tests { use crate::only::tests; }
        struct Life<'a>(&'a str);
    "##;
    let found: Vec<String> = paths(&without_tests(tokens(text))).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::a::e", "super::g::h"]);
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let modules: BTreeSet<_> = ["x", "x::y", "x::y::z", "w"].map(module).into_iter().collect();
    let leads = |path: &str, from: &str| target(&module(path), &module(from), &modules).map(|to| to.join("::"));
    assert_eq!(leads("super::y::z::Type", "x::w").as_deref(), Some("x::y::z"));
    assert_eq!(leads("crate::w::f", "x::y").as_deref(), Some("w"));
    assert_eq!(leads("z::Type", "x::y").as_deref(), Some("x::y::z"));
    assert_eq!(leads("std::fs::read", "x::y"), None);
    let arrow = |pairs: &[(&str, &str)]| {
        let mut all: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
        for (from, to) in pairs {
            all.entry(module(from)).or_default().insert(module(to));
            all.entry(module(to)).or_default();
        }
        circles(&all).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(arrow(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")]), [3, 2]);
}
