//! Monitoring of runs in real time: spontaneous messages, Prometheus, and the full-screen display in a real terminal.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pktgen_testing::{HANG, Need, happens, skip};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::loopback::address;

/// 18 workers in 3 clusters send twice the capacity of the 20 Mbit/s link, for about `seconds`.
fn folder(seconds: u32, queue: &str) -> TempDir {
    let updates = 1000 * seconds;
    let text = format!(
        "name = \"watched\"\n[workload]\nclusters = 3\nworkers_per_cluster = 6\nupdates = {updates}\nbytes = \"256B\"\n\
         [schedule]\nkind = \"poisson\"\noffered = \"36.9Mbps\"\n[topology]\nrate = \"20Mbps\"\n[target]\nprogram = \"olaf\"\n\
         queue = \"{queue}\"\n[transport]\nkind = \"ring\"\nwait = \"block\"\n"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), text).expect("writable");
    folder
}

fn pktgen(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(args);
    command
}

fn replay(folder: &Path, args: &[&str]) -> Output {
    let args = [&["replay", "x.toml", "--no-report", "--out", "out"], args].concat();
    pktgen(folder, &args).output().expect("the binary runs")
}

fn manifest(folder: &Path) -> Value {
    let text = fs::read(folder.join("out/manifest.json")).expect("a manifest");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn a_device_that_does_not_aggregate_is_named_while_it_runs() {
    let said = |queue: &str| {
        let folder = folder(4, queue);
        String::from_utf8_lossy(&replay(folder.path(), &[]).stderr).into_owned()
    };
    let fifo = said("fifo");
    for cluster in 0..3 {
        let named = format!("cluster {cluster}: nothing is being aggregated");
        assert_eq!(fifo.matches(&named).count(), 1, "once: {fifo}");
    }
    let olaf = said("olaf");
    assert!(!olaf.contains("nothing is being aggregated") && !olaf.contains("nothing arrives"), "{olaf}");
}

/// Returns the response to a request, if there is one.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(HANG)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn prometheus_reads_what_there_is_to_see() {
    let folder = folder(5, "olaf");
    let address = address();
    let metrics = address.to_string();
    let mut command =
        pktgen(folder.path(), &["replay", "x.toml", "-q", "--no-report", "--out", "out", "--metrics", &metrics]);
    let mut run = command.stdout(Stdio::null()).spawn().expect("the binary runs");
    let (mut pages, mut other) = (Vec::new(), None);
    while run.try_wait().expect("a child").is_none() {
        pages.extend(get(address, "/metrics").filter(|page| page.contains("pktgen_age_seconds{")));
        if pages.len() > 2 && other.is_none() {
            other = get(address, "/");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(run.wait().expect("a child").success());
    assert!(pages.len() > 3, "{} pages", pages.len());
    assert!(other.expect("an answer").starts_with("HTTP/1.1 404"));
    let (first, last) = (&pages[0], &pages[pages.len() - 1]);
    assert!(last.starts_with("HTTP/1.1 200 OK") && last.contains("text/plain; version=0.0.4"), "{last}");
    for cluster in 0..3 {
        for name in ["sent_updates_total", "received_packets_total", "received_updates_total", "received_bytes_total"] {
            let name = format!("pktgen_{name}{{cluster=\"{cluster}\"}}");
            let [early, late] = [first, last].map(|page| sample(page, &name).unwrap_or(0.0));
            assert!(late > early, "{name}: {early} and {late}");
        }
        let age = sample(last, &format!("pktgen_age_seconds{{cluster=\"{cluster}\"}}")).expect("an age");
        let run = sample(last, "pktgen_run_seconds").expect("how long it has run");
        assert!(age > 0.0 && age <= run, "an age of {age} s in a run of {run} s");
    }
    for page in &pages {
        for cluster in 0..3 {
            let of = |name: &str| {
                sample(page, &format!("pktgen_{name}_updates_total{{cluster=\"{cluster}\"}}")).unwrap_or(0.0)
            };
            assert!(of("received") <= of("sent"), "{page}");
        }
        assert_eq!(sample(page, "pktgen_refused_sends_total"), Some(0.0), "{page}");
    }
    let received: f64 = (0..3)
        .filter_map(|cluster| sample(last, &format!("pktgen_received_packets_total{{cluster=\"{cluster}\"}}")))
        .sum();
    let all = manifest(folder.path())["counters"]["packets_received"].as_f64().expect("a count");
    assert!(received > 0.0 && received <= all, "{received} of {all}");
}

/// As many idle clients as can connect do not prevent the run from writing its files.
#[test]
fn idle_connections_cost_a_run_neither_its_records_nor_its_scraper() {
    let folder = folder(6, "olaf");
    let address = address();
    let words = format!(
        "ulimit -n 64; exec {} replay x.toml --no-report --out out --metrics {address}",
        env!("CARGO_BIN_EXE_pktgen")
    );
    let mut shell = Command::new("sh");
    shell.current_dir(folder.path()).args(["-c", &words]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = shell.spawn().expect("a shell");
    let (mut idle, mut pages, mut refused) = (Vec::new(), 0, 0);
    while run.try_wait().expect("a child").is_none() {
        let open = (0..100).filter_map(|_| TcpStream::connect(address).ok());
        idle.extend(open.inspect(|stream| drop(stream.set_nonblocking(true))));
        // Idle connections give way.
        std::thread::sleep(Duration::from_millis(700));
        pages += usize::from(get(address, "/metrics").is_some_and(|page| page.contains("pktgen_run_seconds")));
        refused += idle.drain(..).filter(|mut stream| matches!(stream.read(&mut [0]), Ok(0))).count();
    }
    let output = run.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    assert!(folder.path().join("out/received.parquet").exists() && !said.contains("warning: --metrics"), "{said}");
    assert!(pages > 0 && refused > 50, "{pages} pages, {refused} connections were closed");
    assert_eq!(manifest(folder.path())["validity"]["valid"], true);
}

#[test]
fn an_address_that_others_reach_is_warned_of() {
    let folder = folder(1, "olaf");
    let output = replay(folder.path(), &["--metrics", "0.0.0.0:0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("readable by everyone who reaches this host"), "{said}");
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let folder = folder(1, "olaf");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (args, word) in [(&["--tui"][..], "no terminal"), (&["--metrics", &address], "cannot be listened at")] {
        let output = replay(folder.path(), args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(word), "{args:?}: {said}");
        assert!(!folder.path().join("out").exists());
    }
}

/// The socket of a terminal of tmux, which ends when this is dropped.
struct Tmux(String);

impl Tmux {
    fn start(folder: &Path, line: &str) -> Option<Tmux> {
        let socket = folder.join("tmux").display().to_string();
        let args = ["-S", &socket, "-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", line];
        let started = Command::new("tmux").args(args).output().ok()?;
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(Tmux(socket))
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.0]).args(args).output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until `wanted` accepts the screen.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let shown = happens(|| {
            screen = self.tmux(&["capture-pane", "-p"]);
            wanted(&screen)
        });
        assert!(shown, "hang guard: the screen never showed {what}:\n{screen}");
        screen
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_screen_shows_the_run_and_hears_keys() {
    // Far longer than the test: a key ends it.
    let folder = folder(600, "fifo");
    let at = folder.path().display();
    let line = format!(
        "cd {at}; {} replay x.toml --no-report --out out --tui; echo \"ended with $?\"; sleep 60",
        env!("CARGO_BIN_EXE_pktgen")
    );
    let Some(tmux) = Tmux::start(folder.path(), &line) else {
        return skip(Need::Tmux, "the screen in a terminal", "tmux does not run");
    };
    let rows = |screen: &str| -> Vec<Vec<String>> {
        let cells =
            |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
        screen.lines().map(cells).filter(|row: &Vec<String>| row.len() == 8 && row[0] != "cluster").collect()
    };
    // Complete rows: tmux may be queried while half of a screen is drawn.
    let drawn = |row: &Vec<String>| {
        row[1..=3].iter().all(|cell| cell != "0") && row[5].strip_prefix("up to ").is_some_and(|of| of.contains('.'))
    };
    let words = ["cluster", "mean age", "updates sent, each tenth of a second", "lost 0", "q end", "space pause"];
    let busy = |screen: &str| {
        let rows = rows(screen);
        rows.len() == 3 && rows.iter().all(drawn) && words.iter().all(|word| screen.contains(word))
    };
    let screen = tmux.until("three clusters at work", busy);
    for row in rows(&screen) {
        // A FIFO: each packet is one update, and ages are a few milliseconds.
        assert!(row[4] == "1.00" && row[5].starts_with("up to ") && row[6].ends_with('s'), "{row:?}\n{screen}");
    }
    tmux.until("what is wrong", |screen| screen.contains("nothing is being aggregated"));
    // One row is scrolled away and back.
    tmux.tmux(&["send-keys", "Down"]);
    tmux.until("two rows", |screen| rows(screen).len() == 2);
    tmux.tmux(&["send-keys", "Up"]);
    tmux.until("three rows", |screen| rows(screen).len() == 3);
    // The run is paused, continued, and accelerated.
    tmux.tmux(&["send-keys", "Space"]);
    tmux.until("a pause", |screen| screen.contains("paused"));
    tmux.tmux(&["send-keys", "s"]);
    tmux.until("it goes on", |screen| !screen.contains("paused"));
    tmux.tmux(&["send-keys", "*"]);
    tmux.until("a higher rate", |screen| screen.contains("2.000 times its schedule"));
    tmux.tmux(&["send-keys", "q"]);
    let left = tmux.until("the terminal given back", |screen| screen.contains("ended with 1"));
    assert!(left.contains("interrupted"), "{left}");
    let manifest = manifest(folder.path());
    assert_eq!((&manifest["state"], &manifest["balance"]["unknown"]), (&"interrupted".into(), &Value::from(0)));
}
