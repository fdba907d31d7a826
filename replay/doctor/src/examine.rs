//! Running the checks.

use super::{CHECKS, Finding, Host};

/// What the checks look at.
pub struct View<'a> {
    /// The host.
    pub host: &'a Host,
    /// These interfaces.
    pub interfaces: Vec<String>,
    /// Whether they were requested by name. Otherwise they are simply all there are, and none of them has to be fit.
    pub asked: bool,
    /// Sockets may be opened to see whether that works.
    pub probe: bool,
}

impl<'a> View<'a> {
    /// Looks at the named interfaces, or, if there are none, at all but the loopback.
    pub fn new(host: &'a Host, named: Vec<String>, probe: bool) -> Self {
        let asked = !named.is_empty();
        let mut interfaces = if asked { named } else { host.interfaces() };
        let mut seen = std::collections::HashSet::new();
        interfaces.retain(|name| seen.insert(name.clone()));
        View { host, interfaces, asked, probe }
    }

    /// The interfaces that are there.
    pub(super) fn present(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().map(String::as_str).filter(|name| self.host.exists(name))
    }
}

/// Runs every check. The worst findings come first; those of a level in the order of [`CHECKS`].
pub fn examine(view: &View<'_>) -> Vec<Finding> {
    let mut findings: Vec<_> = CHECKS.iter().flat_map(|check| check.look(view)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}
