//! What one price from the measured tables costs, and what binding a deployment costs.
//!
//! `cargo bench --bench timing`. A simulator asks for decode prices by the page (32 consecutive contexts at
//! one batch size) and for one prefill price per step that computes prompts.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use dynosim::spec::{Backend, Deployment, EngineArgs, GpuSpec, ModelSpec, ParallelShape, WorkerRole};
use dynosim::timing::{StepShape, TableModel, TableTiming, TimingModel};

const MODEL: &str = "Qwen/Qwen3-32B";
const TP_SHAPES: [u32; 4] = [1, 2, 4, 8];

/// Contexts of one page of decode prices.
const PAGE: u64 = 32;

/// What `decode_page` of the model on one GPU gives for 64 sequences from 2000 tokens on.
const PAGE_MS: f64 = 908.153_653_218;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decode(&mut criterion);
    prefill(&mut criterion);
    binding(&mut criterion);
    criterion.final_summary();
}

fn deployment(tp: u32) -> Deployment {
    Deployment {
        model_name: MODEL.to_owned(),
        model: Some(Arc::new(ModelSpec::find(MODEL).expect("is bundled"))),
        gpu: Arc::new(GpuSpec::find("h200_sxm").expect("is known")),
        shape: ParallelShape::tensor(tp),
        engine: EngineArgs::default().resolve(Backend::Vllm, WorkerRole::Aggregated),
        physics: None,
    }
}

fn bind(timing: &TableTiming, tp: u32) -> Arc<TableModel> {
    timing.bind_table(&deployment(tp)).expect("tables cover the model")
}

/// Holds an answer against the figure that it has had since the tables were made.
#[track_caller]
fn check(ms: f64, expected: f64) {
    assert!((ms - expected).abs() < 1e-6 * expected, "{ms} ms, {expected} expected");
}

fn decode_page(model: &TableModel, seqs: u32, first_context: u64) -> f64 {
    let contexts = first_context..first_context + PAGE;
    let steps = contexts.map(|context| StepShape::decode(seqs, u64::from(seqs) * context));
    steps.map(|step| model.decode(&step).ms).sum()
}

fn decode(criterion: &mut Criterion) {
    let model = bind(&TableTiming::new(None), 1);
    let mut group = criterion.benchmark_group("decode_price");
    group.throughput(Throughput::Elements(PAGE));
    check(decode_page(&model, 64, 2000), PAGE_MS);
    group.bench_function("page_at_a_warm_batch", |bencher| {
        bencher.iter(|| decode_page(&model, black_box(64), black_box(2000)));
    });
    group.throughput(Throughput::Elements(1));
    // Rows of more than 2048 sequences are not kept, so that each price prepares one.
    let cold = StepShape::decode(3000, 3000 * 200);
    check(model.decode(&cold).ms, 308.995_107_550);
    group.bench_function("step_at_a_cold_batch", |bencher| {
        bencher.iter(|| model.decode(black_box(&cold)));
    });
    group.finish();
}

fn prefill(criterion: &mut Criterion) {
    let model = bind(&TableTiming::new(None), 1);
    let mut group = criterion.benchmark_group("prefill_price");
    for (name, step, expected_ms) in [
        ("on_the_grid", StepShape::prefill(4, 4 * 4096, 0), 1_578.336_324_998),
        (
            "prompt_off_the_grid",
            StepShape::prefill(1, 5000, 1000),
            395.079_604_115,
        ),
        (
            "prompt_and_batch_off_the_grid",
            StepShape::prefill(3, 3 * 5000, 3 * 1000),
            1_223.172_328_462,
        ),
    ] {
        check(model.prefill(&step).ms, expected_ms);
        group.bench_function(name, |bencher| bencher.iter(|| model.prefill(black_box(&step))));
    }
    group.finish();
}

fn binding(criterion: &mut Criterion) {
    criterion.bench_function("bind_all_tp_shapes", |bencher| {
        bencher.iter(|| {
            let timing = TableTiming::new(None);
            let models = TP_SHAPES.map(|tp| bind(&timing, tp));
            check(decode_page(&models[0], 64, 2000), PAGE_MS);
            models
        });
    });
}
