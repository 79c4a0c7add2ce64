//! The two traits: a provider is bound to a deployment once, the model it gives prices every step.

use std::fmt::Debug;
use std::sync::Arc;

use dynosim_spec::{Backend, Deployment, GpuSpec, ModelSpec, ParallelShape};

use crate::decode_inputs::DecodeInputs;
use crate::error::TimingError;
use crate::terms::{PriceTerm, StepPart};

/// What a step does, as sums over its sequences.
///
/// Sums rather than a list of sequences: the engine keeps them up to date without visiting every
/// request, and a run of decode steps changes them by constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct StepShape {
    /// Sequences whose prompt is computed in this step, in whole or in part.
    pub prefill_seqs: u32,
    /// Sum over them of the prompt length reached at the end of this step.
    pub prefill_tokens: u64,
    /// Sum over them of the part of that length that was already computed or cached before.
    pub prefill_prefix_tokens: u64,
    /// Sequences that generate one token.
    pub decode_seqs: u32,
    /// Sum over them of the tokens before the one to be generated.
    pub decode_context_tokens: u64,
    /// KV cache tokens held by running requests, in whole blocks.
    pub active_kv_tokens: u64,
    /// KV cache tokens the worker has room for.
    pub total_kv_tokens: u64,
}

impl StepShape {
    /// A step that computes prompts only.
    pub fn prefill(seqs: u32, tokens: u64, prefix_tokens: u64) -> Self {
        Self {
            prefill_seqs: seqs,
            prefill_tokens: tokens,
            prefill_prefix_tokens: prefix_tokens,
            ..Self::default()
        }
    }

    /// A step that only generates.
    pub fn decode(seqs: u32, context_tokens: u64) -> Self {
        Self {
            decode_seqs: seqs,
            decode_context_tokens: context_tokens,
            ..Self::default()
        }
    }

    /// The same step, which generates what `decodes` does besides.
    #[must_use]
    pub fn with_decodes_of(self, decodes: Self) -> Self {
        Self {
            prefill_seqs: self.prefill_seqs,
            prefill_tokens: self.prefill_tokens,
            prefill_prefix_tokens: self.prefill_prefix_tokens,
            ..decodes
        }
    }

    /// The same step on a worker that holds `active` of at most `total` KV cache tokens.
    #[must_use]
    pub fn with_kv_tokens(self, active: u64, total: u64) -> Self {
        Self {
            active_kv_tokens: active,
            total_kv_tokens: total,
            ..self
        }
    }

    /// Mean prompt length and mean prefix of the prefilling sequences, each rounded down by itself;
    /// `None` without such sequences. The new tokens per sequence are their difference.
    pub fn mean_prefill(&self) -> Option<(u64, u64)> {
        let seqs = u64::from(self.prefill_seqs);
        Some((
            self.prefill_tokens.checked_div(seqs)?,
            self.prefill_prefix_tokens / seqs,
        ))
    }

    /// Mean context of the generating sequences, rounded down; `None` without such sequences.
    pub fn mean_context(&self) -> Option<u64> {
        self.decode_context_tokens.checked_div(u64::from(self.decode_seqs))
    }
}

/// What a step computes of one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptChunk {
    /// Tokens computed in this step.
    pub new_tokens: u64,
    /// Tokens of the prompt that were computed or cached before.
    pub prefix_tokens: u64,
}

/// The price of one part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// Milliseconds, finite and not negative.
    pub ms: f64,
    /// How much of that rests on extrapolation beyond the model's data.
    pub extrapolated_ms: f64,
}

impl Price {
    /// No time at all.
    pub const ZERO: Self = Self {
        ms: 0.0,
        extrapolated_ms: 0.0,
    };

    /// A price well inside the model's data.
    pub const fn known(ms: f64) -> Self {
        Self {
            ms,
            extrapolated_ms: 0.0,
        }
    }
}

/// Prices the steps of one worker. Hot and infallible; must be pure.
///
/// The prompt part and the generating part of a step are priced apart, because first tokens may
/// leave the engine between the two. The engine rounds each part to whole nanoseconds and divides
/// it by the worker's speed-up.
pub trait TimingModel: Debug + Send + Sync {
    /// Price of computing the prompt tokens of `step`; asked only if `step.prefill_seqs > 0`.
    fn prefill(&self, step: &StepShape) -> Price;

    /// Price of generating one token for each of `step.decode_seqs`; asked only if there are any.
    fn decode(&self, step: &StepShape) -> Price;

    /// Price of a step that computes prompts and, possibly, generates tokens in one pass; asked only if
    /// `step.prefill_seqs > 0`, and only under engine rules with such passes.
    ///
    /// `prompts` are the single prompts behind the sums of `step`, which may lack tokens that were generated
    /// before a preemption and are computed again. The default adds the prices of the two parts.
    fn fused(&self, step: &StepShape, prompts: &[PromptChunk]) -> Price {
        let _ = prompts;
        let prefill = self.prefill(step);
        if step.decode_seqs == 0 {
            return prefill;
        }
        let decode = self.decode(step);
        Price {
            ms: prefill.ms + decode.ms,
            extrapolated_ms: prefill.extrapolated_ms + decode.extrapolated_ms,
        }
    }

    /// What the price of a part of a step is made of, for reports: terms that add up to it. Slow, and asked only if
    /// somebody wants to know.
    ///
    /// The default is the part as a single term.
    fn terms(&self, part: StepPart<'_>) -> Vec<PriceTerm> {
        vec![PriceTerm::new(part.name(), part.price(self).ms)]
    }

    /// What the price of decoding depends on: a promise that lets a simulator ask less often.
    ///
    /// The default promises nothing. Naming anything narrower only makes simulations faster, and must be
    /// true: test it with [`check_decode_inputs`](crate::check_decode_inputs).
    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::WholeStep
    }

    /// What a reader of results ought to know about the data behind the prices, a sentence each; goes into
    /// reports. None by default.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes the prices of decode steps of `decode_seqs` sequences whose mean context is
    /// `first_context`, one more, two more and so on.
    ///
    /// Asked only of models that depend on the mean context alone. An override must write exactly
    /// what [`decode`](Self::decode) gives; it only saves looking up the same things again.
    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        for (context, price) in (first_context..).zip(prices) {
            *price = self.decode(&StepShape::decode(
                decode_seqs,
                context.saturating_mul(decode_seqs.into()),
            ));
        }
    }
}

/// Gives a [`TimingModel`] for a deployment. Rare and fallible: data is loaded and its coverage
/// checked here, so that pricing a step cannot fail.
///
/// Any `Fn(&Deployment) -> Result<Arc<dyn TimingModel>, TimingError>` is a provider.
pub trait TimingProvider: Send + Sync {
    /// The model that prices steps of `deployment`.
    ///
    /// # Errors
    /// If data for the deployment is missing, damaged or does not cover it.
    fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError>;

    /// Tensor-parallel sizes worth trying for a model on a GPU, ascending.
    ///
    /// The default offers the powers of two up to the node size that divide the query heads.
    fn tp_shapes(&self, model: Option<&ModelSpec>, gpu: &GpuSpec) -> Vec<u32> {
        powers_of_two(gpu.gpus_per_node)
            .filter(|&tp| model.is_none_or(|model| model.splits_over(tp)))
            .collect()
    }

    /// Shapes worth trying for workers of a model on a GPU, served by `backend`, ascending.
    ///
    /// The default offers [`TimingProvider::tp_shapes`] for dense models, and for such that nothing is known about. For
    /// mixtures of experts it offers all shapes within a node whose sizes are powers of two: tensor-parallel sizes
    /// that divide the query heads, any number of groups with sequences of their own, and every way to spread the experts over
    /// all of their GPUs that the engine has.
    fn parallel_shapes(&self, model: Option<&ModelSpec>, gpu: &GpuSpec, backend: Backend) -> Vec<ParallelShape> {
        let Some(model) = model.filter(|model| model.moe.is_some()) else {
            let sizes = self.tp_shapes(model, gpu);
            return sizes.into_iter().map(ParallelShape::tensor).collect();
        };
        let powers = || powers_of_two(gpu.gpus_per_node);
        let attention = powers().flat_map(|tp| powers().map(move |attention_dp| (tp, attention_dp)));
        let shapes = attention.flat_map(|(tp, attention_dp)| {
            let gpus = tp.saturating_mul(attention_dp);
            powers().map(move |moe_tp| ParallelShape::experts(tp, attention_dp, moe_tp, gpus / moe_tp))
        });
        shapes
            .filter(|shape| shape.gpus() <= gpu.gpus_per_node && model.splits_over(shape.tp))
            .filter(|shape| shape.of_model(Some(model), backend).is_ok())
            .collect()
    }

    /// Tokens of KV cache that one worker of `deployment` has room for, or, if several groups of its GPUs attend to
    /// sequences of their own (`attention_dp`), one group.
    ///
    /// The default is [`estimate_kv_tokens`](crate::estimate_kv_tokens).
    ///
    /// # Errors
    /// If the model's facts are unknown, or nothing is left after weights and activations.
    fn kv_capacity_tokens(&self, deployment: &Deployment) -> Result<u64, TimingError> {
        crate::capacity::estimate_kv_tokens(deployment)
    }
}

/// 1, 2, 4 and so on up to `most`.
fn powers_of_two(most: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1_u32), |size| size.checked_mul(2)).take_while(move |&size| size <= most)
}

impl<F> TimingProvider for F
where
    F: Fn(&Deployment) -> Result<Arc<dyn TimingModel>, TimingError> + Send + Sync,
{
    fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        self(deployment)
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::MoeSpec;

    use super::*;
    use crate::polynomial::PolynomialTiming;

    /// Shapes that are offered for a model with two heads.
    fn offered(backend: Backend, gpus_per_node: u32, moe: Option<MoeSpec>) -> Vec<ParallelShape> {
        let mut gpu = GpuSpec::find("h200_sxm").expect("is known");
        gpu.gpus_per_node = gpus_per_node;
        let model = ModelSpec {
            name: "some".to_owned(),
            layers: 1,
            hidden_size: 128,
            intermediate_size: 128,
            attention_heads: 2,
            kv_heads: 1,
            head_dim: 64,
            vocab_size: 1000,
            context_length: None,
            qk_norm: false,
            weights: dynosim_spec::WeightFormat::Bfloat16,
            moe,
            sliding_window: None,
        };
        PolynomialTiming.parallel_shapes(Some(&model), &gpu, backend)
    }

    #[test]
    fn dense_models_are_only_cut() {
        assert_eq!(offered(Backend::Vllm, 8, None), [1, 2].map(ParallelShape::tensor));
    }

    #[test]
    fn experts_are_spread_in_every_way_that_the_engine_has() {
        let moe = MoeSpec {
            experts: 6,
            top_k: 2,
            intermediate_size: 64,
        };
        let shape = |(tp, dp, moe_tp, moe_ep)| ParallelShape::experts(tp, dp, moe_tp, moe_ep);
        let two_gpus = [(1, 1, 1, 1), (1, 2, 1, 2), (1, 2, 2, 1), (2, 1, 1, 2), (2, 1, 2, 1)].map(shape);
        assert_eq!(offered(Backend::Vllm, 2, Some(moe)), two_gpus);
        // Two heads are not cut into four, and six experts make no four groups.
        let four_gpus = [(1, 4, 4, 1), (2, 2, 4, 1)].map(shape);
        let mut offered_on_four = offered(Backend::Vllm, 4, Some(moe));
        offered_on_four.retain(|shape| shape.gpus() == 4);
        assert_eq!(offered_on_four, four_gpus);
        let both = offered(Backend::Sglang, 4, Some(moe));
        assert!(both.contains(&shape((2, 2, 2, 2))), "{both:?}");
    }
}
