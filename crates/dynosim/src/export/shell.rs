//! Words and lines of shell scripts.

use std::fmt::Write;

/// A word that the shell reads as exactly this text.
pub(super) fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A command over several lines, an option on each.
pub(super) fn lines(command: &str, options: impl IntoIterator<Item = String>, indent: &str) -> String {
    let mut text = format!("{indent}{command}");
    for option in options {
        // Writing to a string cannot fail.
        let _ = write!(text, " \\\n{indent}    {option}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_needed() {
        assert_eq!(word("Qwen/Qwen3-32B"), "Qwen/Qwen3-32B");
        assert_eq!(word(r#"{"a":1}"#), r#"'{"a":1}'"#);
        assert_eq!(word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(word(""), "''");
    }
}
