//! Prompts that a decode worker takes in by chunks.
//!
//! The KV of such a prompt arrives complete and costs no time, but where prompts are not taken whole
//! ([`DecodeIntake`](crate::rules::DecodeIntake)) it counts against the token budget of a step: the last
//! running request takes all that the generating ones leave. While it takes full chunks, nobody else can be
//! admitted, and steps differ from those without it in its blocks only. So they can be part of a run.

use dynosim_spec::WorkerRole;

use super::engine::VllmEngine;
use super::scheduling::takes_prompts_whole;
use super::sequence::Sequence;
use crate::engine::PoolSetup;

/// The last running request, if it takes in its prompt and leaves nothing of the budget to others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absorber {
    /// Tokens per step.
    chunk: u32,
    /// Steps after which some of the prompt is still missing.
    pub(super) steps: u32,
}

impl Absorber {
    /// Tokens of `sequence` that are computed after `steps` steps.
    pub(super) fn computed_after(self, sequence: &Sequence, steps: u32) -> u32 {
        sequence.computed + steps * self.chunk
    }
}

impl VllmEngine {
    /// Who takes in a prompt by full chunks, if somebody does while others generate.
    #[inline]
    pub(super) fn absorber(&self, pool: &PoolSetup) -> Option<Absorber> {
        let config = &pool.config;
        // With a prefix cache, blocks are found or evicted on the way, and a cached prompt needs no budget.
        if config.role != WorkerRole::Decode || config.enable_prefix_caching {
            return None;
        }
        let (&last, others) = self.running.split_last()?;
        let others = u32::try_from(others.len()).ok().filter(|&others| others > 0)?;
        if takes_prompts_whole(pool) || !config.enable_chunked_prefill {
            return None;
        }
        let chunk = config
            .max_num_batched_tokens?
            .checked_sub(others)
            .filter(|&chunk| chunk > 0)?;
        let sequence = &self.sequences[last];
        let missing = sequence.length() - sequence.computed.min(sequence.length());
        let steps = missing.saturating_sub(1) / chunk;
        (steps > 0).then_some(Absorber { chunk, steps })
    }

    /// Blocks that it begins in `steps` steps.
    pub(super) fn blocks_absorbed(&self, absorber: Absorber, steps: u32, pool: &PoolSetup) -> u64 {
        let Some(&key) = self.running.last() else { return 0 };
        let sequence = &self.sequences[key];
        let held_tokens = self.blocks.held_tokens(&sequence.hold);
        let more_tokens = absorber.computed_after(sequence, steps).saturating_sub(held_tokens);
        u64::from(pool.config.block_size.blocks_for(more_tokens))
    }

    /// Lets it take in its chunks of `steps` steps.
    pub(super) fn absorb(&mut self, absorber: Absorber, steps: u32, pool: &PoolSetup) {
        let Some(&key) = self.running.last() else { return };
        let sequence = &mut self.sequences[key];
        let target = absorber.computed_after(sequence, steps);
        let path = pool.prompts.path(sequence.request);
        let length = sequence.length();
        let reached = self.blocks.extend(path, &mut sequence.hold, length, target);
        debug_assert_eq!(reached, target, "a run stays within the blocks that there are");
        sequence.computed = reached;
        sequence.furthest = sequence.furthest.max(reached.min(sequence.input_tokens));
    }
}
