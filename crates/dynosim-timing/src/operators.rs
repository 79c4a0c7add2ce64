//! The operators that one pass of a transformer runs, dense or with experts, written once for every kind of
//! kernel latency.

use std::ops::{Deref, Range};

use dynosim_spec::{Backend, Deployment, ParallelShape, SlidingWindow};

use crate::error::TimingError;
use crate::experts::ExpertShape;
use crate::layer_mix::{LayerMix, Windowed};
use crate::model::Price;
use crate::precision::{GemmDtype, Precision};
use crate::reading::Reading;
use crate::table_file::engine_name;
use crate::work::Heads;

/// Share of the peak bandwidth that memory-bound operators reach, and what each call costs besides.
const MEMORY_EFFICIENCY: f64 = 0.8;
const MEMORY_START_S: f64 = 3e-6;

/// Prefill attention runs its rotary embedding, KV writes and norms this much slower than measured alone.
const PREFILL_SIDE_WORK_FACTOR: f64 = 1.1;

/// Bytes of one activation.
const ACTIVATION_BYTES: f64 = 2.0;

/// Most operators of a pass.
const MOST_OPERATORS: usize = 13;

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

/// The operators of one pass, in its order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operators {
    costs: [OperatorCost; MOST_OPERATORS],
    count: usize,
}

impl Operators {
    const NONE: Self = Self {
        costs: [OperatorCost {
            name: "",
            count: 0,
            ms: 0.0,
            extrapolated: false,
        }; MOST_OPERATORS],
        count: 0,
    };

    /// These operators after those before.
    fn then<const N: usize>(mut self, costs: [OperatorCost; N]) -> Self {
        self.costs[self.count..][..N].copy_from_slice(&costs);
        self.count += N;
        self
    }
}

impl Deref for Operators {
    type Target = [OperatorCost];

    fn deref(&self) -> &[OperatorCost] {
        &self.costs[..self.count]
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
    /// Chooses the experts of each token.
    Router,
}

impl Gemm {
    pub(crate) const COUNT: usize = 6;
    const DENSE: [Self; 5] = [Self::Qkv, Self::AttentionOutput, Self::GateUp, Self::Down, Self::Logits];
    const WITH_EXPERTS: [Self; 4] = [Self::Qkv, Self::AttentionOutput, Self::Logits, Self::Router];
}

/// How tokens get to the GPUs of their experts, and what these make of them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatch {
    Before,
    After,
}

/// Latencies of single kernel calls of one deployment on one GPU.
pub(crate) trait Kernels {
    /// Attention of generated tokens at one batch size.
    type DecodeAttention: AttentionOverContext;

    /// A matrix multiplication of `tokens` tokens.
    fn gemm(&self, gemm: Gemm, tokens: u64) -> Reading;

    /// Attention of prompts in one layer.
    fn prefill_attention(&self, prompts: PromptBatch) -> Reading;

    /// Attention in one layer, of either kind, of one new token for each of `batch` sequences.
    fn decode_attention(&self, batch: u64) -> LayerMix<Self::DecodeAttention>;

    /// Sum of `elements` activations over the tensor-parallel group; no time for a group of one.
    fn all_reduce(&self, elements: u64) -> Reading;

    /// The routed experts of one layer, for `tokens` tokens of all GPUs of the worker.
    fn experts(&self, tokens: u64) -> Reading;

    /// Sum of `elements` activations over all GPUs of the worker, where they share out attention by tensor
    /// parallelism; no time without that.
    fn worker_all_reduce(&self, elements: u64) -> Reading;

    /// Exchange of `elements` activations between data-parallel groups, over all GPUs of the worker; no time
    /// with a single group.
    fn exchange(&self, dispatch: Dispatch, elements: u64) -> Reading;
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

/// A model as one GPU of a worker sees it: dense, or dense but for experts in place of the feed-forward part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseShape {
    pub(crate) parallel: ParallelShape,
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
    /// What takes the place of gate, up and down projection; `None` in dense models.
    pub(crate) experts: Option<ExpertShape>,
    pub(crate) sliding_window: Option<SlidingWindow>,
    /// Effective bandwidth of memory-bound operators, bytes per second.
    memory_bandwidth: f64,
    /// What goes with prefill attention in each layer; does not depend on the tokens.
    prefill_side_work_ms: f64,
    /// Whether queries and keys are normalised per head.
    qk_norm: bool,
}

impl DenseShape {
    /// # Errors
    /// If nothing is known about the model, or it does not divide over the GPUs in the way that is asked for.
    pub(crate) fn of(deployment: &Deployment, purpose: &'static str) -> Result<Self, TimingError> {
        let Some(model) = &deployment.model else {
            return Err(TimingError::UnknownModel {
                model: deployment.model_name.clone(),
                purpose,
            });
        };
        let backend = deployment.engine.backend;
        let parallel = deployment.shape.of_model(Some(model), backend);
        let parallel = parallel.map_err(|reason| TimingError::ImpossibleShape {
            model: deployment.model_name.clone(),
            shape: deployment.shape,
            reason,
        })?;
        if !model.splits_over(parallel.tp) {
            return Err(TimingError::UnevenHeads {
                model: deployment.model_name.clone(),
                heads: model.attention_heads,
                tp: parallel.tp,
            });
        }
        let tp = u64::from(parallel.tp);
        let (head_dim, ffn) = (u64::from(model.head_dim), u64::from(model.intermediate_size));
        let query_heads = u64::from(model.attention_heads) / tp;
        let kv_heads = u64::from(model.kv_heads_per_gpu(parallel.tp));
        let query_width = query_heads * head_dim;
        let mut shape = Self {
            parallel,
            tp: parallel.tp,
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
            precision: Precision::of(model.weights, backend),
            experts: model.moe.and_then(|moe| ExpertShape::of(model, moe, parallel)),
            sliding_window: model.sliding_window,
            memory_bandwidth: deployment.gpu.memory_bandwidth * MEMORY_EFFICIENCY,
            prefill_side_work_ms: 0.0,
            qk_norm: model.qk_norm,
        };
        shape.prefill_side_work_ms = shape.side_work_ms(model.qk_norm);
        Ok(shape)
    }

    /// [`DenseShape::of`] a deployment whose operators are known: experts on vLLM only.
    ///
    /// # Errors
    /// As [`DenseShape::of`], and for experts on another engine.
    pub(crate) fn priced(deployment: &Deployment, purpose: &'static str) -> Result<Self, TimingError> {
        let shape = Self::of(deployment, purpose)?;
        let backend = deployment.engine.backend;
        if shape.experts.is_some() && backend != Backend::Vllm {
            return Err(TimingError::ExpertsOfEngine {
                model: deployment.model_name.clone(),
                engine: engine_name(backend),
            });
        }
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

    /// The matrix multiplications that its passes have.
    pub(crate) const fn gemms(&self) -> &'static [Gemm] {
        match self.experts {
            None => &Gemm::DENSE,
            Some(_) => &Gemm::WITH_EXPERTS,
        }
    }

    /// Share of the layers whose attention has a sliding window, and its tokens; `None` if there are no such layers.
    pub(crate) fn window(&self) -> Option<(f64, u64)> {
        let SlidingWindow { tokens, layers } = self.sliding_window?;
        Some((f64::from(layers) / f64::from(self.layers), u64::from(tokens)))
    }

    /// Windows of attention: 0, which is none, and that of the layers with one, if there are such.
    pub(crate) fn windows(&self) -> LayerMix<u64> {
        let windowed = self.window().map(|(share, tokens)| Windowed {
            share,
            attention: tokens,
        });
        LayerMix::new(0, windowed)
    }

    /// Sequences of the group of GPUs that has most, if a worker serves `sequences` of them: groups that attend to
    /// different sequences have equally many, or one less.
    pub(crate) const fn sequences_of_group(&self, sequences: u32) -> u32 {
        match self.parallel.attention_dp {
            0 | 1 => sequences,
            groups => sequences.div_ceil(groups),
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
            Gemm::Router => {
                let experts = match &self.experts {
                    Some(shape) => shape.experts,
                    None => 0,
                };
                (experts, self.hidden, GemmDtype::Bfloat16)
            }
        }
    }

    /// Operators that compute `prompts`.
    pub(crate) fn prefill(&self, kernels: &impl Kernels, prompts: PromptBatch) -> Operators {
        let pass = self.prompt_pass(prompts.tokens(), kernels.prefill_attention(prompts));
        match self.experts {
            None => self.dense_pass(kernels, pass, prompts.batch),
            // The reference prices no logits with prompts of models with experts.
            Some(_) => self.expert_pass(kernels, pass, []),
        }
    }

    /// Operators of a pass that computes prompts and generates, among its `tokens` tokens, given `attention` of one
    /// layer. The next token of `sequences` sequences is computed, also in models with experts.
    pub(crate) fn fused_pass(
        &self,
        kernels: &impl Kernels,
        tokens: u64,
        sequences: u64,
        attention: Reading,
    ) -> Operators {
        self.pass(kernels, self.prompt_pass(tokens, attention), sequences)
    }

    /// Operators that generate one token for each of `batch` sequences, given `attention` of one layer; `tokens`
    /// are computed for that.
    pub(crate) fn decode(&self, kernels: &impl Kernels, (batch, tokens): (u64, u64), attention: Reading) -> Operators {
        self.pass(kernels, Pass { tokens, attention }, batch)
    }

    /// A pass of so many tokens, prompts among them, with what goes with their attention.
    fn prompt_pass(&self, tokens: u64, mut attention: Reading) -> Pass {
        attention.ms += PREFILL_SIDE_WORK_FACTOR * self.prefill_side_work_ms;
        Pass { tokens, attention }
    }

    /// A pass from which the next token of `sequences` sequences is computed.
    fn pass(&self, kernels: &impl Kernels, pass: Pass, sequences: u64) -> Operators {
        if self.experts.is_none() {
            return self.dense_pass(kernels, pass, sequences);
        }
        let logits = once("logits_gemm", kernels.gemm(Gemm::Logits, sequences));
        self.expert_pass(kernels, pass, [logits])
    }

    /// A pass of a dense model from which the next token of `sequences` sequences is computed.
    fn dense_pass(&self, kernels: &impl Kernels, pass: Pass, sequences: u64) -> Operators {
        let Pass { tokens, .. } = pass;
        let gemm = |gemm| kernels.gemm(gemm, tokens);
        let all_reduce = kernels.all_reduce(tokens.saturating_mul(self.hidden));
        self.before_feed_forward(kernels, pass).then([
            self.in_layers("gate_ffn1_gemm", gemm(Gemm::GateUp)),
            self.in_layers("act_gate", self.moved(tokens, self.gate_up_width + self.ffn_width)),
            self.in_layers("ffn2_gemm", gemm(Gemm::Down)),
            once("logits_gemm", kernels.gemm(Gemm::Logits, sequences)),
            once("embedding_ar", all_reduce),
            self.in_layers("ar_1", all_reduce),
            self.in_layers("ar_2", all_reduce),
        ])
    }

    /// A pass of a model with experts. Every group of GPUs has as many tokens as this one.
    fn expert_pass<const N: usize>(&self, kernels: &impl Kernels, pass: Pass, logits: [OperatorCost; N]) -> Operators {
        let Pass { tokens, .. } = pass;
        let of_worker = |count: u64| count.saturating_mul(u64::from(self.parallel.attention_dp));
        let elements = tokens.saturating_mul(self.hidden);
        let dispatch = |dispatch| {
            let between_groups = kernels.exchange(dispatch, of_worker(elements));
            kernels.worker_all_reduce(elements).plus(between_groups)
        };
        self.before_feed_forward(kernels, pass)
            .then([
                self.in_layers("router_gemm", kernels.gemm(Gemm::Router, tokens)),
                self.in_layers("moe_pre_dispatch", dispatch(Dispatch::Before)),
                self.in_layers("moe", kernels.experts(of_worker(tokens))),
                self.in_layers("moe_post_dispatch", dispatch(Dispatch::After)),
            ])
            .then(logits)
            .then([once("embedding_ar", kernels.all_reduce(elements))])
    }

    /// What dense models and models with experts have in common.
    fn before_feed_forward(&self, kernels: &impl Kernels, Pass { tokens, attention }: Pass) -> Operators {
        let add_norm = self.moved(tokens, 4 * self.hidden);
        Operators::NONE.then([
            once("embedding", self.moved(tokens, self.hidden)),
            self.in_layers("add_norm_1", add_norm),
            self.in_layers("qkv_gemm", kernels.gemm(Gemm::Qkv, tokens)),
            self.in_layers("attention", attention),
            self.in_layers("proj_gemm", kernels.gemm(Gemm::AttentionOutput, tokens)),
            self.in_layers("add_norm_2", add_norm),
        ])
    }

    fn in_layers(&self, name: &'static str, one: Reading) -> OperatorCost {
        OperatorCost::of(name, self.layers, one)
    }

    /// Reading and writing of so many activations per token.
    fn moved(&self, tokens: u64, elements_per_token: u64) -> Reading {
        let elements = tokens as f64 * elements_per_token as f64;
        Reading::measured(self.memory_bound_ms(elements * ACTIVATION_BYTES))
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

/// What the operators of a pass work on.
#[derive(Debug, Clone, Copy)]
struct Pass {
    /// Tokens that are computed.
    tokens: u64,
    /// Attention in one layer.
    attention: Reading,
}

fn once(name: &'static str, one: Reading) -> OperatorCost {
    OperatorCost::of(name, 1, one)
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
