//! The router against its plain twin.

use std::sync::Arc;

use dynosim_spec::{PromptSegments, QueuePolicy, RequestId, RouterMode, RouterSettings, SegmentId, SimDuration};
use dynosim_spec::{SimTime, WorkerId, WorkerRole};
use proptest::prelude::*;
use proptest::sample::select;
use rustc_hash::FxHashSet;

use super::plain_twin::{Block, Setup, Twin};
use crate::build::settings_for_role;
use crate::kv_overlap::KvOverlap;
use crate::router::{RouteQuery, Router, WorkerReport};

/// Both routers, with the caches of the workers they serve.
struct Pair {
    twin: Twin,
    router: KvOverlap,
    /// Blocks of each shared segment.
    segments: Vec<Vec<Block>>,
    prompts: Arc<PromptSegments>,
    arrived: u32,
    now: SimTime,
}

/// Something happens; numbers choose among what is there.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Arrival,
    PrefillDone(usize),
    Finished(usize),
    Stored { worker: u32, request: u32, blocks: usize },
    Evicted { worker: u32, request: u32, keep: usize },
    Nonsense { worker: u32, request: u32 },
}

impl Pair {
    fn new(setup: Setup) -> Self {
        let pool = setup.pool();
        let prompts = Arc::clone(&pool.prompts);
        let mut segments = vec![Vec::new(); prompts.segment_count()];
        for request in (0..).map(RequestId::new).take(setup.prompts.len()) {
            let mut blocks = setup.blocks(request).into_iter();
            for &segment in prompts.path(request) {
                let length = prompts.segment_blocks(segment) as usize;
                segments[segment.index()] = blocks.by_ref().take(length).collect();
            }
        }
        Self {
            router: KvOverlap::new(&settings_for_role(&setup.settings, setup.role), pool, setup.seed),
            twin: Twin::new(setup),
            segments,
            prompts,
            arrived: 0,
            now: SimTime::ZERO,
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), TestCaseError> {
        match happening {
            Happening::Arrival => self.arrive(),
            Happening::PrefillDone(choice) => {
                let running = self.twin.running();
                let Some(&(worker, request)) = running.get(choice % running.len().max(1)) else {
                    return Ok(());
                };
                self.twin.prefill_done(worker, request);
                self.router
                    .observe(self.now, WorkerReport::PrefillDone { worker, request });
                self.drain()
            }
            Happening::Finished(choice) => {
                let running = self.twin.running();
                let Some(&(worker, request)) = running.get(choice % running.len().max(1)) else {
                    return Ok(());
                };
                self.twin.finished(worker, request);
                self.router
                    .observe(self.now, WorkerReport::Finished { worker, request });
                self.drain()
            }
            Happening::Stored {
                worker,
                request,
                blocks,
            } => {
                let (worker, blocks_of_prompt) = self.some_prompt(worker, request);
                self.change_cache(worker, |cached| {
                    cached.extend(blocks_of_prompt.into_iter().take(blocks));
                });
                Ok(())
            }
            Happening::Evicted { worker, request, keep } => {
                let (worker, blocks_of_prompt) = self.some_prompt(worker, request);
                if let Some(evicted) = blocks_of_prompt.get(keep) {
                    // Nothing stays behind an evicted block.
                    self.change_cache(worker, |cached| cached.retain(|block| !block.starts_with(evicted)));
                }
                Ok(())
            }
            Happening::Nonsense { worker, request } => {
                let (worker, request) = (WorkerId::new(worker), RequestId::new(request));
                if !self.twin.running().contains(&(worker, request)) {
                    self.router
                        .observe(self.now, WorkerReport::PrefillDone { worker, request });
                    self.router
                        .observe(self.now, WorkerReport::Finished { worker, request });
                }
                Ok(())
            }
        }
    }

    fn arrive(&mut self) -> Result<(), TestCaseError> {
        let request = RequestId::new(self.arrived);
        let Some(&(input_tokens, _)) = self.twin.setup.prompts.get(request.index()) else {
            return Ok(());
        };
        self.arrived += 1;
        let query = RouteQuery::new(request, input_tokens, self.prompts.path(request));
        let chosen = self.router.route(self.now, &query);
        prop_assert_eq!(chosen, self.twin.route(self.now, request));
        if chosen.is_some() {
            prop_assert_eq!(&self.router.costs, &self.twin.costs);
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        loop {
            let released = self.router.release(self.now);
            prop_assert_eq!(released, self.twin.release());
            if released.is_none() {
                return Ok(());
            }
            prop_assert_eq!(&self.router.costs, &self.twin.costs);
        }
    }

    /// A worker and the blocks of a prompt that has arrived, by arbitrary numbers.
    fn some_prompt(&self, worker: u32, request: u32) -> (WorkerId, Vec<Block>) {
        let worker = WorkerId::new(worker % self.twin.setup.workers);
        let blocks = match self.arrived {
            0 => Vec::new(),
            arrived => self.twin.setup.blocks(RequestId::new(request % arrived)),
        };
        (worker, blocks)
    }

    /// Changes what a worker holds and publishes the segments whose depth that changes.
    fn change_cache(&mut self, worker: WorkerId, change: impl FnOnce(&mut FxHashSet<Block>)) {
        if !self.router.wants_kv_events() {
            return;
        }
        let cached = &mut self.twin.workers[worker.index()].cached;
        let depths = |cached: &FxHashSet<Block>| -> Vec<usize> {
            let depth = |segment: &Vec<Block>| segment.iter().filter(|&block| cached.contains(block)).count();
            self.segments.iter().map(depth).collect()
        };
        let before = depths(cached);
        change(cached);
        for ((segment, before), after) in (0..).zip(before).zip(depths(cached)) {
            if before != after {
                let report = WorkerReport::Cached {
                    worker,
                    segment: SegmentId::new(segment),
                    blocks: u32::try_from(after).expect("few blocks"),
                };
                self.router.observe(self.now, report);
            }
        }
    }
}

fn any_settings() -> impl Strategy<Value = RouterSettings> {
    let weights = (
        select(vec![0.0, 0.5, 1.0, 1.0, 1.5]),
        select(vec![0.0, 0.3, 1.0, 1.0, 2.0]),
        select(vec![0.0, 0.0, 0.5]),
    );
    let queue = (
        select(vec![None, Some(0.0), Some(0.5), Some(2.0)]),
        select(vec![QueuePolicy::Fcfs, QueuePolicy::Lcfs, QueuePolicy::Wspt]),
    );
    let mostly = || prop::bool::weighted(0.8);
    (weights, queue, mostly(), mostly(), mostly()).prop_map(|(weights, queue, track_blocks, reuse, track_prefill)| {
        RouterSettings {
            mode: RouterMode::KvRouter,
            overlap_score_credit: weights.0,
            prefill_load_scale: weights.1,
            router_temperature: weights.2,
            router_queue_threshold: queue.0,
            router_queue_policy: queue.1,
            router_track_active_blocks: track_blocks,
            router_assume_kv_reuse: reuse,
            router_track_prefill_tokens: track_prefill,
        }
    })
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let role = select(vec![
        WorkerRole::Aggregated,
        WorkerRole::Aggregated,
        WorkerRole::Prefill,
        WorkerRole::Decode,
    ]);
    let budget = select(vec![None, Some(4), Some(16)]);
    let prompt = (0_u32..40, prop::collection::vec(0_u64..2, 0..10));
    let shape = (1_u32..6, 1_u32..7, select(vec![2_u32, 4, 6]));
    let prompts = prop::collection::vec(prompt, 1..40);
    (any_settings(), role, shape, budget, any::<u64>(), prompts).prop_map(
        |(settings, role, shape, max_num_batched_tokens, seed, prompts)| Setup {
            settings,
            role,
            workers: shape.0,
            block_tokens: shape.1,
            content_tokens: shape.2,
            max_num_batched_tokens,
            seed,
            prompts,
        },
    )
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let any_worker = 0_u32..8;
    let any_prompt = 0_u32..48;
    let depth = 0_usize..20;
    prop_oneof![
        6 => Just(Happening::Arrival),
        2 => any::<usize>().prop_map(Happening::PrefillDone),
        2 => any::<usize>().prop_map(Happening::Finished),
        3 => (any_worker.clone(), any_prompt.clone(), depth.clone())
            .prop_map(|(worker, request, blocks)| Happening::Stored { worker, request, blocks }),
        1 => (any_worker.clone(), any_prompt.clone(), depth)
            .prop_map(|(worker, request, keep)| Happening::Evicted { worker, request, keep }),
        1 => (any_worker, any_prompt).prop_map(|(worker, request)| Happening::Nonsense { worker, request }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn differential_router_equals_plain_twin(
        setup in any_setup(),
        happenings in prop::collection::vec((any_happening(), 0_u64..3), 0..120),
    ) {
        let mut pair = Pair::new(setup);
        for (happening, nanos) in happenings {
            pair.now += SimDuration::from_nanos(nanos);
            pair.happen(happening)?;
        }
    }
}
