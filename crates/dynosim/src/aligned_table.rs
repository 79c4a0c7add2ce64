//! Tables of text.

/// Rows as text, every column as wide as its widest cell, cells on the right but for those of the first column if that
/// has words.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let has_words = rows.iter().skip(1).any(|row| row[0].contains(char::is_alphabetic));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (cell, &width))| {
                if column == 0 && has_words {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[[&str; 2]], expected: &str) {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn columns_are_aligned() {
        check(&[["n", "ms"], ["10", "2.5"]], " n   ms\n10  2.5\n");
        check(&[["what", "ms"], ["a", "2.5"]], "what   ms\na     2.5\n");
        check(&[["n", ""], ["10", ""]], " n\n10\n");
        check(&[], "");
    }
}
