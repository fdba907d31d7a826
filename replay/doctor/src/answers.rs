//! What only system calls return.

use std::hint::black_box;
use std::io;

use pktgen_core::Result;

use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::ethtool;
pub use pktgen_realtime::transport::ethtool::{Offloads, Spread, StampSupport};
use pktgen_realtime::transport::routes::{self, Route};
use pktgen_realtime::transport::safety;
use pktgen_realtime::transport::{Stamping, XdpFacts, bind_sender, stamping, xdp_facts};

/// Reads of the clock that are timed.
const CLOCK_READS: u32 = 20_000;

/// What is known of an interface.
#[derive(Debug, Clone, Default)]
pub struct Card {
    /// Its driver.
    pub driver: Option<String>,
    /// Its offloads.
    pub offloads: Offloads,
    /// What it stamps; none if it does not say.
    pub stamps: Option<StampSupport>,
    /// What it stamps now; none if its driver does not stamp.
    pub stamping: Option<Stamping>,
    /// How it spreads what arrives.
    pub spread: Spread,
    /// What its driver can do with XDP; none if the kernel does not say.
    pub xdp: Option<XdpFacts>,
}

/// Someone who answers.
pub trait HostQueries: Send + Sync {
    /// What is known of this interface.
    fn card(&self, interface: &str) -> Card;
    /// Routes of all tables.
    fn routes(&self) -> io::Result<Vec<Route>>;
    /// Refuses interfaces if the files are those of another network namespace.
    fn check_namespace(&self) -> Result<()>;
    /// What one reading of the clock costs, in ns.
    fn clock_read_ns(&self) -> f64;
    /// Cores that this process may use.
    fn cores(&self) -> usize;
    /// Opens an AF_XDP socket that only sends, in copy mode, and closes it again. Returns what was got.
    fn bind(&self, interface: &str) -> Result<String>;
}

/// The kernel of this host.
#[derive(Debug, Clone, Copy)]
pub struct Live;

impl HostQueries for Live {
    fn card(&self, interface: &str) -> Card {
        Card {
            driver: ethtool::driver(interface),
            offloads: ethtool::offloads(interface),
            stamps: ethtool::stamps(interface),
            stamping: stamping(interface),
            spread: ethtool::spread(interface),
            xdp: xdp_facts(interface).ok(),
        }
    }

    fn routes(&self) -> io::Result<Vec<Route>> {
        routes::all()
    }

    fn check_namespace(&self) -> Result<()> {
        safety::check_namespace()
    }

    fn clock_read_ns(&self) -> f64 {
        // The best of a few, as the machine may be busy.
        let one = || {
            let watch = Stopwatch::start();
            for _ in 0..CLOCK_READS {
                black_box(watch.elapsed());
            }
            watch.elapsed().as_nanos() as f64 / f64::from(CLOCK_READS)
        };
        (0..5).map(|_| one()).fold(f64::INFINITY, f64::min)
    }

    fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn bind(&self, interface: &str) -> Result<String> {
        bind_sender(interface)
    }
}
