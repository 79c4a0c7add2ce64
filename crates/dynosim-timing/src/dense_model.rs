//! Prices of the passes of a dense model, given the latencies of its kernels.

use crate::decode_inputs::DecodeInputs;
use crate::model::{Price, StepShape, TimingModel};
use crate::operators::{DenseShape, Kernels, OPERATORS, OperatorCost, PromptBatch, total};
use crate::polynomial::DECODE_FLOOR_MS;

/// Output tokens between two evaluations of a longer decode.
const DECODE_STRIDE: u32 = 32;

/// A dense model on one GPU shape.
#[derive(Debug)]
pub(crate) struct DenseModel<K> {
    pub(crate) shape: DenseShape,
    pub(crate) kernels: K,
}

impl<K: Kernels> DenseModel<K> {
    pub(crate) fn prefill_operators(&self, prompts: PromptBatch) -> [OperatorCost; OPERATORS] {
        self.shape.prefill(&self.kernels, prompts)
    }

    /// One decode step over sequences that have `context` tokens before it.
    pub(crate) fn decode_operators(&self, batch: u64, context: u64) -> [OperatorCost; OPERATORS] {
        self.shape.decode(&self.kernels, batch, context.saturating_add(1))
    }

    pub(crate) fn prefill_ms(&self, prompts: PromptBatch) -> f64 {
        total(&self.prefill_operators(prompts)).ms
    }

    /// Milliseconds of all steps after the first of `output_tokens` tokens; every stride of steps
    /// costs as its first one.
    pub(crate) fn decode_ms(&self, batch: u64, context: u64, output_tokens: u32) -> f64 {
        let steps = output_tokens.saturating_sub(1);
        let mut sum = 0.0;
        for first in (0..steps).step_by(DECODE_STRIDE as usize) {
            let repeats = (steps - first).min(DECODE_STRIDE);
            let operators = self.decode_operators(batch, context.saturating_add(u64::from(first)));
            sum += f64::from(repeats) * total(&operators).ms;
        }
        sum
    }
}

impl<K: Kernels + std::fmt::Debug + Send + Sync> TimingModel for DenseModel<K> {
    fn prefill(&self, step: &StepShape) -> Price {
        let Some((tokens, prefix)) = step.mean_prefill() else {
            return Price::ZERO;
        };
        let prompts = PromptBatch::new(step.prefill_seqs, tokens.saturating_sub(prefix), prefix);
        let price = total(&self.prefill_operators(prompts));
        Price {
            ms: price.ms.max(0.0),
            extrapolated_ms: price.extrapolated_ms.max(0.0),
        }
    }

    fn decode(&self, step: &StepShape) -> Price {
        let Some(context) = step.mean_context() else {
            return Price::ZERO;
        };
        let price = total(&self.decode_operators(u64::from(step.decode_seqs), context));
        Price {
            ms: price.ms.max(DECODE_FLOOR_MS),
            extrapolated_ms: price.extrapolated_ms.max(0.0),
        }
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::MeanContext
    }
}
