//! `[report]` and `[paper]` of experiments: the content of a report, and published values.

use std::collections::BTreeMap;

use pktgen_core::config::{Section, Value};
use pktgen_core::record::{Bound, Group, Published, ReportPlan};
use pktgen_core::{Error, Result};

/// Reads `[report]`; `default` lists the metrics of its table if it names none.
pub(super) fn read_report(section: &mut Section, default: &[&str]) -> Result<ReportPlan> {
    Ok(ReportPlan {
        question: section.get_opt("question")?,
        metrics: section.get_list("metrics", default)?,
        baseline: section.get_opt("baseline")?,
        groups: read_groups(section)?,
        fitted: section.get_list("fitted", &[])?,
        notes: section.get_list("notes", &[])?,
    })
}

/// Reads `[[report.groups]]`: a name and clusters, as `"0-4"` or `"0,3,7"`.
fn read_groups(section: &mut Section) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for table in section.get_tables("groups")? {
        let mut group = Group::default();
        for (key, value) in table {
            match (key.as_str(), &value) {
                ("name", Value::Text(name)) => group.name = name.clone(),
                ("clusters", Value::Text(list)) if cluster_list(list).is_some() => {
                    group.clusters = cluster_list(list).unwrap_or_default();
                }
                _ => {
                    return Err(Error::config(format!(
                        "{}: {key} = {}; a group has a name and clusters, as \"0-4\" or \"0,3,7\"",
                        section.place("groups"),
                        value.to_toml()
                    )));
                }
            }
        }
        if group.name.is_empty() || group.clusters.is_empty() {
            return Err(Error::config(format!(
                "{}: a group has a name and clusters, as name = \"S1\", clusters = \"0-4\" (or \"0,3,7\")",
                section.place("groups")
            )));
        }
        groups.push(group);
    }
    Ok(groups)
}

fn cluster_list(text: &str) -> Option<Vec<u16>> {
    let mut clusters = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        clusters.extend(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?);
    }
    Some(clusters)
}

/// Reads `[[paper.rows]]`: `at` labels, a `source`, and the values.
pub(super) fn read_paper(section: &mut Section) -> Result<Vec<Published>> {
    let mut rows = Vec::new();
    for table in section.get_tables("rows")? {
        let mut row = Published { at: BTreeMap::new(), source: String::new(), values: BTreeMap::new(), bound: None };
        for (key, value) in table {
            match (key.strip_prefix("at."), &value) {
                (Some(label), value) => {
                    row.at.insert(label.to_owned(), value.to_label());
                }
                (None, Value::Text(text)) if key == "source" => row.source = text.clone(),
                (None, Value::Text(text)) if key == "bound" && text == "above" => row.bound = Some(Bound::Above),
                (None, Value::Text(text)) if key == "bound" && text == "below" => row.bound = Some(Bound::Below),
                (None, Value::Integer(n)) => {
                    row.values.insert(key, *n as f64);
                }
                (None, Value::Float(x)) => {
                    row.values.insert(key, *x);
                }
                _ => {
                    return Err(Error::config(format!(
                        "{}: {key} = {}; a published value is a number, and bound is \"above\" or \"below\"",
                        section.place("rows"),
                        value.to_toml()
                    )));
                }
            }
        }
        rows.push(row);
    }
    Ok(rows)
}
