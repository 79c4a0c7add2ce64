//! The operators that one pass of a dense transformer runs, written once for every kind of kernel
//! latency.

use std::ops::Range;

use dynosim_spec::Deployment;

use crate::error::TimingError;
use crate::model::Price;
use crate::precision::{GemmDtype, Precision};
use crate::reading::Reading;
use crate::work::Heads;

/// Share of the peak bandwidth that memory-bound operators reach, and what each call costs besides.
const MEMORY_EFFICIENCY: f64 = 0.8;
const MEMORY_START_S: f64 = 3e-6;

/// Prefill attention runs its rotary embedding, KV writes and norms this much slower than measured alone.
const PREFILL_SIDE_WORK_FACTOR: f64 = 1.1;

/// Bytes of one activation.
const ACTIVATION_BYTES: f64 = 2.0;

/// Operators of a pass.
pub(crate) const OPERATORS: usize = 13;

/// What all calls of one operator of a pass cost together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatorCost {
    /// Name of the operator.
    pub name: &'static str,
    /// How often it runs in a pass.
    pub count: u32,
    /// Milliseconds of all these calls.
    pub ms: f64,
    /// Whether the figure rests on extrapolation beyond the model's data.
    pub extrapolated: bool,
}

impl OperatorCost {
    fn of(name: &'static str, count: u32, one_call: Reading) -> Self {
        Self {
            name,
            count,
            ms: f64::from(count) * one_call.ms,
            extrapolated: one_call.extrapolated,
        }
    }
}

/// Prompts that are computed together, all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptBatch {
    /// Sequences.
    pub(crate) batch: u64,
    /// Tokens to be computed of each.
    pub(crate) new_tokens: u64,
    /// Tokens of each before those, already in the KV cache.
    pub(crate) prefix: u64,
}

impl PromptBatch {
    pub(crate) const fn new(batch: u32, new_tokens: u64, prefix: u64) -> Self {
        Self {
            batch: batch as u64,
            new_tokens,
            prefix,
        }
    }

    pub(crate) const fn full_tokens(self) -> u64 {
        self.new_tokens.saturating_add(self.prefix)
    }

    pub(crate) const fn tokens(self) -> u64 {
        self.batch.saturating_mul(self.new_tokens)
    }

    /// Share of the causal area that is new.
    pub(crate) fn new_share(self) -> f64 {
        let (full, prefix) = (self.full_tokens() as f64, self.prefix as f64);
        if full > 0.0 {
            1.0 - (prefix / full) * (prefix / full)
        } else {
            0.0
        }
    }
}

/// The matrix multiplications of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gemm {
    Qkv,
    AttentionOutput,
    GateUp,
    Down,
    Logits,
}

/// Latencies of single kernel calls of one deployment on one GPU.
pub(crate) trait Kernels {
    /// Attention of generated tokens at one batch size.
    type DecodeAttention: AttentionOverContext;

    /// A matrix multiplication of `tokens` tokens.
    fn gemm(&self, gemm: Gemm, tokens: u64) -> Reading;

    /// Attention of prompts in one layer.
    fn prefill_attention(&self, prompts: PromptBatch) -> Reading;

    /// Attention in one layer of one new token for each of `batch` sequences.
    fn decode_attention(&self, batch: u64) -> Self::DecodeAttention;

    /// Sum of `elements` activations over the tensor-parallel group; no time for a group of one.
    fn all_reduce(&self, elements: u64) -> Reading;
}

/// Latency of attention, in one layer, of the tokens that one batch generates.
pub(crate) trait AttentionOverContext {
    /// Latency for sequences of `kv_tokens` tokens, the new one included.
    fn at(&self, kv_tokens: u64) -> Reading;

    /// Calls `found` with exactly what [`at`](Self::at) gives for one length after the other.
    fn over(&self, kv_tokens: Range<u64>, mut found: impl FnMut(Reading)) {
        for kv_tokens in kv_tokens {
            found(self.at(kv_tokens));
        }
    }
}

/// A dense model as one GPU of a tensor-parallel group sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseShape {
    pub(crate) tp: u32,
    pub(crate) layers: u32,
    pub(crate) hidden: u64,
    pub(crate) query_heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: u64,
    /// Width of queries, and of attention's result.
    pub(crate) query_width: u64,
    /// Width of queries, keys and values together.
    pub(crate) qkv_width: u64,
    /// Width of gate and up projection together.
    pub(crate) gate_up_width: u64,
    /// Width of the feed-forward part.
    pub(crate) ffn_width: u64,
    pub(crate) vocab: u64,
    pub(crate) precision: Precision,
    /// Effective bandwidth of memory-bound operators, bytes per second.
    memory_bandwidth: f64,
    /// What goes with prefill attention in each layer; does not depend on the tokens.
    prefill_side_work_ms: f64,
    /// Whether queries and keys are normalised per head.
    qk_norm: bool,
}

impl DenseShape {
    /// # Errors
    /// If nothing is known about the model, or its query heads do not divide over the GPUs.
    pub(crate) fn of(deployment: &Deployment, purpose: &'static str) -> Result<Self, TimingError> {
        let Some(model) = &deployment.model else {
            return Err(TimingError::UnknownModel {
                model: deployment.model_name.clone(),
                purpose,
            });
        };
        if !model.splits_over(deployment.tp) {
            return Err(TimingError::UnevenHeads {
                model: deployment.model_name.clone(),
                heads: model.attention_heads,
                tp: deployment.tp,
            });
        }
        let tp = u64::from(deployment.tp);
        let (head_dim, ffn) = (u64::from(model.head_dim), u64::from(model.intermediate_size));
        let query_heads = u64::from(model.attention_heads) / tp;
        let kv_heads = u64::from(model.kv_heads_per_gpu(deployment.tp));
        let query_width = query_heads * head_dim;
        let mut shape = Self {
            tp: deployment.tp,
            layers: model.layers,
            hidden: u64::from(model.hidden_size),
            query_heads,
            kv_heads,
            head_dim,
            query_width,
            qkv_width: query_width.saturating_add((kv_heads * head_dim).saturating_mul(2)),
            gate_up_width: 2 * ffn / tp,
            ffn_width: ffn / tp,
            vocab: u64::from(model.vocab_size) / tp,
            precision: Precision::of(model.weights, deployment.engine.backend),
            memory_bandwidth: deployment.gpu.memory_bandwidth * MEMORY_EFFICIENCY,
            prefill_side_work_ms: 0.0,
            qk_norm: model.qk_norm,
        };
        shape.prefill_side_work_ms = shape.side_work_ms(model.qk_norm);
        Ok(shape)
    }

    /// Heads of one GPU.
    pub(crate) fn heads(&self) -> Heads {
        Heads {
            query: self.query_heads as f64,
            kv: self.kv_heads as f64,
            dim: self.head_dim as f64,
        }
    }

    /// Output and input features and number format of a matrix multiplication.
    pub(crate) const fn weight(&self, gemm: Gemm) -> (u64, u64, GemmDtype) {
        let dtype = self.precision.gemm;
        match gemm {
            Gemm::Qkv => (self.qkv_width, self.hidden, dtype),
            Gemm::AttentionOutput => (self.hidden, self.query_width, dtype),
            Gemm::GateUp => (self.gate_up_width, self.hidden, dtype),
            Gemm::Down => (self.hidden, self.ffn_width, dtype),
            Gemm::Logits => (self.vocab, self.hidden, GemmDtype::Bfloat16),
        }
    }

    /// Operators that compute `prompts`.
    pub(crate) fn prefill(&self, kernels: &impl Kernels, prompts: PromptBatch) -> [OperatorCost; OPERATORS] {
        let attention = kernels.prefill_attention(prompts);
        self.prefill_pass(kernels, prompts.tokens(), prompts.batch, attention)
    }

    /// Operators of a pass that computes prompts, among its `tokens` tokens, given `attention` of one layer.
    pub(crate) fn prefill_pass(
        &self,
        kernels: &impl Kernels,
        tokens: u64,
        sequences: u64,
        mut attention: Reading,
    ) -> [OperatorCost; OPERATORS] {
        attention.ms += PREFILL_SIDE_WORK_FACTOR * self.prefill_side_work_ms;
        self.pass(kernels, tokens, sequences, attention)
    }

    /// Operators that generate one token for each of `batch` sequences, given `attention` of one layer; `tokens`
    /// are computed for that.
    pub(crate) fn decode(
        &self,
        kernels: &impl Kernels,
        (batch, tokens): (u64, u64),
        attention: Reading,
    ) -> [OperatorCost; OPERATORS] {
        self.pass(kernels, tokens, batch, attention)
    }

    /// A pass of `tokens` tokens from which the next token of `sequences` sequences is computed.
    fn pass(
        &self,
        kernels: &impl Kernels,
        tokens: u64,
        sequences: u64,
        attention: Reading,
    ) -> [OperatorCost; OPERATORS] {
        let layers = |name, one: Reading| OperatorCost::of(name, self.layers, one);
        let once = |name, one: Reading| OperatorCost::of(name, 1, one);
        let gemm = |gemm| kernels.gemm(gemm, tokens);
        let moved = |elements_per_token: u64| {
            let elements = tokens as f64 * elements_per_token as f64;
            Reading::measured(self.memory_bound_ms(elements * ACTIVATION_BYTES))
        };
        let add_norm = moved(4 * self.hidden);
        let all_reduce = kernels.all_reduce(tokens.saturating_mul(self.hidden));
        [
            once("embedding", moved(self.hidden)),
            layers("add_norm_1", add_norm),
            layers("qkv_gemm", gemm(Gemm::Qkv)),
            layers("attention", attention),
            layers("proj_gemm", gemm(Gemm::AttentionOutput)),
            layers("add_norm_2", add_norm),
            layers("gate_ffn1_gemm", gemm(Gemm::GateUp)),
            layers("act_gate", moved(self.gate_up_width + self.ffn_width)),
            layers("ffn2_gemm", gemm(Gemm::Down)),
            once("logits_gemm", kernels.gemm(Gemm::Logits, sequences)),
            once("embedding_ar", all_reduce),
            layers("ar_1", all_reduce),
            layers("ar_2", all_reduce),
        ]
    }

    /// What goes with attention of generated tokens in all layers: launching the rotary embedding, the KV write and,
    /// where the model has them, the norms of queries and of keys.
    ///
    /// Nothing in 8 bits: there the measured matrix multiplications hold a quantisation of their input that a running
    /// engine fuses into other kernels, which is about as long.
    pub(crate) fn decode_side_work_ms(&self) -> f64 {
        if self.precision.gemm.is_fp8() {
            return 0.0;
        }
        let launches = if self.qk_norm { 4.0 } else { 2.0 };
        f64::from(self.layers) * launches * self.memory_bound_ms(0.0)
    }

    /// Rotary embedding, KV write and, where the model has them, norms of queries and keys.
    fn side_work_ms(&self, qk_norm: bool) -> f64 {
        let (queries, keys) = (self.query_width as f64, (self.kv_heads * self.head_dim) as f64);
        let rotary = 2.0 * self.memory_bound_ms(2.0 * queries + 2.0 * keys);
        let kv_write = 2.0 * self.memory_bound_ms(keys * self.precision.prefill_attention.bytes());
        let norms = if qk_norm {
            4.0 * self.memory_bound_ms(2.0 * queries) + 4.0 * self.memory_bound_ms(2.0 * keys)
        } else {
            0.0
        };
        rotary + kv_write + norms
    }

    fn memory_bound_ms(&self, bytes: f64) -> f64 {
        1e3 * (bytes / self.memory_bandwidth + MEMORY_START_S)
    }
}

/// All operators of a pass together.
pub(crate) fn total(operators: &[OperatorCost]) -> Price {
    let mut price = Price::ZERO;
    for operator in operators {
        price.ms += operator.ms;
        if operator.extrapolated {
            price.extrapolated_ms += operator.ms;
        }
    }
    price
}
