//! Tests of hardware profiles: every refusal with its value, limit and remedy; the shipped profiles; arbitrary bytes.

use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::topology::Population;
use pktgen_registry::all;
use pktgen_wire::device::check::{Checked, check};
use pktgen_wire::device::plan::{Job, plan};
use pktgen_wire::device::shipped::SHIPPED;
use pktgen_wire::device::{Facts, HotParameter, LIMITS, Profile, open};
use proptest::prelude::*;

/// A profile with every limit set, which accepts [`facts`].
const BASE: &str = r#"
name = "base"
plan = "generic"

[addressing]
workers = "10.1.0.1"
worker_macs = "02:00:00:00:00:01"
server = "10.1.9.1"
server_mac = "02:00:00:00:09:01"
device = "10.1.9.2"
device_mac = "02:00:00:00:09:02"
groups = "239.1.0.0"

[frames]
formats = ["olaf", "libra"]
rewrites = ["payload"]
keeps = ["ip_src"]

[limits]
of = [
  { what = "frame_bytes", most = 300, source = "A §1" },
  { what = "summed_bytes", most = 192, source = "A §2" },
  { what = "elements", one_of = [46, 64], source = "A §3" },
  { what = "workers", most = 6, source = "A §4" },
  { what = "workers_per_cluster", most = 3, source = "A §5" },
  { what = "clusters", most = 2, source = "A §6" },
  { what = "window", most = 8, source = "A §7" },
  { what = "iterations", most = 9, source = "A §8" },
  { what = "queue_slots", most = 10, source = "A §9" },
  { what = "registers", most = 11, source = "A §10" },
  { what = "hot_parameters", most = 12, source = "A §11" },
]

[ports]
count = 7
workers_per_port = 1

[[counters.of]]
name = "rx"
is = "frames_sent"
"#;

/// Facts that reach every limit of [`BASE`] exactly.
fn facts() -> Facts {
    Facts {
        experiment: "small".into(),
        format: "olaf".into(),
        workers: Arc::new(Population::regular(2, 3)),
        has_server: true,
        frame_bytes: 300,
        summed_bytes: Some(192),
        elements: 46,
        window: Some(8),
        iterations: Some(9),
        queue_slots: Some(10),
        registers: Some(11),
        hot: Some(6),
        smaller: "lower workload.bytes".into(),
        ..Facts::default()
    }
}

fn profile(change: (&str, &str)) -> Profile {
    assert!(change.0.is_empty() || BASE.contains(change.0), "{}", change.0);
    Profile::parse(&BASE.replacen(change.0, change.1, usize::from(!change.0.is_empty())), "base.toml", &all().protocols)
        .unwrap()
}

fn refusals(profile: &Profile, facts: &Facts) -> Vec<String> {
    check(profile, facts).refusals().map(str::to_owned).collect()
}

#[test]
fn what_just_fits_is_taken_and_every_limit_is_looked_at() {
    let checked = check(&profile(("", "")), &facts());
    assert_eq!(checked.findings, []);
    for kind in LIMITS {
        assert!(checked.kept.iter().any(|text| text.starts_with(kind.about)), "{}: {:?}", kind.name, checked.kept);
    }
    assert!(checked.into_result().is_ok());
}

/// One above each limit is refused alone, with all the information that a reader needs.
#[test]
fn every_limit_refuses_one_more_and_says_why_and_what_to_do() {
    let two = |clusters, workers| Arc::new(Population::regular(clusters, workers));
    let roomy = ("count = 7", "count = 70");
    for (name, facts, words) in [
        ("frame_bytes", Facts { frame_bytes: 301, ..facts() }, ["301", "at most 300", "A §1", "workload.bytes"]),
        ("summed_bytes", Facts { summed_bytes: Some(193), ..facts() }, ["193", "at most 192", "A §2", "vlan"]),
        ("elements", Facts { elements: 63, ..facts() }, ["63", "one of 46, 64", "A §3", "workload.elements"]),
        ("workers", Facts { workers: two(7, 1), ..facts() }, ["7", "at most 6", "A §4", "workload.workers"]),
        (
            "workers_per_cluster",
            Facts { workers: two(1, 4), ..facts() },
            ["4", "at most 3", "A §5", "workers_per_cluster"],
        ),
        ("clusters", Facts { workers: two(3, 1), ..facts() }, ["3", "at most 2", "A §6", "workload.clusters"]),
        ("window", Facts { window: Some(9), ..facts() }, ["9", "at most 8", "A §7", "endpoint.pool"]),
        ("iterations", Facts { iterations: Some(10), ..facts() }, ["10", "at most 9", "A §8", "workload.iterations"]),
        ("queue_slots", Facts { queue_slots: Some(11), ..facts() }, ["11", "at most 10", "A §9", "target.slots"]),
        ("registers", Facts { registers: Some(12), ..facts() }, ["12", "at most 11", "A §10", "endpoint.registers"]),
        ("hot_parameters", Facts { hot: Some(7), ..facts() }, ["14", "at most 12", "A §11", "workload.hot"]),
    ] {
        let found = check(&profile(roomy), &facts);
        let own: Vec<_> = found.findings.iter().filter(|finding| finding.what == name).collect();
        assert!(own.len() == 1 && own[0].refused, "{name}: {found:?}");
        let text = &own[0].text;
        assert!(text.starts_with("small: ") && text.contains("base"), "{text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{name}: {text} does not say {word}"));
        assert_eq!(found.into_result().unwrap_err().exit_code(), 2);
    }
    assert_eq!(LIMITS.len(), 11, "a limit more: it needs a line here");
}

#[test]
fn a_vlan_tag_counts() {
    let tagged = profile(("groups =", "vlan = 5\ngroups ="));
    let texts = refusals(&tagged, &facts());
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("304, and base takes at most 300") && texts[1].contains("196"), "{texts:?}");
}

/// Values that are no limits but are impossible.
#[test]
fn addresses_ports_formats_and_clusters_that_cannot_be_are_refused() {
    let hosts = |entry: &str| ("groups =", format!("hosts = [{entry}]\ngroups ="));
    for ((from, to), words) in [
        (("\"10.1.9.1\"", "\"10.1.0.3\"".to_owned()), &["worker 2 and the server", "10.1.0.3", "addressing"][..]),
        (("\"10.1.9.2\"", "\"10.1.9.1\"".into()), &["the server and the device", "10.1.9.1", "must differ"]),
        (
            ("02:00:00:00:09:01", "02:00:00:00:00:02".into()),
            &["worker 1 and the server", "02:00:00:00:00:02", "shared_mac"],
        ),
        (("02:00:00:00:09:02", "03:00:00:00:09:02".into()), &["the device", "03:00:00:00:09:02", "multicast"]),
        (("\"10.1.0.1\"", "\"255.255.255.252\"".into()), &["worker 4", "beyond the last address", "begin lower"]),
        (("02:00:00:00:09:02", "00:00:00:00:00:00".into()), &["the device", "00:00:00:00:00:00", "no interface"]),
        (("\"10.1.9.1\"", "\"127.0.0.1\"".into()), &["the server", "127.0.0.1", "no interface"]),
        (("\"10.1.9.1\"", "\"0.0.0.0\"".into()), &["the server", "0.0.0.0", "no interface"]),
        (("\"10.1.9.1\"", "\"255.255.255.255\"".into()), &["the server", "255.255.255.255", "no interface"]),
        (("groups =", "group_ids = 65535\ngroups =".into()), &["number 65536", "there are 65535", "group_ids"]),
        (("\"239.1.0.0\"", "\"10.7.0.0\"".into()), &["10.7.0.0", "no multicast group", "224.0.0.0"]),
        (("\"239.1.0.0\"", "\"239.255.255.255\"".into()), &["239.255.255.255 plus 1", "no multicast group"]),
        (("\"olaf\", ", String::new()), &["send olaf", "supports libra", "endpoint.workers"]),
        (("count = 7", "count = 6".into()), &["6 workers need 6 ports", "has 5", "ports.workers_per_port"]),
        (("count = 7", "count = 7\nserver = 1".into()), &["worker 0 and the server", "port 1", "ports.server"]),
        (hosts("{ worker = 4, port = \"7\" }"), &["worker 4 and the server", "port 7", "addressing.hosts"]),
        (hosts("{ worker = 6, ip = \"10.1.0.9\" }"), &["worker 6", "workers 0 to 5", "remove the entry"]),
        (hosts("{ worker = 1, cluster = 1 }"), &["worker 1 is in cluster 0", "cluster 1", "addressing.hosts"]),
        (hosts("{ worker = 1, port = \"9\" }, { worker = 1, ip = \"10.1.0.9\" }"), &["worker 1 twice", "join them"]),
        (hosts("{ worker = 1, ip = \"10.1.0.1\" }"), &["worker 0 and worker 1", "10.1.0.1"]),
    ] {
        let texts = refusals(&profile((from, &to)), &facts());
        assert_eq!(texts.len(), 1, "{to}: {texts:?}");
        words.iter().for_each(|word| assert!(texts[0].contains(word), "{to}: {} does not say {word}", texts[0]));
    }
    // One card that sends for all workers has one Ethernet address.
    let shared = profile(("groups =", "shared_mac = true\ngroups ="));
    assert_eq!(refusals(&shared, &facts()), [""; 0]);
    let packed = profile(("count = 7\nworkers_per_port = 1", "count = 2\nworkers_per_port = 6"));
    assert_eq!(refusals(&packed, &facts()), [""; 0]);
    let lone = "server = \"10.1.9.1\"\nserver_mac = \"02:00:00:00:09:01\"\n";
    let texts = refusals(&profile((lone, "to = \"device\"\n")), &facts());
    assert!(texts.len() == 1 && texts[0].contains("addressing.server"), "{texts:?}");
}

/// A format in a profile stands for its layouts, and the name of a layout for that layout alone.
#[test]
fn a_profile_may_support_one_layout_of_a_format() {
    let of = |on_wire: &str| Facts { on_wire: on_wire.into(), ..facts() };
    let (both, strict) = (profile(("", "")), profile(("\"olaf\", \"libra\"", "\"olaf_strict\"")));
    for (profile, on_wire, kept) in
        [(&both, "olaf", "olaf"), (&both, "olaf_strict", "olaf"), (&strict, "olaf_strict", "olaf_strict")]
    {
        let checked = check(profile, &of(on_wire));
        assert_eq!(checked.findings, [], "{on_wire}");
        assert!(checked.kept.contains(&format!("wire format: {kept}")), "{:?}", checked.kept);
    }
    let texts = refusals(&strict, &of("olaf"));
    assert_eq!(texts.len(), 1, "{texts:?}");
    ["send olaf,", "supports olaf_strict", "transport.on_wire"].iter().for_each(|word| {
        assert!(texts[0].contains(word), "{}", texts[0]);
    });
}

#[test]
fn what_was_only_tested_so_far_is_said_and_not_refused() {
    let noted = profile(("source = \"A §1\"", "source = \"A §1\", note = true"));
    let Checked { findings, .. } = check(&noted, &Facts { frame_bytes: 9000, ..facts() });
    assert!(findings.len() == 1 && !findings[0].refused && findings[0].text.contains("9000"), "{findings:?}");
}

/// Invalid keys, words and values of a profile: each error names the place and the valid alternatives.
#[test]
fn wrong_profiles_are_refused_with_place_and_neighbour() {
    for (from, to, words) in [
        ("[ports]", "[prots]", &["prots", "did you mean \"ports\""][..]),
        ("count = 7", "cuont = 7", &["base.toml:", "ports.cuont", "did you mean \"count\""]),
        ("plan = \"generic\"", "plan = \"olav\"", &["there is no plan \"olav\"", "did you mean \"olaf\"", "switchml"]),
        (
            "workers = \"10.1.0.1\"",
            "workers = \"10.1.0\"",
            &["addressing.workers", "10.1.0", "write for example 10.1.0.1"],
        ),
        ("02:00:00:00:00:01", "02:00", &["worker_macs", "02:00", "02:00:0a:01:00:01"]),
        ("device_mac = \"02:00:00:00:09:02\"\n", "", &["device and device_mac belong together"]),
        ("groups =", "next_hop = \"switch\"\ngroups =", &["next_hop", "direct, device"]),
        ("groups =", "vlan = 4095\ngroups =", &["vlan", "4095 is not from 0 to 4094"]),
        ("groups =", "hosts = [{ ip = \"10.0.0.9\" }]\ngroups =", &["worker = N"]),
        (
            "groups =",
            "hosts = [{ worker = 1, mack = \"x\" }]\ngroups =",
            &["addressing.hosts.mack", "did you mean \"mac\""],
        ),
        ("[\"olaf\", \"libra\"]", "[\"olav\"]", &["frames.formats", "olav", "did you mean \"olaf\""]),
        ("[\"payload\"]", "[\"payloat\"]", &["frames.rewrites", "payloat", "did you mean \"payload\""]),
        ("[\"ip_src\"]", "[\"payload\"]", &["frames.keeps", "rewrites \"payload\" and keeps it"]),
        ("what = \"workers\"", "what = \"worker\"", &["\"worker\" can be limited", "did you mean \"workers\""]),
        ("most = 6,", "most = 6, one_of = [1],", &["most = N or one_of", "exactly one"]),
        ("most = 6,", "", &["most = N or one_of", "exactly one"]),
        (", source = \"A §4\"", "", &["where it is known from", "source"]),
        ("one_of = [46, 64]", "one_of = [-1]", &["-1 is not a whole number"]),
        ("most = 6,", "most = 6, moist = 7,", &["limits.of.moist", "did you mean \"most\""]),
        ("count = 7", "count = 0", &["ports.count", "0 is not from 1 to 4096"]),
        ("count = 7", "count = 7\nnames = \"port\"", &["calls all ports alike", "{}"]),
        ("count = 7", "count = 7\nserver = 9", &["ports.server", "9 is not from 1 to 7"]),
        ("count = 7", "count = 7\nrate = \"0bps\"", &["ports.rate", "carries nothing"]),
        ("is = \"frames_sent\"", "is = \"frames\"", &["counters.of.is", "frames_to_server"]),
    ] {
        assert!(BASE.contains(from), "{from}");
        let why = Profile::parse(&BASE.replacen(from, to, 1), "base.toml", &all().protocols)
            .err()
            .unwrap_or_else(|| panic!("{to}"));
        assert_eq!(why.exit_code(), 2);
        words.iter().for_each(|word| assert!(why.to_string().contains(word), "{to}: {why} does not say {word}"));
    }
    for (name, words) in [
        ("tofino-switchmm", &["test: there is no profile", "did you mean \"tofino-switchml\"", "generic"][..]),
        ("nowhere/x.toml", &["test: the profile nowhere/x.toml cannot be read", "give a path"]),
    ] {
        let why = open(name, "test", &all().protocols).err().expect("no such profile").to_string();
        words.iter().for_each(|word| assert!(why.contains(word), "{why} does not say {word}"));
    }
}

#[test]
fn what_is_shipped_is_sound_and_all_of_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/hardware");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut names: Vec<_> = SHIPPED.iter().map(|(name, _)| format!("{name}.toml")).collect();
    names.sort();
    let found: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(found, names);
    for (name, _) in SHIPPED {
        let profile = open(name, "test", &all().protocols).unwrap();
        assert_eq!(profile.name, *name);
        assert!(profile.limits.iter().all(|limit| limit.source.len() > 5), "{name}");
        // Two workers exceed no limit of any profile; only the format and the packets matter.
        let most = |of: &str| profile.limits.iter().filter(|limit| limit.of == of).filter_map(|limit| limit.most).min();
        let facts = Facts {
            format: profile.formats.first().cloned().unwrap_or("olaf".into()),
            workers: Arc::new(Population::regular(1, 2)),
            frame_bytes: 180,
            elements: most("elements").map_or(64, |most| most.min(64)),
            window: Some(1),
            hot: Some(2),
            hot_parameters: vec![vec![HotParameter { index: 0, key: 7, register: 0, slot: 0 }]],
            ..Facts::default()
        };
        assert_eq!(refusals(&profile, &facts), [""; 0], "{name}");
        let addresses = profile.addressing.resolve(&facts.workers).unwrap();
        let whole = plan(&Job { profile: &profile, facts: &facts, addresses: &addresses });
        assert!(whole["entries"].as_object().is_some_and(|entries| !entries.is_empty()), "{name}");
        let own = profile.planner.syntaxes();
        assert!(own.is_empty() != profile.planner.unpublished().is_empty(), "{name} has a syntax, or says why not");
        // A profile given as a file gives the same result.
        let text = std::fs::read_to_string(format!("{folder}/{name}.toml")).unwrap();
        assert_eq!(Profile::parse(&text, name, &all().protocols).unwrap().addressing, profile.addressing);
    }
}

/// Background traffic is of no cluster: a card that knew its sender would merge it.
#[test]
fn senders_of_background_traffic_are_in_no_table_of_olaf() {
    let profile = open("alveo-u55c-olaf", "test", &all().protocols).expect("a profile");
    let workers = Arc::new(Population { cluster_of: vec![0, NO_CLUSTER, 1], moves: Vec::new() });
    let facts = Facts { workers, ..facts() };
    let addresses = profile.addressing.resolve(&facts.workers).expect("addresses");
    let whole = plan(&Job { profile: &profile, facts: &facts, addresses: &addresses });
    let known = whole["entries"]["update_identifier"].as_array().expect("a list");
    let own: Vec<_> = known.iter().map(|entry| (entry["worker"].as_u64(), entry["cluster"].as_u64())).collect();
    assert_eq!(own, [(Some(0), Some(0)), (Some(2), Some(1))]);
}

/// Tables that the controller of SwitchML cannot load are not written.
#[test]
fn what_a_syntax_of_switchml_cannot_express_is_refused() {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == "tofino-switchml").expect("a profile").1;
    let server = "to = \"server\"\nserver = \"10.40.1.1\"\nserver_mac = \"02:40:0a:28:01:01\"";
    let (both, controller, none): (&[&str], &[&str], &[&str]) = (&["switchml", "bfrt"], &["switchml"], &[]);
    for (old, new, format, clusters, refused, part) in [
        ("", "", "switchml", 1, none, ""),
        ("count = 32", "count = 32\nworkers_per_port = 2", "switchml", 1, both, "0 and 1 are both at port 1/0"),
        ("group_ids = 0", "group_ids = 0\nshared_mac = true", "switchml", 1, both, "addressing.shared_mac = false"),
        ("group_ids = 0", "group_ids = 0\nvlan = 3", "switchml", 1, both, "addressing.vlan = 0"),
        ("\"100Gbps\"", "\"10500Mbps\"", "switchml", 1, both, "change ports.rate"),
        ("\"100Gbps\"", "\"2500Mbps\"", "switchml", 1, both, "change ports.rate"),
        ("\"100Gbps\"", "\"400Gbps\"", "switchml", 1, controller, "change ports.rate"),
        ("\"{}/0\"", "\"et-{}\"", "switchml", 1, both, "NUMBER/CHANNEL"),
        ("\"{}/0\"", "\"{}\"", "switchml", 1, controller, "NUMBER/CHANNEL"),
        ("port = 48864", "port = 5000", "switchml", 1, controller, "48864 to 48879"),
        ("to = \"device\"", server, "switchml", 1, both, "addressing.device_mac"),
        ("", "", "switchml_roce", 1, both, "RoCEv2"),
        ("", "", "switchml", 2, both, "workload.jobs = 1"),
    ] {
        assert!(shipped.contains(old), "{old}");
        let mut text = shipped.replacen(old, new, usize::from(!old.is_empty()));
        if new == server {
            text = text.lines().filter(|line| !line.starts_with("device")).map(|line| format!("{line}\n")).collect();
        }
        let profile = Profile::parse(&text, "x", &all().protocols).expect("a profile");
        let facts = Facts {
            format: format.into(),
            workers: Arc::new(Population::regular(clusters, 2)),
            elements: 64,
            has_server: false,
            ..facts()
        };
        let addresses = profile.addressing.resolve(&facts.workers).expect("addresses");
        for own in profile.planner.syntaxes() {
            let written = (own.write)(&Job { profile: &profile, facts: &facts, addresses: &addresses });
            match written {
                Ok(files) => assert!(!refused.contains(&own.name) && !files.is_empty(), "{}: {new}", own.name),
                Err(why) => {
                    assert!(
                        refused.contains(&own.name) && why.to_string().contains(part),
                        "{}: {new}: {why}",
                        own.name
                    );
                }
            }
        }
    }
}

proptest! {
    /// Damaged profiles are either refused, or read and checked: nothing panics.
    #[test]
    fn any_bytes_as_a_profile_never_panic(
        which in 0..SHIPPED.len(), cuts in prop::collection::vec((0.0f64..1.0, "\\PC{0,12}"), 0..4), raw: Vec<u8>,
    ) {
        let mut text = SHIPPED[which].1.to_owned();
        for (at, insert) in cuts {
            let mut at = (at * text.len() as f64) as usize;
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, &insert);
        }
        for text in [text, String::from_utf8_lossy(&raw).into_owned()] {
            if let Ok(profile) = Profile::parse(&text, "x", &all().protocols) {
                let facts = facts();
                let _ = check(&profile, &facts);
                if let Ok(addresses) = profile.addressing.resolve(&facts.workers) {
                    let _ = plan(&Job { profile: &profile, facts: &facts, addresses: &addresses });
                    profile.planner.syntaxes().iter().for_each(|own| {
                        let _ = (own.write)(&Job { profile: &profile, facts: &facts, addresses: &addresses });
                    });
                }
            }
        }
    }
}

#[test]
fn numbers_at_the_end_of_their_range_do_not_overflow() {
    for (from, to) in [
        ("workers_per_port = 1", "workers_per_port = 4294967295"),
        ("groups =", "group_ids = 4294967295\ngroups ="),
        ("count = 7", "count = 4096\nfirst = 4096"),
        ("\"239.1.0.0\"", "\"255.255.255.255\""),
    ] {
        let profile = profile((from, to));
        let facts = facts();
        let _ = check(&profile, &facts);
        if let Ok(addresses) = profile.addressing.resolve(&facts.workers) {
            let _ = plan(&Job { profile: &profile, facts: &facts, addresses: &addresses });
        }
    }
    assert!(Document::parse(BASE, "base").is_ok());
}
