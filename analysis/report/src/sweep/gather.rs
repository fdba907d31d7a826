//! Combines a folder of run dirs without a sweep.json, created by scripts that loop over seeds or settings. Its runs
//! are those of the folders in it, and settings that differ between these become axes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_core::record::{SweepManifest, SweepShard};
use pktgen_core::{Error, Result};

use super::data::{Labels, canonical_labels};
use super::read_manifest;

/// Keys that select runs but do not affect them.
const OF_SEEDS: [&str; 2] = ["seed", "sweep.seeds"];
/// Precedes the key of an axis.
const AXES: &str = "sweep.axes.";
/// The value of a key that was set for other runs only.
const AS_WRITTEN: &str = "as written";

/// Returns the runs of the folders in `dir` as one sweep; `None` if no folder in it has runs.
pub(super) fn gathered(dir: &Path, no_verify: bool) -> Result<Option<SweepManifest>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("read folder", dir))?;
    let has_runs = |path: &Path| ["sweep.json", "manifest.json"].iter().any(|name| path.join(name).is_file());
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| has_runs(path)).collect();
    folders.sort();
    let mut parts = Vec::new();
    for folder in &folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        parts.push((name, read_manifest(folder, no_verify)?));
    }
    let Some((first, whole)) = parts.first() else { return Ok(None) };
    if let Some((other, part)) = parts.iter().find(|(_, part)| part.experiment != whole.experiment) {
        return Err(Error::data(
            dir,
            format!(
                "it has runs of several experiments: {first} is of {}, {other} of {}; name the folders of one",
                whole.experiment, part.experiment
            ),
        ));
    }
    joined(dir, parts).map(Some)
}

fn joined(dir: &Path, parts: Vec<(String, SweepManifest)>) -> Result<SweepManifest> {
    let sets: Vec<BTreeMap<String, String>> = parts.iter().map(|(_, part)| settings(&part.overrides)).collect();
    let differ = |key: &&String| sets.iter().any(|set| set.get(*key) != sets[0].get(*key));
    let mut keys: Vec<String> = sets.iter().flat_map(BTreeMap::keys).filter(differ).cloned().collect();
    keys.sort();
    keys.dedup();
    let shared = |text: &String| parts.iter().all(|(_, part)| part.overrides.contains(text));
    let overrides = parts[0].1.overrides.iter().filter(|text| shared(text)).cloned().collect();
    let mut whole = SweepManifest { overrides, axes: Vec::new(), runs: Vec::new(), ..parts[0].1.clone() };
    // Each plan counts once, however many of its shards there are.
    let shards = || parts.iter().filter_map(|(_, part)| part.shard.as_ref());
    let plans: BTreeMap<String, usize> = shards().map(|own| (own.plan_hash.clone(), own.planned)).collect();
    let wholes: usize = parts.iter().filter(|(_, part)| part.shard.is_none()).map(|(_, part)| part.runs.len()).sum();
    let planned = wholes + plans.values().sum::<usize>();
    let shard = shards().next().map(|own| SweepShard { shard: None, planned, ..own.clone() });
    let (mut points, mut spellings) = (BTreeMap::new(), BTreeMap::new());
    for ((name, part), set) in parts.into_iter().zip(&sets) {
        for run in part.runs {
            let mut run = run;
            let own: PathBuf = Path::new(&name).join(&run.dir).components().collect();
            run.dir = own.to_string_lossy().into_owned();
            for key in &keys {
                // A run of an axis has its value already, also where an override replaced the axis.
                let other = || set.get(key).cloned().unwrap_or_else(|| AS_WRITTEN.to_owned());
                run.labels.entry(key.clone()).or_insert_with(other);
            }
            spell_as_first(&mut run.labels, &mut spellings);
            if let Some(a) = points.insert((run.labels.clone(), run.seed), run.dir.clone()) {
                let (b, seed) = (&run.dir, run.seed);
                return Err(Error::data(
                    dir,
                    format!(
                        "{a} and {b} are the same point with the same seed, {seed}; move one away, or name the folders apart"
                    ),
                ));
            }
            for (axis, value) in &run.labels {
                let known = whole.axes.iter().position(|(known, _)| known == axis).unwrap_or_else(|| {
                    whole.axes.push((axis.clone(), Vec::new()));
                    whole.axes.len() - 1
                });
                if !whole.axes[known].1.contains(value) {
                    whole.axes[known].1.push(value.clone());
                }
            }
            whole.runs.push(run);
        }
    }
    whole.shard = shard.filter(|_| whole.runs.len() < planned);
    Ok(whole)
}

/// Spells equal quantities like the first of them: `spellings` has it by axis and canonical value.
fn spell_as_first(labels: &mut Labels, spellings: &mut BTreeMap<(String, String), String>) {
    let canonical = canonical_labels(labels);
    for ((axis, value), canonical) in labels.iter_mut().zip(canonical.into_values()) {
        let first = spellings.entry((axis.clone(), canonical)).or_insert_with(|| value.clone());
        value.clone_from(first);
    }
}

/// Returns the settings in addition to the experiment file, except seeds. The values of an axis are a setting of its key.
fn settings(overrides: &[String]) -> BTreeMap<String, String> {
    let pairs = overrides.iter().filter_map(|text| text.split_once('='));
    let set = |key: &str| key.strip_prefix(AXES).unwrap_or(key).to_owned();
    let own = pairs.map(|(key, value)| (set(key.trim()), value.trim().to_owned()));
    own.filter(|(key, _)| !OF_SEEDS.contains(&key.as_str())).collect()
}
