//! Prices of the passes of a model, given the latencies of its kernels.

use crate::decode_inputs::DecodeInputs;
use crate::decode_rows::{DecodeRow, DecodeRows, Padding};
use crate::model::{Price, StepShape, TimingModel};
use crate::operators::{DenseShape, Kernels, Operators, PromptBatch, total};
use crate::polynomial::DECODE_FLOOR_MS;

/// Output tokens between two evaluations of a longer decode.
const DECODE_STRIDE: u32 = 32;

/// A model on one GPU shape. Batches are those of one group of GPUs that attends to sequences of its own, if there
/// are several (`attention_dp`); only as a [`TimingModel`] it takes steps of a whole worker.
pub(crate) struct DenseModel<K: Kernels> {
    pub(crate) shape: DenseShape,
    pub(crate) kernels: K,
    decode_rows: DecodeRows<K::DecodeAttention>,
}

impl<K: Kernels> DenseModel<K> {
    pub(crate) fn new(shape: DenseShape, kernels: K) -> Self {
        Self::padded(shape, kernels, Padding::NONE)
    }

    /// The same with more to do in steps that only generate.
    pub(crate) fn padded(shape: DenseShape, kernels: K, padding: Padding) -> Self {
        Self {
            shape,
            kernels,
            decode_rows: DecodeRows::new(padding),
        }
    }

    pub(crate) fn prefill_operators(&self, prompts: PromptBatch) -> Operators {
        self.shape.prefill(&self.kernels, prompts)
    }

    /// One decode step over sequences that have `context` tokens before it.
    pub(crate) fn decode_operators(&self, batch: u64, context: u64) -> Operators {
        let kv_tokens = context.saturating_add(1);
        self.ask_row(batch, |row| row.operators(&self.shape, &self.kernels, kv_tokens))
    }

    pub(crate) fn prefill_ms(&self, prompts: PromptBatch) -> f64 {
        total(&self.prefill_operators(prompts)).ms
    }

    /// Milliseconds of all steps after the first of `output_tokens` tokens; every stride of steps
    /// costs as its first one.
    pub(crate) fn decode_ms(&self, batch: u64, context: u64, output_tokens: u32) -> f64 {
        let steps = output_tokens.saturating_sub(1);
        self.ask_row(batch, |row| {
            let mut sum = 0.0;
            for first in (0..steps).step_by(DECODE_STRIDE as usize) {
                let repeats = (steps - first).min(DECODE_STRIDE);
                let kv_tokens = context.saturating_add(u64::from(first)).saturating_add(1);
                sum += f64::from(repeats) * row.price(kv_tokens).ms;
            }
            sum
        })
    }

    /// What `question` finds in what is prepared for one batch size.
    pub(crate) fn ask_row<T>(&self, batch: u64, question: impl FnOnce(&DecodeRow<K::DecodeAttention>) -> T) -> T {
        self.decode_rows.ask((&self.shape, &self.kernels), batch, question)
    }
}

impl<K: Kernels + std::fmt::Debug> std::fmt::Debug for DenseModel<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DenseModel")
            .field("shape", &self.shape)
            .field("kernels", &self.kernels)
            .finish_non_exhaustive()
    }
}

impl<K> TimingModel for DenseModel<K>
where
    K: Kernels + std::fmt::Debug + Send + Sync,
    K::DecodeAttention: Send + Sync,
{
    fn prefill(&self, step: &StepShape) -> Price {
        let Some((tokens, prefix)) = step.mean_prefill() else {
            return Price::ZERO;
        };
        let sequences = self.shape.sequences_of_group(step.prefill_seqs);
        let prompts = PromptBatch::new(sequences, tokens.saturating_sub(prefix), prefix);
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
        let kv_tokens = context.saturating_add(1);
        let sequences = self.shape.sequences_of_group(step.decode_seqs);
        self.ask_row(u64::from(sequences), |row| step_price(row.price(kv_tokens)))
    }

    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        let first = first_context.saturating_add(1);
        let kv_tokens = first..first.saturating_add(prices.len() as u64);
        let mut prices = prices.iter_mut();
        let sequences = self.shape.sequences_of_group(decode_seqs);
        self.ask_row(u64::from(sequences), |row| {
            row.prices(kv_tokens, |price| {
                if let Some(asked) = prices.next() {
                    *asked = step_price(price);
                }
            });
        });
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::MeanContext
    }
}

fn step_price(price: Price) -> Price {
    let at_least = |value: f64, least: f64| if value > least { value } else { least };
    Price {
        ms: at_least(price.ms, DECODE_FLOOR_MS),
        extrapolated_ms: at_least(price.extrapolated_ms, 0.0),
    }
}
