//! The answers to the twenty questions, computed by loops over the decoded files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pktgen_core::arrow::array::{Array, AsArray};
use pktgen_core::arrow::datatypes::{DataType, Float32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::record::{PacketId, Reason};
use pktgen_records::batches::Batches;
use pktgen_records::fates::Fate;
use pktgen_records::model::Fates;
use pktgen_records::run::{Records, RunData};
use pktgen_records::{Line, analyze_run};
use serde_json::{Value, json};

type Rows = Vec<Vec<Value>>;

/// One function per question, in their order.
pub(super) const ANSWERS: [fn(&Path) -> Rows; 20] = [
    fates, drops, losses, latency, slowest, histogram, bytes, ages, silences, fewest, waits, aggregates, hesitant,
    variants, oldest, reasons, withheld, iterations, results, blocks,
];

/// A stream, with its columns as numbers.
struct Stream(BTreeMap<String, Vec<Option<f64>>>, BTreeMap<String, Vec<Option<i128>>>);

impl Stream {
    fn read(dir: &Path, name: &str) -> Stream {
        let mut batches = Batches::open(&dir.join(format!("{name}.parquet"))).expect("a stream");
        let mut stream = Stream(BTreeMap::new(), BTreeMap::new());
        while let Some(batch) = batches.next_batch().expect("whole") {
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                let whole = stream.1.entry(field.name().clone()).or_default();
                macro_rules! numbers {
                    ($kind:ty) => {
                        whole.extend(array.as_primitive::<$kind>().iter().map(|cell| cell.map(i128::from)))
                    };
                }
                match array.data_type() {
                    DataType::Int64 => numbers!(Int64Type),
                    DataType::UInt64 => numbers!(UInt64Type),
                    DataType::UInt32 => numbers!(UInt32Type),
                    DataType::UInt16 => numbers!(UInt16Type),
                    DataType::UInt8 => numbers!(UInt8Type),
                    DataType::Boolean => whole.extend(array.as_boolean().iter().map(|cell| cell.map(i128::from))),
                    DataType::Float32 => {
                        let cells = array.as_primitive::<Float32Type>().iter().map(|cell| cell.map(f64::from));
                        stream.0.entry(field.name().clone()).or_default().extend(cells);
                    }
                    other => panic!("{other}"),
                }
            }
        }
        stream
    }

    fn maybe(&self, name: &str) -> &[Option<i128>] {
        &self.1[name]
    }

    fn of(&self, name: &str) -> Vec<i128> {
        self.maybe(name).iter().map(|cell| cell.expect("no empty cell")).collect()
    }
}

fn mean(values: &[i128]) -> f64 {
    values.iter().sum::<i128>() as f64 / values.len() as f64
}

fn whole(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value))
}

/// The records of a run, resolved by the simple model.
struct Resolved {
    records: Records,
    fates: Fates,
}

fn resolved(dir: &Path) -> Resolved {
    let run = RunData::open(dir).expect("a run");
    let records = run.records.as_ref().expect("full records").whole().expect("readable");
    let fates = Fates::resolve(&records);
    Resolved { records: (*records).clone(), fates }
}

fn name_of(fate: Fate) -> &'static str {
    match fate {
        Fate::Withheld => "withheld",
        Fate::InFlight => "in_flight",
        Fate::DeliveredAlone => "delivered_alone",
        Fate::DeliveredMerged => "delivered_merged",
        Fate::Subsumed => "subsumed",
        Fate::Outranked => "outranked",
        Fate::Dropped(_) => "dropped",
        Fate::Unaccounted => "unaccounted",
    }
}

/// Groups values by key.
fn groups<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    pairs.into_iter().for_each(|(key, value)| groups.entry(key).or_default().push(value));
    groups
}

fn fates(dir: &Path) -> Rows {
    let all = groups(resolved(dir).fates.fate.into_iter().map(|fate| (name_of(fate), ())));
    all.into_iter().map(|(fate, updates)| vec![json!(fate), json!(updates.len())]).collect()
}

fn drops(dir: &Path) -> Rows {
    let books = Stream::read(dir, "books");
    let reason = |code: Option<i128>| Reason::NAMES[code.expect("a reason") as usize];
    let rows = books.of("action").into_iter().zip(books.of("node")).zip(books.maybe("reason"));
    let dropped = rows.filter(|((action, _), _)| *action == 4);
    let all = groups(dropped.map(|((_, node), code)| ((node, reason(*code)), ())));
    all.into_iter().map(|((node, reason), drops)| vec![whole(node), json!(reason), json!(drops.len())]).collect()
}

fn losses(dir: &Path) -> Rows {
    let resolved = resolved(dir);
    let sent = resolved.records.sent.cluster.iter().zip(&resolved.fates.fate);
    let sent = sent.filter(|(_, fate)| **fate != Fate::Withheld);
    let all = groups(sent.map(|(cluster, fate)| (*cluster, i128::from(matches!(fate, Fate::Dropped(_))))));
    all.into_iter().map(|(cluster, dropped)| vec![json!(cluster), json!(mean(&dropped))]).collect()
}

/// Returns the packets at the server, with the time since they were sent.
fn latencies(dir: &Path) -> Vec<(i128, i128)> {
    let (sent, received) = (Stream::read(dir, "sent"), Stream::read(dir, "received"));
    let names = sent.of("worker").into_iter().zip(sent.of("seq")).zip(sent.of("attempt"));
    let names = names.map(|((worker, seq), attempt)| worker << 40 | attempt << 32 | seq);
    let times: BTreeMap<i128, Option<i128>> = names.zip(sent.maybe("t_sent_ps").iter().copied()).collect();
    let packets = received.of("packet").into_iter().zip(received.of("t_recv_ps"));
    packets.filter_map(|(packet, t)| Some((packet, t - (*times.get(&packet)?)?))).collect()
}

fn latency(dir: &Path) -> Rows {
    let mut all: Vec<i128> = latencies(dir).into_iter().map(|(_, ps)| ps).collect();
    all.sort_unstable();
    let mean = mean(&all) / 1000.0;
    // The metric has the same value.
    let line = line(dir, "host_latency_mean");
    assert!((line.value.expect("a value") - mean).abs() < 1e-9 * mean, "{line:?} and {mean}");
    let p99 = all[(all.len() as f64 * 0.99).ceil() as usize - 1];
    vec![vec![json!(mean), json!(p99 as f64 / 1000.0)]]
}

fn line(dir: &Path, metric: &str) -> Line {
    let lines = analyze_run(dir).expect("a run").lines;
    lines.into_iter().find(|line| line.key().as_deref() == Some(metric)).expect("the metric")
}

fn slowest(dir: &Path) -> Rows {
    let mut all = latencies(dir);
    all.sort_by_key(|(packet, ps)| (-ps, *packet));
    let row = |(packet, ps): &(i128, i128)| {
        let id = PacketId(*packet as u64);
        vec![whole(*packet), json!(id.worker()), json!(id.seq()), whole(*ps)]
    };
    all[..5].iter().map(row).collect()
}

fn histogram(dir: &Path) -> Rows {
    let lines = analyze_run(dir).expect("a run").lines;
    let bins = lines.iter().filter(|line| line.metric == "aggregation_count");
    bins.map(|line| vec![line.labels["n"].clone(), json!(line.value.expect("a value") as u64)]).collect()
}

fn bytes(dir: &Path) -> Rows {
    let received = Stream::read(dir, "received");
    let windows = received.of("t_recv_ps").into_iter().map(|t| t / 500_000_000_000);
    let all = groups(windows.zip(received.of("bytes")));
    all.into_iter().map(|(window, bytes)| vec![whole(window), whole(bytes.iter().sum())]).collect()
}

fn ages(dir: &Path) -> Rows {
    let received = Stream::read(dir, "received");
    let ages = received.of("t_recv_ps").into_iter().zip(received.of("newest_gen_ps")).map(|(t, gen_ps)| t - gen_ps);
    let all = groups(received.of("cluster").into_iter().zip(ages));
    let least = |ages: &[i128]| *ages.iter().min().expect("an age") as f64 / 1e9;
    all.into_iter().map(|(cluster, ages)| vec![whole(cluster), json!(least(&ages)), json!(mean(&ages) / 1e9)]).collect()
}

fn silences(dir: &Path) -> Rows {
    let received = Stream::read(dir, "received");
    let mut all: Vec<(i128, i128)> = Vec::new();
    for (cluster, mut times) in groups(received.of("cluster").into_iter().zip(received.of("t_recv_ps"))) {
        times.sort_unstable();
        all.push((-times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two deliveries"), cluster));
    }
    all.sort_unstable();
    all[..3].iter().map(|(gap, cluster)| vec![whole(*cluster), whole(-gap)]).collect()
}

fn fewest(dir: &Path) -> Rows {
    let resolved = resolved(dir);
    let is_delivered = |fate: &Fate| i128::from(matches!(fate, Fate::DeliveredAlone | Fate::DeliveredMerged));
    let all = groups(resolved.records.sent.worker.iter().zip(resolved.fates.fate.iter().map(is_delivered)));
    let mut all: Vec<(i128, u32)> = all.into_iter().map(|(worker, of)| (of.iter().sum(), *worker)).collect();
    all.sort_unstable();
    all[..3].iter().map(|(delivered, worker)| vec![json!(worker), whole(*delivered)]).collect()
}

fn waits(dir: &Path) -> Rows {
    let books = Stream::read(dir, "books");
    let (times, nodes, packets) = (books.of("t_ps"), books.of("node"), books.of("packet_in"));
    let (mut queued, mut waits) = (BTreeMap::new(), Vec::new());
    for (row, action) in books.of("action").into_iter().enumerate() {
        let here = (nodes[row], packets[row]);
        match action {
            0 => _ = queued.insert(here, times[row]),
            5 => waits.extend(queued.get(&here).map(|since| (nodes[row], times[row] - since))),
            _ => {}
        }
    }
    groups(waits).into_iter().map(|(node, of)| vec![whole(node), json!(of.len()), json!(mean(&of))]).collect()
}

fn aggregates(dir: &Path) -> Rows {
    let resolved = resolved(dir);
    let received = &resolved.records.received;
    let mut all: Vec<(usize, u64, usize)> = Vec::new();
    for (row, bounds) in resolved.fates.member_start.windows(2).enumerate() {
        let members = &resolved.fates.members[bounds[0]..bounds[1]];
        assert_eq!(members.len(), usize::from(received.count[row]), "what a packet says of itself");
        let workers: BTreeSet<u32> = members.iter().map(|row| resolved.records.sent.worker[*row as usize]).collect();
        all.push((members.len(), received.packet[row], workers.len()));
    }
    all.sort_by_key(|(updates, packet, _)| (std::cmp::Reverse(*updates), *packet));
    all[..3].iter().map(|(updates, packet, workers)| vec![json!(packet), json!(updates), json!(workers)]).collect()
}

fn hesitant(dir: &Path) -> Rows {
    let states = Stream::read(dir, "states");
    let known = states.of("worker").into_iter().zip(&states.0["p_send"]);
    let all = groups(known.filter_map(|(worker, p)| Some((worker, (*p)?))));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let mut all: Vec<(f64, i128, usize)> = all.into_iter().map(|(worker, of)| (mean(&of), worker, of.len())).collect();
    all.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    all[..3].iter().map(|(p, worker, decisions)| vec![whole(*worker), json!(decisions), json!(p)]).collect()
}

/// Returns the runs of a sweep by their folders' names.
fn runs(sweep: &Path) -> Vec<(String, PathBuf)> {
    let folders = std::fs::read_dir(sweep).expect("a sweep").map(|entry| entry.expect("an entry").path());
    let mut runs: Vec<_> = folders
        .filter(|path| path.is_dir())
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    runs.sort();
    runs
}

fn variant(run: &str) -> String {
    run.split(',').next().expect("a variant").to_owned()
}

fn variants(sweep: &Path) -> Rows {
    let loss = |dir: &Path| line(dir, "loss").value.expect("a value");
    let all = groups(runs(sweep).into_iter().map(|(run, dir)| (variant(&run), loss(&dir))));
    let mut all: Vec<(f64, String)> =
        all.into_iter().map(|(variant, of)| (of.iter().sum::<f64>() / of.len() as f64, variant)).collect();
    all.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    all.into_iter().map(|(loss, variant)| vec![json!(variant), json!(loss)]).collect()
}

fn oldest(sweep: &Path) -> Rows {
    let ages = runs(sweep).into_iter().map(|(run, dir)| (line(&dir, "aom_mean/cluster").value.expect("a value"), run));
    let (age, run) = ages.max_by(|a, b| a.partial_cmp(b).expect("numbers")).expect("a run");
    vec![vec![json!(run), json!(age), json!("ns")]]
}

fn reasons(sweep: &Path) -> Rows {
    let mut all: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for (run, dir) in runs(sweep) {
        let books = Stream::read(&dir, "books");
        for code in books.maybe("reason").iter().flatten() {
            *all.entry((variant(&run), Reason::NAMES[*code as usize])).or_default() += 1;
        }
    }
    all.into_iter().map(|((variant, reason), drops)| vec![json!(variant), json!(reason), json!(drops)]).collect()
}

fn withheld(sweep: &Path) -> Rows {
    let row = |(run, dir): (String, PathBuf)| {
        let sent = Stream::read(&dir, "sent");
        vec![json!(run), json!(true), json!(sent.maybe("t_sent_ps").iter().filter(|t| t.is_none()).count())]
    };
    runs(sweep).into_iter().map(row).collect()
}

fn iterations(dir: &Path) -> Rows {
    let rows = Stream::read(dir, "iterations");
    let times = rows.of("t_start_ps").into_iter().zip(rows.of("t_end_ps"));
    let mut means = Vec::new();
    for (worker, of) in groups(rows.of("worker").into_iter().zip(times)) {
        let (first, last) = (of.iter().map(|(start, _)| start).min(), of.iter().map(|(_, end)| end).max());
        let span = last.expect("an iteration") - first.expect("an iteration");
        means.push((worker, span as f64 / of.len() as f64 / 1000.0));
    }
    let mean = means.iter().map(|(_, mean)| mean).sum::<f64>() / means.len() as f64;
    let line = line(dir, "iteration_time_mean");
    assert!((line.value.expect("a value") - mean).abs() < 1e-9 * mean, "{line:?} and {mean}");
    means.into_iter().map(|(worker, mean)| vec![whole(worker), json!(mean)]).collect()
}

fn results(dir: &Path) -> Rows {
    let rows = Stream::read(dir, "results");
    let (degraded, again, received) = (rows.of("degraded"), rows.of("again"), rows.of("t_recv_ps"));
    let mut latencies = Vec::new();
    for (row, sent) in rows.maybe("t_sent_ps").iter().enumerate() {
        if let (Some(sent), 0, 0) = (sent, degraded[row], again[row]) {
            latencies.push(received[row] - sent);
        }
    }
    let mean = mean(&latencies) / 1000.0;
    let line = line(dir, "result_latency_mean");
    assert!((line.value.expect("a value") - mean).abs() < 1e-9 * mean, "{line:?} and {mean}");
    vec![vec![json!(mean), whole(degraded.iter().sum()), json!(degraded.len())]]
}

fn blocks(dir: &Path) -> Rows {
    let rows = Stream::read(dir, "results");
    let times = rows.of("t_recv_ps").into_iter().zip(rows.maybe("t_sent_ps").iter().copied());
    let mut all = Vec::new();
    for (seq, of) in groups(rows.of("seq").into_iter().zip(times)) {
        let last = of.iter().map(|(received, _)| *received).max().expect("a result");
        let first = of.iter().filter_map(|(_, sent)| *sent).min().expect("a contribution");
        all.push((first - last, seq));
    }
    all.sort_unstable();
    all[..3].iter().map(|(ps, seq)| vec![whole(*seq), whole(-ps)]).collect()
}
