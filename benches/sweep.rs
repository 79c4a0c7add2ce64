//! The whole search of `examples/sweep`.

use criterion::{Criterion, SamplingMode};
use dynosim::spec::{
    Backend, EngineArgs, EngineSpec, HardwareSpec, ParallelShape, ReplayOptimizeSpec, Rules, SlaSpec, SweepRouterMode,
    SweepRouterSpec, SyntheticLoad, SyntheticWorkload, Topology, WorkloadSpec,
};
use dynosim::sweep::Mode;

fn main() {
    let spec = spec();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("sweep");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.bench_function("disagg_16_gpus", |bencher| {
        bencher.iter(|| {
            let result = dynosim::sweep(&spec, Mode::Disagg).expect("a search");
            let best = result.best_feasible.expect("a feasible state");
            let expected = Topology::Disaggregated {
                prefill_workers: 3,
                decode_workers: 4,
                prefill_shape: ParallelShape::tensor(4),
                decode_shape: ParallelShape::tensor(1),
            };
            assert_eq!(best.state.topology, expected);
        });
    });
    group.finish();
    criterion.final_summary();
}

fn spec() -> ReplayOptimizeSpec {
    let args = EngineArgs {
        block_size: Some(512),
        ..EngineArgs::default()
    };
    let engine = EngineSpec {
        prefill_engine_args: Some(args.clone()),
        decode_engine_args: Some(args),
        rules: Rules::VllmV1,
        ..EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm)
    };
    let workload = WorkloadSpec::Synthetic(SyntheticWorkload {
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 50,
        ..SyntheticWorkload::new(32_768, 256, 5000, SyntheticLoad::Concurrency(200))
    });
    ReplayOptimizeSpec {
        sla: SlaSpec {
            ttft: Some(60_000.0),
            itl: Some(100.0),
            e2e_latency: Some(70_000.0),
            ..SlaSpec::default()
        },
        router: SweepRouterSpec {
            mode: SweepRouterMode::Both,
            overlap_credits: vec![0.5, 1.0],
            ..SweepRouterSpec::default()
        },
        ..ReplayOptimizeSpec::new(engine, HardwareSpec::new("h200_sxm").with_budget(16), workload)
    }
}
