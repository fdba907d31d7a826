//! Findings for people.

use super::Finding;

/// Lines, aligned: level, check, subject, value and why it matters; below it the remedy, if there is one. What is as it
/// should be is told without reasons.
pub fn text(findings: &[Finding]) -> String {
    let width = |of: fn(&Finding) -> &str| findings.iter().map(|f| of(f).chars().count()).max().unwrap_or(0);
    let (check, subject) = (width(|f| f.check), width(|f| &f.subject));
    let mut out = String::new();
    for finding in findings {
        let Finding { level, value, why, remedy, .. } = finding;
        let told = if why.is_empty() || *level == super::Level::Ok { String::new() } else { format!(" - {why}") };
        out.push_str(&format!(
            "{:<7}  {:<check$}  {:<subject$}  {value}{told}\n",
            level.name(),
            finding.check,
            finding.subject
        ));
        if !remedy.is_empty() {
            out.push_str(&format!("{:7}  {:check$}  {:subject$}  remedy: {remedy}\n", "", "", ""));
        }
    }
    out
}
