//! Flags of `pktgen capture --iface`.

use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pktgen_realtime::transport::ListenKind;

/// Values of `--kind`.
fn listen_kinds() -> impl TypedValueParser<Value = ListenKind> {
    let named = |name: String| ListenKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or("no such kind");
    PossibleValuesParser::new(ListenKind::ALL.map(ListenKind::name)).try_map(named)
}

/// What recording an interface takes.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Recording an interface")]
pub(crate) struct ListenFlags {
    /// Record every frame of this interface
    #[arg(long, value_name = "IF", conflicts_with_all = [
        "experiment", "run", "speed", "rate", "pps", "top", "passes", "tui", "metrics", "stats", "stats_to", "control", "hold",
    ])]
    pub(crate) iface: Option<String>,
    /// With --iface: only count frames in the kernel and drop them; the host receives nothing on the interface meanwhile
    #[arg(long, requires = "iface", conflicts_with_all = ["out", "idle", "kind", "snap", "count", "pcapng", "parquet", "ring", "stamps", "queues", "buffer", "spin"])]
    pub(crate) count_only: bool,
    /// Socket: af_xdp takes frames before the network stack, which does not receive them; af_packet receives copies
    #[arg(long, default_value = ListenKind::AfXdp.name(), value_parser = listen_kinds(), requires = "iface")]
    pub(crate) kind: ListenKind,
    /// Bytes of each frame to keep, from the Ethernet header on
    #[arg(long, value_name = "BYTES", default_value_t = 128, requires = "iface")]
    pub(crate) snap: u32,
    /// End after this number of frames
    #[arg(long, value_name = "FRAMES", requires = "iface")]
    pub(crate) count: Option<u64>,
    /// Also write the frames as capture.pcapng
    #[arg(long, requires = "iface")]
    pub(crate) pcapng: bool,
    /// Convert frames.arrows to frames.parquet at the end: smaller, takes about 0.5 s per million frames
    #[arg(long, requires = "iface")]
    pub(crate) parquet: bool,
    /// Size of the kernel's receive ring in frames, 64 to 1048576
    #[arg(long, value_name = "FRAMES", default_value_t = 65536, requires = "iface")]
    pub(crate) ring: u32,
    /// Source of timestamps: kernel, or card (by its own clock; af_packet only, on cards that stamp every frame)
    #[arg(long, value_name = "CLOCK", default_value = "kernel", value_parser = ["kernel", "card"], requires = "iface")]
    pub(crate) stamps: String,
    /// Queues of the interface to read, one thread each; af_xdp: must be all of its queues
    #[arg(long, value_name = "N", default_value_t = 1, requires = "iface")]
    pub(crate) queues: u32,
    /// Buffer between receiving and writing, in MiB, 1 to 16384
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=16384), requires = "iface")]
    pub(crate) buffer: u16,
    /// Busy-poll instead of sleeping: occupies a core, reads frames sooner
    #[arg(long, requires = "iface")]
    pub(crate) spin: bool,
    /// Allow af_xdp to take all frames of an interface with the default route
    #[arg(long, requires = "iface")]
    pub(crate) allow_default_route: bool,
}
