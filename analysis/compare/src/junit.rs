//! A comparison as JUnit XML, which continuous integration displays: a case per metric and point, and the rest as output.
//!
//! Called by [`super`].

use std::fmt::Write;

use pktgen_core::printable::printable;
use pktgen_records::human::title;

use super::text::{reasons, remarks};
use super::{Comparison, Judgement, Outcome};

/// Formats the whole document.
pub(super) fn page(comparison: &Comparison) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let cases = || comparison.versus.iter().flat_map(|versus| &versus.judgements);
    let failures = cases().filter(|one| fails(one)).count() + usize::from(!comparison.valid);
    let skipped = cases().filter(|one| one.outcome == Outcome::CannotTell).count();
    let counts =
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"", cases().count() + 1);
    let name = escape(&comparison.title);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<testsuites name=\"pktgen\" {counts}>\n<testsuite name=\"{name}\" {counts} time=\"0\">");
    let invalid = super::text::invalid(comparison);
    let fault = (!invalid.is_empty()).then(|| ("failure", "runs are invalid".to_owned(), invalid.join("\n")));
    case("pktgen", "every run is valid", fault, &mut out);
    for versus in &comparison.versus {
        let class = format!("{} against {}", versus.new, versus.old);
        for one in &versus.judgements {
            let name = format!("{} ({}) at {}", title(&one.metric), one.metric, super::text::point(&one.labels));
            case(&class, &name, said(one), &mut out);
        }
    }
    let lines: Vec<String> = about(comparison).iter().map(|line| escape(line)).collect();
    let _ = writeln!(out, "<system-out>{}</system-out>\n</testsuite>\n</testsuites>", lines.join("\n"));
    out
}

/// Returns what the other formats state beside the judgements: the answer with cautions and differences of configuration, what
/// was run, remarks of runs, notes, and runs without a partner.
fn about(comparison: &Comparison) -> Vec<String> {
    let mut lines = comparison.lines.clone();
    for one in &comparison.implementations {
        lines.push(format!("{}: {}; {}", one.name, one.experiment, one.made.line()));
    }
    lines.extend(remarks(comparison));
    lines.extend(comparison.notes.iter().map(|note| format!("Note: {note}")));
    let unpaired = comparison.versus.iter().flat_map(|versus| reasons(&versus.pairing.unpaired));
    lines.extend(unpaired.map(|one| format!("In no pair: {one}")));
    lines.extend(reasons(&comparison.unranked).iter().map(|one| format!("Left out of rankings: {one}")));
    lines
}

/// Whether a judgement fails; only required ones do.
fn fails(judgement: &Judgement) -> bool {
    judgement.required && judgement.outcome == Outcome::Worse
}

/// Returns the element inside a case with its message and text; `None` if it passed.
fn said(judgement: &Judgement) -> Option<(&'static str, String, String)> {
    let effect = format!("effect {}, tolerance {}", judgement.shown_effect(), judgement.tolerance);
    match judgement.outcome {
        Outcome::Worse if judgement.required => {
            let values = super::text::cells(judgement);
            let text = format!("old {}, new {}, {} pairs", values[2], values[3], values[6]);
            Some(("failure", format!("worse: {effect}"), text))
        }
        Outcome::CannotTell => Some(("skipped", format!("{} ({effect})", judgement.shown_outcome()), String::new())),
        _ => None,
    }
}

fn case(class: &str, name: &str, inside: Option<(&str, String, String)>, out: &mut String) {
    let head = format!("<testcase classname=\"{}\" name=\"{}\" time=\"0\"", escape(class), escape(name));
    let _ = match inside {
        None => writeln!(out, "{head}/>"),
        Some((element, message, text)) => {
            let (message, text) = (escape(&message), escape(&text));
            writeln!(out, "{head}><{element} message=\"{message}\">{text}</{element}></testcase>")
        }
    };
}

/// Escapes `text` for XML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\t' => out.push_str(if c == '\n' { "&#10;" } else { "&#9;" }),
            c => out.push(c),
        }
    }
    out
}
