//! What kernels have to compute and to move, and the time that takes at given rates.

use dynosim_spec::GpuSpec;

use crate::operators::PromptBatch;
use crate::precision::{AttentionDtype, GemmDtype};

/// Arithmetic and memory traffic of one kernel call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    /// Floating-point operations.
    pub(crate) flops: f64,
    /// Bytes read and written.
    pub(crate) bytes: f64,
}

/// Rates of a GPU, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
}

impl Work {
    /// `m` tokens times a weight of `n` by `k`; the result counts as elements of the same size.
    pub(crate) fn gemm(dtype: GemmDtype, m: f64, n: f64, k: f64) -> Self {
        Self {
            flops: 2.0 * m * n * k,
            bytes: dtype.bytes() * (m * n + m * k + n * k),
        }
    }

    /// Milliseconds on the roofline, whichever of arithmetic and traffic takes longer.
    pub(crate) fn ms(self, rates: Rates) -> f64 {
        1e3 * (self.flops / rates.flops).max(self.bytes / rates.bytes)
    }
}

/// Heads that one GPU serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Heads {
    pub(crate) query: f64,
    pub(crate) kv: f64,
    pub(crate) dim: f64,
}

impl Heads {
    /// One new token for each of `batch` sequences with `kv_tokens` tokens each, the new one included.
    pub(crate) fn decode_work(self, kv: AttentionDtype, batch: f64, kv_tokens: f64) -> Work {
        let past = (kv_tokens - 1.0).max(0.0);
        let Self {
            query,
            kv: kv_heads,
            dim,
        } = self;
        Work {
            flops: 4.0 * batch * query * dim * past,
            bytes: batch * (4.0 * query * dim + 2.0 * kv_heads * past * dim * kv.bytes()),
        }
    }

    /// Prompts that look back over `window` tokens; 0 stands for all.
    pub(crate) fn prefill_work(self, kv: AttentionDtype, prompts: PromptBatch, window: u64) -> Work {
        let batch = prompts.batch as f64;
        let (new, full) = (prompts.new_tokens as f64, prompts.full_tokens() as f64);
        let prefix = full - new;
        let Self {
            query,
            kv: kv_heads,
            dim,
        } = self;
        // Twice the pairs of a new token and one that it looks at.
        let pairs = if window == 0 || prompts.full_tokens() <= window {
            full * full - prefix * prefix
        } else {
            2.0 * new * window as f64
        };
        Work {
            flops: 2.0 * batch * pairs * query * dim,
            bytes: 4.0 * batch * query * new * dim + kv.bytes() * 2.0 * batch * kv_heads * full * dim,
        }
    }
}

impl Rates {
    /// Peaks for a matrix multiplication. Without 8-bit floats in hardware, other 8-bit units or
    /// double 16-bit rate are assumed.
    pub(crate) fn gemm(gpu: &GpuSpec, dtype: GemmDtype) -> Self {
        let flops = if dtype.is_fp8() {
            gpu.fp8_flops.unwrap_or(2.0 * gpu.bf16_flops)
        } else {
            gpu.bf16_flops
        };
        Self {
            flops,
            bytes: gpu.memory_bandwidth,
        }
    }

    /// Peaks for attention that computes in `dtype`, or reads its KV cache in it.
    pub(crate) fn attention(gpu: &GpuSpec, dtype: AttentionDtype) -> Self {
        let speedup = match dtype {
            AttentionDtype::Bfloat16 => 1.0,
            AttentionDtype::Fp8 => 2.0,
        };
        Self {
            flops: gpu.bf16_flops * speedup,
            bytes: gpu.memory_bandwidth,
        }
    }
}
