//! The guard against the host's default route, in a namespace that the test makes: `replay` and `doctor` refuse the same
//! interfaces with the same words, and `capture`, which sends nothing, refuses none.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::netns::Net;
use pktgen_testing::{Need, skip};

const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

/// An obstacle, the words that report it, and how it is made and removed. `ip` runs inside; `sysctl` where specified.
struct Case {
    what: &'static str,
    said: &'static str,
    made: &'static [&'static str],
    removed: &'static [&'static str],
    /// Whether kernels without this kind of interface exist.
    optional: bool,
}

const CASES: &[Case] = &[
    Case {
        what: "the main table",
        said: "s0 carries the host's default route (0.0.0.0/0 in table main)",
        made: &["route add default via 10.8.8.2 dev s0"],
        removed: &["route del default"],
        optional: false,
    },
    Case {
        what: "another table with a rule",
        said: "s0 carries the host's default route (0.0.0.0/0 in table 100)",
        made: &["route add default via 10.8.8.2 dev s0 table 100", "rule add from 10.8.8.1 table 100"],
        removed: &["rule del from 10.8.8.1 table 100", "route flush table 100"],
        optional: false,
    },
    Case {
        what: "two halves",
        said: "s0 carries the host's default route (0.0.0.0/1 in table main)",
        made: &["route add 0.0.0.0/1 via 10.8.8.2 dev s0", "route add 128.0.0.0/1 via 10.8.8.2 dev s0"],
        removed: &["route del 0.0.0.0/1", "route del 128.0.0.0/1"],
        optional: false,
    },
    Case {
        what: "one of several next hops",
        said: "s0 carries the host's default route (0.0.0.0/0 in table main)",
        made: &["route add default nexthop via 192.0.2.2 dev o0 nexthop via 10.8.8.2 dev s0"],
        removed: &["route del default"],
        optional: false,
    },
    Case {
        what: "a next hop that is an object",
        said: "s0 carries the host's default route (0.0.0.0/0 in table main)",
        made: &["nexthop add id 7 via 10.8.8.2 dev s0", "route add default nhid 7"],
        removed: &["nexthop del id 7"],
        optional: true,
    },
    Case {
        what: "IPv6",
        said: "s0 carries the host's default route (::/0 in table main)",
        made: &["-6 route add default via fd00:8::2 dev s0"],
        removed: &["-6 route del default"],
        optional: false,
    },
    Case {
        what: "IPv6, all that is given out, in another table",
        said: "s0 carries the host's default route (2000::/3 in table 200)",
        made: &["-6 route add 2000::/3 via fd00:8::2 dev s0 table 200"],
        removed: &["-6 route flush table 200"],
        optional: false,
    },
    Case {
        what: "a bridge",
        said: "w0 carries the host's default route (0.0.0.0/0 in table main, through br0 above it)",
        made: &[
            "link add br0 type bridge",
            "link set w0 master br0",
            "link set br0 up",
            "addr add 10.9.9.1/24 dev br0",
            "route add default via 10.9.9.2 dev br0",
        ],
        removed: &["link del br0"],
        optional: false,
    },
    Case {
        what: "a bridge at the other end",
        said: "w0 carries the host's default route (0.0.0.0/0 in table main, through br0 at the other end of it)",
        made: &[
            "link add br0 type bridge",
            "link set d0 master br0",
            "link set br0 up",
            "addr add 10.9.9.1/24 dev br0",
            "route add default via 10.9.9.2 dev br0",
        ],
        removed: &["link del br0"],
        optional: false,
    },
    Case {
        what: "a bond",
        said: "w0 carries the host's default route (0.0.0.0/0 in table main, through bond0 above it)",
        made: &[
            "link add bond0 type bond",
            "link set w0 down",
            "link set w0 master bond0",
            "link set bond0 up",
            "link set w0 up",
            "addr add 10.9.9.1/24 dev bond0",
            "route add default via 10.9.9.2 dev bond0",
        ],
        removed: &["link del bond0", "link set w0 up"],
        optional: true,
    },
    Case {
        what: "a VLAN",
        said: "w0 carries the host's default route (0.0.0.0/0 in table main, through w0.5 above it)",
        made: &[
            "link add link w0 name w0.5 type vlan id 5",
            "link set w0.5 up",
            "addr add 10.9.9.1/24 dev w0.5",
            "route add default via 10.9.9.2 dev w0.5",
        ],
        removed: &["link del w0.5"],
        optional: true,
    },
    Case {
        what: "a macvlan",
        said: "w0 carries the host's default route (0.0.0.0/0 in table main, through m0 above it)",
        made: &[
            "link add link w0 name m0 type macvlan",
            "link set m0 up",
            "addr add 10.9.9.1/24 dev m0",
            "route add default via 10.9.9.2 dev m0",
        ],
        removed: &["link del m0"],
        optional: true,
    },
];

/// Runs a command inside the namespace.
fn inside(net: &Net, words: &[&str]) -> Output {
    let before = net.inside("all");
    Command::new(&before[0]).args(&before[1..]).args(words).output().expect("it runs")
}

fn ip(net: &Net, words: &str) -> Result<(), String> {
    let all: Vec<_> = ["ip"].into_iter().chain(words.split(' ')).collect();
    let output = inside(net, &all);
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn pktgen(net: &Net, words: &[&str]) -> (Option<i32>, String) {
    let output = inside(net, &[&[env!("CARGO_BIN_EXE_pktgen")][..], words].concat());
    let said = [output.stdout, output.stderr].concat();
    // Findings are wrapped into lines.
    let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
    (output.status.code(), said)
}

/// Returns the results of `doctor` and of a run of the same experiment.
fn both(net: &Net, out: &Path, more: &[&str]) -> [(Option<i32>, String); 2] {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/wires/live.toml").display().to_string();
    let out = out.display().to_string();
    let set = ["--set", "transport.kind=af_packet", "--set", FOUR, "--set", "workload.updates=20"];
    let doctor = [&["doctor", &config][..], &set, more].concat();
    let replay = [&["-q", "replay", &config, "--no-report", "--out", &out][..], &set, more].concat();
    [pktgen(net, &doctor), pktgen(net, &replay)]
}

/// Asserts that neither refuses, and that the run sends.
fn is_healthy(net: &Net, what: &str, more: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let [(doctor, advised), (replay, said)] = both(net, &out, more);
    assert!(doctor == Some(0) && matches!(replay, Some(0 | 1)), "{what}: {doctor:?} {advised}\\n{replay:?} {said}");
    let manifest = std::fs::read(out.join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(manifest["balance"]["sent"], 18 * 20, "{what}");
}

#[test]
fn no_way_to_everywhere_is_sent_on() {
    let cables = [(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0")), (("all", "o0"), ("all", "o1"))];
    let net = match Net::make("harm-route", &["all"], &cables) {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "the guard against the default route, all of it", why),
    };
    let six = inside(&net, &["sysctl", "-qw", "net.ipv6.conf.s0.disable_ipv6=0"]).status.success();
    let now = |words: &str| ip(&net, words).unwrap_or_else(|why| panic!("{why}"));
    // A laboratory: addresses, private networks and multicast on the test's interfaces, and the host's default route on another.
    let lab =
        ["addr add 10.8.8.1/24 dev s0", "addr add 192.0.2.1/24 dev o0", "route add 10.0.0.0/8 via 10.8.8.3 dev s0"];
    lab.into_iter().for_each(now);
    ["route add 224.0.0.0/4 dev w0", "route add default via 192.0.2.2 dev o0"].into_iter().for_each(now);
    if six {
        ["-6 addr add fd00:8::1/64 dev s0 nodad", "-6 route add fc00::/7 via fd00:8::3 dev s0"]
            .into_iter()
            .for_each(now);
    }
    is_healthy(&net, "a laboratory", &[]);
    now("route del default");
    for Case { what, said, made, removed, optional } in CASES {
        if what.starts_with("IPv6") && !six {
            skip(Need::Ipv6, &format!("the guard against the default route, {what}"), "this host has no IPv6");
            continue;
        }
        match made.iter().try_for_each(|words| ip(&net, words)) {
            Err(why) if *optional => {
                skip(Need::Links, &format!("the guard against the default route, {what}"), why);
                continue;
            }
            result => result.unwrap_or_else(|why| panic!("{what}: {why}")),
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("out");
        for (code, text) in both(&net, &out, &[]) {
            assert_eq!(code, Some(3), "{what}: {text}");
            assert!(text.contains(said) && text.contains("transport.allow_default_route"), "{what}: {text}");
        }
        assert!(!out.join("manifest.json").exists(), "{what}: nothing was run");
        let captured = folder.path().join("captured").display().to_string();
        let words = ["-q", "capture", "--iface", "w0", "--kind", "af_packet", "--for", "50ms", "--out", &captured];
        let (code, text) = pktgen(&net, &words);
        assert!(code != Some(3) && !text.contains("default route"), "{what}: {code:?} {text}");
        if *what == "two halves" {
            is_healthy(&net, "insisted on", &["--set", "transport.allow_default_route=true"]);
        }
        removed.iter().for_each(|words| ip(&net, words).unwrap_or_else(|why| panic!("{what}: {why}")));
    }
    is_healthy(&net, "all removed", &[]);
}
