//! `[report]` and `[paper]` of experiments: the content of a report, and published values.

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
        let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
        if first > last {
            return None;
        }
        clusters.extend(first..=last);
    }
    Some(clusters)
}

/// Reads `[[paper.rows]]`: `at` labels, a `source`, and the values.
pub(super) fn read_paper(section: &mut Section) -> Result<Vec<Published>> {
    let mut rows = Vec::new();
    for table in section.get_tables("rows")? {
        let mut row = Published::default();
        for (key, value) in table {
            match (key.strip_prefix("at."), &value) {
                (Some(label), value) => {
                    row.at.insert(label.to_owned(), value.to_label());
                }
                (None, Value::Text(text)) if key == "source" => row.source = text.clone(),
                (None, Value::Text(text)) if key == "bound" && text == "above" => row.bound = Some(Bound::Above),
                (None, Value::Text(text)) if key == "bound" && text == "below" => row.bound = Some(Bound::Below),
                (None, Value::Integer(n)) => row.insert(&key, *n as f64, &n.to_string()),
                (None, Value::Printed(x, text)) if x.is_finite() => row.insert(&key, *x, text),
                (None, Value::Float(x)) if x.is_finite() => row.insert(&key, *x, &x.to_string()),
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

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;

    use super::*;

    #[test]
    fn a_range_of_clusters_goes_up() {
        assert_eq!(cluster_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cluster_list("0-2,8-5"), None);
    }

    #[test]
    fn a_published_value_is_as_exact_as_its_text() {
        let text =
            "[[paper.rows]]\nsource = \"T\"\nat.\"topology.rate\" = 0.50\nloss = 1.60\nreceived = 6109\naom = 1714e6";
        let mut document = Document::parse(text, "x.toml").unwrap();
        let mut section = document.section("paper").unwrap();
        let rows = read_paper(&mut section).unwrap();
        let half = |metric: &str| rows[0].half(metric).unwrap();
        assert!((half("loss") - 0.005).abs() < 1e-12, "{rows:?}");
        assert_eq!((half("received"), half("aom"), rows[0].values["loss"]), (0.5, 0.5e6, 1.6));
        // The resolved configuration, which runs are repeated from, has the same text.
        document.close(section).unwrap();
        let mut again = Document::parse(&document.resolved(), "again").unwrap();
        assert_eq!(read_paper(&mut again.section("paper").unwrap()).unwrap(), rows);
    }

    #[test]
    fn a_published_value_is_a_number() {
        for value in ["nan", "inf", "-inf", "1e999"] {
            let Ok(mut document) =
                Document::parse(&format!("[[paper.rows]]\nsource = \"T\"\nloss = {value}"), "x.toml")
            else {
                continue;
            };
            assert!(read_paper(&mut document.section("paper").unwrap()).is_err(), "{value}");
        }
    }
}
