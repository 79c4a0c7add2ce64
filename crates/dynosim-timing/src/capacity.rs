//! How many tokens of KV cache fit beside weights and activations.
//!
//! The coefficients are those of AIConfigurator 0.10.0's estimates for dense models and for mixtures of experts.

use dynosim_spec::{Backend, Deployment};

use crate::error::TimingError;
use crate::operators::{DenseShape, Gemm};

/// Tokens of a step where the engine sets no limit.
const DEFAULT_STEP_TOKENS: u32 = 8192;

/// Bytes of an element of activations, embedding and logits weights.
const WIDE_BYTES: f64 = 2.0;

/// Runtime, CUDA graphs and the like, per GPU.
const RUNTIME_BYTES: f64 = 3_758_096_384.0;

/// What an engine needs beside weights and KV cache.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Overheads {
    /// Activation buffers of dense models in multiples of tokens x query width, for tensor-parallel sizes 1, 2, 4
    /// and 8.
    activation_factors: [f64; 4],
    /// The same for models with experts.
    expert_activation_factors: [f64; 4],
    /// Least size of the activation buffers.
    least_activation_bytes: f64,
    /// Reserve on top of the activation buffers.
    activation_reserve: f64,
    /// Reserve on top of [`RUNTIME_BYTES`].
    runtime_reserve: f64,
}

const VLLM: Overheads = Overheads {
    activation_factors: [11.0, 6.5, 5.0, 5.0],
    expert_activation_factors: [22.0, 13.0, 10.0, 10.0],
    least_activation_bytes: 70.0 * 1_048_576.0,
    activation_reserve: 1.0,
    runtime_reserve: 1.0,
};

const SGLANG: Overheads = Overheads {
    activation_factors: [14.0, 8.5, 6.5, 6.5],
    expert_activation_factors: [28.0, 17.0, 13.0, 13.0],
    least_activation_bytes: 90.0 * 1_048_576.0,
    activation_reserve: 1.15,
    runtime_reserve: 1.2,
};

/// Buffers of the collectives, per GPU, for tensor-parallel sizes 1, 2, 4 and 8.
const COLLECTIVE_BYTES: [f64; 4] = [0.0, 358_612_992.0, 411_041_792.0, 411_041_792.0];

/// Tokens of KV cache that fit on the GPUs of one worker, or, if several groups of its GPUs attend to sequences of
/// their own (`attention_dp`), on those of one group.
///
/// The budget is the share of memory that the engine may use, less weights, activations (which grow with
/// the token budget of a step, 8192 if unlimited), collective buffers and runtime. Tensor-parallel sizes
/// between 1, 2, 4 and 8 count as the next smaller of these. Layers with a sliding window count as all others.
///
/// # Errors
/// If the model's facts are unknown, its heads do not divide over the GPUs, or no token fits.
pub fn estimate_kv_tokens(deployment: &Deployment) -> Result<u64, TimingError> {
    let shape = DenseShape::of(deployment, "estimating its KV capacity")?;
    let memory_bytes = deployment.gpu.memory_bytes as f64 * deployment.engine.memory_fraction;
    let needed_bytes = bytes_beside_cache(&shape, deployment);
    let tokens = whole(memory_bytes - needed_bytes) / kv_bytes_per_token(&shape).max(1);
    if tokens == 0 {
        return Err(TimingError::NoKvRoom {
            model: deployment.model_name.clone(),
            shape: shape.parallel,
            system: deployment.gpu.name.clone(),
            needed_bytes: whole(needed_bytes),
            available_bytes: whole(memory_bytes),
        });
    }
    Ok(tokens)
}

fn bytes_beside_cache(shape: &DenseShape, deployment: &Deployment) -> f64 {
    let overheads = match deployment.engine.backend {
        Backend::Vllm => VLLM,
        Backend::Sglang => SGLANG,
    };
    let size = shape.tp.max(1).ilog2().min(3) as usize;
    let step_tokens = deployment.engine.max_num_batched_tokens.unwrap_or(DEFAULT_STEP_TOKENS);
    // Of all query heads, whatever the tensor-parallel size: the factors account for that.
    let query_width = shape.query_width as f64 * f64::from(shape.tp);
    let factors = match shape.experts {
        None => overheads.activation_factors,
        Some(_) => overheads.expert_activation_factors,
    };
    let activations = (WIDE_BYTES * f64::from(step_tokens) * query_width * factors[size])
        .max(overheads.least_activation_bytes)
        * overheads.activation_reserve;
    weight_bytes(shape) + activations + COLLECTIVE_BYTES[size] + RUNTIME_BYTES * overheads.runtime_reserve
}

/// Linear layers, embedding and logits of one GPU; norms are negligible. The estimate for models with experts counts no
/// logits.
fn weight_bytes(shape: &DenseShape) -> f64 {
    let elements = |gemm| {
        let (outputs, inputs, _) = shape.weight(gemm);
        outputs as f64 * inputs as f64
    };
    let bytes = |gemms: &[Gemm]| gemms.iter().copied().map(elements).sum::<f64>() * shape.precision.gemm.bytes();
    let vocabulary = WIDE_BYTES * elements(Gemm::Logits);
    let layers = f64::from(shape.layers);
    match &shape.experts {
        None => {
            let layer = bytes(&[Gemm::Qkv, Gemm::AttentionOutput, Gemm::GateUp, Gemm::Down]);
            layers * layer + 2.0 * vocabulary
        }
        Some(experts) => {
            let attention = bytes(&[Gemm::Qkv, Gemm::AttentionOutput]);
            let feed_forward = experts.weight_bytes() as f64 + WIDE_BYTES * elements(Gemm::Router);
            layers * (attention + feed_forward) + vocabulary
        }
    }
}

fn kv_bytes_per_token(shape: &DenseShape) -> u64 {
    let layer = 2.0 * shape.kv_heads as f64 * shape.head_dim as f64 * shape.precision.kv.bytes();
    whole(layer * f64::from(shape.layers))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fraction of a byte is nothing, and a negative budget counts as none"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}
