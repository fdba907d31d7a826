//! Differences between the resolved configurations of two sides, shown first in a comparison.
//!
//! Called by [`super`].

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::seed::mix;
use pktgen_core::units::{canonical, respelled};
use pktgen_report::sweep::configuration::{Difference, differences, keys};

use super::pairs::{Paired, Pairing};

/// Maximum number of values of a key that are listed.
const NAMED_MAX: usize = 3;

/// Returns a hash of a configuration without its seed, the same in any spelling of its quantities; empty if there is none.
pub(super) fn identity(config: &str) -> String {
    let Some(keys) = keys(config) else { return String::new() };
    // A resolved configuration spells plain numbers in one way, and lines of histories have them as they are there.
    let spelled = |part: &str| if part.parse::<f64>().is_ok() { part.to_owned() } else { canonical(part) };
    hash_of(keys.into_iter().flat_map(|(key, value)| [key, respelled(&value, spelled)]))
}

fn hash_of(texts: impl Iterator<Item = String>) -> String {
    let hash = texts.fold(0x7365_7474_696e_6773, |hash: u64, text| {
        text.bytes().chain([0]).fold(hash, |hash, byte| mix(hash ^ u64::from(byte)))
    });
    format!("{hash:016x}")
}

/// Returns the hash of the configuration of these runs; if they have several, those of each.
pub(super) fn of_runs<'a>(configs: impl Iterator<Item = &'a str>) -> String {
    let configs: BTreeSet<&str> = configs.collect();
    let hashes: BTreeSet<String> = configs.into_iter().map(identity).filter(|hash| !hash.is_empty()).collect();
    hashes.into_iter().collect::<Vec<_>>().join("+")
}

/// Returns the differences of all pairs, each as a text such as `target.slots: 8 → 6`; `None` if no pair has two configurations.
pub(super) fn of_pairs(paired: &Paired) -> Option<Vec<String>> {
    let mut known: BTreeMap<(&str, &str), Option<Vec<Difference>>> = BTreeMap::new();
    let mut changes: BTreeMap<String, BTreeMap<(String, String), usize>> = BTreeMap::new();
    let mut all = 0;
    for (old, new) in paired.points.iter().flat_map(|(_, pairs)| pairs) {
        let found = known.entry((&old.config, &new.config)).or_insert_with(|| differences(&old.config, &new.config));
        let Some(found) = found else { continue };
        all += 1;
        for (key, old, new) in found.iter().cloned() {
            *changes.entry(key).or_default().entry((old, new)).or_default() += 1;
        }
    }
    let told = |(key, values): (String, BTreeMap<(String, String), usize>)| {
        let pairs: usize = values.values().sum();
        let more = values.len().saturating_sub(NAMED_MAX);
        let named = values.keys().take(NAMED_MAX).map(|(old, new)| format!("{old} → {new}")).collect::<Vec<_>>();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let part = if pairs < all { format!(" (in {pairs} of {all} pairs)") } else { String::new() };
        format!("{key}: {}{more}{part}", named.join(", "))
    };
    (all > 0).then(|| changes.into_iter().map(told).collect())
}

/// Describes the differences in a sentence, including files that configurations refer to: traces, plans, profiles. `None` without a
/// pair.
pub(super) fn sentence(old: &str, new: &str, differences: Option<&[String]>, pairing: &Pairing) -> Option<String> {
    let Pairing { pairs, other_workload, other_network, other_profile, .. } = pairing;
    if *pairs == 0 {
        return None;
    }
    let files = [
        ("the workload or schedule", other_workload),
        ("the plan of the network", other_network),
        ("the profile of the device", other_profile),
    ];
    let others = files.iter().filter(|(_, differ)| **differ > 0);
    let others: Vec<_> =
        others.map(|(what, differ)| format!("{what} is another in {differ} of {pairs} pairs")).collect();
    let what = match differences {
        None => "not recorded".to_owned(),
        Some([]) if others.is_empty() => "the same".to_owned(),
        Some([]) => "no key differs".to_owned(),
        Some(all) => all.join("; "),
    };
    let what = [what].into_iter().chain(others).collect::<Vec<_>>().join("; ");
    Some(format!("Configurations of {old} and {new}: {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_differs_is_named_with_both_values() {
        let old = "name = \"a\"\nseed = 1\n[target]\nslots = 8\nqueue = \"olaf\"\n[report]\nmetrics = []\n";
        let new = "name = \"b\"\nseed = 2\n[target]\nslots = 6\nqueue = \"olaf\"\n[topology]\nrate = \"5Gbps\"\n";
        let of = |(key, old, new): (&str, &str, &str)| (key.to_owned(), old.to_owned(), new.to_owned());
        let wanted = [("target.slots", "8", "6"), ("topology.rate", "–", "5Gbps")].map(of);
        assert_eq!(differences(old, new).unwrap(), wanted);
        assert_eq!(differences(old, old), Some(Vec::new()));
        let rate = |rate: &str| format!("[topology]\nrate = \"{rate}\"\n");
        assert_eq!(differences(&rate("40Gbps"), &rate("40000Mbps")), Some(Vec::new()));
        assert_eq!(identity(&rate("40Gbps")), identity(&rate("40000Mbps")));
        assert_ne!(identity(&rate("40Gbps")), identity(&rate("40001Mbps")));
        assert_eq!(differences(&rate("40Gbps"), &rate("40001Mbps")).map(|found| found.len()), Some(1));
        let list = |at: &str, period: &str| format!("[a]\nb = [{{ at = \"{at}\" }}, {period}]\n");
        assert_eq!(differences(&list("1us", "1"), &list("1000ns", "1.0")), Some(Vec::new()));
        assert_eq!(differences(&list("1us", "1"), &list("1001ns", "1")).map(|found| found.len()), Some(1));
        assert_eq!(identity(&list("1us", "1")), identity(&list("1000ns", "1")));
        assert_ne!(identity(&list("1us", "1")), identity(&list("1001ns", "1")));
        // Lines of earlier histories have the hash of the texts.
        let usual =
            "[a]\nhalf = 0.5\none = 1.0\nsmall = 1e-6\nwhole = 7\nrate = \"40Gbps\"\nspan = \"5ms\"\nsize = \"96B\"\n";
        assert_eq!(identity(usual), hash_of(keys(usual).unwrap().into_iter().flat_map(|(key, value)| [key, value])));
        assert!(identity(old) != identity(new) && identity(old) == identity(&old.replace("seed = 1", "seed = 7")));
        assert_eq!(of_runs([old, old].into_iter()), identity(old));
        assert_eq!(of_runs([old, new, ""].into_iter()), of_runs([new, old].into_iter()));
        assert!(of_runs([old, new].into_iter()).contains(&format!("+{}", identity(old).max(identity(new)))));
        let plan = |name: &str| format!("[report]\nbaseline = \"{name}\"\nnotes = [\"{name}\"]\n");
        assert_eq!(differences(&plan("a"), &plan("b")).unwrap(), [of(("report.baseline", "a", "b"))]);
        assert_eq!((differences("", old), differences("= 1", old)), (None, None));
        let said = |differences: Option<&[String]>, pairing: &Pairing| sentence("a", "b", differences, pairing);
        let four = Pairing { pairs: 4, ..Pairing::default() };
        assert_eq!(said(Some(&[]), &four).unwrap(), "Configurations of a and b: the same.");
        let other = Pairing { pairs: 4, other_network: 4, ..Pairing::default() };
        let wanted = "Configurations of a and b: no key differs; the plan of the network is another in 4 of 4 pairs.";
        assert_eq!(said(Some(&[]), &other).unwrap(), wanted);
        assert_eq!(said(None, &four).unwrap(), "Configurations of a and b: not recorded.");
        // Without a pair nothing was compared, whatever is recorded.
        assert_eq!(said(None, &Pairing::default()), None);
    }
}
