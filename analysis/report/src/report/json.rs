//! The model as JSON, for notebooks and pipelines. Values are in the metrics' units and not rounded.

use pktgen_core::json_kind::JsonKind;
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};

use super::Report;
use crate::model::Model;

/// The whole report.
pub const JSON: JsonKind = JsonKind { name: "report", version: 1, about: "a report: `pktgen report`, report.json" };

/// See the module documentation.
pub(super) struct Json;

impl Named for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "the whole report as JSON, for notebooks and pipelines"
    }
}

impl Report for Json {
    fn extension(&self) -> &'static str {
        "json"
    }

    fn render(&self, model: &Model) -> Result<String> {
        let text = serde_json::to_string_pretty(model);
        let text = text.map_err(|fault| Error::Invalid(format!("the report could not be written as JSON: {fault}")))?;
        Ok(JSON.stamp(&text))
    }
}
