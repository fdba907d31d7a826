//! Removal of characters from external text (names, paths, values) that control a terminal or break a document.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether `c` is a control character, a direction mark, a line separator or a noncharacter. Line feeds and
/// tabs are none of these.
fn is_unprintable(c: char) -> bool {
    let control = c.is_control() && c != '\n' && c != '\t';
    control
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns `text` with each unprintable character as `\u001b`; JSON and TOML keep their meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unprintable(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", c as u32);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns `text` in one line: unprintable characters as [`printable`] has them, line ends and tabs as `\n`, `\r` and `\t`.
pub fn one_line(text: &str) -> String {
    printable(&text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")).into_owned()
}

/// Returns `text` escaped for HTML and SVG.
pub fn escape(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_nothing_else_changes() {
        let plain = "Größe 5 %\n\t\"<ü>\" − \u{1f600} \\u";
        assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        assert_eq!(printable("a\u{1b}[31mred\r\u{7f}\u{9b}\0"), "a\\u001b[31mred\\u000d\\u007f\\u009b\\u0000");
        assert_eq!(one_line("a\n\u{1b}[31mb\r\tc"), "a\\n\\u001b[31mb\\r\\tc");
        assert_eq!(printable("\u{202e}txt.exe\u{2066}\u{ffff}"), "\\u202etxt.exe\\u2066\\uffff");
    }

    #[test]
    fn json_and_toml_say_the_same_afterwards() {
        let name = "a\u{1b}\u{7f}\u{9b}\u{202e}\"";
        // serde_json escapes only the first.
        let json = serde_json::to_string(name).unwrap();
        assert_ne!(printable(&json), json);
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), name);
        let table: toml::Table = format!("name = {}", printable(&json)).parse().unwrap();
        assert_eq!(table["name"].as_str(), Some(name));
    }
}
