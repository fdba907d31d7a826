//! Trees as files: `{"nodes":[{"id":0,"parent":null,"rate":1.0,"load":0,"available":true},…]}`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ROOT, Switch, Tree};
use crate::object::Object;
use crate::regular::check_regular;
use crate::{Error, Result};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nodes: Vec<Object<Node>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    id: u64,
    /// Null for the root: a node without it may be one whose parent was forgotten.
    #[serde(deserialize_with = "Option::deserialize")]
    parent: Option<u64>,
    #[serde(default = "one")]
    rate: f64,
    #[serde(default)]
    load: i64,
    #[serde(default = "yes")]
    available: bool,
}

const fn one() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

/// Parses a tree; `name` is used in errors.
pub fn parse(text: &str, name: &str) -> Result<Tree> {
    let Object(file): Object<File> = serde_json::from_str(text).map_err(|e| {
        Error::config(format!(
            "{name}: {e}; a tree is {{\"nodes\":[{{\"id\":0,\"parent\":null,\"rate\":1.0,\"load\":0,\"available\":true}}, …]}}"
        ))
    })?;
    tree(file.nodes.into_iter().map(|Object(node)| node), name)
}

/// Parses a tree whose nodes are tables of an experiment; that of the root has no parent, as TOML has no null. An error about one
/// of them has its number, from 1.
pub fn of_tables(tables: Vec<serde_json::Value>, name: &str) -> Result<Tree> {
    let node = |(i, mut table): (usize, serde_json::Value)| {
        if let Some(keys) = table.as_object_mut() {
            keys.entry("parent").or_insert(serde_json::Value::Null);
        }
        serde_json::from_value::<Node>(table).map_err(|e| {
            Error::config(format!(
                "{name} {}: {e}; a node has id, parent (not the root), rate = 1.0, load = 0 and available = true",
                i + 1
            ))
        })
    };
    let nodes = tables.into_iter().enumerate().map(node).collect::<Result<Vec<_>>>()?;
    tree(nodes.into_iter(), name)
}

fn tree(nodes: impl Iterator<Item = Node>, name: &str) -> Result<Tree> {
    let switch = |Node { id, parent, rate, load, available }: Node| Switch { id, parent, rate, load, available };
    let switches: Vec<_> = nodes.map(switch).collect();
    Tree::new(&switches).map_err(|why| Error::config(format!("{name}: {why}")))
}

/// Reads a tree from a file.
pub fn read(path: &Path) -> Result<Tree> {
    check_regular(path)?;
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    parse(&text, &path.display().to_string())
}

/// Returns a tree in the file format.
pub fn to_json(tree: &Tree) -> String {
    let node = |v: u32| {
        Object(Node {
            id: tree.id(v),
            parent: (tree.parent(v) != ROOT).then(|| tree.id(tree.parent(v))),
            rate: tree.rate(v),
            load: tree.load(v) as i64,
            available: tree.is_available(v),
        })
    };
    let file = File { nodes: (0..tree.len() as u32).map(node).collect() };
    serde_json::to_string(&file).expect("numbers and names can be written")
}
