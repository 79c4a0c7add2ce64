//! A trace whose prompts branch, on eight aggregated workers.

mod fleet;

use std::path::{Path, PathBuf};

use criterion::{Criterion, SamplingMode};
use dynosim::core::{Scenario, Stepping};
use dynosim::spec::{Backend, EngineSpec, GpuSpec, ModelSpec, TraceWorkload, WorkerRole, Workload, WorkloadSpec};
use dynosim::timing::TableTiming;

use fleet::Fleet;

const MODEL: &str = "Qwen/Qwen3-32B";

fn main() {
    let (name, file) = trace();
    let engine = EngineSpec::new(MODEL, Backend::Vllm);
    let workload = WorkloadSpec::Trace(TraceWorkload::new(file));
    let block_size = engine.config(WorkerRole::Aggregated).block_size;
    let scenario = Scenario::new(
        engine,
        Some(ModelSpec::find(MODEL).expect("it is bundled")),
        GpuSpec::find("h200_sxm").expect("it is known"),
        Workload::load(&workload, block_size).expect("a good trace"),
    );
    let requests = scenario.workload().requests().len() as u64;
    let fleet = Fleet::new(scenario, &TableTiming::new(None), &[(WorkerRole::Aggregated, 2, 8)]);

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group(format!("trace/{name}"));
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (name, settings) in fleet::routers() {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let report = fleet.run(&settings, Stepping::Bulk).report;
                assert_eq!(report.completed_requests, requests);
            });
        });
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
