//! Reports: one file per output format of a [`Model`].
//!
//! To add one: a new file here, its `mod` line and its entry in [`REPORTS`]. Called by the CLI.

mod html;
mod json;
mod markdown;

use pktgen_core::Result;
use pktgen_core::registry::Named;

use crate::model::Model;

pub use html::{SCROLLS, provenance as html_provenance};
pub use json::JSON;
pub use markdown::{plain, provenance as markdown_provenance};

/// The style of a page.
pub const STYLE: &str = include_str!("../style.css");

/// An output format of reports.
pub trait Report: Named + Sync {
    /// Returns the extension of its files.
    fn extension(&self) -> &'static str;
    /// Renders the report as text.
    fn render(&self, model: &Model) -> Result<String>;
}

/// All output formats.
pub static REPORTS: &[&dyn Report] = &[&html::Html, &markdown::Markdown, &json::Json];
