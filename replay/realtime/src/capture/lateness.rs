//! `lateness.hlog`: lateness of departing frames, as an HdrHistogram interval log.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use pktgen_core::record::{FileDigest, PacingCounts};
use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result};

/// The file's name.
pub(crate) const LATENESS: &str = "lateness.hlog";

/// Writes `lateness` (ns) of a run of this length to its run dir.
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

/// Returns the quantiles for the manifest.
pub fn describe(lateness: &Histogram<u64>) -> String {
    let at = |q| lateness.value_at_quantile(q);
    format!("p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns", at(0.5), at(0.99), at(0.999), lateness.max())
}

/// Returns the counts of frames delayed by the host, given the lateness of the `others`.
pub(crate) fn by_host(all: &Histogram<u64>, others: &Histogram<u64>) -> PacingCounts {
    let at = |q| others.value_at_quantile(q);
    PacingCounts {
        frames: all.len(),
        late_by_host: all.len() - others.len(),
        others_late_ns: (!others.is_empty()).then(|| [at(0.5), at(0.99), others.max()]),
    }
}

/// Describes them as a fact about the host.
pub(crate) fn describe_by_host(counts: &PacingCounts) -> String {
    let share = counts.share_by_host().unwrap_or_default() * 100.0;
    let by_host = format!("{} of {} frames ({share:.3} %)", counts.late_by_host, counts.frames);
    match counts.others_late_ns {
        Some([p50, p99, most]) => format!("{by_host}; all others: p50 {p50} ns, p99 {p99} ns, max {most} ns"),
        None => by_host,
    }
}
