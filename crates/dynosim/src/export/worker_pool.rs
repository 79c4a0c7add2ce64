//! The workers of a pool as real engines need them described.

use dynosim_core::Outcome;
use dynosim_spec::{
    Admission, Backend, EngineConfig, GpuSpec, ModelSpec, ParallelShape, RunSpec, WeightFormat, WorkerRole, Workload,
};

use super::error::ExportError;

/// Tokens by which a chat template may lengthen a prompt.
pub(super) const TEMPLATE_TOKENS: u32 = 256;

/// Equal workers, with everything that their engines are told.
#[derive(Debug, Clone)]
pub(super) struct WorkerPool {
    pub(super) model: String,
    pub(super) role: WorkerRole,
    pub(super) workers: u32,
    pub(super) shape: ParallelShape,
    pub(super) config: EngineConfig,
    /// GPUs of a node.
    pub(super) gpus_per_node: u32,
    /// Whether KV entries are 8-bit floats, as simulated for 8-bit weights.
    pub(super) fp8_kv: bool,
    /// The most requests that may be in flight at once, whatever the engine does.
    pub(super) most_in_flight: u32,
    /// Longest prompt and output together that the engine must take.
    pub(super) max_model_len: u32,
    /// Whether that is longer than the model was made for.
    pub(super) beyond_context: bool,
}

impl WorkerPool {
    /// The pools of a run, in the order in which a request passes through them.
    ///
    /// # Errors
    /// If an engine cannot be set up like that.
    pub(super) fn of_run(spec: &RunSpec, workload: &Workload, outcome: &Outcome) -> Result<Vec<Self>, ExportError> {
        let model = ModelSpec::find(&spec.engine.model).ok();
        let gpu = GpuSpec::find(&spec.hardware.system)?;
        let served = workload
            .requests()
            .iter()
            .zip(&outcome.requests)
            .filter(|(_, record)| record.counts());
        let longest = served
            .map(|(request, _)| request.input_tokens.saturating_add(request.output_tokens))
            .max();
        let longest = longest.ok_or(ExportError::NothingServed)?;
        let context = model
            .as_ref()
            .and_then(|model| model.context_length)
            .unwrap_or(u32::MAX);
        let fp8_kv = model
            .as_ref()
            .is_some_and(|model| matches!(model.weights, WeightFormat::Fp8PerTensor | WeightFormat::Fp8Block));
        let pools = spec.topology.pools().into_iter().map(|pool| {
            let shape = pool
                .shape
                .of_model(model.as_ref(), spec.engine.backend)
                .unwrap_or(pool.shape);
            Self {
                model: spec.engine.model.clone(),
                role: pool.role,
                workers: pool.workers,
                shape,
                config: spec.engine.config(pool.role),
                gpus_per_node: gpu.gpus_per_node,
                fp8_kv,
                most_in_flight: most_in_flight(workload),
                max_model_len: longest.saturating_add(TEMPLATE_TOKENS).min(context.max(longest)),
                beyond_context: longest > context,
            }
        });
        let pools: Vec<Self> = pools.collect();
        pools.iter().try_for_each(Self::check)?;
        Ok(pools)
    }

    /// Requests that may run at once on a worker, as simulated; the SGLang-style scheduler has no such limit.
    pub(super) fn running_limit(&self) -> Option<u32> {
        match self.config.backend {
            Backend::Vllm => self.config.max_num_seqs,
            Backend::Sglang => None,
        }
    }

    fn check(&self) -> Result<(), ExportError> {
        let gpus = self.shape.gpus();
        if self.config.backend == Backend::Vllm && self.config.max_num_batched_tokens.is_none() {
            return Err(ExportError::UnlimitedBudget {
                role: self.role.to_string(),
            });
        }
        if self.config.backend == Backend::Sglang && !self.shape.is_tensor_only() {
            return Err(ExportError::SglangExperts {
                shape: self.shape.to_string(),
            });
        }
        if gpus > self.gpus_per_node && !gpus.is_multiple_of(self.gpus_per_node) {
            return Err(ExportError::PartialNode {
                gpus,
                gpus_per_node: self.gpus_per_node,
            });
        }
        Ok(())
    }

    /// Nodes of a worker.
    pub(super) fn nodes(&self) -> u32 {
        self.shape.gpus().div_ceil(self.gpus_per_node)
    }

    /// GPUs of a worker on each of its nodes.
    pub(super) fn gpus_on_node(&self) -> u32 {
        self.shape.gpus() / self.nodes()
    }

    /// Whether its workers tell routers what they have cached.
    pub(super) fn has_kv_events(&self) -> bool {
        self.config.enable_prefix_caching && self.role != WorkerRole::Decode
    }
}

/// Those of a closed loop, or all there are.
fn most_in_flight(workload: &Workload) -> u32 {
    let requests = u32::try_from(workload.requests().len()).unwrap_or(u32::MAX);
    match workload.admission() {
        Admission::OpenLoop => requests,
        Admission::ClosedLoop { concurrency } => concurrency.min(requests),
    }
}
