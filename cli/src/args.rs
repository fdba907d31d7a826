//! Every flag of every command, in one place.

mod calibrate;
mod certify;
mod completions;
mod control;
mod convert;
mod device;
mod diagnose;
mod dump;
mod find_rate;
mod init;
mod listen;
mod looking;
mod parse;
mod query;
mod ranks;
mod scale;
mod target;
mod tune;
mod web_view;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use pktgen_core::shard::Shard;
use pktgen_core::units::{Rate, Size, Span};
use pktgen_records::age::AgeOf;

pub(crate) use calibrate::Calibrate;
pub(crate) use certify::Certify;
pub(crate) use completions::Completions;
#[cfg(feature = "completions")]
pub(crate) use completions::Form;
pub(crate) use control::{Control, ControlCommand};
pub(crate) use convert::Convert;
pub(crate) use device::{Captured, Device, DeviceOf};
pub(crate) use diagnose::Diagnose;
pub(crate) use dump::Dump;
pub(crate) use find_rate::FindRate;
pub(crate) use init::Init;
pub(crate) use listen::ListenFlags;
pub(crate) use looking::Looking;
pub(crate) use parse::parse;
pub(crate) use query::Query;
pub(crate) use ranks::Ranks;
pub(crate) use scale::Scale;
pub(crate) use target::{AllowLaunch, Target, TargetCommand};
pub(crate) use tune::Tune;
pub(crate) use web_view::WebView;

/// Trace-driven benchmark harness and packet generator for in-network aggregation
#[derive(Debug, Parser)]
#[command(name = "pktgen", version, max_term_width = 100, after_help = EXITS)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXITS: &str = "\
Exit codes: 0 success; 1 the run is invalid, the verdict is worse, or a file could not be written;\n\
2 usage or configuration; 3 not possible on this host (the message names the remedy).\n\
Quantities: 40Gbps, 0.8Mbps; 1.5us, 100ms; 2048bit, 256B, 8KiB.";

/// Returns a parser of the values of `--age`, with their help.
fn ages() -> impl TypedValueParser<Value = AgeOf> {
    let values = AgeOf::ALL.map(|age| PossibleValue::new(age.name()).help(age.about()));
    PossibleValuesParser::new(values).try_map(|name| AgeOf::named(&name, "--age"))
}

/// Flags that every command takes.
#[derive(Debug, Clone, Copy, Default, ClapArgs)]
pub(crate) struct Common {
    /// Print no progress and no notes, only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print results as JSON, one object per line, on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print more details (-vv: many more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare Olaf with FIFO on OLAF's Table 1, in one command; needs neither root nor hardware
    Demo(Demo),
    /// Make, scale and inspect traces
    #[command(subcommand)]
    Trace(Trace),
    /// Run an experiment: one run dir per run of its sweep, then a report
    Replay(Replay),
    /// Run the software device of an experiment between two interfaces, until Ctrl-C
    Target(Target),
    /// Run the parameter server of an experiment (receive, answer, record), or record every frame of an interface
    Capture(Capture),
    /// Steer a run in progress that was started with --control: pause, rate, stop (docs/control.md)
    Control(Control),
    /// Show finished runs and runs in progress on a local, read-only web page (docs/serve.md)
    Serve(WebView),
    /// Merge the shards of a sweep, or the run dirs of a run's workers, device and server
    Merge(Merge),
    /// Compute metrics of run dirs, of captures (pcap, pcapng), or of tables made from captures
    Analyze(Box<Analyze>),
    /// Query run dirs, sweeps and captures by SQL: one SELECT over documented tables, in bounded memory (docs/query.md)
    Query(Query),
    /// Print streams, metrics and verdict of runs as lines, to compare versions of pktgen (docs/dump.md)
    Dump(Dump),
    /// Write reports of run dirs (HTML, Markdown, JSON), or compare runs (--baseline, or several RUNs)
    #[command(visible_alias = "compare")]
    Report(Report),
    /// Show metrics over time and their change points, from a file written by report --history
    History(History),
    /// Plan where to aggregate, how to wire and how to route
    #[command(subcommand)]
    Place(Place),
    /// Check by an SMT solver whether a property holds for every behaviour of a configuration (OLAF §6)
    Verify(Verify),
    /// Test a device's conformance to its protocol, clause by clause, with packets as evidence (docs/certify.md)
    Certify(Certify),
    /// Fit settings of an experiment to measured or published values, with intervals (docs/calibrate.md)
    Calibrate(Calibrate),
    /// Check what this host can do, with cause and remedy of what it cannot; changes nothing, sends nothing
    Doctor(Doctor),
    /// Find the transport and settings that send fastest on an interface, or keep deadlines best (docs/tune.md)
    Tune(Tune),
    /// Write a checked experiment and profile for a device: asks on a terminal, takes flags in scripts (docs/init.md)
    Init(Init),
    /// Find the cause of missing or wrong results of a run, with evidence, and where time went (docs/diagnose.md)
    Diagnose(Diagnose),
    /// Work with hardware profiles: list them, check experiments, print control-plane configurations, compare captures
    #[command(subcommand)]
    Device(Device),
    /// Print a Wireshark dissector of all wire formats, as Lua: pktgen dissector > pktgen.lua
    Dissector(Dissector),
    /// List available components: formats, importers, workloads, models, schedules, studies, topologies, programs, queues, endpoints, transports, middleware, checks, metrics, reports, charts, kept, placers, properties
    List(List),
    /// Explain a metric, a column, a code or a name of pktgen list: definition, unit, labels, direction
    Explain(Explain),
    /// Write shell completions or man pages
    #[command(hide = true)]
    Completions(Completions),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Folder for run dirs and report; must be new or empty [default: runs/demo, replaced if a demo made it]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Seeds, as "1..10" or "3,5"
    #[arg(long, default_value = "1..10")]
    pub(crate) seeds: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Experiment {
    /// Experiment file (TOML), or name of a built-in experiment (pktgen list configs)
    pub(crate) experiment: PathBuf,
    /// Override a key, for example --set target.slots=16 (repeatable; takes precedence over file and environment)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    #[command(flatten)]
    pub(crate) tempo: Tempo,
    /// Folder for the run dir or the sweep's run dirs; must be new or empty [default: runs/NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Print the resolved configuration of the first run, or of --run, and stop
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Send nothing; print the first frames decoded, their rates, and the expected results
    #[arg(long, conflicts_with_all = ["find_rate", "shard", "role", "print_config"])]
    pub(crate) dry_run: bool,
    /// With --dry-run: number of frames of each kind to print
    #[arg(long, value_name = "N", default_value_t = 3, requires = "dry_run")]
    pub(crate) frames: u16,
    /// Parallel runs, 1 to 1024 [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with_all = ["role", "find_rate"])]
    pub(crate) jobs: Option<u16>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Run only this part; pktgen target and pktgen capture run the others, or hardware replaces them
    #[arg(long, value_parser = ["workers"])]
    pub(crate) role: Option<String>,
    /// Run only this run of the sweep (the name of its folder)
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// Run only every N-th run of the sweep, starting at the I-th, as 3/16; a repeat with the same --out keeps finished
    /// runs; pktgen merge joins the shards (docs/sharding.md)
    #[arg(long, value_name = "I/N", requires = "out", conflicts_with_all = ["role", "run", "find_rate"])]
    pub(crate) shard: Option<Shard>,
    #[command(flatten)]
    pub(crate) ranks: Ranks,
    #[command(flatten)]
    pub(crate) looking: Looking,
    #[command(flatten)]
    pub(crate) find: FindRate,
    #[command(flatten)]
    pub(crate) launch: AllowLaunch,
    /// Start runs even if hardware failed its probe or was not probed (docs/launch.md)
    #[arg(long)]
    pub(crate) no_probe: bool,
}

/// What parts that serve have in common. They have no workers, so they refuse flags that steer these.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("control", |arg| arg.hide(true)), mut_arg("hold", |arg| arg.hide(true)))]
pub(crate) struct Serve {
    /// Folder for the run dir; must be new or empty [default: runs/NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Run of the experiment's sweep, by the name of its folder
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// End after this time without a frame, as 2s; before the first frame at least 60s
    #[arg(long, value_name = "SPAN")]
    pub(crate) idle: Option<Span>,
    /// End after this time, as 60s
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) most: Option<Span>,
    #[command(flatten)]
    pub(crate) looking: Looking,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Merge {
    /// Folders of a sweep's shards, or run dirs of a run's parts (workers of all ranks, device, server if any), in any
    /// order
    #[arg(required = true)]
    pub(crate) parts: Vec<PathBuf>,
    /// Folder for the merged result; must be new or empty
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// Parts of different hosts: maximum difference of any two wall clocks, as 1us under PTP [default: as reported by
    /// the kernels; without a report, one-way ages are withheld]
    #[arg(long, value_name = "SPAN")]
    pub(crate) clock_error: Option<Span>,
    /// Shards: merge an incomplete set; the result and its reports are marked as incomplete
    #[arg(long)]
    pub(crate) partial: bool,
    /// Accept files whose digests do not match; noted in the result
    #[arg(long)]
    pub(crate) no_verify: bool,
}

/// How fast a replay is, and how often: keys of the experiment in other words (`commands/tempo.rs`).
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct Tempo {
    /// Speed-up factor of the experiment's schedule, as 2.0 or 0.0000002 (schedule.speed)
    #[arg(long, value_name = "F", conflicts_with_all = ["rate", "pps", "top"])]
    pub(crate) speed: Option<String>,
    /// Mean rate of the whole run, as 10Gbps (schedule.offered)
    #[arg(long, value_name = "RATE", conflicts_with_all = ["pps", "top"])]
    pub(crate) rate: Option<String>,
    /// Mean packet rate of the whole run, in packets/s, as 2M, 100k, 1 or 0.5 (schedule.pps)
    #[arg(long, value_name = "N", conflicts_with = "top")]
    pub(crate) pps: Option<String>,
    /// As fast as possible, for real-time transports (transport.pacing = "top")
    #[arg(long)]
    pub(crate) top: bool,
    /// Passes over the workload; 0: unlimited, until something else ends the run (workload.repeat)
    #[arg(long = "loop", value_name = "N")]
    pub(crate) passes: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Write the updates of an experiment's workload and schedule as a trace
    Synth {
        #[command(flatten)]
        experiment: Experiment,
        /// Trace to write (Parquet)
        #[arg(short, long)]
        out: PathBuf,
        /// Seed [default: the experiment's, or 1]
        #[arg(long)]
        seed: Option<u64>,
        /// Include gradients
        #[arg(long)]
        values: bool,
    },
    /// Scale size and rate of a trace; keeps each worker's gap distribution and correlation
    Scale(Scale),
    /// Print the contents of a trace
    Info {
        /// Trace to read
        input: PathBuf,
    },
    /// Check a trace; given two, check that scaling preserved the statistics (docs/traces.md)
    #[command(
        after_help = "Exit codes: 0 valid, or all properties were preserved; 1 a property was not preserved; 2 a file is\n\
                            not a valid trace."
    )]
    Check {
        /// Trace to read
        input: PathBuf,
        /// Scaled trace, made from INPUT
        scaled: Option<PathBuf>,
    },
    /// Convert files of other tools to a trace: CSV, Arrow, Parquet, captures, execution traces (docs/import.md)
    Convert(Convert),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = CAPTURE_EXITS)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["experiment", "iface"]))]
pub(crate) struct Capture {
    /// Experiment whose parameter server to run (TOML; see configs/)
    pub(crate) experiment: Option<PathBuf>,
    /// Override a key of the experiment (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "experiment")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) tempo: Tempo,
    #[command(flatten)]
    pub(crate) serve: Serve,
    #[command(flatten)]
    pub(crate) listen: ListenFlags,
}

const CAPTURE_EXITS: &str = "\
With --iface the run dir holds manifest.json and frames.arrows, an Arrow IPC stream (t_recv_ps, stamp_ns, len, bytes);\n\
with an EXPERIMENT it is the server's part of a run, for pktgen merge.\n\
Without --count, --for and --idle, Ctrl-C ends it. Exit codes: 0 all frames were recorded; 1 frames were lost (the\n\
manifest has number and place), or none arrived (--idle); 2 usage; 3 not possible on this host.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Analyze {
    /// Run dirs, or folders of them; captures at the server (pcap, pcapng, plain, gzip or Zstandard; files, pipes, or -
    /// for standard input); or tables
    #[arg(required_unless_present = "sent")]
    pub(crate) runs: Vec<PathBuf>,
    /// Recover run dirs of killed runs first: convert their streams to Parquet up to the last whole batch
    #[arg(long)]
    pub(crate) recover: bool,
    /// Read files that were changed since they were written; noted in the output
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Also write the metrics as a Parquet table
    #[arg(long)]
    pub(crate) table: Option<PathBuf>,
    /// Only this metric (repeatable); * is a wildcard, as 'aom_*'
    #[arg(long = "metric", value_name = "NAME")]
    pub(crate) metrics: Vec<String>,
    /// Also print the lines of single clusters, workers and bins, as --json always does
    #[arg(long)]
    pub(crate) all: bool,
    /// List wrong packets of a run with their expected content, instead of metrics
    #[arg(long)]
    pub(crate) wrong: bool,
    /// Maximum number of wrong packets to list
    #[arg(long, value_name = "N", default_value_t = 20, requires = "wrong")]
    pub(crate) most: usize,
    /// Member whose generation time counts as that of an aggregate, for its Age-of-Model
    #[arg(long, value_name = "MEMBER", default_value = AgeOf::default().name(), value_parser = ages())]
    pub(crate) age: AgeOf,
    /// Memory limit in MiB: of a run, for its whole analysis [default: half of the machine's]; of a capture, for the
    /// numbers held [default: 256]. More numbers go to a temporary file; a run whose packets do not fit is refused
    #[arg(long, value_name = "MIB")]
    pub(crate) memory: Option<u32>,
    #[command(flatten)]
    pub(crate) capture: CaptureFlags,
}

/// How captures are read.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Captures")]
pub(crate) struct CaptureFlags {
    /// Capture at the workers (repeatable); adds losses, latency, and ages from the first generation on
    #[arg(long, value_name = "FILE")]
    pub(crate) sent: Vec<PathBuf>,
    /// Wire format of all UDP packets [default: detected from ports and headers]
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Origin of generation times: a run dir, or ns since 1970 [default: as noted in the files]
    #[arg(long, value_name = "RUN|NS")]
    pub(crate) anchor: Option<String>,
    /// Offset of the server's clock from the senders', as 12us or -3ms; 0s under PTP [default: estimated from
    /// acknowledgements]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) offset: Option<String>,
    /// Uncertainty of --offset
    #[arg(long, value_name = "SPAN", default_value = "0s", requires = "offset")]
    pub(crate) offset_error: Span,
    /// The device only forwards: missing updates count as lost
    #[arg(long)]
    pub(crate) forwards: bool,
    /// Write the updates as tables, partitioned by run and cluster, into this folder; must be new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) tables: Option<PathBuf>,
    /// Format of the tables
    #[arg(long, value_name = "FORM", default_value = "parquet", value_parser = ["parquet", "arrow"], requires = "tables")]
    pub(crate) form: String,
    /// Name of the run in the tables [default: the first file's name, "_" for what a folder may not have]
    #[arg(long, value_name = "NAME", requires = "tables")]
    pub(crate) run: Option<String>,
    /// Only the clusters of part I of N, as 3/16; pktgen merge joins the tables of all parts
    #[arg(long, value_name = "I/N", requires = "tables")]
    pub(crate) shard: Option<Shard>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = REPORT_EXITS)]
pub(crate) struct Report {
    /// Run dirs or folders of run dirs; several are compared and ranked
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Output file; its extension selects the format (.html, .md, .json; of comparisons also .xml for JUnit) [default:
    /// report.* or compare.* beside the runs]
    #[arg(short, long)]
    pub(crate) out: Vec<PathBuf>,
    /// Compare with these runs, paired by labels and seed: better or worse
    #[arg(long, value_name = "OLD", conflicts_with = "print_rules")]
    pub(crate) baseline: Option<PathBuf>,
    /// Rules of a comparison (TOML): metric, direction, tolerance [default: built-in ones]
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Print the rules and exit
    #[arg(long)]
    pub(crate) print_rules: bool,
    /// Exit with 1 also if the verdict is "cannot tell"
    #[arg(long, requires = "baseline")]
    pub(crate) strict: bool,
    /// Append a line about the runs to this file (JSON lines), once; without RUN, print the file
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Also write every plot to a file in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Format of the plots; may be given twice [default: both]
    #[arg(long, value_name = "FORMAT", value_parser = ["svg", "png"], requires = "plots")]
    pub(crate) plots_format: Vec<String>,
    /// Read files that were changed since they were written; noted in the output
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Member whose generation time counts as that of an aggregate, for its Age-of-Model
    #[arg(long, value_name = "MEMBER", default_value = AgeOf::default().name(), value_parser = ages())]
    pub(crate) age: AgeOf,
    /// Memory limit of the analysis in MiB [default: half of the machine's]; numbers that do not fit go to a temporary
    /// file, a run whose packets do not fit is refused
    #[arg(long, value_name = "MIB")]
    pub(crate) memory: Option<u32>,
}

const REPORT_EXITS: &str = "\
Comparisons: docs/compare.md. Exit codes: 0 better, same or cannot tell; 1 worse, or a run is invalid, or (--strict)\n\
cannot tell; 2 usage, or nothing can be compared.";

#[derive(Debug, ClapArgs)]
pub(crate) struct History {
    /// File written by pktgen report --history
    pub(crate) file: PathBuf,
    /// Only these metrics, as aom_mean/cluster (repeatable) [default: those of the built-in rules]
    #[arg(long, value_name = "KEY", conflicts_with = "all")]
    pub(crate) metric: Vec<String>,
    /// All metrics
    #[arg(long)]
    pub(crate) all: bool,
    /// Also write to this file; its extension selects the format (.html, .json, .txt)
    #[arg(short, long)]
    pub(crate) out: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = VERIFY_EXITS)]
pub(crate) struct Verify {
    /// Property: aom-fairness (average peak AoM of any two clusters differs by at most verify.epsilon)
    pub(crate) property: String,
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Search instead of a single check: max-rate, the largest update rate at which the property holds for all behaviours
    #[arg(long, value_name = "WHAT", value_parser = ["max-rate"])]
    pub(crate) find: Option<String>,
    /// Solver command; reads SMT-LIB 2 from its standard input
    #[arg(long, value_name = "COMMAND", default_value = pktgen_verify::solver::DEFAULT)]
    pub(crate) solver: String,
    /// Time limit in seconds per query (all behaviours, some behaviour); beyond it the verdict is "unknown"
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) timeout: f64,
    /// Also write the model with all its queries as SMT-LIB 2 (several cases: FILE-1.smt2, FILE-2.smt2, ...)
    #[arg(long, value_name = "FILE")]
    pub(crate) emit: Option<PathBuf>,
    /// Folder for counterexamples and witnesses; must be new or empty [default: runs/verify-NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Place {
    /// Choose the k switches of a tree whose aggregation minimises the total time of messages on all links (exact)
    Soar(PlaceSoar),
    /// Choose wiring and routes of switches and hosts for the highest rate of an in-network AllReduce
    Atro(PlaceAtro),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = PLACE_SOAR_EXITS)]
pub(crate) struct PlaceSoar {
    /// Tree: a JSON file, or BT(n), the complete binary tree of n - 1 switches and the destination
    pub(crate) tree: String,
    /// Maximum number of switches that aggregate
    #[arg(short, long)]
    pub(crate) k: usize,
    /// For each chosen switch, also print the best placement without it
    #[arg(long)]
    pub(crate) explain: bool,
    /// Consecutive workloads: a JSON list of objects from switch id to load
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "plan", "svg", "dot", "emit"])]
    pub(crate) workloads: Option<PathBuf>,
    /// Maximum number of workloads per switch; 0: no switch aggregates [default: unlimited]
    #[arg(long, value_name = "N", requires = "workloads")]
    pub(crate) capacity: Option<u32>,
    #[command(flatten)]
    pub(crate) made: MadeTree,
    #[command(flatten)]
    pub(crate) files: PlanFiles,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = PLACE_ATRO_EXITS)]
pub(crate) struct PlaceAtro {
    /// Workers of the AllReduce, one per host
    #[arg(long, required_unless_present = "cluster")]
    pub(crate) workers: Option<u64>,
    /// Switches, hosts and links with individual ports and rates: a JSON file (docs/atro.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["switches", "ports", "aggregators", "capacity", "layers", "host_rate", "server_rate", "link", "device_ports"])]
    pub(crate) cluster: Option<PathBuf>,
    /// Switches, including those that aggregate
    #[arg(long, required_unless_present = "cluster")]
    pub(crate) switches: Option<u64>,
    /// Ports per switch, as 24, or 4x32,16x24 for groups of switches
    #[arg(long, required_unless_present = "cluster")]
    pub(crate) ports: Option<String>,
    /// Switches that aggregate; the first ones
    #[arg(long, required_unless_present = "cluster")]
    pub(crate) aggregators: Option<u64>,
    /// Rate of each switch's ports, as 100Gbps, or 4x100Gbps,16x40Gbps for groups; a link has the rate of its slower end
    #[arg(long, default_value = "100Gbps")]
    pub(crate) capacity: String,
    /// Rate of each host's port [default: that of switches]
    #[arg(long, value_name = "RATE")]
    pub(crate) host_rate: Option<Rate>,
    /// Rate of the server's port [default: that of switches]
    #[arg(long, value_name = "RATE")]
    pub(crate) server_rate: Option<Rate>,
    /// Rate of a slower link, as agg0-cs4=10Gbps or agg0-ps=40Gbps (repeatable); 0bps forbids the link
    #[arg(long, value_name = "A-B=RATE")]
    pub(crate) link: Vec<String>,
    /// Layers of switches, L
    #[arg(long, default_value_t = 5)]
    pub(crate) layers: u64,
    /// Ports of the optical device; a wiring that needs more is refused
    #[arg(long, value_name = "N")]
    pub(crate) device_ports: Option<u64>,
    /// Allowed rates, as 10Gbps,25Gbps [default: any]
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    pub(crate) rates: Vec<Rate>,
    /// Solver of the paper's program, used if switches differ and the search gives up, as cbc or highs
    #[arg(long, value_name = "COMMAND")]
    pub(crate) solver: Option<String>,
    /// Time limit of the solver per query, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "solver")]
    pub(crate) seconds: u32,
    /// Write the paper's program for the resulting rate, in LP format
    #[arg(long, value_name = "FILE")]
    pub(crate) milp: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: PlanFiles,
}

/// What a tree that is made has on it.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "For BT(n)")]
pub(crate) struct MadeTree {
    /// Growth of rates from the leaves (rate 1) to the root: constant, linear or exponential [default: constant]
    #[arg(long)]
    pub(crate) rates: Option<String>,
    /// Loads of the leaves: uniform (4 to 6), power_law (1 to 63, mean 5), or either with "_as_printed" (mean and variance of SOAR §5)
    /// [default: uniform]
    #[arg(long)]
    pub(crate) loads: Option<String>,
    /// Seed of the loads [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write the tree as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

/// What is written of a plan.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Files")]
pub(crate) struct PlanFiles {
    /// Write the plan: nodes, cables, and the path of each flow (JSON)
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Write a picture of the plan (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the plan for Graphviz
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
    /// Write an experiment that runs the plan, for pktgen replay, and the plan beside it
    #[arg(long, value_name = "EXPERIMENT")]
    pub(crate) emit: Option<PathBuf>,
    /// With --emit: frame size of a message [default: 256B; 1500B if the plan promises a rate]
    #[arg(long, value_name = "SIZE", requires = "emit")]
    pub(crate) bytes: Option<Size>,
    /// With --emit: messages per worker [default: 1; 2000 if the plan promises a rate]
    #[arg(long, value_name = "N", requires = "emit")]
    pub(crate) messages: Option<u32>,
    /// With --emit: offered rate, as a multiple of the rate that the plan promises
    #[arg(long, value_name = "F", requires = "emit", default_value_t = 1.0)]
    pub(crate) factor: f64,
}

const PLACE_SOAR_EXITS: &str = "\
A tree as a file: {\"nodes\":[{\"id\":0,\"parent\":null,\"rate\":1.0,\"load\":0,\"available\":true},...]}; the rate is that of\n\
the link to the parent, the root's that of the link to the destination; the load is the number of servers on the\n\
switch, each of which sends one message. docs/soar.md has the definitions.\n\
Exit codes: 0 placed; 2 invalid tree or flag (the message names it).";

const PLACE_ATRO_EXITS: &str = "\
Rates are in wire bits. \"optimal\": the rate is \"bound_bps\", the most of any wiring if \"proved\", else of all known\n\
shapes (docs/atro.md). Exit codes: 0 placed; 1 no wiring was found, although one may exist; 2 the request cannot be\n\
met, or a flag is invalid (the message has the reason); 3 the solver failed.";

const VERIFY_EXITS: &str = "\
Verdicts: \"holds\", within the horizon of verify.updates; \"fails\", with a counterexample that was replayed;\n\
\"unknown\", with the time spent. docs/verify.md defines the model and the keys of [verify]; configs/verify/ has\n\
examples. Exit codes: 0 the property holds for all behaviours (of every case); 1 it fails or is unknown;\n\
2 usage or configuration; 3 no solver found.";

#[derive(Debug, ClapArgs)]
#[command(after_help = DOCTOR_EXITS)]
pub(crate) struct Doctor {
    /// Experiment to run on this host (TOML; see configs/)
    pub(crate) experiment: Option<PathBuf>,
    /// Interface to check (repeatable) [default: those of the experiment, else all but the loopback]
    #[arg(long, value_name = "IF")]
    pub(crate) iface: Vec<String>,
    /// Override a key, for example --set transport.wait=block (repeatable; takes precedence over file and environment)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "experiment")]
    pub(crate) set: Vec<String>,
    /// Part of the experiment to run on this host [default: all]
    #[arg(long, requires = "experiment", value_parser = ["workers", "device", "server"])]
    pub(crate) role: Option<String>,
    /// Test an AF_XDP socket in copy mode on each interface; nothing is sent
    #[arg(long)]
    pub(crate) probe: bool,
}

const DOCTOR_EXITS: &str = "\
Levels: ok; note (figures may depend on it); warning (works, but worse than it could); cannot. docs/doctor.md\n\
describes the checks. Exit codes: 0, whatever was found; 2 usage or configuration; 3 the given experiment cannot\n\
run on this host.";

#[derive(Debug, ClapArgs)]
#[command(after_help = "docs/wireshark.md: where Wireshark and tshark look for the file, and what it shows.")]
pub(crate) struct Dissector {
    /// Print the layouts of the formats as tables instead
    #[arg(long)]
    pub(crate) tables: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only this kind; configs: the built-in experiments
    pub(crate) kind: Option<String>,
    /// Print the experiment keys that each component reads, with default, range and meaning
    #[arg(long)]
    pub(crate) keys: bool,
    /// Print as Markdown: docs/settings.md
    #[arg(long, requires = "keys")]
    pub(crate) markdown: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Metrics (aom_mean, dropped/late), columns (received.newest_gen_ps), codes (queue_full) or names [default: all]
    pub(crate) names: Vec<String>,
    /// Explain all entries
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Print as Markdown: docs/schema.md
    #[arg(long)]
    pub(crate) markdown: bool,
}
