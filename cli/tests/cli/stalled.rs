//! Senders that cannot send: a wire that takes no frames ends a run with exit code 3, reports the attempts and the interface's counters,
//! and leaves records of the frames that the kernel took; slow wires and paused processes are not reported. Interfaces are veth pairs in a
//! namespace that each test makes and removes; if that is not permitted, it prints SKIPPED and the reason.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::loopback::addresses;
use crate::support::netns::Net;
use pktgen_testing::{HANG, Need, happens, skip};
use serde_json::Value;
use tempfile::TempDir;

/// 18 workers in 3 clusters send for about `updates` ms.
fn folder(updates: u32, more: &str) -> TempDir {
    let text = format!(
        "name = \"stalled\"\n[workload]\nclusters = 3\nworkers_per_cluster = 6\nupdates = {updates}\nbytes = \"256B\"\n\
         [schedule]\nkind = \"poisson\"\noffered = \"36.9Mbps\"\n[topology]\nrate = \"100Mbps\"\n[target]\nprogram = \"olaf\"\n\
         queue = \"olaf\"\n[transport]\nkind = \"af_packet\"\ninterfaces = [\"h0\", \"d0\", \"d1\", \"s0\"]\n{more}"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), text).expect("writable");
    folder
}

/// Returns two cables, the workers' and the server's; none, with a message, if namespaces cannot be made.
fn net(tag: &str) -> Option<Net> {
    let cables = [(("x", "h0"), ("x", "d0")), (("x", "d1"), ("x", "s0"))];
    Net::make(&format!("senders-{tag}"), &["x"], &cables)
        .map_err(|why| skip(Need::Netns, &format!("senders that stall, {tag}"), why))
        .ok()
}

/// The hang guard in seconds.
fn guard() -> String {
    HANG.as_secs().to_string()
}

/// A replay in `folder`, in the namespace if there is one; one that does not end is ended by the hang guard.
fn replay(net: Option<&Net>, folder: &Path, args: &[&str]) -> Command {
    let inside = net.map_or(Vec::new(), |net| net.inside("x"));
    let bounded = ["timeout", "-k", "5", &guard(), env!("CARGO_BIN_EXE_pktgen")].map(str::to_owned);
    let mut words = inside.iter().chain(&bounded);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).args(["replay", "x.toml", "--out", "out"]).args(args).current_dir(folder);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("out/manifest.json")).expect("a manifest")).expect("JSON")
}

fn codes(manifest: &Value) -> Vec<&str> {
    let faults = manifest["validity"]["faults"].as_array().expect("faults");
    faults.iter().filter_map(|fault| fault["code"].as_str()).collect()
}

/// Returns the counters of the interface of an end.
fn counted<'a>(manifest: &'a Value, end: &str) -> &'a Value {
    let all = manifest["interfaces"].as_array().expect("interfaces");
    all.iter().find(|counts| counts["end"] == end).unwrap_or_else(|| panic!("{end}: {}", manifest["interfaces"]))
}

/// Checks for exit code 3 and these words.
fn refused(output: &Output, words: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
}

/// To the run, which is the child of `timeout`, which `ip netns exec` became.
fn signal(child: &Child, name: &str) {
    let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("its children");
    let own = list.split_whitespace().next().expect("a child");
    assert!(Command::new("kill").args([name, own]).status().expect("kill runs").success());
}

/// Starts a run and waits until frames have left h0 in its middle.
fn midway(net: &Net, folder: &Path, args: &[&str]) -> Child {
    let before = net.sent("x", "h0");
    let mut child = replay(Some(net), folder, args).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let left = happens(|| net.sent("x", "h0") > before + 2000);
    if !left {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(left, "hang guard: nothing left h0");
    child
}

#[test]
fn a_peer_that_takes_no_frames_of_this_size_ends_the_run() {
    let Some(net) = net("mtu") else { return };
    net.set_mtu("x", "d0", "200");
    for workers in ["open_loop", "transmission_control"] {
        let folder = folder(3000, &format!("[endpoint]\nworkers = \"{workers}\"\n"));
        let output = replay(Some(&net), folder.path(), &["--role", "workers"]).output().expect("it runs");
        let words =
            ["h0 takes no frames: ", "refused in ", "h0 counted 0 packets sent", "state up", "MTU 242 at least", "out"];
        refused(&output, &words);
        let manifest = manifest(folder.path());
        assert_eq!((&manifest["state"], codes(&manifest)), (&"finished".into(), vec!["role_failed"]), "{workers}");
        let own = counted(&manifest, "workers");
        assert_eq!((&own["sent"], &own["tx_packets"], &own["interface"]), (&0.into(), &0.into(), &"h0".into()));
        assert!(own["tx_dropped"].as_u64() >= Some(20), "{own}");
    }
    // A whole run sees both ends before it begins.
    let folder = folder(3000, "");
    let output = replay(Some(&net), folder.path(), &["--no-report"]).output().expect("it runs");
    assert!(output.status.code() == Some(3) && said(&output).contains("ip link set d0 mtu"), "{}", said(&output));
}

#[test]
fn a_cable_pulled_in_the_middle_ends_the_run_and_the_records_say_what_left() {
    let Some(net) = net("pull") else { return };
    for (args, workers) in [(&["--no-report"][..], "open_loop"), (&["--role", "workers"], "transmission_control")] {
        let folder = folder(20_000, &format!("[endpoint]\nworkers = \"{workers}\"\n"));
        let child = midway(&net, folder.path(), args);
        net.set_state("x", "d0", "down");
        let output = child.wait_with_output().expect("it ends");
        net.set_state("x", "d0", "up");
        refused(&output, &["carrier changes", "the records up to then: out"]);
        let manifest = manifest(folder.path());
        assert!(codes(&manifest).contains(&"role_failed"), "{}", manifest["validity"]);
        let own = counted(&manifest, "workers");
        assert_eq!((&own["sent"], &own["state"]), (&own["tx_packets"], &"lowerlayerdown".into()), "{own}");
        let analyze = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
            command.current_dir(folder.path()).args(["analyze", "out", "--json"]).args(args).output().expect("it runs")
        };
        if workers == "open_loop" {
            // Exactly the frames that the kernel took.
            assert_eq!(manifest["balance"]["sent"], own["tx_packets"], "{}", manifest["balance"]);
            let output = analyze(&[]);
            let lines = String::from_utf8_lossy(&output.stdout).into_owned();
            let sent =
                lines.lines().find(|line| line.contains("\"metric\":\"sent\"")).expect("a count of what was sent");
            let sent: Value = serde_json::from_str(sent).expect("JSON");
            assert_eq!(sent["value"].as_f64(), own["tx_packets"].as_f64(), "{sent}");
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        } else {
            assert!(said(&analyze(&[])).contains("join the parts"));
        }
    }
}

/// Senders that bypass the kernel's queues: the interface's counters agree with the records.
#[test]
fn a_cable_pulled_ends_senders_by_af_xdp_and_live_frames() {
    let Some(net) = net("xdp") else { return };
    // The other end of a cable takes live frames where it has GRO.
    let inside = net.inside("x");
    let gro = Command::new(&inside[0]).args(&inside[1..]).args(["ethtool", "-K", "d0", "gro", "on"]).output();
    if !gro.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(Need::Ethtool, "a cable pulled from af_xdp and xdp_live", format!("{gro:?}"));
    }
    for kind in ["af_xdp", "xdp_live"] {
        let set = format!("transport.kind={kind}");
        let sender = ["--role", "workers", "--set", &set];
        let short = folder(1, "");
        let output = replay(Some(&net), short.path(), &sender).output().expect("it runs");
        if output.status.code() == Some(3) && said(&output).contains("this host cannot") {
            skip(Need::Xdp, &format!("a cable pulled from {kind}"), said(&output));
            continue;
        }
        let folder = folder(20_000, "");
        let child = midway(&net, folder.path(), &sender);
        net.set_state("x", "d0", "down");
        let output = child.wait_with_output().expect("it ends");
        net.set_state("x", "d0", "up");
        refused(&output, &["h0", "the records up to then: out"]);
        let manifest = manifest(folder.path());
        assert!(codes(&manifest).contains(&"role_failed"), "{kind}: {}", manifest["validity"]);
        let own = counted(&manifest, "workers");
        assert_eq!(own["state"], "lowerlayerdown", "{kind}: {own}");
        // It is unknown whether a frame in the ring has left: the records have the frames handed over, and the note has both counts.
        let number = |name: &str| own[name].as_u64().expect("a count");
        assert!(number("sent") >= number("tx_packets") && number("tx_dropped") > 0, "{kind}: {own}");
        let notes = manifest["validity"]["notes"].to_string();
        assert!(notes.contains("interface_disagrees") && notes.contains("handed over"), "{kind}: {notes}");
    }
}

#[test]
fn an_interrupt_while_nothing_leaves_ends_the_run_with_its_records() {
    let Some(net) = net("int") else { return };
    let folder = folder(20_000, "");
    let child = midway(&net, folder.path(), &["--no-report"]);
    net.set_state("x", "d0", "down");
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("it ends");
    net.set_state("x", "d0", "up");
    // Which of the two is seen first is random.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}", said(&output));
    let manifest = manifest(folder.path());
    let codes = codes(&manifest);
    assert!(codes.contains(&"interrupted") || codes.contains(&"role_failed"), "{}", manifest["validity"]);
    let own = counted(&manifest, "workers");
    assert_eq!((&manifest["balance"]["sent"], &own["sent"]), (&own["tx_packets"], &own["tx_packets"]), "{own}");
}

#[test]
fn an_interface_that_goes_down_or_has_no_carrier_is_named() {
    let Some(net) = net("down") else { return };
    let long = folder(20_000, "");
    let child = midway(&net, long.path(), &["--role", "workers"]);
    net.set_state("x", "h0", "down");
    refused(&child.wait_with_output().expect("it ends"), &["h0", "Network is down", "state down"]);
    assert!(codes(&manifest(long.path())).contains(&"role_failed"));
    net.set_state("x", "h0", "up");
    net.set_state("x", "d0", "down");
    let folder = folder(300, "");
    let output = replay(Some(&net), folder.path(), &["--role", "workers"]).output().expect("it runs");
    refused(&output, &["cannot send on h0: it has no carrier"]);
    assert!(!folder.path().join("out/manifest.json").exists(), "nothing began");
}

#[test]
fn datagrams_to_a_port_where_nothing_receives_end_the_run() {
    // Far more than leaves in two seconds as fast as possible, several in one message too.
    let folder = folder(5_000_000, "");
    let addresses = addresses(4);
    for (out, pacing, segmented) in [("paced", "deadlines", false), ("top", "top", false), ("segmented", "top", true)] {
        let (pacing, segmented) = (format!("transport.pacing={pacing}"), format!("transport.segmented={segmented}"));
        let set = ["transport.kind=udp", &addresses, &pacing, &segmented].map(|set| ["--set", set]).concat();
        let args = [&["--role", "workers", "--out", out], &set[..]].concat();
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &guard(), env!("CARGO_BIN_EXE_pktgen"), "replay", "x.toml"]).args(args);
        let output = command.current_dir(folder.path()).output().expect("it runs");
        refused(&output, &["takes no frames: its host refused them", "start the part that does first", out]);
    }
}

/// A wire that takes a frame every two seconds is slow, but not stalled.
#[test]
fn a_slow_wire_is_no_stalled_one() {
    let folder = folder(1, "");
    let set = [
        "transport.kind=udp",
        "workload.clusters=1",
        "workload.workers_per_cluster=3",
        "transport.limit=1kbps",
        "transport.limit_burst=300B",
    ];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let output = replay(None, folder.path(), &[&["--no-report"][..], &set].concat()).output().expect("it runs");
    assert!(output.status.success() && !said(&output).contains("takes no frames"), "{}", said(&output));
}

/// Processes that occupy all cores, which end when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Load {
        let busy = || {
            Command::new("timeout").args([&guard(), "bash", "-c", "while :; do :; done"]).spawn().expect("bash runs")
        };
        Load((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // To `timeout`, which passes it on.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_process_that_was_stopped_for_three_seconds_is_not_accused() {
    let Some(net) = net("stop") else { return };
    let folder = folder(4000, "");
    let _load = Load::start(2);
    let child = midway(&net, folder.path(), &["--no-report"]);
    signal(&child, "-STOP");
    std::thread::sleep(Duration::from_secs(3));
    signal(&child, "-CONT");
    let output = child.wait_with_output().expect("it ends");
    let (said, manifest) = (said(&output), manifest(folder.path()));
    assert!(!said.contains("takes no frames") && matches!(output.status.code(), Some(0 | 1)), "{said}");
    assert!(
        !codes(&manifest).contains(&"role_failed") && manifest["balance"]["sent"] == 72_000,
        "{}",
        manifest["validity"]
    );
    let own = counted(&manifest, "workers");
    assert_eq!((&own["sent"], &own["tx_dropped"], &own["state"]), (&72_000.into(), &0.into(), &"up".into()), "{own}");
}

#[test]
fn a_part_says_in_a_line_what_it_sent_and_that_no_answer_came() {
    let Some(net) = net("line") else { return };
    let folder = folder(300, "[endpoint]\nworkers = \"transmission_control\"\n");
    let output = replay(Some(&net), folder.path(), &["--role", "workers"]).output().expect("it runs");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.starts_with("workers: sent ")).expect("a line of the workers");
    for word in ["received 0; ", " updates sent, ", " packets/s, ", "late by "] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(text.contains("\nno answer came: "), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "out");
}
