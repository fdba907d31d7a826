//! Counters of devices, servers and controllers, and the rule that combines several values of a counter.
//!
//! A counter is declared with its rule where it is reported. Devices of a run in virtual time, several servers, roles of a run in
//! real time and parts of a run that are merged all go through [`CounterRule::join`].

use std::collections::{BTreeMap, BTreeSet};

/// The rule that combines values of a counter. Their order does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterRule {
    /// Sum: counts, bytes, durations.
    Sum,
    /// Maximum: maxima, shares of one device, instants.
    Largest,
}

impl CounterRule {
    /// Combines two values.
    pub fn join(self, one: u64, other: u64) -> u64 {
        match self {
            CounterRule::Sum => one.saturating_add(other),
            CounterRule::Largest => one.max(other),
        }
    }
}

/// A counter: name in the manifest, rule and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: &'static str,
    /// The rule that combines its values.
    pub rule: CounterRule,
    /// Its value.
    pub value: u64,
}

impl Counter {
    /// A counter whose values are added.
    pub const fn sum(name: &'static str, value: u64) -> Counter {
        Counter { name, rule: CounterRule::Sum, value }
    }

    /// A counter of whose values the largest is kept.
    pub const fn largest(name: &'static str, value: u64) -> Counter {
        Counter { name, rule: CounterRule::Largest, value }
    }
}

/// Counter of ends and pulls that workers of sparse training sent again (Libra), beside a device without a ledger.
pub const REQUESTS_RESENT: &str = "workers.requests_resent";
/// The same of results of the device that a worker first had in a further attempt.
pub const RESULTS_LATE: &str = "workers.results_late";
/// The same of further attempts of results that a worker had.
pub const RESULTS_AGAIN: &str = "workers.results_again";

/// Combines `value` into `values` under `name`; `largest` lists the names that are not sums.
pub(super) fn count(
    values: &mut BTreeMap<String, u64>,
    largest: &mut BTreeSet<String>,
    name: &str,
    rule: CounterRule,
    value: u64,
) {
    if rule == CounterRule::Largest && !largest.contains(name) {
        largest.insert(name.to_owned());
    }
    match values.get_mut(name) {
        Some(own) => *own = rule.join(*own, value),
        None => drop(values.insert(name.to_owned(), value)),
    }
}

/// Returns whether JSON leaves a count out.
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Counters;
    use super::*;

    const NAMES: [(&str, CounterRule); 4] = [
        ("packets", CounterRule::Sum),
        ("passes_max", CounterRule::Largest),
        ("bytes", CounterRule::Sum),
        ("share_ppm", CounterRule::Largest),
    ];

    /// Counters of one device, server or part; not every one has every counter.
    fn part() -> impl Strategy<Value = Counters> {
        let value = prop_oneof![0u64..5, Just(u64::MAX / 3)];
        let times = prop::option::of((0i64..4, 0i64..4).prop_map(|(first, more)| (first, first + more)));
        let totals = prop::collection::vec(0u64..100, 14);
        (prop::collection::vec((0..NAMES.len(), value), 0..8), times, totals, 0i64..10).prop_map(
            |(counts, received_ps, n, end_ps)| {
                let mut own = Counters {
                    packets_received: n[0],
                    bytes_received: n[1],
                    acks_sent: n[2],
                    acks_received: n[3],
                    downlink_bytes: n[4],
                    acks_dropped: n[5],
                    sums_ok: n[6],
                    sums_wrong: n[7],
                    foreign: n[8],
                    elements_delivered: n[9],
                    accepted: n[10],
                    replies: n[11],
                    clipped: n[12],
                    first_elements: received_ps.map_or(0, |_| n[13]),
                    received_ps,
                    end_ps,
                    ..Counters::default()
                };
                for (which, value) in counts {
                    let (name, rule) = NAMES[which];
                    own.count(&Counter { name, rule, value });
                }
                own
            },
        )
    }

    fn joined<'a>(parts: impl IntoIterator<Item = &'a Counters>) -> Counters {
        let mut whole = Counters::default();
        parts.into_iter().for_each(|part| whole.add(part));
        whole
    }

    proptest! {
        /// The order and grouping in which parts are joined does not matter.
        #[test]
        fn joining_knows_no_order(
            (parts, shuffled) in prop::collection::vec(part(), 0..6)
                .prop_flat_map(|parts| (Just(parts.clone()), Just(parts).prop_shuffle())),
            split in 0usize..6,
        ) {
            let whole = joined(&parts);
            prop_assert_eq!(&whole, &joined(&shuffled));
            let (one, other) = shuffled.split_at(split.min(shuffled.len()));
            prop_assert_eq!(&whole, &joined([&joined(one), &joined(other)]));
        }

        /// A maximum is that of one part, a sum that of all parts, and files preserve the rules.
        #[test]
        fn every_counter_follows_its_rule(parts in prop::collection::vec(part(), 1..6)) {
            let whole = joined(&parts);
            for (name, rule) in NAMES {
                let own: Vec<u64> = parts.iter().filter_map(|part| part.device.get(name).copied()).collect();
                let expected = match rule {
                    CounterRule::Sum => own.iter().copied().reduce(u64::saturating_add),
                    CounterRule::Largest => own.iter().copied().max(),
                };
                prop_assert_eq!(whole.device.get(name).copied(), expected);
            }
            let read: Vec<Counters> =
                parts.iter().map(|part| serde_json::from_value(serde_json::to_value(part).unwrap()).unwrap()).collect();
            prop_assert_eq!(joined(&read), whole);
        }
    }
}
