//! The web view (docs/serve.md): access control, reachable files, misbehaving clients, and a run in progress.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pktgen_testing::{HANG, eventually};
use serde_json::Value;
use tempfile::TempDir;

use crate::stats::folder;
use crate::support::{pktgen, text};

/// A server, which ends when this is dropped.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    fn start(folder: &Path, args: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        command.current_dir(folder).args(["serve", "--json", "-q"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let first: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(first["schema"], "served/1");
        let address: SocketAddr = first["address"].as_str().expect("an address").parse().expect("an address");
        assert_eq!(first["url"], format!("http://{address}/"));
        Served { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(HANG)).expect("a socket");
        stream
    }

    /// Returns the response to a raw request.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A refusal may arrive before everything is sent.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or_else(|| panic!("{}", text(&bytes)));
        let body = bytes.split_off(end + 4);
        Answer { head: text(&bytes), body }
    }

    fn request(&self, line: &str, fields: &str) -> Answer {
        self.raw(format!("{line} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.address).as_bytes())
    }

    fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), "")
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Returns the list's entry for a run.
    fn listed(&self, path: &str) -> Option<Value> {
        let runs = self.json("/api/runs");
        runs["runs"].as_array().expect("runs").iter().find(|run| run["path"] == path).cloned()
    }

    /// Returns its current and peak memory, in KiB.
    fn memory(&self) -> [u64; 2] {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        ["VmRSS:", "VmHWM:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        })
    }

    fn end(mut self, signal: &str) -> i32 {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("it ends").code().expect("no signal ended it")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{}", self.head))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn text(&self) -> String {
        text(&self.body)
    }
}

/// The seed of a run: 2⁵³ + 1.
const SEED: u64 = 9_007_199_254_740_993;

/// Returns folders with a valid run, an invalid one, a killed one, a file that is no manifest, and pages.
fn runs() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |path: &str| folder.path().join(path);
    let experiment =
        "name = \"small\"\n[workload]\nupdates = 40\n[schedule]\noffered = \"20Mbps\"\n[topology]\nrate = \"30Mbps\"\n";
    fs::write(at("x.toml"), experiment).expect("writable");
    let made = pktgen(folder.path(), &["replay", "x.toml", "--out", "runs/good"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let manifest = fs::read_to_string(at("runs/good/manifest.json")).expect("a manifest");
    let mut value: Value = serde_json::from_str(&manifest).expect("JSON");
    let faults = serde_json::json!([{ "code": "told", "said": "3 <b>packets</b> carried a wrong sum" }]);
    value["validity"] = serde_json::json!({ "valid": false, "faults": faults, "notes": [] });
    for (name, state) in [("deep/er/bad", "finished"), ("deep/killed", "running"), ("open", "running")] {
        value["state"] = state.into();
        if name == "open" {
            value["seed"] = SEED.into();
        }
        fs::create_dir_all(at(&format!("runs/{name}"))).expect("a folder");
        fs::write(at(&format!("runs/{name}/manifest.json")), value.to_string()).expect("writable");
    }
    fs::write(at("runs/deep/killed/stats.jsonl"), "{\"end_s\":1}\n").expect("writable");
    fs::create_dir_all(at("runs/torn")).expect("a folder");
    fs::write(at("runs/torn/manifest.json"), &manifest[..100]).expect("writable");
    for (page, title) in [("a b", "compared"), ("deep/report", "two runs")] {
        fs::write(at(&format!("runs/{page}.html")), format!("<title>{title}</title>")).expect("writable");
    }
    // Files outside, and paths to them.
    fs::create_dir_all(at("outside/run")).expect("a folder");
    fs::write(at("outside/secret.html"), "secret").expect("writable");
    fs::write(at("outside/run/manifest.json"), &manifest).expect("writable");
    symlink(at("outside/run"), at("runs/linked")).expect("a link");
    symlink(at("outside/secret.html"), at("runs/linked.html")).expect("a link");
    fs::create_dir_all(at("runs/half")).expect("a folder");
    symlink(at("outside/run/manifest.json"), at("runs/half/manifest.json")).expect("a link");
    folder
}

#[test]
fn a_list_has_verdicts_and_only_what_lies_below_the_folder() {
    let folder = runs();
    let served = Served::start(folder.path(), &["runs"]);
    let list = served.json("/api/runs");
    let found: Vec<_> = list["runs"].as_array().expect("runs").iter().collect();
    let of = |run: &&Value| format!("{} {} {}", run["path"].as_str().expect("a path"), run["state"], run["valid"]);
    let said: Vec<_> = found.iter().map(of).collect();
    let wanted = [
        "deep/er/bad \"finished\" false",
        "deep/killed \"killed\" null",
        "good \"finished\" true",
        "open \"unknown\" null",
        "torn \"finished\" false",
    ];
    assert_eq!(said, wanted);
    assert_eq!(found[0]["why"], serde_json::json!(["3 <b>packets</b> carried a wrong sum"]));
    assert!(found[4]["why"][0].as_str().expect("a reason").contains("manifest.json cannot be read"), "{}", found[4]);
    assert_eq!(list["pages"], serde_json::json!(["a b.html", "deep/report.html"]));

    let run = served.json("/api/run?run=good");
    assert_eq!((&run["valid"], &run["network"]["program"], &run["seed"]), (&true.into(), &"olaf".into(), &"1".into()));
    assert!(
        run["balance"]["sent"].as_u64().expect("a count") > 0
            && run["config"].as_str().expect("TOML").contains("[workload]")
    );
    // A run that has not ended has no counters yet.
    let open = served.json("/api/run?run=open");
    assert_eq!([&open["balance"], &open["valid"], &open["counters"]], [&Value::Null; 3], "{open}");
    // A browser's numbers cannot hold its seed.
    assert_eq!([&open["seed"], &found[3]["seed"]], [SEED.to_string().as_str(); 2]);
    assert_eq!(served.get("/page?file=a%20b.html").text(), "<title>compared</title>");
    assert_eq!(served.get("/page?file=deep/report.html").text(), "<title>two runs</title>");

    for path in [
        "/page?file=../outside/secret.html",
        "/page?file=..%2Foutside%2Fsecret.html",
        "/page?file=linked.html",
        "/page?file=%2Fetc%2Fpasswd",
        "/page?file=good/manifest.json",
        "/api/run?run=../outside/run",
        "/api/run?run=linked",
        "/api/run?run=half",
        "/api/run?run=good/",
        "/api/run?run=good/../good",
        "/api/run?run=./good",
        "/api/rows?run=good",
        "/api/rows?run=../outside/run",
        "/report?run=../outside/run",
        "/report?run=good&baseline=../outside/run",
        "/../outside/secret.html",
        "/%2e%2e/outside/secret.html",
        "/good/report.html",
        "/etc/passwd",
        "/api",
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status(), 404, "{path}: {}", answer.text());
        assert!(!answer.text().contains("secret\n"), "{path}");
    }
    // A file that becomes a link after it was listed.
    fs::remove_file(folder.path().join("runs/a b.html")).expect("it was there");
    symlink(folder.path().join("outside/secret.html"), folder.path().join("runs/a b.html")).expect("a link");
    assert_eq!(served.get("/page?file=a%20b.html").status(), 404);
    assert_eq!(served.end("-TERM"), 0);
}

#[test]
fn only_requests_to_this_host_from_this_page_are_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let served = Served::start(folder.path(), &["."]);
    let own = served.address;
    for (line, fields, status) in [
        ("GET /", format!("Host: {own}\r\n"), 200),
        ("HEAD /", format!("Host: {own}\r\n"), 200),
        ("GET /", "Host: localhost:8080\r\n".into(), 200),
        ("GET /api/runs", format!("Host: {own}\r\nOrigin: http://{own}\r\nSec-Fetch-Site: same-origin\r\n"), 200),
        ("GET /", "Host: evil.example\r\n".into(), 403),
        ("GET /api/runs", format!("Host: evil.example:{}\r\n", own.port()), 403),
        ("GET /", String::new(), 403),
        ("GET /", format!("Host: {own}\r\nHost: evil.example\r\n"), 403),
        ("GET /api/runs", format!("Host: {own}\r\nOrigin: http://evil.example\r\n"), 403),
        ("GET /api/runs", format!("Host: {own}\r\nOrigin: null\r\n"), 403),
        ("GET /api/runs", format!("Host: {own}\r\nSec-Fetch-Site: cross-site\r\n"), 403),
        ("POST /", format!("Host: {own}\r\n"), 405),
        ("PUT /api/runs", format!("Host: {own}\r\n"), 405),
        ("DELETE /", format!("Host: {own}\r\n"), 405),
        ("OPTIONS /", format!("Host: {own}\r\n"), 405),
        ("CONNECT evil.example:80", format!("Host: {own}\r\n"), 405),
        ("GET http://evil.example/", format!("Host: {own}\r\n"), 400),
        ("GET /", format!("Host: {own}\r\nContent-Length: 5\r\n"), 400),
    ] {
        let answer = served.raw(format!("{line} HTTP/1.1\r\n{fields}\r\n").as_bytes());
        assert_eq!(answer.status(), status, "{line} {fields}: {}", answer.text());
        assert_eq!(line.starts_with("HEAD"), answer.body.is_empty(), "{line}");
        assert!(answer.field("Access-Control-Allow-Origin").is_none(), "{}", answer.head);
    }
    let page = served.get("/");
    let policy = page.field("Content-Security-Policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.field("X-Content-Type-Options"), Some("nosniff"));
    // No inline content, and no external content.
    let parts = [page.text(), served.get("/page.css").text(), served.get("/page.js").text()];
    assert!(parts.iter().all(|part| !part.is_empty() && !part.contains("innerHTML")), "text stays text");
    let outside = |part: &String| part.replace("http://www.w3.org/2000/svg", "").contains("://");
    assert!(!parts.iter().any(outside) && !parts[0].contains("<style") && !parts[0].contains(" style="));
    assert_eq!(served.end("-INT"), 0);
}

#[test]
fn an_address_that_others_reach_takes_a_word_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (args, word) in [
        (&["serve", ".", "--listen", "0.0.0.0:0"][..], "--allow-others"),
        (&["serve", "nowhere"], "give a run dir"),
        (&["serve", ".", "--listen", "192.0.2.1:0", "--allow-others"], "cannot be listened at"),
    ] {
        let output = pktgen(folder.path(), args);
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
    let mut served =
        Served::start(folder.path(), &[".", "--listen", "0.0.0.0:0", "--allow-others", "--name", "testbed"]);
    let port = served.address.port();
    served.address = ([127, 0, 0, 1], port).into();
    for (host, status) in [("192.0.2.7", 200), ("testbed", 200), ("evil.example", 403)] {
        let answer = served.raw(format!("GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").as_bytes());
        assert_eq!(answer.status(), status, "{host}");
    }
}

#[test]
fn clients_that_misbehave_harm_nothing() {
    let folder = runs();
    let served = Served::start(folder.path(), &["runs"]);
    let whole = served.get("/page.js").body.len();
    // A hundred at once, all answered.
    let answered = std::thread::scope(|scope| {
        let ask = |i: usize| {
            let (served, path) = (&served, ["/api/runs", "/page.js", "/api/run?run=good", "/report?run=good"][i % 4]);
            move || served.get(path).status()
        };
        let all: Vec<_> = (0..100).map(|i| scope.spawn(ask(i))).collect();
        all.into_iter().map(|client| client.join().expect("no panic")).filter(|status| *status == 200).count()
    });
    assert_eq!(answered, 100);
    let [before, _] = served.memory();
    // Too long, endless and non-text request heads, and clients that disconnect.
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)).into_bytes(), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).into_bytes(), 431),
        ("GET / HTTP/1.1\r\n".to_owned().into_bytes(), 408),
        (b"GET / HTTP/1.1\r\nX: \xff\xfe\r\n\r\n".to_vec(), 400),
        (b"\0\0\0\0\r\n\r\n".to_vec(), 400),
    ] {
        assert_eq!(served.raw(&request).status(), status, "{}", text(&request[..request.len().min(60)]));
    }
    // As every answer to HEAD, that of a refused one has no body.
    let long = format!("HEAD /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    for (request, status) in [
        ("HEAD /%zz HTTP/1.1\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        ("HEAD / HTTP/2\r\n\r\n", 505),
        (long.as_str(), 431),
        ("HEAD / HTTP/1.1\r\n", 408),
    ] {
        let answer = served.raw(request.as_bytes());
        assert_eq!((answer.status(), answer.text().as_str()), (status, ""), "{request:.60}");
    }
    let slow: Vec<_> = (0..100)
        .map(|i| {
            let mut stream = served.connect();
            match i % 4 {
                0 => stream.write_all(b"GET /api/ru").expect("writable"),
                // Responses that are never read.
                1 => stream
                    .write_all(format!("GET /page.js HTTP/1.1\r\nHost: {}\r\n\r\n", served.address).as_bytes())
                    .expect("writable"),
                2 => stream.shutdown(Shutdown::Write).expect("a socket"),
                _ => {}
            }
            stream
        })
        .collect();
    // Other clients are answered meanwhile.
    let answer = served.get("/page.js");
    assert_eq!((answer.status(), answer.body.len()), (200, whole));
    drop(slow);
    let mut others: Vec<_> = (0..300).map(|_| served.connect()).collect();
    assert_eq!(served.get("/api/run?run=good").status(), 200, "when those before have had their time");
    others.iter_mut().for_each(|stream| drop(stream.write_all(b"GET")));
    drop(others);
    let [after, most] = served.memory();
    assert!(after < before + 30_000 && most < before + 60_000, "{before} KiB, then {after}, at most {most}");
    assert_eq!(served.end("-TERM"), 0);
}

#[test]
fn reports_and_comparisons_are_made_once_and_shut_in() {
    let folder = runs();
    let good = folder.path().join("runs/good");
    let lies = fs::read(good.join("report.html")).expect("a report");
    let served = Served::start(folder.path(), &["runs"]);
    let answer = served.get("/report?run=good");
    assert!(answer.status() == 200 && answer.body == lies);
    let policy = answer.field("Content-Security-Policy").expect("a policy");
    assert!(
        policy.contains("sandbox allow-scripts")
            && policy.contains("default-src 'none'")
            && !policy.contains("connect-src"),
        "{policy}"
    );
    // A report older than the end of the run is not shown.
    let report = fs::File::options().write(true).open(good.join("report.html")).expect("a report");
    let written = fs::metadata(good.join("manifest.json")).and_then(|about| about.modified()).expect("a time");
    report.set_modified(written - Duration::from_secs(1)).expect("a time");
    eventually("it is older than its run", || served.listed("good").is_some_and(|run| run["report"] == false));
    // Without the file, the report is made once, and nothing is written into the folder.
    fs::remove_file(good.join("report.html")).expect("it was there");
    let names = || fs::read_dir(&good).expect("a folder").count();
    let before = names();
    let made: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| served.get("/report?run=good"))).collect();
        all.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    assert!(made.iter().all(|answer| answer.status() == 200 && answer.body == made[0].body), "{}", made[0].text());
    assert!(made[0].text().contains("Valid:") && names() == before);
    // A comparison with another run, and with none.
    let other =
        pktgen(folder.path(), &["replay", "x.toml", "--no-report", "--out", "runs/other", "--set", "target.slots=2"]);
    assert_eq!(other.status.code(), Some(0), "{}", text(&other.stderr));
    eventually("the list has it", || served.listed("other").is_some());
    let compared = served.get("/report?run=other&baseline=good");
    assert!(compared.status() == 200 && compared.text().contains("Is other better than good?"), "{}", compared.text());
    let same = served.get("/report?run=good&baseline=good");
    assert!(same.status() == 503 && same.text().contains("needs two implementations"), "{}", same.text());
    // A report of a sweep is that of its runs, which may change without it: a run is recovered, or a shard goes on.
    let sweep =
        pktgen(folder.path(), &["replay", "x.toml", "--no-report", "--out", "runs/s", "--set", "sweep.seeds=\"1..2\""]);
    assert_eq!(sweep.status.code(), Some(0), "{}", text(&sweep.stderr));
    eventually("the list has it", || served.listed("s").is_some());
    let first = served.get("/report?run=s").body;
    assert_eq!(served.get("/report?run=s").body, first);
    let own = served.json("/api/runs")["runs"].as_array().expect("runs").iter().find_map(|run| {
        run["path"].as_str().filter(|path| path.starts_with("s/")).map(|path| folder.path().join("runs").join(path))
    });
    let path = own.expect("a run of it").join("manifest.json");
    let manifest = fs::read_to_string(&path).expect("a manifest").replace("\"finished\"", "\"interrupted\"");
    fs::write(&path, pktgen_core::record::digest::seal(&manifest)).expect("writable");
    eventually("it is made again", || served.get("/report?run=s").body != first);
    // If a report cannot be made, the reason is given as text.
    let bad = served.get("/report?run=torn");
    assert!(bad.status() == 503 && bad.text().contains("There is no report:"), "{}: {}", bad.status(), bad.text());
    fs::write(folder.path().join("runs/deep/er/bad/x"), "").expect("writable");
    symlink("/etc/passwd", folder.path().join("runs/deep/er/bad/sent.parquet")).expect("a link");
    eventually("it is seen to have a link", || served.get("/report?run=deep/er/bad").text().contains("with links"));
    assert_eq!(served.end("-TERM"), 0);
}

/// Runs in hidden folders are listed; others are announced, and examined before a report is made.
#[test]
fn what_is_not_listed_is_announced_and_examined() {
    let folder = runs();
    let at = |path: &str| folder.path().join("runs").join(path);
    let served = Served::start(folder.path(), &["runs"]);
    assert_eq!(served.json("/api/runs")["left_out"], false);
    fs::create_dir(at(".hidden")).expect("a folder");
    fs::copy(at("good/manifest.json"), at(".hidden/manifest.json")).expect("a copy");
    fs::create_dir_all(at(".git/objects")).expect("a folder");
    eventually("it is listed", || served.listed(".hidden").is_some());
    assert_eq!(served.json("/api/runs")["left_out"], false);
    let unnamed = at("good").with_file_name(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&unnamed).expect("a folder");
    eventually("it is announced", || served.json("/api/runs")["left_out"] == true);
    fs::remove_dir(&unnamed).expect("it was there");
    eventually("it is gone", || served.json("/api/runs")["left_out"] == false);
    // A sweep in the deepest folder: its runs are listed, too.
    let sweep = "1/2/3/4/5/s";
    let out = format!("runs/{sweep}");
    let made =
        pktgen(folder.path(), &["replay", "x.toml", "--no-report", "--out", &out, "--set", "sweep.seeds=\"1..2\""]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let runs = || served.json("/api/runs")["runs"].as_array().expect("runs").clone();
    let below = || runs().iter().filter(|run| run["path"].as_str().is_some_and(|path| path.starts_with(sweep))).count();
    eventually("all are listed", || below() == 3);
    assert_eq!(served.json("/api/runs")["left_out"], false);
    let report = format!("/report?run={sweep}");
    assert_eq!(served.get(&report).status(), 200);
    // Links in folders that no list has.
    for hidden in [".x", "x/y/z"] {
        let inside = at(sweep).join(hidden);
        fs::create_dir_all(&inside).expect("a folder");
        symlink("/etc/passwd", inside.join("sent.parquet")).expect("a link");
        let answer = served.get(&report);
        assert!(answer.status() == 404 && answer.text().contains("with links"), "{hidden}: {}", answer.text());
        let compared = served.get(&format!("/report?run=good&baseline={sweep}"));
        assert!(compared.status() == 404 && compared.text().contains("with links"), "{hidden}: {}", compared.text());
        fs::remove_file(inside.join("sent.parquet")).expect("it was there");
        assert_eq!(served.get(&report).status(), 200, "{hidden}");
    }
    assert_eq!(served.end("-TERM"), 0);
}

#[test]
fn a_run_is_watched_while_it_lasts() {
    let folder = folder(600);
    fs::create_dir(folder.path().join("runs")).expect("a folder");
    let served = Served::start(folder.path(), &["runs"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder.path()).args(["replay", "x.toml", "-q", "--no-report", "--out", "runs/live"]);
    let mut run = command
        .args(["--stats", "100ms", "--stats-to", "run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    eventually("it is in progress", || served.listed("live").is_some_and(|run| run["state"] == "in_progress"));
    // The file of rows is made after the run has begun.
    eventually("rows", || served.get("/api/rows?run=live&from=0").status() == 200);
    let (mut from, mut rows) = (0, Vec::new());
    eventually("rows with ages", || {
        let piece = served.json(&format!("/api/rows?run=live&from={from}"));
        rows.extend(piece["rows"].as_array().expect("rows").iter().cloned());
        from = piece["next"].as_u64().expect("a place");
        rows.len() > 5 && rows.last().is_some_and(|row| row["clusters"][2]["age_s"].is_f64())
    });
    assert!(served.json("/api/run?run=live")["valid"].is_null());
    let mut ended = 0.0;
    for row in &rows {
        assert_eq!((&row["schema"], row["begin_s"].as_f64()), (&"stats/1".into(), Some(ended)));
        ended = row["end_s"].as_f64().expect("a time");
        assert!(row["queued"].as_u64().is_some_and(|queued| queued <= 8) && row["warnings"].is_array(), "{row}");
        assert_eq!(row["clusters"].as_array().map(Vec::len), Some(3));
        let sum = |name: &str| {
            row["clusters"].as_array().expect("clusters").iter().filter_map(|c| c[name].as_u64()).sum::<u64>()
        };
        assert!(sum("received_total") <= row["received_total"].as_u64().expect("known"), "{row}");
    }
    // No report is made of a run in progress.
    let report = served.get("/report?run=live");
    assert!(report.status() == 503 && report.text().contains("in progress"), "{}", report.text());
    // It is not recovered from files that it is still writing, and its numbers are not stored in the history.
    for (words, why) in
        [("analyze --recover runs/live", "still under way"), ("report runs/live --history h.jsonl", "under way")]
    {
        let told = pktgen(folder.path(), &words.split(' ').collect::<Vec<_>>());
        assert!(told.status.code() != Some(0) && text(&told.stderr).contains(why), "{}", text(&told.stderr));
    }
    assert!(folder.path().join("runs/live/sent.arrows").exists() && !folder.path().join("h.jsonl").exists());
    assert_eq!(served.listed("live").expect("listed")["state"], "in_progress");
    // Killed: no process holds it any more. There is no verdict.
    run.kill().expect("it runs");
    run.wait().expect("a child");
    eventually("it is seen to be killed", || served.listed("live").is_some_and(|run| run["state"] == "killed"));
    assert!(served.listed("live").expect("listed")["valid"].is_null());
    assert_eq!(served.end("-TERM"), 0);
}

/// Rows of many hours: the server reads piece by piece.
#[test]
fn hours_of_rows_leave_memory_flat() {
    let folder = runs();
    let killed = folder.path().join("runs/deep/killed/stats.jsonl");
    let cluster = "{\"id\":0,\"sent_total\":123456,\"received_total\":12345,\"represented_total\":123456,\"age_s\":0.012345,\"age_mean_s\":0.012345}";
    let clusters = vec![cluster; 16].join(",");
    let mut file = std::io::BufWriter::new(fs::File::create(&killed).expect("writable"));
    for i in 0..20_000 {
        writeln!(file, "{{\"schema\":\"stats/1\",\"begin_s\":{i},\"end_s\":{},\"clusters\":[{clusters}]}}", i + 1)
            .expect("writable");
    }
    file.into_inner().expect("written");
    let served = Served::start(folder.path(), &["runs"]);
    let read = || {
        let (mut from, mut rows) = (0, 0);
        loop {
            let piece = served.json(&format!("/api/rows?run=deep/killed&from={from}"));
            rows += piece["rows"].as_array().expect("rows").len();
            from = piece["next"].as_u64().expect("a place");
            if piece["more"] == false {
                return rows;
            }
        }
    };
    assert_eq!(read(), 20_000);
    let [before, _] = served.memory();
    (0..2).for_each(|_| assert_eq!(read(), 20_000));
    let [_, most] = served.memory();
    let size = fs::metadata(&killed).expect("a file").len() / 1024;
    assert!(most < before + size / 4, "{before} KiB, at most {most}; the rows have {size}");
}
