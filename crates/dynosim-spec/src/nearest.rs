//! The known name that somebody probably meant.

use std::cmp::Reverse;

use strsim::damerau_levenshtein;

/// The candidate most like `name`, if one is like it at all; case, hyphens and underscores do not count.
/// A candidate that `name` is the beginning of wins.
///
/// ```
/// assert_eq!(dynosim_spec::nearest("maxNumSeq", ["max_num_seqs", "block_size"]), Some("max_num_seqs"));
/// ```
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
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

/// The model most like `name`: its name proper counts, whoever published it and for whatever use it was trained.
pub(crate) fn nearest_model<'c>(name: &str, models: &[&'c str]) -> Option<&'c str> {
    const TRAININGS: [&str; 5] = ["instruct", "chat", "base", "it", "hf"];
    const SHORTEST: usize = 6;
    let proper = |name: &str| plain(name.rsplit('/').next().unwrap_or(name));
    let stem = match name.rsplit_once('-') {
        Some((stem, last)) if TRAININGS.contains(&plain(last).as_str()) => stem,
        _ => name,
    };
    let wanted = proper(stem);
    let meant = models.iter().copied().filter(|model| {
        let (model, wanted) = (proper(model), wanted.as_str());
        wanted.len() >= SHORTEST && (model.starts_with(wanted) || model.ends_with(wanted) || wanted.starts_with(&model))
    });
    let length_gap = |model: &&str| proper(model).len().abs_diff(wanted.len());
    meant
        .min_by_key(length_gap)
        .or_else(|| nearest(name, models.iter().copied()))
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
    use super::{nearest, nearest_model};

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

    #[test]
    fn models_are_known_by_their_name_proper() {
        let known = [
            "Qwen/Qwen3-32B",
            "Qwen/Qwen3-32B-FP8",
            "Qwen/Qwen3-8B",
            "meta-llama/Meta-Llama-3.1-70B",
            "meta-llama/Meta-Llama-3.1-8B",
            "nvidia/Llama-3.3-70B-Instruct-FP8",
        ];
        let check = |name: &str, expected: Option<&str>| assert_eq!(nearest_model(name, &known), expected, "{name}");
        check(
            "meta-llama/Llama-3.1-70B-Instruct",
            Some("meta-llama/Meta-Llama-3.1-70B"),
        );
        check("meta-llama/Llama-3.1-8B", Some("meta-llama/Meta-Llama-3.1-8B"));
        check("llama-3.1-70b", Some("meta-llama/Meta-Llama-3.1-70B"));
        check(
            "meta-llama/Llama-3.3-70B-Instruct",
            Some("nvidia/Llama-3.3-70B-Instruct-FP8"),
        );
        check("Qwen/Qwen3-8B-Base", Some("Qwen/Qwen3-8B"));
        check("Qwen/Qwen3-32B-AWQ", Some("Qwen/Qwen3-32B"));
        check("qwen3-32b-fp8", Some("Qwen/Qwen3-32B-FP8"));
        check("Qwen/Qwen3-32", Some("Qwen/Qwen3-32B"));
        check("Qwen/Qwen3-33B", Some("Qwen/Qwen3-32B"));
        check("google/gemma-2-27b-it", None);
    }
}
