//! Statistics of the run for Prometheus: one page of numbers, served by a separate thread.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pktgen_core::time::SECOND;
use pktgen_core::{Error, Result};
use pktgen_engine::target::program::Expected;
use pktgen_realtime::driver::real_time::drop_privileges;
use pktgen_realtime::live::{ClusterStats, Glance, WarningKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Maximum number of concurrent connections: each uses a descriptor, and the run's own files need some. Further ones
/// are closed immediately.
const CONNECTIONS: usize = 8;
/// Timeout and maximum length of a request.
const READ: Duration = Duration::from_millis(500);
const REQUEST_MAX: usize = 4096;
/// Timeout of writing an answer.
const WRITE: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// The latest statistics; none before the first run, and during runs in virtual time.
type Latest = Arc<Mutex<Option<Arc<Glance>>>>;

/// Serves until it is dropped.
pub(super) struct Exporter {
    latest: Latest,
    /// Dropping it ends the thread.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Exporter {
    /// Listens at `address`.
    pub(super) fn serve(address: SocketAddr) -> Result<Exporter> {
        let fails = |e: std::io::Error| {
            Error::config(format!(
                "--metrics {address}: it cannot be listened at: {e}; choose another, as 127.0.0.1:9400"
            ))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("metrics")
            // The address is bound by the thread that makes this.
            .on_thread_start(|| drop(drop_privileges(&[])))
            .enable_all()
            .build()
            .map_err(fails)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(fails)?;
        let latest = Latest::default();
        runtime.spawn(accept(listener, latest.clone()));
        Ok(Exporter { latest, runtime: Some(runtime) })
    }

    /// Publishes the current statistics. They are formatted on request.
    pub(super) fn publish(&self, glance: Option<Arc<Glance>>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = glance;
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, latest: Latest) {
    // Each connection holds one more reference.
    let open = Arc::new(());
    loop {
        match listener.accept().await {
            Ok((stream, _)) if Arc::strong_count(&open) > CONNECTIONS => drop(stream),
            Ok((stream, _)) => {
                let (latest, own) = (latest.clone(), open.clone());
                drop(tokio::spawn(async move {
                    answer(stream, latest).await;
                    drop(own);
                }));
            }
            // The process may have too many open files, which will be fewer later.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Handles one request. Other paths return a list of the available ones.
async fn answer(mut stream: TcpStream, latest: Latest) {
    let mut request = Vec::new();
    let read = async {
        while request.len() < REQUEST_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break;
            }
        }
    };
    if tokio::time::timeout(READ, read).await.is_err() {
        return;
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", page(&latest)),
        false => ("404 Not Found", "there is /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let write = async {
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    let _ = tokio::time::timeout(WRITE, write).await;
}

/// Returns the page of the latest statistics; empty if there are none.
fn page(latest: &Latest) -> String {
    // Not locked while it is formatted.
    let glance = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    glance.map_or_else(String::new, |glance| text(&glance))
}

/// Counts that the roles of this process have.
#[derive(Clone, Copy)]
struct Has {
    sent: bool,
    received: bool,
    represented: bool,
}

impl Has {
    fn of(glance: &Glance) -> Has {
        // Where deliveries were not read in time, the others are served beside the number of those.
        let received = glance.totals.received_bytes.is_some() || glance.skipped > 0;
        let represented = received && glance.expected != Expected::SumsByKey;
        Has { sent: glance.totals.sent.is_some(), received, represented }
    }
}

/// Metrics of a cluster: name, kind, help, value if this process has it.
type Of = fn(&ClusterStats, Has) -> Option<f64>;
const CLUSTERS: [(&str, &str, &str, Of); 6] = [
    ("sent_updates_total", "counter", "Updates that workers sent.", |seen, has| {
        has.sent.then_some(seen.totals.sent as f64)
    }),
    ("received_packets_total", "counter", "Packets with updates that arrived.", |seen, has| {
        has.received.then_some(seen.totals.packets as f64)
    }),
    ("received_updates_total", "counter", "Updates that they represent.", |seen, has| {
        has.represented.then_some(seen.totals.updates as f64)
    }),
    ("received_bytes_total", "counter", "Their bytes.", |seen, has| has.received.then_some(seen.totals.bytes as f64)),
    ("age_seconds", "gauge", "Age-of-Model now.", |seen, _| seen.age.map(|age| age as f64 / SECOND as f64)),
    ("age_mean_seconds", "gauge", "Its mean since the first update that arrived.", |seen, _| {
        seen.age_mean_ps.map(|mean| mean / SECOND as f64)
    }),
];

/// Formats the page. It has only what this process can know: a count of another process is absent, not 0.
fn text(glance: &Glance) -> String {
    let mut page = String::new();
    let (progress, totals, has) = (&glance.progress, &glance.totals, Has::of(glance));
    let run: String = glance.name.chars().filter(|c| !matches!(c, '"' | '\\') && !c.is_control()).collect();
    let whole = [
        ("run_info", "gauge", "The run under way.", Some(format!("{{run=\"{run}\"}} 1"))),
        ("run_seconds", "gauge", "How long it has been.", Some(format!(" {}", progress.t as f64 / SECOND as f64))),
        (
            "refused_sends_total",
            "counter",
            "Attempts of the workers to send that the kernel or the card refused.",
            totals.refused.map(|_| format!(" {}", progress.refused)),
        ),
        (
            "lost_frames_total",
            "counter",
            "Frames lost outside the device.",
            totals.lost.map(|_| format!(" {}", progress.lost)),
        ),
        (
            "late_seconds",
            "gauge",
            "The latest frame of the last tenth of a second.",
            has.sent.then(|| format!(" {}", progress.late_ns as f64 * 1e-9)),
        ),
        ("unseen_total", "counter", "Deliveries that these numbers leave out.", Some(format!(" {}", glance.skipped))),
    ];
    for (name, kind, help, value) in whole {
        let Some(value) = value else { continue };
        let _ = write!(page, "# HELP pktgen_{name} {help}\n# TYPE pktgen_{name} {kind}\npktgen_{name}{value}\n");
    }
    for (name, kind, help, of) in CLUSTERS {
        let _ = write!(page, "# HELP pktgen_{name} {help}\n# TYPE pktgen_{name} {kind}\n");
        for seen in &glance.clusters {
            if let Some(value) = of(seen, has) {
                let _ = writeln!(page, "pktgen_{name}{{cluster=\"{}\"}} {value}", seen.id);
            }
        }
    }
    page += "# HELP pktgen_warning What the last second gives reason to say.\n# TYPE pktgen_warning gauge\n";
    for warning in &glance.warnings {
        let what = match warning.what {
            WarningKind::Silence => "silence",
            WarningKind::NoAggregation => "no_aggregation",
        };
        let _ = writeln!(page, "pktgen_warning{{cluster=\"{}\",what=\"{what}\"}} 1", warning.cluster);
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_realtime::driver::real_time::Progress;
    use pktgen_realtime::live::{ClusterTotals, LiveTotals};

    use super::*;

    fn glance(totals: LiveTotals, skipped: u64) -> Glance {
        let seen = ClusterTotals { sent: 7, packets: 5, updates: 6, bytes: 500 };
        Glance {
            name: "x".to_owned(),
            dir: Arc::from(Path::new("x")),
            progress: Progress::default(),
            expected: Expected::Single,
            clusters: vec![ClusterStats { id: 0, totals: seen, last: seen, age: None, age_mean_ps: None }],
            skipped,
            warnings: Vec::new(),
            refused: None,
            totals,
            interval: None,
        }
    }

    #[test]
    fn the_page_is_that_of_the_latest_statistics() {
        let latest = Latest::default();
        let exporter = Exporter { latest: latest.clone(), runtime: None };
        assert_eq!(page(&latest), "", "no run has begun");
        for sent in [7, 8] {
            let seen = Arc::new(glance(LiveTotals { sent: Some(sent), ..LiveTotals::default() }, sent));
            exporter.publish(Some(seen.clone()));
            assert_eq!(page(&latest), text(&seen));
            let kept = latest.lock().expect("no panic").clone().expect("statistics");
            assert!(Arc::ptr_eq(&kept, &seen), "nothing is formatted or copied before a request");
        }
        exporter.publish(None);
        assert_eq!(page(&latest), "", "a run in virtual time is in progress");
    }

    #[test]
    fn counts_of_another_process_are_absent() {
        let of_workers = ["sent_updates_total{", "refused_sends_total ", "late_seconds "];
        let of_server =
            ["received_packets_total{", "received_updates_total{", "received_bytes_total{", "lost_frames_total "];
        let workers = LiveTotals { sent: Some(7), refused: Some(0), ..LiveTotals::default() };
        let server =
            LiveTotals { represented: Some(6), received_bytes: Some(500), lost: Some(0), ..LiveTotals::default() };
        let unread = LiveTotals { lost: Some(0), ..LiveTotals::default() };
        for (totals, skipped, sends, receives) in
            [(workers, 0, true, false), (server, 0, false, true), (unread, 3, false, true)]
        {
            let page = text(&glance(totals, skipped));
            let has = |name: &&str| page.lines().any(|line| line.starts_with(&format!("pktgen_{name}")));
            for (names, known) in [(&of_workers[..], sends), (&of_server[..], receives)] {
                assert!(names.iter().all(|name| has(name) == known), "{names:?}: {page}");
            }
            assert!(page.contains("\npktgen_run_seconds 0\n") && !page.contains("pktgen_age_seconds{"), "{page}");
        }
        let by_key = Glance { expected: Expected::SumsByKey, ..glance(LiveTotals { represented: None, ..server }, 0) };
        let page = text(&by_key);
        assert!(page.contains("pktgen_received_packets_total{"), "{page}");
        assert!(!page.contains("pktgen_received_updates_total{"), "{page}");
    }
}
