//! Step times from the rates of a GPU, for systems without measurements.

use std::sync::Arc;

use dynosim_spec::{Backend, Deployment, GpuSpec};

use crate::decode_attention::tokens_in_sight;
use crate::decode_inputs::DecodeInputs;
use crate::dense_model::DenseModel;
use crate::error::TimingError;
use crate::fused_model::FusedModel;
use crate::layer_mix::LayerMix;
use crate::model::{Price, StepShape, TimingModel, TimingProvider};
use crate::operators::{AttentionOverContext, DenseShape, Dispatch, Gemm, Kernels, OperatorCost, PromptBatch};
use crate::precision::{AttentionDtype, ExpertDtype, GemmDtype};
use crate::reading::Reading;
use crate::work::{Heads, Rates, Work};

/// Prices steps of models, dense or with experts, on any GPU from its peak rates.
///
/// The operators are those of [`TableTiming`](crate::TableTiming); each kernel takes the longer of its arithmetic and its
/// memory traffic at a share of the peak rates, and a constant start-up time. Shares and constants were
/// fitted to vLLM 0.14.0 on H200. Against the reference's tables (prompts up to 16,384 tokens) the median
/// error is 4 to 5 % for 16-bit models and 5 to 8 % for block-quantised ones. Experts are further off, by 15 to 20 %.
///
/// Kernels without a fit of their own (attention in 8 bits or with head sizes other than 128, 8-bit
/// matrix multiplications on SGLang, all-reduces of other than 2, 4 or 8 GPUs of one node, attention over a window,
/// 8-bit experts with one scale per tensor, exchanges between data-parallel groups) are priced by their nearest relative and count as extrapolated.
#[derive(Debug, Clone, Copy, Default)]
pub struct RooflineTiming;

/// How close a kernel comes to the GPU's peaks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fit {
    /// Share of the peak arithmetic rate.
    compute: f64,
    /// Share of the peak memory bandwidth.
    memory: f64,
    /// Start-up time of a call.
    start_ms: f64,
}

const BF16_GEMM: Fit = Fit {
    compute: 0.795,
    memory: 0.819,
    start_ms: 0.0042,
};

/// vLLM 0.14.0 only, whose 8-bit kernels are slow.
const FP8_GEMM: Fit = Fit {
    compute: 0.32,
    memory: 0.83,
    start_ms: 0.015,
};

/// vLLM 0.14.0 only, as [`FP8_GEMM`].
const FP8_BLOCK_GEMM: Fit = Fit {
    compute: 0.29,
    memory: 0.59,
    start_ms: 0.033,
};

const PREFILL_ATTENTION: Fit = Fit {
    compute: 0.51,
    memory: 0.21,
    start_ms: 0.012,
};

const DECODE_ATTENTION: Fit = Fit {
    compute: 0.06,
    memory: 0.50,
    start_ms: 0.0119,
};

/// How close experts come to the peaks. Some are sent more tokens than others, so the more groups of GPUs share out
/// the experts (`moe_ep`), the more the busiest GPU has to do beyond its share.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ExpertFit {
    balanced: Fit,
    /// Arithmetic and traffic of the busiest GPU grow beyond its share with these powers of `moe_ep`.
    compute_skew: f64,
    memory_skew: f64,
}

/// Fits to the built-in vLLM 0.14.0 tables of 1 to 16,384 tokens, `moe_tp` and `moe_ep` up to 8: median error 16 %,
/// 90th percentile 43 %.
const BF16_EXPERTS: ExpertFit = ExpertFit {
    balanced: Fit {
        compute: 0.284,
        memory: 0.876,
        start_ms: 0.028,
    },
    compute_skew: 0.622,
    memory_skew: 0.228,
};

/// The same: 15 % and 34 %.
const FP8_BLOCK_EXPERTS: ExpertFit = ExpertFit {
    balanced: Fit {
        compute: 0.171,
        memory: 0.851,
        start_ms: 0.045,
    },
    compute_skew: 0.554,
    memory_skew: 0.029,
};

/// The same: 21 % and 53 %. That kernel is no faster for having fewer experts.
const MXFP4_EXPERTS: ExpertFit = ExpertFit {
    balanced: Fit {
        compute: 0.290,
        memory: 0.537,
        start_ms: 0.069,
    },
    compute_skew: 0.984,
    memory_skew: 1.0,
};

/// Head size that the attention fits were made for.
const FITTED_HEAD_DIM: u64 = 128;

/// GPUs, share of the link bandwidth and start-up time of all-reduces.
const ALL_REDUCE: [(u32, f64, f64); 3] = [(2, 0.62, 0.0045), (4, 0.67, 0.0047), (8, 0.69, 0.0056)];

impl Fit {
    fn ms(self, work: Work, peak: Rates) -> f64 {
        let rates = Rates {
            flops: peak.flops * self.compute,
            bytes: peak.bytes * self.memory,
        };
        work.ms(rates) + self.start_ms
    }
}

impl RooflineTiming {
    /// The model of `deployment`, as its own type.
    ///
    /// # Errors
    /// If the model is unknown or does not divide over the GPUs, or has experts and is not served by vLLM.
    pub fn bind_roofline(&self, deployment: &Deployment) -> Result<Arc<RooflineModel>, TimingError> {
        let (shape, kernels) = shape_and_kernels(deployment)?;
        Ok(Arc::new(RooflineModel(DenseModel::new(shape, kernels))))
    }
}

fn shape_and_kernels(deployment: &Deployment) -> Result<(DenseShape, RooflineKernels), TimingError> {
    let shape = DenseShape::priced(deployment, "pricing it on the roofline")?;
    let kernels = RooflineKernels {
        shape: shape.clone(),
        gpu: deployment.gpu.as_ref().clone(),
        backend: deployment.engine.backend,
    };
    Ok((shape, kernels))
}

impl TimingProvider for RooflineTiming {
    fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        let Some(physics) = &deployment.physics else {
            return Ok(self.bind_roofline(deployment)?);
        };
        let (shape, kernels) = shape_and_kernels(deployment)?;
        Ok(Arc::new(FusedModel::new(shape, kernels, deployment, physics)))
    }
}

/// Kernel latencies of one deployment.
#[derive(Debug)]
struct RooflineKernels {
    shape: DenseShape,
    gpu: GpuSpec,
    backend: Backend,
}

impl RooflineKernels {
    /// The fit for a number format, and whether it was made for it.
    const fn gemm_fit(&self, dtype: GemmDtype) -> (Fit, bool) {
        match (dtype, self.backend) {
            (GemmDtype::Bfloat16, _) => (BF16_GEMM, true),
            (GemmDtype::Fp8, Backend::Vllm) => (FP8_GEMM, true),
            (GemmDtype::Fp8Block, Backend::Vllm) => (FP8_BLOCK_GEMM, true),
            (GemmDtype::Fp8 | GemmDtype::Fp8Block, Backend::Sglang) => (BF16_GEMM, false),
        }
    }

    /// Attention with all tokens in sight, and over the window of the model if it has one; 0 stands for none.
    fn layer_mix<A>(&self, attention: impl Fn(u64) -> A) -> LayerMix<A> {
        self.shape.windows().map(|window| attention(*window))
    }

    /// An operation of `gpus` GPUs in which each of them sends and receives `(gpus - 1) / gpus` of the message so
    /// many times.
    fn collective(&self, gpus: u32, elements: u64, times: f64) -> Reading {
        let fitted = ALL_REDUCE.iter().rev().find(|(group, ..)| *group <= gpus);
        let Some(&(group, efficiency, start_ms)) = fitted else {
            return Reading::ZERO;
        };
        let spans_nodes = gpus > self.gpu.gpus_per_node;
        let link = if spans_nodes {
            self.gpu.inter_node_bandwidth
        } else {
            self.gpu.intra_node_bandwidth
        };
        let bytes = times * 2.0 * elements as f64 * f64::from(gpus - 1) / f64::from(gpus);
        Reading::measured(1e3 * bytes / (link * efficiency) + start_ms).or_extrapolated(group != gpus || spans_nodes)
    }

    fn is_fitted_attention(&self) -> bool {
        let precision = self.shape.precision;
        let wide = [precision.kv, precision.prefill_attention] == [AttentionDtype::Bfloat16; 2];
        wide && self.shape.head_dim == FITTED_HEAD_DIM
    }
}

/// Attention of generated tokens at one batch size.
#[derive(Debug)]
struct RooflineAttention {
    batch: f64,
    /// Tokens in sight before the present one; 0 stands for all.
    window: u64,
    heads: Heads,
    kv: AttentionDtype,
    peak: Rates,
    fitted: bool,
}

impl AttentionOverContext for RooflineAttention {
    fn at(&self, kv_tokens: u64) -> Reading {
        let work = self
            .heads
            .decode_work(self.kv, self.batch, tokens_in_sight(kv_tokens, self.window) as f64);
        Reading::measured(DECODE_ATTENTION.ms(work, self.peak)).or_extrapolated(!self.fitted)
    }
}

impl Kernels for RooflineKernels {
    type DecodeAttention = RooflineAttention;

    fn gemm(&self, gemm: Gemm, tokens: u64) -> Reading {
        let (n, k, dtype) = self.shape.weight(gemm);
        let (fit, fitted) = self.gemm_fit(dtype);
        let work = Work::gemm(dtype, tokens as f64, n as f64, k as f64);
        Reading::measured(fit.ms(work, Rates::gemm(&self.gpu, dtype))).or_extrapolated(!fitted)
    }

    fn prefill_attention(&self, prompts: PromptBatch) -> Reading {
        let precision = self.shape.precision;
        let peak = Rates::attention(&self.gpu, precision.prefill_attention);
        let attention = self.layer_mix(|window| {
            let work = self.shape.heads().prefill_work(precision.kv, prompts, window);
            let fitted = window == 0 && self.is_fitted_attention();
            Reading::measured(PREFILL_ATTENTION.ms(work, peak)).or_extrapolated(!fitted)
        });
        attention.mean(|reading| *reading)
    }

    fn decode_attention(&self, batch: u64) -> LayerMix<RooflineAttention> {
        let kv = self.shape.precision.kv;
        self.layer_mix(|window| RooflineAttention {
            batch: batch as f64,
            window,
            heads: self.shape.heads(),
            kv,
            peak: Rates::attention(&self.gpu, kv),
            fitted: window == 0 && self.is_fitted_attention(),
        })
    }

    fn all_reduce(&self, elements: u64) -> Reading {
        self.collective(self.shape.tp, elements, 2.0)
    }

    fn experts(&self, tokens: u64) -> Reading {
        let Some(experts) = &self.shape.experts else {
            return Reading::ZERO;
        };
        let (fit, fitted) = match experts.dtype {
            ExpertDtype::Bfloat16 => (BF16_EXPERTS, true),
            ExpertDtype::Fp8Block => (FP8_BLOCK_EXPERTS, true),
            ExpertDtype::W4a16Mxfp4 => (MXFP4_EXPERTS, true),
            ExpertDtype::Fp8 => (FP8_BLOCK_EXPERTS, false),
        };
        let groups = experts.moe_ep as f64;
        let work = experts.work(tokens);
        let busiest = Work {
            flops: work.flops * groups.powf(fit.compute_skew),
            bytes: work.bytes * groups.powf(fit.memory_skew),
        };
        Reading::measured(fit.balanced.ms(busiest, experts.rates(&self.gpu))).or_extrapolated(!fitted)
    }

    fn worker_all_reduce(&self, elements: u64) -> Reading {
        if self.shape.tp == 1 {
            return Reading::ZERO;
        }
        self.collective(self.shape.parallel.gpus(), elements, 2.0)
    }

    /// Half an all-reduce, whichever of the two it is.
    fn exchange(&self, _: Dispatch, elements: u64) -> Reading {
        if self.shape.parallel.attention_dp == 1 {
            return Reading::ZERO;
        }
        let gpus = self.shape.parallel.gpus();
        self.collective(gpus, elements, 1.0).or_extrapolated(true)
    }
}

/// A model on the roofline; see [`RooflineTiming`].
#[derive(Debug)]
pub struct RooflineModel(DenseModel<RooflineKernels>);

impl RooflineModel {
    /// Milliseconds to compute `new_tokens` tokens of each of `batch` prompts behind a cached `prefix`.
    pub fn prefill_ms(&self, batch: u32, new_tokens: u64, prefix: u64) -> f64 {
        self.0.prefill_ms(PromptBatch::new(batch, new_tokens, prefix))
    }

    /// Milliseconds of all operators behind [`RooflineModel::prefill_ms`].
    pub fn prefill_operators(&self, batch: u32, new_tokens: u64, prefix: u64) -> Vec<OperatorCost> {
        (self.0)
            .prefill_operators(PromptBatch::new(batch, new_tokens, prefix))
            .to_vec()
    }

    /// Milliseconds of all steps after the first of `output_tokens`, as
    /// [`TableModel::decode_ms`](crate::TableModel::decode_ms) counts them.
    pub fn decode_ms(&self, batch: u32, context: u64, output_tokens: u32) -> f64 {
        self.0.decode_ms(u64::from(batch), context, output_tokens)
    }

    /// Milliseconds of all operators of one decode step, for which each of `batch` sequences has
    /// `context` tokens before it.
    pub fn decode_operators(&self, batch: u32, context: u64) -> Vec<OperatorCost> {
        self.0.decode_operators(u64::from(batch), context).to_vec()
    }
}

impl TimingModel for RooflineModel {
    fn prefill(&self, step: &StepShape) -> Price {
        self.0.prefill(step)
    }

    fn decode(&self, step: &StepShape) -> Price {
        self.0.decode(step)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        self.0.decode_depends_on()
    }

    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        self.0.decode_over_contexts(decode_seqs, first_context, prices);
    }
}
