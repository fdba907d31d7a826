//! Activity of each queue of an end in real time, if an end has several (`transport.queues`).

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_core::record::QueueCounts;
use pktgen_core::registry::Named;

use super::Metric;
use crate::line::{Line, NS, PACKETS};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Queues;

const END: Label = Label::one_of("end", &["workers", "device.down", "server"], "end of a cable");
const QUEUE: Label = Label::new("id", "number of the queue");

const fn of(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).labels(&[END, QUEUE]).needs("transport.queues above 1")
}

const DEFINITIONS: [Definition; 5] = [
    of("queue_sent", PACKETS, Better::Neither, "Frames sent by this queue; the sum over queues is what the end sent."),
    of(
        "queue_received",
        PACKETS,
        Better::Neither,
        "Frames received by this queue; the sum over queues is what the end received.",
    ),
    of("queue_dropped", PACKETS, Better::Lower, "Frames lost by this queue, on sending or before they were read."),
    of(
        "queue_full_waits",
        "times",
        Better::Lower,
        "How often this queue accepted no frame, or found the next buffer full.",
    ),
    of("queue_late_p99", NS, Better::Lower, "99th percentile of the lateness of frames sent by this queue.")
        .timed(Timing::OneClock),
];

impl Named for Queues {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn about(&self) -> &'static str {
        "real time with several queues: sent, received and lost frames, and lateness, per queue"
    }
}

impl Metric for Queues {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let mut lines = |metric, unit, value: &dyn Fn(&QueueCounts) -> Option<u64>| {
            for queue in &run.manifest.queues {
                let line = |value| {
                    Line::new(metric, unit, value as f64).with("end", queue.end.as_str()).with("id", queue.queue)
                };
                out.extend(value(queue).map(line));
            }
        };
        lines("queue_sent", PACKETS, &|queue| Some(queue.sent));
        lines("queue_received", PACKETS, &|queue| Some(queue.received));
        lines("queue_dropped", PACKETS, &|queue| Some(queue.dropped));
        lines("queue_full_waits", "times", &|queue| Some(queue.full_waits));
        lines("queue_late_p99", NS, &|queue| queue.late_ns.map(|[_, late, _]| late));
        Ok(())
    }
}
