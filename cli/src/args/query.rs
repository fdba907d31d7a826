//! Flags of `pktgen query`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pktgen_core::units::Size;

/// See docs/query.md.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Query {
    /// Run dir, sweep, capture at the server (pcap, pcapng), or folder of tables of captures
    pub(crate) path: PathBuf,
    /// SQL statement: one SELECT, as 'SELECT reason, COUNT(*) AS n FROM fates GROUP BY reason'
    #[arg(required_unless_present = "tables")]
    pub(crate) sql: Option<String>,
    /// List the tables with their columns
    #[arg(long, conflicts_with_all = ["sql", "explain", "format", "out"])]
    pub(crate) tables: bool,
    /// Print the query plan without reading data; a capture is read first
    #[arg(long)]
    pub(crate) explain: bool,
    /// Format of the result [default: table; with --json jsonl]
    #[arg(long, value_name = "FORM", value_parser = ["table", "jsonl", "csv", "parquet", "arrow"])]
    pub(crate) format: Option<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Memory limit of the query, as 2GB; a query that needs more is refused [default: half of this machine's memory]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// Read files that were changed since they were written; noted in the output
    #[arg(long)]
    pub(crate) no_verify: bool,
}

const EXITS: &str = "\
Tables: sent, books, received, results, iterations, states, fates, metrics, runs; of captures sent and received. docs/query.md has\n\
their columns, and twenty questions with answers. Exit codes: 0 answered; 1 answered, but a run is invalid or could not be read,\n\
or a file was changed; 2 the statement is wrong or refused, or needs more than --memory.";
