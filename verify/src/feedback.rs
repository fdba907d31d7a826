//! Transmission control (§5) in the model: which ACK a worker received last, its contents, and whether the worker must send.
//!
//! Used by [`super::encode`] if congestion is possible (Qmax < F). The ACK of a queue entry is stamped on its way back with N, the number
//! of clusters with an arrival by then; a worker decides by the last ACK that reached it before the generation (timers come before
//! arrivals at equal times, design §2). P_s is that of the sending rule in `systems/olaf/src/workers.rs`.

use std::fmt::Write;

use super::bounds::Bounds;
use super::encode::{fold, number};
use super::setup::{Setup, Ticks};

/// Appends the constraints on `X`.
pub(super) fn write(out: &mut String, setup: &Setup, bounds: &Bounds) {
    let mut lines = Vec::new();
    for (v, cluster) in setup.clusters.iter().enumerate() {
        let asked: Vec<Vec<usize>> = (0..cluster.updates).map(|k| heard(setup, bounds, v, k)).collect();
        for j in 0..cluster.updates {
            if asked.iter().any(|by| by.contains(&j)) {
                lines.push(active(setup, v, j));
            }
        }
        for (k, by) in asked.iter().enumerate().skip(1) {
            // Without an ACK the worker is free; later ACKs override earlier ones.
            let mut must = "true".to_owned();
            for &j in by {
                must = format!("(ite (and E_{v}_{j} (< R_{v}_{j} G_{v}_{k})) {} {must})", certain(setup, v, j, k));
            }
            lines.push(format!("(assert (=> {must} X_{v}_{k}))"));
        }
    }
    for line in lines {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "{line}");
    }
}

/// Returns the entries of the cluster whose ACK may have arrived before update `k` was generated.
fn heard(setup: &Setup, bounds: &Bounds, v: usize, k: usize) -> Vec<usize> {
    let soonest = setup.inbound() + setup.outbound() + 2 * setup.ack_hop();
    (0..k).filter(|j| bounds.window[v][*j].0 + soonest < bounds.window[v][k].1).collect()
}

/// Defines `R`, the time at which the ACK of the entry is back, and `Q`, the N stamped into it.
fn active(setup: &Setup, v: usize, j: usize) -> String {
    let stamped = setup.outbound() + setup.ack_hop();
    let back = stamped + setup.ack_hop();
    let mut count = Vec::new();
    for (u, cluster) in setup.clusters.iter().enumerate() {
        let age = |i: usize| format!("(- (+ S_{v}_{j} {stamped}) A_{u}_{i})");
        let active = match setup.window {
            // Always active: the first update is always sent.
            None if u == v => "true".to_owned(),
            None => format!("(<= 0 {})", age(0)),
            Some(window) => {
                let recent = |i| format!("(and X_{u}_{i} (<= 0 {}) (< {} {window}))", age(i), age(i));
                fold("or", &(0..cluster.updates).map(recent).collect::<Vec<_>>(), "false")
            }
        };
        count.push(format!("(ite {active} 1 0)"));
    }
    format!(
        "(define-fun R_{v}_{j} () Int (+ S_{v}_{j} {back}))\n(define-fun Q_{v}_{j} () Int {})",
        fold("+", &count, "0")
    )
}

/// Returns the condition that P_s = 1 for update `k` by the ACK of entry `j`: for each N above Qmax, an age given by
/// the rule. P_s decreases as N grows, so "at most N active" may replace "N active".
fn certain(setup: &Setup, v: usize, j: usize, k: usize) -> String {
    let mut ways = vec![format!("(<= Q_{v}_{j} {})", setup.slots)];
    for active in setup.slots as usize + 1..=setup.clusters.len() {
        if let Some(age) = setup.certain_from(active as u16) {
            let age: Ticks = age;
            ways.push(format!("(and (<= Q_{v}_{j} {active}) (>= (- G_{v}_{k} R_{v}_{j}) {}))", number(age)));
        }
    }
    fold("or", &ways, "true")
}
