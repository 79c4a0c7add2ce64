//! The known name that somebody probably meant.

use std::cmp::Reverse;

use strsim::damerau_levenshtein;

/// The candidate most like `name`, if one is like it at all; case, hyphens and underscores do not count.
/// A candidate that `name` is the beginning of wins.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = plain(name);
    candidates
        .into_iter()
        .map(|candidate| {
            let candidate_plain = plain(candidate);
            let begins = wanted.len() >= 4 && candidate_plain.starts_with(&wanted);
            let distance = if begins {
                0
            } else {
                damerau_levenshtein(&wanted, &candidate_plain)
            };
            (distance, Reverse(common_prefix(&wanted, &candidate_plain)), candidate)
        })
        .filter(|(distance, _, candidate)| *distance <= candidate.len().max(name.len()).div_ceil(3))
        .min()
        .map(|(_, _, candidate)| candidate)
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn spelling_variants_find_the_known_name() {
        assert_eq!(nearest("h200", ["gb200", "h200_sxm", "h100_sxm"]), Some("h200_sxm"));
        let known = ["max_num_seqs", "max_num_batched_tokens", "block_size", "sglang"];
        let check = |name: &str, expected: Option<&str>| assert_eq!(nearest(name, known), expected, "{name}");
        check("max_num_seq", Some("max_num_seqs"));
        check("maxNumSeqs", Some("max_num_seqs"));
        check("blocksize", Some("block_size"));
        check("sgl", None);
        check("temperature", None);
    }
}
