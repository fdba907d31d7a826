//! Pairs runs of two implementations by labels and seed.
//!
//! Called by [`super::judge`] and [`super::rank`]. Runs without a partner are listed, never dropped silently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::{Error, Result};
use pktgen_report::sweep::configuration::{differences, keys};
use pktgen_report::sweep::data::{Labels, RunSummary, VARIANT, canonical_labels, name_of};
use pktgen_workload::workload::HASHED_FILES;
use serde::Serialize;

use super::{NAMED_MAX, Side};

/// A run that is in no pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unpaired {
    /// Name of its implementation.
    pub implementation: String,
    /// Folder, labels and seed.
    pub run: String,
    /// Why it is in no pair.
    pub why: String,
}

/// Result of pairing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pairing {
    /// Number of pairs.
    pub pairs: usize,
    /// Number of points that have pairs.
    pub points: usize,
    /// Runs in no pair.
    pub unpaired: Vec<Unpaired>,
    /// Names of the old and new variant if variants are compared.
    pub across: Option<[String; 2]>,
    /// Number of pairs whose workloads differ.
    pub other_workload: usize,
    /// Number of pairs whose topologies were planned differently.
    pub other_network: usize,
    /// Number of pairs whose external devices had profiles with different contents.
    pub other_profile: usize,
    /// Number of points at which all seeds have the same workload and schedule although chance affects the runs.
    pub one_workload: usize,
}

/// Old and new run.
pub(crate) type Pair<'a> = (&'a RunSummary, &'a RunSummary);

/// Pairs by point, in the order of the new runs.
pub(crate) struct Paired<'a> {
    pub(crate) points: Vec<(Labels, Vec<Pair<'a>>)>,
    pub(crate) said: Pairing,
}

/// Returns the variant of all runs (possibly none); `None` if they differ.
fn only_variant(side: &Side) -> Option<Option<&str>> {
    let variants: BTreeSet<Option<&str>> =
        side.sweep.runs.iter().map(|run| run.labels.get(VARIANT).map(String::as_str)).collect();
    if variants.len() == 1 { variants.into_iter().next() } else { None }
}

/// Returns the two variants if each side has a single one and these differ: then the variants are compared.
fn across(old: &Side, new: &Side) -> Option<[String; 2]> {
    let (old, new) = (only_variant(old)?, only_variant(new)?);
    let shown = |variant: Option<&str>| variant.unwrap_or("without a variant").to_owned();
    (old != new).then(|| [shown(old), shown(new)])
}

/// Returns the point of a run: its labels, without the variant if variants are compared.
pub(crate) fn place(run: &RunSummary, across: bool) -> Labels {
    let labels = run.labels.iter().filter(|(axis, _)| !across || axis.as_str() != VARIANT);
    labels.map(|(axis, value)| (axis.clone(), value.clone())).collect()
}

/// The normalised labels of a run's point, and its seed.
type Key = (Arc<Labels>, u64);

/// Normalised labels of points, each stored once.
struct Places {
    across: bool,
    /// By the labels of runs.
    known: BTreeMap<Arc<Labels>, Arc<Labels>>,
}

impl Places {
    fn key(&mut self, run: &RunSummary) -> Key {
        let normalised = || Arc::new(canonical_labels(&place(run, self.across)));
        (self.known.entry(run.labels.clone()).or_insert_with(normalised).clone(), run.seed)
    }
}

/// Returns runs of `side` by labels and seed; moves invalid and repeated ones to `unpaired`.
fn by_place<'a>(side: &'a Side, places: &mut Places, unpaired: &mut Vec<Unpaired>) -> BTreeMap<Key, &'a RunSummary> {
    let mut runs: BTreeMap<Key, &RunSummary> = BTreeMap::new();
    for run in &side.sweep.runs {
        let mut leave = |why: String| {
            unpaired.push(Unpaired { implementation: side.name.clone(), run: name_of(run), why });
        };
        if !run.validity.is_valid() {
            leave("it is invalid".to_owned());
            continue;
        }
        if run.is_steered() {
            leave("it was steered while it lasted: its rate is its own".to_owned());
            continue;
        }
        let key = places.key(run);
        match runs.get(&key) {
            Some(first) => leave(format!("{} has the same labels and seed", name_of(first))),
            None => drop(runs.insert(key, run)),
        }
    }
    runs
}

/// Pairs the runs of `new` with those of `old`; refuses if there is no pair, unless runs are invalid: these are a result.
pub(crate) fn pair<'a>(old: &'a Side, new: &'a Side) -> Result<Paired<'a>> {
    let across = across(old, new);
    let mut said = Pairing { across: across.clone(), ..Pairing::default() };
    let across = across.is_some();
    let mut places = Places { across, known: BTreeMap::new() };
    let mut olds = by_place(old, &mut places, &mut said.unpaired);
    let news = by_place(new, &mut places, &mut said.unpaired);
    let mut keys = |side: &Side| -> BTreeSet<Key> { side.sweep.runs.iter().map(|run| places.key(run)).collect() };
    let (in_old, in_new) = (keys(old), keys(new));
    let mut points: Vec<(Labels, Vec<Pair>)> = Vec::new();
    let mut known: BTreeMap<Arc<Labels>, usize> = BTreeMap::new();
    let mut spelled: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for run in &new.sweep.runs {
        let key = places.key(run);
        if !news.get(&key).is_some_and(|known| std::ptr::eq(*known, run)) {
            continue;
        }
        let Some(partner) = olds.remove(&key) else {
            said.unpaired.push(lonely(new, run, old, in_old.contains(&key)));
            continue;
        };
        if partner.workload != run.workload {
            let spelled = spelled.entry((&partner.config, &run.config));
            let is_same = *spelled.or_insert_with(|| is_spelling(&partner.config, &run.config));
            said.other_workload += usize::from(!is_same);
        }
        said.other_network += usize::from(partner.network != run.network);
        // Without a hash, the name of the profile in the configuration is all that is known.
        let profiles = partner.profile.as_ref().zip(run.profile.as_ref());
        said.other_profile += usize::from(profiles.is_some_and(|(old, new)| old != new));
        said.pairs += 1;
        let at = *known.entry(key.0).or_insert_with(|| {
            points.push((place(run, across), Vec::new()));
            points.len() - 1
        });
        points[at].1.push((partner, run));
    }
    // Resamples draw pairs by index: sorting gives the same runs the same interval in whatever order folders are read.
    points.iter_mut().for_each(|(_, pairs)| pairs.sort_by_key(|(_, run)| run.seed));
    said.unpaired.extend(olds.iter().map(|(key, run)| lonely(old, run, new, in_new.contains(key))));
    said.points = points.len();
    said.one_workload = points.iter().filter(|(_, pairs)| is_one_workload(pairs)).count();
    let is_valid = |side: &&Side| side.sweep.runs.iter().all(|run| run.validity.is_valid());
    if points.is_empty() && [old, new].iter().all(is_valid) {
        return Err(Error::config(refusal(old, new)));
    }
    Ok(Paired { points, said })
}

/// Returns the runs that lack a partner in any other side, independent of the order of `sides`; `across` as in [`place`].
pub(crate) fn outside(sides: &[Side], across: bool) -> Vec<Unpaired> {
    let (mut places, mut outside) = (Places { across, known: BTreeMap::new() }, Vec::new());
    let kept: Vec<_> = sides.iter().map(|side| by_place(side, &mut places, &mut outside)).collect();
    let mut keys = |side: &Side| -> BTreeSet<Key> { side.sweep.runs.iter().map(|run| places.key(run)).collect() };
    let all: Vec<BTreeSet<Key>> = sides.iter().map(&mut keys).collect();
    for (side, own) in sides.iter().zip(&kept) {
        for (key, run) in own {
            let without = (0..sides.len()).filter(|other| !kept[*other].contains_key(key));
            if let Some(other) = without.min_by_key(|other| &sides[*other].name) {
                outside.push(lonely(side, run, &sides[other], all[other].contains(key)));
            }
        }
    }
    outside.sort_by(|a, b| (&a.implementation, &a.run).cmp(&(&b.implementation, &b.run)));
    outside
}

/// Whether the workloads and schedules of two configurations differ in the spelling of numbers and quantities only: the hash of a
/// workload that is of no file is that of the text.
fn is_spelling(old: &str, new: &str) -> bool {
    let names_file =
        |keys: BTreeMap<String, String>| HASHED_FILES.iter().any(|file| keys.contains_key(&format!("workload.{file}")));
    let reads = |config: &str| keys(config).is_none_or(names_file);
    let makes = |key: &str| key.starts_with("workload.") || key.starts_with("schedule.");
    let is_alike = || differences(old, new).is_some_and(|found| !found.iter().any(|(key, ..)| makes(key)));
    !reads(old) && !reads(new) && is_alike()
}

/// Whether seeds repeat one workload: then they show the variation of runs, but represent no other workload.
fn is_one_workload(pairs: &[Pair]) -> bool {
    let workloads: BTreeSet<&str> = pairs.iter().flat_map(|(old, new)| [&*old.workload, &*new.workload]).collect();
    let chance = pairs.iter().any(|(old, new)| !(old.exact && new.exact));
    pairs.len() > 1 && chance && workloads.len() == 1 && !workloads.contains("")
}

/// `left_out`: `other` has a run with its labels and seed, which is in no pair.
fn lonely(side: &Side, run: &RunSummary, other: &Side, left_out: bool) -> Unpaired {
    let why = match left_out {
        true => format!("its partner in {} was left out", other.name),
        false => format!("{} has no run with its labels and seed", other.name),
    };
    Unpaired { implementation: side.name.clone(), run: name_of(run), why }
}

/// Returns the reason why two sets of valid runs have no pair.
fn refusal(old: &Side, new: &Side) -> String {
    let seeds = |side: &Side| unsteered(side).map(|run| run.seed).collect::<BTreeSet<u64>>();
    let points = |side: &Side| unsteered(side).map(|run| Labels::clone(&run.labels)).collect::<BTreeSet<Labels>>();
    let (old_seeds, new_seeds) = (seeds(old), seeds(new));
    let why = if let Some((side, _)) = [(old, &old_seeds), (new, &new_seeds)].iter().find(|(_, own)| own.is_empty()) {
        format!("all runs of {} were steered while they lasted", side.name)
    } else if old_seeds.is_disjoint(&new_seeds) {
        format!("they have no seed in common ({} and {})", listed(&old_seeds), listed(&new_seeds))
    } else if points(old).is_disjoint(&points(new)) {
        let first =
            |side: &Side| points(side).iter().next().map(pktgen_report::sweep::data::describe).unwrap_or_default();
        format!("they have no point in common (the first are {} and {})", first(old), first(new))
    } else {
        "no point has a seed in common".to_owned()
    };
    let are_other = !old_seeds.is_empty() && !new_seeds.is_empty() && old_seeds.is_disjoint(&new_seeds);
    let seeds = if are_other { " (--set sweep.seeds=1..10)" } else { "" };
    format!(
        "{} and {} cannot be compared: {why}; runs are paired by labels and seed, so run the same points with the same \
         seeds{seeds}{}",
        old.name,
        new.name,
        steered(&[old, new])
    )
}

/// Returns the runs of `side` whose rates were not adjusted while they ran.
fn unsteered(side: &Side) -> impl Iterator<Item = &RunSummary> {
    side.sweep.runs.iter().filter(|run| !run.is_steered())
}

/// Names the steered runs as the end of a sentence; empty if there are none.
fn steered(sides: &[&Side]) -> String {
    let mut named = Vec::new();
    for side in sides {
        let own = side.sweep.runs.iter().filter(|run| run.is_steered());
        named.extend(own.map(|run| format!("{} of {}", name_of(run), side.name)));
    }
    if named.is_empty() {
        return String::new();
    }
    let more = if named.len() > NAMED_MAX { format!(" and {} more", named.len() - NAMED_MAX) } else { String::new() };
    named.truncate(NAMED_MAX);
    format!(", without pktgen control: steered runs are in no pair ({}{more})", named.join(", "))
}

/// Lists seeds in few words.
fn listed(seeds: &BTreeSet<u64>) -> String {
    match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if seeds.len() > 2 => format!("{} seeds from {first} to {last}", seeds.len()),
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Note;

    use super::*;
    use crate::tests::{AOM, invalid, run, side};

    /// Runs with these seeds, of which the first `steered` were steered.
    fn seeds_of(name: &str, seeds: impl Iterator<Item = u64>, steered: usize) -> Side {
        let mut runs: Vec<RunSummary> = seeds.map(|seed| run("rate=20", seed, &[(AOM, 1.0)])).collect();
        for run in &mut runs[..steered] {
            run.validity.notes.push(Note::Steered { changes: 2 });
        }
        side(name, runs)
    }

    #[test]
    fn steered_runs_leave_nothing_to_compare_and_are_named() {
        let old = seeds_of("old", 1..=6, 0);
        let refused = |new: &Side| pair(&old, new).err().unwrap().to_string();
        let other = refused(&seeds_of("new", 101..=106, 1));
        assert!(other.contains("no seed in common (6 seeds from 1 to 6 and 5 seeds from 102 to 106)"), "{other}");
        assert!(other.contains("steered runs are in no pair (rate=20-101 (rate=20, seed 101) of new)"), "{other}");
        assert!(!refused(&seeds_of("new", 101..=106, 0)).contains("steered"));
        let all = refused(&seeds_of("new", 1..=6, 6));
        assert!(all.contains("all runs of new were steered") && all.contains("of new and 3 more)"), "{all}");
        // Pairs without a steered run are enough.
        let one = pair(&old, &seeds_of("new", 1..=6, 1)).unwrap().said;
        assert_eq!((one.pairs, one.unpaired.len()), (5, 2));
        // Invalid runs are a result of their own.
        let mut failed = seeds_of("new", 101..=106, 1);
        failed.sweep.runs[5].validity = invalid("it failed");
        assert_eq!(pair(&old, &failed).unwrap().said.pairs, 0);
    }

    #[test]
    fn another_profile_of_one_name_is_not_the_same_configuration() {
        let of = |name: &str, profiles: [Option<&str>; 2]| {
            let one = |(seed, profile): (u64, Option<&str>)| RunSummary {
                config: "[target]\nprofile = \"switch.toml\"\n".into(),
                profile: profile.map(str::to_owned),
                ..run("rate=20", seed, &[(AOM, 1.0)])
            };
            side(name, (1..=2).zip(profiles).map(one).collect())
        };
        let told = |old: [Option<&str>; 2], new: [Option<&str>; 2]| {
            let sides = [of("old", old), of("new", new)];
            let comparison = crate::Comparison::of(&sides, Some(0), &crate::Rules::built_in()).unwrap();
            (comparison.versus[0].pairing.other_profile, comparison.lines[1].clone())
        };
        let (other, said) = told([Some("1111"), Some("1111")], [Some("2222"), Some("1111")]);
        let wanted =
            "Configurations of old and new: no key differs; the profile of the device is another in 1 of 2 pairs.";
        assert_eq!((other, said.as_str()), (1, wanted));
        // Earlier versions did not record it.
        for old in [[Some("1111"), Some("1111")], [None, None], [Some("1111"), None]] {
            let (other, said) = told(old, [Some("1111"), Some("1111")]);
            assert_eq!((other, said.as_str()), (0, "Configurations of old and new: the same."));
        }
    }

    #[test]
    fn a_workload_in_another_spelling_is_the_same() {
        let of = |config: &str, workload: &str| {
            let one = |seed| RunSummary {
                config: config.into(),
                workload: format!("{workload}{seed}"),
                ..run("rate=20", seed, &[(AOM, 1.0)])
            };
            side(workload, (1..=3).map(one).collect())
        };
        let rate =
            |offered: &str| format!("[schedule]\noffered = \"{offered}\"\n[target]\nslots = {}\n", offered.len());
        let others = |old: &str, new: &str| pair(&of(old, "a"), &of(new, "b")).unwrap().said.other_workload;
        assert_eq!(others(&rate("60Gbps"), &rate("60000Mbps")), 0);
        assert_eq!(others(&rate("60Gbps"), &rate("60001Mbps")), 3);
        // Without a configuration, and of a file, only the hash is known.
        assert_eq!(others("", &rate("60Gbps")), 3);
        for key in HASHED_FILES {
            let file = |rate: &str| format!("{rate}[workload]\n{key} = \"a\"\n");
            assert_eq!(others(&file(&rate("60Gbps")), &file(&rate("60000Mbps"))), 3, "{key}");
        }
    }
}
