//! Hardware profiles through the binary: plans as golden files (UPDATE_GOLDEN=1 rewrites them), refusals, dry runs,
//! other addresses on the wire, and runs whose device keeps no books, represented by a software device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::netns::Net;
use crate::support::serving::Serving;
use crate::support::wired::{is_whole, manifest, number, pktgen, said};
use pktgen_records::run::RunData;
use pktgen_testing::{Need, skip, undisturbed};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::Datagram;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn config(name: &str) -> String {
    root().join("configs").join(name).display().to_string()
}

fn run(words: &[&str], set: &[&str]) -> Output {
    pktgen(&[], words, set).output().expect("it runs")
}

/// Returns the output of a command that must succeed.
fn prints(words: &[&str], set: &[&str]) -> String {
    let output = run(words, set);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn plans_are_those_that_were_reviewed() {
    let few = ["workload.scale=0.001"];
    for (file, profile, experiment, syntax, set) in [
        ("alveo-u55c-olaf.json", "alveo-u55c-olaf", "olaf/table1.toml", "json", &[][..]),
        ("generic.json", "generic", "olaf/table1.toml", "json", &[]),
        ("mx480-trio-ml.json", "mx480-trio-ml", "wires/trio-ml.toml", "json", &[]),
        ("tofino-libra.json", "tofino-libra", "wires/libra.toml", "json", &few),
        ("tofino-switchml.json", "tofino-switchml", "wires/switchml.toml", "json", &[]),
        ("tofino-switchml.files", "tofino-switchml", "wires/switchml.toml", "switchml", &[]),
        ("tofino-switchml.py", "tofino-switchml", "wires/switchml.toml", "bfrt", &[]),
    ] {
        let found = prints(&["device", "plan", profile, &config(experiment), "--syntax", syntax], set);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/device").join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).expect("writable");
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert!(golden == found, "{file} is not what is planned now; review it after UPDATE_GOLDEN=1:\n{found}");
    }
}

/// The capacity of a router is that of the experiment, whatever its workers have under way; the field has 12 bits.
#[test]
fn a_router_is_planned_with_the_blocks_that_the_experiment_states() {
    let file = config("wires/trio-ml.toml");
    let words = ["device", "plan", "mx480-trio-ml", &file, "--syntax", "json"];
    for (set, planned) in [
        (&["target.block_cnt_max=300"][..], 300),
        (&["endpoint.window=8"], 4095),
        (&["endpoint.window=8", "target.kind=external", "target.profile=mx480-trio-ml"], 4095),
        (&["target.block_cnt_max=5000"], 4095),
    ] {
        let plan: Value = serde_json::from_str(&prints(&words, set)).expect("JSON");
        assert_eq!(number(&plan["entries"]["job_records"][0]["block_cnt_max"]), planned, "{set:?}");
    }
}

/// A card is told the ports of the frames that it will get.
#[test]
fn a_plan_has_the_ports_of_the_layout_on_the_wire() {
    let wires = config("olaf/table1-wires.toml");
    let words = ["device", "plan", "alveo-u55c-olaf", &wires, "--run", RUN];
    for (layout, ports) in [("ours", [48501, 48500]), ("strict", [48511, 48510])] {
        let text = prints(&words, &[&format!("transport.on_wire={layout}")]);
        let plan: Value = serde_json::from_str(&text).expect("JSON");
        let own = &plan["entries"]["udp_ports"];
        assert_eq!([number(&own["workers"]), number(&own["parameter_server"])], ports, "{layout}");
    }
}

#[test]
fn a_plan_is_written_into_a_folder_and_profiles_are_listed_and_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("plan").display().to_string();
    let switchml = config("wires/switchml.toml");
    prints(&["device", "plan", "tofino-switchml", &switchml, "--syntax", "switchml", "--out", &out], &[]);
    let mut names: Vec<_> = fs::read_dir(&out).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    names.sort();
    let expected =
        ["controller.txt", "ports.yaml", "switchml-0.cfg", "switchml-1.cfg", "switchml-2.cfg", "switchml-3.cfg"];
    assert_eq!(names, expected);
    let printed = run(&["device", "plan", "tofino-switchml", &switchml, "--syntax", "switchml", "--json"], &[]);
    assert!(printed.status.code() == Some(2) && printed.stdout.is_empty(), "{}", said(&printed));
    assert!(said(&printed).contains("--syntax switchml and --json: choose one"), "{}", said(&printed));
    let again = run(&["device", "plan", "tofino-switchml", &switchml, "--out", &out], &[]);
    assert!(again.status.code() == Some(2) && said(&again).contains("not empty"), "{}", said(&again));
    let list = prints(&["device", "list"], &[]);
    assert_eq!(list.lines().count(), 5, "{list}");
    for line in list.lines() {
        let name = line.split_whitespace().next().expect("a name");
        assert!(prints(&["device", "show", name], &[]).contains("limits"), "{name}");
        let shown: Value = serde_json::from_str(&prints(&["device", "show", name, "--json"], &[])).expect("JSON");
        assert_eq!(shown["name"], name);
    }
}

/// Checks for exit code 2 and every given word.
fn refuses(words: &[&str], set: &[&str], said_words: &[&str]) {
    let output = run(words, set);
    assert_eq!(output.status.code(), Some(2), "{words:?} {set:?}: {}", said(&output));
    said_words.iter().for_each(|word| assert!(said(&output).contains(word), "{word}: {}", said(&output)));
}

#[test]
fn what_does_not_fit_is_refused_with_value_limit_source_and_remedy() {
    let (table1, switchml) = (config("olaf/table1.toml"), config("wires/switchml.toml"));
    let check = |profile: &str, experiment: &str, set: &[&str], words: &[&str]| {
        refuses(&["device", "check", profile, experiment], set, words);
        refuses(&["device", "plan", profile, experiment], set, words);
    };
    check("tofino-switchml", &table1, &[], &["send olaf", "supports switchml"]);
    check(
        "tofino-switchml",
        &switchml,
        &["workload.jobs=2", "target.jobs=several"],
        &["2, and tofino-switchml takes at most 1", "one session"],
    );
    // The pool of the tables is that of the workers.
    let pools = ["target.kind=external", "target.pool=64"];
    check("tofino-switchml", &switchml, &pools, &["endpoint.pool = 128 and target.pool = 64", "the same pool"]);
    check("alveo-u55c-olaf", &table1, &["target.slots=9"], &["9, and", "at most 8", "OLAF §8", "target.slots"]);
    let tagged = root().join("configs/hardware/tofino-libra.toml");
    let text = fs::read_to_string(tagged).expect("a profile").replace("to = \"server\"", "to = \"server\"\nvlan = 3");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tagged = folder.path().join("tagged.toml").display().to_string();
    fs::write(&tagged, text).expect("writable");
    check(&tagged, &config("wires/libra.toml"), &[], &["196", "at most 192", "LIBRA §3.4", "addressing.vlan"]);
    let wires = config("olaf/table1-wires.toml");
    let only = ["--run", "Olaf,rate=40Mbps,seed=1"];
    let named = "target.profile=alveo-u55c-olaf";
    for (command, set, words) in [
        ("replay", &["target.kind=external"][..], &["target.profile", "pktgen device list"][..]),
        ("replay", &["target.kind=external", named], &["\"ring\"", "af_packet"]),
        (
            "replay",
            &["target.kind=external", named, "transport.kind=virtual"],
            &["does not exist in virtual time", "--dry-run"],
        ),
        (
            "target",
            &["target.kind=external", named, "transport.kind=af_packet"],
            &["software device", "target.kind=software"],
        ),
        ("replay", &[named, "target.slots=9"], &["at most 8", "OLAF §8"]),
        ("replay", &[named, "transport.kind=udp", "transport.readdress=true"], &["transport.readdress", "sockets"]),
        ("replay", &["transport.readdress=true"], &["target.profile"]),
        ("replay", &["target.profile=alveo"], &["there is no profile \"alveo\"", "alveo-u55c-olaf"]),
    ] {
        let out = folder.path().join("never").display().to_string();
        refuses(&[command, &wires, only[0], only[1], "--out", &out], set, words);
        assert!(!Path::new(&out).exists(), "{set:?}: nothing is written");
    }
    // What the configuration forbids is refused before the device is probed, here over an interface that does not exist.
    let bench = root().join("cli/tests/cli/support/bench/olaf.toml").display().to_string();
    let out = folder.path().join("never").display().to_string();
    let set = ["capture.records=none", "transport.interfaces=[\"nothing0\", \"\", \"\", \"nothing1\"]"];
    let words = ["replay", &bench, "--find-rate", "--aom", "1s", "--out", &out];
    refuses(&words, &set, &["--aom", "capture.records", "not \"none\""]);
}

/// The refusal of a network of several devices.
const SEVERAL: [&str; 3] = ["a profile is of one device", "network has 3", "engines = 1"];

/// Tables and limits of one device with all workers of a network of several would be those of none.
#[test]
fn networks_of_several_devices_are_refused() {
    let wires = config("wires/trio-ml.toml");
    for command in ["check", "plan"] {
        let words = ["device", command, "mx480-trio-ml", &wires];
        prints(&words, &["topology.engines=1"]);
        refuses(&words, &["topology.engines=2"], &SEVERAL);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("never").display().to_string();
    let replay = ["replay", &wires, "--out", &out];
    let several = ["topology.engines=2", "target.profile=mx480-trio-ml", "transport.kind=virtual"];
    refuses(&replay, &several, &SEVERAL);
    refuses(&[&replay[..], &["--dry-run"]].concat(), &several, &SEVERAL);
    let external = [&several[..], &["target.kind=external"]].concat();
    refuses(&[&replay[..], &["--dry-run"]].concat(), &external, &SEVERAL);
    assert!(!Path::new(&out).exists(), "nothing is written");
}

/// Advice for smaller frames is of the experiment's own workers, and names acknowledgements only where they are the longest, with the
/// condition under which it suffices to change them.
#[test]
fn advice_for_smaller_frames_is_possible() {
    let generic = fs::read_to_string(root().join("configs/hardware/generic.toml")).expect("a profile");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small.toml").display().to_string();
    fs::write(&small, generic.replace("most = 9036", "most = 256")).expect("writable");
    let without = "endpoint.ack_model=none";
    let of_acks =
        "; lower workload.bytes or, if only acknowledgements are too long, set endpoint.ack_model = \"none\"\n";
    for (experiment, set, advice) in [
        ("olaf/table1.toml", &[][..], of_acks),
        ("olaf/table1.toml", &[without, "workload.bytes=300B"], "; lower workload.bytes\n"),
        ("wires/switchml.toml", &[], "; lower workload.elements\n"),
        ("olaf/figure8.toml", &[], "; use smaller layers (workload.hidden)\n"),
    ] {
        refuses(&["device", "check", &small, &config(experiment)], set, &["at most 256", advice]);
    }
    prints(&["device", "check", &small, &config("olaf/table1.toml")], &[without]);
}

#[test]
fn a_dry_run_says_what_would_be_sent_and_sends_nothing() {
    let wires = config("olaf/table1-wires.toml");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("never").display().to_string();
    let words = ["replay", &wires, "--dry-run", "--run", "Olaf,rate=40Mbps,seed=1", "--out", &out];
    let set = ["target.kind=external", "target.profile=alveo-u55c-olaf"];
    let drafted: Value = serde_json::from_str(&prints(&[&words[..], &["--json"]].concat(), &set)).expect("JSON");
    assert!(!Path::new(&out).exists());
    assert_eq!((&drafted["target"], &drafted["profile"]), (&"external".into(), &"alveo-u55c-olaf".into()));
    assert_eq!((number(&drafted["frames_total"]), number(&drafted["bytes_total"])), (13_500, 13_500 * 256));
    let frames = drafted["frames"].as_array().expect("frames");
    assert_eq!(frames.len(), 3, "one kind");
    for frame in frames {
        let fields = frame["fields"].as_array().expect("fields");
        let field = |name: &str| fields.iter().find(|field| field[0] == name).map(|field| field[1].clone());
        let worker = number(&frame["worker"]);
        assert_eq!(field("ip.src"), Some(format!("10.20.0.{}", worker + 1).into()));
        assert_eq!(field("ip.dst"), Some("10.20.255.1".into()));
        assert_eq!(field("olaf.worker"), Some(worker.to_string().into()));
    }
    // 60 Mbit/s of frames, plus 24 bytes for each.
    let port = &drafted["ports"][0];
    let (mean, peak) = (number(&port["mean_bps"]), number(&port["peak_bps"]));
    assert!((60e6 * 280.0 / 256.0 - mean as f64).abs() < 2e6 && mean <= peak && peak < 1_000_000_000, "{port}");
    assert_eq!((&port["name"], number(&port["line_bps"])), (&"qsfp0".into(), 100_000_000_000));
    let expected = &drafted["expected"];
    assert_eq!((number(&expected["fully_aggregated"]), number(&expected["most"])), (4500, 13_500));
    assert_eq!(number(&drafted["counters"][0]["least"]), 13_500);
    let text = prints(&words, &set);
    for word in
        ["nothing is sent", "10.20.255.1", "at most 9036 (OLAF §12.1", "13500 frames", "4500 packets at the server"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    // Without a profile, with workers that wait for results, and with a port that is too slow.
    let text = prints(&["replay", &config("wires/switchml.toml"), "--dry-run", "--frames", "1"], &[]);
    assert!(
        text.contains("as results come") && text.contains("switchml.values") || text.contains("switchml.content"),
        "{text}"
    );
    let text = prints(
        &["replay", &config("wires/libra.toml"), "--dry-run", "--frames", "1"],
        &["target.profile=tofino-libra"],
    );
    assert!(text.contains("10.30.255.1"), "{text}");
    // Frames of sparse training are shorter than the longest.
    assert!(text.contains(" frames, at most "), "{text}");
    let slow = folder.path().join("slow.toml").display().to_string();
    let shipped = fs::read_to_string(root().join("configs/hardware/alveo-u55c-olaf.toml")).expect("a profile");
    fs::write(&slow, shipped.replace("\"100Gbps\"", "\"10Mbps\"")).expect("writable");
    let named = format!("target.profile={slow}");
    refuses(&words, &[&named], &["port qsfp0", "carries 0.010", "--rate"]);
    refuses(&words, &["target.profile=alveo-u55c-olaf", "target.slots=9"], &["at most 8"]);
}

#[test]
fn a_dry_run_says_that_all_updates_are_at_one_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = folder.path().join("once.toml").display().to_string();
    let text = "[workload]\nclusters = 1\nworkers_per_cluster = 2\nupdates = 1\n\
                [schedule]\nkind = \"constant\"\nperiod = \"10us\"\nphase = \"zero\"\n\
                [target]\nprogram = \"forward\"\nqueue = \"fifo\"\n";
    fs::write(&experiment, text).expect("writable");
    let text = prints(&["replay", &experiment, "--dry-run"], &[]);
    assert!(text.contains("all at once") && !text.contains("as results come"), "{text}");
}

/// Runs the roles one after the other on capture files: workers, a software device, and server.
struct Parts {
    folder: PathBuf,
    files: String,
}

const RUN: &str = "Olaf,rate=40Mbps,seed=1";

impl Parts {
    fn new(folder: &Path) -> Parts {
        fs::create_dir(folder).expect("a folder");
        let file = |name: &str| folder.join(format!("{name}.pcapng")).display().to_string();
        let files = format!("transport.files=[\"{}\",\"{}\"]", file("workers"), file("server"));
        Parts { folder: folder.to_owned(), files }
    }

    fn dir(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Runs one part into the folder with its name.
    fn part(&self, words: &[&str], name: &str, set: &[&str]) {
        let wires = config("olaf/table1-wires.toml");
        let (out, set) = (self.dir(name), [&["transport.kind=pcap", &self.files][..], set].concat());
        let words = [&["-q", words[0], &wires, "--run", RUN, "--out", &out][..], &words[1..]].concat();
        let output = run(&words, &set);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    }

    fn all(&self, set: &[&str], device: &[&str]) {
        self.part(&["replay", "--role", "workers"], "workers_part", set);
        self.part(&["target"], "device_part", device);
        self.part(&["capture"], "server_part", set);
    }

    fn merge(&self, parts: &[&str]) -> Output {
        let dirs: Vec<_> = parts.iter().map(|part| self.dir(part)).collect();
        let mut words = vec!["-q", "merge"];
        words.extend(dirs.iter().map(String::as_str));
        let whole = self.dir("whole");
        words.extend(["-o", &whole]);
        run(&words, &[])
    }
}

/// Returns all packets of a capture.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path).expect("a capture");
    let mut found = Vec::new();
    while let Some(packet) = reader.next().expect("sound") {
        found.push(packet.bytes.to_vec());
    }
    found
}

/// Returns the addresses of all datagrams of a capture.
fn addresses(path: &Path) -> Vec<(u32, u32, usize)> {
    let of = |packet: &Vec<u8>| {
        let datagram = Datagram::parse(packet).expect("a datagram");
        (datagram.src, datagram.dst, packet.len())
    };
    packets(path).iter().map(of).collect()
}

#[test]
fn other_addresses_change_the_wire_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plain = Parts::new(&folder.path().join("plain"));
    plain.all(&[], &[]);
    // With a VLAN, which makes frames longer.
    let shipped = fs::read_to_string(root().join("configs/hardware/alveo-u55c-olaf.toml")).expect("a profile");
    let tagged = folder.path().join("tagged.toml").display().to_string();
    fs::write(&tagged, shipped.replace("to = \"server\"", "to = \"server\"\nvlan = 77\nport = 7000"))
        .expect("writable");
    let named = format!("target.profile={tagged}");
    let other = Parts::new(&folder.path().join("other"));
    other.all(&[&named, "transport.tap=tap.pcapng", "capture.pcap=true"], &[&named]);
    for file in ["workers_part/sent.parquet", "device_part/books.parquet"] {
        let read = |parts: &Parts| fs::read(parts.folder.join(file)).expect("a stream");
        assert!(read(&plain) == read(&other), "{file} differs");
    }
    let (before, after) =
        (addresses(&plain.folder.join("workers.pcapng")), addresses(&other.folder.join("workers.pcapng")));
    assert_eq!((before.len(), after.len()), (13_500, 13_500));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after, &(0x0a14_0001 + (before.0 - 0x0a00_0001), 0x0a14_ff01, before.2 + 4));
    }
    // A tap records what is on the wire.
    assert_eq!(addresses(&other.folder.join("workers_part/tap-workers.pcapng")), after);
    // So does the server's capture.
    let captured = packets(&other.folder.join("server_part/capture.pcapng"));
    assert!(captured.len() > 1000 && captured == packets(&other.folder.join("server.pcapng")));
    assert!(
        addresses(&other.folder.join("server.pcapng"))
            .iter()
            .all(|(src, dst, _)| *dst == 0x0a14_ff01 && src >> 8 == 0x000a_1400)
    );
    let parts = ["server_part", "workers_part", "device_part"];
    assert!(plain.merge(&parts).status.success() && other.merge(&parts).status.success());
    // The received packets are the same, plus the tag's bytes.
    let received = |parts: &Parts| {
        let run = RunData::open(&parts.folder.join("whole")).expect("a run dir");
        run.records.expect("streams").whole().expect("rows").received.clone()
    };
    let (mut plainly, tagged) = (received(&plain), received(&other));
    assert!(plainly.bytes.len() > 1000);
    plainly.bytes.iter_mut().for_each(|bytes| *bytes += 4);
    assert!(format!("{plainly:?}") == format!("{tagged:?}"), "received.parquet differs");
}

/// Compares the balance of a run without books with the books that the stand-in kept.
fn is_honest(dir: &Path) {
    let manifest = manifest(dir);
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    assert_eq!(manifest["validity"]["valid"], true, "{}", manifest["validity"]);
    assert!(manifest["validity"]["notes"].to_string().contains("keeps no books"), "{}", manifest["validity"]);
    let of = |name: &str| number(&balance[name]);
    let delivered = of("delivered_alone") + of("delivered_merged");
    assert_eq!(balance["unknown"], 0);
    assert_eq!(of("sent"), delivered + number(balance.get("unaccounted").unwrap_or(&Value::from(0))), "{balance}");
    assert_eq!((of("in_flight"), of("subsumed"), of("outranked")), (0, 0, 0));
    assert_eq!((number(&counters["sums_wrong"]), &balance["dropped"]), (0, &serde_json::json!({})));
    // Analysis derives the same from the records.
    let dir = dir.display().to_string();
    let lines = prints(&["analyze", "--json", &dir], &[]);
    let value = |metric: &str| {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let own = lines.filter(|line| line["metric"] == metric && line["labels"] == serde_json::json!({}));
        own.map(|line| line["value"].clone()).next().unwrap_or_else(|| panic!("no {metric}"))
    };
    assert_eq!(value("balance_unknown"), 0.0);
    assert_eq!(value("unaccounted"), number(balance.get("unaccounted").unwrap_or(&Value::from(0))) as f64);
    assert_eq!(value("loss"), Value::Null, "of hardware nobody says what was lost");
}

#[test]
fn without_books_what_nobody_knows_is_a_line_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parts = Parts::new(&folder.path().join("parts"));
    let named = "target.profile=alveo-u55c-olaf";
    let external = [named, "target.kind=external"];
    parts.all(&external, &[named]);
    let output = parts.merge(&["server_part", "workers_part"]);
    assert!(output.status.success(), "{}", said(&output));
    let whole = parts.folder.join("whole");
    is_honest(&whole);
    let manifest = manifest(&whole);
    assert_eq!(manifest["external"], "alveo-u55c-olaf");
    // The stand-in merged and replaced some updates, which cannot be observed from outside.
    assert!(number(&manifest["balance"]["unaccounted"]) > 1000, "{}", manifest["balance"]);
    assert!(number(&manifest["balance"]["delivered_alone"]) > 100, "{}", manifest["balance"]);
}

#[test]
fn hardware_between_two_interfaces_is_run_against_and_a_stand_in_is_hardware_enough() {
    let cables = [(("h", "w0"), ("d", "d0")), (("d", "d1"), ("h", "s0"))];
    let net = match Net::make("device", &["h", "d"], &cables) {
        Err(why) => return skip(Need::Netns, "hardware beyond veth pairs", why),
        Ok(net) => net,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (hosts, device) = (net.inside("h"), net.inside("d"));
    // Runs against a stand-in until the machine disturbs neither.
    let against = |name: &str, experiment: &str, run: &[&str], common: &[&str]| {
        undisturbed(&format!("a stand-in for hardware, {name}"), |i| {
            let [aside, out] = ["device", "run"].map(|part| folder.path().join(format!("{name}-{part}-{i}")));
            let text = aside.display().to_string();
            let words = ["target", experiment, "--out", &text, "--idle", "3s", "--for", "300s"];
            let stand_in = Serving::start(pktgen(&device, &[&words[..], run].concat(), common), "target");
            let external = [common, &["target.kind=external", "target.probe_timeout=60s"]].concat();
            let text = out.display().to_string();
            let words = ["-q", "replay", experiment, "--no-report", "--out", &text];
            let output = pktgen(&hosts, &[&words[..], run].concat(), &external).output().expect("it runs");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", said(&output));
            let manifest = manifest(&out);
            is_whole(&manifest).then(|| {
                assert_eq!((output.status.code(), stand_in.end()), (Some(0), 0), "{name}: {}", said(&output));
                is_honest(&out);
                manifest
            })
        })
    };
    let olaf = config("olaf/table1-wires.toml");
    let four = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";
    let common = ["transport.kind=af_packet", four, "target.profile=alveo-u55c-olaf"];
    against("olaf", &olaf, &["--run", RUN], &common);
    // Synchronous training: a result of all workers covers all of them, so nothing is left over, and every sum is checked.
    for (name, profile, elements) in [("switchml", "tofino-switchml", "64"), ("trio-ml", "mx480-trio-ml", "256")] {
        let experiment = config(&format!("wires/{name}.toml"));
        let elements = format!("workload.elements={elements}");
        let named = format!("target.profile={profile}");
        let common = [
            "transport.kind=af_packet",
            "transport.interfaces=[\"w0\",\"d0\"]",
            &named,
            &elements,
            "workload.scale=0.002",
            // A host that runs both sometimes interrupts one of them, and blocks must not age out.
            "target.timeout=250ms",
        ];
        let Some(manifest) = against(name, &experiment, &[], &common) else { continue };
        let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
        assert_eq!(balance.get("unaccounted"), None, "{balance}");
        assert!(number(&counters["sums_ok"]) > 50 && counters["sums_ok"] == counters["packets_received"], "{counters}");
    }
}
