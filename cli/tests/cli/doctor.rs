//! `pktgen doctor` from the user's view: exit codes, JSON, and whether its statements about a veth pair agree with a replay. Interfaces
//! are in a network namespace that a test makes and removes; if that is not permitted, it prints SKIPPED and the reason.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::netns::new_name;
use pktgen_testing::{Need, skip};
use serde_json::Value;
use tempfile::TempDir;

const SMALL: &str = "name = \"small\"\n[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 20\n\
    [schedule]\noffered = \"10Mbps\"\n[topology]\nrate = \"10Mbps\"\n";
const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

fn folder(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    folder
}

/// Runs the binary with the command prefix `before`.
fn pktgen(before: &[&str], folder: &Path, args: &[&str]) -> Output {
    let mut words = before.to_vec();
    words.push(env!("CARGO_BIN_EXE_pktgen"));
    words.extend(args);
    Command::new(words[0]).args(&words[1..]).current_dir(folder).output().expect("it runs")
}

/// Runs `doctor x.toml` with these keys; returns its exit code and standard error.
fn doctor(before: &[&str], set: &[&str]) -> (Option<i32>, String) {
    let folder = folder(SMALL);
    let mut args = vec!["doctor", "x.toml"];
    args.extend(set.iter().flat_map(|set| ["--set", set]));
    let output = pktgen(before, folder.path(), &args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs `replay x.toml` with the same keys; returns its exit code. A run that a host disturbed ends with 1, and is made again.
fn replay(before: &[&str], set: &[&str]) -> Option<i32> {
    let mut args = vec!["-q", "replay", "x.toml", "--out", "out", "--no-report"];
    args.extend(set.iter().flat_map(|set| ["--set", set]));
    let run = |_| pktgen(before, folder(SMALL).path(), &args).status.code();
    (0..10).map(run).find(|code| *code != Some(1)).unwrap_or(Some(1))
}

/// Returns the findings of `doctor --json`; every line must be one.
fn findings(before: &[&str], args: &[&str]) -> Vec<Value> {
    let folder = folder(SMALL);
    let output = pktgen(before, folder.path(), &[&["doctor", "--json"], args].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for finding in &found {
        let fields: Vec<_> = finding.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields.len(), 7, "{fields:?}");
        for field in ["schema", "check", "subject", "level", "value", "why", "remedy"] {
            assert!(finding[field].is_string(), "{finding}");
        }
        assert!(["ok", "note", "warning", "cannot"].contains(&finding["level"].as_str().unwrap_or("")), "{finding}");
    }
    found
}

/// A namespace with two veth pairs that send nothing by themselves; removed when it goes out of scope.
struct Space(String);

impl Space {
    fn make(what: &str) -> Result<Space, String> {
        let space = Space(new_name(&format!("doctor-{what}")));
        ip(&["netns", "add", &space.0])?;
        ip(&["netns", "exec", &space.0, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"])?;
        ip(&["netns", "exec", &space.0, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])?;
        for (a, b) in [("w0", "d0"), ("d1", "s0")] {
            ip(&["-n", &space.0, "link", "add", a, "type", "veth", "peer", "name", b])?;
            ip(&["-n", &space.0, "link", "set", a, "up"])?;
            ip(&["-n", &space.0, "link", "set", b, "up"])?;
        }
        Ok(space)
    }

    fn before(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.0]
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(args).output().map_err(|e| format!("ip does not run: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[test]
fn every_transport_and_the_host_are_told_whatever_they_are() {
    let found = findings(&[], &[]);
    let listed = pktgen(&[], Path::new("."), &["list", "transports", "--json"]);
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let subjects = |check: &str| -> Vec<&str> {
        found.iter().filter(|f| f["check"] == check).filter_map(|f| f["subject"].as_str()).collect()
    };
    assert_eq!(subjects("transport").len(), listed.lines().count());
    for (check, subject) in [("kernel", "version"), ("clock", "reading"), ("memlock", "RLIMIT_MEMLOCK")] {
        assert!(subjects(check).contains(&subject), "{check}, {subject}");
    }
    let plain = pktgen(&[], Path::new("."), &["doctor"]);
    assert_eq!(plain.status.code(), Some(0));
    let text = String::from_utf8(plain.stdout).expect("UTF-8");
    assert!(text.contains("this host\n") && text.contains("transports\n"), "{text}");
    let absent = pktgen(&[], Path::new("."), &["doctor", "--iface", "nowhere0"]);
    assert_eq!(absent.status.code(), Some(0), "nothing has to run");
    assert!(String::from_utf8_lossy(&absent.stdout).contains("absent"));
}

#[test]
fn what_needs_nothing_runs_everywhere() {
    for kind in ["virtual", "ring", "udp"] {
        assert_eq!(doctor(&[], &[&format!("transport.kind={kind}")]), (Some(0), String::new()), "{kind}");
    }
}

#[test]
fn a_wrong_experiment_is_no_fault_of_the_host() {
    for (set, part) in [
        (vec!["workload.updats=3"], "updats"),
        (vec!["transport.kind=af_packt"], "did you mean \"af_packet\""),
        (vec!["transport.kind=af_packet"], "give four"),
        (vec!["transport.kind=ring", "topology.kind=multi_hop"], "topology"),
    ] {
        let (code, said) = doctor(&[], &set);
        assert_eq!(code, Some(2), "{set:?}: {said}");
        assert!(said.contains(part), "{set:?}: {said}");
    }
    let folder = folder(SMALL);
    for args in [&["doctor", "y.toml"][..], &["doctor", "--set", "a=b"]] {
        assert_eq!(pktgen(&[], folder.path(), args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn interfaces_that_are_not_there_are_the_hosts_fault() {
    let four = "transport.interfaces=[\"nowhere0\",\"nowhere1\",\"nowhere2\",\"nowhere3\"]";
    let (code, said) = doctor(&[], &["transport.kind=af_packet", four]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("nowhere") || said.contains("CAP_NET_RAW"), "{said}");
    assert!(said.contains("and ") && said.contains(" more)"), "{said}");
    let found = findings(&[], &["x.toml", "--set", "transport.kind=af_packet", "--set", four]);
    assert_eq!(
        (&found[0]["check"], &found[0]["level"]),
        (&"experiment".into(), &"cannot".into()),
        "reasons come first"
    );
    let absent = found.iter().filter(|f| f["check"] == "experiment" && f["value"] == "refused");
    assert_eq!(absent.count(), 4);
}

/// On veth pairs, it predicts correctly whether an experiment can run.
#[test]
fn it_says_what_a_replay_meets() {
    let space = match Space::make("a") {
        Ok(space) => space,
        Err(why) => return skip(Need::Netns, "doctor on veth pairs", why),
    };
    let before = space.before();
    for kind in ["af_packet", "af_xdp", "xdp_live"] {
        let kind = format!("transport.kind={kind}");
        assert_eq!(doctor(&before, &[&kind, FOUR]), (Some(0), String::new()), "{kind}");
        assert_eq!(replay(&before, &[&kind, FOUR]), Some(0), "{kind}");
    }
    let packet = "transport.kind=af_packet";
    let same = "transport.interfaces=[\"w0\",\"w0\",\"d1\",\"s0\"]";
    for set in [&[packet, same][..], &["transport.kind=pcap", "transport.files=[\"w.pcapng\",\"s.pcapng\"]"]] {
        assert_eq!((doctor(&before, set).0, replay(&before, set)), (Some(2), Some(2)), "{set:?}");
    }
    for (kind, key) in [(packet, "queues=2"), (packet, "stamps=card"), ("transport.kind=af_xdp", "zero_copy=true")] {
        let set = [kind, FOUR, &format!("transport.{key}")[..]];
        assert_eq!((doctor(&before, &set).0, replay(&before, &set)), (Some(3), Some(3)), "{key}");
    }
    let unnamed = [packet, "transport.interfaces=[\"w0\",\"\",\"d1\",\"s0\"]"];
    assert_eq!((doctor(&before, &unnamed).0, replay(&before, &unnamed)), (Some(3), Some(3)));
    let spin = std::thread::available_parallelism().map_or(1, usize::from) < 3;
    if spin {
        let set = ["transport.kind=ring", "transport.wait=spin"];
        assert_eq!((doctor(&[], &set).0, replay(&[], &set)), (Some(3), Some(3)));
    }
    // The largest frame is an answer; the doctor states the MTU that it needs, and with that the experiment runs.
    let long = [packet, FOUR, "workload.bytes=2000B"];
    let (code, said) = doctor(&before, &long);
    assert_eq!((code, replay(&before, &long)), (Some(3), Some(3)), "{said}");
    let mtu = said.split("mtu ").nth(1).and_then(|rest| rest.split(';').next()).expect("the MTU");
    for name in ["w0", "d0", "d1", "s0"] {
        ip(&["-n", &space.0, "link", "set", name, "mtu", mtu]).expect("an MTU");
    }
    assert_eq!((doctor(&before, &long).0, replay(&before, &long)), (Some(0), Some(0)));
    unprivileged(&before);
    ip(&["-n", &space.0, "route", "add", "default", "dev", "s0"]).expect("a route");
    let (code, said) = doctor(&before, &[packet, FOUR]);
    assert_eq!((code, replay(&before, &[packet, FOUR])), (Some(3), Some(3)), "{said}");
    assert!(said.contains("default route") && said.contains("allow_default_route"), "{said}");
    ip(&["-n", &space.0, "link", "set", "w0", "down"]).expect("down");
    let (code, said) = doctor(&before, &[packet, FOUR]);
    assert_eq!((code, replay(&before, &[packet, FOUR])), (Some(3), Some(3)), "{said}");
    assert!(said.contains("ip link set w0 up"), "{said}");
}

/// With few capabilities, its result for each transport is that of a replay. The limit of locked memory depends on the
/// host, so CAP_IPC_LOCK is kept.
fn unprivileged(before: &[&str]) {
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip(Need::Setpriv, "doctor with few capabilities", "setpriv does not run");
    }
    for few in ["-all", "+net_raw", "+net_raw,+net_admin,+bpf,+ipc_lock", "+net_raw,+net_admin,+sys_admin,+ipc_lock"] {
        let (bounding, inherited) = (format!("--bounding-set=-all,{few}"), format!("--inh-caps=-all,{few}"));
        let before = [before, &["setpriv", &bounding, &inherited, "--no-new-privs"]].concat();
        for kind in ["af_packet", "af_xdp", "xdp_live"] {
            let set = [&format!("transport.kind={kind}")[..], FOUR];
            let (code, said) = doctor(&before, &set);
            assert_eq!(code, replay(&before, &set), "{kind} with {few}: {said}");
            assert!(code == Some(0) || said.contains("with --cap-add="), "{kind} with {few}: {said}");
        }
    }
}

/// The doctor changes nothing and sends nothing, not even a probe.
#[test]
fn it_leaves_everything_as_it_is() {
    let space = match Space::make("b") {
        Ok(space) => space,
        Err(why) => return skip(Need::Netns, "doctor leaves veth pairs as they are", why),
    };
    // With details and counters: attached programs, flags, packets sent.
    let state = || ip(&["-n", &space.0, "-d", "-s", "link"]).expect("its links");
    let earlier = state();
    let found = findings(&space.before(), &["--probe", "--iface", "w0", "--iface", "d0"]);
    assert_eq!(state(), earlier);
    let of = |check: &str| found.iter().filter(|f| f["check"] == check).collect::<Vec<_>>();
    let probes = of("probe");
    assert_eq!(probes.len(), 2);
    assert!(probes.iter().all(|f| f["level"] == "ok"), "{probes:?}");
    let label = of("veth");
    assert!(label[0]["why"].as_str().unwrap_or("").contains("figures from veth are not those of a card"), "{label:?}");
    assert_eq!(label[0]["value"], "veth, with d0");
}

/// Root of a user namespace has every capability there, but BPF accepts none of them for the host.
#[test]
fn root_of_a_user_namespace_is_not_root() {
    let set_up = "mount -t sysfs sysfs /sys && ip link add w0 type veth peer name d0 && ip link add d1 type veth \
                  peer name s0 && for i in w0 d0 d1 s0; do ip link set $i up || exit 99; done && exec \"$0\" \"$@\"";
    let before = ["unshare", "-Urnm", "sh", "-c", set_up];
    match Command::new(before[0]).args(&before[1..]).arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return skip(Need::Userns, "doctor in a user namespace", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => return skip(Need::Userns, "doctor in a user namespace", error),
    }
    for (kind, expected) in [("af_packet", 0), ("af_xdp", 3), ("xdp_live", 3)] {
        let set = [&format!("transport.kind={kind}")[..], FOUR];
        let (code, said) = doctor(&before, &set);
        assert_eq!((code, replay(&before, &set)), (Some(expected), Some(expected)), "{kind}: {said}");
        assert_eq!(said.contains("user namespace"), expected == 3, "{kind}: {said}");
    }
}

/// Interfaces of the same names in two network namespaces: `/sys` shows those of the outer one, and the inner one has the default route.
#[test]
fn sys_of_another_network_namespace_hides_no_default_route() {
    let pair = |first: &str, second: &str| format!("ip link add {first} type veth peer name {second} || exit 99; ");
    let up = "for i in w0 d0 d1 s0; do ip link set $i up || exit 99; done; ";
    let four = [&pair("w0", "d0")[..], &pair("d1", "s0"), up].concat();
    // The numbers of the inner ones are not those of any outer one. The outer namespace lives as long as its shell.
    let own = "mount -t sysfs sysfs /sys || exit 99; ";
    let outer = [own, &four, "unshare -nm sh -c \"$0\" \"$@\"; exit $?"].concat();
    let route = "ip addr add 10.66.0.2/24 dev w0 && ip route add default via 10.66.0.1 || exit 99; ";
    let inner = |more: &[&str]| {
        [&pair("p0", "p1")[..], &pair("p2", "p3"), &four, &more.concat(), "exec \"$0\" \"$@\""].concat()
    };
    let (what, set) = ("doctor in two network namespaces", ["transport.kind=af_packet", FOUR]);
    for (more, expected, part) in [
        (&[route][..], 3, "/sys/class/net does not list"),
        (&[], 3, "/sys/class/net does not list"),
        (&[own, route], 3, "default route (0.0.0.0/0 in table main)"),
        (&[own], 0, ""),
    ] {
        let inner = inner(more);
        let before = ["unshare", "-Urnm", "sh", "-c", &outer, &inner];
        match Command::new(before[0]).args(&before[1..]).arg("true").output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return skip(Need::Userns, what, String::from_utf8_lossy(&output.stderr)),
            Err(error) => return skip(Need::Userns, what, error),
        }
        let (code, said) = doctor(&before, &set);
        assert_eq!((code, replay(&before, &set)), (Some(expected), Some(expected)), "{more:?}: {said}");
        assert!(said.contains(part), "{more:?}: {said}");
    }
}

/// Rootless containers often have no user but root.
#[test]
fn a_user_namespace_without_the_user_of_a_launched_device_is_named() {
    let before = ["unshare", "-Urnm", "sh", "-c", "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\""];
    match Command::new(before[0]).args(&before[1..]).arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skip(Need::Userns, "launches there", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return skip(Need::Userns, "launches there", error),
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/support/bench/olaf.toml");
    let text = fs::read_to_string(source).expect("an experiment");
    let launch = "[target.launch]\ncommand = [\"sleep\", \"60\"]\nports = [\"e0\", \"e1\"]\n";
    let folder = folder(&format!("{text}\n{launch}"));
    for args in [&["doctor", "x.toml"][..], &["target", "check", "x.toml", "--allow-launch"]] {
        let output = pktgen(&before, folder.path(), args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains("target.launch.user"), "{args:?}: {said}");
    }
}
