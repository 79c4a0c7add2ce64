//! Steps that are one pass, and what prices of them are held to.

use dynosim_timing::{PromptChunk, StepShape};

pub(crate) fn chunk(new_tokens: u64, prefix_tokens: u64) -> PromptChunk {
    PromptChunk {
        new_tokens,
        prefix_tokens,
    }
}

/// A step over these prompts and `decode_seqs` sequences of `context` tokens.
pub(crate) fn step(prompts: &[PromptChunk], decode_seqs: u32, context: u64) -> StepShape {
    let tokens = prompts.iter().map(|chunk| chunk.new_tokens + chunk.prefix_tokens).sum();
    let prefix = prompts.iter().map(|chunk| chunk.prefix_tokens).sum();
    let seqs = u32::try_from(prompts.len()).expect("a few prompts");
    StepShape::prefill(seqs, tokens, prefix)
        .with_decodes_of(StepShape::decode(decode_seqs, context * u64::from(decode_seqs)))
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs(),
        "{found}, not {expected}"
    );
}
