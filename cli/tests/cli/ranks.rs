//! One run from several processes under a launcher: senders with a share each, a device, a parameter server. The joined
//! run equals that of one process; senders begin together; a killed sender is named, and the whole run stays readable.
//! Tests that need interfaces run under mpirun in network namespaces that they make, with two senders on one bridge; if
//! that is not permitted, they print SKIPPED and the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::loopback::addresses;
use crate::support::netns::Net;
use crate::support::pktgen;
use crate::support::serving::Serving;
use crate::support::wired::is_whole;
use pktgen_records::run::RunData;
use pktgen_testing::{Need, eventually, skip, undisturbed};
use serde_json::Value;

/// A device that only forwards, with room for all updates: all sent frames arrive.
const EXPERIMENT: &str = r#"
name = "ranks"
[workload]
clusters = 3
workers_per_cluster = 3
updates = 800
bytes = "256B"
[schedule]
kind = "constant"
jitter = 0.3
offered = "16.384Mbps"
[topology]
kind = "bottleneck"
rate = "1Gbps"
[target]
program = "forward"
queue = "fifo"
slots = 4096
[transport]
wait = "block"
"#;
const SENT: u64 = 9 * 800;
/// Interface names of the ranks in their namespaces.
const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";
/// Maximum difference between the starts of two senders on two cores.
const SKEW_MAX_NS: u64 = 200_000;

fn script(name: &str) -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/ranks").join(name)).expect("the script")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), EXPERIMENT).expect("a file");
    folder
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("manifest.json")).expect("a manifest")).expect("JSON")
}

/// Returns the sent rows without departure times, in a common order.
fn sent(dir: &Path) -> Vec<(i64, u32, u32, u16, u8)> {
    let sent = RunData::open(dir).expect("a run").records.expect("all records").whole().expect("readable").sent.clone();
    let rows =
        (0..sent.seq.len()).map(|i| (sent.t_gen_ps[i], sent.worker[i], sent.seq[i], sent.cluster[i], sent.attempt[i]));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}

/// Makes the same run by one process in virtual time.
fn alone(dir: &Path) -> PathBuf {
    let out = dir.join("alone");
    let words = ["-q", "replay", "x.toml", "--no-report", "--set", "transport.kind=virtual", "--out", "alone"];
    let output = pktgen(dir, &words);
    assert!(output.status.success(), "{}", said(&output));
    out
}

/// Asserts that the whole run is sound and equals that of one process.
fn same(whole: &Path, alone: &Path) {
    let (whole_run, alone_run) = (manifest(whole), manifest(alone));
    assert_eq!(whole_run["validity"]["valid"], true, "{}", whole_run["validity"]);
    assert_eq!(whole_run["balance"], alone_run["balance"]);
    assert_eq!(whole_run["balance_by_worker"], alone_run["balance_by_worker"]);
    assert_eq!((&whole_run["balance"]["delivered_alone"], &whole_run["balance"]["unknown"]), (&SENT.into(), &0.into()));
    assert_eq!(
        (&whole_run["counters"]["sums_ok"], &whole_run["counters"]["packets_received"]),
        (&SENT.into(), &SENT.into())
    );
    assert!(whole_run.get("part").is_none() && whole_run.get("rank").is_none(), "a whole run");
    assert_eq!(sent(whole), sent(alone));
}

/// Makes namespaces 0 and 1 with a sender each, 2 with the server, 3 with the device; senders and device are on a bridge.
fn net(tag: &str) -> Result<Net, String> {
    let cables = [
        (("0", "w0"), ("b", "b0")),
        (("1", "w0"), ("b", "b1")),
        (("3", "d0"), ("b", "bd")),
        (("3", "d1"), ("2", "s0")),
    ];
    let net = Net::make(tag, &["0", "1", "2", "3", "b"], &cables)?;
    net.bridge("b", "switch0", &["b0", "b1", "bd"])?;
    Ok(net)
}

/// Starts `ranks` processes under mpirun, each in the namespace of its number.
fn mpirun(net: &Net, dir: &Path, ranks: u32, out: &str, flags: &[&str]) -> Child {
    let within = net.inside("%r").join(" ");
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]).arg(script("rank"));
    command.args([out, "x.toml", "--set", "transport.kind=af_packet", "--set", FOUR]).args(flags);
    command.env("WITHIN", within).env("PKTGEN", env!("CARGO_BIN_EXE_pktgen")).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts")
}

/// Returns the namespaces; none, and a line with the reason, where ranks cannot have namespaces.
fn ready(tag: &str) -> Option<Net> {
    const WHAT: &str = "ranks in namespaces";
    if let Err(error) = Command::new("mpirun").arg("--version").output() {
        skip(Need::Mpirun, WHAT, error);
        return None;
    }
    net(tag).map_err(|why| skip(Need::Netns, WHAT, why)).ok()
}

fn skew_ns(whole: &Path) -> u64 {
    let host = &manifest(whole)["host"];
    assert_eq!(host["skew.uncertainty_ns"], "0", "one clock");
    host["skew.start_ns"].as_str().expect("a skew").parse().expect("a number")
}

#[test]
fn two_senders_and_a_server_under_mpirun_are_one_run() {
    let Some(net) = ready("ranks") else { return };
    let folder = folder();
    let dir = folder.path();
    let alone = alone(dir);
    // Other load on the host at the very start affects the skew, not the run.
    undisturbed("ranks that begin at one instant", |number| {
        let (device, out, whole) = (format!("device-{number}"), format!("job-{number}"), format!("whole-{number}"));
        let mut target = Command::new(&net.inside("3")[0]);
        target.args(&net.inside("3")[1..]).arg(env!("CARGO_BIN_EXE_pktgen")).current_dir(dir);
        target.args(["target", "x.toml", "--out", &device, "--idle", "3s", "--for", "300s", "--set", FOUR]);
        let target = Serving::start(
            {
                target.args(["--set", "transport.kind=af_packet"]);
                target
            },
            "target",
        );
        let output = mpirun(&net, dir, 3, &out, &[]).wait_with_output().expect("it ends");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
        let ended = (output.status.code(), target.end());
        let parts = [2, 0, 1].map(|rank| format!("{out}/rank-{rank}"));
        let output = pktgen(dir, &["merge", &parts[0], &device, &parts[1], &parts[2], "-o", &whole]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
        if !is_whole(&manifest(&dir.join(&whole))) {
            return None;
        }
        assert_eq!((ended, output.status.code()), ((Some(0), 0), Some(0)), "{}", said(&output));
        assert!(said(&output).contains("senders began"), "{}", said(&output));
        same(&dir.join(&whole), &alone);
        begins_with_a_full_second(&dir.join(&out));
        (skew_ns(&dir.join(&whole)) < SKEW_MAX_NS).then_some(())
    });
    missing_shares_are_named(dir);
}

fn begins_with_a_full_second(out: &Path) {
    let ranks = [0, 1, 2].map(|rank| manifest(&out.join(format!("rank-{rank}"))));
    let anchors = ranks.each_ref().map(|rank| rank["anchor_unix_ns"].as_u64().expect("a time"));
    assert!(
        anchors[0] > 0 && anchors[0] % 1_000_000_000 == 0 && anchors.iter().all(|a| *a == anchors[0]),
        "{anchors:?}"
    );
    let roles = ranks.each_ref().map(|rank| rank["host"]["rank.role"].as_str().expect("a role").to_owned());
    assert_eq!(roles, ["workers 1/2", "workers 2/2", "server"]);
    for rank in &ranks[..2] {
        assert_eq!(rank["rank"]["share"].as_str().map(str::len), Some(3));
        assert!(
            rank["host"]["start.first_late_ns"].as_str().is_some_and(|ns| ns.parse::<u64>().is_ok()),
            "{}",
            rank["host"]
        );
        assert_eq!(rank["host"]["start.planned_unix_ns"], rank["anchor_unix_ns"].to_string());
    }
    // Half of the workers each, five and four of nine.
    let sent = |rank: &Value| rank["host"]["frames.workers"].as_str().expect("frames").to_owned();
    assert!(
        sent(&ranks[0]).starts_with("sent 4000,") && sent(&ranks[1]).starts_with("sent 3200,"),
        "{}",
        sent(&ranks[0])
    );
}

fn missing_shares_are_named(dir: &Path) {
    let refused = |parts: &[&str], expected: &str| {
        let output = pktgen(dir, &[&["merge"], parts, &["-o", "refused"]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{expected}: {}", said(&output));
        assert!(!dir.join("refused").exists());
    };
    let (one, two, server) = ("job-0/rank-0", "job-0/rank-1", "job-0/rank-2");
    refused(&[one, "device-0", server], "share 2/2 of the workers is missing");
    refused(&[one, two, one, "device-0", server], "are both the workers part, share 1/2");
    refused(&[one, two, server], "the device part is missing");
    refused(&[one, two, "device-0"], "the server part is missing");
}

#[test]
fn a_sender_that_is_killed_is_named_and_the_whole_stays_readable() {
    let Some(net) = ready("killed") else { return };
    let folder = folder();
    let dir = folder.path();
    let roles = ["--roles", "workers,workers,server,device", "--merge"];
    // First without a kill: all four are ranks, and the first joins them.
    let output = mpirun(&net, dir, 4, "sound", &roles).wait_with_output().expect("it ends");
    assert!(output.status.success() && said(&output).contains("senders began"), "{}", said(&output));
    same(&dir.join("sound/whole"), &alone(dir));
    // The folder is in use now.
    let output = mpirun(&net, dir, 4, "sound", &roles).wait_with_output().expect("it ends");
    assert!(!output.status.success() && said(&output).contains("the folder is not empty"), "{}", said(&output));
    let longer = [&roles[..], &["--set", "workload.updates=8000"]].concat();
    let job = mpirun(&net, dir, 4, "job", &longer);
    let rank = dir.join("job/rank-1");
    // Two batches of rows are on disk, and more will follow.
    let written = || fs::metadata(rank.join("sent.arrows")).map_or(0, |file| file.len());
    eventually("two batches of what was sent", || written() > 2 * 4096 * 40);
    let begun = manifest(&rank);
    assert_eq!(begun["state"], "running", "it is under way");
    let pid = begun["rank"]["pid"].as_u64().expect("a process").to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().expect("kill runs").success());
    let output = job.wait_with_output().expect("it ends");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let whole = manifest(&dir.join("job/whole"));
    let reasons = whole["validity"].to_string();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = format!("rank 1 (workers 2/2 on {}): the run was killed", host.trim());
    assert!(whole["validity"]["valid"] == false && reasons.contains(&name) && told.contains(&name), "{reasons} {told}");
    assert_eq!(whole["state"], "interrupted");
    assert_eq!(manifest(&rank)["state"], "running", "it stays as it is");
    assert!(!dir.join("job/whole.recovering-1").exists());
    // All rows of the other sender are there, and those of this one that reached the disk.
    let rows = sent(&dir.join("job/whole"));
    let of = |share: u32| rows.iter().filter(|row| row.1 % 2 == share).count();
    assert_eq!(of(0), 5 * 8000);
    assert!((2 * 4096..4 * 8000).contains(&of(1)) && of(1) % 4096 == 0, "{}", of(1));
    for words in [&["analyze", "job/whole", "--json"][..], &["report", "job/whole"]] {
        let output = pktgen(dir, words);
        assert!(output.status.code() <= Some(1) && output.status.code().is_some(), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("rank 1"), "{words:?}: {}", said(&output));
    }
    let listed = said(&pktgen(dir, &["analyze", "job/whole", "--wrong", "--json", "--most", "0"]));
    assert!(listed.contains("\"unproven\":true"), "{listed}");
}

/// Starts a rank as Slurm does, by the wrapper.
fn slurm(dir: &Path, rank: u32, of: u32, out: &str, flags: &[&str]) -> Child {
    let mut command = Command::new(script("rank"));
    command.args([out, "x.toml", "--set", "transport.kind=udp"]).args(flags).current_dir(dir);
    command.env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", of.to_string()).env("SLURM_JOB_ID", "7");
    command.env("PKTGEN", env!("CARGO_BIN_EXE_pktgen")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the script starts")
}

fn ends(ranks: Vec<Child>) -> Vec<(Option<i32>, String)> {
    let outputs = ranks.into_iter().map(|rank| rank.wait_with_output().expect("it ends"));
    outputs.map(|output| (output.status.code(), said(&output))).collect()
}

/// Waits for the ranks of a job, of which these run dirs are left; none if the machine disturbed one.
fn all_end(ranks: Vec<Child>, dir: &Path, left: &[&str]) -> Option<()> {
    let ended = ends(ranks);
    assert!(ended.iter().all(|(code, _)| matches!(code, Some(0 | 1))), "{ended:?}");
    let whole = left.iter().all(|run| is_whole(&manifest(&dir.join(run))));
    assert!(!whole || ended.iter().all(|(code, _)| *code == Some(0)), "{ended:?}");
    whole.then_some(())
}

/// Makes a run of three ranks on the loopback interface, of which `stopped` gets SIGTERM while the workers send.
fn stopped(dir: &Path, out: &str, stopped: u32) -> Vec<(Option<i32>, String)> {
    let addresses = addresses(4);
    let flags = ["--roles", "workers,device,server", "--merge", "--set", &addresses, "--set", "workload.updates=4000"];
    let ranks: Vec<_> = (0..3).map(|rank| slurm(dir, rank, 3, out, &flags)).collect();
    let sent = dir.join(out).join("rank-0/sent.arrows");
    eventually("a batch of what was sent", || fs::metadata(&sent).map_or(0, |file| file.len()) > 4096 * 40);
    let begun = manifest(&dir.join(out).join(format!("rank-{stopped}")));
    let pid = begun["rank"]["pid"].as_u64().expect("a process").to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    ends(ranks)
}

#[test]
fn a_first_rank_that_is_stopped_joins_the_parts() {
    let folder = folder();
    let dir = folder.path();
    let ended = stopped(dir, "job", 0);
    assert!(ended[0].0 == Some(1) && !ended[0].1.contains("not ended"), "{ended:?}");
    let whole = manifest(&dir.join("job/whole"));
    assert_eq!((&whole["state"], &whole["validity"]["valid"]), (&"interrupted".into(), &false.into()), "{ended:?}");
    assert!(whole["validity"].to_string().contains("rank 0 (workers 1/1 on "), "{}", whole["validity"]);
}

#[test]
fn a_sender_in_progress_is_steered_by_its_run_dir() {
    undisturbed("a sender that is steered", |_| {
        let folder = folder();
        let dir = folder.path();
        let addresses = addresses(4);
        let flags = ["--roles", "workers,device,server", "--set", &addresses, "--set", "workload.updates=8000"];
        let steered = [&["--control", "c.sock"][..], &flags].concat();
        let of_rank = |rank| if rank == 0 { &steered[..] } else { &flags[..] };
        let ranks: Vec<_> = (0..3).map(|rank| slurm(dir, rank, 3, "job", of_rank(rank))).collect();
        let sent = dir.join("job/rank-0/sent.arrows");
        eventually("a batch of what was sent", || fs::metadata(&sent).map_or(0, |file| file.len()) > 4096 * 40);
        let output = pktgen(dir, &["control", "job/rank-0", "status"]);
        assert!(output.status.success(), "{}", said(&output));
        all_end(ranks, dir, &["job/rank-0", "job/rank-1", "job/rank-2"])
    });
}

#[test]
fn a_server_that_is_stopped_before_the_workers_end_is_named() {
    let folder = folder();
    let dir = folder.path();
    let ended = stopped(dir, "job", 2);
    assert!(ended[2].1.contains("rank 2: exit code 1"), "{ended:?}");
    assert_eq!(manifest(&dir.join("job/rank-2"))["state"], "interrupted", "{ended:?}");
    // Sockets notice that nobody receives any more, so the other ranks may fail before they join the parts.
    let output = pktgen(dir, &["merge", "job/rank-0", "job/rank-1", "job/rank-2", "-o", "joined"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let reasons = manifest(&dir.join("joined"))["validity"].to_string();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let fault = format!("rank 2 (server on {}): the run was interrupted", host.trim());
    assert!(reasons.contains(&fault), "{reasons}");
    assert!(!reasons.contains("transport.linger"), "{reasons}");
}

#[test]
fn ranks_of_slurm_on_the_loopback_interface_begin_at_a_given_instant() {
    let found = undisturbed("ranks of Slurm", |_| {
        let folder = folder();
        let dir = folder.path();
        let at = Command::new("date").args(["-u", "-d", "10 seconds", "+%Y-%m-%dT%H:%M:%S.%NZ"]).output();
        let at = String::from_utf8(at.expect("date runs").stdout).expect("text");
        let addresses = addresses(4);
        let flags = ["--roles", "device,workers,server", "--start-at", at.trim(), "--set", &addresses, "--merge"];
        let ranks: Vec<_> = (0..3).map(|rank| slurm(dir, rank, 3, "job", &flags)).collect();
        all_end(ranks, dir, &["job/whole"]).map(|()| folder)
    });
    let Some(folder) = found else { return };
    let dir = folder.path();
    same(&dir.join("job/whole"), &alone(dir));
    let whole = manifest(&dir.join("job/whole"));
    assert!(whole["host"].get("skew.start_ns").is_none(), "one sender");
    assert_eq!(whole["host"]["rank-1.start.by"], "--start-at");
    assert_eq!(whole["host"]["rank-0.rank.launcher"], "Slurm");
    assert!(
        whole["host"]["rank-1.clock.wall.before"].is_string() && whole["host"]["rank-2.clock.wall.after"].is_string()
    );
    ages_need_clocks_that_somebody_keeps(dir);
}

/// Changes the parts as if worker and server were on different hosts, whose kernels report these clock errors.
fn on_two_hosts(dir: &Path, errors_ns: [Option<&str>; 2]) {
    for (rank, error_ns) in ["job/rank-1", "job/rank-2"].iter().zip(errors_ns) {
        let mut changed = manifest(&dir.join(rank));
        let facts = changed["host"].as_object_mut().expect("facts");
        facts.insert("clock.boot_id".into(), (*rank).into());
        facts.remove("clock.error_ns");
        facts.extend(error_ns.map(|ns| ("clock.error_ns".to_owned(), Value::from(ns))));
        let changed = pktgen_core::record::digest::seal(&changed.to_string());
        fs::write(dir.join(rank).join("manifest.json"), changed).expect("writable");
    }
}

/// Changes the server's part as if its host's clock were so much further behind. It is no rank then: those begin at one instant.
fn server_is_behind(dir: &Path, ms: u64) {
    let mut changed = manifest(&dir.join("job/rank-2"));
    changed.as_object_mut().expect("a manifest").remove("rank");
    changed["anchor_unix_ns"] = (changed["anchor_unix_ns"].as_u64().expect("a time") - ms * 1_000_000).into();
    let changed = pktgen_core::record::digest::seal(&changed.to_string());
    fs::write(dir.join("job/rank-2/manifest.json"), changed).expect("writable");
}

fn ages_need_clocks_that_somebody_keeps(dir: &Path) {
    let joined = |out: &str, flags: &[&str]| {
        let words = [&["merge", "job/rank-0", "job/rank-1", "job/rank-2", "-o", out], flags].concat();
        let output = pktgen(dir, &words);
        assert!(output.status.success(), "{}", said(&output));
        let lines = pktgen(dir, &["analyze", out, "--json"]);
        assert!(lines.status.success(), "{}", said(&lines));
        let wrong = pktgen(dir, &["analyze", out, "--wrong"]);
        assert!(wrong.status.success(), "{}", said(&wrong));
        let reasons = manifest(&dir.join(out))["validity"].to_string();
        (manifest(&dir.join(out))["host"]["clocks.error_ns"].clone(), reasons, said(&lines))
    };
    on_two_hosts(dir, [Some("500"), None]);
    let (error, reasons, lines) = joined("unknown", &[]);
    assert_eq!(error, "unknown");
    assert!(reasons.contains("withheld") && reasons.contains("rank 2 (server on "), "{reasons}");
    assert!(!lines.contains("\"aom_mean\"") && lines.contains("clocks_not_comparable"), "{lines}");
    let (error, reasons, lines) = joined("stated", &["--clock-error", "10us"]);
    assert!(
        error == "10000" && reasons.contains("10.000 us apart at most") && lines.contains("\"aom_mean\""),
        "{reasons}"
    );
    assert!(!lines.contains("clocks_not_comparable"));
    on_two_hosts(dir, [Some("500"), Some("700")]);
    let (error, reasons, lines) = joined("kept", &[]);
    assert!(error == "1200" && reasons.contains("1.200 us apart") && lines.contains("\"aom_mean\""), "{reasons}");
    server_is_behind(dir, 50);
    for (out, flags, bound) in [("drifted", &[][..], "1.200 us"), ("untrue", &["--clock-error", "10us"], "10.000 us")] {
        let (error, reasons, lines) = joined(out, flags);
        assert!(error == "unknown" && !lines.contains("\"aom_mean\""), "{lines}");
        assert!(reasons.contains("withheld") && reasons.contains(&format!("not {bound} at most")), "{reasons}");
    }
    server_is_behind(dir, 150);
    let (error, _, lines) = joined("far", &["--clock-error", "5s"]);
    assert!(error == "5000000000" && lines.contains("\"aom_mean\""), "{lines}");
    on_two_hosts(dir, [None, None]);
    let (error, reasons, lines) = joined("free", &[]);
    assert!(error == "unknown" && reasons.contains("withheld") && !lines.contains("\"aom_mean\""), "{reasons}");
}

#[test]
fn what_cannot_be_a_rank_is_refused_before_anything_is_sent() {
    let folder = folder();
    let dir = folder.path();
    let refused = |flags: &[&str], part: &str| {
        let words = [&["-q", "replay", "x.toml", "--out", "job"], flags].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        let output = command.current_dir(dir).args(&words).env_remove("PKTGEN_RANK").output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    };
    let addresses = addresses(4);
    let udp = ["--set", "transport.kind=udp", "--set", &addresses];
    refused(&["--rank", "auto"], "no launcher says which rank this is");
    refused(&["--rank", "3/3"], "the last is 2/3");
    refused(&["--roles", "workers"], "--rank");
    refused(&["--rank", "0/1"], "none of the 1 ranks would be workers");
    refused(&["--rank", "0/2", "--start-at", "soon"], "is no instant");
    refused(&["--rank", "0/2"], "a part of a run needs wires");
    refused(&["--rank", "0/2", "--wait-ranks", "0s"], "--wait-ranks 0ps: give more than 0");
    let pcap = ["--set", "transport.kind=pcap", "--set", "transport.files=[\"a.pcapng\",\"b.pcapng\"]"];
    refused(&[&["--rank", "0/2"], &pcap[..]].concat(), "time in files is not that of hosts");
    refused(&[&["--rank", "0/11", "--set", "workload.clusters=1"], &udp[..]].concat(), "at most 3 senders");
    let dense = ["--set", "workload.kind=dense", "--set", "topology.kind=rack", "--set", "target.program=trio_ml"];
    refused(&[&["--rank", "0/3"], &dense[..], &udp[..]].concat(), "wait for each other's results");
    // No other rank arrives.
    let roles = ["--rank", "0/3", "--roles", "device,workers,server"];
    let wait = [&roles[..], &["--wait-ranks", "300ms"]].concat();
    refused(&[&wait[..], &udp[..]].concat(), "ranks 1, 2 are missing, of 3; rank 0 is ready");
    refused(&[&wait[..], &udp[..]].concat(), "the folder is not empty");
    fs::remove_dir_all(dir.join("job")).expect("it is there");
    refused(&[&roles[..], &["--start-at", "1000000000"], &udp[..]].concat(), "give a later instant");
    refused(&[&["--rank", "0/3"], &udp[..]].concat(), "one socket for all workers, connected to one sender");
}
