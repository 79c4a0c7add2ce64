//! What is searched for.

use dynosim::spec::{
    Backend, EngineArgs, EngineSpec, HardwareSpec, ReplayOptimizeSpec, Rules, SlaSpec, SweepRouterSpec, SyntheticLoad,
    SyntheticWorkload, TraceWorkload, WorkerRole, WorkloadSpec,
};

use crate::Flags;

/// The sweep that the flags ask for.
pub(crate) fn spec(flags: &Flags) -> ReplayOptimizeSpec {
    let engine_args = |worker_type| EngineArgs {
        worker_type: Some(worker_type),
        block_size: Some(512),
        num_gpu_blocks: flags.num_gpu_blocks,
        ..EngineArgs::default()
    };
    let engine = EngineSpec {
        // Prefix caching is on by default for prefill workers. Decode workers take over whole prompts.
        prefill_engine_args: Some(engine_args(WorkerRole::Prefill)),
        decode_engine_args: Some(engine_args(WorkerRole::Decode)),
        // The bounds were chosen by the original of this question, whose steps cost the bare sums of their kernels.
        rules: Rules::VllmV1,
        ..EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm)
    };
    ReplayOptimizeSpec {
        sla: SlaSpec {
            ttft: Some(60_000.0),
            itl: Some(100.0),
            e2e_latency: Some(70_000.0),
            ..SlaSpec::default()
        },
        router: SweepRouterSpec {
            mode: flags.router_mode,
            overlap_credits: vec![0.5, 1.0],
            ..SweepRouterSpec::default()
        },
        objective: flags.objective,
        max_parallel_evals: flags.max_parallel_evals,
        ..ReplayOptimizeSpec::new(engine, HardwareSpec::new("h200_sxm").with_budget(16), workload(flags))
    }
}

fn workload(flags: &Flags) -> WorkloadSpec {
    match &flags.trace_file {
        Some(file) => WorkloadSpec::Trace(TraceWorkload {
            arrival_speedup_ratio: flags.arrival_speedup_ratio.unwrap_or(1.0),
            ..TraceWorkload::new(file)
        }),
        None => WorkloadSpec::Synthetic(SyntheticWorkload {
            shared_prefix_ratio: 0.5,
            num_prefix_groups: 50,
            ..SyntheticWorkload::new(32_768, 256, 5000, SyntheticLoad::Concurrency(200))
        }),
    }
}
