//! A run in parts: workers, device and server in separate processes, over every transport that connects processes,
//! merged into one run whose balance closes. Tests that need interfaces run in network namespaces that they make and
//! remove; if that is not permitted, they print SKIPPED and the reason.

use std::path::Path;
use std::process::Command;

use crate::support::loopback::addresses;
use crate::support::netns::Net;
use crate::support::serving::Serving;
use crate::support::wired::{in_parts, pktgen, said};
use pktgen_records::analyze_run;
use pktgen_testing::{Need, skip, undisturbed};
use pktgen_wire::pcap::{Form, Reader, Writer, WriterOptions};
use serde_json::Value;

const RUN: &str = "Olaf,rate=40Mbps,seed=1";
const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

fn config() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1-wires.toml").display().to_string()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs").success());
}

fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).expect("a manifest")).expect("JSON")
}

/// Returns the loss of a merged run, after checking that it is sound.
fn loss(dir: &Path) -> f64 {
    let manifest = manifest(dir);
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    assert_eq!((&balance["unknown"], &balance["in_flight"]), (&Value::from(0), &Value::from(0)), "{manifest}");
    assert_eq!(balance["sent"], 13500);
    // More updates are merged when the host stalls.
    assert!(
        counters["sums_ok"].as_u64() > Some(100) && counters["sums_ok"] == counters["packets_received"],
        "{counters}"
    );
    assert_eq!(manifest.get("part"), None, "a whole run");
    let dropped: f64 = balance["dropped"].as_object().expect("drops").values().filter_map(Value::as_f64).sum();
    dropped / 13500.0
}

#[test]
fn parts_in_processes_of_their_own_join_into_a_run_that_closes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let virtual_time = folder.path().join("virtual");
    let out = virtual_time.display().to_string();
    let words = ["-q", "replay", &config(), "--no-report", "--out", &out];
    let set = ["sweep.seeds=\"1\"", "sweep.axes.topology.rate=[\"40Mbps\"]", "transport.kind=virtual"];
    assert!(pktgen(&[], &words, &set).output().expect("it runs").status.success());
    let expected = loss(&virtual_time.join(RUN));
    let agrees = |kind: &str, spaces: &[Vec<String>], set: &[&str]| {
        // A pause of the machine may disturb a run, which is then repeated; every run must be sound.
        undisturbed(&format!("losses in parts over {kind} are those of virtual time"), |i| {
            let own = folder.path().join(format!("{kind}-{i}"));
            let whole = in_parts(&own, spaces, &[&config(), "--run", RUN], set)?;
            assert!(whole.join("lateness.hlog").exists(), "{set:?}");
            ((loss(&whole) - expected).abs() < 0.10).then_some(whole)
        })
    };
    let set = ["transport.kind=udp", &addresses(4), "transport.stamps=kernel"];
    if let Some(udp) = agrees("udp", &[vec![], vec![], vec![]], &set) {
        delayed(&udp);
        of_two_executions(folder.path(), udp.parent().expect("its folder"));
    }
    let cables = [(("w", "w0"), ("d", "d0")), (("d", "d1"), ("s", "s0"))];
    match Net::make("parts", &["w", "d", "s"], &cables) {
        Err(why) => skip(Need::Netns, "af_packet, af_xdp and xdp_live between namespaces", why),
        Ok(net) => {
            let spaces = ["w", "d", "s"].map(|space| net.inside(space));
            for kind in ["af_packet", "af_xdp", "xdp_live"] {
                agrees(kind, &spaces, &[&format!("transport.kind={kind}"), FOUR]);
            }
            killed(&net, folder.path());
        }
    }
}

/// The stamps of the server's kernel are in the whole run, converted to its time.
fn delayed(whole: &Path) {
    let output = pktgen(&[], &["analyze", &whole.display().to_string(), "--json"], &[]).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let value =
        |metric: &str| lines.iter().find(|line| line["metric"] == metric).and_then(|line| line["value"].as_f64());
    let (mid, error) = (value("receive_delay_p50").expect("a delay"), value("stamp_clock_error").expect("its error"));
    // A host that pauses reads late, but never before the kernel received the frame.
    assert!(value("stamped") == Some(1.0) && error < 100_000.0, "{error}");
    assert!(-error < mid && mid < 1e8, "{mid}");
}

/// Parts of two executions of one configuration cannot be merged.
fn of_two_executions(folder: &Path, one: &Path) {
    let part = |dir: &Path, name: &str| dir.join(name).display().to_string();
    let two = &folder.join("again");
    // Its parts are there, whatever the machine did.
    let set = ["transport.kind=udp", &addresses(4)];
    let _ = in_parts(two, &[vec![], vec![], vec![]], &[&config(), "--run", RUN], &set);
    let words = ["merge", &part(one, "workers"), &part(two, "device"), &part(two, "server"), "-o", &part(two, "mixed")];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    assert!(
        output.status.code() == Some(2) && said(&output).contains("did not run at the same time"),
        "{}",
        said(&output)
    );
}

/// A device has no privileges while it runs, and its XDP programs are removed however it ends.
fn killed(net: &Net, folder: &Path) {
    let inside = net.inside("d");
    let serving = |name: &str| {
        let out = folder.join(name).display().to_string();
        let words = ["target", &config(), "--run", RUN, "--out", &out, "--idle", "60s", "--for", "300s"];
        Serving::start(pktgen(&inside, &words, &["transport.kind=af_xdp", FOUR]), "target")
    };
    let link = || {
        let output = Command::new("ip").args(["-n", &inside[3], "-d", "link", "show", "d0"]).output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let device = serving("killed");
    assert!(link().contains("xdp"), "{}", link());
    let mut threads = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", device.pid())).expect("a process") {
        let status = std::fs::read_to_string(task.expect("a thread").path().join("status")).expect("a status");
        let rights = status.lines().find(|line| line.starts_with("CapEff:")).expect("capabilities");
        assert_eq!(rights.trim_start_matches("CapEff:").trim(), "0000000000000000", "{status}");
        threads += 1;
    }
    assert!(threads >= 2, "{threads} threads");
    signal(device.pid(), "-KILL");
    assert_ne!(device.end(), 0);
    assert!(!link().contains("xdp"), "{}", link());
    assert_eq!(manifest(&folder.join("killed"))["state"], "running");
    // The same device again: nothing blocks it; this time it ends on request.
    let device = serving("asked");
    signal(device.pid(), "-INT");
    assert_eq!(device.end(), 0);
    let manifest = manifest(&folder.join("asked"));
    assert_eq!((&manifest["state"], &manifest["validity"]["valid"]), (&Value::from("finished"), &Value::from(true)));
}

#[test]
fn roles_one_after_the_other_on_capture_files_come_to_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut books = Vec::new();
    for form in ["pcapng", "pcap", "pcapng"] {
        let dir = folder.path().join(format!("{form}-{}", books.len()));
        std::fs::create_dir(&dir).expect("a folder");
        let file = |name: &str| dir.join(format!("{name}.{form}")).display().to_string();
        let files = format!("transport.files=[\"{}\",\"{}\"]", file("workers"), file("server"));
        let set = ["transport.kind=pcap", &files];
        let out = |name: &str| dir.join(name).display().to_string();
        for words in [
            vec!["-q", "replay", &config(), "--role", "workers", "--run", RUN, "--out", &out("a")],
            vec!["-q", "target", &config(), "--run", RUN, "--out", &out("b")],
            vec!["-q", "capture", &config(), "--run", RUN, "--out", &out("c")],
        ] {
            let output = pktgen(&[], &words, &set).output().expect("it runs");
            assert!(output.status.success(), "{words:?}: {}", said(&output));
        }
        let whole = dir.join("whole");
        let words = ["-q", "merge", &out("a"), &out("b"), &out("c"), "-o", &whole.display().to_string()];
        let output = pktgen(&[], &words, &[]).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(loss(&whole) < 0.25, "{}", loss(&whole));
        books.push(std::fs::read(whole.join("books.parquet")).expect("books"));
    }
    assert!(books[0] == books[1] && books[0] == books[2], "time in files is exact");
}

/// Sums are recomputed from the trace: a merge needs the one that was replayed.
#[test]
fn parts_of_a_trace_that_was_changed_are_not_joined() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let runs = |words: &[&str], set: &[&str]| {
        let output = pktgen(&[], words, set).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    };
    for (name, seed) in [("t.parquet", "1"), ("other.parquet", "9")] {
        runs(&["-q", "trace", "synth", &config(), "-o", &at(name), "--seed", seed], &[]);
    }
    let files = format!("transport.files=[\"{}\",\"{}\"]", at("w.pcapng"), at("s.pcapng"));
    let set = ["transport.kind=pcap", &files, &format!("workload.trace={}", at("t.parquet"))];
    runs(&["-q", "replay", &config(), "--role", "workers", "--run", RUN, "--out", &at("a")], &set);
    runs(&["-q", "target", &config(), "--run", RUN, "--out", &at("b")], &set);
    runs(&["-q", "capture", &config(), "--run", RUN, "--out", &at("c")], &set);
    let (parts, whole) = ([at("a"), at("b"), at("c")], at("whole"));
    let merge = ["-q", "merge", &parts[0], &parts[1], &parts[2], "-o", &whole];
    let copy = |from: &str, to: &str| {
        std::fs::copy(at(from), at(to)).expect("writable");
    };
    let trace = [("t.parquet", "kept"), ("t.parquet.manifest.json", "kept.json")];
    trace.iter().for_each(|(name, kept)| copy(name, kept));
    let refused = |part: &str| {
        let output = pktgen(&[], &merge, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
        assert!(!Path::new(&whole).exists(), "nothing was written");
    };
    copy("other.parquet", "t.parquet");
    refused("the file does not match the hash in its manifest");
    copy("other.parquet.manifest.json", "t.parquet.manifest.json");
    refused("workload.trace was changed since the run, and sums are recomputed from it; restore the trace (sha256 ");
    trace.iter().for_each(|(name, kept)| copy(kept, name));
    runs(&merge, &[]);
}

/// The configuration only names the profile: parts, and the merge, need the one of the run.
#[test]
fn parts_of_a_profile_that_was_changed_are_not_joined() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "name = \"profiled\"\n[workload]\nkind = \"raw\"\nflows = 1\npackets = 20\n[schedule]\noffered = \"10Mbps\"\n\
         [target]\nkind = \"external\"\nprofile = \"{}\"\n[transport]\nkind = \"pcap\"\nfiles = [\"{}\", \"{}\"]\n",
        at("card.toml"),
        at("w.pcapng"),
        at("s.pcapng")
    );
    std::fs::write(at("x.toml"), text).expect("writable");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/hardware/generic.toml");
    let card = std::fs::read_to_string(shipped).expect("a shipped profile");
    let changed = card.replace("most = 9036", "most = 9000");
    assert_ne!(card, changed);
    let profile = |text: &str| std::fs::write(at("card.toml"), text).expect("writable");
    let runs = |words: &[&str]| {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    };
    let refused = |words: &[&str], part: &str| {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
        assert!(!folder.path().join("whole").exists(), "nothing was written");
    };
    profile(&card);
    runs(&["-q", "replay", &at("x.toml"), "--role", "workers", "--out", &at("a")]);
    std::fs::copy(at("w.pcapng"), at("s.pcapng")).expect("writable");
    profile(&changed);
    runs(&["-q", "capture", &at("x.toml"), "--out", &at("other")]);
    profile(&card);
    refused(&["merge", &at("a"), &at("other"), "-o", &at("whole")], "contents of target.profile with hashes ");
    runs(&["-q", "capture", &at("x.toml"), "--out", &at("c")]);
    profile(&changed);
    refused(&["merge", &at("a"), &at("c"), "-o", &at("whole")], "target.profile was changed since the run");
    profile(&card);
    // Manifests of older versions have no hash: that of the other part decides.
    let path = folder.path().join("a/manifest.json");
    let kept = std::fs::read(&path).expect("a manifest");
    let mut old = manifest(&folder.path().join("a"));
    assert!(old.as_object_mut().expect("an object").remove("profile_hash").is_some());
    std::fs::write(&path, pktgen_core::record::digest::seal(&old.to_string())).expect("writable");
    refused(&["merge", &at("a"), &at("other"), "-o", &at("whole")], "target.profile was changed since the run");
    runs(&["-q", "merge", &at("a"), &at("c"), "-o", &at("joined")]);
    let hash = |name: &str| manifest(&folder.path().join(name))["profile_hash"].clone();
    assert!(hash("c").is_string());
    assert_eq!(hash("joined"), hash("c"));
    std::fs::write(&path, kept).expect("writable");
    runs(&["-q", "merge", &at("a"), &at("c"), "-o", &at("whole")]);
}

/// A killed sender hides no arrivals: the server's counters are complete. A killed server hides them, and without a row there is no loss.
#[test]
fn nothing_came_back_although_the_sender_was_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "name = \"silent\"\n[workload]\nkind = \"raw\"\nflows = 1\npackets = 20\n[schedule]\noffered = \"10Mbps\"\n\
         [target]\nkind = \"external\"\n[transport]\nkind = \"pcap\"\nfiles = [\"{}\", \"{}\"]\n",
        at("w.pcapng"),
        at("s.pcapng")
    );
    std::fs::write(at("x.toml"), text).expect("writable");
    let run = |words: &[&str]| pktgen(&[], words, &[]).output().expect("it runs");
    let sent = run(&["-q", "replay", &at("x.toml"), "--role", "workers", "--out", &at("a")]);
    assert!(sent.status.success(), "{}", said(&sent));
    let empty = Writer::create(Path::new(&at("s.pcapng")), WriterOptions::new(Form::Pcapng)).expect("a file");
    empty.finish().expect("a capture");
    let captured = run(&["-q", "capture", &at("x.toml"), "--out", &at("c")]);
    assert!(captured.status.success(), "{}", said(&captured));
    for (killed, codes, loss) in
        [("a", ["nothing_received", "in_part"], Some(1.0)), ("c", ["in_part", "in_part"], None)]
    {
        let dir = folder.path().join(killed);
        let mut running = manifest(&dir);
        running["state"] = "running".into();
        let running = pktgen_core::record::digest::seal(&running.to_string());
        std::fs::write(dir.join("manifest.json"), running).expect("writable");
        // A part is recovered, and not analyzed alone.
        run(&["-q", "analyze", &at(killed), "--recover"]);
        let whole = at(&format!("whole-{killed}"));
        let merged = run(&["-q", "merge", &at("a"), &at("c"), "-o", &whole]);
        assert_eq!(merged.status.code(), Some(1), "{}", said(&merged));
        let lines = analyze_run(Path::new(&whole)).expect("a run").lines;
        assert_eq!(lines.iter().find(|line| line.metric == "loss").expect("a line").value, loss);
        let whole = manifest(Path::new(&whole));
        let faults = whole["validity"]["faults"].as_array().expect("faults").iter();
        assert_eq!(faults.map(|fault| fault["code"].as_str().expect("a code")).collect::<Vec<_>>(), codes);
        let notes = whole["validity"]["notes"].as_array().expect("notes");
        assert_eq!(notes.iter().any(|note| note["code"] == "lost"), loss.is_some(), "{notes:?}");
    }
}

/// A device between the files that adds two tags: the longest frames are whole, too.
#[test]
fn raw_frames_of_any_length_are_found_behind_tags_in_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "name = \"tagged\"\n[workload]\nkind = \"raw\"\nflows = 1\npackets = 20\nsizes = [1514]\n[schedule]\noffered = \"10Mbps\"\n\
         [target]\nkind = \"external\"\n[transport]\nkind = \"pcap\"\nfiles = [\"{}\", \"{}\"]\n",
        at("w.pcapng"),
        at("s.pcapng")
    );
    std::fs::write(at("x.toml"), text).expect("writable");
    let runs = |words: &[&str]| {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    };
    runs(&["-q", "replay", &at("x.toml"), "--role", "workers", "--out", &at("a")]);
    let mut reader = Reader::open(Path::new(&at("w.pcapng"))).expect("a capture");
    let mut writer = Writer::create(Path::new(&at("s.pcapng")), WriterOptions::new(Form::Pcapng)).expect("a file");
    while let Some(packet) = reader.next().expect("a whole capture") {
        let tagged = [&packet.bytes[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &packet.bytes[12..], &[0; 4]].concat();
        let t = packet.time.expect("a time").unix_ns();
        writer.packet_at(0, t.unsigned_abs(), &tagged, tagged.len() as u32).expect("room");
    }
    writer.finish().expect("a capture");
    runs(&["-q", "capture", &at("x.toml"), "--out", &at("c")]);
    runs(&["-q", "merge", &at("a"), &at("c"), "-o", &at("whole")]);
    let whole = manifest(&folder.path().join("whole"));
    assert_eq!((&whole["unseen"]["damaged"], &whole["counters"]["packets_received"]), (&0.into(), &20.into()));
}

/// The packets that leave for a frame, each with the byte that is changed, if any; how many are damaged, and copies.
type Changed<'a> = (&'a [Option<usize>], u64, u64);

/// A device between the files changes every tenth frame: changed headers are damage, as are changed gradients, also in
/// copies, in any order.
#[test]
fn changed_headers_and_copies_are_damage() {
    // Bytes of the frame: cluster, worker, generation time and reward in the header, and the last gradient.
    let (cluster, worker, generation, reward, gradient) = (45, 51, 59, 68, 252);
    let cases: [Changed; 8] = [
        (&[Some(cluster)], 1, 0),
        (&[Some(generation)], 1, 0),
        (&[Some(reward)], 1, 0),
        // It names an update of the other worker.
        (&[Some(worker)], 1, 1),
        (&[None, None], 0, 1),
        (&[None, Some(gradient)], 1, 1),
        (&[Some(gradient), None], 1, 1),
        (&[None, Some(cluster)], 1, 1),
    ];
    let workload = "clusters = 2\nworkers_per_cluster = 1";
    changes(workload, "queue = \"fifo\"\nprogram = \"forward\"", &cases);
    // Lanes prove which update a packet holds, which does not explain that it names another one.
    let olaf = "queue = \"olaf\"\nprogram = \"olaf\"\n[format]\nlanes = true";
    changes("clusters = 1\nworkers_per_cluster = 2", olaf, &[(&[Some(worker)], 1, 1), (&[None, None], 0, 1)]);
}

/// Checks what is found of packets that a device with these settings changes.
fn changes(workload: &str, target: &str, cases: &[Changed]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "name = \"changed\"\n[workload]\n{workload}\nupdates = 20\nbytes = \"256B\"\n[schedule]\noffered = \"500kbps\"\n\
         [target]\nkind = \"external\"\nprofile = \"generic\"\n{target}\n[transport]\nkind = \"pcap\"\n\
         files = [\"{}\", \"{}\"]\n",
        at("w.pcapng"),
        at("s.pcapng")
    );
    std::fs::write(at("x.toml"), text).expect("writable");
    let runs = |words: &[&str], code: i32| {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
        said(&output)
    };
    runs(&["-q", "replay", &at("x.toml"), "--role", "workers", "--out", &at("a")], 0);
    let (mut reader, mut frames) = (Reader::open(Path::new(&at("w.pcapng"))).expect("a capture"), Vec::new());
    while let Some(packet) = reader.next().expect("a whole capture") {
        frames.push((packet.time.expect("a time").unix_ns().unsigned_abs(), packet.bytes.to_vec()));
    }
    assert_eq!(frames.len(), 40);
    for (i, &(packets, damaged, copies)) in cases.iter().enumerate() {
        let mut writer = Writer::create(Path::new(&at("s.pcapng")), WriterOptions::new(Form::Pcapng)).expect("a file");
        for (n, (t, bytes)) in frames.iter().enumerate() {
            let leave = if n % 10 == 9 { packets } else { &[None] };
            for changed in leave {
                let mut bytes = bytes.clone();
                changed.iter().for_each(|byte: &usize| bytes[*byte] ^= 1);
                writer.packet_at(0, *t, &bytes, bytes.len() as u32).expect("room");
            }
        }
        writer.finish().expect("a capture");
        let (captured, whole) = (at(&format!("c{i}")), at(&format!("whole{i}")));
        let code = i32::from(damaged > 0);
        runs(&["-q", "capture", &at("x.toml"), "--out", &captured], 0);
        runs(&["-q", "merge", &at("a"), &captured, "-o", &whole], code);
        let run = manifest(Path::new(&whole));
        let found = (&run["unseen"]["damaged"], &run["unseen"]["duplicates"]);
        assert_eq!(found, (&(4 * damaged).into(), &(4 * copies).into()), "{target}: {packets:?}");
        let wrong = runs(&["-q", "analyze", &whole, "--wrong"], code);
        assert_eq!(wrong.contains(": 4 of 4"), damaged > 0, "{target}: {packets:?}: {wrong}");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = |name: &str| folder.path().join(name).display().to_string();
    for (name, seed) in [("one", "1"), ("two", "2")] {
        let file = format!("transport.files=[\"{}.pcapng\",\"\"]", out(name));
        let run = format!("Olaf,rate=40Mbps,seed={seed}");
        let words = ["-q", "replay", &config(), "--role", "workers", "--run", &run, "--out", &out(name)];
        let output = pktgen(&[], &words, &["transport.kind=pcap", &file]).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
    }
    let file = format!("transport.files=[\"{}.pcapng\",\"{}.pcapng\"]", out("one"), out("up"));
    let words = ["-q", "target", &config(), "--run", RUN, "--out", &out("device")];
    assert!(pktgen(&[], &words, &["transport.kind=pcap", &file]).output().expect("it runs").status.success());
    let refused = |words: &[&str], part: &str| {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    };
    refused(&["merge", &out("one"), "-o", &out("m1")], "device part is missing");
    refused(&["analyze", &out("one")], "workers part of a run; join the parts");
    refused(&["report", &out("one")], "workers part of a run; join the parts");
    refused(&["merge", &out("one"), &out("two"), "-o", &out("m2")], "both the workers part");
    refused(&["merge", &out("one"), &out("device"), "-o", &out("m3")], "server part is missing");
    refused(&["target", &config(), "--out", &out("m4")], "name it with --run");
    refused(&["target", &config(), "--run", "nobody", "--out", &out("m5")], "there is no such run");
    refused(&["target", &config(), "--run", RUN, "--out", &out("m6")], "joins roles of one process");
    refused(&["target", &config(), "--run", RUN, "--idle", "soon", "--out", &out("m7")], "'--idle <SPAN>'");
}
