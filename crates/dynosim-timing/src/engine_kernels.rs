//! Kernel latencies as a running engine sees them: those of the tables, with what the calibration adds.

use dynosim_spec::{CalibrationConstants, EnginePhysics, StepTerm};

use crate::curve::{Above, Curve};
use crate::decode_attention::tokens_in_sight;
use crate::layer_mix::LayerMix;
use crate::operators::{AttentionOverContext, DenseShape, Dispatch, Gemm, Kernels, PromptBatch};
use crate::reading::Reading;

/// Tokens up to which matrix multiplications wait for memory rather than arithmetic, and how many doublings of
/// it later real data slows them down in full.
const DERATE_FROM_TOKENS: f64 = 256.0;
const DERATE_DOUBLINGS: f64 = 5.0;

/// What merging the parts of a split sequence costs, a call.
const MERGE_MS: f64 = 0.003;

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
    /// As measured, long sequences being split over idle multiprocessors: tables are made without splitting, so they
    /// leave most of the GPU idle at small batches.
    Split(Splitting),
    /// By the bytes of the KV cache that are in sight.
    Bytes {
        floor_ms: f64,
        ms_per_token: f64,
        windows: LayerMix<u64>,
    },
}

impl<K: Kernels> EngineKernels<K> {
    /// Kernels on a GPU with so many multiprocessors.
    pub(crate) fn new(kernels: K, shape: &DenseShape, multiprocessors: u64, physics: &EnginePhysics) -> Self {
        let constants = &physics.calibration.constants;
        let call_us = physics.value(StepTerm::AllReduceCall, constants.all_reduce_call_us.as_ref(), 0.0);
        Self {
            kernels,
            gemm_derate: physics.value(StepTerm::GemmDerate, constants.gemm_derate.as_ref(), 1.0),
            all_reduce_call_ms: if shape.tp > 1 { call_us / 1e3 } else { 0.0 },
            decode_attention: decode_rule(shape, multiprocessors, physics),
        }
    }
}

impl<K> EngineKernels<K> {
    /// How much of a matrix multiplication of so many tokens is due to real data.
    pub(crate) fn derated_ms(&self, gemm_ms: f64, tokens: u64) -> f64 {
        gemm_ms * (1.0 - 1.0 / derate(self.gemm_derate, tokens))
    }

    /// What each all-reduce costs beyond the tables, milliseconds; nothing without tensor parallelism.
    pub(crate) fn all_reduce_call_ms(&self) -> f64 {
        self.all_reduce_call_ms
    }

    fn with_call(&self, all_reduce: Reading) -> Reading {
        Reading {
            ms: all_reduce.ms + self.all_reduce_call_ms,
            ..all_reduce
        }
    }
}

fn decode_rule(shape: &DenseShape, multiprocessors: u64, physics: &EnginePhysics) -> DecodeRule {
    let constants = &physics.calibration.constants;
    if !physics.has(StepTerm::SplitKv) {
        return DecodeRule::Measured;
    }
    match &constants.decode_attention_bandwidth_tb_s {
        None => DecodeRule::Split(Splitting {
            kv_heads: shape.kv_heads,
            multiprocessors,
        }),
        Some(bandwidth) => {
            let heads = shape.heads();
            let bytes = 2.0 * heads.kv * heads.dim * shape.precision.kv.bytes();
            let floor_us = CalibrationConstants::value(constants.decode_attention_floor_us.as_ref(), 0.0);
            DecodeRule::Bytes {
                floor_ms: floor_us / 1e3,
                ms_per_token: bytes / (bandwidth.value * 1e12) * 1e3,
                windows: shape.windows(),
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
            Gemm::Qkv | Gemm::AttentionOutput | Gemm::GateUp | Gemm::Down | Gemm::Router => {
                measured.scaled(derate(self.gemm_derate, tokens))
            }
        }
    }

    fn prefill_attention(&self, prompts: PromptBatch) -> Reading {
        self.kernels.prefill_attention(prompts)
    }

    /// Layers with a window are read as measured where others are split: what they see is too short to be split.
    fn decode_attention(&self, batch: u64) -> LayerMix<Self::DecodeAttention> {
        let measured = |batch| self.kernels.decode_attention(batch);
        match self.decode_attention {
            DecodeRule::Measured => measured(batch).by_kind(EngineAttention::Measured, EngineAttention::Measured),
            DecodeRule::Split(splitting) => measured(batch).by_kind(
                |_| EngineAttention::Split(split(batch, splitting, |batch| measured(batch).into_full())),
                EngineAttention::Measured,
            ),
            DecodeRule::Bytes {
                floor_ms,
                ms_per_token,
                windows,
            } => windows.map(|&window| EngineAttention::Bytes {
                floor_ms,
                ms_per_token: batch as f64 * ms_per_token,
                window,
            }),
        }
    }

    fn all_reduce(&self, elements: u64) -> Reading {
        self.with_call(self.kernels.all_reduce(elements))
    }

    /// As measured: no calibration has constants for experts.
    fn experts(&self, tokens: u64) -> Reading {
        self.kernels.experts(tokens)
    }

    fn worker_all_reduce(&self, elements: u64) -> Reading {
        self.with_call(self.kernels.worker_all_reduce(elements))
    }

    fn exchange(&self, dispatch: Dispatch, elements: u64) -> Reading {
        self.kernels.exchange(dispatch, elements)
    }
}

/// How much slower than measured a matrix multiplication of real data is: not at all while it waits for
/// memory, in full at 8192 tokens, in between by the logarithm of the tokens.
fn derate(at_most: f64, tokens: u64) -> f64 {
    let doublings = (tokens as f64 / DERATE_FROM_TOKENS).log2();
    1.0 + (at_most - 1.0) * (doublings / DERATE_DOUBLINGS).clamp(0.0, 1.0)
}

/// Into how many parts FlashAttention 3 splits the KV cache of a sequence.
#[derive(Debug, Clone, Copy)]
struct Splitting {
    /// KV heads of one GPU, which are worked on side by side.
    kv_heads: u64,
    multiprocessors: u64,
}

impl Splitting {
    /// Tokens of a part are whole blocks of so many.
    const BLOCK_TOKENS: u64 = 128;
    const MOST_PARTS: u64 = 128;
    /// Share of the multiprocessors from which on nothing is split.
    const FULL: f64 = 0.8;
    /// Share of the best filling that is good enough.
    const GOOD_ENOUGH: f64 = 0.85;

    /// As few parts as fill the multiprocessors nearly as well as can be.
    ///
    /// Source: the rule by which FlashAttention 3 chooses the number of splits, with one tile of queries per KV head.
    fn parts(self, batch: u64, kv_tokens: u64) -> u64 {
        let tiles = batch.saturating_mul(self.kv_heads) as f64;
        let multiprocessors = self.multiprocessors as f64;
        if tiles >= Self::FULL * multiprocessors {
            return 1;
        }
        let most = kv_tokens.div_ceil(Self::BLOCK_TOKENS).clamp(1, Self::MOST_PARTS);
        let filling = |parts: u64| {
            let waves = tiles * parts as f64 / multiprocessors;
            waves / waves.ceil()
        };
        let best = (1..=most).map(filling).fold(0.0, f64::max);
        let enough = |&parts: &u64| filling(parts) >= Self::GOOD_ENOUGH * best;
        (1..=most).find(enough).unwrap_or(1)
    }
}

/// Attention, in one layer, of the tokens that one batch generates.
#[derive(Debug)]
pub(crate) enum EngineAttention<A> {
    /// As measured.
    Measured(A),
    /// As measured, with long sequences split.
    Split(Curve),
    /// Latency of the whole batch by the tokens of each sequence that are in sight; a `window` of 0 is none.
    Bytes {
        floor_ms: f64,
        ms_per_token: f64,
        window: u64,
    },
}

impl<A: AttentionOverContext> AttentionOverContext for EngineAttention<A> {
    fn at(&self, kv_tokens: u64) -> Reading {
        match self {
            Self::Measured(attention) => attention.at(kv_tokens),
            Self::Split(curve) => curve.at(kv_tokens),
            Self::Bytes {
                floor_ms,
                ms_per_token,
                window,
            } => Reading::measured(floor_ms + ms_per_token * tokens_in_sight(kv_tokens, *window) as f64),
        }
    }
}

/// Attention of sequences that are split, on straight lines between [`knots`]. `row` gives measured attention at a
/// batch size.
fn split<A: AttentionOverContext>(batch: u64, splitting: Splitting, row: impl Fn(u64) -> A) -> Curve {
    let mut rows: Vec<(u64, A)> = Vec::new();
    let points = knots().map(|kv_tokens| {
        let parts = splitting.parts(batch, kv_tokens);
        // Longer sequences are split into more parts, so that the latest row is mostly the right one.
        if rows.last().is_none_or(|(known, _)| *known != parts) {
            rows.push((parts, row(batch.saturating_mul(parts))));
        }
        let measured = rows[rows.len() - 1].1.at(kv_tokens.div_ceil(parts));
        let merge_ms = if parts > 1 { MERGE_MS } else { 0.0 };
        let reading = Reading {
            ms: measured.ms + merge_ms,
            ..measured
        };
        (kv_tokens, reading)
    });
    Curve::new(points, Above::Line).expect("there are knots")
}

/// KV lengths between which split attention is read: four in each power of two.
fn knots() -> impl Iterator<Item = u64> {
    const LAST_POWER: u32 = 21;
    let powers = (2..LAST_POWER).map(|power| 1_u64 << power);
    (1..4).chain(powers.flat_map(|power| (4..8).map(move |quarters| power / 4 * quarters)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_mix::Windowed;

    const ONE_HEAD: Splitting = Splitting {
        kv_heads: 1,
        multiprocessors: 132,
    };

    /// Every sequence takes as long as its tokens; more than 132 take turns.
    struct OnePerMultiprocessor(u64);

    impl AttentionOverContext for OnePerMultiprocessor {
        fn at(&self, kv_tokens: u64) -> Reading {
            Reading::measured(0.01 * kv_tokens as f64 * self.0.div_ceil(132) as f64)
        }
    }

    #[test]
    fn long_sequences_of_small_batches_are_split_over_idle_multiprocessors() {
        let check = |batch, kv_tokens, expected: f64| {
            let found = split(batch, ONE_HEAD, OnePerMultiprocessor).at(kv_tokens).ms;
            assert!(
                (found - expected).abs() < 1e-9,
                "{batch} x {kv_tokens}: {found}, not {expected}"
            );
        };
        check(33, 4096, 10.24 + MERGE_MS);
        check(106, 4096, 40.96);
        check(132, 4096, 40.96);
        check(1, 128, 1.28);
        check(1, 256, 1.28 + MERGE_MS);
    }

    /// Half of the layers have a window.
    struct TwoKindsOfLayers;

    impl Kernels for TwoKindsOfLayers {
        type DecodeAttention = OnePerMultiprocessor;

        fn decode_attention(&self, batch: u64) -> LayerMix<OnePerMultiprocessor> {
            let windowed = Windowed {
                share: 0.5,
                attention: OnePerMultiprocessor(batch),
            };
            LayerMix::new(OnePerMultiprocessor(batch), Some(windowed))
        }

        fn gemm(&self, _: Gemm, _: u64) -> Reading {
            Reading::ZERO
        }

        fn prefill_attention(&self, _: PromptBatch) -> Reading {
            Reading::ZERO
        }

        fn all_reduce(&self, _: u64) -> Reading {
            Reading::ZERO
        }

        fn experts(&self, _: u64) -> Reading {
            Reading::ZERO
        }

        fn worker_all_reduce(&self, _: u64) -> Reading {
            Reading::ZERO
        }

        fn exchange(&self, _: Dispatch, _: u64) -> Reading {
            Reading::ZERO
        }
    }

    #[test]
    fn layers_with_a_window_are_not_split() {
        let kernels = EngineKernels {
            kernels: TwoKindsOfLayers,
            gemm_derate: 1.0,
            all_reduce_call_ms: 0.0,
            decode_attention: DecodeRule::Split(ONE_HEAD),
        };
        let found = kernels.decode_attention(33).at(4096).ms;
        let expected = 0.5 * (10.24 + MERGE_MS) + 0.5 * 40.96;
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn parts_fill_the_multiprocessors() {
        let check = |batch, kv_heads, kv_tokens, parts| {
            let splitting = Splitting { kv_heads, ..ONE_HEAD };
            assert_eq!(
                splitting.parts(batch, kv_tokens),
                parts,
                "{batch} x {kv_heads} x {kv_tokens}"
            );
        };
        // From four fifths of the multiprocessors on nothing is split.
        check(16, 8, 1 << 17, 1);
        check(105, 1, 1 << 17, 5);
        check(106, 1, 1 << 17, 1);
        // As few parts as fill them nearly as well as can be: 4 x 8 x 4 = 128 of 132.
        check(4, 8, 8192, 4);
        check(1, 8, 1 << 17, 15);
        check(1, 8, 1024, 7);
        // Never more parts than blocks.
        check(1, 8, 512, 4);
        check(1, 1, 1, 1);
    }

    #[test]
    fn knots_ascend_without_gaps_of_more_than_a_quarter() {
        let knots: Vec<u64> = knots().collect();
        assert_eq!(knots[..9], [1, 2, 3, 4, 5, 6, 7, 8, 10]);
        assert!(
            knots
                .windows(2)
                .all(|pair| pair[0] < pair[1] && (pair[1] <= 8 || 4 * pair[1] <= 5 * pair[0]))
        );
    }

    #[test]
    fn real_data_slows_down_large_products_only() {
        let check = |tokens, expected: f64| assert!((derate(1.3, tokens) - expected).abs() < 1e-12, "{tokens}");
        check(1, 1.0);
        check(256, 1.0);
        check(512, 1.06);
        check(8192, 1.3);
        check(1 << 20, 1.3);
    }
}
