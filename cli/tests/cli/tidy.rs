//! The source rules, enforced: imports, registries, clock access, places of `unsafe`, lengths.

use std::fs;
use std::path::Path;

use crate::support::{crates, root};

/// Files that may contain `unsafe`: those that use descriptors, sockets, rings and vector registers.
const UNSAFE: &[&str] = &[
    "generator/core/src/prefetch.rs",
    "generator/core/src/whole.rs",
    "replay/realtime/examples/bare.rs",
    "replay/realtime/src/clock.rs",
    "replay/realtime/src/clock/host.rs",
    "replay/realtime/src/driver/real_time/thread.rs",
    "replay/realtime/src/launch/kernel.rs",
    "replay/realtime/src/run/large_pages.rs",
    "replay/simd/src/lanes.rs",
    "replay/realtime/src/lockstep/process.rs",
    "replay/realtime/src/transport/af_xdp.rs",
    "replay/realtime/src/transport/bpf.rs",
    "replay/realtime/src/transport/ethtool.rs",
    "replay/realtime/src/transport/link.rs",
    "replay/realtime/src/transport/packet_ring.rs",
    "replay/realtime/src/transport/packet_ring_tests.rs",
    "replay/realtime/src/transport/packet_socket.rs",
    "replay/realtime/src/transport/send_ring.rs",
    "replay/realtime/src/transport/socket.rs",
    "replay/realtime/src/transport/xdp_live.rs",
    "replay/realtime/src/transport/xsk.rs",
    "replay/realtime/src/transport/receive_batch.rs",
    "replay/realtime/tests/realtime/support/counting.rs",
    "replay/realtime/tests/realtime/support/kernel.rs",
];
/// The only file that reads clocks.
const CLOCK: &str = "replay/realtime/src/clock.rs";
/// The only file that reads a clock for benches of code that must not read one.
const STOPWATCH: &str = "testing/src/stopwatch.rs";
/// Longest file and longest function, in lines.
const FILE_MAX: usize = 700;
const FUNCTION_MAX: usize = 70;

/// Folders with a registry: folder, list, and files beside it that are no entries. Files of tests (`tests.rs`, `*_tests.rs`) never are.
const REGISTRIES: &[(&str, &str, &[&str])] = &[
    ("generator/workload/src/trace/import", "IMPORTERS", &["columns", "sink"]),
    (
        "generator/workload/src/workload",
        "WORKLOADS",
        &["build", "edit", "held", "mix", "open", "repeat", "share", "survey", "tempo"],
    ),
    ("generator/workload/src/schedule", "SCHEDULES", &["merge", "open", "speed", "tempo", "upcoming"]),
    ("generator/workload/src/learner", "TASKS", &["agent", "iteration", "net"]),
    ("generator/workload/src/study", "STUDIES", &[]),
    ("generator/core/src/topology", "SHAPES", &["model", "routes", "servers"]),
    ("planning/src", "PLACERS", &["emit", "picture"]),
    (
        "replay/realtime/src/transport",
        "TRANSPORTS",
        &[
            "bpf",
            "departures",
            "ethtool",
            "gather",
            "grown",
            "insn",
            "libpcap",
            "link",
            "listen",
            "nowhere",
            "packet_ring",
            "packet_socket",
            "plan",
            "receive_batch",
            "queues",
            "redirect",
            "routes",
            "safety",
            "send_ring",
            "sink",
            "socket",
            "stall",
            "interface_counts",
            "stamps",
            "xsk",
        ],
    ),
    ("replay/realtime/src/transport/middleware", "MIDDLEWARE", &["checksum", "filter", "lane", "plan", "testing"]),
    (
        "replay/doctor/src",
        "CHECKS",
        &["answers", "choice", "examine", "experiment", "finding", "host", "needs", "testing", "text"],
    ),
    ("analysis/records/src/metric", "METRICS", &[]),
    ("analysis/report/src/report", "REPORTS", &[]),
    ("analysis/compare/src/trace", "FAITHFUL", &["sample", "text"]),
    ("analysis/report/src/picture", "CHARTS", &["keep"]),
    (
        "verify/src",
        "PROPERTIES",
        &[
            "bounds",
            "candidates",
            "decide",
            "encode",
            "feedback",
            "rate",
            "reference",
            "setup",
            "sexpr",
            "solver",
            "witness",
        ],
    ),
];

/// Which of our crates a crate may stand on, by their folders; `systems/*` is every system. The manifests are held against it, and
/// the compiler holds sources against manifests.
const EDGES: &[(&str, &[&str])] = &[
    ("generator/core", &[]),
    ("generator/wire", &["generator/core"]),
    ("generator/workload", &["generator/core", "generator/wire"]),
    ("replay/simd", &["generator/core", "generator/wire", "generator/workload"]),
    ("replay/engine", &["generator/core", "generator/wire", "generator/workload", "replay/simd"]),
    ("replay/realtime", &["generator/core", "generator/wire", "generator/workload", "replay/engine"]),
    ("replay/doctor", &["generator/core", "generator/wire", "generator/workload", "replay/engine", "replay/realtime"]),
    ("systems/*", &["generator/core", "generator/wire", "generator/workload", "replay/engine", "replay/simd"]),
    ("systems/registry", &["replay/engine", "systems/*"]),
    ("analysis/records", &["generator/core", "generator/wire", "generator/workload"]),
    ("analysis/capture", &["generator/core", "generator/wire", "analysis/records"]),
    ("analysis/report", &["generator/core", "analysis/records"]),
    (
        "analysis/compare",
        &["generator/core", "generator/wire", "generator/workload", "analysis/records", "analysis/report"],
    ),
    ("analysis/diagnose", &["generator/core", "generator/wire", "generator/workload", "analysis/records"]),
    ("analysis/query", &["generator/core", "analysis/records", "analysis/capture", "analysis/report"]),
    ("planning", &["generator/core", "generator/wire", "generator/workload"]),
    ("verify", &["generator/core", "generator/wire", "generator/workload"]),
    ("certify", &["generator/core", "generator/wire", "replay/engine", "replay/realtime"]),
    ("calibrate", &["generator/core", "replay/realtime", "analysis/records", "analysis/report"]),
];

/// Folder, and the words that its files must not contain.
const BANS: &[(&str, &[&str], &str)] = &[
    ("generator/wire/src", &["std::net", "std::thread", "std::os::fd"], "wire opens no socket and starts no thread"),
    (
        "generator/workload/src",
        &["std::net", "std::thread", "std::os::fd"],
        "generator opens no socket and starts no thread",
    ),
    (
        "replay/engine/src",
        &["std::fs", "std::io", "std::net", "std::os", "std::process", "std::thread", "libc::"],
        "engine does no I/O and starts no thread",
    ),
    ("systems", &["std::net", "std::os", "std::thread", "libc::"], "systems open no socket and start no thread"),
    ("replay/engine/src/target", &["crate::driver"], "targets know no driver"),
    (
        "replay/realtime/src/transport",
        &["crate::capture", "crate::driver", "crate::endpoint", "crate::plan", "crate::run", "crate::target"],
        "transports know frames and clocks only",
    ),
];

/// Every Rust file below `folder`, with its text, by path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> =
            fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                files.push((name, fs::read_to_string(&path).expect("readable")));
            }
        }
    }
    assert!(!files.is_empty(), "{folder} has no sources");
    files
}

fn all_sources() -> Vec<(String, String)> {
    crates()
        .iter()
        .map(String::as_str)
        .chain(["testing"])
        .flat_map(|c| ["src", "tests", "benches"].iter().map(move |d| format!("{c}/{d}")))
        .filter(|folder| root().join(folder).exists())
        .flat_map(|folder| sources(&folder))
        .collect()
}

/// Returns the text without comments, so that prose may name things that code must not use.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn fail_if(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn folders_say_only_what_they_may() {
    let mut problems = Vec::new();
    for (folder, banned, why) in BANS {
        for (name, text) in sources(folder) {
            let code = code(&text);
            problems.extend(banned.iter().filter(|b| code.contains(**b)).map(|b| format!("{name} says {b}: {why}")));
        }
    }
    fail_if(problems);
}

#[test]
fn crates_stand_on_what_they_may() {
    let manifest = |folder: &str| fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
    let all = crates();
    let name_of = |folder: &str| {
        let manifest = manifest(folder);
        manifest.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name").trim_matches('"').to_owned()
    };
    let names: Vec<_> = all.iter().map(|folder| (folder.as_str(), name_of(folder))).collect();
    let is = |folder: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(parent) => folder.starts_with(parent) && folder != "systems/registry",
        None => folder == pattern,
    };
    let mut problems = Vec::new();
    for folder in all.iter().filter(|folder| *folder != "cli") {
        let Some((_, may)) = EDGES.iter().find(|(pattern, _)| is(folder, pattern)) else {
            problems.push(format!("{folder} is not in EDGES"));
            continue;
        };
        let manifest = manifest(folder);
        let own = manifest.split_once("[dependencies]").map_or("", |(_, rest)| rest.split("\n[").next().unwrap_or(""));
        // `name.workspace = true`, `name = { path = … }` and `name={…}`.
        let dependency = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
        let on = own.lines().filter_map(|line| names.iter().find(|(_, name)| dependency(line) == *name));
        let bad = on.filter(|(other, _)| !may.iter().any(|pattern| is(other, pattern)));
        problems.extend(bad.map(|(other, _)| format!("{folder} stands on {other}, and may not")));
    }
    fail_if(problems);
}

#[test]
fn every_file_of_a_registry_is_listed() {
    let mut problems = Vec::new();
    for (folder, list, helpers) in REGISTRIES {
        let text = ["mod.rs", "lib.rs"].iter().find_map(|file| fs::read_to_string(root().join(folder).join(file)).ok());
        let text = text.unwrap_or_else(|| panic!("{folder} has no mod.rs"));
        let start = text.find(&format!("pub static {list}")).unwrap_or_else(|| panic!("{folder} has no {list}"));
        let entries = &text[start..start + text[start..].find("];").expect("the end of the list")];
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_test = stem == "tests" || stem.ends_with("_tests");
            let other =
                path.is_dir() || is_test || ["mod", "lib"].contains(&stem.as_str()) || helpers.contains(&stem.as_str());
            if !other && !entries.contains(&format!("{stem}::")) {
                problems
                    .push(format!("{folder}/{stem}.rs is not in {list}; list it, or name it a helper in this test"));
            }
        }
    }
    fail_if(problems);
}

#[test]
fn every_file_is_a_module() {
    let mut problems = Vec::new();
    // Tests are the modules of one binary per crate: what its main.rs does not declare never runs.
    let folders: Vec<_> = crates().iter().map(|krate| [format!("{krate}/src"), format!("{krate}/tests")]).collect();
    let folders = folders.iter().flatten().filter(|folder| root().join(folder).exists());
    for folder in folders.chain(["testing/src".to_owned()].iter()) {
        let all = sources(folder);
        for (name, _) in &all {
            let path = Path::new(name);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if ["lib", "main"].contains(&stem.as_ref()) {
                continue;
            }
            let (folder, module) = match stem.as_ref() {
                "mod" => (path.parent().and_then(Path::parent), path.parent().and_then(Path::file_name)),
                _ => (path.parent(), path.file_stem()),
            };
            let module = format!("mod {};", module.unwrap_or_default().to_string_lossy());
            let folder = folder.unwrap_or(Path::new("")).display().to_string();
            // Declared in the folder's mod.rs, in lib.rs or main.rs, or in the file the folder is named after.
            let owners = [
                format!("{folder}/mod.rs"),
                format!("{folder}/lib.rs"),
                format!("{folder}/main.rs"),
                format!("{folder}.rs"),
            ];
            let declared = all.iter().any(|(owner, text)| owners.contains(owner) && code(text).contains(&module));
            // A test module may be declared with a path by the file it tests.
            let by_path = all.iter().any(|(_, text)| text.contains(&format!("#[path = \"{stem}.rs\"]")));
            if !declared && !by_path {
                problems.push(format!("{name} is no module: nothing says `{module}`"));
            }
        }
    }
    fail_if(problems);
}

#[test]
fn tests_are_one_binary_per_crate_and_hide_nothing() {
    let mut problems = Vec::new();
    let makefile = fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let units = makefile.lines().find_map(|line| line.strip_prefix("UNITS = ")).expect("its list of tests");
    for krate in &crates() {
        for entry in fs::read_dir(root().join(krate).join("tests")).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "rs")
                || path.join("main.rs").exists() && path.file_name() != Path::new(krate).file_name()
            {
                problems.push(format!("{} is a test binary of its own; be a module of {krate}", path.display()));
            }
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_run = units.split(' ').any(|unit| unit == name) || makefile.contains(&format!("--test {name} "));
            if path.join("main.rs").exists() && !is_run {
                problems.push(format!("{}: make test does not run it: UNITS of the Makefile", path.display()));
            }
        }
    }
    for (name, text) in all_sources().into_iter().filter(|(name, _)| name != "cli/tests/cli/tidy.rs") {
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[ignore") && !line.starts_with("#[ignore = \"started by the other test") {
                problems.push(format!("{name}: {line}: nobody hears of an ignored test; call skip()"));
            }
            if line.contains("print") && line.contains("\"SKIPPED") {
                problems.push(format!("{name}: {line}: skip() lists what is skipped"));
            }
            if line.contains("assert") && line.contains(".elapsed()") && !line.contains("HANG") {
                problems.push(format!("{name}: {line}: no test asserts how long something takes"));
            }
        }
        // Where a block of a comment begins, its kind is named; where it ends, nothing is.
        let marks = text.lines().map(str::trim).filter(|line| line.starts_with("//") && line.contains("```"));
        for line in marks.step_by(2).filter(|line| !line.ends_with("```text")) {
            problems.push(format!("{name}: {line}: make test leaves tests in comments out; ```text, or a unit test"));
        }
    }
    fail_if(problems);
}

#[test]
fn clocks_are_read_in_one_file() {
    let says = |text: &str| ["Instant::now", "SystemTime::now", "UNIX_EPOCH"].iter().any(|c| code(text).contains(c));
    let own = "cli/tests/cli/tidy.rs";
    let offenders = all_sources()
        .into_iter()
        .filter(|(name, text)| ![CLOCK, STOPWATCH, own].contains(&name.as_str()) && says(text));
    fail_if(offenders.map(|(name, _)| format!("{name} reads a clock; {CLOCK} does that")).collect());
    assert!(says(&fs::read_to_string(root().join(CLOCK)).expect("the clock")), "this test can see clocks");
}

#[test]
fn unsafe_stays_in_its_corral() {
    let says = |text: &str| {
        code(text).contains("unsafe {") || code(text).contains("unsafe fn") || code(text).contains("unsafe impl")
    };
    let own = "cli/tests/cli/tidy.rs";
    let offenders =
        all_sources().into_iter().filter(|(name, text)| name != own && says(text) && !UNSAFE.contains(&name.as_str()));
    fail_if(offenders.map(|(name, _)| format!("{name} is unsafe and not in the corral")).collect());
    for krate in crates()
        .iter()
        .filter(|name| !["generator/core", "replay/realtime", "replay/simd", "cli"].contains(&name.as_str()))
    {
        let text = fs::read_to_string(root().join(krate).join("src/lib.rs")).expect("a lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{krate} forbids unsafe");
    }
}

#[test]
fn files_and_functions_stay_short() {
    let mut problems = Vec::new();
    for (name, text) in all_sources() {
        let lines: Vec<_> = text.lines().collect();
        if lines.len() > FILE_MAX {
            problems.push(format!("{name} has {} lines; at most {FILE_MAX}", lines.len()));
        }
        if name.ends_with("src/main.rs") && lines.len() > 30 {
            problems.push(format!("{name} has {} lines; at most 30", lines.len()));
        }
        for (i, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let starts =
                ["fn ", "pub fn ", "pub(super) fn ", "pub(crate) fn "].iter().any(|s| line.trim_start().starts_with(s));
            let end = format!("{}}}", " ".repeat(indent));
            if let Some(length) = lines[i..].iter().position(|l| *l == end).filter(|_| starts && !line.ends_with(';'))
                && length > FUNCTION_MAX
            {
                problems.push(format!("{name}:{} is a function of {length} lines; at most {FUNCTION_MAX}", i + 1));
            }
        }
    }
    fail_if(problems);
}
