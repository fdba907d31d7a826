//! `pktgen certify`: our own switch and one in C conform, planted defects are found by the clauses that name them and proven by their frames,
//! and docs/certify.md is what the command prints: `UPDATE_DOCS=1 cargo test --release --workspace --test cli certify::`.

mod ending;
mod libra;
mod olaf;
mod performance;
mod trio;

use std::path::{Path, PathBuf};

use crate::support::bench::{Device, SWITCHML, cabled, lockstep};
use crate::support::serving::Serving;
use crate::support::text;
use crate::support::wired::{config, pktgen, said};
use pktgen_certify::{
    Certificate, CertificateProgress, CertifyOptions, CertifyProfile, CertifySettings, ClauseVerdict, MeasurePlan,
    ProgramBench, certify,
};
use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::time::{MS, Time};
use pktgen_engine::clause::{EachFrame, ProbeBench, ProbeWitness};
use pktgen_realtime::run::Experiment;
use pktgen_testing::{Need, eventually, skip};
use pktgen_wire::pcap::Reader;
use serde_json::Value;

const VIRTUAL: &str = "transport.kind=virtual";

/// Runs `pktgen certify` on our switch.
fn ours(folder: &Path, words: &[&str], set: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let file = config("switchml");
    let out = folder.display().to_string();
    let words = [&["certify", &file, "--json", "--out", &out], words].concat();
    let output = pktgen(&[], &words, &[&[VIRTUAL], set].concat()).output().expect("it runs");
    let lines = text(&output.stdout);
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")));
    (output.status.code(), lines.collect(), said(&output))
}

/// Returns the clauses with this verdict.
fn with<'a>(lines: &'a [Value], verdict: &str) -> Vec<&'a str> {
    lines.iter().filter(|line| line["verdict"] == verdict).filter_map(|line| line["clause"].as_str()).collect()
}

const TWO_JOBS: [&str; 2] = ["workload.jobs=2", "target.jobs=several"];

#[test]
fn our_switch_conforms_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (n, (elements, jobs, check)) in
        [("64", true, "true"), ("256", true, "true"), ("256", false, "true"), ("256", false, "false")]
            .into_iter()
            .enumerate()
    {
        let out = folder.path().join(n.to_string());
        let (elements, check) = (format!("workload.elements={elements}"), format!("target.check={check}"));
        let mut set = vec![elements.as_str(), check.as_str()];
        set.extend(if jobs { &TWO_JOBS[..] } else { &[] });
        let (code, lines, said) = ours(&out, &["--repeats", "20"], &set);
        assert_eq!(code, Some(0), "{set:?}: {said}");
        let (clauses, whole) = lines.split_at(lines.len() - 1);
        assert_eq!(whole[0]["conforms"], true, "{said}");
        let exempt: &[&str] = match (jobs, check.ends_with("true")) {
            (true, _) => &[],
            (false, true) => &["switchml-jobs", "switchml-foreign-job"],
            (false, false) => &["switchml-late", "switchml-stale", "switchml-jobs", "switchml-foreign-job"],
        };
        assert_eq!(with(clauses, "not_applicable"), exempt);
        assert_eq!(with(clauses, "passed").len() + exempt.len(), clauses.len(), "{said}");
        for file in ["certificate.json", "certificate.md", "certificate.xml", "experiment.toml"] {
            assert!(out.join(file).is_file(), "{file}");
        }
    }
}

#[test]
fn a_seed_makes_the_same_probes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let digest = |name: &str, seed: &str| {
        let (code, lines, said) = ours(&folder.path().join(name), &["--seed", seed], &[]);
        assert_eq!(code, Some(0), "{said}");
        lines.last().expect("a line")["evidence_sha256"].as_str().expect("a digest").to_owned()
    };
    let first = digest("a", "7");
    assert_eq!(first.len(), 64);
    assert_eq!(first, digest("b", "7"));
    assert_ne!(first, digest("c", "8"));
}

#[test]
fn clauses_are_chosen_by_id_or_number_and_others_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["--clause", "switchml-wrap", "--clause", "2.1", "--repeats", "3"];
    let (code, lines, _) = ours(&folder.path().join("a"), &words, &[]);
    let found: Vec<_> = lines.iter().filter_map(|line| line["clause"].as_str()).collect();
    assert_eq!((code, &found[..]), (Some(0), &["switchml-wrap", "switchml-receivers"][..]));
    assert_eq!(lines[0]["repeats"], 3);
    let (code, _, said) = ours(&folder.path().join("b"), &["--clause", "switchml-warp"], &[]);
    assert!(code == Some(2) && said.contains("did you mean \"switchml-wrap\""), "{said}");
    let (code, _, said) = ours(&folder.path().join("c"), &[], &["transport.kind=ring"]);
    assert!(code == Some(2) && said.contains("virtual"), "{said}");
    // A section selects all its clauses; an unknown one is refused before anything is written.
    let (code, lines, said) = ours(&folder.path().join("d"), &["--clause", "2", "--repeats", "1"], &[]);
    let numbers: Vec<_> = lines.iter().filter_map(|line| line["number"].as_str()).collect();
    assert!(
        code == Some(0) && numbers.len() > 1 && numbers.iter().all(|it| it.starts_with("2.")),
        "{numbers:?}: {said}"
    );
    let whole = lines.last().expect("a line");
    let statement = whole["statement"].as_str().expect("text");
    assert!(whole["conforms"].is_null() && statement.contains(" clauses were not chosen: whether"), "{whole}");
    let nothing = ["--clause", "switchml-sum", "--except", "switchml-sum"];
    let (code, lines, said) = ours(&folder.path().join("n"), &nothing, &[]);
    let whole = lines.last().expect("a line");
    assert!(code == Some(0) && whole["conforms"].is_null() && !said.contains("device conforms,"), "{whole}: {said}");
    let (code, _, said) = ours(&folder.path().join("e"), &["--except", "9"], &[]);
    assert!(code == Some(2) && said.contains("clause \"9\" does not exist"), "{said}");
    assert!(!folder.path().join("e").exists(), "nothing is written");
}

#[test]
fn a_certificate_with_exceptions_says_so_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["--except", "switchml-wrap", "--repeats", "1"];
    let (code, lines, said) = ours(folder.path(), &words, &[]);
    let whole = lines.last().expect("a line");
    let statement = "the device conforms, except: switchml-wrap";
    assert_eq!(
        (code, &whole["conforms"], &whole["excepted"][0]),
        (Some(0), &Value::Null, &"switchml-wrap".into()),
        "{said}"
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("readable");
    let all = [whole["statement"].as_str().expect("text"), &read("certificate.md"), &read("certificate.xml")];
    all.iter().for_each(|text| assert!(text.contains(statement) && !text.contains("conforms\n"), "{text}"));
    assert!(
        read("certificate.md").starts_with("# ")
            && read("certificate.md").lines().next().is_some_and(|it| it.contains(statement))
    );
}

/// The trial's bench: our own device behind a link that no host can saturate.
#[test]
fn our_card_on_wires_never_fails_for_its_speed() {
    let net = match cabled("certfast") {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "our card on a fast link is certified", &why),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, at) = (folder.path().join("card.toml"), |name: &str| folder.path().join(name).display().to_string());
    std::fs::write(&file, OLAF.replace("rate = \"1Mbps\"", "rate = \"10Gbps\"")).expect("writable");
    let file = file.display().to_string();
    let set =
        ["transport.kind=af_packet", "transport.interfaces=[\"h0\",\"e0\",\"e1\",\"h1\"]", "transport.on_wire=strict"];
    let serve =
        pktgen(&net.inside("e"), &["target", &file, "--for", "600s", "--idle", "600s", "--out", &at("device")], &set);
    let device = Serving::start(serve, "our card");
    let words = ["certify", &file, "--json", "--repeats", "2", "--out", &at("out")];
    let output = pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
    drop(device);
    let lines = text_lines(&output.stdout);
    assert!(with(&lines, "failed").is_empty(), "{}", said(&output));
    assert!(with(&lines, "passed").contains(&"olaf-pass"), "{}", said(&output));
    let notes = &lines.last().expect("a line")["notes"];
    assert!(notes.to_string().contains("10Gbps"), "{notes}");
}

/// A change of a frame that a device sends: returns no, one or more frames at ports.
type Bend = fn(u64, u16, &[u8]) -> Vec<(u16, Vec<u8>)>;

/// A bench that changes its device's frames.
struct Bent<'a> {
    inner: ProgramBench<'a>,
    bend: Bend,
    count: u64,
}

impl Bent<'_> {
    fn bent(&mut self, each: EachFrame, act: impl FnOnce(&mut ProgramBench, EachFrame) -> Result<()>) -> Result<()> {
        let Bent { inner, bend, count } = self;
        act(inner, &mut |t, port, bytes| {
            *count += 1;
            bend(*count, port, bytes).iter().for_each(|(port, bytes)| each(t, *port, bytes));
        })
    }
}

impl ProbeWitness for Bent<'_> {}

impl ProbeBench for Bent<'_> {
    fn now(&mut self) -> Time {
        self.inner.now()
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.inner.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.bent(each, |inner, each| inner.pass(span, each))
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.bent(each, |inner, each| inner.settle(each))
    }
    fn restart(&mut self, repeat: u32) -> Result<bool> {
        self.inner.restart(repeat)
    }
    fn lost(&mut self) -> Result<u64> {
        self.inner.lost()
    }
}

/// Options with all clauses of correctness.
fn options() -> CertifyOptions {
    let settings = CertifySettings::of(&mut Document::parse("", "a test").expect("a document")).expect("settings");
    let profile = CertifyProfile::Correctness;
    let plan = MeasurePlan::new(profile, &settings, false);
    CertifyOptions { seed: 0, repeats: None, only: Vec::new(), except: Vec::new(), done: Vec::new(), profile, plan }
}

/// Returns the certificate of our switch behind a change of its frames.
fn bent(bend: Bend) -> Certificate {
    let document = Document::load(Path::new(&config("switchml")), &[VIRTUAL.to_owned()]).expect("an experiment");
    let experiment = Experiment::open(pktgen_registry::all(), document).expect("an experiment");
    let make = || experiment.plan(&experiment.runs[0]);
    let suite = pktgen_registry::all().suites.iter().find(|suite| suite.name == "switchml").expect("a suite");
    let (inner, ground) = ProgramBench::new(suite, 100 * MS, make).expect("a bench");
    let mut bench = Bent { inner, bend, count: 0 };
    let outcomes = certify(suite, &ground, &mut bench, &options(), &mut |_| Ok(())).expect("it runs");
    let config = make().expect("a plan").spec.config;
    Certificate {
        suite: (suite.name, suite.version),
        profile: CertifyProfile::Correctness,
        by: "test".into(),
        device: "a bent <device>".into(),
        experiment: "test".into(),
        seed: 0,
        config,
        notes: Vec::new(),
        outcomes,
        not_chosen: 0,
    }
}

fn failed(certificate: &Certificate) -> Vec<&'static str> {
    let failed = certificate.outcomes.iter().filter(|it| it.verdict == ClauseVerdict::Failed);
    failed.map(|it| it.clause.id).collect()
}

#[test]
fn what_a_failed_clause_saw_is_in_its_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The last value of every third frame is too large by one.
    let mut certificate = bent(|count, port, bytes| {
        let mut bytes = bytes.to_vec();
        if count.is_multiple_of(3) {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }
        vec![(port, bytes)]
    });
    assert!(!certificate.is_whole());
    let mut progress = CertificateProgress::begin(folder.path(), &certificate, "all").expect("writable");
    certificate.outcomes.iter_mut().try_for_each(|outcome| progress.keep(outcome)).expect("writable");
    certificate.write(folder.path()).expect("writable");
    progress.end().expect("it was there");
    let sum = certificate.outcomes.iter().find(|it| it.clause.id == "switchml-sum").expect("the clause");
    assert_eq!(sum.verdict, ClauseVerdict::Failed);
    assert!(sum.why.contains("value 255 of the result: expected ") && sum.why.contains(", observed "), "{}", sum.why);
    assert!(sum.times > 0 && sum.repeats == 10, "{} of {}", sum.times, sum.repeats);
    let mut reader = Reader::open(&folder.path().join("switchml-sum.pcapng")).expect("a capture");
    let mut frames = 0;
    while let Some(packet) = reader.next().expect("readable") {
        assert_eq!(packet.bytes.len(), 1076);
        frames += 1;
    }
    assert_eq!(frames, sum.evidence.len());
    assert!(reader.interfaces().len() > 4, "ports in both directions");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("readable");
    let xml = read("certificate.xml");
    let found = failed(&certificate).len();
    assert!(xml.contains(&format!("failures=\"{found}\"")) && xml.contains("a bent &lt;device&gt;"), "{xml}");
    let page = read("certificate.md");
    assert!(page.contains("does not conform") && page.contains("[switchml-sum.pcapng]"), "{page}");
    let json: Value = serde_json::from_str(&read("certificate.json")).expect("JSON");
    assert_eq!(json["failed"], found);
    assert_eq!(json["clauses"][0]["evidence"], "switchml-sum.pcapng");
}

#[test]
fn a_device_that_does_nothing_passes_nothing_that_needs_results() {
    let certificate = bent(|_, _, _| Vec::new());
    let passed = certificate.outcomes.iter().filter(|it| it.verdict == ClauseVerdict::Passed);
    assert_eq!(passed.map(|it| it.clause.id).collect::<Vec<_>>(), Vec::<&str>::new());
    let undecided = certificate.outcomes.iter().filter(|it| it.verdict == ClauseVerdict::NotDecidable);
    assert!(undecided.clone().count() > 3);
    assert!(
        undecided.clone().all(|it| it.why.contains("no result")),
        "{:?}",
        undecided.map(|it| &it.why).collect::<Vec<_>>()
    );
}

#[test]
fn copies_and_losses_are_failures_of_the_clause_on_receivers() {
    let twice: Bend = |_, port, bytes| vec![(port, bytes.to_vec()), (port, bytes.to_vec())];
    let elsewhere: Bend = |_, port, bytes| vec![((port + 1) % 4, bytes.to_vec())];
    for bend in [twice, elsewhere] {
        let certificate = bent(bend);
        assert!(failed(&certificate).contains(&"switchml-again-complete"), "{:?}", failed(&certificate));
    }
    assert!(failed(&bent(twice)).contains(&"switchml-receivers"));
}

/// Certifies the switch in C on a veth pair, with these arguments and clauses: exit code, lines, messages.
fn c_switch(words: &[&str], clauses: &[&str]) -> Option<(Option<i32>, Vec<Value>, String)> {
    let net = match cabled("certify") {
        Ok(net) => net,
        Err(why) => {
            skip(Need::Netns, "a switch in C is certified", &why);
            return None;
        }
    };
    let switch =
        ["--in", "e0", "--protocol", "switchml", "--first", "10.40.0.1", "--workers", "4", "--group", "239.40.0.0"];
    let device = Device::start(&net, &[&switch[..], words].concat());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/support/bench/switchml.toml");
    let out = folder.path().join("out").display().to_string();
    let experiment = experiment.display().to_string();
    let words = [&["certify", &experiment, "--json", "--out", &out], clauses].concat();
    let output = pktgen(&net.inside("h"), &words, &["target.check=false"]).output().expect("it runs");
    drop(device);
    let lines = text(&output.stdout);
    let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Some((output.status.code(), lines, said(&output)))
}

#[test]
fn a_switch_in_c_conforms_on_wires() {
    let Some((code, lines, said)) = c_switch(&[], &[]) else { return };
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(with(&lines, "not_applicable").len(), 4, "{said}");
}

#[test]
fn faults_of_a_switch_in_c_are_found_on_wires() {
    for (words, clause) in [
        (&["--wrong", "1"][..], "switchml-sum"),
        (&["--fault", "duplicate", "--share", "1"], "switchml-receivers"),
        (&["--fault", "drop", "--share", "1"], "switchml-sum"),
    ] {
        let Some((code, lines, said)) = c_switch(words, &["--clause", clause]) else { return };
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(with(&lines, "failed").contains(&clause), "{words:?}: {said}");
    }
}

/// OLAF in virtual time with more clusters than slots, a slow output, and workers that send each update once.
const OLAF: &str = r#"
name = "card"
[workload]
clusters = 8
workers_per_cluster = 4
updates = 10
bytes = "256B"
[schedule]
offered = "1Mbps"
[topology]
rate = "1Mbps"
[target]
program = "olaf"
queue = "olaf"
slots = 5
"#;

#[test]
fn our_card_conforms_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("card.toml"), OLAF).expect("writable");
    for (n, (set, exempt)) in [
        (&[][..], &["olaf-output"][..]),
        (
            &["target.reward_filter=false", "target.merged_reward=max"],
            &["olaf-output", "olaf-reward-higher", "olaf-reward-lower"],
        ),
        (&["target.slot_in_transmission=false"], &["olaf-output"]),
        (&["target.slots=8"], &["olaf-output", "olaf-full", "olaf-full-merge"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (file, out) = (folder.path().join("card.toml"), folder.path().join(n.to_string()));
        let words =
            ["certify", &file.display().to_string(), "--json", "--repeats", "20", "--out", &out.display().to_string()];
        let output = pktgen(&[], &words, set).output().expect("it runs");
        let lines: Vec<Value> =
            text(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(output.status.code(), Some(0), "{set:?}: {}", said(&output));
        assert_eq!(with(&lines, "not_applicable"), exempt, "{set:?}");
        assert_eq!(with(&lines, "passed").len() + exempt.len() + 1, lines.len(), "{}", said(&output));
    }
}

/// A threshold's device has OLAF's packets, and other rules: an update alone waits.
#[test]
fn programs_with_the_packets_of_others_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("threshold.toml"), folder.path().join("out"));
    let threshold = "program = \"iswitch\"\nthreshold = 2";
    std::fs::write(&file, OLAF.replace("program = \"olaf\"\nqueue = \"olaf\"", threshold)).expect("writable");
    let words = ["certify", &file.display().to_string(), "--out", &out.display().to_string()];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no clauses for devices of target.program = \"iswitch\"; use one of olaf or forward"),
        "{said}"
    );
    assert!(!out.exists(), "nothing is written");
}

/// The experiment is in virtual time, so that is no advice.
#[test]
fn networks_of_several_devices_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("two.toml"), folder.path().join("out"));
    let chain = "kind = \"custom\"\nhosts = [\"h 0-31\"]\ndevices = [\"a\", \"b\"]\n\
                 links = [\"h a 1Gbps\", \"a b 1Mbps\", \"b ps 1Mbps\"]";
    std::fs::write(&file, OLAF.replace("[topology]\nrate = \"1Mbps\"", &format!("[topology]\n{chain}")))
        .expect("writable");
    let words = ["certify", &file.display().to_string(), "--out", &out.display().to_string()];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a device is certified alone, and this network has 2"), "{said}");
    assert!(!said.contains("virtual time"), "{said}");
    assert!(!out.exists(), "nothing is written");
}

/// Certifies the card in C, which has no path back from the server, behind a slow link: exit code, lines, messages.
fn c_card(words: &[&str]) -> Option<(Option<i32>, Vec<Value>, String)> {
    let net = match cabled("certcard") {
        Ok(net) => net,
        Err(why) => {
            skip(Need::Netns, "a card in C is certified", &why);
            return None;
        }
    };
    let card =
        "--in e0 --out e1 --protocol olaf-strict --first 10.20.0.1 --workers 24 --per-cluster 3 --slots 5 --mbps 0.5";
    let card: Vec<_> = card.split(' ').collect();
    let device = Device::start(&net, &[&card[..], words].concat());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/support/bench/olaf.toml");
    let out = folder.path().join("out").display().to_string();
    let mut words = vec!["certify", experiment.to_str().expect("UTF-8"), "--json", "--out", &out, "--repeats", "2"];
    words.extend(["olaf-ack-workers", "olaf-ack-state", "olaf-ack-model"].iter().flat_map(|id| ["--except", id]));
    let set = [
        "workload.clusters=8",
        "topology.rate=500kbps",
        "target.slots=5",
        "target.slot_in_transmission=false",
        "target.reward_filter=false",
    ];
    let output = pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
    drop(device);
    let lines = text(&output.stdout);
    let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Some((output.status.code(), lines, said(&output)))
}

#[test]
fn a_card_in_c_conforms_on_wires() {
    let Some((code, lines, said)) = c_card(&[]) else { return };
    assert!(with(&lines, "failed").is_empty(), "{said}");
    // On a busy machine a probe may be too slow for the output.
    assert!(code == Some(0) || with(&lines, "not_decidable").len() <= 2, "{said}");
}

#[test]
fn faults_of_a_card_in_c_are_found_on_wires() {
    let Some((code, lines, said)) = c_card(&["--wrong", "1"]) else { return };
    assert!(code == Some(1) && with(&lines, "failed").contains(&"olaf-merge"), "{said}");
}

/// Certifies an experiment whose device is another process, in a folder: exit code, lines, messages.
fn in_lockstep(name: &str, words: &[&str], set: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    in_lockstep_with(name, words, &[], set)
}

/// The same with options of the certificate.
fn in_lockstep_with(name: &str, words: &[&str], options: &[&str], set: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("x.toml"), folder.path().join("out").display().to_string());
    let text = match name {
        "olaf" => OLAF.replace("workers_per_cluster = 4", "workers_per_cluster = 3"),
        "libra" => libra::SPARSE.replace("program = \"libra\"", "add = \"exact\""),
        "trio_ml" => SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32"),
        _ => SWITCHML.into(),
    };
    std::fs::write(&file, text).expect("writable");
    let command = serde_json::json!([&[lockstep().to_str().expect("a path")], words].concat()).to_string();
    let (command, file) = (format!("target.lockstep.command={command}"), file.display().to_string());
    let set = [&["target.kind=external", "target.reward_filter=false", &command], set].concat();
    let set: Vec<_> = set.into_iter().filter(|it| name == "olaf" || !it.contains("reward")).collect();
    let mut words = vec!["certify", &file, "--json", "--allow-launch", "--out", &out];
    // The card in C stamps no ACKs, and sends them to one worker only.
    let acks = ["olaf-ack-workers", "olaf-ack-state", "olaf-ack-model"].iter().flat_map(|id| ["--except", id]);
    words.extend(acks.filter(|_| name == "olaf"));
    words.extend(options);
    let output = pktgen(&[], &words, &set).output().expect("it runs");
    let lines = text_lines(&output.stdout);
    (output.status.code(), lines, said(&output))
}

fn text_lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn devices_in_lockstep_conform_or_fail_the_clause_that_names_their_fault() {
    let switch = ["--ports", "4", "--protocol", "switchml", "--workers", "4"];
    let card = ["--ports", "2", "--up", "1", "--workers", "24", "--per-cluster", "3", "--slots", "5"];
    let card = [&card[..], &["--protocol", "olaf-strict", "--mbps", "4"]].concat();
    for (name, words, clause) in [("switchml", &switch[..], "switchml-sum"), ("olaf", &card[..], "olaf-merge")] {
        let set: &[&str] =
            if name == "olaf" { &["target.slot_in_transmission=false"] } else { &["target.check=false"] };
        let (code, lines, said) = in_lockstep(name, words, set);
        assert_eq!(code, Some(0), "{said}");
        assert!(with(&lines, "passed").contains(&clause), "{said}");
        let (code, lines, said) = in_lockstep(name, &[words, &["--wrong", "1"]].concat(), set);
        assert!(code == Some(1) && with(&lines, "failed").contains(&clause), "{said}");
    }
    // Each device is a process of its own, and none is started without permission.
    let (code, lines, said) =
        in_lockstep("switchml", &["--ports", "4", "--protocol", "switchml", "--workers", "3"], &[]);
    assert!(code == Some(1) && with(&lines, "failed").contains(&"switchml-complete"), "{said}");
}

#[test]
fn a_device_that_does_not_start_leaves_no_certificate_under_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("x.toml"), folder.path().join("out"));
    std::fs::write(&file, SWITCHML).expect("writable");
    let (file, path) = (file.display().to_string(), out.display().to_string());
    let certify = |program: &str, words: &[&str]| {
        let command = serde_json::json!([program, "--ports", "4", "--protocol", "switchml", "--workers", "4"]);
        let command = format!("target.lockstep.command={command}");
        let words = [&["certify", &file, "--out", &path], words].concat();
        let output = pktgen(&[], &words, &["target.kind=external", "target.check=false", &command]).output();
        let output = output.expect("it runs");
        (output.status.code(), said(&output))
    };
    let switch = lockstep();
    let switch = switch.to_str().expect("a path");
    for (program, words, says) in
        [(switch, &[][..], "--allow-launch"), ("/no/such/program", &["--allow-launch"][..], "cannot be started")]
    {
        let (code, said) = certify(program, words);
        assert!(code > Some(1) && said.contains(says), "{code:?}: {said}");
        assert!(!out.join("progress.json").exists(), "{program}");
    }
    // Other clauses are free to choose.
    let (code, said) = certify(switch, &["--allow-launch", "--clause", "switchml-sum", "--repeats", "1"]);
    assert!(code == Some(0) && out.join("certificate.json").exists(), "{code:?}: {said}");
}

/// The same command goes on: its device waits while a file is missing.
#[test]
fn a_certificate_that_was_killed_while_its_device_starts_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, out, started, go] = ["x.toml", "out", "started", "go"].map(|name| folder.path().join(name));
    std::fs::write(&file, SWITCHML).expect("writable");
    let switch = format!("exec '{}' --ports 4 --protocol switchml --workers 4", lockstep().display());
    let script = format!("test -e '{}' && {switch}; touch '{}'; exec sleep 600", go.display(), started.display());
    let command = format!("target.lockstep.command={}", serde_json::json!(["/bin/sh", "-c", script]));
    let (file, path) = (file.display().to_string(), out.display().to_string());
    let words = ["certify", &file, "--out", &path, "--allow-launch", "--clause", "switchml-sum", "--repeats", "1"];
    let set = ["target.kind=external", "target.check=false", &command];
    // The folder of its socket stays.
    let mut child = pktgen(&[], &words, &set).env("TMPDIR", folder.path()).spawn().expect("it starts");
    eventually("the device starts", || started.exists());
    child.kill().expect("it is alive or was");
    child.wait().expect("it ended");
    std::fs::write(&go, "").expect("writable");
    let output = pktgen(&[], &words, &set).output().expect("it runs");
    let (code, said) = (output.status.code(), said(&output));
    assert!(code == Some(0) && out.join("certificate.json").exists(), "{code:?}: {said}");
    assert_eq!([".claimed", "progress.json"].map(|name| out.join(name).exists()), [false; 2]);
}

/// The switch in C answers at the time of the frame.
#[test]
fn latency_in_lockstep_begins_when_the_frame_arrives_at_the_device() {
    let switch = ["--ports", "4", "--protocol", "switchml", "--workers", "4"];
    let options = ["--clause", "switchml-throughput", "--clause", "switchml-latency", "--repeats", "1"];
    let (code, lines, said) =
        in_lockstep_with("switchml", &switch, &options, &["target.check=false", "certify.trial=2ms"]);
    assert_eq!(code, Some(0), "{said}");
    let latency = lines.iter().find(|line| line["clause"] == "switchml-latency").expect("the clause");
    for name in ["least_at_10", "most_at_10"] {
        let measured = latency["measured"].as_array().expect("numbers").iter().find(|it| it["name"] == name);
        assert_eq!(measured.and_then(|it| it["value"].as_f64()), Some(0.0), "{name}: {latency}");
    }
}

/// The pool of an external device is a single fact, whichever key sets it.
#[test]
fn an_external_device_has_the_pool_of_its_workers() {
    let switch = ["--ports", "4", "--protocol", "switchml", "--workers", "4"];
    let (code, lines, said) = in_lockstep("switchml", &switch, &["certify.repeats=2"]);
    assert_eq!(code, Some(0), "{said}");
    // Checks of our own program beyond the public one are no clauses for foreign devices.
    assert_eq!(with(&lines, "not_applicable")[..2], ["switchml-late", "switchml-stale"], "{said}");
    let (code, _, said) = in_lockstep("switchml", &switch, &["target.pool=64"]);
    assert!(code == Some(2) && said.contains("endpoint.pool = 32 and target.pool = 64"), "{said}");
    let (code, lines, said) = in_lockstep("switchml", &switch, &["target.check=true", "certify.repeats=2"]);
    let late = lines.iter().find(|line| line["clause"] == "switchml-late").expect("the clause");
    assert!(
        code == Some(1) && late["why"].as_str().is_some_and(|why| why.ends_with("fits target.check = false")),
        "{late}: {said}"
    );
}

#[test]
fn a_certificate_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (out, whole) = (folder.path().join("killed"), folder.path().join("whole"));
    let words = ["--repeats", "200", "--clause", "1.1", "--clause", "1.5", "--clause", "2.1", "--clause", "4.2"];
    let (file, path) = (config("switchml"), out.display().to_string());
    let all = [&["certify", &file, "--json", "--out", &path], &words[..]].concat();
    let mut child = pktgen(&[], &all, &[VIRTUAL]).spawn().expect("it starts");
    let progress = out.join("progress.json");
    let kept = || std::fs::read_to_string(&progress).map_or(0, |text| text.matches("\"first\"").count());
    eventually("a clause is kept", || kept() > 0);
    child.kill().expect("it is alive or was");
    child.wait().expect("it ended");
    let before = kept();
    if before > 0 {
        let other = ours(&out, &[&words[..], &["--seed", "99"]].concat(), &[]);
        assert!(other.0 == Some(2) && other.2.contains("seed"), "{}", other.2);
        let other = ours(&out, &["--clause", "1.1", "--except", "2"], &[]);
        let says = "with clauses --clause 1.1 --clause 1.5 --clause 2.1 --clause 4.2 --repeats 200, and this one has --clause 1.1 --except 2;";
        assert!(other.0 == Some(2) && other.2.contains(says), "{}", other.2);
        let held = std::fs::File::open(&out).expect("the folder");
        held.lock().expect("a lock");
        let beside = ours(&out, &words, &[]);
        assert!(beside.0 == Some(1) && beside.2.contains("still under way"), "{}", beside.2);
    }
    let (code, lines, said) = ours(&out, &words, &[]);
    // The process may have ended before the kill: then the folder is not empty.
    assert!(code == Some(0) || before == 0 && code == Some(2), "{said}");
    if before > 0 {
        assert!(said.contains(&format!("{before} clauses were carried out before")), "{said}");
        let (_, others, _) = ours(&whole, &words, &[]);
        assert_eq!(lines.last().expect("a line")["evidence_sha256"], others.last().expect("a line")["evidence_sha256"]);
        assert!(!progress.exists() && out.join("certificate.json").exists());
    }
}

#[test]
fn settings_of_certificates_have_ranges() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (set, says) in [
        ("certify.silence=0ms", "certify.silence"),
        ("certify.late=2h", "certify.late"),
        ("certify.repeats=0", "certify.repeats"),
        ("certify.flood=0s", "certify.flood"),
        ("certify.patients=1s", "patience"),
    ] {
        let (code, _, said) = ours(&folder.path().join("x"), &[], &[set]);
        assert!(code == Some(2) && said.contains(says), "{set}: {said}");
    }
    let (code, lines, said) = ours(&folder.path().join("y"), &["--clause", "1.1"], &["certify.repeats=3"]);
    assert_eq!((code, &lines[0]["repeats"]), (Some(0), &Value::from(3)), "{said}");
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/certify.md")
}

#[test]
fn the_page_is_what_the_command_prints() {
    let output = pktgen(&[], &["certify", "--markdown"], &[]).output().expect("it runs");
    let fresh = text(&output.stdout);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page(), fresh).expect("writable");
        return;
    }
    let shown = std::fs::read_to_string(page()).expect("docs/certify.md");
    assert!(shown == fresh, "docs/certify.md is old; run with UPDATE_DOCS=1 and review the difference");
}
