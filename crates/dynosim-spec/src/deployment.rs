//! One pool's engine on one GPU shape: what a timing model is bound to.

use std::sync::Arc;

use crate::calibration::EnginePhysics;
use crate::engine::EngineConfig;
use crate::gpu::GpuSpec;
use crate::model::ModelSpec;
use crate::parallel_shape::ParallelShape;

/// Model, GPU, parallel shape and engine settings of the workers of one pool.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Model as named in the spec.
    pub model_name: String,
    /// Facts about the model; `None` if the name is unknown, which only some timing models tolerate.
    pub model: Option<Arc<ModelSpec>>,
    /// The GPU.
    pub gpu: Arc<GpuSpec>,
    /// GPUs of one worker, and how the model is spread over them.
    pub shape: ParallelShape,
    /// Settings of one worker.
    pub engine: EngineConfig,
    /// What the engine adds to its kernels; `None` where steps are to be the bare sums of their kernels, as in the
    /// reference.
    pub physics: Option<Arc<EnginePhysics>>,
}
