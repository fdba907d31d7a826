//! The manifest beside a trace: origin, licence, hash.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::hex;
use crate::regular::check_regular;
use crate::{Error, Result};

/// `TRACE.manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceManifest {
    /// Version of this structure.
    pub version: u32,
    /// How the trace came about: "synthesised", "recorded", "scaled", "converted".
    pub origin: String,
    /// With what: tool and version, seed, parameters, the file it was made from.
    pub details: BTreeMap<String, String>,
    /// Licence of the data.
    pub licence: String,
    /// SHA-256 of the Parquet file.
    pub sha256: String,
    /// Rows.
    pub updates: u64,
}

/// Where the manifest of `trace` is.
pub(crate) fn manifest_path(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".manifest.json");
    name.into()
}

impl TraceManifest {
    /// Reads the manifest beside `trace`; none if there is none.
    pub fn load(trace: &Path) -> Result<Option<Self>> {
        let path = manifest_path(trace);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| Error::data(&path, format!("not a trace manifest: {e}"))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path)(e)),
        }
    }

    /// Returns the content of the manifest at `path`.
    pub(super) fn text(&self, path: &Path) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self).map_err(|e| Error::data(path, e.to_string()))?;
        text.push('\n');
        Ok(text)
    }
}

/// SHA-256 of a file.
pub(crate) fn file_hash(path: &Path) -> Result<String> {
    check_regular(path)?;
    let mut file = std::fs::File::open(path).map_err(Error::io("open trace", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(Error::io("read trace", path))? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}
