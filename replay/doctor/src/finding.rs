//! What a check found.

use serde::Serialize;

/// How much a finding matters. The worst is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know; figures may depend on it.
    Note,
    /// Works, but worse than it could.
    Warning,
    /// Something that pktgen offers does not work.
    Cannot,
}

impl Level {
    /// What it is called.
    pub fn name(self) -> &'static str {
        ["ok", "note", "warning", "cannot"][self as usize]
    }
}

/// One finding: what was looked at, what is there, why it matters, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// On what: a setting, an interface, a transport.
    pub subject: String,
    /// How much it matters.
    pub level: Level,
    /// What is there.
    pub value: String,
    /// Why that matters; empty if there is nothing to say.
    pub why: String,
    /// The command or key that mends it; empty if there is nothing to mend.
    pub remedy: String,
}

impl Finding {
    /// A finding without a reason and a remedy.
    pub fn new(check: &'static str, subject: impl Into<String>, level: Level, value: impl Into<String>) -> Self {
        Finding {
            check,
            subject: subject.into(),
            level,
            value: value.into(),
            why: String::new(),
            remedy: String::new(),
        }
    }

    /// Says why it matters.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Says what mends it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// From a refusal, "why; remedy", as the messages of transports are written.
    pub fn refused(check: &'static str, subject: impl Into<String>, value: &str, message: &str) -> Self {
        let (why, remedy) = message.split_once("; ").unwrap_or((message, ""));
        Finding::new(check, subject, Level::Cannot, value).why(why).remedy(remedy)
    }
}
