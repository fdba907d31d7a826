//! Metrics as queries: the definition of a metric in SQL, if SQL can express it completely.
//!
//! The analysis computes the same metrics in one pass (docs/records.md); a test compares both. Called by `pktgen explain`.

/// The text of the queries.
const TEXT: &str = include_str!("../metrics.sql");

/// A metric as a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricQuery {
    /// Name of the metric.
    pub metric: &'static str,
    /// Labels of its lines.
    pub labels: Vec<&'static str>,
    /// One SELECT with a column `value`, and a column for each label.
    pub sql: &'static str,
}

/// Returns all queries in the order of the file.
pub fn queries() -> Vec<MetricQuery> {
    let parse = |block: &'static str| {
        let (head, sql) = block.strip_prefix("-- ")?.split_once('\n')?;
        let (metric, labels) = head
            .split_once(" by ")
            .map_or((head, Vec::new()), |(metric, labels)| (metric, labels.split(", ").collect()));
        Some(MetricQuery { metric, labels, sql: sql.trim_end() })
    };
    TEXT.split("\n\n").filter_map(parse).collect()
}

/// Formats the queries as a page of markdown.
pub fn markdown() -> String {
    let of = |MetricQuery { metric, labels, sql }: MetricQuery| {
        let labels = if labels.is_empty() { String::new() } else { format!(" (by {})", labels.join(", ")) };
        format!("`{metric}`{labels}:\n\n```sql\n{sql}\n```\n\n")
    };
    queries().into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_of_a_metric_and_has_its_labels() {
        let definitions: Vec<_> = pktgen_records::METRICS.iter().flat_map(|metric| metric.definitions()).collect();
        let queries = queries();
        assert_eq!(queries.len(), TEXT.matches("-- ").count());
        for MetricQuery { metric, labels, .. } in queries {
            let of = definitions.iter().filter(|definition| definition.metric == metric);
            let known: Vec<&str> = of.flat_map(|definition| definition.labels).map(|label| label.name).collect();
            assert!(definitions.iter().any(|definition| definition.metric == metric), "{metric}");
            assert!(labels.iter().all(|label| known.contains(label)), "{metric}: {labels:?}");
        }
    }
}
