//! `pktgen serve`: shows finished and running runs below a folder in a browser. A separate process that reads files (docs/serve.md).

mod detail;
mod guard;
mod http;
mod index;
mod made;
mod manifest;
mod rows;
mod shared;
mod site;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::{Error, Result};
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::WebView;
use crate::schemas::SERVED;
use crate::ui::{Ui, stop_flag};
use guard::Guard;
use site::Site;

/// Interval of checking whether to end.
const LOOK: Duration = Duration::from_millis(100);
/// Numbers of threads that answer and that read files.
const THREADS: usize = 2;
const READERS: usize = 4;
/// Maximum time for finishing current requests at the end.
const END: Duration = Duration::from_secs(2);

pub(super) fn run(args: &WebView, ui: &Ui) -> Result<u8> {
    let address = args.listen;
    if !address.ip().to_canonical().is_loopback() && !args.allow_others {
        return Err(Error::config(format!(
            "--listen {address}: others reach this address; give --allow-others, too, or 127.0.0.1:{} and a tunnel (docs/serve.md)",
            address.port()
        )));
    }
    let root = folder(&args.dir)?;
    let stop = stop_flag();
    let fails = |e: std::io::Error| {
        Error::config(format!("--listen {address}: it cannot be listened at: {e}; choose another, as 127.0.0.1:0"))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(READERS)
        .thread_name("serve")
        .enable_all()
        .build()
        .map_err(fails)?;
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(fails)?;
    let bound = listener.local_addr().map_err(fails)?;
    let site = Arc::new(Site::new(root, Guard::new(bound, &args.name), stop.clone()));
    let url = format!("http://{bound}/");
    if !bound.ip().to_canonical().is_loopback() {
        ui.note(&format!(
            "warning: --listen {address} is readable by everyone who reaches this host, without a password: names, configurations \
             and results of all runs below {}",
            site.root().display()
        ));
    }
    if ui.json() {
        let line = json!({ "url": url, "address": bound.to_string(), "folder": site.root().display().to_string() });
        ui.object(&SERVED, &line.to_string());
    } else {
        ui.result(&url);
    }
    ui.note(&format!("serving {}; Ctrl-C ends", site.root().display()));
    runtime.spawn(http::serve(listener, site.clone()));
    runtime.block_on(until(&stop));
    runtime.shutdown_timeout(END);
    Ok(0)
}

/// Returns the folder without links in its path.
fn folder(dir: &std::path::Path) -> Result<PathBuf> {
    let wrong = |why: &str| Error::config(format!("{}: {why}; give a run dir, or a folder of them", dir.display()));
    let root = dir.canonicalize().map_err(|e| wrong(&e.to_string()))?;
    if root.is_dir() { Ok(root) } else { Err(wrong("it is no folder")) }
}

async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
