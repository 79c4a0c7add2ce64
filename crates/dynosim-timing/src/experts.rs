//! The experts of one layer as one GPU sees them, and their kernel from measured tables.

use dynosim_spec::{GpuSpec, ModelSpec, MoeSpec, ParallelShape};

use crate::curve::{Above, Curve};
use crate::precision::ExpertDtype;
use crate::reading::Reading;
use crate::repair::Standing;
use crate::table_file::MoeSlice;
use crate::work::{Rates, Work};

/// Most tokens that are told apart: 2^50 stand for any more.
const MAX_TOKENS: u64 = 1 << 50;

/// Multiply-adds, counted twice, of the three matrices of an expert.
const FLOPS_PER_WEIGHT: u128 = 6;

/// Gate, up and down projection.
const MATRICES: u128 = 3;

/// What determines the kernel of routed experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpertShape {
    /// Experts of a layer, over all GPUs.
    pub(crate) experts: u64,
    /// Experts that each token is sent to.
    pub(crate) top_k: u64,
    pub(crate) hidden: u64,
    /// Width of one expert, over all GPUs.
    pub(crate) width: u64,
    pub(crate) moe_tp: u64,
    pub(crate) moe_ep: u64,
    pub(crate) dtype: ExpertDtype,
}

impl ExpertShape {
    /// The experts `moe` of `model`, spread as `shape` says; `None` if it leaves that open.
    pub(crate) fn of(model: &ModelSpec, moe: MoeSpec, shape: ParallelShape) -> Option<Self> {
        Some(Self {
            experts: u64::from(moe.experts),
            top_k: u64::from(moe.top_k),
            hidden: u64::from(model.hidden_size),
            width: u64::from(moe.intermediate_size),
            moe_tp: u64::from(shape.moe_tp?),
            moe_ep: u64::from(shape.moe_ep?),
            dtype: ExpertDtype::of(model.weights),
        })
    }

    /// The experts whose latencies a slice holds.
    pub(crate) const fn measured(slice: &MoeSlice) -> Self {
        Self {
            experts: slice.num_experts,
            top_k: slice.topk,
            hidden: slice.hidden_size,
            width: slice.inter_size,
            moe_tp: slice.moe_tp_size,
            moe_ep: slice.moe_ep_size,
            dtype: slice.dtype,
        }
    }

    /// Weights of the experts of one layer on one GPU.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let elements = self.hidden as f64 * self.width as f64 * self.experts as f64 * MATRICES as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and the cast saturates"
        )]
        let bytes = (elements * self.dtype.bytes()) as u64;
        bytes / self.moe_ep.max(1) / self.moe_tp.max(1)
    }

    /// What one GPU computes and moves for `tokens` tokens of the whole worker. Parts are whole numbers, rounded down.
    pub(crate) fn work(&self, tokens: u64) -> Work {
        let [tokens, top_k, hidden, width, moe_tp, moe_ep, experts] = [
            tokens.min(MAX_TOKENS),
            self.top_k,
            self.hidden,
            self.width,
            self.moe_tp.max(1),
            self.moe_ep.max(1),
            self.experts,
        ]
        .map(u128::from);
        let routed = tokens * top_k;
        let here = routed / moe_ep;
        let inputs = here * hidden * 2;
        let inner = here * width * MATRICES / moe_tp;
        let touched = (experts / moe_ep).min(here);
        let weights = hidden * width * MATRICES / moe_tp * touched;
        Work {
            flops: (routed * hidden * width * FLOPS_PER_WEIGHT / moe_ep / moe_tp) as f64,
            bytes: self.dtype.bytes() * (inputs + inner + weights) as f64,
        }
    }

    /// Peak rates for this number format.
    pub(crate) fn rates(&self, gpu: &GpuSpec) -> Rates {
        Rates {
            flops: gpu.bf16_flops * self.dtype.speedup(),
            bytes: gpu.memory_bandwidth,
        }
    }

    /// How messages name the kernel.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} of {} experts in {}, hidden size {}, width {}, at moe_tp {} and moe_ep {}",
            self.top_k,
            self.experts,
            self.dtype.name(),
            self.hidden,
            self.width,
            self.moe_tp,
            self.moe_ep
        )
    }
}

/// Latency of the experts of one layer over tokens.
#[derive(Debug)]
pub(crate) struct ExpertKernel {
    curve: Curve,
    shape: ExpertShape,
    rates: Rates,
    last_tokens: u64,
    /// Roofline over measured latency at the last point.
    last_efficiency: f64,
}

impl ExpertKernel {
    /// `None` without any measurement.
    pub(crate) fn of(slice: &MoeSlice, shape: ExpertShape, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
        let points = slice.num_tokens.iter().zip(&slice.ms);
        let points: Vec<(u64, f64)> = points.filter_map(|(&tokens, ms)| Some((tokens, (*ms)?))).collect();
        let &(last_tokens, last_ms) = points.last()?;
        let rates = shape.rates(gpu);
        let readings = points.into_iter().map(|(tokens, ms)| (tokens, Reading::measured(ms)));
        Some(Self {
            curve: Curve::new(readings, Above::Line)?.standing(standing),
            shape,
            rates,
            last_tokens,
            last_efficiency: (shape.work(last_tokens).ms(rates) / last_ms).max(1e-8),
        })
    }

    /// Latency for `tokens` tokens of the whole worker: on a line between measured points, and above the last one
    /// as far from the roofline as there.
    pub(crate) fn at(&self, tokens: u64) -> Reading {
        if tokens == 0 {
            return Reading::ZERO;
        }
        if tokens <= self.last_tokens {
            return self.curve.at(tokens);
        }
        let roofline_ms = self.shape.work(tokens).ms(self.rates);
        Reading::measured(roofline_ms / self.last_efficiency).or_extrapolated(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ExpertShape = ExpertShape {
        experts: 8,
        top_k: 2,
        hidden: 100,
        width: 30,
        moe_tp: 1,
        moe_ep: 4,
        dtype: ExpertDtype::W4a16Mxfp4,
    };

    #[test]
    fn parts_are_rounded_down() {
        // 7 tokens to two experts each: 14 over four groups are 3 on a GPU, which touch two experts of 9000 weights.
        let work = SHAPE.work(7);
        let expected = Work {
            flops: f64::from(14 * 100 * 30 * 6 / 4),
            bytes: 0.5 * f64::from(3 * 100 * 2 + 3 * 30 * 3 + 2 * 9000),
        };
        assert_eq!(work, expected);
        assert_eq!(SHAPE.weight_bytes(), 8 * 9000 / 2 / 4);
    }

    #[test]
    fn beyond_the_last_point_the_roofline_counts() {
        let slice = MoeSlice {
            dtype: SHAPE.dtype,
            distribution: "power_law_1.2".to_owned(),
            topk: 2,
            num_experts: 8,
            hidden_size: 100,
            inter_size: 30,
            moe_tp_size: 1,
            moe_ep_size: 4,
            sources: Vec::new(),
            num_tokens: vec![2, 4, 1000],
            ms: vec![Some(1.0), Some(2.0), Some(10.0)],
        };
        let gpu = GpuSpec::find("h200_sxm").expect("is known");
        let kernel = ExpertKernel::of(&slice, SHAPE, &gpu, Standing::Measured).expect("has points");
        assert_eq!(kernel.at(3), Reading::measured(1.5));
        assert_eq!(kernel.at(1), Reading::measured(0.5).or_extrapolated(true));
        let beyond = kernel.at(4000);
        let rates = SHAPE.rates(&gpu);
        let expected = 10.0 * SHAPE.work(4000).ms(rates) / SHAPE.work(1000).ms(rates);
        assert!(beyond.extrapolated && (beyond.ms - expected).abs() < 1e-12);
        assert!(kernel.at(u64::MAX).ms.is_finite());
        assert_eq!(kernel.at(0), Reading::ZERO);
    }
}
