//! Writes `examples/data/sample_trace.jsonl`, a small Mooncake trace to try the simulator with.
//!
//! Six minutes of a chat service: a few assistants with system prompts of different length, and
//! conversations that come in more densely in the middle and send their whole history with every
//! turn. The numbers are made up; every run writes the same file.
//!
//! ```sh
//! cargo run -p dynosim-spec --example make_sample_trace -- examples/data/sample_trace.jsonl
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

const BLOCK_TOKENS: u32 = 512;
/// Length of each assistant's system prompt.
const SYSTEM_BLOCKS: [u32; 8] = [2, 3, 4, 4, 6, 8, 10, 14];
/// Mean gap between conversations, minute by minute.
const MEAN_GAP_MS: [u64; 6] = [3200, 2400, 1500, 1300, 2400, 3400];
const MINUTE_MS: u64 = 60_000;
/// Longer histories are not continued.
const LONGEST_PROMPT_TOKENS: u32 = 24_000;

/// A conversation on its way.
struct Conversation {
    /// Content ids of the full blocks so far.
    full_blocks: Vec<u64>,
    tokens: u32,
}

/// The trace, one request per line.
pub(crate) fn sample_trace() -> String {
    let mut rng = ChaCha12Rng::seed_from_u64(2024);
    let mut next_id = 0;
    let systems: Vec<Vec<u64>> = SYSTEM_BLOCKS.map(|blocks| new_ids(&mut next_id, blocks)).into();
    let mut conversations = Vec::new();
    let mut turns = BTreeSet::new();
    let mut start_ms = 0;
    while let Some(mean_ms) = MEAN_GAP_MS.get((start_ms / MINUTE_MS) as usize) {
        // The lower of two draws: some assistants are asked more often than others.
        let popular = rng
            .random_range(0..systems.len())
            .min(rng.random_range(0..systems.len()));
        let full_blocks = systems[popular].clone();
        let tokens = SYSTEM_BLOCKS[popular] * BLOCK_TOKENS;
        turns.insert((start_ms, conversations.len()));
        conversations.push(Conversation { full_blocks, tokens });
        start_ms += rng.random_range(0..2 * mean_ms);
    }
    let mut trace = String::new();
    while let Some((now_ms, index)) = turns.pop_first() {
        let conversation = &mut conversations[index];
        conversation.tokens += 20 + skewed(&mut rng, 4000);
        let output_tokens = 1 + skewed(&mut rng, 1600);
        let complete = conversation.tokens / BLOCK_TOKENS - u32::try_from(conversation.full_blocks.len()).unwrap_or(0);
        conversation.full_blocks.extend(new_ids(&mut next_id, complete));
        // A block that is not full yet will have other content, hence another id, next time.
        let begun = new_ids(
            &mut next_id,
            u32::from(!conversation.tokens.is_multiple_of(BLOCK_TOKENS)),
        );
        let ids: Vec<u64> = conversation.full_blocks.iter().copied().chain(begun).collect();
        let input_tokens = conversation.tokens;
        writeln!(
            trace,
            r#"{{"timestamp": {now_ms}, "input_length": {input_tokens}, "output_length": {output_tokens}, "hash_ids": {ids:?}}}"#
        )
        .expect("a string takes any text");
        conversation.tokens += output_tokens;
        let next_ms = now_ms + 3000 + u64::from(output_tokens) * 20 + u64::from(skewed(&mut rng, 40_000));
        let goes_on = rng.random_range(0..100) < 62;
        if goes_on && conversation.tokens < LONGEST_PROMPT_TOKENS && next_ms < 6 * MINUTE_MS {
            turns.insert((next_ms, index));
        }
    }
    trace
}

fn new_ids(next_id: &mut u64, count: u32) -> Vec<u64> {
    let first = *next_id;
    *next_id += u64::from(count);
    (first..*next_id).collect()
}

/// A whole number below `limit`, small ones more often. No floating point, so that all hosts agree.
fn skewed(rng: &mut ChaCha12Rng, limit: u32) -> u32 {
    let below = rng.random_range(1..=limit);
    rng.random_range(0..below)
}

fn main() -> std::io::Result<()> {
    match std::env::args_os().nth(1).map(PathBuf::from) {
        Some(path) => std::fs::write(path, sample_trace()),
        None => std::io::stdout().write_all(sample_trace().as_bytes()),
    }
}
