//! The order of engine versions.

use std::cmp::Reverse;

/// Names and numbers of a version, in the order of their weight: `0.5.6.post2` is 0, 5, 6, "post" 2.
fn parts(version: &str) -> Vec<(&str, u64)> {
    version.split('.').map(part).collect()
}

fn part(text: &str) -> (&str, u64) {
    let name = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = match &text[name.len()..] {
        "" => 0,
        // A number that does not fit is larger than any that does.
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    (name, number)
}

/// Sorts `versions` by how many of them lie between each and `version`; of two equally far the newer one
/// comes first. `version` itself is not among them.
pub(crate) fn nearest_first<T>(mut versions: Vec<T>, version: &str, name: impl Fn(&T) -> &str) -> Vec<T> {
    versions.sort_by(|a, b| parts(name(a)).cmp(&parts(name(b))));
    let own = parts(version);
    let below = versions.iter().filter(|other| parts(name(other)) < own).count();
    let mut ranked: Vec<(usize, T)> = versions.into_iter().enumerate().collect();
    ranked.sort_by_key(|&(index, _)| {
        // The first above and the first below are one step away.
        let steps = if index < below {
            below - index
        } else {
            index - below + 1
        };
        (steps, Reverse(index))
    });
    ranked.into_iter().map(|(_, version)| version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: &str, expected: &[&str]) {
        let mut versions = expected.to_vec();
        versions.sort_unstable();
        assert_eq!(nearest_first(versions, version, |version| version), expected);
    }

    #[test]
    fn numbers_count_not_letters() {
        check("0.9.0", &["0.10.0", "0.8.5", "0.14.0", "0.8.0"]);
        check("0.5.6", &["0.5.6.post2", "0.5.6.post10", "0.5.10"]);
        check("0.5.10", &["0.5.6.post10", "0.5.6.post2", "0.5.6"]);
        check("1", &[]);
    }
}
