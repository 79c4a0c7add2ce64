//! Kernel latencies as a running engine sees them: those of the tables, with what the calibration adds.

use dynosim_spec::{CalibrationConstants, EnginePhysics, StepTerm};

use crate::operators::{AttentionOverContext, DenseShape, Gemm, Kernels, PromptBatch};
use crate::reading::Reading;

/// Tokens up to which matrix multiplications wait for memory rather than arithmetic, and how many doublings of
/// it later real data slows them down in full.
const DERATE_FROM_TOKENS: f64 = 256.0;
const DERATE_DOUBLINGS: f64 = 5.0;

/// What merging the parts of a split sequence costs, a call.
const MERGE_MS: f64 = 0.003;

/// Into how many parts a sequence is split at most, and the shortest part worth it.
const MOST_PARTS: u64 = 64;
const LEAST_PART_TOKENS: u64 = 128;

/// Kernels of one deployment with what a running engine adds.
#[derive(Debug)]
pub(crate) struct EngineKernels<K> {
    kernels: K,
    gemm_derate: f64,
    all_reduce_call_ms: f64,
    decode_attention: DecodeRule,
}

/// How attention of generated tokens is priced.
#[derive(Debug, Clone, Copy)]
enum DecodeRule {
    /// As measured, one part per sequence.
    Measured,
    /// As measured, long sequences being split where that is faster: tables are made without splitting, so
    /// they leave most of the GPU idle at small batches.
    Split,
    /// By the bytes of the KV cache.
    Bytes { floor_ms: f64, ms_per_token: f64 },
}

impl<K: Kernels> EngineKernels<K> {
    pub(crate) fn new(kernels: K, shape: &DenseShape, physics: &EnginePhysics) -> Self {
        let constants = &physics.calibration.constants;
        let value = |term, constant, neutral| {
            if physics.has(term) {
                CalibrationConstants::value(constant, neutral)
            } else {
                neutral
            }
        };
        let call_us = value(StepTerm::AllReduceCall, constants.all_reduce_call_us.as_ref(), 0.0);
        Self {
            kernels,
            gemm_derate: value(StepTerm::GemmDerate, constants.gemm_derate.as_ref(), 1.0),
            all_reduce_call_ms: if shape.tp > 1 { call_us / 1e3 } else { 0.0 },
            decode_attention: decode_rule(shape, physics),
        }
    }
}

impl<K> EngineKernels<K> {
    /// How much of a matrix multiplication of so many tokens is due to real data.
    pub(crate) fn derated_ms(&self, gemm_ms: f64, tokens: u64) -> f64 {
        gemm_ms * (1.0 - 1.0 / derate(self.gemm_derate, tokens))
    }

    /// What each all-reduce costs beyond the tables, milliseconds.
    pub(crate) fn all_reduce_call_ms(&self) -> f64 {
        self.all_reduce_call_ms
    }
}

fn decode_rule(shape: &DenseShape, physics: &EnginePhysics) -> DecodeRule {
    let constants = &physics.calibration.constants;
    if !physics.has(StepTerm::SplitKv) {
        return DecodeRule::Measured;
    }
    match &constants.decode_attention_bandwidth_tb_s {
        None => DecodeRule::Split,
        Some(bandwidth) => {
            let heads = shape.heads();
            let bytes = 2.0 * heads.kv * heads.dim * shape.precision.kv.bytes();
            let floor_us = CalibrationConstants::value(constants.decode_attention_floor_us.as_ref(), 0.0);
            DecodeRule::Bytes {
                floor_ms: floor_us / 1e3,
                ms_per_token: bytes / (bandwidth.value * 1e12) * 1e3,
            }
        }
    }
}

impl<K: Kernels> Kernels for EngineKernels<K> {
    type DecodeAttention = EngineAttention<K::DecodeAttention>;

    fn gemm(&self, gemm: Gemm, tokens: u64) -> Reading {
        let measured = self.kernels.gemm(gemm, tokens);
        match gemm {
            Gemm::Logits => measured,
            Gemm::Qkv | Gemm::AttentionOutput | Gemm::GateUp | Gemm::Down => {
                measured.scaled(derate(self.gemm_derate, tokens))
            }
        }
    }

    fn prefill_attention(&self, prompts: PromptBatch) -> Reading {
        self.kernels.prefill_attention(prompts)
    }

    fn decode_attention(&self, batch: u64) -> Self::DecodeAttention {
        match self.decode_attention {
            DecodeRule::Measured => EngineAttention::Measured(vec![(1, self.kernels.decode_attention(batch))]),
            DecodeRule::Split => {
                let parts =
                    std::iter::successors(Some(1), |parts| Some(2 * parts)).take_while(|&parts| parts <= MOST_PARTS);
                let row = |parts: u64| (parts, self.kernels.decode_attention(batch.saturating_mul(parts)));
                EngineAttention::Measured(parts.map(row).collect())
            }
            DecodeRule::Bytes { floor_ms, ms_per_token } => EngineAttention::Bytes {
                floor_ms,
                ms_per_token: batch as f64 * ms_per_token,
            },
        }
    }

    fn all_reduce(&self, elements: u64) -> Reading {
        let measured = self.kernels.all_reduce(elements);
        Reading {
            ms: measured.ms + self.all_reduce_call_ms,
            ..measured
        }
    }
}

/// How much slower than measured a matrix multiplication of real data is: not at all while it waits for
/// memory, in full at 8192 tokens, in between by the logarithm of the tokens.
fn derate(at_most: f64, tokens: u64) -> f64 {
    let doublings = (tokens as f64 / DERATE_FROM_TOKENS).log2();
    1.0 + (at_most - 1.0) * (doublings / DERATE_DOUBLINGS).clamp(0.0, 1.0)
}

/// Attention, in one layer, of the tokens that one batch generates.
#[derive(Debug)]
pub(crate) enum EngineAttention<A> {
    /// The fastest of splitting sequences into so many parts each, which are a larger batch of shorter ones.
    Measured(Vec<(u64, A)>),
    /// Latency of the whole batch by its tokens per sequence.
    Bytes { floor_ms: f64, ms_per_token: f64 },
}

impl<A: AttentionOverContext> AttentionOverContext for EngineAttention<A> {
    fn at(&self, kv_tokens: u64) -> Reading {
        match self {
            Self::Measured(rows) => fastest(rows, kv_tokens),
            Self::Bytes { floor_ms, ms_per_token } => Reading::measured(floor_ms + ms_per_token * kv_tokens as f64),
        }
    }
}

fn fastest<A: AttentionOverContext>(rows: &[(u64, A)], kv_tokens: u64) -> Reading {
    let mut fastest: Option<Reading> = None;
    for (parts, row) in rows {
        let part_tokens = kv_tokens.div_ceil(*parts);
        if *parts > 1 && part_tokens < LEAST_PART_TOKENS {
            break;
        }
        let merge_ms = if *parts > 1 { MERGE_MS } else { 0.0 };
        let measured = row.at(part_tokens);
        let reading = Reading {
            ms: measured.ms + merge_ms,
            ..measured
        };
        if fastest.is_none_or(|fastest| reading.ms < fastest.ms) {
            fastest = Some(reading);
        }
    }
    fastest.unwrap_or(Reading::ZERO)
}
