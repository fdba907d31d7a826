//! Reports as tests compare them: without their provenance, which has the date and the command.

/// The text of a report called `name` without its block of what was run; other files as they are.
pub fn without_provenance(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let (start, end) = match name {
        "report.json" => ("\"made\": {", "}"),
        "report.html" => ("<details class=\"made\">", "</details>"),
        "report.md" => ("## What was run", "overrides"),
        _ => return bytes,
    };
    let text = String::from_utf8_lossy(&bytes);
    let from = text.find(start).expect("provenance");
    let to = from + text[from..].find(end).expect("its end");
    format!("{}{}", &text[..from], &text[to..]).into_bytes()
}
