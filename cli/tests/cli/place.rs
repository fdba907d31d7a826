//! `pktgen place` from the user's view.

use std::fs;
use std::path::Path;

use crate::support::pktgen;
use serde_json::{Value, json};

const EXAMPLE: &str = r#"{"nodes":[{"id":0,"parent":null},{"id":1,"parent":0},{"id":2,"parent":0},{"id":3,"parent":1,"load":2},
    {"id":4,"parent":1,"load":6},{"id":5,"parent":2,"load":5},{"id":6,"parent":2,"rate":1.0,"load":4,"available":true}]}"#;

fn object(folder: &Path, args: &[&str]) -> Value {
    let output = pktgen(folder, &[&["place"], args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn refused(folder: &Path, args: &[&str], parts: &[&str]) {
    let output = pktgen(folder, &[&["place"], args].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{args:?}: {text}");
}

#[test]
fn soar_places_the_papers_example() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    fs::write(at.join("tree.json"), EXAMPLE).expect("writable");
    for (k, phi) in [("0", 51), ("1", 35), ("2", 20), ("3", 15), ("4", 11), ("7", 7)] {
        assert_eq!(object(at, &["soar", "tree.json", "--k", k])["phi"], f64::from(phi), "k = {k}");
    }
    let found = object(at, &["soar", "tree.json", "-k", "2", "--explain"]);
    assert_eq!(found["blue"], json!([2, 4]));
    let costs = json!({"soar": 20.0, "top": 27.0, "max": 24.0, "level": 21.0, "all_red": 51.0, "all_blue": 7.0});
    assert_eq!(found["strategies"], costs);
    let of = |i: usize| (found["alternatives"][i]["without"].clone(), found["alternatives"][i]["phi"].clone());
    assert_eq!((of(0), of(1)), ((json!(2), json!(24.0)), (json!(4), json!(21.0))));
    let text = pktgen(at, &["place", "soar", "tree.json", "-k", "2"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("phi 20, 39.2 % of all red, at best\nblue 2, 4\n"));
}

#[test]
fn soar_writes_trees_plans_and_pictures_and_places_workloads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let made = ["soar", "BT(16)", "-k", "3", "--rates", "linear", "--loads", "power_law", "--write", "t.json"];
    let files = ["--plan", "p.json", "--svg", "p.svg", "--dot", "p.dot"];
    let one = object(at, &[&made[..], &files].concat());
    assert_eq!(object(at, &["soar", "t.json", "-k", "3"]), one, "what was written is what was placed");
    let plan = pktgen_core::plan::Plan::read(&at.join("p.json")).expect("a plan");
    assert_eq!(
        (Some(plan.utilisation()), plan.phi.map(|phi| phi.into())),
        (one["phi"].as_f64(), Some(one["phi"].clone()))
    );
    assert!(fs::read_to_string(at.join("p.svg")).expect("a picture").starts_with("<svg "));
    assert!(fs::read_to_string(at.join("p.dot")).expect("a graph").starts_with("digraph "));
    fs::write(at.join("tree.json"), EXAMPLE).expect("writable");
    let loads = json!([{"3": 2, "4": 6, "5": 5, "6": 4}, {"3": 2, "4": 6, "5": 5, "6": 4}]);
    fs::write(at.join("w.json"), loads.to_string()).expect("writable");
    let found = object(at, &["soar", "tree.json", "-k", "2", "--workloads", "w.json", "--capacity", "1"]);
    // The second has neither 2 nor 4: the next best are leaves.
    assert_eq!(
        (found["workloads"][0]["phi"].as_f64(), found["workloads"][0]["blue"].clone()),
        (Some(20.0), json!([2, 4]))
    );
    let second = found["workloads"][1]["phi"].as_f64().expect("a number");
    assert!(second > 20.0 && found["phi"].as_f64() == Some(20.0 + second), "{found}");
    // No workloads cost nothing, and 0 has no sign.
    fs::write(at.join("none.json"), "[]").expect("writable");
    let none = object(at, &["soar", "tree.json", "-k", "2", "--workloads", "none.json"]);
    assert!(none["phi"].as_f64().is_some_and(|phi| phi == 0.0) && !none.to_string().contains("-0"), "{none}");
}

/// Returns the rate in Gbit/s at the paper's scale (ATRO §IV): 20 switches of 24 ports, L = 5, 100 Gbit/s.
fn rate(folder: &Path, workers: u32, aggregators: u32) -> u64 {
    let (workers, aggregators) = (workers.to_string(), aggregators.to_string());
    let args = ["atro", "--workers", &workers, "--switches", "20", "--ports", "24", "--aggregators", &aggregators];
    let found = object(folder, &[&args[..], &["--capacity", "100Gbps", "--layers", "5"]].concat());
    assert_eq!((&found["optimal"], &found["rate_bps"]), (&json!(true), &found["bound_bps"]));
    let plan: pktgen_core::plan::Plan = serde_json::from_value(found["topology"].clone()).expect("a plan");
    assert_eq!(plan.check(), Ok(()));
    assert_eq!(found["cross_connects"].as_array().map(Vec::len), Some(plan.links.len()));
    found["rate_bps"].as_u64().expect("a number") / 1_000_000_000
}

#[test]
fn atro_wires_the_papers_clusters() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    assert_eq!([60, 70, 80, 90].map(|workers| rate(at, workers, 4)), [100, 100, 100, 50]);
    assert_eq!([1, 2, 3, 5, 6].map(|aggregators| rate(at, 90, aggregators)), [20, 33, 50, 100, 100]);
    let cluster = ["atro", "--workers", "90", "--switches", "20", "--ports", "24", "--aggregators", "4"];
    let chosen = object(at, &[&cluster[..], &["--rates", "40Gbps,25Gbps,60Gbps"]].concat());
    assert_eq!((&chosen["rate_bps"], &chosen["bound_bps"]), (&json!(40_000_000_000u64), &json!(40_000_000_000u64)));
    let allowed = pktgen(at, &[&["place"], &cluster[..], &["--rates", "40Gbps,25Gbps"]].concat());
    let first = String::from_utf8_lossy(&allowed.stdout).lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("rate 40 Gbit/s, the most that any wiring has of the allowed rates"));
    let text = pktgen(at, &[&["place"], &cluster[..], &["--svg", "a.svg", "--dot", "a.dot"]].concat());
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("rate 50 Gbit/s, the most that any wiring has\n"));
    assert_eq!(fs::read_to_string(at.join("a.svg")).expect("a picture").matches("class=\"aggregator\"").count(), 4);
}

const LATE: &str = r#"{"switches": [{"name": "a", "ports": 5, "rate": "25Gbps"},
    {"name": "b", "ports": 5, "rate": "10Gbps", "aggregates": true}], "hosts": [{"name": "gpu", "count": 5, "rate": "10Gbps"}],
    "server": {"rate": "40Gbps"}, "layers": 3}"#;

const UNEQUAL: &str = r#"{"switches": [{"name": "agg", "count": 2, "ports": 12, "rate": "100Gbps", "aggregates": true},
    {"name": "leaf", "count": 3, "ports": 8, "rate": "40Gbps"}], "hosts": [{"name": "gpu", "count": 30, "rate": "25Gbps"}],
    "server": {"rate": "50Gbps"}, "links": [{"between": ["agg0", "leaf2"], "rate": "10Gbps"}], "device_ports": 384}"#;

#[test]
fn atro_wires_unequal_switches_from_a_file_or_flags() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    fs::write(at.join("cluster.json"), UNEQUAL).expect("writable");
    let file = object(at, &["atro", "--cluster", "cluster.json", "--milp", "p.lp", "--plan", "plan.json"]);
    let flags = ["atro", "--workers", "30", "--switches", "5", "--aggregators", "2", "--ports", "2x12,3x8"];
    let rates = ["--capacity", "2x100Gbps,3x40Gbps", "--host-rate", "25Gbps", "--server-rate", "50Gbps"];
    let link = ["--link", "agg0-cs4=10Gbps", "--device-ports", "384"];
    let same = object(at, &[&flags[..], &rates, &link].concat());
    assert_eq!((&file["rate_bps"], &file["bound_bps"]), (&same["rate_bps"], &same["bound_bps"]));
    assert_eq!((&file["optimal"], &file["device_ports"]["limit"]), (&json!(true), &json!(384)));
    assert_eq!(file["device_ports"]["all"], json!(2 * 12 + 3 * 8 + 30 + 1));
    let plan = pktgen_core::plan::Plan::read(&at.join("plan.json")).expect("a plan");
    let names: Vec<_> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    assert!(names.contains(&"agg0") && names.contains(&"gpu29"), "{names:?}");
    let mut hosts = plan.links.iter().filter(|link| plan.nodes[link.from].name.starts_with("gpu"));
    assert!(hosts.all(|link| link.rate_bps == 25_000_000_000));
    assert!(fs::read_to_string(at.join("p.lp")).expect("a program").contains("agg0, 12 ports of"));
    let text = pktgen(at, &["place", "atro", "--cluster", "cluster.json"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("the most that any wiring has") && text.contains("of 79 ports at the optical device"),
        "{text}"
    );
    let small = [&flags[..], &rates, &["--device-ports", "40"]].concat();
    refused(at, &small, &["device_ports: the wiring takes", "optical device of 40", "1008"]);
    refused(at, &["atro", "--cluster", "cluster.json", "--workers", "3"], &["cluster.json", "leave --workers out"]);
    refused(at, &["atro", "--cluster", "cluster.json", "--ports", "3"], &["--ports"]);
    refused(at, &["atro", "--workers", "3"], &["--switches"]);
    let runs = ["atro", "--workers", "9", "--switches", "3", "--ports", "2x8", "--aggregators", "1"];
    refused(at, &runs, &["--ports 2x8", "--switches is 3"]);
}

/// Predictions are checked by a replay: messages per link as whole numbers, φ, and the AllReduce rate on the wire.
#[test]
fn plans_are_carried_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let measured = |name: &str| {
        let out = at.join(name);
        let run = pktgen(at, &["-q", "replay", &format!("{name}.toml"), "--out", &out.display().to_string()]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let lines = pktgen(at, &["analyze", &out.display().to_string(), "--json"]).stdout;
        let lines: Vec<Value> =
            String::from_utf8_lossy(&lines).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        move |metric: &str| {
            let line = lines.iter().find(|line| line["metric"] == metric).unwrap_or_else(|| panic!("no {metric}"));
            line["value"].as_f64().unwrap_or_else(|| panic!("{metric} is not known"))
        }
    };
    let soar =
        object(at, &["soar", "BT(64)", "-k", "5", "--loads", "power_law", "--rates", "linear", "--emit", "s.toml"]);
    let found = measured("s");
    assert_eq!(found("links_unlike_plan"), 0.0);
    let phi = soar["phi"].as_f64().expect("a number");
    assert!((found("phi") - phi).abs() <= 1e-12 * phi && (found("phi_planned") - phi).abs() <= 1e-12 * phi);
    // Two messages of each worker, which reach a link one after the other: at the plan's rate its load is 1 all the same.
    let plain = ["atro", "--workers", "6", "--switches", "4", "--ports", "4", "--aggregators", "0"];
    object(at, &[&plain[..], &["--emit", "v.toml", "--messages", "2"]].concat());
    let load = measured("v")("link_load_max");
    assert!((0.999..1.001).contains(&load), "{load}");
    // The first round of some link waits here: its load is above 1 by less than a period of the others, at the plan's rate.
    fs::write(at.join("late.json"), LATE).expect("writable");
    let planned = object(at, &["atro", "--cluster", "late.json", "--emit", "l.toml", "--messages", "20"]);
    let late = measured("l");
    assert_eq!(Some(late("allreduce_rate")), planned["rate_bps"].as_f64());
    assert!((1.001..1.0 + 1.0 / 18.0).contains(&late("link_load_max")), "{}", late("link_load_max"));
    let cluster =
        ["atro", "--workers", "20", "--switches", "6", "--ports", "8", "--aggregators", "2", "--capacity", "10Gbps"];
    fs::write(at.join("cluster.json"), UNEQUAL).expect("writable");
    let unequal = ["atro", "--cluster", "cluster.json"];
    for (name, factor, cluster) in
        [("a", "1", &cluster[..]), ("b", "1.02", &cluster[..]), ("c", "1", &unequal[..]), ("d", "1.02", &unequal[..])]
    {
        let file = format!("{name}.toml");
        let found = object(at, &[cluster, &["--emit", &file, "--messages", "1000", "--factor", factor]].concat());
        let rate = found["rate_bps"].as_f64().expect("a number");
        let measured = measured(name);
        assert_eq!(measured("links_unlike_plan"), 0.0);
        let (reached, load) = (measured("allreduce_rate"), measured("link_load_max"));
        if factor == "1" {
            assert!(found["flows_per_link"].as_u64() > Some(1), "{found}");
            assert!(reached >= 0.98 * rate && load < 1.01, "{reached} of {rate}, load {load}");
        } else {
            assert!(load > 1.015 && reached < 1.005 * rate, "{reached} of {rate}, load {load}");
        }
    }
}

/// The plan beside an emitted experiment is an output as well.
#[test]
fn emitted_plans_replace_no_input_nor_another_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let names = [("z.plan.json", EXAMPLE), ("c.plan.json", UNEQUAL)];
    names.iter().for_each(|(name, text)| fs::write(at.join(name), text).expect("writable"));
    let lost = ["z.toml", "also writes its plan to z.plan.json", "is an input"];
    refused(at, &["soar", "z.plan.json", "-k", "2", "--emit", "z.toml"], &lost);
    refused(at, &["atro", "--cluster", "c.plan.json", "--emit", "c.toml"], &["c.plan.json", "is an input"]);
    for (name, text) in names {
        assert_eq!(fs::read_to_string(at.join(name)).expect("still there"), text);
    }
    for flag in ["--plan", "--svg", "--dot", "--write"] {
        let twice = ["soar", "BT(8)", "-k", "2", "--emit", "y.toml", flag, "y.plan.json"];
        refused(at, &twice, &["y.plan.json", "two outputs have this name"]);
    }
    let many = ["soar", "BT(8)", "-k", "2", "--emit", "y.toml", "--messages", "65537"];
    refused(at, &many, &["--messages 65537: 1 to 65536"]);
}

#[test]
fn messages_have_the_bytes_of_a_frame() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let emits = ["soar", "BT(8)", "-k", "2", "--plan", "y.json", "--emit", "y.toml", "--bytes"];
    for size in ["5GB", "12bit", "75B"] {
        let message = format!("--bytes {size}: a message has 76 to 9036 whole bytes");
        refused(at, &[&emits[..], &[size]].concat(), &[&message]);
    }
    assert!(!at.join("y.json").exists(), "the plan was written before the size was refused");
    object(at, &[&emits[..], &["608bit"]].concat());
    assert!(at.join("y.json").exists());
    assert!(fs::read_to_string(at.join("y.toml")).expect("an experiment").contains("bytes = \"76B\""));
}

#[test]
fn no_file_is_written_with_an_experiment_that_is_refused() {
    let soar = ["soar", "BT(8)", "-k", "2", "--svg", "p.svg", "--write", "t.json"];
    let atro = ["atro", "--workers", "30", "--switches", "5", "--aggregators", "2", "--ports", "24", "--milp", "p.lp"];
    let refusals = |promises: bool| match promises {
        true => vec![("--factor", "0", "--factor 0.0: it is above 0")],
        false => vec![
            ("--factor", "2", "this plan promises none"),
            ("--messages", "0", "--messages 0: "),
            ("--messages", "65537", "1 to 65536"),
        ],
    };
    for (places, promises) in [(&soar[..], false), (&atro[..], true)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = folder.path();
        let all = [places, &["--plan", "p.json", "--emit", "y.toml"]].concat();
        let files = || fs::read_dir(at).expect("a folder").count();
        for (flag, value, why) in refusals(promises) {
            refused(at, &[&all[..], &[flag, value]].concat(), &[why]);
            assert_eq!(files(), 0, "{flag} {value}");
        }
        object(at, &all);
        assert_eq!(files(), if promises { 4 } else { 5 });
    }
}

#[test]
fn what_cannot_be_placed_is_explained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("writable");
    write("loose.json", r#"{"nodes":[{"id":0,"parent":null},{"id":1,"parent":2},{"id":2,"parent":1}]}"#);
    write("negative.json", r#"{"nodes":[{"id":0,"parent":null,"load":-4}]}"#);
    refused(
        at,
        &["soar", "loose.json", "-k", "1"],
        &["loose.json: 2 nodes are not connected to the root (first 1, 2)"],
    );
    refused(at, &["soar", "negative.json", "-k", "1"], &["negative.json: node 0: load -4; a load is a count"]);
    refused(at, &["soar", "BT(7)", "-k", "1"], &["BT(7)", "n is 2, 4, 8"]);
    refused(at, &["soar", "BT(8)", "-k", "1", "--loads", "unifrom"], &["--loads unifrom", "did you mean \"uniform\""]);
    write("w.json", "[{\"9\": 1}]");
    refused(
        at,
        &["soar", "BT(8)", "-k", "1", "--workloads", "w.json"],
        &["workload 0 has load at 9, which is no switch"],
    );
    write("w.json", "[{\"3\": 1}]");
    for flags in [["--loads", "uniform"], ["--seed", "3"]] {
        let args = [&["soar", "BT(8)", "-k", "1", "--workloads", "w.json"], &flags[..]].concat();
        refused(at, &args, &[flags[0], "--workloads has the loads of every workload"]);
    }
    write("loaded.json", EXAMPLE);
    let noted = pktgen(at, &["place", "soar", "loaded.json", "-k", "1", "--workloads", "w.json"]);
    assert!(String::from_utf8_lossy(&noted.stderr).contains("loaded.json: its loads are not used"));
    write("empty.json", r#"{"nodes":[{"id":0,"parent":null}]}"#);
    for flag in ["--plan", "--svg", "--dot", "--emit"] {
        refused(at, &["soar", "empty.json", "-k", "1", flag, "none.toml"], &["--plan", "empty.json has no load"]);
    }
    assert!(!at.join("none.toml").exists());
    write("fast.json", r#"{"nodes":[{"id":0,"parent":null,"rate":1e11,"load":1}]}"#);
    refused(
        at,
        &["soar", "fast.json", "-k", "1", "--plan", "f.json"],
        &["--plan", "node 0: rate 1e11", "1e-9 to 1.8e10"],
    );
    refused(
        at,
        &["soar", "BT(8)", "-k", "1", "--emit", "f.toml", "--factor", "3"],
        &["--factor 3", "leave --factor out"],
    );
    let atro = |workers: &'static str, layers: &'static str, ports: &'static str| {
        ["atro", "--workers", workers, "--switches", "3", "--ports", ports, "--aggregators", "1", "--layers", layers]
    };
    refused(at, &atro("0", "3", "8"), &["workers"]);
    refused(at, &atro("5000", "3", "8"), &["workers", "5000"]);
    refused(at, &atro("20", "0", "8"), &["layers", "0"]);
    refused(at, &atro("20", "3", "1"), &["ports", "1"]);
    let many =
        ["atro", "--workers", "9", "--switches", "1001", "--ports", "24", "--aggregators", "4", "--milp", "p.lp"];
    refused(at, &many, &["--milp: the program of 1001 switches", "at most 1000", "leave --milp out"]);
    assert_ne!(pktgen(at, &["place", "soar", "missing.json", "-k", "1"]).status.code(), Some(0));
}
