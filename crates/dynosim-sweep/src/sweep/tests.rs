//! Sweeps over small real simulations.

mod candidates;
mod equal_states;
mod exhaustive;
mod failures;
mod hopeless;
mod outputs;

use std::sync::Arc;

use dynosim_spec::{
    Backend, Deployment, EngineArgs, EngineSpec, GpuSpec, HardwareSpec, Limit, ParallelShape, Rules, SweepRouterMode,
    SweepRouterSpec, SyntheticLoad, SyntheticWorkload, Workload, WorkloadSpec,
};
use dynosim_timing::{PolynomialTiming, TimingError, TimingModel};

use super::*;
use crate::state::RouterState;
use crate::trial::Trial;
use crate::worker_shapes::KvCapacity;

/// Polynomial step times, and room for this many KV tokens per GPU beyond the first.
#[derive(Debug)]
struct TokensPerGpu(u64);

impl TimingProvider for TokensPerGpu {
    fn bind(&self, _deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        Ok(Arc::new(PolynomialTiming))
    }

    fn kv_capacity_tokens(&self, deployment: &Deployment) -> Result<u64, TimingError> {
        let tokens = self.0 * u64::from(deployment.shape.tp - 1);
        if tokens == 0 {
            return Err(TimingError::NoKvRoom {
                model: deployment.model_name.clone(),
                shape: deployment.shape,
                system: deployment.gpu.name.clone(),
                needed_bytes: 2,
                available_bytes: 1,
            });
        }
        Ok(tokens)
    }
}

/// A sweep over 4 GPUs with pinned KV blocks and shared prefixes.
fn small_spec() -> ReplayOptimizeSpec {
    let engine = EngineSpec {
        base_engine_args: EngineArgs {
            block_size: Some(16),
            num_gpu_blocks: Some(300),
            max_num_batched_tokens: Some(Limit::AtMost(512)),
            ..EngineArgs::default()
        },
        rules: Rules::VllmV1,
        ..EngineSpec::new("some-model", Backend::Vllm)
    };
    let load = SyntheticWorkload {
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 5,
        ..SyntheticWorkload::new(400, 12, 60, SyntheticLoad::Concurrency(12))
    };
    let hardware = HardwareSpec::new("h200_sxm").with_budget(4);
    ReplayOptimizeSpec {
        router: SweepRouterSpec {
            mode: SweepRouterMode::Both,
            overlap_credits: vec![0.5, 1.0],
            prefill_load_scales: vec![0.0, 0.5, 1.0, 3.0],
            ..SweepRouterSpec::default()
        },
        max_parallel_evals: Some(2),
        ..ReplayOptimizeSpec::new(engine, hardware, WorkloadSpec::Synthetic(load))
    }
}

fn scenario(spec: &ReplayOptimizeSpec) -> Scenario {
    let block_size = spec.engine.config(WorkerRole::Prefill).block_size;
    let workload = Workload::load(&spec.workload, block_size).expect("the workload is valid");
    scenario_of(spec, workload)
}

fn scenario_of(spec: &ReplayOptimizeSpec, workload: Workload) -> Scenario {
    let gpu = GpuSpec::find(&spec.hardware.system).expect("the GPU is known");
    Scenario::new(spec.engine.clone(), None, gpu, workload)
}

fn sweep<'a>(spec: &'a ReplayOptimizeSpec, provider: &'a dyn TimingProvider) -> Sweep<'a> {
    Sweep::new(spec, scenario(spec), provider).expect("the spec is valid")
}
