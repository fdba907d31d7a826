//! Flags of `pktgen trace convert`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Files of others, as a trace.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Convert {
    /// Files to read; several only for captures and execution traces (one per rank)
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Trace to write (Parquet); appears under its name only after success
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// Format of the files (pktgen list importers) [default: detected from first bytes or extension]
    #[arg(long, value_name = "IMPORTER")]
    pub(crate) format: Option<String>,
    /// Frame size, if neither the file nor its values determine it
    #[arg(long, default_value = "256B")]
    pub(crate) bytes: String,
    /// Captures: wire format of their packets (pktgen list formats) [default: detected from ports]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) wire: Option<String>,
    /// Execution traces: split messages into frames of at most this size, as 1500B [default: messages larger than a frame are refused]
    #[arg(long, value_name = "SIZE")]
    pub(crate) split: Option<String>,
    /// Execution traces: one cluster per process group [default: all in cluster 0]
    #[arg(long)]
    pub(crate) by_group: bool,
    /// Licence of the data, for the manifest
    #[arg(long, default_value = "unknown")]
    pub(crate) licence: String,
}

const EXITS: &str = "\
docs/import.md has requirements and an example of each format. Derived, omitted and skipped data is printed, and noted in the
trace's manifest. Exit codes: 0 converted; 2 a file is damaged or breaks a rule of traces (the message names row, line, packet
or node, and column); nothing is written.";
