//! How long the parts of one step take.

use dynosim_spec::WorkerRole;
use dynosim_timing::{PromptChunk, StepPart, StepShape};

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
    /// From there to the tokens of everybody else, and what is generated; `None` if that takes no time of its own.
    pub(super) decodes: Option<(StepTime, StepShape)>,
}

impl VllmEngine {
    /// Prices a step that computes the prompts of `batch` and generates for `decodes`. The prompts count as computed,
    /// tokens only when they are emitted.
    pub(super) fn step_parts(
        &self,
        batch: &Batch,
        decodes: StepShape,
        context: &mut PassContext<'_>,
    ) -> Result<StepParts, SimError> {
        let pool = context.pool;
        let decodes = Some(decodes).filter(|step| step.decode_seqs > 0 && pool.config.role != WorkerRole::Prefill);
        let decode_time = || {
            decodes
                .map(|step| pool.decode_time(&step).map(|time| (time, step)))
                .transpose()
        };
        if batch.prefill_seqs == 0 {
            return Ok(StepParts {
                prompts: StepTime::default(),
                decodes: decode_time()?,
            });
        }
        let prompts = StepShape::prefill(batch.prefill_seqs, batch.prefill_tokens, batch.prefill_prefix_tokens);
        match pool.rules.step_passes {
            StepPasses::PromptsThenDecodes => {
                let parts = StepParts {
                    prompts: context.prefill_times.time(pool, &prompts)?,
                    decodes: decode_time()?,
                };
                context.priced(parts.prompts, StepPart::Prompts(&prompts));
                Ok(parts)
            }
            StepPasses::Fused => {
                let step = decodes.map_or(prompts, |decodes| prompts.with_decodes_of(decodes));
                let chunks = self.prompt_chunks();
                let time = pool.fused_time(&step, &chunks)?;
                context.priced(time, StepPart::Fused(&step, &chunks));
                Ok(StepParts {
                    prompts: time,
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
