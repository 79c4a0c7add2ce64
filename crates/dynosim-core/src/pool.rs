//! A pool of equal workers behind one router.

use dynosim_router::{RouteQuery, Router, WorkerReport};
use dynosim_spec::{Backend, RequestId, SimDuration, SimTime, WorkerId, WorkerRole};

use crate::decode_pages::DecodePages;
use crate::engine::{Boundary, Engine, Incoming, PassContext, PassTimes, PoolSetup, Signal, Stepping};
use crate::error::SimError;
use crate::metrics::{CountedGaps, PoolEnd, PoolSample, PoolTally, PoolTimeline, Recorder};
use crate::prefill_times::PrefillTimes;
use crate::sglang::SglangEngine;
use crate::vllm::VllmEngine;
use crate::worker_set::WorkerSet;

/// Passes in a row without progress after which a worker is considered stuck.
const MOST_IDLE_PASSES: u32 = 100_000;

/// One worker: its engine, and the pass that it is in.
#[derive(Debug)]
struct Worker {
    engine: Box<dyn Engine>,
    busy: bool,
    /// What the current pass will tell when it ends.
    signals: Vec<Signal>,
    passes_without_progress: u32,
    /// When the run under way begins to evict, if others are to know.
    first_eviction: Option<SimTime>,
}

/// An instant, and how far starting passes has come at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: SimTime,
    /// Workers of the pool with ids below this have had their turn at this instant.
    pub(crate) turn: u32,
}

impl Moment {
    fn boundary(self, worker_id: WorkerId) -> Boundary {
        if worker_id.get() < self.turn {
            Boundary::Passed
        } else {
            Boundary::Ahead
        }
    }
}

/// Workers, their router, and who could start a pass.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) setup: PoolSetup,
    workers: Vec<Worker>,
    router: Box<dyn Router>,
    pages: DecodePages,
    prefill_times: PrefillTimes,
    stepping: Stepping,
    tally: PoolTally,
    /// Requests that have come to the router and are not finished here.
    requests: u32,
    /// Whether workers tell the router what they cache.
    publishes: bool,
    /// Idle workers that have work.
    startable: WorkerSet,
    /// No run evicts before this.
    first_eviction: Option<SimTime>,
}

impl Pool {
    pub(crate) fn new(setup: PoolSetup, workers: u32, router: Box<dyn Router>) -> Self {
        let caches = setup.config.enable_prefix_caching || setup.config.backend == Backend::Sglang;
        let publishes = caches && router.wants_kv_events();
        let engine = || -> Box<dyn Engine> {
            match setup.config.backend {
                Backend::Vllm => Box::new(VllmEngine::new(&setup, publishes)),
                Backend::Sglang => Box::new(SglangEngine::new(&setup, publishes)),
            }
        };
        Self {
            startable: WorkerSet::new(workers),
            workers: (0..workers)
                .map(|_| Worker {
                    engine: engine(),
                    busy: false,
                    signals: Vec::new(),
                    passes_without_progress: 0,
                    first_eviction: None,
                })
                .collect(),
            setup,
            router,
            pages: DecodePages::default(),
            prefill_times: PrefillTimes::new(),
            stepping: Stepping::default(),
            tally: PoolTally::default(),
            requests: 0,
            publishes,
            first_eviction: None,
        }
    }

    /// Computes decode steps in this way from now on.
    pub(crate) fn set_stepping(&mut self, stepping: Stepping) {
        self.stepping = stepping;
    }

    /// Number of workers.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether this is one vLLM-style worker without a router's choice.
    pub(crate) fn is_single_aggregated_vllm(&self) -> bool {
        self.workers.len() == 1
            && self.setup.config.role == WorkerRole::Aggregated
            && self.setup.config.backend == Backend::Vllm
    }

    /// Whether any worker is in a pass.
    pub(crate) fn is_in_pass(&self) -> bool {
        self.workers.iter().any(|worker| worker.busy)
    }

    /// How long the KV of a prompt takes to the decode pool; zero if bandwidth or size is not given.
    pub(crate) fn transfer_time(&self, input_tokens: u32) -> SimDuration {
        let config = &self.setup.config;
        let (Some(bytes_per_token), Some(gb_per_s)) = (config.kv_bytes_per_token, config.kv_transfer_bandwidth) else {
            return SimDuration::ZERO;
        };
        let bytes = f64::from(input_tokens) * bytes_per_token as f64;
        if gb_per_s <= 0.0 {
            // No bandwidth means no delay, as in the reference.
            return SimDuration::ZERO;
        }
        SimDuration::from_ms(bytes / (gb_per_s * 1e9) * 1000.0).unwrap_or(SimDuration::MAX)
    }

    /// Blocks evicted by all workers so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.workers.iter().map(|worker| worker.engine.evictions()).sum()
    }

    /// What the report says of it when the run is over.
    pub(crate) fn at_end(&self) -> PoolEnd<'_, impl CountedGaps> {
        PoolEnd {
            role: self.setup.config.role,
            workers: self.worker_count(),
            tally: self.tally,
            evicted_blocks: self.evictions(),
            gaps_in_runs: &self.pages,
        }
    }

    /// Its timeline before the first sample.
    pub(crate) fn new_timeline(&self) -> PoolTimeline {
        PoolTimeline::new(self.setup.config.role, self.worker_count(), self.kv_blocks())
    }

    /// Its state at `now`, when everything that happens at this instant has happened; where phases are kept.
    pub(crate) fn sample(&self, now: SimTime) -> PoolSample {
        let (mut running, mut busy_workers) = (0, 0);
        let (mut held_blocks, mut idle_blocks) = (0, 0);
        for worker in &self.workers {
            let usage = if worker.busy {
                worker.engine.usage_in_pass(now, &self.setup, &self.pages)
            } else {
                worker.engine.usage_at_rest()
            };
            busy_workers += u32::from(worker.busy);
            running += usage.running;
            held_blocks += usage.held_blocks;
            idle_blocks += usage.idle_blocks;
        }
        let share = |blocks: u64| blocks as f64 / self.kv_blocks() as f64;
        PoolSample {
            waiting: self.requests - running,
            running,
            busy_workers,
            kv_in_use: share(held_blocks),
            kv_cached: share(idle_blocks),
        }
    }

    /// One of its requests is finished here.
    pub(crate) fn left(&mut self) {
        self.requests -= 1;
    }

    /// Asks the router where a request goes; `None` if the router keeps it back.
    pub(crate) fn route(&mut self, moment: Moment, incoming: Incoming, recorder: &mut Recorder) -> Option<WorkerId> {
        self.settle_evictions(moment, recorder);
        self.requests += 1;
        let now = moment.now;
        let prompt = self.setup.prompts.path(incoming.request);
        self.router
            .route(now, &RouteQuery::new(incoming.request, incoming.input_tokens, prompt))
    }

    /// Lets the router know what a worker reports.
    pub(crate) fn report(&mut self, now: SimTime, report: WorkerReport) {
        self.router.observe(now, report);
    }

    /// Asks the router for a request that it kept back and that may go now.
    pub(crate) fn released(&mut self, now: SimTime) -> Option<(RequestId, WorkerId)> {
        self.router.release(now)
    }

    /// Puts a request into the queue of a worker.
    pub(crate) fn enqueue(&mut self, worker_id: WorkerId, incoming: Incoming) -> Result<(), SimError> {
        let workers = self.worker_count();
        let Some(worker) = self.workers.get_mut(worker_id.index()) else {
            return Err(SimError::NoSuchWorker {
                pool: self.setup.name(),
                request: incoming.request.get(),
                worker: worker_id.get(),
                workers,
            });
        };
        worker.engine.enqueue(incoming);
        if !worker.busy {
            self.startable.insert(worker_id);
        }
        Ok(())
    }

    /// Ends a run of a worker, if it is in one, after the step that is under way.
    pub(crate) fn cut_run(&mut self, moment: Moment, worker_id: WorkerId) -> Option<PassTimes> {
        let worker = &mut self.workers[worker_id.index()];
        worker
            .engine
            .cut_run(moment.now, moment.boundary(worker_id), &self.pages)
    }

    /// Starts a pass on the idle worker with the lowest id that has work.
    pub(crate) fn start_pass(
        &mut self,
        now: SimTime,
        recorder: &mut Recorder,
    ) -> Result<Option<(WorkerId, PassTimes)>, SimError> {
        let Some(worker_id) = self.startable.pop_first() else {
            return Ok(None);
        };
        let mut times = None;
        let progressed = self.with_worker(now, worker_id, recorder, |worker, context| {
            worker.busy = true;
            times = Some(worker.engine.start_pass(context));
        });
        let times = times.expect("a pass was started")?;
        self.workers[worker_id.index()].guard_progress(worker_id, progressed, &self.setup)?;
        self.expect_eviction(worker_id, times.first_eviction);
        if self.workers[worker_id.index()].engine.publishes_at_pass_start() {
            self.publish_cache_changes(now, worker_id);
        }
        Ok(Some((worker_id, times)))
    }

    /// Ends the pass of a worker. Its signals are put into `signals`, which must be empty.
    pub(crate) fn end_pass(
        &mut self,
        now: SimTime,
        worker_id: WorkerId,
        recorder: &mut Recorder,
        signals: &mut Vec<Signal>,
    ) {
        self.with_worker(now, worker_id, recorder, |worker, context| {
            worker.busy = false;
            worker.first_eviction = None;
            worker.engine.end_pass(context);
        });
        let worker = &mut self.workers[worker_id.index()];
        debug_assert!(signals.is_empty(), "the signals of the pass before have been told");
        std::mem::swap(signals, &mut worker.signals);
        if worker.engine.has_work() {
            self.startable.insert(worker_id);
        }
        self.publish_cache_changes(now, worker_id);
    }

    /// Lets the router know of blocks that runs under way have evicted by now.
    fn settle_evictions(&mut self, moment: Moment, recorder: &mut Recorder) {
        let now = moment.now;
        if self.first_eviction.is_none_or(|first| first > now) {
            return;
        }
        for index in 0..self.workers.len() {
            let worker_id = WorkerId::new(u32::try_from(index).expect("workers are counted by u32"));
            if self.workers[index].first_eviction.is_some_and(|first| first <= now) {
                self.with_worker(now, worker_id, recorder, |worker, context| {
                    let times = worker.engine.settle_run(moment.boundary(worker_id), context);
                    worker.first_eviction = times.and_then(|times| times.first_eviction);
                });
                self.publish_cache_changes(now, worker_id);
            }
        }
        self.first_eviction = self.workers.iter().filter_map(|worker| worker.first_eviction).min();
    }

    /// KV blocks of all workers.
    fn kv_blocks(&self) -> u64 {
        u64::from(self.setup.num_gpu_blocks) * u64::from(self.worker_count())
    }

    fn worker_count(&self) -> u32 {
        u32::try_from(self.workers.len()).expect("workers are counted by u32")
    }

    fn expect_eviction(&mut self, worker_id: WorkerId, first_eviction: Option<SimTime>) {
        if let Some(first) = first_eviction.filter(|_| self.publishes) {
            self.workers[worker_id.index()].first_eviction = Some(first);
            self.first_eviction = Some(self.first_eviction.map_or(first, |earliest| earliest.min(first)));
        }
    }

    /// Lets a worker's engine work. Returns whether it got anything done.
    fn with_worker(
        &mut self,
        now: SimTime,
        worker_id: WorkerId,
        recorder: &mut Recorder,
        work: impl FnOnce(&mut Worker, &mut PassContext<'_>),
    ) -> bool {
        let worker = &mut self.workers[worker_id.index()];
        let mut signals = std::mem::take(&mut worker.signals);
        let mut context = PassContext {
            now,
            pool: &self.setup,
            pages: &mut self.pages,
            prefill_times: &mut self.prefill_times,
            recorder,
            tally: &mut self.tally,
            signals: &mut signals,
            stepping: self.stepping,
            progressed: false,
        };
        work(worker, &mut context);
        let progressed = context.progressed;
        worker.signals = signals;
        progressed
    }

    fn publish_cache_changes(&mut self, now: SimTime, worker_id: WorkerId) {
        if !self.publishes {
            return;
        }
        let router = &mut self.router;
        self.workers[worker_id.index()]
            .engine
            .take_cache_changes(&mut |segment, blocks| {
                router.observe(
                    now,
                    WorkerReport::Cached {
                        worker: worker_id,
                        segment,
                        blocks,
                    },
                );
            });
    }
}

impl Worker {
    fn guard_progress(&mut self, id: WorkerId, progressed: bool, setup: &PoolSetup) -> Result<(), SimError> {
        if progressed {
            self.passes_without_progress = 0;
            return Ok(());
        }
        self.passes_without_progress += 1;
        if self.passes_without_progress < MOST_IDLE_PASSES {
            return Ok(());
        }
        Err(SimError::NoProgress {
            pool: setup.name(),
            worker: id.get(),
            passes: self.passes_without_progress,
            request: self.engine.head().map_or(0, RequestId::get),
            num_gpu_blocks: setup.num_gpu_blocks,
        })
    }
}
