//! Nothing but cache traffic: prompts that share long, branching prefixes, next to no output, and far
//! less room than all prefixes would take. Steps cost a constant, so that no time goes into prices.

mod fleet;

use std::sync::Arc;

use criterion::{Criterion, SamplingMode, Throughput};
use dynosim::core::{Outcome, Scenario, Stepping};
use dynosim::spec::{
    Admission, Backend, BlockSize, Deployment, EngineArgs, EngineSpec, GpuSpec, Request, Rules, SimDuration,
    WorkerRole, Workload, WorkloadBuilder,
};
use dynosim::timing::{DecodeInputs, Price, StepShape, TimingError, TimingModel};

use fleet::Fleet;

const REQUESTS: u32 = 20_000;
const BLOCK_TOKENS: u32 = 16;
/// Blocks of a system prompt, of a document behind it and of a conversation behind that.
const BLOCKS: [u32; 3] = [32, 128, 64];
/// How many there are of each.
const VARIANTS: [u64; 3] = [4, 64, 4096];

#[derive(Debug, Clone, Copy)]
struct Constant;

impl TimingModel for Constant {
    fn prefill(&self, _step: &StepShape) -> Price {
        Price::known(10.0)
    }

    fn decode(&self, _step: &StepShape) -> Price {
        Price::known(5.0)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::MeanContext
    }
}

fn main() {
    let fleet = fleet();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("kv_cache");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Elements(u64::from(REQUESTS)));
    for (name, settings) in fleet::routers() {
        group.bench_function(name, |bencher| {
            bencher.iter(|| check(&fleet.run(&settings, Stepping::Bulk)));
        });
    }
    group.finish();
    criterion.final_summary();
}

/// Without reuse and eviction on a grand scale, nothing of interest was measured.
fn check(outcome: &Outcome) {
    assert_eq!(outcome.report.completed_requests, u64::from(REQUESTS));
    assert!(outcome.report.prefix_cache_reused_ratio > 0.1);
    assert!(outcome.evictions > 10 * u64::from(REQUESTS));
}

fn fleet() -> Fleet {
    let mut engine = EngineSpec::new("any-model", Backend::Vllm);
    engine.rules = Rules::VllmV1;
    engine.base_engine_args = EngineArgs {
        block_size: Some(BLOCK_TOKENS),
        num_gpu_blocks: Some(6000),
        ..EngineArgs::default()
    };
    let gpu = GpuSpec::find("h200_sxm").expect("it is known");
    let provider = |_: &Deployment| -> Result<Arc<dyn TimingModel>, TimingError> { Ok(Arc::new(Constant)) };
    let scenario = Scenario::new(engine, None, gpu, workload());
    Fleet::new(scenario, &provider, &[(WorkerRole::Aggregated, 1, 8)])
}

/// Conversations about documents under system prompts, each request with a question of its own.
fn workload() -> Workload {
    let mut builder = WorkloadBuilder::new(BlockSize::new(BLOCK_TOKENS).expect("not 0"));
    for session in 0..REQUESTS {
        let request = Request {
            session,
            turn: 0,
            input_tokens: (BLOCKS.iter().sum::<u32>() + 4) * BLOCK_TOKENS,
            output_tokens: 2,
            delay: SimDuration::ZERO,
        };
        let draw = u64::from(session).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let parts = VARIANTS.into_iter().zip(BLOCKS);
        let ids = parts.flat_map(|(variants, blocks)| {
            let part = draw % variants;
            (0..u64::from(blocks)).map(move |block| part << 32 | variants << 16 | block)
        });
        builder.push(request, ids);
    }
    builder.build(Admission::ClosedLoop { concurrency: 64 })
}
