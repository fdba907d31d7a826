//! Workers that react (OLAF §5, §8.2), the server's gate (§2.1), moves between clusters (§7) and runs to a goal: their
//! actions, recomputed from the records by simple code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Action, Balance, Book, Received, Sent, State};
use pktgen_core::time::{MS, SECOND, Time, US};
use pktgen_engine::driver::virtual_time::{Outcome, Simulation};
use pktgen_engine::ledger::total;
use pktgen_engine::recorder::Recorder;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_workload::control::SendingRule;

/// All rows of a run.
#[derive(Default, Debug, PartialEq)]
struct Rows {
    sent: Vec<Sent>,
    books: Vec<Book>,
    states: Vec<State>,
    received: Vec<Received>,
    frames: Vec<Vec<u8>>,
}

impl Recorder for Rows {
    fn sent(&mut self, row: &Sent) -> Result<()> {
        self.sent.push(*row);
        Ok(())
    }
    fn book(&mut self, row: &Book) -> Result<()> {
        self.books.push(*row);
        Ok(())
    }
    fn state(&mut self, row: &State) -> Result<()> {
        self.states.push(*row);
        Ok(())
    }
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        self.received.push(*row);
        self.frames.push(frame.to_vec());
        Ok(())
    }
}

fn simulate(text: &str) -> (Rows, Outcome, Balance) {
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut rows = Rows::default();
    let mut outcome = Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut rows, &mut |_| {})
        .unwrap();
    let balance = total(&outcome.ledger.close());
    assert_eq!((balance.unknown, outcome.ledger.strangers(), outcome.leaked), (0, 0, 0), "{balance:?}");
    assert_eq!(outcome.counters.sums_wrong, 0);
    assert_eq!(balance.sent, rows.sent.iter().filter(|row| row.t_sent.is_some()).count() as u64);
    (rows, outcome, balance)
}

/// Returns OLAF's Figure 9 for a few seconds, with workers under transmission control.
fn multi_hop(extra: &str) -> String {
    format!(
        "[workload]\nclusters = 10\nworkers_per_cluster = 10\nupdates = 60\nbytes = \"1000B\"\n\
         [schedule]\nperiod = \"100ms\"\njitter = 0.1\n[topology]\nkind = \"multi_hop\"\n\
         [target]\nslot_in_transmission = false\nreward_filter = false\n\
         [endpoint]\nworkers = \"transmission_control\"\n{extra}\n[capture]\nstates = true\n"
    )
}

#[test]
fn every_decision_follows_the_rule_from_the_last_ack() {
    for (extra, rule) in [
        ("", SendingRule::urgent(400 * MS)),
        ("delta_t = \"30ms\"", SendingRule::urgent(30 * MS)),
        ("delta_t = \"30ms\"\nslope = \"delta_t\"", SendingRule::fair(30 * MS)),
        ("delta_t = \"1ms\"\nslope = 2", SendingRule { threshold: MS, slope: 2.0 }),
    ] {
        let (rows, outcome, balance) = simulate(&multi_hop(extra));
        let mut last: BTreeMap<u32, State> = BTreeMap::new();
        let (mut open, mut expected, mut chosen) = (0, 0.0, 0);
        for row in &rows.states {
            let (Some(p), Some(sent)) = (row.p_send, row.sent) else {
                last.insert(row.worker, *row);
                continue;
            };
            let probability = last.get(&row.worker).map_or(1.0, |ack| {
                assert_eq!((ack.active, ack.capacity), (row.active, row.capacity));
                assert_eq!(row.ack_age, Some(row.t - ack.t));
                rule.probability(ack.active, ack.capacity, row.t - ack.t)
            });
            assert_eq!(p, probability as f32);
            assert!(sent || probability < 1.0);
            if probability < 1.0 {
                (open, expected, chosen) = (open + 1, expected + probability, chosen + i32::from(sent));
            }
        }
        let decisions: Vec<_> = rows.states.iter().filter_map(|row| Some((row.t, row.worker, row.sent?))).collect();
        let sent: Vec<_> = rows.sent.iter().map(|row| (row.t_gen, row.worker, row.t_sent.is_some())).collect();
        assert!(decisions.iter().all(|d| sent.contains(d)) && decisions.len() == sent.len() && sent.len() == 6000);
        assert_eq!((balance.withheld, balance.generated), (6000 - balance.sent, 6000));
        // Random choice: the sum of open decisions is within four standard deviations of the sum of probabilities.
        assert!(open > 1000, "{extra}: {open}");
        assert!((f64::from(chosen) - expected).abs() < 4.0 * (f64::from(open) * 0.25).sqrt(), "{chosen} of {expected}");
        // SW3 is the most congested device: N/Qmax 10/8 against 5/5.
        let late = rows.states.iter().filter(|row| row.t > SECOND && row.ack_age.is_some());
        assert!(late.map(|row| (row.active, row.capacity)).all(|state| state == (10, 8)));
        assert!(outcome.counters.acks_received > 0);
    }
}

#[test]
fn without_congestion_it_is_an_open_loop() {
    let text = multi_hop("").replace("[topology]", "[topology]\nleaf_slots = 5\nroot_slots = 10");
    let (controlled, _, balance) = simulate(&text);
    let (open, ..) = simulate(&text.replace("transmission_control", "open_loop"));
    assert_eq!(balance.withheld, 0);
    assert_eq!((controlled.sent, controlled.books, controlled.received), (open.sent, open.books, open.received));
}

#[test]
fn feedback_older_than_the_window_is_forgotten_by_the_device() {
    // One cluster stops after a second: N falls from 2 to 1, and with one slot the congestion ends.
    let text = "[workload]\nclusters = 2\nworkers_per_cluster = 1\nupdates = 100\nbytes = \"1000B\"\n\
        cluster_periods = [1, 10]\n[schedule]\nperiod = \"10ms\"\n[topology]\nrate = \"8Mbps\"\n\
        [target]\nslots = 1\nreward_filter = false\nactive_window = \"50ms\"\n\
        [endpoint]\nworkers = \"transmission_control\"\n[capture]\nstates = true\n";
    let (rows, ..) = simulate(text);
    let active: BTreeSet<_> = rows.states.iter().filter(|row| row.sent.is_none()).map(|row| row.active).collect();
    assert_eq!(active, BTreeSet::from([1, 2]));
    let arrivals: Vec<(Time, u32)> =
        rows.books.iter().filter(|b| b.action != Action::Departed).map(|b| (b.t, b.packet_in.worker())).collect();
    for ack in rows.states.iter().filter(|row| row.sent.is_none()) {
        // The device stamped the ACK at most 2 µs before it was received (100 Gbit/s, no delay on the way down).
        let recent = |from: Time, to: Time| {
            let seen = arrivals.iter().filter(|(t, _)| *t > from - 50 * MS && *t <= to);
            seen.map(|(_, worker)| worker).collect::<BTreeSet<_>>().len() as u16
        };
        assert!((recent(ack.t, ack.t)..=recent(ack.t - 2 * US, ack.t)).contains(&ack.active), "{ack:?}");
    }
}

#[test]
fn written_choices_are_followed() {
    let base = "[workload]\nclusters = 2\nworkers_per_cluster = 1\nupdates = 6\nbytes = \"1000B\"\n\
        [schedule]\nperiod = \"10ms\"\n[topology]\nrate = \"80Mbps\"\n[target]\nslots = 1\nreward_filter = false\n\
        [endpoint]\nworkers = \"transmission_control\"\n";
    let (rows, outcome, _) = simulate(&format!("{base}choices = [\"10101\", \"00000\"]\n"));
    let kept = |worker: u32| -> String {
        let own = rows.sent.iter().filter(|row| row.worker == worker);
        own.map(|row| if row.t_sent.is_some() { '1' } else { '0' }).collect()
    };
    // Each worker sends freely before its first ACK; worker 1, which begins, also after an ACK that counts only itself.
    assert_eq!([kept(0), kept(1)], ["110101", "110000"]);
    assert_eq!(outcome.source_failure, None);
    let (_, outcome, _) = simulate(&format!("{base}choices = [\"1\", \"0\"]\n"));
    assert!(outcome.source_failure.unwrap().contains("choices"), "a script that is too short is a reason");
}

/// FIFO with two slots under three times its rate, workers that retransmit after 40 µs.
const RETRANSMIT: &str = "[workload]\nclusters = 3\nworkers_per_cluster = 4\nupdates = 200\nbytes = \"2048bit\"\n\
    [schedule]\noffered = \"3Gbps\"\njitter = 0.5\n[topology]\nrate = \"1Gbps\"\ndelay = \"1us\"\n\
    [target]\nprogram = \"forward\"\nqueue = \"fifo\"\nslots = 2\n\
    [endpoint]\nworkers = \"retransmit\"\ntimeout = \"8us\"\nack_model = \"none\"\n";

#[test]
fn what_is_not_acknowledged_is_sent_again_until_something_newer_is() {
    let (rows, _, balance) = simulate(RETRANSMIT);
    assert!(balance.retransmitted > 300 && balance.dropped_total() > 300, "{balance:?}");
    assert_eq!(balance.generated + balance.retransmitted, balance.sent);
    let timeout = 8 * US;
    // An ACK of 80 bytes goes down in two hops of 100 Gbit/s and 1 µs.
    let heard: BTreeMap<_, _> = rows.received.iter().map(|r| (r.packet, r.t_recv + 2 * US + 2 * 6_400)).collect();
    let mut by_worker: BTreeMap<u32, Vec<&Sent>> = BTreeMap::new();
    for row in &rows.sent {
        by_worker.entry(row.worker).or_default().push(row);
    }
    for rows in by_worker.values() {
        for (i, row) in rows.iter().enumerate() {
            let due = row.t_sent.unwrap() + timeout;
            let id = |attempt| pktgen_core::record::PacketId::new(row.worker, row.seq, attempt);
            let acked = (0..=row.attempt).filter_map(|a| heard.get(&id(a))).min().is_some_and(|t| *t <= due);
            let newer = rows.iter().any(|r| r.attempt == 0 && r.seq == row.seq + 1 && r.t_gen <= due);
            match rows.get(i + 1) {
                Some(next) if next.seq == row.seq => {
                    assert_eq!((next.attempt, next.t_due, next.t_gen), (row.attempt + 1, due, row.t_gen));
                    assert!(!acked && !newer, "{row:?}");
                }
                _ => assert!(acked || newer, "nothing followed {row:?}"),
            }
        }
    }
}

#[test]
fn nothing_is_retransmitted_where_nothing_waits() {
    let calm = RETRANSMIT.replace("3Gbps", "10Mbps").replace("timeout = \"8us\"\n", "");
    assert_eq!(simulate(&calm).2.retransmitted, 0, "two unloaded round trips suffice");
    let hasty = RETRANSMIT.replace("3Gbps", "10Mbps").replace("timeout = \"8us\"", "timeout_rtts = 0.9");
    assert!(simulate(&hasty).2.retransmitted >= 2400, "nine tenths of one do not");
    // An ACK without a model has 80 bytes: 0.998 of the round trip is too short for every update.
    let near = RETRANSMIT.replace("3Gbps", "10Mbps").replace("timeout = \"8us\"", "timeout_rtts = 0.998");
    assert!(simulate(&near).2.retransmitted >= 2400);
    // Traffic beside updates has larger frames, and no part in their round trip.
    let beside = near.replace("bytes = \"2048bit\"\n", "bytes = \"2048bit\"\nbackground_rate = \"1kbps\"\n");
    assert!(beside != near && simulate(&beside).2.retransmitted >= 2400);
}

/// The farthest host of updates determines the timeout. One of background traffic alone does not, unless there are no updates.
#[test]
fn hosts_of_background_traffic_have_no_part_in_the_round_trip() {
    let retransmitted = |hosts: &str, timeout: &str| {
        let network = format!(
            "kind = \"custom\"\ndevices = [\"d\"]\nhosts = [{hosts}]\n\
             links = [\"a d 100Gbps\", \"b d 10Mbps\", \"d ps 1Gbps\"]\n"
        );
        let text = RETRANSMIT
            .replace("3Gbps", "10Mbps")
            .replace("updates = 200\n", "updates = 200\nbackground_rate = \"1kbps\"\nbackground_flows = 1\n")
            .replace("rate = \"1Gbps\"\n", &network)
            .replace("timeout = \"8us\"", timeout);
        simulate(&text).2.retransmitted
    };
    let beside = "\"a 0-11\", \"b 12\"";
    assert_eq!(retransmitted(beside, "timeout_rtts = 2.0"), 0);
    assert!(retransmitted(beside, "timeout_rtts = 0.998") >= 2400);
    assert_eq!(retransmitted("\"a 0-10\", \"b 11-12\"", "timeout_rtts = 0.998"), 200, "of worker 11 alone");
    let updates = RETRANSMIT.find("[schedule]").unwrap();
    let alone = "[workload]\nkind = \"background\"\nflows = 2\npackets = 10\nbytes = \"500B\"\n";
    let alone = alone.to_owned() + &RETRANSMIT[updates..].replace("timeout = \"8us\"\n", "").replace("3Gbps", "10Mbps");
    assert_eq!(simulate(&alone).0.sent.len(), 20);
}

#[test]
fn a_goal_ends_a_repeated_workload() {
    let text = RETRANSMIT.replace("updates = 200", "updates = 20\nrepeat = 0") + "[capture]\ngoal = 50\n";
    let (rows, outcome, balance) = simulate(&text);
    assert!(outcome.goal_reached);
    let mut reached: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut at = None;
    for row in &rows.received {
        reached.entry(row.newest_worker).or_default().insert(row.newest_seq);
        if at.is_none() && reached.len() == 12 && reached.values().all(|seen| seen.len() >= 50) {
            at = Some(row.t_recv);
        }
    }
    assert_eq!((outcome.counters.goal_ps, outcome.counters.workers_at_goal), (at, 12));
    assert!(rows.sent.iter().map(|row| row.seq).max().unwrap() >= 50, "sequence numbers go on from pass to pass");
    assert!(balance.in_flight > 0);
    // Without a goal, three passes end by themselves, and time continues from one to the next.
    let (rows, ..) = simulate(&RETRANSMIT.replace("updates = 200", "updates = 20\nrepeat = 3"));
    let first: Vec<_> = rows.sent.iter().filter(|row| row.attempt == 0).collect();
    assert_eq!(first.len(), 12 * 60);
    assert!(first.windows(2).all(|w| w[0].t_gen <= w[1].t_gen));
    for pass in 1..3 {
        let shift = |i: usize| first[i + 240 * pass].t_gen - first[i].t_gen;
        assert!((0..240).all(|i| shift(i) == shift(0)), "every pass has the same gaps");
    }
}

#[test]
fn endless_workloads_need_an_end() {
    let text = RETRANSMIT.replace("updates = 200", "updates = 20\nrepeat = 0");
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    let message = experiment.plan(&experiment.runs[0]).err().unwrap().to_string();
    assert!(message.contains("capture.goal") && message.contains("workload.repeat"), "{message}");
}

#[test]
fn the_gate_decides_what_is_accepted_and_everything_is_answered() {
    let text = |gate: &str| {
        format!(
            "[workload]\nclusters = 2\nupdates = 50\n[schedule]\noffered = \"30Gbps\"\n[endpoint]\ngate = \"{gate}\"\n"
        )
    };
    for gate in ["off", "max", "moving_average"] {
        let (rows, outcome, _) = simulate(&text(gate));
        let mut stored: BTreeMap<u16, f64> = BTreeMap::new();
        for row in &rows.received {
            let reward = f64::from(row.reward.unwrap());
            let before = stored.get(&row.tenant()).copied().unwrap_or(f64::NEG_INFINITY);
            assert_eq!(row.accepted, gate == "off" || reward > before, "{gate}");
            let next = match gate {
                "max" => before.max(reward),
                _ if before == f64::NEG_INFINITY => reward,
                _ => before + 0.1 * (reward - before),
            };
            stored.insert(row.tenant(), next);
        }
        let accepted = rows.received.iter().filter(|row| row.accepted).count() as u64;
        assert_eq!((outcome.counters.accepted, outcome.counters.acks_sent), (accepted, rows.received.len() as u64));
        assert!(gate == "off" || accepted < rows.received.len() as u64 / 2 + 20);
    }
}

#[test]
fn a_worker_that_moves_is_of_its_new_cluster_from_then_on() {
    // Worker 0 joins cluster 1, worker 5 founds cluster 2; the device is slow, so updates meet in its queue.
    let text = "[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 300\nbytes = \"1000B\"\n\
        [[workload.moves]]\nat = \"1s\"\nworker = 0\ncluster = 1\n[[workload.moves]]\nat = \"2s\"\nworker = 5\ncluster = 2\n\
        [schedule]\nperiod = \"10ms\"\njitter = 0.2\n[topology]\nrate = \"400kbps\"\n[target]\nslots = 2\nreward_filter = false\n\
        [endpoint]\nworkers = \"transmission_control\"\n[capture]\nstates = true\n";
    let (rows, outcome, balance) = simulate(text);
    assert_eq!((balance.generated, outcome.counters.sums_ok), (1800, rows.received.len() as u64));
    let cluster = |worker: u32, t: Time| match worker {
        0 if t >= SECOND => 1,
        5 if t >= 2 * SECOND => 2,
        _ => worker as u16 / 3,
    };
    assert!(rows.sent.iter().all(|row| row.cluster == Some(cluster(row.worker, row.t_gen))));
    // Updates that the device merged are of one cluster: that of its members when they arrived.
    for row in rows.books.iter().filter(|row| row.action == Action::Merged) {
        let (a, b) = (row.packet_in.worker(), row.packet_out.unwrap().worker());
        let old = |w| cluster(w, row.t - 100 * MS) == cluster(a, row.t) || cluster(w, row.t) == cluster(a, row.t);
        assert!(old(b), "{row:?}");
    }
    let settled = |row: &&Received| row.newest_gen > 2 * SECOND + 100 * MS;
    let seen: BTreeSet<_> = rows.received.iter().filter(settled).map(|row| (row.newest_worker, row.tenant())).collect();
    assert!(seen.iter().all(|(worker, c)| *c == cluster(*worker, 3 * SECOND)), "{seen:?}");
    assert!(seen.iter().any(|(_, c)| *c == 2), "a new cluster forms: {seen:?}");
    // An ACK of its new cluster reaches the mover: it receives as many as its new neighbours.
    let heard = |worker| {
        rows.states
            .iter()
            .filter(|r| r.worker == worker && r.sent.is_none() && r.t > 1100 * MS && r.t < 2 * SECOND)
            .count()
    };
    assert_eq!(heard(0), heard(3));
    assert_ne!(heard(0), 0);
    assert_ne!(heard(1), heard(0));
    assert!(rows.states.iter().any(|row| row.active == 3), "N counts the new cluster");
}

#[test]
fn moves_are_checked() {
    let text = |worker: u32, cluster: u32| {
        format!(
            "[workload]\nclusters = 2\n[[workload.moves]]\nat = \"1s\"\nworker = {worker}\ncluster = {cluster}\n[schedule]\noffered = \"1Gbps\"\n"
        )
    };
    for (worker, cluster, part) in [(6, 0, "worker 6"), (0, 3, "cluster 3 leaves a gap")] {
        let experiment = Experiment::open(all(), Document::parse(&text(worker, cluster), "test").unwrap()).unwrap();
        let message = experiment.plan(&experiment.runs[0]).err().unwrap().to_string();
        assert!(message.contains(part), "{message}");
    }
}

/// Two devices; worker 0 leaves cluster 0 while an aggregate with its addresses is between them.
#[test]
fn an_aggregate_stays_of_the_cluster_under_which_it_was_merged() {
    let mut under_way = 0;
    for at in (100..550).step_by(10) {
        let text = format!(
            "[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 60\nbytes = \"1000B\"\n\
             [[workload.moves]]\nat = \"{at}ms\"\nworker = 0\ncluster = 1\n[schedule]\nperiod = \"10ms\"\njitter = 0.2\n\
             [topology]\nkind = \"multi_hop\"\nleaf_rates = [\"160kbps\", \"160kbps\"]\nroot_rate = \"200kbps\"\n\
             [target]\nreward_filter = false\nslot_in_transmission = false\n"
        );
        let (rows, outcome, _) = simulate(&text);
        assert_eq!(outcome.counters.sums_ok, rows.received.len() as u64);
        for (row, frame) in rows.received.iter().zip(&rows.frames) {
            // Only worker 0 ever moves: an aggregate named after another worker is of that worker's cluster.
            assert!(row.newest_worker == 0 || row.tenant() == row.newest_worker as u16 / 3, "{row:?}");
            let of_worker_0 = frame[26..30] == [10, 0, 0, 1];
            under_way += u32::from(of_worker_0 && row.newest_worker != 0 && row.tenant() == 0 && row.t_recv > at * MS);
        }
    }
    assert!(under_way > 0, "an aggregate with the mover's address was under way at a move");
}

#[test]
fn the_device_writes_the_cluster_whatever_its_queue() {
    for queue in ["fifo", "olaf"] {
        let text = format!(
            "[workload]\nclusters = 2\nworkers_per_cluster = 1\nupdates = 40\nbytes = \"1000B\"\n\
             [[workload.moves]]\nat = \"200ms\"\nworker = 0\ncluster = 1\n[schedule]\nperiod = \"10ms\"\n\
             [topology]\nrate = \"8Mbps\"\ndelay = \"15ms\"\n[target]\nqueue = \"{queue}\"\nreward_filter = false\n\
             [format]\nudp_checksum = true\n"
        );
        let (rows, ..) = simulate(&text);
        let under_way =
            rows.received.iter().filter(|r| r.newest_worker == 0 && (180 * MS..200 * MS).contains(&r.newest_gen));
        let clusters: Vec<_> = under_way.map(Received::tenant).collect();
        assert!(clusters.contains(&1), "{queue}: generated before the move, at the device after it: {clusters:?}");
        for frame in &rows.frames {
            let mut fresh = frame.clone();
            pktgen_wire::wire::frame::set_udp_checksum(&mut fresh);
            assert_eq!(&fresh, frame);
        }
    }
}

#[test]
fn a_run_that_ends_early_knows_nothing_of_what_comes_after() {
    let text = RETRANSMIT.replace("workers = \"retransmit\"\ntimeout = \"8us\"\n", "") + "[capture]\ngoal = 5\n";
    for topology in ["rate = \"1Gbps\"", "ingress_rate = \"2Gbps\"\nrate = \"1Gbps\""] {
        let (rows, outcome, balance) = simulate(&text.replace("rate = \"1Gbps\"", topology));
        let end = outcome.counters.end_ps;
        assert_eq!(outcome.counters.goal_ps, Some(end));
        assert!(rows.sent.iter().all(|row| row.t_gen <= end), "{topology}");
        // With a slow link of its own, the host has updates waiting for it: they are generated, and in flight.
        let waiting = rows.sent.iter().filter(|row| row.t_sent.unwrap() > end).count() as u64;
        assert_eq!(waiting > 0, topology.contains("ingress"), "{waiting}");
        assert!(balance.in_flight >= waiting);
    }
}

#[test]
fn moves_and_timers_do_not_prolong_a_run() {
    let plain = simulate(RETRANSMIT).1.counters.end_ps;
    let moved = "\n[[workload.moves]]\nat = \"600h\"\nworker = 0\ncluster = 1\n[schedule]";
    assert_eq!(simulate(&RETRANSMIT.replace("\n[schedule]", moved)).1.counters.end_ps, plain);
    // Beyond the end of the capture, or of any run, it is no event of the run either.
    for (at, more) in [("700h", ""), ("600h", "[capture]\nuntil = \"1h\"\n")] {
        let outcome = simulate(&(RETRANSMIT.replace("\n[schedule]", &moved.replace("600h", at)) + more)).1;
        assert_eq!((outcome.cut, outcome.beyond_horizon, outcome.counters.end_ps), (false, false, plain), "{at}");
    }
    // Acknowledged packets need no timer: the run ends with its last packet.
    let slow = RETRANSMIT.replace("3Gbps", "10Mbps").replace("timeout = \"8us\"", "timeout = \"600h\"");
    assert!(simulate(&slow).1.counters.end_ps < SECOND);
}

#[test]
fn acknowledgements_after_the_end_of_the_capture_do_not_arrive() {
    let text = RETRANSMIT.replace("\"retransmit\"\ntimeout = \"8us\"", "\"open_loop\"");
    let whole = simulate(&text).1;
    let until = whole.counters.end_ps - 1;
    assert!(!whole.cut);
    let moved = "\n[[workload.moves]]\nat = \"600h\"\nworker = 0\ncluster = 1\n[schedule]";
    for text in [&text, &text.replace("\n[schedule]", moved)] {
        let cut = simulate(&format!("{text}[capture]\nuntil = \"{until}ps\"\n")).1;
        assert_eq!((cut.cut, cut.counters.end_ps), (true, until));
        assert!(cut.counters.acks_received < whole.counters.acks_received);
    }
}

/// A run to a goal ends when it is reached, as one that `capture.until` ends there: many acknowledgements are under way.
#[test]
fn acknowledgements_after_the_goal_do_not_arrive() {
    let text = RETRANSMIT
        .replace("\"retransmit\"\ntimeout = \"8us\"", "\"open_loop\"")
        .replace("delay = \"1us\"", "delay = \"170us\"")
        .replace("slots = 2", "slots = 3000");
    let goal = simulate(&format!("{text}[capture]\ngoal = 150\n")).1;
    let cut = simulate(&format!("{text}[capture]\nuntil = \"{}ps\"\n", goal.counters.end_ps)).1;
    assert_eq!((goal.goal_reached, cut.cut, cut.counters.acks_received > 0), (true, true, true));
    assert_eq!(goal.counters.acks_received, cut.counters.acks_received);
}

#[test]
fn timeouts_and_goals_without_sense_are_refused() {
    for (text, part) in [
        (RETRANSMIT.replace("timeout = \"8us\"", "timeout_rtts = 1e300"), "26 days"),
        (RETRANSMIT.replace("timeout = \"8us\"", "timeout = \"0us\""), "above 0"),
        (RETRANSMIT.replace("timeout = \"8us\"", "timeout = \"8us\"\ntimeout_rtts = 2.0"), "both given"),
        // Lanes are in updates: larger frames beside them give no room.
        (
            RETRANSMIT.replace("bytes = \"2048bit\"", "bytes = \"76B\"\nbackground_rate = \"1kbps\"")
                + "[format]\nlanes = true\n",
            "packet has 1 gradients",
        ),
        (
            "[workload]\nkind = \"background\"\n[schedule]\noffered = \"1Gbps\"\n[capture]\ngoal = 5\n".to_owned(),
            "capture.goal",
        ),
    ] {
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        let message = experiment.plan(&experiment.runs[0]).err().unwrap().to_string();
        assert!(message.contains(part), "{message}");
    }
}
