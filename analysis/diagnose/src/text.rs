//! Formats a diagnosis as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{CAUSES, Diagnosis};

/// Maximum number of causes in the text.
const SHOWN: usize = 5;

fn seconds(ps: i64) -> String {
    match ps.abs() {
        0..1_000_000 => format!("{:.1} ns", ps as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} µs", ps as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} ms", ps as f64 / 1e9),
        _ => format!("{:.2} s", ps as f64 / 1e12),
    }
}

/// Formats the diagnosis as lines of text.
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(match diagnosis.answer() {
        crate::Conclusion::Healthy => "nothing is wrong".into(),
        crate::Conclusion::Found => format!("cause: {}", diagnosis.causes[0].cause.code),
        crate::Conclusion::CannotTell if diagnosis.causes.is_empty() && diagnosis.symptoms.is_empty() => {
            "cannot tell: nothing wrong was found, and what follows is undecided".into()
        }
        crate::Conclusion::CannotTell => "cannot tell".into(),
    });
    for caution in &diagnosis.cautions {
        let open = caution.open.map_or(String::new(), |open| format!("; undecided: {open}"));
        line(format!("caution    {}: {}{open}", caution.code, caution.text));
    }
    for symptom in &diagnosis.symptoms {
        line(format!("symptom    {}: {}", symptom.code, symptom.text));
    }
    for (rank, found) in diagnosis.causes.iter().take(SHOWN).enumerate() {
        let cause = found.cause;
        line(format!(
            "\n{}. {} ({}, {}{}): {}",
            rank + 1,
            cause.code,
            cause.place.name(),
            found.certainty.name(),
            if found.explains > 0 { format!(", explains {}", found.explains) } else { String::new() },
            cause.what
        ));
        for proof in &found.proofs {
            let packet = proof.packet.map_or(String::new(), |packet| format!(", packet {packet}"));
            line(format!("   {}{packet}: {}", proof.at, proof.says));
        }
        line(format!("   remedy: {}", cause.remedy));
    }
    for unknown in &diagnosis.unknown {
        line(format!("\nunknown    {unknown}"));
    }
    if let Some(breakdown) = &diagnosis.breakdown {
        let what = if breakdown.results { "the results of " } else { "" };
        line(format!("\n{what}{} updates came after {} in the mean:", breakdown.updates, seconds(breakdown.mean_ps)));
        for part in &breakdown.parts {
            let own = match (part.mean_ps, part.share_ppm) {
                (Some(mean), Some(share)) => format!("{:>10} {:>6.2} %", seconds(mean), f64::from(share) / 1e4),
                (Some(mean), None) => format!("{:>10}{:9}", seconds(mean), ""),
                (None, _) => format!("{:>19}", "within the device's"),
            };
            line(format!("   {:<8} {own}   {}", part.place.name(), part.about));
        }
        let ended: Vec<_> = breakdown.ended.iter().map(|(place, n)| format!("{} {n}", place.name())).collect();
        let came = match breakdown.partial {
            0 => format!("came {}", breakdown.came),
            partial => format!("came {}, of partial results {partial} (some of these are in them)", breakdown.came),
        };
        line(format!("   transmissions: {came}, ended at {}", ended.join(", ")));
    }
    out
}

/// Formats the diagnosis as one JSON object.
pub fn json(diagnosis: &Diagnosis) -> Value {
    let causes: Vec<_> = diagnosis
        .causes
        .iter()
        .map(|found| {
            json!({
                "code": found.cause.code,
                "place": found.cause.place,
                "certainty": found.certainty,
                "explains": found.explains,
                "what": found.cause.what,
                "evidence": found.proofs,
                "remedy": found.cause.remedy,
            })
        })
        .collect();
    json!({
        "answer": diagnosis.answer().name(),
        "cautions": diagnosis.cautions,
        "symptoms": diagnosis.symptoms,
        "causes": causes,
        "unknown": diagnosis.unknown,
        "breakdown": diagnosis.breakdown,
    })
}

/// Formats all causes: the table of docs/diagnose.md.
pub fn list() -> String {
    let mut out = String::from("| code | where | what | proof |\n| --- | --- | --- | --- |\n");
    for cause in CAUSES {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", cause.code, cause.place.name(), cause.what, cause.proof);
    }
    out
}
