//! Performance clauses: updates with a paced schedule (docs/certify.md, "Performance").

use super::{BASE, few};
use pktgen_engine::clause::{Clause, LoadMeasure};

/// Common parts of these clauses.
const LOADED: Clause = Clause {
    precondition: "a server; one worker of each cluster sends, so that none share",
    exempt: |ground| few(ground, 1, 1),
    observation: "the server's port, until all has left, or the trial is over and its wait",
    error: "a rate whose losses differ from trial to trial is judged by RFC 9971's goal",
    repeats: 1,
    ..BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-throughput",
        title: "the highest rate without loss",
        rule: "Updates per second of which no more than certify.loss fail to leave unmerged, in all trials but a share certify.exceed of their time (RFC 9971).",
        stimulus: "trials of certify.trial, paced; rates double from certify.from until one fails, then the gap is halved",
        oracle: "every update as it was sent; goal: certify.throughput",
        measure: Some(LoadMeasure::Throughput),
        ..LOADED
    },
    Clause {
        id: "olaf-back-to-back",
        title: "the longest burst without loss",
        rule: "Updates of as many clusters at once that all leave (RFC 9004).",
        stimulus: "bursts as fast as the bench sends; their length is halved between one that passed and one that did not",
        oracle: "every update as it was sent; goal: certify.burst, of the shortest",
        repeats: 50,
        error: "the standard deviation over the repeats is stated",
        measure: Some(LoadMeasure::Burst),
        ..LOADED
    },
    Clause {
        id: "olaf-latency",
        title: "latency under load",
        rule: "The time that an update needs, at 10, 50 and 90 % of the throughput (RFC 2544, 26.2).",
        precondition: "olaf-throughput was measured in the same certificate",
        stimulus: "trials of certify.trial, paced",
        oracle: "every update as it was sent; goal: certify.latency, of the 99th percentile at 50 %",
        repeats: 20,
        error: "quantiles are by nearest rank; of more than 262,144 times of a trial an even share counts",
        measure: Some(LoadMeasure::Latency),
        ..LOADED
    },
    Clause {
        id: "olaf-recovery",
        title: "recovery from an overload",
        rule: "The time from the end of an overload to the last update that does not leave (RFC 2544, 26.5).",
        precondition: "olaf-throughput was measured in the same certificate",
        stimulus: "110 % of the throughput for certify.trial, then 50 %",
        oracle: "every update as it was sent; goal: certify.recovery, of the longest",
        repeats: 20,
        error: "the longest of the repeats is stated",
        measure: Some(LoadMeasure::Overload),
        ..LOADED
    },
    Clause {
        id: "olaf-sharing",
        title: "what becomes of updates of clusters that share",
        rule: "Shares of the updates that left unmerged, left merged, were replaced, and were lost: a rate without loss does not exist here.",
        precondition: "two workers in each cluster; olaf-throughput was measured in the same certificate",
        exempt: |ground| few(ground, 1, 2),
        stimulus: "all workers in turn, in a random order, at 150 % of the throughput, for certify.trial",
        oracle: "gradients that say which updates a packet holds",
        error: "replaced and lost are told apart where the order of what left shows it, else counted as replaced_or_lost",
        measure: Some(LoadMeasure::Sharing),
        ..LOADED
    },
    Clause {
        id: "olaf-age",
        title: "age against rate",
        rule: "Age-of-Model of the clusters at 10, 50, 100, 150 and 200 % of the throughput: what aggregation is for (§1).",
        precondition: "olaf-throughput was measured in the same certificate",
        stimulus: "trials of certify.trial, paced; all workers in turn, in a random order",
        oracle: "a packet is as old as its newest update was when it was sent; from a cluster's first update to the end of the schedule",
        repeats: 3,
        error: "means over the repeats are stated",
        measure: Some(LoadMeasure::Age),
        ..LOADED
    },
];
