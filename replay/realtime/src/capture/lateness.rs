//! `lateness.hlog`: how late frames left, as an HdrHistogram interval log that any viewer of such logs reads.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use pktgen_core::record::FileDigest;
use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result};

/// The file's name.
pub(crate) const LATENESS: &str = "lateness.hlog";

/// Writes `lateness` (ns) of a run of this length into its run dir.
pub(crate) fn write_lateness(dir: &Path, lateness: &Histogram<u64>, length: Duration) -> Result<FileDigest> {
    let path = dir.join(LATENESS);
    let failed = |what: String| Error::Io { action: "write", path: path.clone(), source: std::io::Error::other(what) };
    let (mut out, mut serializer) = (WholeFile::create(&path)?, V2Serializer::new());
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("ns between a frame's deadline and the call that submitted it")
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|e| failed(e.to_string()))?;
    log.write_histogram(lateness, Duration::ZERO, length, None).map_err(|e| failed(format!("{e:?}")))?;
    out.finish()
}

/// The quantiles that a manifest shows.
pub fn describe(lateness: &Histogram<u64>) -> String {
    let at = |q| lateness.value_at_quantile(q);
    format!("p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns", at(0.5), at(0.99), at(0.999), lateness.max())
}
