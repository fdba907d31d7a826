//! `sweep.json`: the manifest of a folder of run dirs.

use std::path::Path;

use pktgen_core::record::{SweepManifest, digest};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};

/// The manifest of a folder of run dirs.
pub(super) const SWEEP: &str = "sweep.json";

/// Writes `sweep` as the `sweep.json` of `out`, with the digests of the existing runs.
pub(super) fn write_sweep(out: &Path, sweep: &mut SweepManifest) -> Result<()> {
    for run in &mut sweep.runs {
        let path = out.join(&run.dir).join("manifest.json");
        run.manifest = match std::fs::read(&path) {
            Ok(text) => Some(digest::manifest_digest(&text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io("read", &path)(e)),
        };
    }
    let path = out.join(SWEEP);
    write_whole(&path, sweep_text(sweep, &path)?).map(drop)
}

/// Updates the digests of the runs in the `sweep.json` of `dir`, if there is one, after some were recovered.
pub fn refresh_sweep(dir: &Path) -> Result<()> {
    let path = dir.join(SWEEP);
    if path.exists() { write_sweep(dir, &mut super::shard::read(&path)?) } else { Ok(()) }
}

/// Returns the text of a `sweep.json` at `path`, sealed.
pub(super) fn sweep_text(sweep: &SweepManifest, path: &Path) -> Result<String> {
    let text = serde_json::to_string_pretty(sweep).map_err(|e| Error::data(path, e.to_string()))?;
    Ok(digest::seal(&text))
}
