//! Crates that the first build must compile: their number, none that only other builds need, and each only once for all builds.

use std::collections::BTreeSet;
use std::process::Command;

/// Number of external crates in the demo's build. A new one adds seconds to every first build: docs/build.md.
const CRATES: usize = 222;
/// Crates that only other builds need, or none: cloud-storage clients, lazy or streaming engines, SQL, text rendering, libpcap, solvers.
const ELSEWHERE: &[&str] = &[
    "arrow",
    "arrow-cast",
    "arrow-csv",
    "arrow-json",
    "arrow-string",
    "fontdb",
    "hyper",
    "object_store",
    "pcap",
    "polars-lazy",
    "polars-parquet",
    "polars-plan",
    "polars-sql",
    "polars-stream",
    "reqwest",
    "resvg",
    "rustls",
    "sqlparser",
    "usvg",
    "z3",
    "z3-sys",
];

/// Returns one line per crate, in `format`, for the build of `arguments`. A crate that several others need is repeated
/// with a mark, but without its dependencies: listing them everywhere would take 45 million lines.
fn tree(format: &str, arguments: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", format]).args(arguments);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}

const DEMO: [&str; 3] = ["-e", "normal,build", "--no-default-features"];

#[test]
fn the_demo_compiles_few_crates() {
    let all = tree("{p}", &DEMO);
    let crates: BTreeSet<_> = all.into_iter().filter(|line| !line.starts_with("pktgen-")).collect();
    assert!(crates.len() <= CRATES, "{} crates, not {CRATES}: which one is new, and what does it cost?", crates.len());
    assert!(crates.len() + 10 > CRATES, "{} crates: lower CRATES", crates.len());
    let name = |line: &String| line.split(' ').next().expect("a name").to_owned();
    let names: BTreeSet<_> = crates.iter().map(name).collect();
    let found: Vec<_> = ELSEWHERE.iter().filter(|other| names.contains(**other)).collect();
    assert!(found.is_empty(), "the demo compiles {found:?}");
    for once in ["arrow-array", "arrow-ipc", "parquet", "polars-core", "zstd-sys"] {
        let versions: Vec<_> = crates.iter().filter(|line| name(line) == once).collect();
        assert_eq!(versions.len(), 1, "{once}: {versions:?}");
    }
}

/// A feature that only tests enable would compile a crate and all its dependents a second time. Polars with SQL is such a case.
#[test]
fn what_the_demo_compiled_serves_the_tests() {
    let theirs = tree("{p} [{f}]", &["-e", "normal,build,dev", "--workspace"]);
    let again: Vec<_> = tree("{p} [{f}]", &DEMO)
        .into_iter()
        .filter(|line| !line.starts_with("pktgen-") && !line.starts_with("polars") && !theirs.contains(line))
        .collect();
    assert!(again.is_empty(), "with other features in tests (cli/Cargo.toml names such features): {again:#?}");
}
