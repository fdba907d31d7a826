//! Constructs synchronous training for tests: iterations and results of a [`Story`].

use pktgen_core::record::{Iteration, Training};
use polars::prelude::*;

use crate::rounds::{IterationColumns, ResultColumns};
use crate::testing::Story;

const US: i64 = 1_000_000;

/// Two workers of one job with two iterations of two blocks. Worker 1 is too late for a block in each, and misses the
/// second iteration completely, beginning it long after its first. Times in rows are in microseconds.
pub fn training() -> Story {
    let mut story = Story::new();
    story.training = Some(Training {
        model: "by hand".to_owned(),
        jobs: 1,
        workers: 2,
        iterations: 2,
        blocks: 2,
        elements: 2999,
        ideal_ps: 8 * US,
        timeout_ps: Some(2 * US),
        iterations_to_target: Some(100),
        ..Default::default()
    });
    story.iterates(0, [0, 6, 10, 0], [2, 0, 1, 3]).iterates(0, [10, 20, 26, 4], [1, 1, 1, 3]);
    story.iterates(1, [0, 9, 11, 5], [2, 0, 1, 3]).iterates(1, [30, 30, 30, 0], [0, 2, 1, 3]);
    story.rounds.iterations.missed[3] = true;
    for (t, sent, degraded, again) in [
        (7, Some(6), false, false),
        (9, Some(6), false, false),
        (10, Some(6), true, false),
        (12, Some(9), true, false),
        // The worker had not sent; then further results of blocks.
        (13, None, true, false),
        (14, Some(6), true, true),
        (15, Some(6), false, true),
    ] {
        story.result(t * US, sent.map(|t| t * US), degraded, again);
    }
    for (worker, seq) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        story.sent_seq(worker, seq, 0, Some(6 * US), 0);
    }
    story.merged_seq(7 * US, 1, 0, 0).received_seq(8 * US, 0, 0, 0, 2);
    story.received_seq(9 * US, 0, 1, 0, 1).dropped_seq(12 * US, 1, 1);
    story
}

impl Story {
    /// Adds an iteration of a worker of job 0: start, ready, end and delay in microseconds; blocks sent and skipped,
    /// degraded results, and sources.
    pub fn iterates(&mut self, worker: u32, times_us: [i64; 4], counts: [u32; 4]) -> &mut Story {
        let [t_start, t_ready, t_end, delay] = times_us.map(|t| t * US);
        let [sent, skipped, degraded, sources] = counts;
        let (job, iteration, sources, missed) = (0, 0, u64::from(sources), false);
        self.iteration(Iteration {
            t_start,
            t_ready,
            t_end,
            delay,
            worker,
            job,
            iteration,
            sent,
            skipped,
            degraded,
            sources,
            elements: 0,
            missed,
        })
    }

    /// Adds a finished iteration of synchronous training.
    pub fn iteration(&mut self, row: Iteration) -> &mut Story {
        let rows = &mut self.rounds.iterations;
        rows.t_start_ps.push(row.t_start);
        rows.t_ready_ps.push(row.t_ready);
        rows.t_end_ps.push(row.t_end);
        rows.delay_ps.push(row.delay);
        rows.worker.push(row.worker);
        rows.job.push(row.job);
        rows.sent.push(row.sent);
        rows.skipped.push(row.skipped);
        rows.degraded.push(row.degraded);
        rows.sources.push(row.sources);
        rows.elements.push(row.elements);
        rows.missed.push(row.missed);
        self
    }

    /// Adds a result for a worker that had sent at `sent`; `degraded` if it lacks sources, `again` if it is a further result of its block.
    pub fn result(&mut self, t: i64, sent: Option<i64>, degraded: bool, again: bool) -> &mut Story {
        let results = self.rounds.results.get_or_insert_default();
        results.t_recv_ps.push(t);
        results.t_sent_ps.push(sent);
        results.degraded.push(degraded);
        results.again.push(again);
        self
    }
}

pub(crate) fn iteration_columns(rows: &IterationColumns) -> Vec<Column> {
    vec![
        Column::new("t_start_ps".into(), &rows.t_start_ps),
        Column::new("t_ready_ps".into(), &rows.t_ready_ps),
        Column::new("t_end_ps".into(), &rows.t_end_ps),
        Column::new("delay_ps".into(), &rows.delay_ps),
        Column::new("worker".into(), &rows.worker),
        Column::new("job".into(), &rows.job),
        Column::new("sent".into(), &rows.sent),
        Column::new("skipped".into(), &rows.skipped),
        Column::new("degraded".into(), &rows.degraded),
        Column::new("sources".into(), &rows.sources),
        Column::new("elements".into(), &rows.elements),
        Column::new("missed".into(), &rows.missed),
    ]
}

pub(crate) fn result_columns(results: &ResultColumns) -> Vec<Column> {
    vec![
        Column::new("t_recv_ps".into(), &results.t_recv_ps),
        Column::new("t_sent_ps".into(), &results.t_sent_ps),
        Column::new("degraded".into(), &results.degraded),
        Column::new("again".into(), &results.again),
    ]
}
