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
    #[arg(long, value_name = "IF", conflicts_with_all = ["experiment", "run"])]
    pub(crate) iface: Option<String>,
    /// With --iface: only count, in the kernel, and drop what is counted: the host receives nothing on it meanwhile
    #[arg(long, requires = "iface", conflicts_with_all = ["out", "idle", "kind", "snap", "count", "pcapng", "parquet", "ring", "stamps", "queues", "buffer", "spin"])]
    pub(crate) count_only: bool,
    /// Socket: af_xdp takes the frames before the network stack, which then does not see them; af_packet receives a copy
    #[arg(long, default_value = ListenKind::AfXdp.name(), value_parser = listen_kinds(), requires = "iface")]
    pub(crate) kind: ListenKind,
    /// Bytes of each frame to keep, from the Ethernet header on
    #[arg(long, value_name = "BYTES", default_value_t = 128, requires = "iface")]
    pub(crate) snap: u32,
    /// End after so many frames
    #[arg(long, value_name = "FRAMES", requires = "iface")]
    pub(crate) count: Option<u64>,
    /// Write the frames as capture.pcapng too
    #[arg(long, requires = "iface")]
    pub(crate) pcapng: bool,
    /// Turn frames.arrows into frames.parquet in the end: smaller, for about 0.5 s per million frames
    #[arg(long, requires = "iface")]
    pub(crate) parquet: bool,
    /// Frames that the kernel buffers until they are read, 64 to 1048576
    #[arg(long, value_name = "FRAMES", default_value_t = 65536, requires = "iface")]
    pub(crate) ring: u32,
    /// Whose time stamps: the kernel's, or the card's by its own clock, which af_packet reads where the card stamps every frame
    #[arg(long, value_name = "CLOCK", default_value = "kernel", value_parser = ["kernel", "card"], requires = "iface")]
    pub(crate) stamps: String,
    /// Queues of the interface to read, each by a thread of its own; af_xdp: as many as it has
    #[arg(long, value_name = "N", default_value_t = 1, requires = "iface")]
    pub(crate) queues: u32,
    /// Memory between receiving and writing, in MiB, 1 to 16384
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=16384), requires = "iface")]
    pub(crate) buffer: u16,
    /// Poll instead of sleeping until frames arrive: occupies a core, and reads them sooner
    #[arg(long, requires = "iface")]
    pub(crate) spin: bool,
    /// Let af_xdp take all frames of an interface that carries the default route
    #[arg(long, requires = "iface")]
    pub(crate) allow_default_route: bool,
}
