//! Prices of the passes of a model in an engine that computes prompts and generated tokens together.

use dynosim_spec::{Deployment, EnginePhysics, StepTerm};

use crate::decode_inputs::DecodeInputs;
use crate::decode_rows::Padding;
use crate::dense_model::DenseModel;
use crate::engine_kernels::EngineKernels;
use crate::graph_sizes::GraphSizes;
use crate::model::{Price, PromptChunk, StepShape, TimingModel};
use crate::operators::{AttentionOverContext, DenseShape, Kernels, OperatorCost, Operators, PromptBatch, total};
use crate::reading::Reading;
use crate::terms::{PriceTerm, StepPart};

/// A model whose step is one pass over all its tokens: weights are read once, attention is launched once a
/// layer, and the constants of a calibration are added.
///
/// If several groups of GPUs attend to sequences of their own (`attention_dp`), a step is one of the whole worker and
/// its price that of the group with most sequences, whose prompts are average ones. Models with experts
/// have the operators of their unfused passes, and logits for prompts, too.
pub(crate) struct FusedModel<K: Kernels> {
    dense: DenseModel<EngineKernels<K>>,
    /// Whether each prompt's attention is priced by its own length.
    by_own_length: bool,
    step_ms: f64,
    /// Of the small kernels beside attention of generated tokens.
    side_work_ms: f64,
    /// What launching attention in a layer costs, whatever there is to compute.
    attention_launch: Reading,
    /// What readers of results ought to know about the kernels' latencies.
    warnings: Vec<String>,
}

impl<K: Kernels> FusedModel<K> {
    pub(crate) fn new(shape: DenseShape, kernels: K, deployment: &Deployment, physics: &EnginePhysics) -> Self {
        let step_ms = physics.calibration.constants.step_ms.as_ref();
        let step_ms = physics.value(StepTerm::StepConstant, step_ms, 0.0);
        let sizes = if physics.has(StepTerm::GraphPadding) {
            GraphSizes::of((deployment.engine.max_num_seqs).map(|seqs| shape.sequences_of_group(seqs)))
        } else {
            GraphSizes::NONE
        };
        let side_work_ms = if physics.has(StepTerm::SideKernels) {
            shape.decode_side_work_ms()
        } else {
            0.0
        };
        let padding = Padding {
            sizes,
            step_ms: step_ms + side_work_ms,
        };
        let attention_launch = kernels.prefill_attention(PromptBatch::new(1, 1, 0));
        let kernels = EngineKernels::new(kernels, &shape, deployment.gpu.multiprocessors.into(), physics);
        Self {
            dense: DenseModel::padded(shape, kernels, padding),
            by_own_length: physics.has(StepTerm::PromptSquares),
            step_ms,
            side_work_ms,
            attention_launch,
            warnings: Vec::new(),
        }
    }

    /// The same with what readers of results ought to know about the kernels' latencies.
    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// The operators of a pass, the constant of the step left out.
    fn operators(&self, step: &StepShape, prompts: &[PromptChunk]) -> Operators {
        let DenseModel { shape, kernels, .. } = &self.dense;
        let batch = shape.sequences_of_group(step.decode_seqs);
        let sequences = u64::from(shape.sequences_of_group(count(prompts))) + u64::from(batch);
        let mut attention = self.prompt_attention(step, prompts);
        if let Some(context) = step.mean_context() {
            let decode = self.decode_attention(batch.into(), context.saturating_add(1));
            // The launch is that of the prompts.
            attention.ms += (decode.ms - self.attention_launch.ms).max(0.0);
            attention.extrapolated |= decode.extrapolated;
        }
        shape.fused_pass(kernels, self.group_tokens(step, prompts), sequences, attention)
    }

    /// Tokens that the group with most sequences computes.
    fn group_tokens(&self, step: &StepShape, prompts: &[PromptChunk]) -> u64 {
        let group_seqs = |seqs| u64::from(self.dense.shape.sequences_of_group(seqs));
        let new_tokens = prompts.iter().map(|chunk| chunk.new_tokens);
        let new_tokens = new_tokens.fold(0, u64::saturating_add);
        let prompt_seqs = count(prompts);
        let of_group = match group_seqs(prompt_seqs) {
            all if all == u64::from(prompt_seqs) => new_tokens,
            some => new_tokens.saturating_mul(some).div_ceil(u64::from(prompt_seqs)),
        };
        of_group.saturating_add(group_seqs(step.decode_seqs))
    }

    /// The operators of a pass by what they are, with what the calibration adds to them apart.
    fn operator_terms(&self, operators: &[OperatorCost], tokens: u64) -> Vec<PriceTerm> {
        let kernels = &self.dense.kernels;
        let calls = |operator: &OperatorCost| f64::from(operator.count) * kernels.all_reduce_call_ms();
        let mut terms = Vec::new();
        for operator in operators {
            let (term, added) = match operator.name {
                "qkv_gemm" | "proj_gemm" | "gate_ffn1_gemm" | "ffn2_gemm" | "router_gemm" => {
                    ("gemm", Some(("gemm_derate", kernels.derated_ms(operator.ms, tokens))))
                }
                "logits_gemm" => ("logits", None),
                "attention" => ("attention", None),
                "embedding_ar" | "ar_1" | "ar_2" => ("all_reduce", Some(("all_reduce_call", calls(operator)))),
                "moe" => ("experts", None),
                "moe_pre_dispatch" | "moe_post_dispatch" => {
                    ("expert_dispatch", Some(("all_reduce_call", calls(operator))))
                }
                _ => ("memory_bound", None),
            };
            let added_ms = added.map_or(0.0, |(_, ms)| ms);
            add_term(&mut terms, term, operator.ms - added_ms);
            if let Some((term, ms)) = added {
                add_term(&mut terms, term, ms);
            }
        }
        terms
    }

    /// The terms of a step that only generates; what padding adds is apart.
    fn decode_terms(&self, step: &StepShape) -> Vec<PriceTerm> {
        let DenseModel { shape, kernels, .. } = &self.dense;
        let (batch, kv_tokens) = (
            u64::from(shape.sequences_of_group(step.decode_seqs)),
            step.mean_context().unwrap_or_default().saturating_add(1),
        );
        let attention = self.decode_attention(batch, kv_tokens);
        let bare = shape.decode(kernels, (batch, batch), attention);
        let mut terms = self.operator_terms(&bare, batch);
        let rest = self.dense.ask_row(batch, |row| row.price(kv_tokens)).ms
            - total(&bare).ms
            - self.step_ms
            - self.side_work_ms;
        terms.push(PriceTerm::new("graph_padding", rest));
        terms.push(PriceTerm::new("side_kernels", self.side_work_ms));
        terms.push(PriceTerm::new("step_constant", self.step_ms));
        terms
    }

    /// Attention in one layer of the prompts of one group, launched once.
    fn prompt_attention(&self, step: &StepShape, prompts: &[PromptChunk]) -> Reading {
        let DenseModel { shape, kernels, .. } = &self.dense;
        if !self.by_own_length {
            let (tokens, prefix) = step.mean_prefill().unwrap_or_default();
            return kernels.prefill_attention(PromptBatch::new(
                shape.sequences_of_group(step.prefill_seqs),
                tokens.saturating_sub(prefix),
                prefix,
            ));
        }
        let mut sum = self.attention_launch;
        let prompt_seqs = count(prompts);
        let group_share = f64::from(shape.sequences_of_group(prompt_seqs)) / f64::from(prompt_seqs.max(1));
        for chunk in prompts {
            let prompt = PromptBatch::new(1, chunk.new_tokens, chunk.prefix_tokens);
            let attention = kernels.prefill_attention(prompt);
            sum.ms += group_share * (attention.ms - self.attention_launch.ms * prompt.new_share());
            sum.extrapolated |= attention.extrapolated;
        }
        sum
    }

    fn decode_attention(&self, batch: u64, kv_tokens: u64) -> Reading {
        self.dense.ask_row(batch, |row| row.attention().at(kv_tokens))
    }
}

/// Adds to the term of this name, which is new if there is none.
fn add_term(terms: &mut Vec<PriceTerm>, name: &'static str, ms: f64) {
    match terms.iter_mut().find(|term| term.name == name) {
        Some(term) => term.ms += ms,
        None => terms.push(PriceTerm::new(name, ms)),
    }
}

fn count(prompts: &[PromptChunk]) -> u32 {
    u32::try_from(prompts.len()).unwrap_or(u32::MAX)
}

impl<K: Kernels> std::fmt::Debug for FusedModel<K>
where
    K: std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FusedModel")
            .field("dense", &self.dense)
            .finish_non_exhaustive()
    }
}

impl<K> TimingModel for FusedModel<K>
where
    K: Kernels + std::fmt::Debug + Send + Sync,
    K::DecodeAttention: Send + Sync,
{
    fn prefill(&self, step: &StepShape) -> Price {
        let price = self.dense.prefill(step);
        Price {
            ms: price.ms + self.step_ms,
            ..price
        }
    }

    fn decode(&self, step: &StepShape) -> Price {
        self.dense.decode(step)
    }

    fn fused(&self, step: &StepShape, prompts: &[PromptChunk]) -> Price {
        let price = total(&self.operators(step, prompts));
        Price {
            ms: (price.ms + self.step_ms).max(0.0),
            extrapolated_ms: price.extrapolated_ms.max(0.0),
        }
    }

    fn terms(&self, part: StepPart<'_>) -> Vec<PriceTerm> {
        match part {
            StepPart::Prompts(step) => vec![PriceTerm::new(part.name(), self.prefill(step).ms)],
            StepPart::Decodes(step) => self.decode_terms(step),
            StepPart::Fused(step, prompts) => {
                let tokens = self.group_tokens(step, prompts);
                let mut terms = self.operator_terms(&self.operators(step, prompts), tokens);
                terms.push(PriceTerm::new("step_constant", self.step_ms));
                terms
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        self.dense.decode_depends_on()
    }

    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        self.dense.decode_over_contexts(decode_seqs, first_context, prices);
    }
}
