//! Reads the statistics of a run from a position in its file: long runs are read piece by piece, and nothing is kept here.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde::de::IgnoredAny;

/// Number of bytes read at a time.
const PIECE: u64 = 256 * 1024;

/// Returns the whole rows from byte `from` on, as the members `rows`, `next` (the next position) and `more` (whether
/// there are more now) of an object.
pub(super) fn piece(mut file: File, from: u64) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    // A shorter file is a different one.
    let from = if from > length { 0 } else { from };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PIECE).read_to_end(&mut bytes)?;
    let (whole, next) = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], from + end as u64 + 1),
        // A line that is not a valid row.
        None if bytes.len() as u64 == PIECE => (&bytes[..0], from + PIECE),
        None => (&bytes[..0], from),
    };
    let lines = whole.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let rows: Vec<_> =
        lines.filter(|line| line.starts_with('{') && serde_json::from_str::<IgnoredAny>(line).is_ok()).collect();
    let more = next > from && next < length;
    Ok(format!("{{\"from\":{from},\"next\":{next},\"more\":{more},\"rows\":[{}]}}", rows.join(",")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::Value;

    use super::*;

    fn read(text: &str, from: u64) -> Value {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("writable");
        serde_json::from_str(&piece(file.reopen().expect("readable"), from).expect("a piece")).expect("JSON")
    }

    #[test]
    fn pieces_join_to_all_rows_and_memory_is_that_of_a_piece() {
        let line = |i: usize| format!("{{\"i\":{i},\"text\":\"{}\"}}\n", "x".repeat(100));
        let text: String = (0..10_000).map(line).collect();
        let (mut from, mut seen, mut pieces) = (0, 0, 0);
        loop {
            let piece = read(&text, from);
            assert!(piece.to_string().len() < 300 * 1024);
            for row in piece["rows"].as_array().expect("rows") {
                assert_eq!(row["i"], seen);
                seen += 1;
            }
            (from, pieces) = (piece["next"].as_u64().expect("a place"), pieces + 1);
            if piece["more"] != true {
                break;
            }
        }
        assert_eq!((seen, from), (10_000, text.len() as u64));
        assert!(pieces > 4, "{pieces}");
    }

    #[test]
    fn what_is_no_whole_row_is_left_for_later_and_what_is_none_is_left_out() {
        let half = read("{\"a\":1}\n{\"a\":", 0);
        assert_eq!(
            (half["rows"].to_string(), &half["next"], &half["more"]),
            ("[{\"a\":1}]".into(), &8.into(), &true.into())
        );
        let rest = read("{\"a\":1}\n{\"a\":", 8);
        assert_eq!((rest["rows"].to_string(), &rest["next"], &rest["more"]), ("[]".into(), &8.into(), &false.into()));
        assert_eq!(
            read("{\"a\":1}\nno row\n[2]\n{\"b\":}\n{\"c\":3}\n", 0)["rows"].to_string(),
            "[{\"a\":1},{\"c\":3}]"
        );
        // A different file.
        assert_eq!(read("{\"a\":1}\n", 500)["rows"].to_string(), "[{\"a\":1}]");
        let long = read(&"x".repeat(300 * 1024), 0);
        assert_eq!((&long["next"], &long["more"]), (&(256 * 1024).into(), &true.into()));
    }
}
