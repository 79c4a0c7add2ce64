//! One run of the workload that `examples/sweep` searches deployments for: many steps at once against
//! single ones.

mod fleet;

use criterion::{Criterion, SamplingMode};
use dynosim::core::{Scenario, Stepping};
use dynosim::spec::{
    Backend, BlockSize, EngineArgs, EngineSpec, GpuSpec, ModelSpec, Rules, SyntheticLoad, SyntheticWorkload,
    WorkerRole, Workload, WorkloadSpec,
};
use dynosim::timing::TableTiming;

use fleet::Fleet;

const MODEL: &str = "Qwen/Qwen3-32B";
const BLOCK_TOKENS: u32 = 512;
const REQUESTS: u32 = 5000;

fn main() {
    let fleet = fleet();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("simulation");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (name, settings) in fleet::routers() {
        let expected = fleet.run(&settings, Stepping::Single).report;
        assert_eq!(expected.completed_requests, u64::from(REQUESTS));
        for (stepping_name, stepping) in [("bulk", Stepping::Bulk), ("single", Stepping::Single)] {
            group.bench_function(format!("{name}/{stepping_name}"), |bencher| {
                bencher.iter(|| assert_eq!(fleet.run(&settings, stepping).report, expected));
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

fn fleet() -> Fleet {
    let mut engine = EngineSpec::new(MODEL, Backend::Vllm);
    engine.rules = Rules::VllmV1;
    engine.base_engine_args = EngineArgs {
        block_size: Some(BLOCK_TOKENS),
        num_gpu_blocks: Some(20_000),
        ..EngineArgs::default()
    };
    let workload = WorkloadSpec::Synthetic(SyntheticWorkload {
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 50,
        ..SyntheticWorkload::new(32_768, 256, REQUESTS, SyntheticLoad::Concurrency(200))
    });
    let block_size = BlockSize::new(BLOCK_TOKENS).expect("not 0");
    let scenario = Scenario::new(
        engine,
        Some(ModelSpec::find(MODEL).expect("it is bundled")),
        GpuSpec::find("h200_sxm").expect("it is known"),
        Workload::load(&workload, block_size).expect("it makes sense"),
    );
    let pools = [(WorkerRole::Prefill, 4, 3), (WorkerRole::Decode, 1, 4)];
    Fleet::new(scenario, &TableTiming::new(None), &pools)
}
