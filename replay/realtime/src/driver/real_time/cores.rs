//! Cores near a card: those of its NUMA node, to which its memory is local.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pktgen_core::record::Note;

/// The node of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Near {
    /// Its number.
    pub(crate) node: u32,
    /// Its cores.
    pub(crate) cores: Vec<usize>,
}

/// Returns the node of the card behind `interface`; `None` if it is not a card, or if the host has a single node and does not report it.
pub(crate) fn near(root: &Path, interface: &str) -> Option<Near> {
    let read =
        |name: &str| fs::read_to_string(root.join("sys/class/net").join(interface).join("device").join(name)).ok();
    let node = read("numa_node")?.trim().parse().ok()?;
    let cores = core_list(read("local_cpulist")?.trim())?;
    Some(Near { node, cores })
}

/// Parses numbers of cores in the kernel's list format: `0-3,8`.
pub fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No host has more, and a damaged file must not exhaust memory.
        cores.extend((first..=last).take(1 << 16));
    }
    Some(cores)
}

/// Chooses a core for each thread: near its card, and exclusive as long as there are any; starting with the last, since
/// the first also does the host's own work. If there are too few, threads share cores.
pub(super) fn choose(threads: &[Option<Near>], all: &[usize]) -> Vec<Option<usize>> {
    let mut used: BTreeMap<usize, usize> = BTreeMap::new();
    let choose = |near: &Option<Near>| {
        let is_near = |core: &usize| near.as_ref().is_none_or(|near| near.cores.contains(core));
        let any_near = all.iter().any(is_near);
        let good = all.iter().rev().filter(|core| !any_near || is_near(core));
        let core = *good.min_by_key(|core| used.get(core).copied().unwrap_or(0))?;
        *used.entry(core).or_default() += 1;
        Some(core)
    };
    threads.iter().map(choose).collect()
}

/// Returns remarks on the threads' cores: those on another node than their card, and shared ones.
pub(super) fn remarks(threads: &[(&str, Option<Near>)], cores: &[Option<usize>], all: usize) -> Vec<Note> {
    let mut notes = Vec::new();
    for ((interface, near), core) in threads.iter().zip(cores) {
        let (Some(near), Some(core)) = (near, core) else { continue };
        if !near.cores.contains(core) {
            let (interface, node, cores) = ((*interface).to_owned(), near.node, near.cores.clone());
            notes.push(Note::FarCore { core: *core, interface, node, cores });
        }
    }
    if threads.len() > all {
        notes.push(Note::SharedCores { threads: threads.len(), cores: all });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(node: u32, cores: &[usize]) -> Option<Near> {
        Some(Near { node, cores: cores.to_vec() })
    }

    #[test]
    fn a_card_says_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/class/net/eth1/device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("numa_node"), "1\n").unwrap();
        fs::write(device.join("local_cpulist"), "4-6,9\n").unwrap();
        assert_eq!(near(root.path(), "eth1"), on(1, &[4, 5, 6, 9]));
        // The value in a virtual machine.
        fs::write(device.join("numa_node"), "-1\n").unwrap();
        assert_eq!((near(root.path(), "eth1"), near(root.path(), "veth0")), (None, None));
        assert_eq!((core_list(""), core_list("3"), core_list("x-2")), (Some(vec![]), Some(vec![3]), None));
    }

    #[test]
    fn threads_get_cores_near_their_card_first_one_each() {
        let all = [0, 1, 2, 3];
        let second = || on(1, &[2, 3]);
        assert_eq!(choose(&[second(), second(), None], &all), [Some(3), Some(2), Some(1)]);
        assert_eq!(choose(&[second(), second(), second()], &all), [Some(3), Some(2), Some(3)]);
        assert_eq!(choose(&[None, None, None], &[5, 7]), [Some(7), Some(5), Some(7)]);
        // All cores of the node are used by others.
        assert_eq!(choose(&[on(1, &[8])], &all), [Some(3)]);
    }

    #[test]
    fn far_and_shared_cores_are_named() {
        let threads = [("eth1", on(1, &[2, 3])), ("eth1", on(1, &[2, 3])), ("veth0", None)];
        assert_eq!(remarks(&threads, &[Some(2), Some(3), Some(0)], 4), []);
        let said: Vec<_> = remarks(&threads, &[Some(2), Some(0), Some(0)], 2).iter().map(Note::to_string).collect();
        assert!(said[0].contains("core 0 is on another NUMA node than eth1") && said[0].contains("node 1"), "{said:?}");
        assert!(said[1].contains("3 threads") && said[1].contains("2 cores") && said.len() == 2, "{said:?}");
    }
}
