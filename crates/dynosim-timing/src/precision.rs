//! Which number formats the kernels of a deployment work in.

use dynosim_spec::{Backend, WeightFormat};
use serde::{Deserialize, Serialize};

/// Number format of a matrix multiplication, as the tables name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GemmDtype {
    /// 16-bit floats.
    Bfloat16,
    /// 8-bit floats, one scale per tensor or token.
    Fp8,
    /// 8-bit floats, one scale per 128 x 128 block of the weights.
    Fp8Block,
}

impl GemmDtype {
    /// Name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Fp8 => "fp8",
            Self::Fp8Block => "fp8_block",
        }
    }

    /// Whether 8-bit arithmetic is used.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::Fp8 | Self::Fp8Block)
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> f64 {
        if self.is_fp8() { 1.0 } else { 2.0 }
    }
}

/// Number format inside attention or of the KV cache, as the tables name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionDtype {
    /// 16-bit floats.
    Bfloat16,
    /// 8-bit floats.
    Fp8,
}

impl AttentionDtype {
    /// Name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Fp8 => "fp8",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bfloat16 => 2.0,
            Self::Fp8 => 1.0,
        }
    }
}

/// Number format of the weights of experts, as the tables name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertDtype {
    /// 16-bit floats.
    Bfloat16,
    /// 8-bit floats, one scale per tensor or token.
    Fp8,
    /// 8-bit floats, one scale per 128 x 128 block of the weights.
    Fp8Block,
    /// Weights of 4-bit floats with a scale per 32 elements, computed with in 16 bits.
    W4a16Mxfp4,
}

impl ExpertDtype {
    /// What experts of a checkpoint stored as `weights` are kept in.
    pub(crate) const fn of(weights: WeightFormat) -> Self {
        match weights {
            WeightFormat::Bfloat16 => Self::Bfloat16,
            WeightFormat::Fp8PerTensor => Self::Fp8,
            WeightFormat::Fp8Block => Self::Fp8Block,
            WeightFormat::Mxfp4Experts => Self::W4a16Mxfp4,
        }
    }

    /// Name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Fp8 => "fp8",
            Self::Fp8Block => "fp8_block",
            Self::W4a16Mxfp4 => "w4a16_mxfp4",
        }
    }

    /// Bytes of one weight; scales are not counted.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bfloat16 => 2.0,
            Self::Fp8 | Self::Fp8Block => 1.0,
            Self::W4a16Mxfp4 => 0.5,
        }
    }

    /// Multiple of the 16-bit peak rate at which experts are computed.
    pub(crate) const fn speedup(self) -> f64 {
        match self {
            Self::Bfloat16 | Self::W4a16Mxfp4 => 1.0,
            Self::Fp8 | Self::Fp8Block => 2.0,
        }
    }
}

/// Number formats of one deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precision {
    /// Linear layers of the transformer blocks, experts apart; routers of experts and the logits are always 16-bit.
    pub(crate) gemm: GemmDtype,
    /// KV cache.
    pub(crate) kv: AttentionDtype,
    /// Arithmetic of prefill attention.
    pub(crate) prefill_attention: AttentionDtype,
}

impl Precision {
    /// What `backend` runs for a checkpoint stored as `weights`: 8-bit weights bring an 8-bit KV
    /// cache, and vLLM computes prefill attention in 16 bits regardless.
    pub(crate) const fn of(weights: WeightFormat, backend: Backend) -> Self {
        let gemm = match weights {
            WeightFormat::Bfloat16 | WeightFormat::Mxfp4Experts => GemmDtype::Bfloat16,
            WeightFormat::Fp8PerTensor => GemmDtype::Fp8,
            WeightFormat::Fp8Block => GemmDtype::Fp8Block,
        };
        let kv = if gemm.is_fp8() {
            AttentionDtype::Fp8
        } else {
            AttentionDtype::Bfloat16
        };
        let prefill_attention = match backend {
            Backend::Vllm => AttentionDtype::Bfloat16,
            Backend::Sglang => kv,
        };
        Self {
            gemm,
            kv,
            prefill_attention,
        }
    }
}
