//! Routing by prompt work, cached prefixes and active blocks.

use std::sync::Arc;

use dynosim_spec::{BlockSize, RequestId, RouterSettings, SegmentId, SimTime, WorkerId, WorkerRole};

use crate::active_blocks::{ActiveBlocks, BlockTracking, Footprint};
use crate::bookings::Bookings;
use crate::choice::{Choice, stream};
use crate::cost::{CostFunction, Loads};
use crate::pool::Pool;
use crate::prefix_index::PrefixIndex;
use crate::queue::{Queue, Waiting};
use crate::router::{RouteQuery, Router, WorkerReport};

/// Token budget of a step that stands for "unlimited" when the router decides which workers are busy.
const UNLIMITED_BATCHED_TOKENS: u32 = 10_000_000;

/// Sends each request where it costs least.
///
/// The cost of a worker, in blocks, is
/// `scale * max(0, (A + L) / block_size - credit * o) + D` with `A` the prompt tokens booked on the
/// worker and not yet computed, `L` the prompt's length, `o` the blocks of the prompt that
/// the worker holds in its cache, and `D` the distinct prompt blocks of its running requests and
/// this one. Ties go to one of the cheapest workers at random, from a seeded stream.
///
/// While all workers have more than `router_queue_threshold` step budgets of prompt tokens booked,
/// arrivals are kept back, and released in the order of `router_queue_policy`. Cache overlaps
/// are those of the arrival, loads those of the moment of routing.
#[derive(Debug, Clone)]
pub struct KvOverlap {
    block_size: BlockSize,
    cost_function: CostFunction,
    /// Booked prefill tokens above which a worker is busy; `None` if workers are never busy.
    busy_above_tokens: Option<f64>,
    wants_kv_events: bool,
    track_prefill_tokens: bool,

    prefix_index: PrefixIndex,
    active_blocks: ActiveBlocks,
    bookings: Bookings,
    queue: Queue,
    choice: Choice,

    // Of the request being routed, per worker.
    overlaps: Vec<u32>,
    shared_blocks: Vec<u32>,
    costs: Vec<f64>,
}

impl KvOverlap {
    /// A router for `pool`, with the settings as they stand: [`build`](crate::build) adapts them to the
    /// pool's role first.
    ///
    /// # Panics
    /// If there are no workers.
    pub fn new(settings: &RouterSettings, pool: Pool, seed: u64) -> Self {
        assert!(pool.workers > 0, "a pool has at least one worker");
        let workers = pool.workers as usize;
        let step_tokens = f64::from(pool.max_num_batched_tokens.unwrap_or(UNLIMITED_BATCHED_TOKENS));
        Self {
            block_size: pool.block_size,
            cost_function: CostFunction::new(settings, pool.block_size),
            busy_above_tokens: settings.router_queue_threshold.map(|threshold| threshold * step_tokens),
            wants_kv_events: pool.role != WorkerRole::Decode,
            track_prefill_tokens: settings.router_track_prefill_tokens,

            prefix_index: PrefixIndex::new(Arc::clone(&pool.prompts), workers),
            active_blocks: ActiveBlocks::new(BlockTracking::new(settings), pool.prompts, workers),
            bookings: Bookings::new(workers),
            queue: Queue::new(settings.router_queue_policy, pool.block_size),
            choice: Choice::new(settings.router_temperature, stream(seed, pool.role)),

            overlaps: vec![0; workers],
            shared_blocks: vec![0; workers],
            costs: vec![0.0; workers],
        }
    }

    fn all_workers_busy(&self) -> bool {
        self.busy_above_tokens
            .is_some_and(|limit| self.bookings.prefill_tokens().iter().all(|&tokens| tokens > limit))
    }

    /// Sends a request to the best worker at the present load and the overlaps in `self.overlaps`.
    fn dispatch(&mut self, request: RequestId, input_tokens: u32, prompt: &[SegmentId]) -> WorkerId {
        if let Some(former_worker) = self.bookings.worker(request) {
            self.finish(former_worker, request);
        }
        let full_blocks = self.block_size.full_blocks(input_tokens);
        let footprint = self.active_blocks.footprint(full_blocks, prompt);
        self.weigh(input_tokens, footprint);
        let worker = self.choice.choose(&self.costs);
        let prefill_tokens = self.prefill_tokens(input_tokens, worker);
        self.bookings.open(request, worker, prefill_tokens, footprint);
        self.active_blocks.add(worker, footprint);
        worker
    }

    /// Computes what the request would cost on each worker.
    fn weigh(&mut self, input_tokens: u32, footprint: Footprint<'_>) {
        self.active_blocks.shared_with(footprint, &mut self.shared_blocks);
        let loads = Loads {
            booked_tokens: self.bookings.prefill_tokens(),
            input_tokens,
            overlap_blocks: &self.overlaps,
            active_blocks: self.active_blocks.active(),
            request_blocks: self.active_blocks.request_blocks(footprint),
            shared_blocks: &self.shared_blocks,
        };
        self.cost_function.costs(loads, &mut self.costs);
    }

    /// Prompt tokens that `worker` has to compute for a request; 0 if they are not tracked.
    fn prefill_tokens(&self, input_tokens: u32, worker: WorkerId) -> u32 {
        if self.track_prefill_tokens {
            let cached_tokens = self.overlaps[worker.index()].saturating_mul(self.block_size.tokens());
            input_tokens.saturating_sub(cached_tokens)
        } else {
            0
        }
    }

    fn finish(&mut self, worker: WorkerId, request: RequestId) {
        if let Some(booking) = self.bookings.close(worker, request) {
            self.active_blocks.remove(worker, booking.footprint());
        }
    }
}

impl Router for KvOverlap {
    fn route(&mut self, now: SimTime, query: &RouteQuery<'_>) -> Option<WorkerId> {
        let prompt = self.prefix_index.known_part(query.prompt);
        self.prefix_index.overlaps(prompt, &mut self.overlaps);
        if self.all_workers_busy() {
            let waiting = Waiting {
                request: query.request,
                input_tokens: query.input_tokens,
                prompt: prompt.to_vec(),
                overlaps: self.overlaps.clone(),
            };
            self.queue.push(now, waiting);
            return None;
        }
        Some(self.dispatch(query.request, query.input_tokens, prompt))
    }

    fn observe(&mut self, _now: SimTime, report: WorkerReport) {
        match report {
            WorkerReport::PrefillDone { worker, request } => self.bookings.prefill_done(worker, request),
            WorkerReport::Finished { worker, request } => self.finish(worker, request),
            WorkerReport::Cached {
                worker,
                segment,
                blocks,
            } => {
                if self.wants_kv_events {
                    self.prefix_index.set_resident(worker, segment, blocks);
                }
            }
        }
    }

    fn release(&mut self, _now: SimTime) -> Option<(RequestId, WorkerId)> {
        if self.all_workers_busy() {
            return None;
        }
        let waiting = self.queue.pop()?;
        self.overlaps = waiting.overlaps;
        let worker = self.dispatch(waiting.request, waiting.input_tokens, &waiting.prompt);
        Some((waiting.request, worker))
    }

    fn wants_kv_events(&self) -> bool {
        self.wants_kv_events
    }
}

#[cfg(test)]
mod tests;
