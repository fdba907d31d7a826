//! Reports of configs, as tests read them.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Medians by labels (axis=value, in order of axes) and metric.
pub type Medians = BTreeMap<(String, String), f64>;

/// From a report of `config` with some keys set.
pub fn report(config: &str, set: &[&str]) -> Medians {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(config);
    let out = folder.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_pktgen"))
        // Traces in configs are relative to that folder.
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .args(["-q", "replay", &config.display().to_string(), "--out", &out.display().to_string()])
        .args(set.iter().flat_map(|set| ["--set", set]))
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let model: Value = serde_json::from_slice(&fs::read(out.join("report.json")).expect("a report")).expect("JSON");
    assert_eq!(model["verdict"]["valid"], Value::Bool(true));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let columns: Vec<_> = model["columns"].as_array().expect("columns").iter().map(|c| text(&c["key"])).collect();
    let mut all = BTreeMap::new();
    for row in model["rows"].as_array().expect("rows") {
        let labels = row["labels"].as_object().expect("labels");
        let labels: Vec<_> = labels.iter().map(|(axis, value)| format!("{axis}={}", text(value))).collect();
        for (key, cell) in columns.iter().zip(row["cells"].as_array().expect("cells")) {
            if let Some(median) = cell["ours"]["median"].as_f64() {
                all.insert((labels.join(" "), key.clone()), median);
            }
        }
    }
    all
}

/// Values of `metric` whose labels hold all of `parts`, in the order of labels.
pub fn values(all: &Medians, parts: &[&str], metric: &str) -> Vec<f64> {
    let wanted = |(labels, key): &(String, String)| {
        // Labels may have blanks.
        let labels = format!(" {labels} ");
        key == metric && parts.iter().all(|part| labels.contains(&format!(" {part} ")))
    };
    all.iter().filter(|(key, _)| wanted(key)).map(|(_, value)| *value).collect()
}
