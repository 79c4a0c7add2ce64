//! Values built in code obey the rules of JSON, and report the same paths.

use super::mistakes;
use crate::engine::{Backend, WorkerRole};
use crate::engine_args::{EngineArgs, Limit, SglangArgs};
use crate::parallel_shape::ParallelShape;
use crate::spec::{EngineSpec, HardwareSpec, ReplayOptimizeSpec, RunSpec, Topology};
use crate::workload_spec::{SyntheticLoad, SyntheticWorkload, TraceFormat, TraceWorkload, WorkloadSpec};

fn run() -> RunSpec {
    RunSpec::new(
        EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm),
        HardwareSpec::new("h200_sxm"),
        Topology::Aggregated {
            workers: 1,
            shape: ParallelShape::tensor(1),
        },
        WorkloadSpec::Synthetic(SyntheticWorkload::new(100, 3, 5, SyntheticLoad::Concurrency(2))),
    )
}

#[test]
fn valid_ones_pass() {
    run().validate().expect("the run is valid");
    let RunSpec {
        engine,
        hardware,
        workload,
        ..
    } = run();
    ReplayOptimizeSpec::new(engine, hardware.with_budget(8), workload)
        .validate()
        .expect("the sweep is valid");
}

#[test]
fn mistakes_are_found_at_the_same_paths() {
    let mut run = run();
    run.engine.model = String::new();
    run.engine.base_engine_args = EngineArgs {
        worker_type: Some(WorkerRole::Decode),
        block_size: Some(0),
        max_num_seqs: Some(Limit::AtMost(0)),
        speedup_ratio: Some(f64::NAN),
        sglang: Some(SglangArgs::default()),
        ..EngineArgs::default()
    };
    run.topology = Topology::Aggregated {
        workers: 0,
        shape: ParallelShape::tensor(1),
    };
    run.router.prefill_load_scale = Some(f64::INFINITY);
    run.router.base_config.router_queue_threshold = Some(f64::NAN);
    run.workload = WorkloadSpec::Synthetic(SyntheticWorkload {
        shared_prefix_ratio: 0.5,
        ..SyntheticWorkload::new(0, 3, 5, SyntheticLoad::RequestRate(0.0))
    });
    assert_eq!(
        mistakes(run.validate()),
        [
            "topology.workers: must be a whole number from 1 to 65536, got 0",
            "engine.model: must be a text that is not empty, got \"\"",
            "engine.baseEngineArgs.worker_type: must be aggregated here, got decode",
            "engine.baseEngineArgs.block_size: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.max_num_seqs: must be a whole number of at least 1 or null, got 0",
            "engine.baseEngineArgs.speedup_ratio: must be a number from 0 to 1000000, got NaN",
            "engine.baseEngineArgs.sglang: belongs to backend sglang",
            "workload.isl: must be a whole number of at least 1, got 0",
            "workload.requestRate: must be a number above 0, got 0.0",
            "workload.numPrefixGroups: must be at least 1 when sharedPrefixRatio is above 0",
            "router.prefillLoadScale: must be a number of at least 0, got inf",
            "router.baseConfig.router_queue_threshold: must be a number of at least 0 or null, got NaN",
        ]
    );
}

#[test]
fn a_sweep_needs_a_budget_and_candidates() {
    let RunSpec { engine, hardware, .. } = run();
    let trace = TraceWorkload {
        trace_format: TraceFormat::AppliedComputeAgentic,
        ..TraceWorkload::new("trace.jsonl")
    };
    let mut sweep = ReplayOptimizeSpec::new(engine, hardware, WorkloadSpec::Trace(trace));
    sweep.engine.prefill_engine_args = Some(EngineArgs {
        block_size: Some(16),
        ..EngineArgs::default()
    });
    sweep.router.overlap_credits = vec![0.5, f64::NAN];
    sweep.router.prefill_load_scales.clear();
    sweep.max_parallel_evals = Some(0);
    sweep.sla.ttft = Some(f64::NAN);
    assert_eq!(
        mistakes(sweep.validate()),
        [
            "engine: prefill and decode workers need the same block size, got 16 and 64",
            "hardware.totalGpus: is missing; must be a whole number of at least 1",
            "workload.traceReplayConcurrency: is missing; traceFormat applied_compute_agentic needs it, because such \
             traces have no timestamps",
            "sla.ttft: must be a number, got NaN",
            "router.overlapCredits[1]: must be a number from 0 to 1, got NaN",
            "router.prefillLoadScales: must have at least one item",
            "maxParallelEvals: must be a whole number of at least 1, got 0",
        ]
    );
}
