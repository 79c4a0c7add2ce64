//! The routing policy word by word: a twin that knows neither segments, depths nor counters.

use std::sync::Arc;

use dynosim_spec::{Admission, BlockSize, PromptSegments, QueuePolicy, Request, RequestId, RouterSettings};
use dynosim_spec::{SimDuration, SimTime, WorkerId, WorkerRole, Workload, WorkloadBuilder};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use rustc_hash::FxHashSet;

use crate::choice::stream;
use crate::pool::Pool;

/// A full block of a prompt: all content up to its end.
pub(super) type Block = Vec<u64>;

/// Length in tokens and content ids; tokens beyond the ids are the request's own.
pub(super) type Prompt = (u32, Vec<u64>);

#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) settings: RouterSettings,
    pub(super) role: WorkerRole,
    pub(super) workers: u32,
    pub(super) block_tokens: u32,
    pub(super) content_tokens: u32,
    pub(super) max_num_batched_tokens: Option<u32>,
    pub(super) seed: u64,
    pub(super) prompts: Vec<Prompt>,
}

impl Setup {
    fn workload(&self) -> Workload {
        let mut builder = WorkloadBuilder::new(BlockSize::new(self.content_tokens).expect("not zero"));
        for (session, (input_tokens, ids)) in (0..).zip(&self.prompts) {
            let request = Request {
                session,
                turn: 0,
                input_tokens: *input_tokens,
                output_tokens: 1,
                delay: SimDuration::ZERO,
            };
            builder.push(request, ids.iter().copied());
        }
        builder.build(Admission::OpenLoop)
    }

    pub(super) fn pool(&self) -> Pool {
        let block_size = BlockSize::new(self.block_tokens).expect("not zero");
        Pool {
            role: self.role,
            workers: self.workers,
            block_size,
            max_num_batched_tokens: self.max_num_batched_tokens,
            prompts: Arc::new(PromptSegments::new(&self.workload(), block_size)),
        }
    }

    pub(super) fn blocks(&self, request: RequestId) -> Vec<Block> {
        let (input_tokens, ids) = &self.prompts[request.index()];
        let token = |at: u32| {
            let private = u64::from(1000 + request.get());
            ids.get((at / self.content_tokens) as usize).copied().unwrap_or(private)
        };
        (1..=input_tokens / self.block_tokens)
            .map(|end| (0..end * self.block_tokens).map(token).collect())
            .collect()
    }
}

#[derive(Debug)]
pub(super) struct Running {
    request: RequestId,
    blocks: Vec<Block>,
    prefill_tokens: u32,
}

#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) cached: FxHashSet<Block>,
    running: Vec<Running>,
}

#[derive(Debug)]
pub(super) struct Kept {
    request: RequestId,
    urgency: f64,
    overlaps: Vec<u32>,
}

/// The policy word by word.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) setup: Setup,
    pub(super) workers: Vec<Worker>,
    /// In order of arrival.
    queue: Vec<Kept>,
    stream: ChaCha12Rng,
    pub(super) costs: Vec<f64>,
}

impl Twin {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            workers: (0..setup.workers).map(|_| Worker::default()).collect(),
            queue: Vec::new(),
            stream: stream(setup.seed, setup.role),
            costs: Vec::new(),
            setup,
        }
    }

    fn credit(&self) -> f64 {
        match self.setup.role {
            WorkerRole::Decode => 0.0,
            WorkerRole::Aggregated | WorkerRole::Prefill => self.setup.settings.overlap_score_credit,
        }
    }

    fn tracks_prefill_tokens(&self) -> bool {
        self.setup.settings.router_track_prefill_tokens && self.setup.role != WorkerRole::Decode
    }

    fn overlaps(&self, request: RequestId) -> Vec<u32> {
        let blocks = self.setup.blocks(request);
        let overlap = |worker: &Worker| {
            let held = blocks.iter().take_while(|&block| worker.cached.contains(block));
            u32::try_from(held.count()).expect("few blocks")
        };
        self.workers.iter().map(overlap).collect()
    }

    fn booked_tokens(worker: &Worker) -> u32 {
        worker.running.iter().map(|running| running.prefill_tokens).sum()
    }

    fn active_blocks(&self, worker: &Worker, request: RequestId) -> usize {
        let settings = &self.setup.settings;
        if !settings.router_track_active_blocks || self.setup.role == WorkerRole::Prefill {
            return 0;
        }
        let own = self.setup.blocks(request);
        let running = worker.running.iter().flat_map(|running| &running.blocks);
        if settings.router_assume_kv_reuse && self.setup.role != WorkerRole::Decode {
            running.chain(&own).collect::<FxHashSet<_>>().len()
        } else {
            running.count() + own.len()
        }
    }

    fn all_busy(&self) -> bool {
        let budget = self.setup.max_num_batched_tokens.unwrap_or(10_000_000);
        self.setup.settings.router_queue_threshold.is_some_and(|threshold| {
            let limit = threshold * f64::from(budget);
            self.workers
                .iter()
                .all(|worker| f64::from(Self::booked_tokens(worker)) > limit)
        })
    }

    pub(super) fn route(&mut self, now: SimTime, request: RequestId) -> Option<WorkerId> {
        let overlaps = self.overlaps(request);
        if !self.all_busy() {
            return Some(self.dispatch(request, &overlaps));
        }
        let seconds = now.as_nanos() as f64 / 1e9;
        let best_overlap = overlaps.iter().max().expect("some worker");
        let cached_tokens = best_overlap * self.setup.block_tokens;
        let urgency = match self.setup.settings.router_queue_policy {
            QueuePolicy::Fcfs => -seconds,
            QueuePolicy::Lcfs => seconds,
            QueuePolicy::Wspt => {
                let uncached_tokens = self.setup.prompts[request.index()].0 - cached_tokens;
                1.0 / f64::from(uncached_tokens.max(1))
            }
        };
        self.queue.push(Kept {
            request,
            urgency,
            overlaps,
        });
        None
    }

    pub(super) fn release(&mut self) -> Option<(RequestId, WorkerId)> {
        if self.all_busy() {
            return None;
        }
        let highest = self.queue.iter().map(|kept| kept.urgency).reduce(f64::max)?;
        let first = self.queue.iter().position(|kept| kept.urgency >= highest)?;
        let kept = self.queue.remove(first);
        Some((kept.request, self.dispatch(kept.request, &kept.overlaps)))
    }

    fn dispatch(&mut self, request: RequestId, overlaps: &[u32]) -> WorkerId {
        let input_tokens = self.setup.prompts[request.index()].0;
        let block_tokens = f64::from(self.setup.block_tokens);
        let scale = self.setup.settings.prefill_load_scale;
        let cost = |(worker, &overlap): (&Worker, &u32)| {
            let raw = if self.tracks_prefill_tokens() {
                f64::from(Self::booked_tokens(worker) + input_tokens) / block_tokens
            } else {
                0.0
            };
            let adjusted = f64::max(0.0, raw - self.credit() * f64::from(overlap));
            scale * adjusted + self.active_blocks(worker, request) as f64
        };
        self.costs = self.workers.iter().zip(overlaps).map(cost).collect();
        let chosen = self.choose();
        let prefill_tokens = if self.tracks_prefill_tokens() {
            input_tokens - overlaps[chosen] * self.setup.block_tokens
        } else {
            0
        };
        self.workers[chosen].running.push(Running {
            request,
            blocks: self.setup.blocks(request),
            prefill_tokens,
        });
        worker_id(chosen)
    }

    fn choose(&mut self) -> usize {
        let costs = &self.costs;
        let temperature = self.setup.settings.router_temperature;
        let lowest = costs.iter().copied().reduce(f64::min).expect("some worker");
        let highest = costs.iter().copied().reduce(f64::max).expect("some worker");
        if temperature > 0.0 && lowest < highest {
            let weights: Vec<f64> = costs
                .iter()
                .map(|cost| (-(cost - lowest) / ((highest - lowest) * temperature)).exp())
                .collect();
            let total: f64 = weights.iter().sum();
            let drawn: f64 = self.stream.random();
            let mut reached = 0.0;
            for (worker, weight) in weights.iter().enumerate() {
                reached += weight / total;
                if reached >= drawn {
                    return worker;
                }
            }
            return weights.len() - 1;
        }
        let equals: Vec<usize> = (0..costs.len()).filter(|&worker| costs[worker] <= lowest).collect();
        if equals.len() == 1 {
            equals[0]
        } else {
            equals[self.stream.random_range(0..equals.len())]
        }
    }

    /// All requests that run, with their workers.
    pub(super) fn running(&self) -> Vec<(WorkerId, RequestId)> {
        let of_worker = |(index, worker): (usize, &Worker)| {
            let requests: Vec<RequestId> = worker.running.iter().map(|running| running.request).collect();
            requests.into_iter().map(move |request| (worker_id(index), request))
        };
        self.workers.iter().enumerate().flat_map(of_worker).collect()
    }

    pub(super) fn prefill_done(&mut self, worker: WorkerId, request: RequestId) {
        let running = self.workers[worker.index()].running.iter_mut();
        for running in running.filter(|running| running.request == request) {
            running.prefill_tokens = 0;
        }
    }

    pub(super) fn finished(&mut self, worker: WorkerId, request: RequestId) {
        let running = &mut self.workers[worker.index()].running;
        running.retain(|running| running.request != request);
    }
}

fn worker_id(index: usize) -> WorkerId {
    WorkerId::new(u32::try_from(index).expect("few workers"))
}
