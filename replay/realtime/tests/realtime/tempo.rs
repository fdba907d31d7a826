//! A long run in virtual time keeps the times of its schedule from the first update to the last.

use std::sync::atomic::AtomicBool;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Book, Received, Sent};
use pktgen_core::time::{SECOND, Time};
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_engine::recorder::Recorder;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_workload::trace::Writer;
use pktgen_workload::workload::Update;

/// Times of what was sent (generated, due, out) and received.
#[derive(Default)]
struct Times {
    sent: Vec<[Option<Time>; 3]>,
    received: Vec<Time>,
}

impl Recorder for Times {
    fn sent(&mut self, row: &Sent) -> Result<()> {
        self.sent.push([Some(row.t_gen), Some(row.t_due), row.t_sent]);
        Ok(())
    }
    fn book(&mut self, _: &Book) -> Result<()> {
        Ok(())
    }
    fn received(&mut self, row: &Received, _: &[u8]) -> Result<()> {
        self.received.push(row.t_recv);
        Ok(())
    }
}

#[test]
fn ten_hours_at_one_packet_per_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut writer = Writer::create(&path).unwrap();
    for seq in 0..9_000u32 {
        // A recording in microseconds that starts at an arbitrary time.
        let t_gen = 987_654_321 + Time::from(seq) * 1_000_000;
        let update = Update { t_gen, cluster: 0, worker: 0, seq, bytes: 256, reward: Some(1.0), iteration: None };
        writer.push(&update, &[]).unwrap();
    }
    writer.finish("test", Default::default(), "CC0-1.0").unwrap();
    // Two files, twice.
    let text = format!(
        "[workload]\ntrace = [\"{0}\", \"{0}\"]\nrepeat = 2\n[schedule]\npps = 1\n[topology]\nrate = \"10Gbps\"\n",
        path.display()
    );
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut times = Times::default();
    Simulation::new(plan.parts).run(plan.spec.capture.until, &AtomicBool::new(false), &mut times, &mut |_| {}).unwrap();
    assert_eq!((times.sent.len(), times.received.len()), (36_000, 36_000), "ten hours");
    for (i, row) in (0..).zip(&times.sent) {
        assert_eq!(*row, [Some(i * SECOND); 3], "update {i}");
    }
    let way = times.received[0];
    assert!((1..SECOND / 1000).contains(&way), "{way}");
    assert!(times.received.iter().zip(0..).all(|(t, i)| *t == i * SECOND + way), "every way is as long");
}
