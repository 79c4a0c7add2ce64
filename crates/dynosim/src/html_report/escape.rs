//! Texts that are safe inside a page.

use std::fmt::{self, Display};

use serde::Serialize;

/// A text as content of an element or within a quoted attribute.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\0']) {
            formatter.write_str(&rest[..at])?;
            formatter.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                b'\'' => "&#39;",
                // Browsers would replace it anyway, and complain.
                _ => "\u{fffd}",
            })?;
            rest = &rest[at + 1..];
        }
        formatter.write_str(rest)
    }
}

/// A value as JSON that ends neither the script element around it nor a line of script.
///
/// `<`, `>` and `&` occur within strings of JSON only, where their escapes mean the same, and so do the two line ends
/// of Unicode.
pub(super) fn script_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain values with names for keys always become JSON");
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        let text = "<b title=\"a\">it's R&D\0</b>";
        let expected = "&lt;b title=&quot;a&quot;&gt;it&#39;s R&amp;D\u{fffd}&lt;/b&gt;";
        assert_eq!(Escaped(text).to_string(), expected);
        assert_eq!(Escaped("plain µs ≤ 5").to_string(), "plain µs ≤ 5");
    }

    #[test]
    fn json_stays_within_its_element_and_keeps_its_meaning() {
        let texts = ["</script><script>", "<!--", "a\u{2028}b\u{2029}", "]]>", "\"\\&amp;"];
        let json = script_json(&texts);
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        let back: Vec<String> = serde_json::from_str(&json).expect("JSON");
        assert_eq!(back, texts);
    }

    #[test]
    fn numbers_that_json_lacks_become_null() {
        assert_eq!(script_json(&[1.5, f64::NAN, f64::INFINITY]), "[1.5,null,null]");
    }
}
