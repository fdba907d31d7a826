//! A certificate in progress: completed clauses are stored, so that a killed certification can continue.

use std::path::{Path, PathBuf};

use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_engine::clause::ClauseSuite;
use serde_json::{Value, json};

use crate::certificate::{Certificate, ClauseOutcome, METHOD};
use crate::evidence::capture;

/// The file, while a certificate is in progress.
const FILE: &str = "progress.json";

/// Returns a value for messages: text without quotes.
fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A certificate in progress in a folder.
pub struct CertificateProgress {
    folder: PathBuf,
    /// Identity of the certificate: another certificate cannot continue with its clauses.
    of: Value,
    clauses: Vec<Value>,
}

impl CertificateProgress {
    /// Returns whether a folder has an unfinished certificate.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(FILE).is_file()
    }

    /// Begins a certificate without outcomes.
    pub fn begin(folder: &Path, certificate: &Certificate, chosen: &str) -> Result<Self> {
        let of = Self::of(certificate, chosen)?;
        let own = CertificateProgress { folder: folder.to_owned(), of, clauses: Vec::new() };
        own.write()?;
        Ok(own)
    }

    /// Continues the one in a folder, which must be the same; also returns the outcomes so far.
    pub fn resume(
        folder: &Path,
        certificate: &Certificate,
        chosen: &str,
        suite: &'static ClauseSuite,
    ) -> Result<(Self, Vec<ClauseOutcome>)> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let damaged = || Error::Invalid(format!("{}: no progress of a certificate; remove the folder", path.display()));
        let found: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
        let of = Self::of(certificate, chosen)?;
        let differs = of.as_object().into_iter().flatten().find(|(key, value)| found["of"][key.as_str()] != **value);
        if let Some((key, value)) = differs {
            return Err(Error::config(format!(
                "{}: it has a certificate under way with {key} {}, and this one has {}; choose another --out, or go on with \
                 what it was begun with",
                folder.display(),
                words(&found["of"][key.as_str()]),
                words(value)
            )));
        }
        let clauses = found["clauses"].as_array().ok_or_else(damaged)?.clone();
        let outcomes = clauses.iter().map(|one| ClauseOutcome::of_json(one, suite).ok_or_else(damaged));
        let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
        Ok((CertificateProgress { folder: folder.to_owned(), of, clauses }, outcomes))
    }

    /// Returns the identity of a certificate.
    fn of(certificate: &Certificate, chosen: &str) -> Result<Value> {
        Ok(json!({
            "suite": certificate.suite.0,
            "suite_version": certificate.suite.1,
            "method_version": METHOD,
            "profile": certificate.profile.name(),
            "by": certificate.by,
            "device": certificate.device,
            "seed": certificate.seed,
            "clauses": chosen,
            "config_sha256": certificate.config_digest()?,
        }))
    }

    /// Stores the outcome of a clause, and the frames that decided against it.
    pub fn keep(&mut self, outcome: &mut ClauseOutcome) -> Result<()> {
        if !outcome.evidence.is_empty() {
            let name = format!("{}.pcapng", outcome.clause.id);
            capture(&self.folder.join(&name), &outcome.evidence)?;
            outcome.file = Some(name);
        }
        if !outcome.trials.is_null() {
            let name = format!("{}.json", outcome.clause.id);
            write_whole(&self.folder.join(&name), format!("{:#}\n", outcome.trials))?;
            outcome.file = Some(name);
        }
        let mut one = outcome.to_json();
        one["first"] = json!(outcome.first);
        self.clauses.push(one);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let text = json!({ "of": self.of, "clauses": self.clauses }).to_string();
        write_whole(&self.folder.join(FILE), text + "\n").map(drop)
    }

    /// Ends the progress: the certificate has been written.
    pub fn end(self) -> Result<()> {
        let path = self.folder.join(FILE);
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))
    }
}
