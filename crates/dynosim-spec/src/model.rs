//! Facts about a language model that latency and memory depend on.

use serde::Serialize;

/// How the weights of the linear layers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// 16-bit floats, not quantised.
    Bfloat16,
    /// 8-bit floats with one scale per tensor (static or dynamic activations, `ModelOpt` included).
    Fp8PerTensor,
    /// 8-bit floats with one scale per 128 x 128 block.
    Fp8Block,
}

/// A dense decoder-only transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelSpec {
    /// Name by which it was asked for.
    pub name: String,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Width of the feed-forward part.
    pub intermediate_size: u32,
    /// Query heads.
    pub attention_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Entries of the vocabulary.
    pub vocab_size: u32,
    /// Whether queries and keys are normalised per head (Qwen3).
    pub qk_norm: bool,
    /// Storage of the linear layers.
    pub weights: WeightFormat,
}

impl ModelSpec {
    /// KV heads on each GPU of a tensor-parallel group of `tp`; heads are replicated when there are fewer than GPUs.
    pub const fn kv_heads_per_gpu(&self, tp: u32) -> u32 {
        self.kv_heads.div_ceil(tp)
    }

    /// Whether the query heads divide evenly over `tp` GPUs.
    pub const fn splits_over(&self, tp: u32) -> bool {
        tp != 0 && self.attention_heads.is_multiple_of(tp)
    }
}
