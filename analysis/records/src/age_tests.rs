//! Tests of [`super`]: computed by hand, against the oracle, by brute force, and against closed forms.

use super::meter::{Arrival, Meters};
use super::*;
use crate::model::Fates;
use crate::testing::{Dice, Story};
use pktgen_core::age::Sawtooth;
use pktgen_core::record::PacketId;
use proptest::prelude::*;

/// Computes the age of a flow with these deliveries (t, generation) in any order; it starts at `start` and last generates at `end`.
fn one_flow(start: i64, end: i64, deliveries: &[(i64, i64)]) -> FlowAge {
    let ages = Meters::settled(AgeOf::Newest, |meters| {
        [start, end.max(start)].iter().for_each(|t| meters.generated(0, 0, *t));
        meters.begin();
        for &(t, generation) in deliveries {
            meters.delivered(
                Arrival { t, cluster: 0, newest: Some(generation) },
                [(0, start.max(generation))].into_iter(),
            );
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(ages.clusters, ages.workers);
    let trace = ages.traces[0].sawtooth().unwrap();
    assert_eq!(
        (trace.start, trace.end_ps),
        ((start, 0), deliveries.iter().map(|(t, _)| *t).fold(end.max(start), i64::max))
    );
    ages.clusters[0].clone()
}

#[test]
fn a_sawtooth_by_hand() {
    // The age runs 0→15, drops to 5, and runs 5→30 (in ns); the delivery of generation 0 changes nothing.
    let age = one_flow(0, 20_000, &[(5_000, 0), (15_000, 10_000), (40_000, 20_000)]);
    assert_eq!(age.mean_ns, Some((15.0 * 15.0 / 2.0 + (30.0 * 30.0 - 25.0) / 2.0) / 40.0));
    assert_eq!((age.peak_mean_ns, age.peak_max_ns, age.peak_p99_ns), (Some(22.5), Some(30.0), Some(30.0)));
    // Time below age x: 0..5 counts once, 5..15 twice, 15..30 once: half of 40 is 5 + 15/2·2, 36 is 25 + 11, 39.6.
    assert_eq!(age.quantiles_ns, Some([12.5, 26.0, 29.6]));
}

#[test]
fn clusters_and_workers_of_a_run_by_hand() {
    // Workers 1 and 2 of cluster 3 generate at 0 and 4 µs; their updates are merged as 2 and delivered at 10 µs. Worker
    // 9 of cluster 5 generates at 0 and 6 µs, and nothing arrives.
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 3).sent(2, 4_000_000, Some(4_000_000), 3).sent(9, 0, Some(0), 5);
    story.sent_seq(9, 1, 6_000_000, None, 5);
    story.queued(1, 0, 1).merged(2, 0, 1, 2).received(10_000_000, 2, 4_000_000, 2);
    let fates = Fates::resolve(&story.records);
    let ages = |age_of| Ages::compute(&story.records, |row| fates.members_of(row), age_of).unwrap();
    let teeth = |ages: &Ages| ages.traces[0].sawtooth().unwrap().teeth;
    let newest = ages(AgeOf::Newest);
    let ids: Vec<_> = newest.clusters.iter().chain(&newest.workers).map(|age| (age.id, age.delivered)).collect();
    assert_eq!(ids, [(3, true), (5, false), (1, true), (2, true), (9, false)]);
    // Cluster 3 ages from 0 to 10 µs in its window of 10 µs; worker 2 begins at 4 and ages to 6 µs; flows without
    // deliveries age to 6 µs in their window of 6 µs.
    let means = |ages: &[FlowAge]| ages.iter().map(|age| age.mean_ns.unwrap()).collect::<Vec<_>>();
    assert_eq!(means(&newest.clusters), [5000.0, 3000.0]);
    assert_eq!(means(&newest.workers), [5000.0, 3000.0, 3000.0]);
    assert_eq!(teeth(&newest), [Tooth { t_ps: 10_000_000, before_ps: 10_000_000, after_ps: 6_000_000 }]);
    assert_eq!(newest.clusters[1].peak_mean_ns, None);
    // With the oldest member's time nothing is newer than the start; with the mean, it is 2 µs.
    assert_eq!(teeth(&ages(AgeOf::Oldest)), []);
    assert_eq!(teeth(&ages(AgeOf::Mean))[0].after_ps, 8_000_000);
}

#[test]
fn workers_have_the_age_of_the_aggregate_or_of_their_own_update() {
    // Workers 1 and 2 generate at 0 and 4 µs; merged as 2, delivered at 10 µs. Worker 1 generates again at 20 µs.
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 3).sent(2, 4_000_000, Some(4_000_000), 3).sent_seq(1, 1, 20_000_000, None, 3);
    story.queued(1, 0, 1).merged(2, 0, 1, 2).received(10_000_000, 2, 4_000_000, 2);
    let fates = Fates::resolve(&story.records);
    let ages = |age_of| Ages::compute(&story.records, |row| fates.members_of(row), age_of).unwrap();
    let (newest, own) = (ages(AgeOf::Newest), ages(AgeOf::Own));
    // From 0 to 10 µs and from 6 to 16 µs, or from 0 to 20 µs.
    assert_eq!((newest.workers[0].mean_ns, own.workers[0].mean_ns), (Some(8000.0), Some(10_000.0)));
    assert_eq!((&newest.workers[1], &newest.clusters), (&own.workers[1], &own.clusters));
}

/// An aggregate with two updates of a worker lowers its age once, from 10 µs, without an intermediate step for the older update.
#[test]
fn an_aggregate_is_one_delivery_of_each_worker() {
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 3).sent_seq(1, 1, 4_000_000, Some(4_000_000), 3);
    story.sent(2, 6_000_000, Some(6_000_000), 3);
    let [first, second, newest] = [(1, 0), (1, 1), (2, 0)].map(|(worker, seq)| PacketId::new(worker, seq, 0));
    story.queued(1, 0, 1).merged_into(2, first, second).merged_into(3, second, newest);
    story.received(10_000_000, 2, 6_000_000, 3);
    let fates = Fates::resolve(&story.records);
    let own = Ages::compute(&story.records, |row| fates.members_of(row), AgeOf::Own).unwrap();
    assert_eq!((own.workers[0].peak_mean_ns, own.workers[0].peak_max_ns), (Some(10_000.0), Some(10_000.0)));
}

#[test]
fn choices_have_names() {
    assert!(AgeOf::ALL.iter().all(|choice| AgeOf::named(choice.name(), "--age-of").unwrap() == *choice));
    let fault = AgeOf::named("oldst", "--age-of").unwrap_err().to_string();
    assert!(fault.contains("--age-of") && fault.contains("did you mean \"oldest\""), "{fault}");
}

#[test]
fn empty_runs_and_empty_windows_have_no_mean() {
    let ages = |story: &Story| {
        let fates = Fates::resolve(&story.records);
        Ages::compute(&story.records, |row| fates.members_of(row), AgeOf::Newest).unwrap()
    };
    let none = ages(&Story::new());
    assert!(none.clusters.is_empty() && none.workers.is_empty());
    let mut story = Story::new();
    story.sent(1, 5, Some(5), 0);
    let ages = ages(&story);
    assert_eq!((ages.clusters[0].mean_ns, ages.clusters[0].quantiles_ns), (None, None));
}

/// Packets at their times, with their members: worker and generation.
type Packets = Vec<(i64, Vec<(u32, i64)>)>;

/// Returns the ages of workers if packets arrive with these members.
fn of_workers(age_of: AgeOf, packets: &Packets) -> Vec<FlowAge> {
    let pass = |meters: &mut Meters| {
        (0..6).for_each(|worker| meters.generated(0, worker, 0));
        meters.begin();
        for (t, members) in packets {
            let newest = members.iter().map(|(_, generation)| *generation).max();
            meters.delivered(Arrival { t: *t, cluster: 0, newest }, members.iter().copied());
        }
        Ok(())
    };
    Meters::settled(age_of, pass).unwrap().workers
}

proptest! {
    #[test]
    fn a_packet_delivers_the_newest_update_of_each_worker(
        sizes in prop::collection::vec(0usize..200, 1..6), seed in any::<u64>()
    ) {
        let mut dice = Dice::new(seed);
        let mut draw = |below: f64| (dice.uniform() * below) as i64;
        let packet = |(i, size): (usize, &usize)| {
            let t = (i as i64 + 1) * 1_000_000;
            let members: Vec<(u32, i64)> = (0..*size).map(|_| (draw(6.0) as u32, draw(t as f64))).collect();
            (t, members)
        };
        let packets: Packets = sizes.iter().enumerate().map(packet).collect();
        // Naive: a packet of its own for each worker's newest update.
        let alone = |(t, members): &(i64, Vec<(u32, i64)>)| {
            let newest = |worker: u32| members.iter().filter(|one| one.0 == worker).map(|one| one.1).max();
            let own: Packets = (0..6).filter_map(|worker| Some((*t, vec![(worker, newest(worker)?)]))).collect();
            own
        };
        let naive: Packets = packets.iter().flat_map(alone).collect();
        prop_assert_eq!(of_workers(AgeOf::Own, &packets), of_workers(AgeOf::Newest, &naive));
    }
}

/// Generates deliveries (t, generation) of several flows; generations are never later than deliveries.
fn runs() -> impl Strategy<Value = Vec<Vec<(i64, i64)>>> {
    let delivery = (1i64..5_000_000, 0.0f64..1.0).prop_map(|(t, share)| (t, (t as f64 * share) as i64));
    prop::collection::vec(prop::collection::vec(delivery, 0..40), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_the_oracle_and_with_brute_force(mut flows in runs(), tail in 0i64..9_000_000) {
        // Unsorted: if they are not in chronological order, the pass is repeated.
        for deliveries in &mut flows {
            let end = deliveries.iter().map(|(t, _)| *t).fold(tail, i64::max);
            let age = one_flow(0, tail, deliveries);
            deliveries.sort();
            let mut oracle = Sawtooth::default();
            oracle.generated(0);
            for &(t, generation) in deliveries.iter() {
                oracle.delivered(t, generation);
            }
            oracle.advance(end);
            let near = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
                (Some(ours), Some(theirs)) => (ours - theirs / 1000.0).abs() <= 1e-9 * theirs.abs().max(1.0),
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            };
            prop_assert!(near(age.mean_ns, oracle.mean()), "{:?} {:?}", age, oracle);
            prop_assert!(near(age.peak_mean_ns, oracle.peak_mean()), "{:?} {:?}", age, oracle);
            prop_assert_eq!(age.peak_max_ns.unwrap_or(0.0), oracle.peak_max() as f64 / 1000.0);
            check_quantiles(&age, deliveries, end)?;
        }
    }
}

/// Samples the age at 20,000 points in time and checks how many are below each quantile.
fn check_quantiles(age: &FlowAge, deliveries: &[(i64, i64)], end: i64) -> Result<(), TestCaseError> {
    let Some(quantiles) = age.quantiles_ns else {
        prop_assert_eq!(end, 0);
        return Ok(());
    };
    let steps = 20_000;
    let (mut fresh, mut next) = (0, 0);
    let mut sampled = Vec::new();
    for step in 0..steps {
        let t = end as f64 * (f64::from(step) + 0.5) / f64::from(steps);
        while next < deliveries.len() && deliveries[next].0 as f64 <= t {
            fresh = fresh.max(deliveries[next].1);
            next += 1;
        }
        sampled.push((t - fresh as f64) / 1000.0);
    }
    let tick = end as f64 / 1000.0 / f64::from(steps);
    for (quantile, share) in quantiles.into_iter().zip([0.5, 0.9, 0.99]) {
        let below = |limit: f64| sampled.iter().filter(|age| **age <= limit).count() as f64 / f64::from(steps);
        prop_assert!(below(quantile + tick) >= share - 0.01, "{} {}", quantile, share);
        prop_assert!(below(quantile - tick) <= share + 0.01, "{} {}", quantile, share);
    }
    Ok(())
}

/// Simulates a first-come-first-served queue with `n` arrivals: returns the mean age in units of the mean service time (1 µs).
fn queue(n: usize, mut gap: impl FnMut() -> f64, mut service: impl FnMut() -> f64) -> f64 {
    let (mut arrival, mut free) = (0.0f64, 0.0f64);
    let mut deliveries = Vec::with_capacity(n);
    for _ in 0..n {
        arrival += gap();
        free = free.max(arrival) + service();
        deliveries.push(((free * 1e6) as i64, (arrival * 1e6) as i64));
    }
    one_flow(0, 0, &deliveries).mean_ns.unwrap() / 1000.0
}

fn assert_near(ours: f64, exact: f64) {
    assert!((ours / exact - 1.0).abs() < 0.01, "{ours} is not within 1 % of {exact}");
}

#[test]
fn closed_forms_of_queues() {
    const N: usize = 1_000_000;
    for rho in [0.3, 0.5, 0.7] {
        // M/M/1, M/D/1 and D/D/1 with service rate 1 (notes/field.md §5.1).
        let (mut dice, mut other) = (Dice::new(1), Dice::new(2));
        let mm1 = queue(N, || dice.exponential() / rho, || other.exponential());
        assert_near(mm1, 1.0 + 1.0 / rho + rho * rho / (1.0 - rho));
        let md1 = queue(N, || dice.exponential() / rho, || 1.0);
        assert_near(md1, 0.5 + 1.0 / (2.0 * (1.0 - rho)) + (1.0 - rho) * rho.exp() / rho);
        let dd1 = queue(N / 10, || 1.0 / rho, || 1.0);
        assert_near(dd1, 1.0 / (2.0 * rho) + 1.0);
    }
}
