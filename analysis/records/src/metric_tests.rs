//! Tests of the metrics on constructed runs.

use pktgen_core::plan::Plan;
use pktgen_core::record::{
    Answers, Balance, Family, Fault, Heat, LinkLoad, Manifest, NO_CLUSTER, Note, PacingCounts, Planned, Reason, Unseen,
};
use pktgen_core::tree::{Switch, Tree};
use pktgen_core::units::Rate;
use pktgen_workload::study::{Finding, STUDIES};

use crate::age::AgeOf;
use crate::testing::{Story, small_run};
use crate::{Analysis, Line, METRICS, Measured, Options, analyze_run};

pub(crate) fn lines_of(story: &Story, change: impl Fn(&mut Manifest)) -> Vec<Line> {
    measured(story, change).lines
}

pub(crate) fn measured(story: &Story, change: impl Fn(&mut Manifest)) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = story.manifest();
    change(&mut manifest);
    story.write_with(dir.path(), &manifest);
    analyze_run(dir.path()).unwrap()
}

pub(crate) fn value(lines: &[Line], key: &str) -> Option<f64> {
    let mut found = lines.iter().filter(|line| line.key().as_deref() == Some(key));
    let line = found.next().unwrap_or_else(|| panic!("no line {key}"));
    assert!(found.next().is_none(), "{key} twice");
    line.value
}

fn binned(lines: &[Line], metric: &str, label: &str) -> Vec<(u64, f64)> {
    let of = lines.iter().filter(|line| line.metric == metric);
    of.filter_map(|line| Some((line.labels.get(label)?.as_u64()?, line.value?))).collect()
}

/// Two updates merged and delivered, one alone, one dropped, one subsumed by the one alone, one
/// withheld, one in flight, and two background packets of which one is dropped.
fn every_fate() -> Story {
    let mut story = Story::new();
    for worker in 1..=7 {
        story.sent(worker, 0, (worker != 6).then_some(1_000), 2);
    }
    story.sent(20, 0, Some(0), NO_CLUSTER).sent(21, 0, Some(0), NO_CLUSTER);
    story.queued(2_000, 0, 1).merged(3_000, 0, 1, 2).departed(5_000, 0, 2).received(11_000, 2, 0, 2);
    story.queued(4_000, 0, 5).subsumed(5_000, 0, 5, 3).departed(9_000, 0, 3).received(21_000, 3, 0, 1);
    story.dropped(6_000, 0, 4, Reason::QueueFull).queued(7_000, 0, 7);
    story.dropped(7_000, 0, 20, Reason::QueueFull).received(30_000, 21, 0, 0);
    story
}

#[test]
fn counts_by_fate() {
    let lines = lines_of(&every_fate(), |manifest| manifest.counters.sums_ok = 2);
    for (key, expected) in [
        ("sent", 6.0),
        ("received", 2.0),
        ("loss", 1.0 / 6.0),
        ("dropped", 1.0),
        ("dropped/queue_full", 1.0),
        ("merged", 2.0),
        // 6 sent − 2 packets − 1 dropped − 1 in flight: the merged one and the subsumed one.
        ("absorbed", 2.0),
        // Three represented by two packets; of six, the dropped and the subsumed one are not represented.
        ("aggregated", 1.0),
        ("unrepresented", 2.0 / 6.0),
        ("subsumed", 1.0),
        ("outranked", 0.0),
        ("in_flight", 1.0),
        ("withheld", 1.0),
        ("withheld_share", 1.0 / 7.0),
        ("accepted", 1.0),
        ("retransmissions", 0.0),
        ("balance_unknown", 0.0),
        ("sums_ok", 2.0),
        ("sums_wrong", 0.0),
        ("duplicates", 0.0),
        ("sent/background", 2.0),
        ("received/background", 1.0),
        ("dropped/background", 1.0),
    ] {
        assert_eq!(value(&lines, key), Some(expected), "{key}");
    }
    let unproven = |manifest: &mut Manifest| manifest.incidents.notes.push(Note::Unproven { packets: 412 });
    assert_eq!(value(&lines_of(&every_fate(), unproven), "sums_wrong"), None);
}

#[test]
fn further_attempts_that_were_withheld_were_due() {
    let mut story = Story::new();
    story.sent(0, 0, None, 0).sent_again(0, 0, 1, 5, 0).sent_again(0, 0, 2, 9, 0);
    story.records.sent.t_sent_ps.fill(None);
    let lines = lines_of(&story, |_| {});
    let of = |key: &str| value(&lines, key);
    assert_eq!((of("withheld"), of("retransmissions"), of("sent")), (Some(3.0), Some(2.0), Some(0.0)));
    assert_eq!(of("withheld_share"), Some(1.0));
}

#[test]
fn counters_that_disagree_are_unknown() {
    let lines = lines_of(&every_fate(), |manifest| {
        manifest.balance.sent += 4;
        manifest.balance.dropped.insert("no_route".into(), 3);
    });
    assert_eq!(value(&lines, "balance_unknown"), Some(7.0));
}

/// A row about a packet that was never sent is one fault, in the manifest and in the analysis; more such rows contradict the manifest.
#[test]
fn strangers_that_the_run_counted_contradict_no_records() {
    let mut story = every_fate();
    let counted = story.manifest();
    story.received_seq(40_000, 1, 99, 0, 1);
    let faults = |strangers: u64| {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = story.manifest();
        manifest.strangers = strangers;
        (manifest.balance, manifest.balance_by_worker) = (counted.balance.clone(), counted.balance_by_worker.clone());
        story.write_with(dir.path(), &manifest);
        let run = Analysis::open(dir.path(), Options::default()).unwrap();
        assert_eq!(run.unknown(), 1.0);
        run.validity().faults.iter().map(|fault| fault.code()).collect::<Vec<_>>()
    };
    assert_eq!((faults(0), faults(1)), (vec!["records_disagree"], vec!["balance_open"]));
}

#[test]
fn without_records_only_the_counters_speak() {
    let Measured { lines, notes } = measured(&every_fate(), |manifest| {
        manifest.records = "every:8".into();
        manifest.counters.packets_received = 2;
        manifest.counters.elements_delivered = 500;
        manifest.counters.received_ps = Some((500_000_000_000, 2_500_000_000_000));
        manifest.counters.first_elements = 100;
    });
    assert_eq!((value(&lines, "received"), value(&lines, "dropped/queue_full")), (Some(2.0), Some(1.0)));
    assert_eq!(value(&lines, "elements_per_s"), Some(200.0));
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].note, "records_not_full");
    for word in ["\"every:8\"", "Age-of-Model, latency and aggregation", "capture.records = \"full\""] {
        assert!(notes[0].text.contains(word), "{word}: {}", notes[0].text);
    }
    for metric in ["aom_mean", "aom_fairness", "aggregation_count", "throughput_bps", "host_latency_mean", "duplicates"]
    {
        assert!(lines.iter().all(|line| line.metric != metric), "{metric}");
    }
}

#[test]
fn counts_mean_the_same_whatever_was_recorded() {
    let counters = |manifest: &mut Manifest| {
        manifest.counters.packets_received = 2;
        manifest.counters.elements_delivered = 58;
        manifest.counters.received_ps = Some((11_000, 21_000));
        manifest.counters.downlink_bytes = 300;
    };
    let full = measured(&every_fate(), counters);
    assert!(full.notes.is_empty());
    let counted = lines_of(&every_fate(), |manifest| {
        counters(manifest);
        manifest.records = "none".into();
    });
    assert!(counted.len() >= 18, "{counted:?}");
    for line in &counted {
        let key = line.key().unwrap();
        assert_eq!(value(&full.lines, &key), line.value, "{key}");
    }
    // Without the workers' balances (the run was killed) the total is used for updates.
    let killed = lines_of(&every_fate(), |manifest| {
        manifest.records = "none".into();
        manifest.balance_by_worker.clear();
    });
    assert_eq!((value(&killed, "sent"), value(&killed, "balance_unknown")), (Some(8.0), Some(0.0)));
    assert!(killed.iter().all(|line| line.key().as_deref() != Some("sent/background")));
    // Workers whose balances do not add up to the total.
    let odd = lines_of(&every_fate(), |manifest| {
        manifest.records = "none".into();
        manifest.balance_by_worker[1].generated = u64::MAX;
        manifest.balance_by_worker[2].generated = u64::MAX;
    });
    assert!(value(&odd, "balance_unknown") > Some(0.0));
}

#[test]
fn metrics_name_all_keys_of_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = every_fate();
    story.state(0, 1, (3, 2), Some((500, 0.5, true)));
    let mut manifest = story.manifest();
    manifest.goal = Some(1);
    let declared = STUDIES.iter().flat_map(|study| study.metrics());
    manifest.findings = declared.map(|known| Finding::new(known.metric, known.unit, 0.5)).collect();
    story.write_with(dir.path(), &manifest);
    let synchronous = tempfile::tempdir().unwrap();
    crate::testing_rounds::training().write(synchronous.path());
    let open = |dir: &tempfile::TempDir| crate::Analysis::open(dir.path(), crate::Options::default()).unwrap();
    let along_a_plan = tempfile::tempdir().unwrap();
    let mut manifest = every_fate().manifest();
    plan_of_three_workers(&mut manifest);
    every_fate().write_with(along_a_plan.path(), &manifest);
    let black_box = tempfile::tempdir().unwrap();
    let mut manifest = every_fate().manifest();
    (manifest.external, manifest.unseen) = (Some("generic".into()), Some(Unseen::default()));
    manifest.pacing = Some(PacingCounts { frames: 4, late_by_host: 1, others_late_ns: Some([1, 2, 3]) });
    every_fate().write_with(black_box.path(), &manifest);
    let analyses = [open(&dir), open(&synchronous), open(&along_a_plan), open(&black_box)];
    let defined: Vec<_> = METRICS.iter().flat_map(|metric| metric.definitions()).collect();
    for metric in METRICS {
        let mut lines = Vec::new();
        analyses.iter().for_each(|analysis| metric.compute(analysis, &mut lines).unwrap());
        let found: Vec<String> = lines.iter().filter_map(Line::key).collect();
        let keys = metric.keys();
        for key in &found {
            assert!(keys.contains(key), "{} does not name {key}", metric.name());
        }
        for line in &lines {
            assert!(defined.iter().any(|known| line.is_of(known)), "{} does not define {line:?}", metric.name());
        }
        // Only runs that sum by key, whose packets have lanes or timestamps, or whose updates have rewards of
        // iterations, have these; they have tests of their own.
        if ["exactness", "lanes", "learning", "stamps"].contains(&metric.name()) {
            continue;
        }
        // Not all reasons for drops occur.
        for key in keys.iter().filter(|key| !key.starts_with("dropped/")) {
            assert!(found.contains(key), "{} names {key}, which it never gives", metric.name());
        }
    }
}

/// Two rounds of a plan with answers: a worker at a switch that aggregates, and two at one below it that does not.
fn plan_of_three_workers(manifest: &mut Manifest) {
    let switch = |id, parent, load, rate| Switch { id, parent, rate, load, available: true };
    let tree = Tree::new(&[switch(0, None, 1, 2.0), switch(1, Some(0), 2, 0.5)]).unwrap();
    let plan = tree.plan("hand", &[true, false], Rate::from_bps(2_000_000_000));
    let plan = Plan { rate_bps: Some(7), phi: None, ..plan };
    manifest.planned = Some(Planned { plan, allreduce: true, message_bits: 1000, down_bps: Vec::new() });
    manifest.clusters = vec![0; 3];
    manifest.balance_by_worker = vec![Balance { generated: 2, ..Default::default() }; 3];
    let both = |messages| [LinkLoad { messages, ..Default::default() }; 2];
    manifest.counters.links = [2, 4, 2, 4].map(both).to_vec();
    manifest.counters.links[1][0] =
        LinkLoad { bits: 3000, first_bits: 1000, offered_ps: Some((5, 1_000_005)), queue_max: 3, messages: 4 };
    let came = |messages, last_ps| Answers { messages, last_ps, ..Answers::default() };
    manifest.counters.answers = vec![came(3, 2_000_000), came(2, 4_000_000), came(3, 2_000_000)];
}

#[test]
fn what_links_carried_is_compared_with_the_plan() {
    let kept = lines_of(&every_fate(), plan_of_three_workers);
    for (key, expected) in [
        ("links_unlike_plan", 0.0),
        // For a round in both directions: 2 · 0.5 + 4 · 2.
        ("phi", 9.0),
        ("phi_planned", 9.0),
        // The slowest worker: one message of 1000 bits in 4 µs.
        ("allreduce_rate", 2.5e8),
        ("rate_planned", 7.0),
        // 2000 bits in 1 µs on a link of 1 Gbit/s.
        ("link_load_max", 2.0),
        ("queue_max", 3.0),
    ] {
        assert_eq!(value(&kept, key), Some(expected), "{key}");
    }
    let broken = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.counters.links[1][1].messages = 3;
        manifest.counters.answers[2] = Answers::default();
    });
    assert_eq!((value(&broken, "links_unlike_plan"), value(&broken, "phi")), (Some(1.0), Some(8.0)));
    assert_eq!(value(&broken, "allreduce_rate"), None, "a worker that got nothing has no rate");
    let slow_back = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.counters.links[1][1] = manifest.counters.links[1][0];
        let planned = manifest.planned.as_mut().unwrap();
        planned.down_bps = planned.plan.links.iter().map(|link| link.rate_bps / 4).collect();
    });
    assert_eq!(value(&slow_back, "link_load_max"), Some(8.0), "the same load on a way back of 250 Mbit/s");
    let uneven = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.balance_by_worker[0].generated = 1;
    });
    assert_eq!(value(&uneven, "links_unlike_plan"), Some(4.0), "one round is what all workers have");
    assert_eq!(value(&uneven, "link_load_max"), None, "a single round");
    // Two clusters: the aggregator sends a sum for each, so a round has 2 messages on both links, and as many back.
    let several = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.clusters = vec![0, 1, 1];
        manifest.counters.links[0].iter_mut().for_each(|way| way.messages = 4);
    });
    for (key, expected) in [("links_unlike_plan", 0.0), ("phi", 10.0), ("phi_planned", 10.0)] {
        assert_eq!(value(&several, key), Some(expected), "{key} of two clusters");
    }
    // The second cluster generated a third message, which belongs to no round of all workers.
    let longer = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.clusters = vec![0, 1, 1];
        [1, 2].iter().for_each(|worker| manifest.balance_by_worker[*worker].generated = 3);
        for (link, messages) in [(0, 5), (1, 6), (3, 6)] {
            manifest.counters.links[link].iter_mut().for_each(|way| way.messages = messages);
        }
    });
    for (key, expected) in [("links_unlike_plan", 0.0), ("phi", 10.0), ("phi_planned", 10.0), ("link_load_max", 2.0)] {
        assert_eq!(value(&longer, key), Some(expected), "{key} of clusters with unequal numbers of messages");
    }
    let unmeasured = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        manifest.counters.links.clear();
    });
    assert!(unmeasured.iter().all(|line| line.metric != "links_unlike_plan"));
}

#[test]
fn answers_of_unlike_size_have_their_own_bits() {
    let lines = lines_of(&every_fate(), |manifest| {
        plan_of_three_workers(manifest);
        for (own, bits) in manifest.counters.answers.iter_mut().zip([300, 1000, 2000]) {
            own.later_bits = Some(bits);
        }
    });
    assert_eq!(value(&lines, "allreduce_rate"), Some(1.5e8), "300 bits in 2 µs are the slowest");
}

/// Two workers generated one more: their messages come as far as the switch where that of the first is missing. Of sums that
/// left without a part, the number is not known.
#[test]
fn messages_of_some_workers_break_no_promise() {
    for (partial, expected) in [(0, [Some(0.0), Some(9.0), Some(9.0)]), (1, [None, None, Some(9.0)])] {
        let lines = lines_of(&every_fate(), |manifest| {
            plan_of_three_workers(manifest);
            [1, 2].iter().for_each(|worker| manifest.balance_by_worker[*worker].generated = 3);
            [1, 3].iter().for_each(|link| manifest.counters.links[*link][0].messages = 6);
            manifest.counters.device.insert("sums_partial".to_owned(), partial);
        });
        assert_eq!(["links_unlike_plan", "phi", "phi_planned"].map(|key| value(&lines, key)), expected);
    }
}

#[test]
fn aggregation_counts_updates_per_packet() {
    let lines = lines_of(&every_fate(), |_| {});
    assert_eq!(binned(&lines, "aggregation_count", "n"), [(1, 1.0), (2, 1.0)]);
    assert_eq!(binned(&lines, "aggregation_cdf", "n"), [(1, 0.5), (2, 1.0)]);
    assert_eq!(value(&lines, "aggregation_mean"), Some(1.5));
}

#[test]
fn latencies_and_rates_by_hand() {
    let lines = lines_of(&every_fate(), |manifest| {
        manifest.counters.downlink_bytes = 300;
        manifest.counters.elements_delivered = 58;
        manifest.counters.first_elements = 29;
        manifest.counters.received_ps = Some((11_000, 21_000));
    });
    // In the device: packet 2 from 3 to 5 ns, packet 3 from 5 to 9 ns.
    assert_eq!(value(&lines, "device_latency_mean"), Some(3.0));
    assert_eq!((value(&lines, "device_latency_p50"), value(&lines, "device_latency_max")), (Some(2.0), Some(4.0)));
    // From host to host: 11 − 1 and 21 − 1 ns; background is not counted.
    assert_eq!((value(&lines, "host_latency_mean"), value(&lines, "host_latency_p99")), (Some(15.0), Some(20.0)));
    // After the first, one packet of 256 bytes with one update in 10 ns, with 29 elements; 3 delivered.
    assert_eq!(value(&lines, "throughput_bps").map(f64::round), Some(2048.0 / 10e-9));
    assert_eq!(value(&lines, "updates_per_s").map(f64::round), Some(1e8));
    assert_eq!(value(&lines, "elements_per_s").map(f64::round), Some((29.0f64 / 10e-9).round()));
    assert_eq!(value(&lines, "downlink_bytes_per_delivered_update"), Some(100.0));
}

#[test]
fn raw_frames_have_no_ages() {
    let mut story = Story::new();
    story.sent(0, 0, Some(0), 0);
    story.received(10_000_000, 0, 0, 1);
    let lines = lines_of(&story, |manifest| manifest.config = "[workload]\nkind = \"raw\"\n".to_owned());
    assert_eq!(value(&lines, "received"), Some(1.0));
    assert!(lines.iter().all(|line| !line.metric.contains("aom") && !line.metric.contains("never_delivered")));
}

#[test]
fn ages_of_flows_their_mean_and_fairness() {
    // Cluster 0 and worker 0: delivered at 10 us, age 0 → 10 us; cluster 5: starved, 0 → 20 us.
    let mut story = Story::new();
    story.sent(0, 0, Some(0), 0).sent(1, 0, Some(0), 5).sent_seq(1, 1, 20_000_000, Some(20_000_000), 5);
    story.received(10_000_000, 0, 0, 1);
    let lines = lines_of(&story, |_| {});
    assert_eq!(binned(&lines, "aom_mean", "id"), [(0, 5000.0), (5, 10_000.0), (0, 5000.0), (1, 10_000.0)]);
    assert_eq!((value(&lines, "aom_mean/cluster"), value(&lines, "aom_mean/worker")), (Some(7500.0), Some(7500.0)));
    // (5 + 10)² / (2 · (25 + 100)) = 0.9.
    assert!((value(&lines, "aom_fairness/cluster").unwrap() - 0.9).abs() < 1e-12);
    assert_eq!(value(&lines, "flows_never_delivered/cluster"), Some(1.0));
    assert_eq!(binned(&lines, "flow_never_delivered", "id"), [(5, 1.0), (1, 1.0)]);
    // A delivery of the first generation lowers nothing, so there are no peaks to speak of.
    assert_eq!(value(&lines, "aom_peak_mean/cluster"), None);
    assert_eq!(value(&lines, "aom_p50/cluster"), Some(7500.0));
}

#[test]
fn states_of_workers_under_transmission_control() {
    let mut story = every_fate();
    // Before the first ACK; an ACK with 4 clusters and 2 slots; two decisions in congestion; no congestion.
    story.state(0, 1, (0, 0), Some((-1, 1.0, true))).state(1_000, 1, (4, 2), None);
    story.state(3_000, 1, (4, 2), Some((2_000, 0.5, false))).state(5_000, 1, (4, 2), Some((4_000, 0.75, true)));
    story.state(6_000, 1, (2, 2), None).state(7_000, 1, (2, 2), Some((1_500, 1.0, true)));
    let lines = lines_of(&story, |_| {});
    assert_eq!((value(&lines, "p_send_mean"), value(&lines, "congested_share")), (Some(0.8125), Some(0.5)));
    assert_eq!(value(&lines, "ack_age_mean"), Some(2.5));
    // States are read regardless of what else was recorded, and absent unless requested.
    let counted = lines_of(&story, |manifest| manifest.records = "none".into());
    assert_eq!(value(&counted, "p_send_mean"), Some(0.8125));
    assert!(lines_of(&every_fate(), |_| {}).iter().all(|line| line.metric != "p_send_mean"));
}

#[test]
fn damaged_states_are_named() {
    let dir = tempfile::tempdir().unwrap();
    every_fate().write(dir.path());
    std::fs::copy(dir.path().join("sent.parquet"), dir.path().join("states.parquet")).unwrap();
    let fault = analyze_run(dir.path()).unwrap_err().to_string();
    assert!(fault.contains("states.parquet") && fault.contains("is this a stream of a pktgen run?"), "{fault}");
}

#[test]
fn an_empty_run_has_lines_without_values() {
    let lines = lines_of(&Story::new(), |_| {});
    assert_eq!(
        (value(&lines, "sent"), value(&lines, "loss"), value(&lines, "aom_mean/cluster")),
        (Some(0.0), None, None)
    );
    let dir = tempfile::tempdir().unwrap();
    crate::line::write_table(&lines, &dir.path().join("lines.parquet")).unwrap();
    assert!(lines_of(&small_run(true, 1000), |_| {}).len() > 80);
}

/// OLAF's Table 3 prints 0.86 for FIFO with mean ages of 1381 and 5382 ms of five clusters each: regardless of the ages
/// within a group, Jain's index is at most that of the means.
#[test]
fn the_published_fairness_of_table_3_cannot_be() {
    let groups = [1381.0, 5382.0];
    let even: Vec<f64> = groups.iter().flat_map(|mean| [*mean; 5]).collect();
    let most = crate::stats::jain(&even).unwrap();
    assert!((0.740..0.742).contains(&most), "{most}");
    let mut state = 1u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    for _ in 0..10_000 {
        let mut ages = Vec::new();
        for mean in groups {
            let shares: Vec<f64> = (0..5).map(|_| unit()).collect();
            let whole: f64 = shares.iter().sum();
            ages.extend(shares.iter().map(|share| share / whole * 5.0 * mean));
        }
        assert!(crate::stats::jain(&ages).unwrap() <= most + 1e-12);
    }
}

#[test]
fn what_the_host_made_late_is_a_share_and_the_others_are_apart() {
    let paced = |frames, late_by_host, others_late_ns| PacingCounts { frames, late_by_host, others_late_ns };
    let one = paced(40, 10, Some([20, 300, 900]));
    let found = lines_of(&every_fate(), |manifest| manifest.pacing = Some(one.clone()));
    assert_eq!((value(&found, "late_by_host"), value(&found, "late_others_p99")), (Some(0.25), Some(300.0)));
    // For several senders, counts are sums and quantiles are unknown.
    let both = one.plus(&paced(60, 5, Some([10, 20, 30])));
    let found = lines_of(&every_fate(), |manifest| manifest.pacing = Some(both.clone()));
    let has = |lines: &[Line], key: &str| lines.iter().any(|line| line.key().as_deref() == Some(key));
    assert_eq!((value(&found, "late_by_host"), has(&found, "late_others_p99")), (Some(0.15), false));
    let found = lines_of(&every_fate(), |manifest| manifest.pacing = Some(PacingCounts::default()));
    assert!(!has(&found, "late_by_host") && !has(&found, "late_others_p99"));
}

/// In a layout without our header an aggregate of a software device counts as one update until its content identifies it.
#[test]
fn elements_of_aggregates_without_a_count_have_no_value() {
    let of = |story: &Story, notes: Vec<Note>| {
        lines_of(story, |manifest| {
            manifest.incidents.notes.clone_from(&notes);
            manifest.counters.received_ps = Some((11_000, 21_000));
            manifest.counters.elements_delivered = 58;
        })
    };
    for (notes, is_known) in [(vec![], true), (vec![Note::Headless {}], false)] {
        let lines = of(&every_fate(), notes);
        assert_eq!(value(&lines, "elements_per_s").is_some(), is_known);
        assert!(value(&lines, "updates_per_s").is_some(), "records have the members");
    }
    // Without merging every packet is one update.
    let alone = of(&small_run(false, 1_000), vec![Note::Headless {}]);
    assert!(value(&alone, "elements_per_s").is_some());
}

/// A device that merges and keeps no books: a packet names one of its updates, and, without our header, not how many they are.
#[test]
fn what_packets_of_a_merging_device_do_not_say_has_no_value() {
    let of = |notes: Vec<Note>, merges: bool| {
        lines_of(&every_fate(), |manifest| {
            (manifest.external, manifest.unseen) =
                (Some("generic".into()), Some(Unseen { merges, ..Unseen::default() }));
            manifest.incidents.notes.clone_from(&notes);
            manifest.counters.received_ps = Some((11_000, 21_000));
            manifest.counters.elements_delivered = 58;
        })
    };
    let known = |lines: &[Line], key: &str| {
        let (metric, flow) = key.split_once('/').map_or((key, None), |(metric, flow)| (metric, Some(flow)));
        let is_flow = |line: &&Line| line.labels.get("flow").and_then(serde_json::Value::as_str) == flow;
        let own: Vec<_> = lines.iter().filter(|line| line.metric == metric).filter(is_flow).collect();
        !own.is_empty() && own.iter().any(|line| line.value.is_some())
    };
    let by_one = ["merged", "downlink_bytes_per_delivered_update", "aom_mean/worker", "flows_never_delivered/worker"];
    let by_none = ["updates_per_s", "elements_per_s", "aom_mean/cluster", "aggregation_mean"];
    for (notes, merges, without) in [
        (vec![], false, 0),
        (vec![Note::Headless {}], false, 0),
        (vec![], true, by_one.len()),
        (vec![Note::Headless {}], true, by_one.len() + by_none.len()),
    ] {
        let lines = of(notes, merges);
        for (i, key) in by_one.iter().chain(&by_none).enumerate() {
            assert_eq!(known(&lines, key), i >= without, "{key}, {merges}, {without}");
        }
    }
}

/// Behind a device that forwards, packets without a row are lost, unless the server's part was killed and left no row at all.
#[test]
fn loss_has_no_value_if_nothing_is_known_of_arrivals() {
    let mut silent = Story::new();
    for worker in 0..4 {
        silent.sent(worker, 0, Some(0), 0);
    }
    let mut half = silent.clone();
    half.received(10_000_000, 0, 0, 1).received(11_000_000, 1, 0, 1);
    let killed = Fault::InPart { part: "server part".into(), fault: Box::new(Fault::Killed {}) };
    for (story, fault, only_senders_killed, loss) in [
        (&silent, None, false, Some(1.0)),
        (&silent, Some(&killed), true, Some(1.0)),
        (&silent, Some(&killed), false, None),
        (&half, Some(&killed), false, Some(0.5)),
    ] {
        let lines = lines_of(story, |manifest| {
            (manifest.external, manifest.unseen) = (Some("generic".into()), Some(Unseen::default()));
            manifest.incidents.faults = fault.cloned().into_iter().collect();
            manifest.incidents.only_senders_killed = only_senders_killed;
        });
        assert_eq!(value(&lines, "loss"), loss, "{fault:?}, {only_senders_killed}");
    }
}

/// The rows of a killed server may have been those of updates that its device sent on.
#[test]
fn what_a_killed_server_received_has_no_value_without_rows() {
    let keys = ["received", "merged", "absorbed", "aggregated", "duplicates", "aom_mean/cluster", "aom_mean/worker"];
    let mut silent = Story::new();
    silent.sent_seq(0, 0, 0, Some(0), 0).sent_seq(0, 1, 5_000_000, Some(5_000_000), 0);
    let mut half = silent.clone();
    half.received_seq(10_000_000, 0, 0, 0, 1);
    for (story, is_killed, only_senders_killed, is_known) in [
        (&silent, false, false, true),
        (&silent, true, true, true),
        (&silent, true, false, false),
        (&half, true, false, true),
    ] {
        let lines = lines_of(story, |manifest| {
            let killed = Fault::InPart { part: "server part".into(), fault: Box::new(Fault::Killed {}) };
            manifest.incidents.faults.extend(is_killed.then_some(killed));
            manifest.incidents.only_senders_killed = only_senders_killed;
        });
        for key in keys {
            assert_eq!(value(&lines, key).is_some(), is_known, "{key}, {is_killed}, {only_senders_killed}");
        }
        assert_eq!(lines.iter().any(|line| line.metric == "flows_never_delivered"), is_known);
        assert_eq!(value(&lines, "sent"), Some(2.0));
    }
}

/// Hot sums arrive at workers, all others at the server.
#[test]
fn rates_with_hot_sums_need_one_clock() {
    for (last, clock, is_known) in [
        (Heat::Hot, "monotonic", true),
        (Heat::Hot, "another host, not synchronised", false),
        (Heat::Cold, "another host, not synchronised", true),
    ] {
        let mut story = Story::new();
        story.sent_seq(1, 0, 0, Some(0), 0).sent_seq(1, 1, 0, Some(0), 0);
        story.received_seq(10_000, 1, 0, 0, 1).received_seq(20_000, 1, 1, 0, 1);
        story.records.received.heat = vec![Heat::Cold as u8, last as u8];
        let Measured { lines, notes } = measured(&story, |manifest| {
            manifest.family = Some(Family::Pairs);
            for (column, clock) in [("sent.t_sent_ps", "monotonic"), ("received.t_recv_ps", clock)] {
                manifest.clocks.insert(column.to_owned(), clock.to_owned());
            }
        });
        assert_eq!(value(&lines, "throughput_bps").is_some(), is_known, "{last:?}, {clock}");
        assert_eq!(notes.iter().any(|note| note.text.contains("rates with hot sums")), clock != "monotonic");
    }
}

/// A packet that arrives twice ends the windows of its cluster and of its workers alike, with books and without.
#[test]
fn a_packet_that_arrives_again_is_a_delivery_to_its_workers_too() {
    let mut story = Story::new();
    story.sent(0, 0, Some(0), 0).received(10_000_000, 0, 0, 1).received(100_000_000, 0, 0, 1);
    for external in [false, true] {
        let lines = lines_of(&story, |manifest| {
            if external {
                (manifest.external, manifest.unseen) =
                    (Some("generic".into()), Some(Unseen { duplicates: 1, ..Unseen::default() }));
            }
        });
        let of = |key: &str| value(&lines, key);
        // It ages from 0 to 100 µs.
        assert_eq!((of("aom_mean/cluster"), of("aom_mean/worker")), (Some(50_000.0), Some(50_000.0)), "{external}");
        assert_eq!((of("sent"), of("duplicates"), of("balance_unknown")), (Some(1.0), Some(1.0), Some(0.0)));
        assert_eq!(of("host_latency_max"), Some(100_000.0));
    }
}

/// The packets of such a device name the newest of their updates.
#[test]
fn ages_of_members_that_packets_do_not_name_have_no_value() {
    for (merges, age_of, is_known) in [
        (true, AgeOf::Newest, true),
        (true, AgeOf::Own, true),
        (true, AgeOf::Oldest, false),
        (true, AgeOf::Mean, false),
        (false, AgeOf::Oldest, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = every_fate().manifest();
        (manifest.external, manifest.unseen) = (Some("generic".into()), Some(Unseen { merges, ..Unseen::default() }));
        every_fate().write_with(dir.path(), &manifest);
        let analysis = Analysis::open(dir.path(), Options { age_of, ..Options::default() }).unwrap();
        assert_eq!(analysis.ages().is_some(), is_known, "{merges}, {age_of:?}");
        let lines = analysis.lines().unwrap();
        assert_eq!(value(&lines, "aom_mean/cluster").is_some(), is_known, "{merges}, {age_of:?}");
    }
}

/// Generation times are the schedule's then. Times from host to host are of no schedule.
#[test]
fn runs_at_top_speed_have_no_ages() {
    let (top, paced) = ("[transport]\npacing = \"top\"\n", "[transport]\npacing = \"deadlines\"\n");
    for (config, clock, noted, is_known) in [
        (paced, "monotonic", false, true),
        (top, "monotonic", false, false),
        ("", "monotonic", true, false),
        (top, "virtual", false, true),
    ] {
        let lines = lines_of(&every_fate(), |manifest| {
            manifest.config = config.to_owned();
            manifest.validity.notes.extend(noted.then_some(Note::TopSpeed {}));
            for column in ["sent.t_sent_ps", "received.t_recv_ps"] {
                manifest.clocks.insert(column.to_owned(), clock.to_owned());
            }
        });
        for metric in ["aom_mean", "aom_p99", "aom_fairness"] {
            let is_there = lines.iter().any(|line| line.metric == metric);
            assert_eq!(is_there, is_known, "{metric}: {config}, {clock}, {noted}");
        }
        assert_eq!(value(&lines, "sent"), Some(6.0));
        assert!(value(&lines, "host_latency_max").is_some());
    }
}
