//! The list as a whole, and experiments against made-up hosts. Real ones are in `cli/tests/cli/doctor.rs`.

use std::collections::HashSet;
use std::path::Path;

use pktgen_core::config::Document;

use super::testing::Fixture;
use super::{CHECKS, Finding, Host, Level, View, choices, examine, judge, text, transports};
use pktgen_realtime::driver::real_time::Roles;
use pktgen_realtime::run::Experiment;
use pktgen_realtime::transport::Stamping;

#[test]
fn names_are_unique_and_said() {
    let names: HashSet<_> = CHECKS.iter().map(|check| check.name()).collect();
    assert_eq!(names.len(), CHECKS.len());
    assert!(CHECKS.iter().all(|check| !check.about().is_empty()));
}

#[test]
fn a_good_host_gives_nothing_to_complain_of() {
    let fixture = Fixture::good();
    let host = fixture.host();
    let findings = examine(&View::new(&host, Vec::new(), true));
    let bad: Vec<_> = findings.iter().filter(|finding| finding.level != Level::Ok).collect();
    assert!(bad.is_empty(), "{bad:?}");
    // Every check said something, but that for veth pairs, of which there are none.
    let silent = CHECKS.iter().filter(|check| !findings.iter().any(|finding| finding.check == check.name()));
    assert_eq!(silent.map(|check| check.name()).collect::<Vec<_>>(), ["veth"]);
}

/// A host without any file is the worst there is: everything must still be said, and with reasons.
#[test]
fn an_empty_host_is_survived() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = Host::new(folder.path(), Box::new(Fixture::good().answers));
    let view = View::new(&host, vec!["eth1".into()], true);
    let mut findings = examine(&view);
    findings.extend(transports(&view));
    let said: HashSet<_> = findings.iter().map(|finding| finding.check).collect();
    for check in ["kernel", "capability", "memlock", "cores", "clock", "interface", "transport"] {
        assert!(said.contains(check), "{check}");
    }
    for finding in findings.iter().filter(|finding| finding.level >= Level::Warning) {
        assert!(!finding.why.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
    }
}

#[test]
fn the_worst_comes_first_and_remedies_have_their_line() {
    let fixture = Fixture::good()
        .file("proc/self/status", "CapEff:\t0\n")
        .file("proc/sys/net/core/bpf_jit_enable", "0\n")
        .file("sys/devices/system/cpu/smt/active", "1\n");
    let host = fixture.host();
    let findings = examine(&View::new(&host, Vec::new(), false));
    let levels: Vec<_> = findings.iter().map(|finding| finding.level).collect();
    assert!(levels.is_sorted_by(|a, b| a >= b), "{levels:?}");
    assert!(levels.contains(&Level::Cannot) && levels.contains(&Level::Warning) && levels.contains(&Level::Note));
    let text = text(&findings);
    let remedies = findings.iter().filter(|finding| !finding.remedy.is_empty()).count();
    assert_eq!(text.lines().count(), findings.len() + remedies);
    assert_eq!(text.matches("remedy: ").count(), remedies);
    assert!(text.starts_with("cannot   capability "), "{text}");
}

#[test]
fn a_finding_is_one_json_object_with_its_six_fields() {
    let finding = Finding::new("check", "eth1", Level::Warning, "va\"lue").why("why").remedy("do");
    let json = serde_json::to_string(&finding).expect("JSON");
    assert_eq!(
        json,
        r#"{"check":"check","subject":"eth1","level":"warning","value":"va\"lue","why":"why","remedy":"do"}"#
    );
}

const SMALL: &str = "name = \"small\"\n[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 5\n\
    [schedule]\noffered = \"1Mbps\"\n[topology]\nrate = \"1Mbps\"\n";

fn experiment(set: &[&str]) -> Experiment {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("small.toml");
    std::fs::write(&path, SMALL).expect("writable");
    let set: Vec<_> = set.iter().map(|set| (*set).to_owned()).collect();
    Experiment::open(pktgen_registry::all(), Document::load(&path, &set).expect("an experiment")).expect("a sweep")
}

/// AF_XDP has a socket for each of the two queues.
const TWO: &str = "transport.queues=2";
const FOUR: &str = "transport.interfaces=[\"eth1\",\"eth2\",\"eth3\",\"eth4\"]";
const ALIKE: [&str; 3] = ["eth2", "eth3", "eth4"];

/// A good host with four interfaces, which are alike.
fn good() -> Fixture {
    Fixture::good().with_alike(&ALIKE)
}

/// What hinders this experiment on this host: subject, value and remedy. Of interfaces that are alike, one counts.
fn hindrances(fixture: &Fixture, set: &[&str]) -> Vec<(String, String, String)> {
    hindrances_of(Roles::ALL, fixture, set)
}

/// The same of a part.
fn hindrances_of(roles: Roles, fixture: &Fixture, set: &[&str]) -> Vec<(String, String, String)> {
    let verdict = judge(&experiment(set), roles, &fixture.host()).expect("the experiment is right");
    let cannot = verdict.findings.into_iter().filter(|finding| finding.level == Level::Cannot);
    let cannot = cannot.filter(|finding| !ALIKE.contains(&finding.subject.as_str()));
    cannot.map(|finding| (finding.subject, finding.value, finding.remedy)).collect()
}

#[test]
fn a_good_host_runs_everything() {
    for kind in ["virtual", "ring", "udp"] {
        assert_eq!(hindrances(&good(), &[&format!("transport.kind={kind}")]), [], "{kind}");
    }
    for kind in ["af_packet", "af_xdp", "xdp_live"] {
        let queues = if kind == "af_packet" { "transport.queues=1" } else { TWO };
        assert_eq!(hindrances(&good(), &[&format!("transport.kind={kind}"), FOUR, queues]), [], "{kind}");
    }
}

#[test]
fn what_hinders_an_experiment_is_told_with_its_remedy() {
    let file = |path: &str, text: &str| good().file(path, text);
    let mut plain = good();
    plain.answers.card.xdp = Some(Default::default());
    let mut few = good();
    few.answers.cores = 2;
    let mut no_redirect = good();
    no_redirect.answers.card.xdp.as_mut().unwrap().takes_redirected = false;
    let mut pair = good();
    pair.answers.card.driver = Some("veth".into());
    let packet = ["transport.kind=af_packet", FOUR];
    let xdp = ["transport.kind=af_xdp", FOUR, TWO];
    let locked = file("proc/self/status", "CapEff:\t000001ffffffbfff\n")
        .file("proc/self/limits", "Max locked memory         71303168             unlimited            bytes\n");
    let absent = FOUR.replace("[\"eth1\"", "[\"eth9\"");
    let queues = ["transport.kind=ring", "transport.wait=spin", "transport.queues=4"];
    let cores = ["transport.kind=ring", "transport.cores=[6, 7, 8]"];
    let long = ["transport.kind=af_packet", FOUR, "workload.bytes=4000B"];
    let fast = ["transport.kind=af_packet", FOUR, "schedule.offered=120Gbps", "topology.rate=200Gbps"];
    for (fixture, set, subject, value, remedy) in [
        (good(), &["transport.kind=af_packet", &absent][..], "eth9", "refused", "ip -br link"),
        (file("sys/class/net/eth1/flags", "0x1002\n"), &packet[..], "eth1", "refused", "ip link set eth1 up"),
        (file("sys/class/net/eth1/type", "65534\n"), &packet[..], "eth1", "refused", "a TAP instead of a TUN"),
        (file("sys/class/net/eth1/carrier", "0\n"), &packet[..], "eth1", "no carrier", "cable"),
        (good().default_route(2), &packet[..], "eth1", "refused", "transport.allow_default_route = true"),
        (good(), &long[..], "eth1", "MTU 1500", "sudo ip link set eth1 mtu "),
        (good(), &fast[..], "eth1", "link too slow", "transport.allow_above_link = true"),
        (file("proc/self/status", "CapEff:\t0\n"), &packet[..], "af_packet", "not usable", "setcap"),
        (file("proc/sys/kernel/osrelease", "4.19.0"), &xdp[..], "af_xdp", "not usable", "install Linux 5.9"),
        (plain, &xdp[..], "eth1", "no XDP", "transport.kind=af_packet"),
        (
            no_redirect,
            &["transport.kind=xdp_live", FOUR, TWO][..],
            "eth1",
            "drops live frames",
            "transport.kind=af_xdp",
        ),
        (good(), &["transport.kind=af_xdp", FOUR][..], "eth1", "2 receive queues", "transport.queues=2"),
        (pair, &["transport.kind=af_xdp", FOUR][..], "eth1", "2 receive queues", "ethtool -L eth1 rx 1 tx 1"),
        (locked, &xdp[..], "af_xdp", "not usable", "ulimit -l 139264"),
        (few, &["transport.kind=ring", "transport.wait=spin"][..], "transport.wait", "spin", "transport.wait=block"),
        (good(), &cores[..], "transport.cores", "not permitted", "it may on [0, 1"),
        (good(), &queues[..], "transport.wait", "spin", "transport.wait=block"),
    ] {
        let found = hindrances(&fixture, set);
        let right = found.iter().any(|f| f.0 == subject && f.1 == value && f.2.contains(remedy));
        assert!(right && found.len() == 1, "{set:?} should say {subject}, {value}, {remedy}: {found:?}");
    }
    let allowed = ["transport.kind=af_packet", FOUR, "transport.allow_default_route=true"];
    assert_eq!(hindrances(&good().default_route(2), &allowed), []);
    assert_eq!(hindrances(&good(), &[&fast[..], &["transport.allow_above_link=true"]].concat()), []);
    assert_eq!(hindrances_of(Roles::SERVER, &good(), &fast), []);
}

/// Queues, zero copy, and stamps by the card, of what arrives at the server and of what the workers send.
#[test]
fn a_card_has_what_the_settings_ask_for() {
    let [mut copies, mut silent, mut unmarked] = [good(), good(), good()];
    copies.answers.card.xdp.as_mut().expect("facts").zero_copy = false;
    silent.answers.card.stamping = None;
    unmarked.answers.card.stamping = Some(Stamping { sent: false, filter: 1 });
    let received = "transport.interfaces=[\"eth2\",\"eth3\",\"eth4\",\"eth1\"]";
    for (kind, interfaces, more, spoilt, value, remedy) in [
        ("af_packet", FOUR, &["transport.queues=3"][..], good(), "too few queues", "ask for 2"),
        ("af_xdp", FOUR, &[TWO, "transport.zero_copy=true"][..], copies, "no zero copy", "transport.zero_copy=false"),
        ("af_packet", received, &["transport.stamps=card"][..], silent, "no stamps of a card", "use \"kernel\""),
        (
            "af_packet",
            FOUR,
            &["transport.stamps=card", "transport.sent_stamps_every=9"][..],
            unmarked,
            "no stamps of a card",
            "hwstamp_ctl -i eth1 -t 1",
        ),
    ] {
        let kind = format!("transport.kind={kind}");
        let set = [&[kind.as_str(), interfaces][..], more].concat();
        let found = hindrances(&spoilt, &set);
        let right = found.iter().any(|f| f.0 == "eth1" && f.1 == value && f.2.contains(remedy));
        assert!(right && found.len() == 1, "{set:?} should say {value}, {remedy}: {found:?}");
        // With as many queues as there are.
        let set = [&set[..], &[TWO]].concat();
        assert_eq!(hindrances(&good(), &set), [], "{set:?}");
    }
}

/// The share of a rank is not known here; one worker is not divided.
#[test]
fn a_rate_of_workers_that_ranks_may_share_hinders_no_part() {
    let shared = ["transport.kind=af_packet", FOUR, "schedule.offered=150Gbps", "topology.rate=200Gbps"];
    let one = ["workload.clusters=1", "workload.workers_per_cluster=1", "workload.updates=200"];
    let alone = [&shared[..], &one].concat();
    for (set, roles, level) in [
        (&shared[..], Roles::ALL, Level::Cannot),
        (&shared[..], Roles::WORKERS, Level::Note),
        (&alone[..], Roles::WORKERS, Level::Cannot),
    ] {
        let verdict = judge(&experiment(set), roles, &good().host()).expect("the experiment is right");
        let found = verdict.findings.iter().find(|finding| finding.subject == "eth1").expect("a finding");
        assert!(found.level == level && found.why.contains("its link carries 100.000"), "{roles:?}: {found:?}");
        assert_eq!((found.remedy.contains("--rank"), verdict.can_run()), (level == Level::Note, level == Level::Note));
    }
}

/// An experiment that launches its device, with these ports.
fn launching(ports: &str) -> Experiment {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cli/tests/cli/support/bench/olaf.toml");
    let text = std::fs::read_to_string(source).expect("an experiment");
    let text = format!("{text}\n[target.launch]\ncommand = [\"true\"]\nports = {ports}\n");
    let document = Document::parse(&text, "x.toml").expect("an experiment");
    Experiment::open(pktgen_registry::all(), document).expect("a sweep")
}

/// What hinders an experiment that launches its device, for a process with this status and these users.
fn hindrances_of_launch(status: &str, users: &str) -> Vec<(String, String, String)> {
    let experiment = launching("[\"e0\", \"e1\"]");
    let fixture = good().file("proc/self/status", status);
    let fixture = fixture.file("proc/self/uid_map", users).file("proc/self/gid_map", users);
    let verdict = judge(&experiment, Roles::ALL, &fixture.host()).expect("the experiment is right");
    let cannot = verdict.findings.into_iter().filter(|finding| finding.level == Level::Cannot);
    cannot.map(|finding| (finding.subject, finding.value, finding.remedy)).collect()
}

#[test]
fn a_device_is_launched_as_a_user_of_this_namespace_by_who_may_make_interfaces() {
    let (all, root) = ("         0          0 4294967295\n", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
    let mapped = "         0       1000          1\n";
    assert_eq!(hindrances_of_launch(root, all), []);
    assert_eq!(hindrances_of_launch(root, "0 1000 1\n1 100000 65535\n"), []);
    // Who is not root launches it as the own user.
    let user = root.replace("Uid:\t0\t0", "Uid:\t1000\t1000");
    assert_eq!(hindrances_of_launch(&user, mapped), []);
    let found = hindrances_of_launch(root, mapped);
    assert!(found.len() == 1 && found[0].0 == "target.launch.user" && found[0].2.contains("user=0"), "{found:?}");
    // CAP_NET_RAW alone.
    let found = hindrances_of_launch("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t2000\n", all);
    assert!(found.len() == 1 && found[0].0 == "target.launch.ports" && found[0].2.contains("setcap"), "{found:?}");
}

/// Equally in an inspection.
#[test]
fn a_launch_has_a_port_for_each_interface() {
    for (ports, fits) in [("[]", true), ("[\"e0\", \"e1\"]", true), ("[\"e0\"]", false)] {
        let experiment = launching(ports);
        let judged = judge(&experiment, Roles::ALL, &Fixture::good().host()).map(drop);
        for checked in [judged, experiment.check_drafts()] {
            let refusal = checked.err().map(|error| (error.exit_code(), error.to_string()));
            assert_eq!(refusal.is_none(), fits, "{ports}: {refusal:?}");
            let why = "target.launch.ports: there are 1, and 2 interfaces";
            assert!(refusal.is_none_or(|(code, text)| code == 2 && text.contains(why)), "{ports}");
        }
    }
}

/// Parts of a run are on several hosts, with interfaces of the same names, or run one after the other.
#[test]
fn an_inspection_is_of_all_parts() {
    let same = "transport.interfaces=[\"eth1\",\"eth1\",\"eth2\",\"eth1\"]";
    let files = "transport.files=[\"w.pcapng\",\"s.pcapng\"]";
    for set in [["transport.kind=pcap", files], ["transport.kind=af_packet", same]] {
        assert!(experiment(&set).check_drafts().is_ok(), "{set:?}");
        assert!(judge(&experiment(&set), Roles::ALL, &good().host()).is_err(), "{set:?}");
        assert!(judge(&experiment(&set), Roles::WORKERS, &good().host()).is_ok(), "{set:?}");
    }
}

#[test]
fn a_part_that_no_process_could_open_is_an_error() {
    let same = "transport.interfaces=[\"eth2\",\"eth1\",\"eth1\",\"eth3\"]";
    let text = "transport.files=[\"w.txt\",\"s.pcapng\"]";
    for (set, roles, part) in [
        (&["transport.kind=ring"][..], Roles::SERVER, "joins roles of one process"),
        (&["transport.kind=pcap"], Roles::SERVER, "transport.files has 0 names"),
        (&["transport.kind=pcap", text], Roles::WORKERS, "ends in .pcap or .pcapng"),
        (&["transport.kind=af_packet", same], Roles::DEVICE, "names \"eth1\" for device.up"),
    ] {
        let error = judge(&experiment(set), roles, &good().host()).expect_err("it is wrong");
        assert!(error.exit_code() == 2 && error.to_string().contains(part), "{set:?}: {error}");
    }
    let error = judge(&launching("[]"), Roles::WORKERS, &good().host()).expect_err("it is wrong");
    assert!(error.exit_code() == 2 && error.to_string().contains("leave --role and --rank out"), "{error}");
}

#[test]
fn an_experiment_that_is_wrong_in_itself_is_an_error() {
    for (set, part) in [
        (vec!["transport.kind=af_packet"], "give four"),
        (vec!["transport.kind=ring", "workload.updats=3"], "updats"),
        (vec!["transport.kind=ring", "topology.kind=multi_hop"], "topology"),
        (vec!["transport.kind=ring", "transport.on_wire=strict", "endpoint.workers=retransmit"], "must be sent once"),
        (vec!["transport.kind=ring", "transport.pacing=top", "endpoint.workers=retransmit"], "transport.pacing"),
        (vec!["transport.kind=ring", "workload.background_rate=1Mbps"], "background traffic"),
        (vec!["transport.kind=pcap", "endpoint.workers=retransmit"], "nothing comes back from files"),
        (vec!["transport.kind=pcap"], "run the roles one after the other"),
        (
            vec!["transport.kind=af_packet", "transport.interfaces=[\"eth1\",\"eth1\",\"eth2\",\"eth3\"]"],
            "names \"eth1\" for device.down and for another end of this host",
        ),
        (vec!["transport.kind=udp", "transport.stamps=card"], "the loopback interface has no card"),
        (vec!["transport.kind=udp", "transport.addresses=[\"127.0.0.1:1\"]"], "has 1 entries"),
        (vec!["transport.kind=ring", "transport.cores=[0]"], "this process has 3 threads"),
        (vec!["transport.kind=ring", "transport.limit=1Gbps", "transport.limit_burst=128B"], "transport.limit_burst"),
        (vec!["transport.kind=ring", "transport.tap=/tmp/a.pcapng", "sweep.seeds=\"1..2\""], "would both write"),
    ] {
        let error = judge(&experiment(&set), Roles::ALL, &good().host()).expect_err("it is wrong");
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn ends_of_other_hosts_are_left_to_them() {
    let set = ["transport.kind=af_packet", "transport.interfaces=[\"eth1\",\"\",\"\",\"eth4\"]"];
    let missed = |set: &[&str]| {
        let verdict = judge(&experiment(set), Roles::ALL, &good().host()).expect("the experiment is right");
        assert_eq!(verdict.interfaces, ["eth1", "eth4"]);
        let missed = verdict.findings.into_iter().filter(|finding| finding.value == "no interface");
        assert!(missed.clone().all(|finding| finding.level == Level::Cannot && finding.remedy.contains("--role")));
        missed.map(|finding| finding.subject).collect::<Vec<_>>()
    };
    // A whole run has all of them here.
    assert_eq!(missed(&set), ["device.down", "device.up"]);
    assert_eq!(hindrances_of(Roles::WORKERS, &good(), &set), []);
    // Hardware has its own ends.
    let external = ["target.kind=external", "target.profile=alveo-u55c-olaf"];
    assert_eq!(missed(&[&set[..], &external].concat()), Vec::<String>::new());
    assert_eq!(hindrances(&good(), &[&set[..], &external].concat()), []);
}

#[test]
fn a_part_needs_its_own_interfaces_only() {
    // Of four hosts; this one has eth1.
    let of = |names: &str| ["transport.kind=af_packet".to_owned(), format!("transport.interfaces={names}")];
    for (roles, here, elsewhere) in [
        (Roles::WORKERS, "[\"eth1\",\"d0\",\"d1\",\"s0\"]", "[\"w0\",\"eth1\",\"eth1\",\"eth1\"]"),
        (Roles::DEVICE, "[\"w0\",\"eth1\",\"eth4\",\"s0\"]", "[\"eth1\",\"d0\",\"eth1\",\"eth1\"]"),
        (Roles::SERVER, "[\"w0\",\"d0\",\"d1\",\"eth1\"]", "[\"eth1\",\"eth1\",\"eth1\",\"s0\"]"),
    ] {
        let found = |names: &str| {
            let set = of(names);
            hindrances_of(roles, &good(), &[&set[0], &set[1]])
        };
        assert_eq!(found(here), [], "{roles:?}");
        let refused = found(elsewhere);
        assert!(refused.len() == 1 && refused[0].1 == "refused", "{roles:?}: {refused:?}");
        let empty = found("[\"\",\"\",\"\",\"\"]");
        assert!(empty.iter().all(|own| own.1 == "no interface" && own.2.contains("IF")), "{empty:?}");
        assert_eq!(empty.len(), if roles == Roles::DEVICE { 2 } else { 1 }, "{empty:?}");
    }
    // A role has one thread here, and reads what reacting workers sent elsewhere.
    assert_eq!(hindrances_of(Roles::WORKERS, &good(), &["transport.kind=af_packet", FOUR, "transport.cores=[7]"]), []);
    let files = ["transport.kind=pcap", "transport.files=[\"w.pcapng\",\"s.pcapng\"]"];
    assert_eq!(hindrances_of(Roles::SERVER, &good(), &[&files[..], &["endpoint.workers=retransmit"]].concat()), []);
    for roles in [Roles::WORKERS, Roles::DEVICE, Roles::SERVER] {
        assert_eq!(hindrances_of(roles, &good(), &files), [], "{roles:?}");
    }
    // It is of one run, whose tap no other writes.
    let tap = ["transport.kind=af_packet", FOUR, "transport.tap=/tmp/a.pcapng", "sweep.seeds=\"1..2\""];
    assert_eq!(hindrances_of(Roles::WORKERS, &good(), &tap), []);
    let external = of("[\"eth1\",\"\",\"\",\"eth4\"]");
    let set = [&external[0][..], &external[1], "target.kind=external", "target.profile=alveo-u55c-olaf"];
    let error = judge(&experiment(&set), Roles::DEVICE, &good().host()).expect_err("it is no part of ours");
    assert!(error.exit_code() == 2 && error.to_string().contains("target.kind=software"), "{error}");
}

/// Transports without interfaces run there all the same.
#[test]
fn interfaces_of_another_network_namespace_hinder_those_that_need_them() {
    let mut fixture = Fixture::good();
    fixture.answers.elsewhere = true;
    for kind in ["virtual", "ring", "udp"] {
        assert_eq!(hindrances(&fixture, &[&format!("transport.kind={kind}")]), [], "{kind}");
    }
    let remedy = "use ip netns exec".to_owned();
    let expected = [("transport.interfaces".to_owned(), "unknown".to_owned(), remedy)];
    assert_eq!(hindrances(&fixture, &["transport.kind=af_packet", FOUR]), expected);
    assert!(choices(&fixture.host()).is_err() && choices(&Fixture::good().host()).is_ok_and(|all| all.len() == 1));
}

/// This host, whatever it is: the checks come to an end and say something of the clock and the kernel.
#[test]
fn this_host_is_looked_at() {
    assert!(Path::new("/proc/self/status").exists());
    let host = Host::this();
    let findings = examine(&View::new(&host, vec!["lo".into()], false));
    let version = findings.iter().find(|finding| finding.subject == "version").expect("a version");
    assert_eq!(version.level, Level::Ok);
    let reading = findings.iter().find(|finding| finding.subject == "reading").expect("a cost");
    let ns: f64 = reading.value.trim_end_matches(" ns").parse().expect("a number");
    assert!((1.0..1e6).contains(&ns), "{ns}");
}
