//! Runs that are controlled while they last: changes take effect at the time that the reply states, in the records and
//! in the packets, and no client harms a run.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use pktgen_testing::{HANG, eventually, happens};
use pktgen_workload::trace::Reader;
use serde_json::{Value, json};

use crate::stats::folder;
use crate::support::{pktgen, text};

/// Workers that react: nothing is sent before its answer has arrived.
const TRAINING: &str = "name = \"trained\"\n[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = 0.02\nworkers = 4\niterations = 50000\n\
    elements = 256\ncompute = \"1ms\"\n[topology]\nkind = \"rack\"\n[endpoint]\nworkers = \"switchml\"\npool = 128\n\
    [transport]\nkind = \"ring\"\n";

/// A run in progress, which ends when this is dropped.
struct Run(Option<Child>);

impl Run {
    fn start(folder: &Path, args: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        command.current_dir(folder).args(["replay", "x.toml", "--no-report", "--out", "out", "--control", "c.sock"]);
        let run = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        Run(Some(run))
    }

    fn end(mut self) -> Output {
        self.0.take().expect("a child").wait_with_output().expect("it ends")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = (child.kill(), child.wait());
        }
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(folder: &Path) -> Option<Client> {
        // The path of a socket must be short.
        let stream = UnixStream::connect(folder.join("c.sock")).ok()?;
        stream.set_read_timeout(Some(HANG)).ok()?;
        Some(Client(BufReader::new(stream)))
    }

    /// Connects once a run is in progress.
    fn await_run(folder: &Path) -> Client {
        let mut client = None;
        eventually("a run in progress", || {
            client = Client::connect(folder);
            client.as_mut().is_some_and(|client| client.ask("status", json!({}))["state"]["run"].is_string())
        });
        client.expect("connected")
    }

    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    fn say(&mut self, text: &str) -> Option<Value> {
        self.0.get_mut().write_all(text.as_bytes()).ok()?;
        self.line()
    }

    fn ask(&mut self, cmd: &str, args: Value) -> Value {
        let reply = self.say(&format!("{}\n", json!({ "v": 1, "id": cmd, "cmd": cmd, "args": args })));
        let reply = reply.expect("a reply");
        assert_eq!((&reply["v"], &reply["id"]), (&json!(1), &json!(cmd)));
        reply
    }

    /// Changes the run; returns the time from which the change applies.
    fn change(&mut self, cmd: &str, args: Value) -> i64 {
        let reply = self.ask(cmd, args);
        assert_eq!(reply["ok"], true, "{cmd}: {reply}");
        reply["applied_ps"].as_i64().expect("an instant")
    }

    /// Waits until the run has reached this time.
    fn await_time(&mut self, t: i64) {
        eventually("that time of the run", || self.ask("status", json!({}))["state"]["t_ps"].as_i64().unwrap() > t);
    }
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("out/manifest.json")).expect("a manifest")).expect("JSON")
}

fn query(folder: &Path, sql: &str) -> Vec<Value> {
    let output = pktgen(folder, &["query", "out", sql, "--json", "-q"]);
    // 1: the run was interrupted.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const MS: i64 = 1_000_000_000;

#[test]
fn changes_are_in_force_from_the_instant_that_the_reply_names() {
    let folder = folder(120);
    let folder = folder.path();
    let run = Run::start(folder, &["--hold"]);
    let mut client = Client::await_run(folder);
    assert_eq!(fs::metadata(folder.join("c.sock")).expect("a socket").permissions().mode() & 0o777, 0o600);
    let state = client.ask("status", json!({}))["state"].clone();
    assert_eq!((&state["held"], &state["speed"], &state["changes"]), (&json!(true), &json!(1.0), &json!(0)));
    let offered = state["pps"].as_f64().expect("a rate");
    client.await_time(30 * MS);
    // Pieces of the schedule: the time in the run, the position in the schedule, and the speed from then on.
    let mut pieces: Vec<(i64, f64, f64)> = Vec::new();
    let mut then = |applied: i64, speed: f64| {
        let schedule = pieces.last().map_or(0.0, |(run, schedule, speed)| schedule + (applied - run) as f64 * speed);
        pieces.push((applied, schedule, speed));
    };
    for (cmd, args, speed) in [
        ("start", json!({}), 1.0),
        ("rate", json!({ "pps": offered * 0.5 }), 0.5),
        ("pause", json!({}), 0.0),
        ("resume", json!({}), 0.5),
        ("rate", json!({ "factor": 6.0 }), 3.0),
    ] {
        let applied = client.change(cmd, args);
        client.await_time(applied + 60 * MS);
        then(applied, speed);
    }
    client.change("reset", json!({}));
    let refused = client.ask("rate", json!({ "factor": 1e-9 }));
    assert!(refused["ok"] == false && refused["error"].as_str().unwrap().contains("times the schedule's"), "{refused}");
    client.change("stop", json!({}));
    let output = run.end();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("control: "), "{said}");
    assert!(!folder.join("c.sock").exists(), "the socket goes with its run");
    let manifest = manifest(folder);
    assert_eq!(manifest["validity"]["notes"][0]["code"], "steered", "{}", manifest["validity"]);
    assert_eq!((&manifest["validity"]["notes"][0]["changes"], &manifest["balance"]["unknown"]), (&json!(7), &json!(0)));
    assert!(manifest["files"]["controls.parquet"].is_object() || manifest["files"]["controls.parquet"].is_string());
    assert_eq!(manifest["counters"]["sums_wrong"], 0);
    sent_as_mapped(folder, &pieces);
}

/// Compares the sending times with the original schedule, mapped by the changes.
fn sent_as_mapped(folder: &Path, pieces: &[(i64, f64, f64)]) {
    assert!(pktgen(folder, &["trace", "synth", "x.toml", "-o", "t.parquet"]).status.success());
    let due = |schedule: i64| {
        let (run, from, speed) = pieces.iter().rev().find(|(_, from, _)| *from <= schedule as f64).expect("a piece");
        *run as f64 + (schedule as f64 - from) / speed
    };
    let sent = query(folder, "SELECT worker, seq, t_gen_ps, t_due_ps, t_sent_ps FROM sent ORDER BY t_due_ps");
    assert!(sent.len() > 100, "{} frames", sent.len());
    let number = |row: &Value, name: &str| row[name].as_i64().unwrap_or_else(|| panic!("{name}: {row}"));
    let schedule = scheduled(&folder.join("t.parquet"));
    for row in &sent {
        let scheduled = schedule[&(number(row, "worker"), number(row, "seq"))];
        let [made, due_at, left] = ["t_gen_ps", "t_due_ps", "t_sent_ps"].map(|name| number(row, name));
        assert!((due(scheduled) - due_at as f64).abs() < 16.0, "{scheduled} is due at {}, and {row}", due(scheduled));
        assert!(made == due_at && left >= due_at, "{row}");
        assert!(!(pieces[2].0..pieces[3].0).contains(&due_at), "nothing is due in a pause: {row}");
    }
    // Packets carry the same generation times.
    let wrong = query(
        folder,
        "SELECT count(*) AS n FROM received r JOIN sent s ON r.newest_worker = s.worker AND r.newest_seq = s.seq \
         WHERE r.newest_gen_ps <> s.t_gen_ps",
    );
    assert_eq!(wrong[0]["n"], 0);
    assert!(number(&query(folder, "SELECT count(*) AS n FROM received")[0], "n") > 50);
}

/// Returns the generation times of a trace by worker and number.
fn scheduled(path: &Path) -> HashMap<(i64, i64), i64> {
    let mut reader = Reader::open(path).expect("a trace");
    let mut found = HashMap::new();
    while let Some(block) = reader.next_block().expect("whole") {
        found.extend(block.updates.iter().map(|it| ((i64::from(it.worker), i64::from(it.seq)), it.t_gen)));
    }
    found
}

#[test]
fn a_cap_holds_workers_that_react() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("x.toml"), TRAINING).expect("writable");
    let run = Run::start(folder, &["--hold"]);
    let mut client = Client::await_run(folder);
    let state = client.ask("status", json!({}))["state"].clone();
    assert!(state["speed"].is_null() && state["pps"].is_null(), "{state}");
    let refused = client.ask("rate", json!({ "factor": 2.0 }));
    assert!(refused["error"].as_str().unwrap().contains("no cap yet"), "{refused}");
    client.change("rate", json!({ "pps": 500.0 }));
    let slow = client.change("start", json!({}));
    // Long enough for some frames on a host that pauses.
    client.await_time(slow + 1000 * MS);
    let paused = client.change("pause", json!({}));
    client.await_time(paused + 200 * MS);
    let resumed = client.change("resume", json!({}));
    client.await_time(resumed + 1000 * MS);
    client.change("stop", json!({}));
    assert_eq!(run.end().status.code(), Some(1));
    let left = |from: i64, to: i64| {
        let sql = format!("SELECT count(*) AS n FROM sent WHERE t_sent_ps >= {from} AND t_sent_ps < {to}");
        query(folder, &sql)[0]["n"].as_i64().expect("a count")
    };
    // The maximum that a cap of 500/s permits, plus the credit of a thread that checks at intervals.
    let (capped, most) = (left(slow, paused), (paused - slow) / (2 * MS) + 2);
    assert!(capped > 0 && capped <= most, "{capped} frames of {most} at most");
    assert_eq!((left(0, slow), left(paused, resumed)), (0, 0));
    assert!(left(resumed, i64::MAX) > 0);
}

#[test]
fn no_client_harms_a_run() {
    let folder = folder(600);
    let folder = folder.path();
    let run = Run::start(folder, &[]);
    let mut client = Client::await_run(folder);
    let huge = format!("{{\"v\":1,\"cmd\":\"{}\"}}\n", "x".repeat(5000));
    for (text, word, stays) in [
        ("no JSON\n", "no request", true),
        ("[1,5,\"pause\"]\n", "expected an object", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"rate\",\"args\":[5,null]}\n", "expected an object", true),
        ("{\"v\":2,\"id\":5,\"cmd\":\"pause\"}\n", "version 2", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"dance\"}\n", "\"dance\" is not known", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"rate\"}\n", "args.pps", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"pause\",\"args\":{\"pps\":5}}\n", "no args", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"rate\",\"args\":{\"pps\":-5}}\n", "above 0", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"rate\",\"args\":{\"pps\":5,\"bps\":1}}\n", "unknown field", true),
        ("{\"v\":1,\"id\":5,\"cmd\":\"rate\",\"args\":{\"pps\":1e300}}\n", "up to", true),
        (&huge, "at most 4096 bytes", false),
    ] {
        let reply = client.say(text).expect("a reply");
        assert!(reply["ok"] == false && reply["error"].as_str().unwrap().contains(word), "{text:.60}: {reply}");
        if !stays {
            assert_eq!(client.line(), None, "the connection is closed");
            client = Client::connect(folder).expect("another one");
        }
    }
    // One client that begins a request, one that never reads, and as many as there is room for.
    let mut open = Client::connect(folder).expect("room");
    open.0.get_mut().write_all(b"{\"v\":1,").expect("taken");
    let mut deaf = Client::connect(folder).expect("room");
    assert_eq!(deaf.ask("events", json!({}))["ok"], true);
    let crowd: Vec<_> = (0..30).filter_map(|_| Client::connect(folder)).collect();
    crowd.iter().for_each(|client| client.0.get_ref().set_nonblocking(true).expect("a socket"));
    let mut refused = vec![String::new(); crowd.len()];
    eventually("clients for whom there is no room", || {
        for (client, said) in crowd.iter().zip(&mut refused) {
            let _ = client.0.get_ref().read_to_string(said);
        }
        refused.iter().filter(|said| said.contains("clients are connected")).count() > 10
    });
    drop(crowd);
    // Clients of events that are gone give their places back, though there is no event.
    drop((open, deaf));
    let told =
        |client: &mut Client| client.say("{\"v\":1,\"cmd\":\"events\"}\n").is_some_and(|reply| reply["ok"] == true);
    let mut gone: Vec<Client> = Vec::new();
    eventually("fifteen clients of events", || {
        gone.extend(Client::connect(folder).into_iter().filter_map(|mut client| told(&mut client).then_some(client)));
        gone.len() == 15
    });
    drop(gone);
    eventually("room for another", || Client::connect(folder).is_some_and(|mut client| told(&mut client)));
    for i in 0..300 {
        client.ask("rate", json!({ "factor": if i % 2 == 0 { 1.25 } else { 0.8 } }));
    }
    client.change("stop", json!({}));
    let output = run.end();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let manifest = manifest(folder);
    let faults = manifest["validity"]["faults"].as_array().expect("a list");
    assert!(faults.len() == 1 && faults[0]["code"] == "interrupted", "{faults:?}");
    assert_eq!((&manifest["balance"]["unknown"], &manifest["balance"]["in_flight"]), (&json!(0), &json!(0)));
}

#[test]
fn a_client_of_events_ends_when_its_reader_is_gone() {
    let folder = folder(600);
    let folder = folder.path();
    let run = Run::start(folder, &["--hold"]);
    let mut client = Client::await_run(folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(["--json", "control", "c.sock", "events"]).stdout(Stdio::piped());
    let mut listening = command.spawn().expect("the binary runs");
    let mut reader = BufReader::new(listening.stdout.take().expect("a pipe"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("the reply");
    drop(reader);
    assert!(line.contains("control_reply"), "{line}");
    client.change("start", json!({}));
    client.change("pause", json!({}));
    // The run goes on: only the closed pipe can end the client.
    let ended = happens(|| listening.try_wait().expect("a child").is_some());
    let _ = listening.kill();
    let status = listening.wait().expect("it ends");
    assert!(ended, "hang guard: the client did not end");
    assert_eq!(status.code(), Some(0));
    client.change("stop", json!({}));
    assert_eq!(run.end().status.code(), Some(1));
}

#[test]
fn a_shell_steers_by_the_run_dir_and_a_steered_run_has_no_partner() {
    let folder = folder(8);
    let folder = folder.path();
    let alone = pktgen(folder, &["replay", "x.toml", "--no-report", "--out", "alone"]);
    assert_eq!(alone.status.code(), Some(0));
    let run = Run::start(folder, &["--hold"]);
    let control = |words: &[&str]| pktgen(folder, &[&["control", "out"], words].concat());
    eventually("a run that is steered", || text(&control(&["status"]).stdout).contains("held true"));
    let mut events = Client::connect(folder).expect("room");
    assert_eq!(events.ask("events", json!({}))["ok"], true);
    assert!(text(&control(&["start"]).stdout).starts_with("in force from "));
    let event = events.line().expect("an event");
    assert_eq!((&event["event"], &event["state"]["held"]), (&json!("change"), &json!(false)));
    assert_eq!(control(&["factor", "1e12"]).status.code(), Some(1));
    assert_eq!(control(&["rate", "0"]).status.code(), Some(2));
    assert_eq!(control(&["factor", "4"]).status.code(), Some(0));
    assert_eq!(run.end().status.code(), Some(0));
    let gone = control(&["status"]);
    assert!(gone.status.code() == Some(2) && text(&gone.stderr).contains("no run dir of a run in progress"));
    let output = pktgen(folder, &["report", "out", "--baseline", "alone"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("all runs of out were steered while they lasted"), "{said}");
    let report = pktgen(folder, &["report", "out", "-o", "r.md"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = fs::read_to_string(folder.join("r.md")).expect("a report");
    for said in [text(&report.stdout), page] {
        assert!(said.contains("Caution, 1 of 1 runs: it was steered while it lasted"), "{said}");
    }
    assert_eq!(pktgen(folder, &["report", "out", "--history", "h.jsonl"]).status.code(), Some(0));
    let history = pktgen(folder, &["history", "h.jsonl"]);
    let said = text(&history.stdout) + &text(&history.stderr);
    assert!(said.contains("1 entry of steered runs is left out") && said.contains("no series"), "{said}");
}

/// A run dir of a run in progress, with the socket that its manifest names.
fn noted_run(folder: &Path, name: &str) -> UnixListener {
    let dir = folder.join(name);
    fs::create_dir_all(&dir).expect("a folder");
    let socket = dir.join("s");
    let manifest = json!({ "state": "running", "host": { "control.socket": socket.display().to_string() } });
    fs::write(dir.join("manifest.json"), manifest.to_string()).expect("writable");
    UnixListener::bind(&socket).expect("a socket")
}

#[test]
fn a_folder_names_the_only_run_in_progress_below_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let [first, second] = ["all/a", "all/b"].map(|name| noted_run(folder, name));
    let status = || pktgen(folder, &["control", "all", "status"]);
    let several = status();
    let said = text(&several.stderr);
    assert!(
        several.status.code() == Some(2) && said.contains("2 runs are in progress there; name one, as all/a"),
        "{said}"
    );
    // The socket of a killed run stays, and nothing listens there.
    drop(first);
    for name in ["all/c", "all/d"] {
        drop(noted_run(folder, name));
    }
    std::thread::spawn(move || {
        for stream in second.incoming() {
            let mut stream = BufReader::new(stream.expect("a client"));
            let mut line = String::new();
            if stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                let _ = writeln!(stream.get_mut(), "{}", json!({ "ok": true, "state": { "held": true } }));
            }
        }
    });
    let one = status();
    assert!(one.status.success() && text(&one.stdout).contains("held true"), "{}", text(&one.stderr));
    fs::remove_dir_all(folder.join("all/b")).expect("it is there");
    let none = status();
    let said = text(&none.stderr);
    assert!(none.status.code() == Some(2) && said.contains("no run dir of a run in progress"), "{said}");
}
