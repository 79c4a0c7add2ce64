//! Nothing but routing: the KV router's view of 256 workers' caches and loads, kept up to date by what
//! workers report, with no engine behind it.

use std::sync::Arc;

use criterion::{Criterion, Throughput};
use dynosim::router::{self, Pool, RouteQuery, WorkerReport};
use dynosim::spec::{
    Admission, BlockSize, PromptSegments, Request, RequestId, RouterMode, RouterSettings, SimDuration, SimTime,
    WorkerId, WorkerRole, WorkloadBuilder,
};

const WORKERS: u32 = 256;
const REQUESTS: u32 = 20_000;
const BLOCK_TOKENS: u32 = 16;
/// Blocks of the prefix that a group of requests shares, and of a whole prompt.
const PREFIX_BLOCKS: u32 = 64;
const PROMPT_BLOCKS: u32 = 96;
const GROUPS: u32 = 500;
/// Requests under way at a time.
const IN_FLIGHT: usize = 1000;

fn main() {
    let prompts = prompts();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("routing");
    group.throughput(Throughput::Elements(u64::from(REQUESTS)));
    group.bench_function("kv_router", |bencher| {
        bencher.iter(|| {
            let hits = route_all(&prompts);
            // After a group's first request its prefix is cached somewhere, and mostly worth going to.
            assert!(hits > REQUESTS / 2, "{hits} of {REQUESTS} went where their prefix was");
        });
    });
    group.finish();
    criterion.final_summary();
}

/// Groups take turns; each has a prefix of its own.
fn prompts() -> Arc<PromptSegments> {
    let block_size = BlockSize::new(BLOCK_TOKENS).expect("not zero");
    let mut builder = WorkloadBuilder::new(block_size);
    for session in 0..REQUESTS {
        let request = Request {
            session,
            turn: 0,
            input_tokens: PROMPT_BLOCKS * BLOCK_TOKENS,
            output_tokens: 1,
            delay: SimDuration::ZERO,
        };
        let first = u64::from(session % GROUPS * PREFIX_BLOCKS);
        builder.push(request, first..first + u64::from(PREFIX_BLOCKS));
    }
    Arc::new(PromptSegments::new(&builder.build(Admission::OpenLoop), block_size))
}

/// Routes all requests. Each caches its prefix where it goes and ends a thousand requests later. Returns how many went to
/// a worker that had their prefix.
fn route_all(prompts: &Arc<PromptSegments>) -> u32 {
    let settings = RouterSettings {
        mode: RouterMode::KvRouter,
        ..RouterSettings::default()
    };
    let pool = Pool {
        role: WorkerRole::Aggregated,
        workers: WORKERS,
        block_size: prompts.block_size(),
        max_num_batched_tokens: None,
        prompts: Arc::clone(prompts),
    };
    let mut router = router::build(&settings, pool, 0);
    let now = SimTime::ZERO;
    let mut workers: Vec<WorkerId> = Vec::new();
    let mut cached = vec![false; prompts.segment_count() * WORKERS as usize];
    let mut hits = 0;
    for request in (0..REQUESTS).map(RequestId::new) {
        let path = prompts.path(request);
        let query = RouteQuery::new(request, PROMPT_BLOCKS * BLOCK_TOKENS, path);
        let worker = router.route(now, &query).expect("nobody is ever busy");
        router.observe(now, WorkerReport::PrefillDone { worker, request });
        for &segment in path {
            let known = &mut cached[segment.index() * WORKERS as usize + worker.index()];
            hits += u32::from(std::mem::replace(known, true));
            router.observe(
                now,
                WorkerReport::Cached {
                    worker,
                    segment,
                    blocks: prompts.segment_blocks(segment),
                },
            );
        }
        workers.push(worker);
        if let Some(ended) = workers.len().checked_sub(IN_FLIGHT) {
            let request = RequestId::new(u32::try_from(ended).expect("requests are counted by u32"));
            let worker = workers[ended];
            router.observe(now, WorkerReport::Finished { worker, request });
        }
    }
    hits
}
