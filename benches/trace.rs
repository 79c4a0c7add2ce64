//! A trace whose prompts branch, on eight aggregated workers: many steps at once against single ones.

mod fleet;

use std::path::{Path, PathBuf};

use criterion::{Criterion, SamplingMode};
use dynosim::core::{Scenario, Stepping};
use dynosim::spec::{
    Backend, EngineArgs, EngineSpec, GpuSpec, ModelSpec, Rules, TraceWorkload, WorkerRole, Workload, WorkloadSpec,
};
use dynosim::timing::TableTiming;

use fleet::Fleet;

const MODEL: &str = "Qwen/Qwen3-32B";

fn main() {
    let (name, file) = trace();
    let mut engine = EngineSpec::new(MODEL, Backend::Vllm);
    engine.rules = Rules::VllmV1;
    engine.base_engine_args = EngineArgs {
        block_size: Some(512),
        num_gpu_blocks: Some(20_000),
        ..EngineArgs::default()
    };
    let workload = WorkloadSpec::Trace(TraceWorkload::new(file));
    let block_size = engine.config(WorkerRole::Aggregated).block_size;
    let scenario = Scenario::new(
        engine,
        Some(ModelSpec::find(MODEL).expect("it is bundled")),
        GpuSpec::find("h200_sxm").expect("it is known"),
        Workload::load(&workload, block_size).expect("a good trace"),
    );
    let requests = scenario.workload().requests().len() as u64;
    let fleet = Fleet::new(scenario, &TableTiming::new(None), &[(WorkerRole::Aggregated, 1, 8)]);

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group(format!("trace/{name}"));
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (name, settings) in fleet::routers() {
        let expected = fleet.run(&settings, Stepping::Single).report;
        assert_eq!(expected.completed_requests, requests);
        for (stepping_name, stepping) in [("bulk", Stepping::Bulk), ("single", Stepping::Single)] {
            group.bench_function(format!("{name}/{stepping_name}"), |bencher| {
                bencher.iter(|| assert_eq!(fleet.run(&settings, stepping).report, expected));
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

/// The large trace if it is beside the repository, else the sample.
fn trace() -> (&'static str, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let large = root.join("../shared/traces/conversation_trace.jsonl");
    if large.is_file() {
        ("conversation", large)
    } else {
        ("sample", root.join("examples/data/sample_trace.jsonl"))
    }
}
