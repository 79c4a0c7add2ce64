//! A pool of equal workers behind one router.

use dynosim_router::{RouteQuery, Router, WorkerReport};
use dynosim_spec::{Backend, RequestId, SimDuration, SimTime, WorkerId, WorkerRole};

use crate::engine::{Engine, Incoming, Pass, PoolSetup, Signal};
use crate::error::SimError;
use crate::metrics::Recorder;
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
}

/// Workers, their router, and who could start a pass.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) setup: PoolSetup,
    workers: Vec<Worker>,
    router: Box<dyn Router>,
    /// Idle workers that have work.
    startable: WorkerSet,
}

impl Pool {
    pub(crate) fn new(setup: PoolSetup, workers: u32, router: Box<dyn Router>) -> Self {
        let caches = setup.config.enable_prefix_caching || setup.config.backend == Backend::Sglang;
        let publish = caches && router.wants_kv_events();
        let engine = || -> Box<dyn Engine> {
            match setup.config.backend {
                Backend::Vllm => Box::new(VllmEngine::new(&setup, publish)),
                Backend::Sglang => Box::new(SglangEngine::new(&setup, publish)),
            }
        };
        let workers: Vec<Worker> = (0..workers)
            .map(|_| Worker {
                engine: engine(),
                busy: false,
                signals: Vec::new(),
                passes_without_progress: 0,
            })
            .collect();
        let count = u32::try_from(workers.len()).expect("workers are counted by u32");
        Self {
            setup,
            workers,
            router,
            startable: WorkerSet::new(count),
        }
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
        // No bandwidth means no delay, as in the reference.
        SimDuration::from_ms(bytes / (gb_per_s * 1e9) * 1000.0).unwrap_or(SimDuration::ZERO)
    }

    /// Blocks evicted by all workers so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.workers.iter().map(|worker| worker.engine.evictions()).sum()
    }

    /// Asks the router where a request goes; `None` if the router keeps it back.
    pub(crate) fn route(&mut self, now: SimTime, incoming: Incoming) -> Option<WorkerId> {
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
        let workers = self.workers.len();
        let Some(worker) = self.workers.get_mut(worker_id.index()) else {
            return Err(SimError::NoSuchWorker {
                pool: self.setup.name(),
                request: incoming.request.get(),
                worker: worker_id.get(),
                workers: u32::try_from(workers).expect("workers are counted by u32"),
            });
        };
        worker.engine.enqueue(incoming);
        if !worker.busy {
            self.startable.insert(worker_id);
        }
        Ok(())
    }

    /// Starts a pass on the idle worker with the lowest id that has work.
    pub(crate) fn start_pass(
        &mut self,
        now: SimTime,
        recorder: &mut Recorder,
    ) -> Result<Option<(WorkerId, SimDuration)>, SimError> {
        let Some(worker_id) = self.startable.pop_first() else {
            return Ok(None);
        };
        let worker = &mut self.workers[worker_id.index()];
        worker.busy = true;
        let pass = worker.engine.pass(now, &self.setup, recorder, &mut worker.signals)?;
        worker.guard_progress(worker_id, pass, &self.setup)?;
        if worker.engine.publishes_at_pass_start() {
            self.publish_cache_changes(now, worker_id);
        }
        Ok(Some((worker_id, pass.duration)))
    }

    /// Ends the pass of a worker. Its signals are appended to `signals`.
    pub(crate) fn end_pass(&mut self, now: SimTime, worker_id: WorkerId, signals: &mut Vec<Signal>) {
        let worker = &mut self.workers[worker_id.index()];
        worker.busy = false;
        signals.append(&mut worker.signals);
        if worker.engine.has_work() {
            self.startable.insert(worker_id);
        }
        if !worker.engine.publishes_at_pass_start() {
            self.publish_cache_changes(now, worker_id);
        }
    }

    fn publish_cache_changes(&mut self, now: SimTime, worker_id: WorkerId) {
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
    fn guard_progress(&mut self, id: WorkerId, pass: Pass, setup: &PoolSetup) -> Result<(), SimError> {
        if pass.progressed {
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
            resource: "KV blocks",
        })
    }
}
