//! The state of an SGLang-style worker and the course of one pass.

use std::collections::VecDeque;

use dynosim_spec::{RequestId, SegmentId, SimDuration, SimTime, WorkerRole};
use dynosim_timing::{StepPart, StepShape};

use super::admission::{PrefillBatch, ReserveRatio};
use super::page_pool::PagePool;
use super::sequence::Sequence;
use crate::decode_pages::DecodePages;
use crate::engine::{Boundary, Engine, Incoming, PassContext, PassTimes, PoolSetup, Signal, WorkerUsage};
use crate::error::SimError;
use crate::kv::PrefixCache;
use crate::rules::BlockTaken;

/// One SGLang-style worker.
///
/// Invariants: a waiting request holds no pages; at most one unfinished prompt holds pages without running.
#[derive(Debug)]
pub(crate) struct SglangEngine {
    pub(super) pages: PagePool,
    pub(super) waiting: VecDeque<Sequence>,
    /// A prompt computed in part; it goes on before anybody else starts.
    pub(super) unfinished: Option<Sequence>,
    pub(super) running: Vec<Sequence>,
    pub(super) reserve_ratio: ReserveRatio,
    /// What is held in the pass under way; where phases are kept.
    pass_usage: WorkerUsage,
}

impl SglangEngine {
    /// An idle worker of a pool.
    pub(crate) fn new(pool: &PoolSetup, publish_cache_changes: bool) -> Self {
        let mut cache = PrefixCache::for_prompts(&pool.prompts);
        if publish_cache_changes {
            cache.publish_changes();
        }
        Self {
            pages: PagePool::new(pool.config.block_size, pool.num_gpu_blocks, cache),
            waiting: VecDeque::new(),
            unfinished: None,
            running: Vec::new(),
            reserve_ratio: ReserveRatio::new(pool.config.sglang.schedule_conservativeness),
            pass_usage: WorkerUsage::default(),
        }
    }

    /// Prices one token for every running request.
    fn price_decode(&self, context: &mut PassContext<'_>) -> Result<SimDuration, SimError> {
        let Ok(seqs @ 1..) = u32::try_from(self.running.len()) else {
            return Ok(SimDuration::ZERO);
        };
        let tokens = self.running.iter().map(|sequence| u64::from(sequence.length())).sum();
        let mut shape = StepShape::decode(seqs, tokens);
        shape.total_kv_tokens = context.pool.kv_tokens();
        shape.active_kv_tokens = tokens.min(shape.total_kv_tokens);
        let time = context.pool.decode_time(&shape)?;
        context.priced(time, StepPart::Decodes(&shape));
        Ok(time.total)
    }

    /// Takes pages from the request with the fewest outputs until there is a slot for every running
    /// request's next token. The last one running never gives way, but the unfinished prompt does.
    fn retract_until_all_fit(&mut self, context: &mut PassContext<'_>) {
        while self.pages_for_next_tokens(context.pool) > self.pages.available_pages() {
            let fewest = (0..self.running.len()).min_by_key(|&index| self.running[index].generated);
            let sequence = match (fewest, self.running.len()) {
                (Some(fewest), 2..) => Some(self.running.swap_remove(fewest)),
                _ => self.unfinished.take(),
            };
            let mut sequence = sequence.expect("a request alone fits, or it is rejected");
            self.pages
                .release(context.pool.prompts.path(sequence.request), &mut sequence.hold);
            sequence.materialised = 0;
            context.preempted(sequence.request);
            self.waiting.push_front(sequence);
            self.reserve_ratio.reset();
        }
    }

    fn pages_for_next_tokens(&self, pool: &PoolSetup) -> u64 {
        let opens_page = |sequence: &&Sequence| {
            takes_slot(sequence, pool) && sequence.length().is_multiple_of(pool.config.block_size.tokens())
        };
        self.running.iter().filter(opens_page).count() as u64
    }

    /// What is held in a pass of which nobody has emitted a token yet.
    fn usage_now(&self) -> WorkerUsage {
        let requests = self.running.len() + usize::from(self.unfinished.is_some());
        WorkerUsage {
            running: u32::try_from(requests).expect("requests are indexed by u32"),
            held_blocks: self.pages.active_pages(),
            idle_blocks: self.pages.cache().idle_blocks(),
        }
    }

    /// Emits a token for every running request. Who is finished leaves its place to the last one.
    fn emit(&mut self, at: SimTime, context: &mut PassContext<'_>) {
        let mut index = 0;
        while index < self.running.len() {
            let sequence = &mut self.running[index];
            if takes_slot(sequence, context.pool) {
                let tokens = sequence.length() + 1;
                self.pages.grow(&mut sequence.hold, tokens);
                sequence.materialised += 1;
            }
            sequence.generated += 1;
            context.progressed = true;
            if context.pool.config.role != WorkerRole::Prefill {
                sequence.tokens.emit(sequence.request, at, context.recorder);
            }
            if sequence.generated < sequence.output_tokens {
                if sequence.generated == 1 {
                    context.signals.push(Signal::FirstToken(sequence.request));
                }
                index += 1;
                continue;
            }
            if context.pool.config.role != WorkerRole::Prefill {
                context.recorder.finished(sequence.request, &sequence.tokens);
            }
            context.signals.push(Signal::Completed(sequence.request));
            let path = context.pool.prompts.path(sequence.request);
            self.pages.insert(path, &mut sequence.hold, sequence.materialised);
            self.pages.retire(path, sequence.hold);
            self.running.swap_remove(index);
        }
    }
}

/// Prices the prompts of a batch.
fn price_prefill(batch: &PrefillBatch, context: &mut PassContext<'_>) -> Result<SimDuration, SimError> {
    if batch.seqs == 0 || context.pool.config.role == WorkerRole::Decode {
        return Ok(SimDuration::ZERO);
    }
    let shape = StepShape::prefill(batch.seqs, batch.tokens, batch.prefix_tokens);
    let time = context.prefill_times.time(context.pool, &shape)?;
    context.priced(time, StepPart::Prompts(&shape));
    Ok(time.total)
}

/// Whether the next token of a request needs a slot: the last one may do without.
fn takes_slot(sequence: &Sequence, pool: &PoolSetup) -> bool {
    pool.rules.block_taken == BlockTaken::WhenEmitted || sequence.generated + 1 < sequence.output_tokens
}

impl Engine for SglangEngine {
    fn enqueue(&mut self, incoming: Incoming) {
        self.waiting.push_back(Sequence::new(incoming));
    }

    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.running.is_empty()) || self.unfinished.is_some()
    }

    fn head(&self) -> Option<RequestId> {
        let head = self
            .running
            .first()
            .or(self.unfinished.as_ref())
            .or(self.waiting.front())?;
        Some(head.request)
    }

    fn start_pass(&mut self, context: &mut PassContext<'_>) -> Result<PassTimes, SimError> {
        let batch = self.admit(context);
        let prefill_time = price_prefill(&batch, context)?;
        let decode_time = self.price_decode(context)?;
        self.retract_until_all_fit(context);
        if context.recorder.keeps_phases() {
            self.pass_usage = self.usage_now();
        }
        let end = context.now + prefill_time + decode_time;
        self.emit(end, context);
        self.reserve_ratio.decay();
        let pages = u64::from(context.pool.num_gpu_blocks);
        debug_assert!(self.pages.active_pages() <= pages, "no more pages than there are");
        Ok(PassTimes {
            last_step_start: context.now,
            end,
            first_eviction: None,
        })
    }

    fn cut_run(&mut self, _now: SimTime, _boundary: Boundary, _pages: &DecodePages) -> Option<PassTimes> {
        None
    }

    fn settle_run(&mut self, _boundary: Boundary, _context: &mut PassContext<'_>) -> Option<PassTimes> {
        None
    }

    fn end_pass(&mut self, _context: &mut PassContext<'_>) {}

    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32)) {
        self.pages.cache_mut().take_changes(report);
    }

    fn publishes_at_pass_start(&self) -> bool {
        false
    }

    fn evictions(&self) -> u64 {
        self.pages.cache().evictions()
    }

    fn usage_in_pass(&self, _now: SimTime, _pool: &PoolSetup, _pages: &DecodePages) -> WorkerUsage {
        self.pass_usage
    }

    fn usage_at_rest(&self) -> WorkerUsage {
        self.usage_now()
    }
}
