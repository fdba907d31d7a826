//! Small random experiments of sparse training: workloads, windows, timeouts and faults.

use std::fmt;

use pktgen_core::seed::{Seed, Stream};
use rand::RngExt;

/// An experiment.
#[derive(Debug, Clone)]
pub struct Case {
    /// Also the seed of the run.
    pub number: u64,
    pub workers: u32,
    pub jobs: u32,
    pub iterations: u32,
    pub asynchronous: bool,
    /// Whether a switch sums the hot parameters; otherwise all go to the server.
    pub hot: bool,
    pub workload: String,
    /// Shape of the network.
    pub shape: &'static str,
    pub topology: String,
    pub endpoint: String,
    pub target: String,
    pub faults: String,
}

fn one<'a>(stream: &mut Stream, of: &[&'a str]) -> &'a str {
    of[stream.random_range(0..of.len())]
}

fn faults(stream: &mut Stream) -> String {
    // A packet to the server and its answer pass four links, and the worker gives up after sixteen attempts: a loss of
    // a fifth applies only to one direction.
    let loss = [0.0, 0.02, 0.1, 0.2][stream.random_range(0..4)];
    let mut text = format!("fault_loss = {loss}\n");
    text += &format!("fault_duplicate = {}\n", [0.0, 0.05, 0.2][stream.random_range(0..3)]);
    if stream.random_range(0..3) > 0 {
        let by = [1, 3, 20, 200][stream.random_range(0..4)];
        let hold = one(stream, &["3us", "30us", "300us"]);
        text += &format!("fault_reorder = {}\n", [0.05, 0.2][stream.random_range(0..2)]);
        text += &format!("fault_reorder_by = {by}\nfault_reorder_hold = \"{hold}\"\n");
    }
    if loss < 0.1 && stream.random_range(0..3) == 0 {
        text += "fault_burst_p = 0.01\nfault_burst_r = 0.5\nfault_loss_bad = 0.9\n";
    }
    if loss == 0.2 || stream.random_range(0..6) == 0 {
        text += &format!("fault_at = \"{}\"\n", one(stream, &["up", "down"]));
    }
    text
}

impl Case {
    /// Returns the case with this number; always the same.
    pub fn of(number: u64) -> Self {
        let stream = &mut Seed(number).stream("test.libra", 0, 0);
        let (jobs, workers) = (stream.random_range(1..4), stream.random_range(1..7));
        let iterations = stream.random_range(1..5);
        let (hot, asynchronous) = (stream.random_range(0..6) > 0, stream.random_range(0..3) == 0);
        let hot_parameters = [8, 60, 400][stream.random_range(0..3)];
        let pairs = [5, 40, 120, 250][stream.random_range(0..4)];
        let workload = format!(
            "parameters = 3000\nhot = {hot_parameters}\nhot_share = 0.5\ncurve = \"mandelbrot\"\nexponent = 1.0\noffset = 200.0\n\
             pairs = {pairs}\ndense = {}\ncompute = \"{}\"\ncompute_jitter = {}\n",
            stream.random_range(0..9),
            one(stream, &["0ns", "2us", "50us"]),
            [0.0, 0.5][stream.random_range(0..2)],
        );
        // A crowded server answers late: a worker that gives up earlier is not the network's fault.
        let crowded = stream.random_range(0..3) == 0;
        let rates: &[&str] = if crowded { &["1Gbps", "10Gbps"] } else { &["100Gbps"] };
        let topology = format!(
            "hosts = {}\nhost_rate = \"{}\"\nserver_rate = \"{}\"\nbuffer_slots = {}\n",
            stream.random_range(1..5),
            one(stream, rates),
            one(stream, rates),
            [16, 65536][usize::from(stream.random_range(0..8) > 0)],
        );
        let windows = [1, 2, 7, 64, 512];
        let (window, cold_window) = (windows[stream.random_range(0..5)], windows[stream.random_range(0..5)]);
        // The round trip takes some microseconds: the shortest timeouts retransmit packets that were not lost.
        let timeouts: &[&str] = if crowded { &["100us", "1ms"] } else { &["3us", "8us", "40us", "1ms"] };
        let (timeout, cold_bytes) = (one(stream, timeouts), stream.random_range(60..400));
        let endpoint = format!(
            "workers = \"{}\"\nmode = \"{}\"\nwindow = {window}\ncold_window = {cold_window}\ntimeout = \"{timeout}\"\n\
             cold_bytes = {cold_bytes}\nregisters = {}\nlayout = \"{}\"\npackaging = \"{}\"\nmax_recirculations = {}\n\
             service_rate = {}\n",
            if hot { "libra" } else { "ps_lite" },
            if asynchronous { "async" } else { "sync" },
            [1, 3, 32][stream.random_range(0..3)],
            one(stream, &["heat", "random"]),
            one(stream, &["algorithm1", "rank_order"]),
            [20, 20, 1][stream.random_range(0..3)],
            if crowded { 10_000_000 } else { [0, 1_000_000_000][stream.random_range(0..2)] },
        );
        let target = format!(
            "result_timeout = \"{}\"\nrecords = {}\npass_latency = \"{}\"\n",
            one(stream, &["2us", "10us", "300us"]),
            [window, 4096][stream.random_range(0..2)],
            one(stream, &["0ns", "400ns", "3us"]),
        );
        let faults = faults(stream);
        let shape = "star";
        Case {
            number,
            workers,
            jobs,
            iterations,
            asynchronous,
            hot,
            workload,
            shape,
            topology,
            endpoint,
            target,
            faults,
        }
    }

    /// Returns the case with this number, with several parameter servers: around one switch, or with some of the workers in racks.
    pub fn of_servers(number: u64) -> Self {
        let stream = &mut Seed(number).stream("test.libra.servers", 0, 0);
        let mut case = Case::of(number);
        let servers: u32 = stream.random_range(2..6);
        case.topology += &format!("servers = {servers}\n");
        case.endpoint += &format!("partition = \"{}\"\n", one(stream, &["hash", "ranges"]));
        if stream.random_range(0..3) > 0 {
            case.shape = "leaf_spine";
            let leaves = stream.random_range(1..5);
            let hosts = (case.workers * case.jobs + servers).div_ceil(leaves);
            let spines = stream.random_range(1..4);
            case.topology += &format!("leaves = {leaves}\nspines = {spines}\nleaf_hosts = {hosts}\n");
            // A path has twice as many links.
            for loss in ["0.1", "0.2"] {
                case.faults = case.faults.replace(&format!("fault_loss = {loss}\n"), "fault_loss = 0.05\n");
            }
        }
        case
    }

    /// Returns the case with this number in which a switch fails during training, in one of the ways `fails`.
    pub fn failing(number: u64, fails: &[&str]) -> Self {
        let stream = &mut Seed(number).stream("test.libra.failing", 0, 0);
        let fails = one(stream, fails);
        let mut case = Case::of(number);
        (case.hot, case.iterations) = (true, stream.random_range(3..6));
        case.asynchronous = stream.random_range(0..3) == 0;
        case.workload = format!(
            "parameters = 3000\nhot = 400\nhot_share = 0.5\ncurve = \"mandelbrot\"\nexponent = 1.0\noffset = 200.0\n\
             pairs = {}\ncompute = \"100us\"\ncompute_jitter = 0.3\n",
            [60, 250, 450][stream.random_range(0..3)],
        );
        case.topology = format!("hosts = {}\nstandby = 2\n", stream.random_range(1..5));
        let window = [7, 64, 512][stream.random_range(0..3)];
        // A slow switch is not silent. The longest delayed frames arrive after their retransmission and, if a switch
        // dies, after its death was assumed.
        let silence = if fails.contains("crash") { one(stream, &["200us", "1ms"]) } else { "5ms" };
        case.endpoint = format!(
            "workers = \"libra\"\nmode = \"{}\"\nwindow = {window}\ntimeout = \"100us\"\nheartbeat = \"50us\"\n\
             heartbeat_timeout = \"{silence}\"\ndelay_max = \"900us\"\n",
            if case.asynchronous { "async" } else { "sync" },
        );
        let at = stream.random_range(50..900);
        case.target = format!(
            "result_timeout = \"{}\"\nrecords = {}\n{fails}\nfails_at = \"{at}us\"\nfails_then_at = \"{}us\"\n\
             fails_loss = 0.2\nfails_delay = \"1ms\"\n",
            one(stream, &["30us", "200us"]),
            [window, 4096][stream.random_range(0..2)],
            at + stream.random_range(1..200),
        );
        case.faults = format!(
            "fault_loss = {}\nfault_duplicate = {}\nfault_reorder = {}\nfault_reorder_by = 300\nfault_reorder_hold = \"{}\"\n",
            [0.0, 0.01, 0.03][stream.random_range(0..3)],
            [0.0, 0.05, 0.2][stream.random_range(0..3)],
            [0.0, 0.01, 0.05][stream.random_range(0..3)],
            one(stream, &["30us", "300us"]),
        );
        case
    }

    /// Returns the experiment; `target` has the settings that are not random.
    pub fn text(&self, target: &str) -> String {
        let Case { workers, jobs, iterations, workload, shape, topology, endpoint, faults, .. } = self;
        let target = if self.hot { format!("program = \"libra\"\n{}{target}", self.target) } else { String::new() };
        format!(
            "name = \"t\"\n[workload]\nkind = \"sparse\"\nmodel = \"custom\"\nworkers = {workers}\njobs = {jobs}\n\
             iterations = {iterations}\n{workload}[topology]\nkind = \"{shape}\"\n{topology}[endpoint]\n{endpoint}[target]\n{target}\n\
             [transport]\nkind = \"virtual\"\n{faults}"
        )
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case {}\n{}", self.number, self.text(""))
    }
}
