//! How long the parts of one step take.

use dynosim_spec::WorkerRole;
use dynosim_timing::{PromptChunk, StepShape};

use super::engine::VllmEngine;
use super::scheduling::Batch;
use super::sequence::Sequence;
use crate::engine::PassContext;
use crate::error::SimError;
use crate::prices::StepTime;
use crate::rules::StepPasses;

/// A step in the order in which its tokens come out.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepParts {
    /// Up to the first tokens of finished prompts; the whole step where prompts and generated tokens share a pass.
    pub(super) prompts: StepTime,
    /// From there to the tokens of everybody else; `None` if that takes no time of its own.
    pub(super) decodes: Option<StepTime>,
}

impl VllmEngine {
    /// Prices a step that computes the prompts of `batch` and generates for `decodes`.
    pub(super) fn step_parts(
        &self,
        batch: &Batch,
        decodes: StepShape,
        context: &mut PassContext<'_>,
    ) -> Result<StepParts, SimError> {
        let pool = context.pool;
        let generates = decodes.decode_seqs > 0 && pool.config.role != WorkerRole::Prefill;
        if batch.prefill_seqs == 0 {
            let decodes = if generates {
                Some(pool.decode_time(&decodes)?)
            } else {
                None
            };
            return Ok(StepParts {
                prompts: StepTime::default(),
                decodes,
            });
        }
        let prompts = StepShape::prefill(batch.prefill_seqs, batch.prefill_tokens, batch.prefill_prefix_tokens);
        match pool.rules.step_passes {
            StepPasses::PromptsThenDecodes => Ok(StepParts {
                prompts: context.prefill_times.time(pool, &prompts)?,
                decodes: if generates {
                    Some(pool.decode_time(&decodes)?)
                } else {
                    None
                },
            }),
            StepPasses::Fused => {
                let step = if generates {
                    prompts.with_decodes_of(decodes)
                } else {
                    prompts
                };
                let chunks = self.prompt_chunks();
                Ok(StepParts {
                    prompts: pool.fused_time(&step, &chunks)?,
                    decodes: None,
                })
            }
        }
    }

    /// What is computed of each prompt in this step, tokens that were generated before a preemption included.
    fn prompt_chunks(&self) -> Vec<PromptChunk> {
        let chunk = |sequence: &Sequence| {
            let share = &sequence.share;
            (share.step == self.step && share.prompt_tokens > 0).then(|| PromptChunk {
                new_tokens: share.tokens,
                prefix_tokens: u64::from(share.prompt_before),
            })
        };
        self.running[self.steady.len()..]
            .iter()
            .filter_map(|&key| chunk(&self.sequences[key]))
            .collect()
    }
}
