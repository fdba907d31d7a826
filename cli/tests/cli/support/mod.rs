//! Code shared by the tests of the binary.

pub mod bench;
pub mod captures;
pub mod decoded;
pub mod figures;
pub mod loopback;
pub mod netns;
/// Packets made by layout, and what tshark says of them.
#[path = "../../../../systems/registry/tests/registry/support/mod.rs"]
pub mod packets;
pub mod reported;
pub mod serving;
pub mod sharded;
pub mod tools;
pub mod wired;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// 6 workers in 2 clusters, 40 updates each, with a sweep over two queues.
pub const SMALL: &str = r#"
name = "small"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 40
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "20Gbps"
[target]
program = "olaf"
[sweep]
axes."target.queue" = ["fifo", "olaf"]
"#;

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Returns the folders of our crates, without those for tests.
pub fn crates() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    let (_, members) = manifest.split_once("members = [").expect("members");
    let members = members.split(']').next().unwrap_or_default();
    let names = members.split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names.flat_map(folders).filter(|name| name != "testing").collect();
    found.sort();
    found
}

/// The folders with a manifest that a member of the workspace names.
fn folders(member: &str) -> Vec<String> {
    let Some(parent) = member.strip_suffix("/*") else { return vec![member.to_owned()] };
    let entries = std::fs::read_dir(root().join(parent)).expect("a folder of crates");
    let crates = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.join("Cargo.toml").is_file());
    crates.filter_map(|path| Some(format!("{parent}/{}", path.file_name()?.to_str()?))).collect()
}

/// Returns the examples of importers. Those that share the first and the last part of their names, as `ranks.0.et` and `ranks.1.et`,
/// are read together.
pub fn example_groups() -> Vec<Vec<PathBuf>> {
    let folder = std::fs::canonicalize(root().join("traces/examples")).expect("the examples");
    let mut groups: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
        groups.entry((part(name.split('.').next()), part(name.rsplit('.').next()))).or_default().push(path);
    }
    groups.values_mut().for_each(|group| group.sort());
    groups.into_values().collect()
}

/// Returns cases defined by systems in `systems/*/fence.json`: settings by the name of the config.
pub fn cases_of_systems() -> BTreeMap<String, Vec<String>> {
    let systems = std::fs::read_dir(root().join("systems")).expect("systems");
    let files = systems.map(|system| system.expect("an entry").path().join("fence.json")).filter(|path| path.is_file());
    let read = |path: PathBuf| -> BTreeMap<String, Vec<String>> {
        serde_json::from_str(&std::fs::read_to_string(&path).expect("readable"))
            .expect("configs, and what is set for each")
    };
    files.flat_map(read).collect()
}

/// Runs the binary in `folder`.
pub fn pktgen(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pktgen")).current_dir(folder).args(args).output().expect("the binary runs")
}

/// Returns the output of a process as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns whether a process succeeded, and its peak memory shortly before its end, in KiB.
pub fn peak_kib(mut child: Child) -> (bool, u64) {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().expect("a child") {
            return (status.success(), peak);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
