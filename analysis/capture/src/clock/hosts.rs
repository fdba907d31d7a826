//! Hosts of the senders, each with a clock of its own.
//!
//! Captures that share a worker are of its host. Others may be of several hosts, or of several interfaces of one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use pktgen_records::human::show;

use super::{Differences, EXCHANGED};

/// Returns by how much half of the width of the bounds of all hosts together exceeds that of those that they have in common, of this `width`; `None`
/// if it does not.
pub(super) fn added(bounds: &[Option<(i128, i128)>], width: i128) -> Option<i64> {
    let low = bounds.iter().flatten().map(|(low, _)| *low).min()?;
    let high = bounds.iter().flatten().map(|(_, high)| *high).max()?;
    i64::try_from((high - low - width) / 2).ok().filter(|ps| *ps > 0)
}

/// Returns what is said of such an addition.
pub(super) fn note(ps: i64) -> String {
    let added = show("ns", ps as f64 / 1000.0);
    format!(
        "; up to {added} of it are due to senders' captures without a common worker, which count as of several hosts; if they are of one clock, \
         mergecap makes one file of them"
    )
}

/// The host of each worker.
#[derive(Default)]
pub(super) struct Hosts {
    /// The last capture of each worker's host.
    of: HashMap<u32, usize>,
    captures: Vec<String>,
}

impl Hosts {
    /// Adds a capture with packets of `workers`.
    pub(super) fn add(&mut self, path: &Path, workers: &HashSet<u32>) {
        let own = self.captures.len();
        self.captures.push(path.display().to_string());
        let joined: HashSet<usize> = workers.iter().filter_map(|worker| self.of.get(worker).copied()).collect();
        for host in self.of.values_mut() {
            if joined.contains(host) {
                *host = own;
            }
        }
        self.of.extend(workers.iter().map(|worker| (*worker, own)));
    }

    /// Returns the host of a worker.
    pub(super) fn of(&self, worker: u32) -> usize {
        self.of.get(&worker).copied().unwrap_or(0)
    }

    /// Returns why no offset is within the bounds of all hosts: those of one contradict each other, or those of two do.
    pub(super) fn contradiction(&self, hosts: &BTreeMap<usize, Differences>) -> String {
        let bounds = || hosts.iter().map(|(host, own)| (*host, own.bounds()));
        let alone = bounds().any(|(_, (low, high))| low.zip(high).is_some_and(|(low, high)| low > high));
        let least = bounds().filter_map(|(host, (low, _))| Some((low?, host))).max();
        let most = bounds().filter_map(|(host, (_, high))| Some((high?, host))).min();
        if let (false, Some((least, ahead)), Some((most, behind))) = (alone, least, most) {
            return format!(
                "{} and {} prove offsets that are at least {} apart (an --offset-error has to cover that): the clocks of their hosts differ, run \
                 at different speeds, or one was set",
                self.captures[ahead.min(behind)],
                self.captures[ahead.max(behind)],
                show("ns", (least - most) as f64 / 1000.0)
            );
        }
        // Exchanged files: the difference of every acknowledgement is larger than that of every update.
        let later = |of: fn(&Differences) -> &Vec<(i128, i128)>| hosts.values().flat_map(of).map(|(_, later)| *later);
        let is_fit = later(|own| &own.up).max() <= later(|own| &own.down).min();
        let exchanged = if is_fit { format!(", or {EXCHANGED}") } else { String::new() };
        format!(
            "updates and acknowledgements prove different offsets: the clocks run at different speeds, or one was set{exchanged}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Clocks, Offset, Origin, Relation, Seen, bounded, related};
    use super::*;

    const US: i64 = 1_000_000;

    /// Workers 0 and 1 are of one host, and 2 and 3 of another whose clock is ahead by `ahead`. Each direction takes 150 µs. Of the other host,
    /// there are acknowledgements or not.
    fn of_two_hosts(ahead: i64, files: &[(&str, &[u32])], acknowledged: bool) -> Relation {
        let (sender, server) = seen_of_two_hosts(ahead, files, acknowledged);
        bounded(&sender, &server)
    }

    fn seen_of_two_hosts(ahead: i64, files: &[(&str, &[u32])], acknowledged: bool) -> (Seen, Seen) {
        let (mut sender, mut server) = (Seen::default(), Seen::default());
        for (worker, seq) in (0..4u32).flat_map(|worker| (0..100u32).map(move |seq| (worker, seq))) {
            let id = (worker, seq, 0, i64::from(seq));
            let (at, shift) = (i128::from(seq) * 1_000_000_000, if worker < 2 { 0 } else { i128::from(ahead) });
            sender.updates.insert(id, at + shift);
            server.updates.insert(id, at + 150_000_000);
            if worker < 2 || acknowledged {
                server.acks.insert(id, at + 150_000_000);
                sender.acks.insert(id, at + 300_000_000 + shift);
            }
        }
        for (file, workers) in files {
            sender.hosts.add(Path::new(file), &workers.iter().copied().collect());
        }
        (sender, server)
    }

    const BY_HOST: [(&str, &[u32]); 2] = [("a.pcap", &[0, 1]), ("b.pcap", &[2, 3])];

    /// The offsets are 0 and -`ahead`: both are within the uncertainty, which grows with their difference.
    #[test]
    fn the_uncertainty_contains_the_offsets_of_all_hosts() {
        for ahead in [-200, -1, 0, 1, 100, 200, 299].map(|ahead| ahead * US) {
            for acknowledged in [true, false] {
                let found = of_two_hosts(ahead, &BY_HOST, acknowledged);
                let Relation::Estimated(Offset { ps, error_ps }, updates, acks) = found else { panic!("{found:?}") };
                assert_eq!((ps, error_ps), (-ahead / 2, 150 * US + ahead.abs() / 2), "{ahead}");
                assert_eq!((updates, acks), (400, if acknowledged { 400 } else { 200 }));
            }
        }
    }

    /// Both hosts have bounds 300 µs wide, of which 100 µs are common: all together are 500 µs wide.
    #[test]
    fn what_several_hosts_add_to_the_uncertainty_is_told() {
        let about = |ahead: i64, files: &[(&str, &[u32])]| {
            let (sender, server) = seen_of_two_hosts(ahead * US, files, true);
            let (relation, hosts_ps) = related(&sender, &server);
            let (origin, server_unix_ns) = (Origin::Given, None);
            Clocks { anchor_unix_ns: 0, origin, relation, server_unix_ns, hosts_ps }.about()
        };
        for ahead in [200, -200] {
            let told = about(ahead, &BY_HOST);
            assert!(told.contains("give or take 250 µs: "), "{told}");
            assert!(told.contains("; up to 200 µs of it are due to senders' captures"), "{told}");
        }
        for told in [about(0, &BY_HOST), about(0, &[]), about(200, &[])] {
            assert!(told.contains("give or take ") && !told.contains("common worker"), "{told}");
        }
    }

    #[test]
    fn several_captures_of_one_clock_have_its_uncertainty() {
        let by_worker: [(&str, &[u32]); 4] = [("0", &[0]), ("1", &[1]), ("2", &[2]), ("3", &[3])];
        let by_direction: [(&str, &[u32]); 2] = [("up", &[0, 1, 2, 3]), ("down", &[3, 2, 1, 0])];
        let divisions: [&[(&str, &[u32])]; 4] = [&[], &BY_HOST, &by_worker, &by_direction];
        for files in divisions {
            let expected = Relation::Estimated(Offset { ps: 0, error_ps: 150 * US }, 400, 400);
            assert_eq!(of_two_hosts(0, files, true), expected, "{files:?}");
        }
    }

    #[test]
    fn hosts_that_prove_different_offsets_are_named() {
        for ahead in [400, -400] {
            let Relation::Unknown(why) = of_two_hosts(ahead * US, &BY_HOST, true) else { panic!("an estimate") };
            assert!(why.starts_with("a.pcap and b.pcap prove offsets that are at least 100 µs apart "), "{why}");
        }
        // Captures that share a worker are of one host, whose clock was set.
        let shared: [(&str, &[u32]); 2] = [("a.pcap", &[0, 1, 2]), ("b.pcap", &[2, 3])];
        let Relation::Unknown(why) = of_two_hosts(400 * US, &shared, true) else { panic!("an estimate") };
        assert!(why.starts_with("updates and acknowledgements prove different offsets"), "{why}");
    }

    #[test]
    fn captures_that_share_a_worker_are_of_one_host() {
        let mut hosts = Hosts::default();
        let captures: [(&str, &[u32]); 5] = [("a", &[0, 1]), ("b", &[2]), ("none", &[]), ("c", &[3]), ("d", &[1, 3])];
        for (file, workers) in captures {
            hosts.add(Path::new(file), &workers.iter().copied().collect());
        }
        assert_eq!([0, 1, 2, 3].map(|worker| hosts.of(worker)), [4, 4, 1, 4]);
    }

    /// Updates take 5 to 11 µs and acknowledgements 9. The clocks of the sides may differ by 1 ms.
    #[test]
    fn bounds_of_exchanged_files_are_named_so() {
        let sides = |offset: fn(i128) -> i128| {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            for i in 0..100u32 {
                let (id, at) = ((1, i, 0, i64::from(i)), i128::from(i) * 1_000_000_000);
                let arrived = at + 5_000_000 + i128::from(i % 7) * 1_000_000;
                sender.updates.insert(id, at);
                server.updates.insert(id, arrived + offset(arrived));
                server.acks.insert(id, arrived + offset(arrived));
                sender.acks.insert(id, arrived + 9_000_000);
            }
            (sender, server)
        };
        let reason = |relation: Relation| match relation {
            Relation::Unknown(why) => why,
            other => panic!("{other:?}"),
        };
        let offsets: [fn(i128) -> i128; 3] = [|_| -1_000_000_000, |_| 0, |_| 1_000_000_000];
        for (sender, server) in offsets.map(sides) {
            assert!(matches!(bounded(&sender, &server), Relation::Estimated(..)));
            let why = reason(bounded(&server, &sender));
            assert!(why.ends_with("or the files are exchanged (--sent takes those of the workers)"), "{why}");
        }
        // A drift of 0.1 %.
        let (sender, server) = sides(|at| at / 1000);
        for why in [bounded(&sender, &server), bounded(&server, &sender)].map(reason) {
            assert!(why.ends_with("or one was set"), "{why}");
        }
    }
}
