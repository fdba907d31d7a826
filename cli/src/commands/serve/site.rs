//! Answers by path.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::detail;
use super::guard::Guard;
use super::http::{Head, Response};
use super::index::{Found, Index, Kind, MANIFEST, REPORT, joined, obstacle, open};
use super::made::{BUSY, Wanted, Workshop};
use super::manifest::read;
use super::rows;
use super::shared::SharedIndex;
use crate::commands::live::RUN_ROWS;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Everything that is served.
pub(super) struct Site {
    root: PathBuf,
    guard: Guard,
    shared: SharedIndex,
    workshop: Workshop,
}

const NOT_FOUND: &str = "404 Not Found";

impl Site {
    /// Serves the contents of `root`, whose path has no links.
    pub(super) fn new(root: PathBuf, guard: Guard, stop: Arc<AtomicBool>) -> Self {
        let shared = SharedIndex::new(root.clone());
        Site { root, guard, shared, workshop: Workshop::new(stop) }
    }

    /// Returns the answer to a request.
    pub(super) async fn answer(&self, head: &Head) -> Response {
        if let Err(why) = self.guard.check(head) {
            return Response::refusal("403 Forbidden", why);
        }
        match head.path.as_str() {
            "/" => Response::part("text/html; charset=utf-8", PAGE),
            "/page.css" => Response::part("text/css; charset=utf-8", STYLE),
            "/page.js" => Response::part("text/javascript; charset=utf-8", SCRIPT),
            "/api/runs" => Response::shared(self.shared.index().await.list(&self.root.display().to_string())),
            "/api/run" => self.run(head).await,
            "/api/rows" => self.rows(head).await,
            "/report" => self.report(head).await,
            "/page" => self.page(head).await,
            _ => Response::refusal(NOT_FOUND, "there is no such page; the front page is /"),
        }
    }

    /// Returns the entry that a parameter selects; only paths in the index are ever opened.
    fn named<'a>(index: &'a Index, head: &Head, parameter: &str) -> std::result::Result<(String, &'a Found), Response> {
        let path = head
            .parameter(parameter)
            .ok_or_else(|| Response::refusal("400 Bad Request", "which run? give run=PATH"))?;
        let found = index.found.get(path).ok_or_else(|| Response::refusal(NOT_FOUND, "there is no such run"))?;
        Ok((path.to_owned(), found))
    }

    async fn run(&self, head: &Head) -> Response {
        let index = self.shared.index().await;
        let (path, found) = match Self::named(&index, head, "run") {
            Ok((path, found)) if found.kind == Kind::Run => (path, found.clone()),
            Ok(_) => return Response::refusal(NOT_FOUND, "it is a sweep; its runs are listed apart"),
            Err(refusal) => return refusal,
        };
        let root = self.root.clone();
        let look = move || {
            let file = open(&root, &joined(&path, MANIFEST)).ok_or("it is gone")?;
            read(file).map(|run| detail::of_run(&path, &found, &run).to_string())
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(text)) => Response::json(text),
            Ok(Err(why)) => Response::refusal(NOT_FOUND, &format!("its manifest cannot be read: {why}")),
            Err(why) => Response::refusal("500 Internal Server Error", &why.to_string()),
        }
    }

    async fn rows(&self, head: &Head) -> Response {
        let index = self.shared.index().await;
        let path = match Self::named(&index, head, "run") {
            Ok((path, found)) if found.rows => path,
            Ok(_) => return Response::refusal(NOT_FOUND, "it has no rows of statistics"),
            Err(refusal) => return refusal,
        };
        let Ok(from) = head.parameter("from").unwrap_or("0").parse() else {
            return Response::refusal("400 Bad Request", "from is a number of bytes");
        };
        let root = self.root.clone();
        let read = move || open(&root, &joined(&path, RUN_ROWS)).and_then(|file| rows::piece(file, from).ok());
        match tokio::task::spawn_blocking(read).await {
            Ok(Some(text)) => Response::json(text),
            _ => Response::refusal(NOT_FOUND, "its rows of statistics cannot be read"),
        }
    }

    /// Returns a report or a comparison, existing or created now.
    async fn report(&self, head: &Head) -> Response {
        let index = self.shared.index().await;
        let (path, found) = match Self::named(&index, head, "run") {
            Ok(named) => named,
            Err(refusal) => return refusal,
        };
        let baseline = match head.parameter("baseline").map(|_| Self::named(&index, head, "baseline")).transpose() {
            Ok(baseline) => baseline,
            Err(refusal) => return refusal,
        };
        if let (true, None) = (found.report, &baseline) {
            return self.lies(joined(&path, REPORT)).await;
        }
        if index.busy() {
            return not_made(BUSY);
        }
        if let Some(why) = self.obstacle(&path, baseline.as_ref().map(|(path, _)| path.as_str())).await {
            return said(NOT_FOUND, &format!("No report is made of a folder {why}. Make it by pktgen report."));
        }
        let edition = |path: String| {
            let edition = index.edition(&path);
            (path, edition)
        };
        let wanted = Wanted { run: edition(path), baseline: baseline.map(|(path, _)| edition(path)) };
        match self.workshop.page(&self.root, &self.shared, wanted).await {
            Ok(file) => file_or_error(file),
            Err(why) => not_made(&why),
        }
    }

    /// Returns why no report is made of one of these folders.
    async fn obstacle(&self, path: &str, baseline: Option<&str>) -> Option<String> {
        let (root, paths) = (self.root.clone(), [Some(path.to_owned()), baseline.map(str::to_owned)]);
        let examine = move || paths.iter().flatten().find_map(|path| obstacle(&root, path));
        tokio::task::spawn_blocking(examine).await.unwrap_or_else(|e| Some(format!("that cannot be examined ({e})")))
    }

    /// Returns another page in the folder.
    async fn page(&self, head: &Head) -> Response {
        let index = self.shared.index().await;
        match head.parameter("file").filter(|file| index.pages.iter().any(|page| page == file)) {
            Some(file) => self.lies(file.to_owned()).await,
            None => Response::refusal(NOT_FOUND, "there is no such page"),
        }
    }

    async fn lies(&self, path: String) -> Response {
        let root = self.root.clone();
        match tokio::task::spawn_blocking(move || open(&root, &path)).await {
            Ok(Some(file)) => file_or_error(file),
            _ => Response::refusal(NOT_FOUND, "it is gone"),
        }
    }

    /// Returns the folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

fn file_or_error(file: std::fs::File) -> Response {
    Response::file(file).unwrap_or_else(|why| Response::refusal(NOT_FOUND, &why.to_string()))
}

/// Returns a page that states why a report was not made.
fn not_made(why: &str) -> Response {
    said("503 Service Unavailable", &format!("There is no report: {why}"))
}

/// Returns a page with a sentence.
fn said(status: &'static str, why: &str) -> Response {
    let why: String = why
        .chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            other => other.to_string(),
        })
        .collect();
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>No report</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/page.css\"></head>\
         <body><main><h1>No report</h1><p>{why}</p><p><a href=\"/\">All runs</a></p></main></body></html>"
    );
    Response::page(status, text)
}
