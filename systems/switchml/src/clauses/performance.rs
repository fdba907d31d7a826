//! Performance clauses: a paced closed loop (docs/certify.md, "Performance").

use pktgen_engine::clause::{Clause, LoadMeasure, ProbeGround};

/// Common parts of these clauses.
const LOADED: Clause = Clause {
    observation: "all ports, until all has come back, or the trial is over and its wait",
    error: "a rate whose losses differ from trial to trial is judged by RFC 9971's goal",
    repeats: 1,
    ..Clause::BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-throughput",
        title: "the highest rate without loss",
        rule: "Contributions per second of which no more are lost than certify.loss, in all trials but a share certify.exceed of their time (RFC 9971).",
        stimulus: "trials of certify.trial, paced; rates double from certify.from until one fails, then the gap is halved",
        oracle: "every sum; goal: certify.throughput",
        measure: Some(LoadMeasure::Throughput),
        ..LOADED
    },
    Clause {
        id: "switchml-back-to-back",
        title: "the longest burst without loss",
        rule: "Contributions that all workers send at once, packet by packet, and that all come back in right sums (RFC 9004).",
        stimulus: "bursts as fast as the bench sends; their length is halved between one that passed and one that did not",
        oracle: "every sum; goal: certify.burst, of the shortest",
        repeats: 50,
        error: "the standard deviation over the repeats is stated",
        measure: Some(LoadMeasure::Burst),
        ..LOADED
    },
    Clause {
        id: "switchml-latency",
        title: "latency under load",
        rule: "The time from the last contribution of a sum to its arrival at each worker, at 10, 50 and 90 % of the throughput (RFC 2544, 26.2).",
        precondition: "switchml-throughput was measured in the same certificate",
        stimulus: "trials of certify.trial, paced",
        oracle: "every sum; goal: certify.latency, of the 99th percentile at 50 %",
        repeats: 20,
        error: "quantiles are by nearest rank; of more than 262,144 times of a trial an even share counts",
        measure: Some(LoadMeasure::Latency),
        ..LOADED
    },
    Clause {
        id: "switchml-recovery",
        title: "recovery of lost results",
        rule: "The time in which all workers get a window of results again that they lost, when all ask at once.",
        stimulus: "a window of contributions, whose results are thrown away; all of them again, as fast as the bench sends",
        oracle: "every sum, once at each worker; goal: certify.recovery, of the longest",
        repeats: 20,
        error: "the longest of the repeats is stated",
        measure: Some(LoadMeasure::Repeats),
        ..LOADED
    },
    Clause {
        id: "switchml-isolation",
        title: "what another job costs",
        rule: "Losses and latency of the first job at 50 % of the throughput, alone and while the second job offers twice the throughput.",
        precondition: "two jobs; switchml-throughput was measured in the same certificate",
        exempt: ProbeGround::one_job,
        stimulus: "trials of certify.trial, paced, without and with the second job",
        oracle: "every sum of the first job",
        error: "one trial each: a difference is what it is in these two",
        measure: Some(LoadMeasure::Isolation),
        ..LOADED
    },
];
