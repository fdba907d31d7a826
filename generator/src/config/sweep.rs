//! `[sweep]`: axes, variants and seeds, expanded into runs.

use std::collections::BTreeMap;

use super::document::{Document, Origin};
use super::value::Value;
use crate::{Error, Result};

/// An axis or `variant`, the label, and what it sets.
type Choice = (String, String, Vec<(String, Value)>);

/// One run of a sweep: what it is called and what it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Axis → value, and `variant` → name, in the order of the file's axes.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// Keys that it sets.
    pub set: Vec<(String, Value)>,
}

/// A sweep as written.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Seeds, in order.
    pub seeds: Vec<u64>,
    /// Axes with their values.
    pub axes: Vec<(String, Vec<Value>)>,
    /// Variants with what they set.
    pub variants: Vec<(String, Vec<(String, Value)>)>,
}

impl Sweep {
    /// Takes `[sweep]` out of a document. Without one there is one run with the seed `seed`.
    pub fn read(document: &mut Document, seed: u64) -> Result<Self> {
        let mut section = document.section("sweep")?;
        let seeds: String = section.get("seeds", seed.to_string())?;
        let seeds = parse_seeds(&seeds).ok_or_else(|| {
            Error::config(format!(
                "{}: \"{seeds}\" is not a list of seeds; write \"1..30\" or \"3,5,7\"",
                section.place("seeds")
            ))
        })?;
        let mut axes = Vec::new();
        for (path, value) in section.get_table("axes")? {
            let Value::List(items) = value else {
                return Err(Error::config(format!("{}: {path} must be a list of values", section.place("axes"))));
            };
            if items.is_empty() {
                return Err(Error::config(format!("{}: {path} has no values", section.place("axes"))));
            }
            axes.push((path, items.into_iter().map(|e| e.value).collect()));
        }
        let mut variants = Vec::new();
        for table in section.get_tables("variants")? {
            let mut name = None;
            let mut set = Vec::new();
            for (path, value) in table {
                match value {
                    Value::Text(text) if path == "name" => name = Some(text),
                    value => set.push((path, value)),
                }
            }
            let place = section.place("variants");
            variants.push((name.ok_or_else(|| Error::config(format!("{place}: a variant has no name")))?, set));
        }
        document.close(section)?;
        Ok(Sweep { seeds, axes, variants })
    }

    /// Every run: variants vary slowest, then axes, then seeds.
    pub fn runs(&self) -> Vec<Run> {
        let mut points = vec![Run { labels: BTreeMap::new(), seed: 0, set: Vec::new() }];
        let mut cross = |choices: Vec<Choice>| {
            points = points
                .iter()
                .flat_map(|point| {
                    choices.iter().map(move |(key, label, set)| {
                        let mut next = point.clone();
                        next.labels.insert(key.clone(), label.clone());
                        next.set.extend(set.iter().cloned());
                        next
                    })
                })
                .collect();
        };
        if !self.variants.is_empty() {
            cross(self.variants.iter().map(|(name, set)| ("variant".into(), name.clone(), set.clone())).collect());
        }
        for (path, values) in &self.axes {
            cross(values.iter().map(|v| (path.clone(), v.to_label(), vec![(path.clone(), v.clone())])).collect());
        }
        let seeded = |point: &Run| {
            let point = point.clone();
            self.seeds.iter().map(move |&seed| Run { seed, ..point.clone() }).collect::<Vec<_>>()
        };
        points.iter().flat_map(seeded).collect()
    }
}

impl Run {
    /// Lays what this run sets over a document.
    pub fn apply(&self, document: &mut Document) -> Result<()> {
        for (path, value) in &self.set {
            document.set(path, value.clone(), Origin::Sweep)?;
        }
        Ok(())
    }

    /// A folder name: labels and seed, safe on every file system.
    pub fn folder(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(variant) = self.labels.get("variant") {
            parts.push(variant.clone());
        }
        let axes = self.labels.iter().filter(|(key, _)| *key != "variant");
        parts.extend(axes.map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key))));
        parts.push(format!("seed={}", self.seed));
        let safe = |c: char| if c.is_ascii_alphanumeric() || "=.-".contains(c) { c } else { '_' };
        parts.join(",").chars().map(|c| if c == ',' { ',' } else { safe(c) }).collect()
    }
}

/// `1..30` (both ends), `3,5,7` or a mix.
fn parse_seeds(text: &str) -> Option<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => seeds.push(part.trim().parse().ok()?),
            Some((first, last)) => {
                let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                if first > last || last - first > 1_000_000 {
                    return None;
                }
                seeds.extend(first..=last);
            }
        }
    }
    Some(seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_the_product_of_its_parts() {
        let text = r#"
[sweep]
seeds = "1..2,7"
[sweep.axes]
topology.rate = ["40Gbps", "20Gbps"]
[[sweep.variants]]
name = "FIFO"
target.queue = "fifo"
[[sweep.variants]]
name = "Olaf"
"target.queue" = "olaf"
"#;
        let mut doc = Document::parse(text, "x.toml").unwrap();
        let sweep = Sweep::read(&mut doc, 1).unwrap();
        let runs = sweep.runs();
        assert_eq!(runs.len(), 2 * 2 * 3);
        assert_eq!(runs[0].folder(), "FIFO,rate=40Gbps,seed=1");
        assert_eq!(runs[11].folder(), "Olaf,rate=20Gbps,seed=7");
        runs[11].apply(&mut doc).unwrap();
        assert_eq!(doc.get("target.queue"), Some(&Value::Text("olaf".into())));
        assert_eq!(doc.get("topology.rate"), Some(&Value::Text("20Gbps".into())));
    }

    #[test]
    fn without_a_sweep_there_is_one_run() {
        let mut doc = Document::parse("", "x.toml").unwrap();
        let runs = Sweep::read(&mut doc, 42).unwrap().runs();
        assert_eq!((runs.len(), runs[0].seed), (1, 42));
        assert_eq!(parse_seeds("3..1"), None);
        assert_eq!(parse_seeds("a"), None);
    }
}
