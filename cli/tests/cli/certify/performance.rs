//! Performance clauses: links of known rate, an output of ours with a queue of known length, goals, profiles.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_certify::{
    Certificate, CertificateProgress, CertifyProfile, CertifySettings, ClauseOutcome, ClauseVerdict, MeasurePlan,
    ProgramBench, certify,
};
use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::time::{MS, NEVER, Time, US};
use pktgen_engine::clause::{EachFrame, ProbeBench, ProbeWitness};
use pktgen_realtime::run::Experiment;
use serde_json::Value;

use super::{OLAF, VIRTUAL, options, ours, text_lines};
use crate::support::bench::{SWITCHML, lockstep};
use crate::support::wired::{config, pktgen, said};

/// A device behind an output that sends one frame to each port per service time, and has room for `room` waiting frames.
struct Narrow<'a> {
    inner: ProgramBench<'a>,
    service: Time,
    room: usize,
    /// One in `wrong` results has a wrong value; none if 0.
    wrong: u64,
    count: u64,
    busy: BTreeMap<u16, Time>,
    held: BTreeMap<(Time, u64), (u16, Vec<u8>)>,
}

impl Narrow<'_> {
    fn act(&mut self, act: impl FnOnce(&mut ProgramBench, EachFrame) -> Result<()>) -> Result<()> {
        let Narrow { inner, service, room, wrong, count, busy, held } = self;
        act(inner, &mut |t, port, bytes| {
            *count += 1;
            let free = busy.get(&port).copied().unwrap_or(0).max(t);
            let waiting = (free - t + *service - 1) / *service;
            // One of the frames is in transmission.
            if waiting > *room as Time {
                return;
            }
            let mut bytes = bytes.to_vec();
            if *wrong > 0 && count.is_multiple_of(*wrong) {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
            }
            busy.insert(port, free + *service);
            held.insert((free + *service, *count), (port, bytes));
        })
    }

    /// Passes on the frames that have left by now.
    fn leave(&mut self, each: EachFrame) -> bool {
        let now = self.inner.now();
        let later = self.held.split_off(&(now + 1, 0));
        let left = std::mem::replace(&mut self.held, later);
        left.iter().for_each(|((t, _), (port, bytes))| each(*t, *port, bytes));
        !left.is_empty()
    }

    fn first(&self) -> Time {
        self.held.keys().next().map_or(NEVER, |(t, _)| *t)
    }
}

impl ProbeWitness for Narrow<'_> {}

impl ProbeBench for Narrow<'_> {
    fn now(&mut self) -> Time {
        self.inner.now()
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.inner.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.act(|inner, each| inner.pass(span, each))?;
        self.leave(each);
        Ok(())
    }
    fn next_frame(&mut self, until: Time, each: EachFrame) -> Result<()> {
        loop {
            let limit = self.first().min(until);
            self.act(|inner, each| inner.next_frame(limit, each))?;
            if self.leave(each) || self.inner.now() >= until {
                return Ok(());
            }
        }
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.act(|inner, each| inner.settle(each))?;
        let last = self.held.keys().last().map_or(0, |(t, _)| *t);
        let span = (last - self.inner.now()).max(0);
        self.act(|inner, each| inner.pass(span, each))?;
        self.leave(each);
        Ok(())
    }
    fn restart(&mut self, repeat: u32) -> Result<bool> {
        self.busy.clear();
        self.held.clear();
        self.inner.restart(repeat)
    }
    fn lost(&mut self) -> Result<u64> {
        self.inner.lost()
    }
}

/// Returns the certificate of our switch behind such an output, with these settings, for the performance clauses.
fn narrow(service: Time, room: usize, wrong: u64, set: &[&str]) -> Certificate {
    let set: Vec<_> = [&[VIRTUAL], set].concat().into_iter().map(str::to_owned).collect();
    let document = Document::load(Path::new(&config("switchml")), &set).expect("an experiment");
    let settings = CertifySettings::of(&mut document.clone()).expect("settings");
    let experiment = Experiment::open(pktgen_registry::all(), document).expect("an experiment");
    let make = || experiment.plan(&experiment.runs[0]);
    let suite = pktgen_registry::all().suites.iter().find(|suite| suite.name == "switchml").expect("a suite");
    let (inner, ground) = ProgramBench::new(suite, 100 * MS, make).expect("a bench");
    let mut bench = Narrow { inner, service, room, wrong, count: 0, busy: BTreeMap::new(), held: BTreeMap::new() };
    let clauses = suite.numbered().filter(|(_, clause)| clause.measure.is_some());
    let mut options = options();
    options.only = clauses.map(|(_, clause)| clause.id.to_owned()).collect();
    options.repeats = Some(2);
    options.plan = MeasurePlan::new(CertifyProfile::Correctness, &settings, false);
    let outcomes = certify(suite, &ground, &mut bench, &options, &mut |_| Ok(())).expect("it runs");
    Certificate {
        suite: (suite.name, suite.version),
        profile: CertifyProfile::Full,
        by: "test".into(),
        device: "a narrow device".into(),
        experiment: "test".into(),
        seed: 0,
        config: String::new(),
        notes: Vec::new(),
        outcomes,
        not_chosen: 0,
    }
}

fn outcome<'a>(certificate: &'a Certificate, id: &str) -> &'a ClauseOutcome {
    certificate.outcomes.iter().find(|it| it.clause.id == id).unwrap_or_else(|| panic!("no {id}"))
}

fn number(outcome: &ClauseOutcome, name: &str) -> f64 {
    let found = outcome.measured.iter().find(|it| it.name == name);
    found.and_then(|it| it.value).unwrap_or_else(|| panic!("no {name}: {}", outcome.line()))
}

const WORKERS: f64 = 4.0;

#[test]
fn an_output_that_is_known_is_measured() {
    let (service, room) = (10 * US, 4);
    let certificate = narrow(service, room, 0, &["certify.trial=50ms", "target.pool=32", "endpoint.pool=32"]);
    let throughput = outcome(&certificate, "switchml-throughput");
    let (lower, upper) = (number(throughput, "lower_bound"), number(throughput, "upper_bound"));
    let link = WORKERS / 10e-6;
    // If nothing waits beyond the room, a trial may exceed the link by the frames in transit at its end.
    let slack = 1.0 + (room as f64 + 1.0) * 10e-6 / 50e-3;
    assert!(lower <= link * slack && upper >= link && upper <= lower * 1.05, "{}", throughput.line());
    assert_eq!(number(throughput, "conditional_throughput"), lower);
    assert_eq!(throughput.verdict, ClauseVerdict::Measured);
    // One frame in transmission, and as many waiting as there is room for.
    let burst = outcome(&certificate, "switchml-back-to-back");
    let known = (room as f64 + 1.0) * WORKERS;
    for name in ["shortest", "average", "longest", "limit"] {
        assert_eq!(number(burst, name), known, "{}", burst.line());
    }
    assert_eq!(number(burst, "standard_deviation"), 0.0);
    // At a tenth of the rate, no frame waits.
    let latency = outcome(&certificate, "switchml-latency");
    let least = number(latency, "least_at_10");
    assert!((10.0..12.0).contains(&least), "{}", latency.line());
    assert!((number(latency, "most_at_10") - least).abs() < 0.01, "{}", latency.line());
    assert!(number(latency, "p99_at_90") >= least && number(latency, "loss_at_90") == 0.0, "{}", latency.line());
    // Each worker receives its copies one after the other.
    let recovery = outcome(&certificate, "switchml-recovery");
    let window = (room as f64 + 1.0) * 10.0;
    assert!((window..window + 5.0).contains(&number(recovery, "longest")), "{}", recovery.line());
    assert_eq!(outcome(&certificate, "switchml-isolation").verdict, ClauseVerdict::NotApplicable);
    assert!(certificate.is_whole());
}

#[test]
fn a_window_that_fits_the_queue_is_the_limit_of_bursts_and_unsent_contributions_of_rates() {
    let certificate = narrow(10 * US, 64, 0, &["certify.trial=50ms", "target.pool=32", "endpoint.pool=32"]);
    let burst = outcome(&certificate, "switchml-back-to-back");
    assert_eq!(number(burst, "shortest"), 32.0 * WORKERS);
    let limit = burst.measured.iter().find(|it| it.name == "limit").expect("it is there");
    assert!(
        limit.value.is_none() && limit.why.as_deref().is_some_and(|why| why.contains("window")),
        "{}",
        burst.line()
    );
    let throughput = outcome(&certificate, "switchml-throughput");
    let link = WORKERS / 10e-6;
    let (lower, upper) = (number(throughput, "lower_bound"), number(throughput, "upper_bound"));
    assert!(upper >= link && lower <= link * (1.0 + 33.0 * 10e-6 / 50e-3), "{}", throughput.line());
    let accounts = throughput.trials["accounts"].as_array().expect("accounts");
    let failed = accounts.iter().filter(|one| one["forwarded"] != one["offered"]);
    assert!(failed.clone().count() > 0 && failed.clone().all(|one| one["unsent"].as_u64() > Some(0)));
    for one in accounts {
        let count = |key: &str| one[key].as_u64().expect("a count");
        assert_eq!(count("forwarded") + count("unsent") + count("wrong") + count("lost"), count("offered"), "{one}");
    }
}

#[test]
fn wrong_sums_are_losses_and_goals_are_judged() {
    let set = ["certify.trial=2ms", "certify.throughput=1000", "certify.burst=4"];
    // Every copy is wrong: no rate passes, and no burst.
    let certificate = narrow(US, 64, 1, &set);
    let throughput = outcome(&certificate, "switchml-throughput");
    assert_eq!(throughput.verdict, ClauseVerdict::NotDecidable, "{}", throughput.line());
    assert!(throughput.measured.is_empty() && !throughput.why.is_empty(), "{}", throughput.line());
    let burst = outcome(&certificate, "switchml-back-to-back");
    assert_eq!(burst.verdict, ClauseVerdict::Failed, "{}", burst.line());
    assert!(burst.why.contains("at least 4 (certify.burst), observed 0"), "{}", burst.line());
    assert_eq!((burst.times, burst.repeats), (2, 2), "{}", burst.line());
    assert_eq!(certificate.statement(), "a clause failed");
    assert_eq!(outcome(&certificate, "switchml-latency").verdict, ClauseVerdict::NotDecidable);
    let right = narrow(US, 64, 0, &set);
    assert_eq!(outcome(&right, "switchml-throughput").verdict, ClauseVerdict::Passed);
    assert_eq!(outcome(&right, "switchml-back-to-back").verdict, ClauseVerdict::Passed);
    let mut asked = narrow(10 * US, 64, 0, &["certify.throughput=1e6", "certify.latency=1us", "certify.recovery=1us"]);
    for id in ["switchml-throughput", "switchml-latency", "switchml-recovery"] {
        let own = outcome(&asked, id);
        assert!(own.verdict == ClauseVerdict::Failed && own.why.contains("(certify."), "{}", own.line());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut progress = CertificateProgress::begin(folder.path(), &asked, "all").expect("writable");
    asked.outcomes.iter_mut().try_for_each(|outcome| progress.keep(outcome)).expect("writable");
    asked.write(folder.path()).expect("writable");
    let page = std::fs::read_to_string(folder.path().join("certificate.md")).expect("a page");
    assert!(page.contains("; trials in [switchml-throughput.json](switchml-throughput.json)"), "{page}");
}

#[test]
fn measurements_are_in_all_files_and_kept_when_a_certificate_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut certificate = narrow(10 * US, 4, 0, &["certify.trial=2ms"]);
    let mut progress = CertificateProgress::begin(folder.path(), &certificate, "all").expect("writable");
    certificate.outcomes.iter_mut().try_for_each(|outcome| progress.keep(outcome)).expect("writable");
    let suite = pktgen_registry::all().suites.iter().find(|suite| suite.name == "switchml").expect("a suite");
    let (progress, kept) = CertificateProgress::resume(folder.path(), &certificate, "all", suite).expect("the same");
    assert_eq!(kept.len(), certificate.outcomes.len());
    for (kept, own) in kept.iter().zip(&certificate.outcomes) {
        assert_eq!((&kept.measured, kept.verdict, &kept.digest), (&own.measured, own.verdict, &own.digest));
    }
    certificate.write(folder.path()).expect("writable");
    progress.end().expect("it was there");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("readable");
    let json: Value = serde_json::from_str(&read("certificate.json")).expect("JSON");
    let lower = json["clauses"][0]["measured"][0].clone();
    assert_eq!((&lower["name"], &lower["unit"]), (&"lower_bound".into(), &"contributions/s".into()), "{lower}");
    let value = lower["value"].as_f64().expect("a number");
    assert!(read("certificate.md").contains(&format!("| lower_bound | {value} | contributions/s |")));
    assert!(
        read("certificate.xml")
            .contains(&format!("<property name=\"lower_bound\" value=\"{value} contributions/s\"/>"))
    );
    let trials: Value = serde_json::from_str(&read("switchml-throughput.json")).expect("JSON");
    let loads = trials["loads"].as_array().expect("loads");
    assert!(loads.iter().any(|load| load["pps"] == lower["value"] && load["class"] == "lower"), "{trials}");
}

/// Results of two methods are not comparable: they are not in one certificate.
#[test]
fn a_certificate_of_another_method_is_not_resumed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificate = narrow(10 * US, 4, 0, &["certify.trial=2ms"]);
    CertificateProgress::begin(folder.path(), &certificate, "all").expect("writable");
    let suite = pktgen_registry::all().suites.iter().find(|suite| suite.name == "switchml").expect("a suite");
    let path = folder.path().join("progress.json");
    let text = std::fs::read_to_string(&path).expect("readable");
    let begun: Value = serde_json::from_str(&text).expect("JSON");
    // Older files have no version of the method.
    for (before, said) in [(Value::from(3), "method_version 3"), (Value::Null, "method_version null")] {
        let mut other = begun.clone();
        other["of"]["method_version"] = before;
        std::fs::write(&path, other.to_string()).expect("writable");
        let resumed = CertificateProgress::resume(folder.path(), &certificate, "all", suite);
        let why = resumed.err().expect("another method").to_string();
        assert!(why.contains(said), "{why}");
    }
    std::fs::write(&path, text).expect("writable");
    assert!(CertificateProgress::resume(folder.path(), &certificate, "all", suite).is_ok());
}

#[test]
fn a_quick_certificate_is_no_conformance() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, lines, said) = ours(&folder.path().join("a"), &["--profile", "quick"], &["certify.trial=1ms"]);
    let whole = lines.last().expect("a line");
    assert_eq!((code, &whole["conforms"], &whole["profile"]), (Some(0), &Value::Null, &"quick".into()), "{said}");
    assert_eq!((&whole["method_version"], &whole["measured"]), (&4.into(), &1.into()));
    assert!(said.contains("of the device's time at most"), "{said}");
    assert!(lines.iter().all(|line| line["repeats"].as_u64().unwrap_or_default() <= 2));
    let page = std::fs::read_to_string(folder.path().join("a/certificate.md")).expect("a page");
    assert!(page.contains("profile quick is no conformance"), "{page}");
    let goal = ["certify.trial=1ms", "certify.throughput=1e9"];
    let (code, lines, said) = ours(&folder.path().join("b"), &["--clause", "switchml-throughput"], &goal);
    assert!(code == Some(1) && lines[0]["verdict"] != "passed", "{said}");
}

/// Returns OLAF's performance in virtual time, as a number by clause and name.
fn card(set: &[&str], clauses: &[&str]) -> (impl Fn(&str, &str) -> Option<f64>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("card.toml"), folder.path().join("out").display().to_string());
    std::fs::write(&file, OLAF).expect("writable");
    let mut words = vec!["certify", file.to_str().expect("UTF-8"), "--json", "--repeats", "2", "--out", &out];
    words.extend(clauses.iter().flat_map(|id| ["--clause", id]));
    let output = pktgen(&[], &words, set).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines = text_lines(&output.stdout);
    let find = move |clause: &str, name: &str| {
        let line = lines.iter().find(|line| line["clause"] == clause)?;
        line["measured"].as_array()?.iter().find(|it| it["name"] == name)?["value"].as_f64()
    };
    (find, said(&output))
}

#[test]
fn a_card_has_the_rate_of_its_link_and_the_bursts_of_its_slots() {
    let all = ["olaf-throughput", "olaf-back-to-back", "olaf-latency", "olaf-recovery", "olaf-sharing", "olaf-age"];
    for (set, burst) in [(&[][..], 5.0), (&["target.slot_in_transmission=false"], 6.0)] {
        let (number, said) = card(set, &all);
        let get = |clause, name| number(clause, name).unwrap_or_else(|| panic!("no {name} of {clause}: {said}"));
        let (lower, upper) = (get("olaf-throughput", "lower_bound"), get("olaf-throughput", "upper_bound"));
        // 264 B at 1 Mbit/s, with the link's framing. Frames that wait at the end of a trial add at most the precision.
        let link = 1e6 / (264.0 * 8.0);
        assert!(upper >= link && lower <= link * 1.05 && upper <= lower * 1.05, "{lower} {upper} {link}: {said}");
        assert_eq!(get("olaf-back-to-back", "shortest"), burst, "{said}");
        assert_eq!(get("olaf-latency", "loss_at_90"), 0.0);
        // At half the load, a full queue empties in twice the time of its updates.
        let recovery = get("olaf-recovery", "longest");
        assert!(recovery <= 2.0 * burst * 1e6 / link, "{recovery}");
        // Far below the throughput no frame waits: the age is half the time between updates of a cluster, plus their transit time.
        let (rate, clusters) = (0.1 * lower, 9.0);
        let (gap, age) = (clusters / rate * 1e6, get("olaf-age", "age_at_10"));
        assert!((age - gap / 2.0).abs() < 0.35 * gap, "{age} {gap}: {said}");
        assert!(get("olaf-age", "age_at_50") < age && get("olaf-age", "oldest_at_10") >= age, "{said}");
        let names = ["unmerged", "merged", "replaced", "lost", "replaced_or_lost", "wrong"];
        let shares = names.map(|name| get("olaf-sharing", name));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares[1] > 0.1 && shares[5] == 0.0, "{shares:?}");
    }
}

/// A sweep whose second device cannot be started yet leaves the first certificate marked as unfinished, as a killed process does.
#[test]
fn a_table_whose_process_was_killed_while_it_ended_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out, late) = (folder.path().join("x.toml"), folder.path().join("out"), folder.path().join("late"));
    let command = |program: &Path| {
        let words = [program.to_str().expect("UTF-8"), "--ports", "4", "--protocol", "switchml", "--workers", "4"];
        format!("target.lockstep.command = {}", serde_json::json!(words))
    };
    let variants = [("a", lockstep()), ("b", &*late)]
        .map(|(name, program)| format!("[[sweep.variants]]\nname = \"{name}\"\n{}\n", command(program)));
    std::fs::write(&file, format!("{SWITCHML}[target]\nkind = \"external\"\ncheck = false\n{}", variants.concat()))
        .expect("writable");
    let (file, path) = (file.display().to_string(), out.display().to_string());
    let certify = |more: &[&str]| {
        let words = ["certify", &file, "--json", "--allow-launch", "--all-runs", "--out", &path, "--repeats", "1"];
        let output = pktgen(&[], &[&words[..], more].concat(), &[]).output().expect("it runs");
        (output.status.code(), text_lines(&output.stdout), said(&output))
    };
    let sum = ["--clause", "switchml-sum"];
    let (code, _, said) = certify(&sum);
    assert!(code == Some(3) && said.contains("cannot be started"), "{code:?}: {said}");
    let names = ["a,seed=1", "b,seed=1"];
    let progress = out.join(names[0]).join("progress.json");
    let kept = std::fs::read(&progress).expect("a certificate under way");
    std::os::unix::fs::symlink(lockstep(), &late).expect("a link");
    let (code, lines, said) = certify(&sum);
    assert!(code == Some(0) && !progress.exists(), "{code:?}: {said}");
    std::fs::write(&progress, kept).expect("writable");
    let (code, _, said) = certify(&["--clause", "switchml-reuse"]);
    assert!(code == Some(2) && said.contains("a certificate under way with clauses"), "{code:?}: {said}");
    let before = std::fs::read(out.join("certificates.md")).expect("tables");
    let (code, again, said) = certify(&sum);
    assert!(code == Some(0) && !progress.exists(), "{code:?}: {said}");
    assert_eq!(again, lines);
    assert_eq!(std::fs::read(out.join("certificates.md")).expect("tables"), before);
    assert!(names.iter().all(|name| out.join(name).join("certificate.json").is_file()));
}

#[test]
fn a_sweep_has_a_certificate_for_each_run_and_tables_of_what_was_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("card.toml"), folder.path().join("out"));
    std::fs::write(&file, format!("{OLAF}\n[sweep.axes]\n\"target.queue\" = [\"olaf\", \"fifo\"]\n"))
        .expect("writable");
    let words = [file.to_str().expect("UTF-8"), "--json", "--all-runs", "--out", out.to_str().expect("UTF-8")];
    let clauses = ["--clause", "olaf-throughput", "--clause", "olaf-age"];
    let output = pktgen(&[], &[&["certify"], &words[..], &clauses].concat(), &[]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let runs = ["queue=olaf,seed=1", "queue=fifo,seed=1"];
    let lines = text_lines(&output.stdout);
    let named: Vec<_> = lines.iter().filter(|line| line["clause"] == "olaf-age").map(|line| &line["run"]).collect();
    assert_eq!(named, runs);
    assert!(runs.iter().all(|run| out.join(run).join("certificate.json").is_file()));
    let text = std::fs::read_to_string(out.join("measured.csv")).expect("tables");
    let age = |queue: &str| {
        let line = text.lines().find(|line| line.contains(&format!("seed=1\",{queue},olaf-age,measured,age_at_200,")));
        line.and_then(|line| line.split(',').nth(6)?.parse::<f64>().ok()).unwrap_or_else(|| panic!("{queue}: {text}"))
    };
    assert!(age("olaf") < age("fifo"), "{text}");
    let page = std::fs::read_to_string(out.join("certificates.md")).expect("tables");
    assert!(
        page.contains("| target.queue | age_at_10, µs | ") && page.contains("](queue=fifo,seed=1/certificate.md)"),
        "{page}"
    );
    // All runs are checked before the first starts: the error names the impossible one.
    let wrong = [&words[..], &["--set", "sweep.axes={\"target.slots\"=[5,0]}"]].concat();
    let refused = pktgen(&[], &[&["certify"], &wrong[..]].concat(), &[]).output().expect("it runs");
    assert!(refused.status.code() == Some(2) && said(&refused).contains("run slots=0"), "{}", said(&refused));
    // One seed for runs of several seeds would make copies of one certificate.
    let seeds = [&words[..], &["--seed", "7", "--set", "sweep.seeds=1..2"]].concat();
    let refused = pktgen(&[], &[&["certify"], &seeds[..]].concat(), &[]).output().expect("it runs");
    assert!(refused.status.code() == Some(2) && said(&refused).contains("several seeds (1, 2"), "{}", said(&refused));
    // A table is not written into a folder that has contents.
    let again = pktgen(&[], &[&["certify"], &words[..]].concat(), &[]).output().expect("it runs");
    assert!(again.status.code() == Some(2) && said(&again).contains("not empty"), "{}", said(&again));
}
