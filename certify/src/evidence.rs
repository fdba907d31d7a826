//! Files of a certificate: verdicts, and the frames that prove them.

use std::path::Path;

use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_engine::clause::ProbeFrame;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use serde_json::json;

use crate::certificate::Certificate;

impl Certificate {
    /// Writes `certificate.json`, `.md` and `.xml` into a folder; it already contains the captures of clauses, each
    /// written when its clause ended.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let clauses: Vec<_> = self.outcomes.iter().map(|outcome| outcome.to_json()).collect();
        let mut whole = self.to_json()?;
        whole["clauses"] = json!(clauses);
        let text = serde_json::to_string_pretty(&whole);
        let text = text.map_err(|e| Error::Invalid(format!("the certificate cannot be written as JSON: {e}")))?;
        write_whole(&folder.join("certificate.json"), text + "\n")?;
        write_whole(&folder.join("certificate.md"), self.page()?)?;
        write_whole(&folder.join("certificate.xml"), self.junit())?;
        write_whole(&folder.join("experiment.toml"), self.config.clone()).map(drop)
    }
}

/// Writes the frames, with an interface for each port and direction.
pub(crate) fn capture(path: &Path, frames: &[ProbeFrame]) -> Result<()> {
    let mut ends: Vec<(u16, bool)> = frames.iter().map(|frame| (frame.port, frame.inward)).collect();
    ends.sort_unstable();
    ends.dedup();
    let name = |(port, inward): &(u16, bool)| format!("{} port {port}", if *inward { "into" } else { "out of" });
    let interfaces = ends.iter().map(name).collect();
    let mut writer = Writer::create(path, WriterOptions { interfaces, ..WriterOptions::new(Form::Pcapng) })?;
    let mut frames: Vec<_> = frames.iter().collect();
    // A frame that left while others were sent was read after them.
    frames.sort_by_key(|frame| frame.t);
    for frame in frames {
        let interface = ends.binary_search(&(frame.port, frame.inward)).unwrap_or_default() as u32;
        writer.packet(interface, frame.t, &frame.bytes, frame.bytes.len() as u32)?;
    }
    writer.finish().map(drop)
}
