//! Flags of `pktgen trace convert`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Files of others, as a trace.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Convert {
    /// Files to read; several only of captures and of execution traces (one per rank)
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Trace to write (Parquet); it gets its name only when all is good
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// What the files are (pktgen list importers) [default: what extension or first bytes say]
    #[arg(long, value_name = "IMPORTER")]
    pub(crate) format: Option<String>,
    /// Frame size where neither the file nor the values say it
    #[arg(long, default_value = "256B")]
    pub(crate) bytes: String,
    /// Captures: the wire format of their packets (pktgen list formats) [default: what ports say]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) wire: Option<String>,
    /// Execution traces: cut messages into frames of at most this, as 1500B [default: one that needs more than a frame is refused]
    #[arg(long, value_name = "SIZE")]
    pub(crate) split: Option<String>,
    /// Execution traces: a cluster per process group [default: all are in cluster 0]
    #[arg(long)]
    pub(crate) by_group: bool,
    /// Licence of the data, for the manifest
    #[arg(long, default_value = "unknown")]
    pub(crate) licence: String,
}

const EXITS: &str = "\
docs/import.md has what each form must have, and an example of each. What was derived, left out or passed over is printed, and
kept in the trace's manifest. Exit codes: 0 converted; 2 a file is damaged or breaks a rule of traces, with its row, line,
packet or node, and column: then nothing is written.";
