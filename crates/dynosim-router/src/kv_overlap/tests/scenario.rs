//! A KV router of two workers led through steps given as data; blocks have 4 tokens.

use std::sync::Arc;

use dynosim_spec::{Admission, BlockSize, PromptSegments, Request, RequestId, RouterMode, RouterSettings};
use dynosim_spec::{SimDuration, SimTime, WorkerId, WorkerRole, Workload, WorkloadBuilder};

use crate::build::settings_for_role;
use crate::choice::{Choice, stream};
use crate::kv_overlap::KvOverlap;
use crate::pool::Pool;
use crate::router::{RouteQuery, Router, WorkerReport};

/// Length in tokens and content of a prompt, one id per block.
pub(super) type Prompt = (u32, &'static [u64]);

pub(super) fn repeated<const TIMES: usize>(prompt: Prompt) -> [Prompt; TIMES] {
    [prompt; TIMES]
}

pub(super) const W0: WorkerId = WorkerId::new(0);
pub(super) const W1: WorkerId = WorkerId::new(1);

/// What happens, by the index of the request's prompt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The request costs this much on the two workers and goes to the one named, by chance if they are equal.
    Routed(u32, [f64; 2], WorkerId),
    /// The request, arriving at this millisecond, is kept back.
    Waits(u32, u64),
    /// The worker holds this many blocks of the request's prompt.
    Holds(WorkerId, u32, u32),
    PrefillDone(WorkerId, u32),
    Finished(WorkerId, u32),
    /// The request goes now, at these costs, to this worker.
    Released(u32, [f64; 2], WorkerId),
    /// These requests go now, in this order, and then no more.
    Drained(&'static [u32]),
}

pub(super) fn block_size() -> BlockSize {
    BlockSize::new(4).expect("not zero")
}

fn workload(prompts: &[Prompt]) -> Workload {
    let mut builder = WorkloadBuilder::new(block_size());
    for (session, &(input_tokens, content)) in (0..).zip(prompts) {
        let request = Request {
            session,
            turn: 0,
            input_tokens,
            output_tokens: 2,
            delay: SimDuration::ZERO,
        };
        builder.push(request, content.iter().copied());
    }
    builder.build(Admission::OpenLoop)
}

pub(super) fn kv_router() -> RouterSettings {
    RouterSettings {
        mode: RouterMode::KvRouter,
        ..RouterSettings::default()
    }
}

/// A pool of two workers whose step budget is 16 tokens.
pub(super) fn pool(role: WorkerRole, prompts: &[Prompt]) -> Pool {
    Pool {
        role,
        workers: 2,
        block_size: block_size(),
        max_num_batched_tokens: Some(16),
        prompts: Arc::new(PromptSegments::new(&workload(prompts), block_size())),
    }
}

#[track_caller]
pub(super) fn check(settings: &RouterSettings, prompts: &[Prompt], steps: &[Step]) {
    check_pool(settings, WorkerRole::Aggregated, prompts, steps);
}

#[track_caller]
pub(super) fn check_pool(settings: &RouterSettings, role: WorkerRole, prompts: &[Prompt], steps: &[Step]) {
    let pool = pool(role, prompts);
    let segments = Arc::clone(&pool.prompts);
    let mut router = KvOverlap::new(&settings_for_role(settings, role), pool, 0);
    let arrival = |index: u32| {
        let request = RequestId::new(index);
        RouteQuery::new(request, prompts[request.index()].0, segments.path(request))
    };
    for &step in steps {
        match step {
            Step::Routed(request, costs, worker) => {
                chosen(&mut router, step, costs, worker, |router| {
                    router.route(SimTime::ZERO, &arrival(request))
                });
            }
            Step::Waits(request, ms) => {
                let now = SimTime::from_nanos(ms * 1_000_000);
                assert_eq!(router.route(now, &arrival(request)), None, "{step:?}");
            }
            Step::Released(request, costs, worker) => chosen(&mut router, step, costs, worker, |router| {
                let (released, worker) = router.release(SimTime::ZERO)?;
                assert_eq!(released.get(), request, "{step:?}");
                Some(worker)
            }),
            Step::Drained(requests) => {
                let released = std::iter::from_fn(|| router.release(SimTime::ZERO));
                let released: Vec<u32> = released.map(|(request, _)| request.get()).collect();
                assert_eq!(released, requests, "{step:?}");
            }
            Step::Holds(worker, request, blocks) => {
                let mut left = blocks;
                for &segment in segments.path(RequestId::new(request)) {
                    let blocks = left.min(segments.segment_blocks(segment));
                    left -= blocks;
                    let report = WorkerReport::Cached {
                        worker,
                        segment,
                        blocks,
                    };
                    router.observe(SimTime::ZERO, report);
                }
            }
            Step::PrefillDone(worker, request) => {
                let request = RequestId::new(request);
                router.observe(SimTime::ZERO, WorkerReport::PrefillDone { worker, request });
            }
            Step::Finished(worker, request) => {
                let request = RequestId::new(request);
                router.observe(SimTime::ZERO, WorkerReport::Finished { worker, request });
            }
        }
    }
}

/// Lets the router act under different seeds until it chooses `worker`, which takes one seed unless there is a tie.
#[track_caller]
fn chosen(
    router: &mut KvOverlap,
    step: Step,
    costs: [f64; 2],
    worker: WorkerId,
    act: impl Fn(&mut KvOverlap) -> Option<WorkerId>,
) {
    let mut trials = (0..64).map(|seed| {
        let mut trial = router.clone();
        trial.choice = Choice::new(0.0, stream(seed, WorkerRole::Aggregated));
        let chosen = act(&mut trial);
        assert_eq!(trial.costs, costs, "{step:?}");
        (chosen, trial)
    });
    let (_, trial) = trials
        .find(|&(chosen, _)| chosen == Some(worker))
        .unwrap_or_else(|| panic!("never chosen: {step:?}"));
    *router = trial;
}
