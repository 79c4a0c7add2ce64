//! The state of an SGLang-style worker and the course of one pass.

use std::collections::VecDeque;

use dynosim_spec::{RequestId, SegmentId, SimDuration, SimTime, WorkerRole};
use dynosim_timing::StepShape;

use super::admission::{PrefillBatch, ReserveRatio};
use super::page_pool::PagePool;
use super::sequence::Sequence;
use crate::engine::{Engine, Incoming, Pass, PoolSetup, Signal, StepPart};
use crate::error::SimError;
use crate::kv::PrefixCache;
use crate::metrics::Recorder;
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
}

/// What a pass works with.
pub(super) struct PassContext<'a> {
    pub(super) now: SimTime,
    pub(super) pool: &'a PoolSetup,
    pub(super) recorder: &'a mut Recorder,
    pub(super) progressed: bool,
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
        }
    }

    fn price_prefill(&self, batch: &PrefillBatch, context: &mut PassContext<'_>) -> Result<SimDuration, SimError> {
        if batch.seqs == 0 || context.pool.config.role == WorkerRole::Decode {
            return Ok(SimDuration::ZERO);
        }
        let shape = StepShape::prefill(batch.seqs, batch.tokens, batch.prefix_tokens);
        let (time, price) = context.pool.price(StepPart::Prefill, &shape)?;
        context.recorder.priced(price);
        Ok(time)
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
        let (time, price) = context.pool.price(StepPart::Decode, &shape)?;
        context.recorder.priced(price);
        Ok(time)
    }

    /// Takes pages from the request with the fewest outputs until there is a slot for every
    /// running request's next token, or only one is left.
    fn retract_until_all_fit(&mut self, context: &mut PassContext<'_>) {
        let mut retracted = false;
        while self.running.len() > 1 && self.pages_for_next_tokens(context.pool) > self.pages.available_pages() {
            let fewest = (0..self.running.len()).min_by_key(|&index| self.running[index].generated);
            let mut sequence = self.running.swap_remove(fewest.expect("more than one is running"));
            self.pages
                .release(context.pool.prompts.path(sequence.request), &mut sequence.hold);
            sequence.materialised = 0;
            context.recorder.preempted(sequence.request);
            self.waiting.push_front(sequence);
            retracted = true;
        }
        if retracted {
            self.reserve_ratio.reset();
        }
    }

    fn pages_for_next_tokens(&self, pool: &PoolSetup) -> u64 {
        let opens_page = |sequence: &&Sequence| {
            takes_slot(sequence, pool) && sequence.length().is_multiple_of(pool.config.block_size.tokens())
        };
        self.running.iter().filter(opens_page).count() as u64
    }

    /// Emits a token for every running request. Who is finished leaves its place to the last one.
    fn emit(&mut self, at: SimTime, context: &mut PassContext<'_>, signals: &mut Vec<Signal>) {
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
                context.recorder.token(sequence.request, at);
            }
            if sequence.generated < sequence.output_tokens {
                if sequence.generated == 1 {
                    signals.push(Signal::FirstToken(sequence.request));
                }
                index += 1;
                continue;
            }
            signals.push(Signal::Completed(sequence.request));
            let path = context.pool.prompts.path(sequence.request);
            self.pages.insert(path, &mut sequence.hold, sequence.materialised);
            self.pages.release(path, &mut sequence.hold);
            self.running.swap_remove(index);
        }
    }
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

    fn pass(
        &mut self,
        now: SimTime,
        pool: &PoolSetup,
        recorder: &mut Recorder,
        signals: &mut Vec<Signal>,
    ) -> Result<Pass, SimError> {
        let mut context = PassContext {
            now,
            pool,
            recorder,
            progressed: false,
        };
        let batch = self.admit(&mut context);
        let prefill_time = self.price_prefill(&batch, &mut context)?;
        let decode_time = self.price_decode(&mut context)?;
        self.retract_until_all_fit(&mut context);
        let duration = prefill_time + decode_time;
        self.emit(now + duration, &mut context, signals);
        self.reserve_ratio.decay();
        debug_assert!(
            self.pages.active_pages() <= u64::from(pool.num_gpu_blocks),
            "no more pages than there are"
        );
        Ok(Pass {
            duration,
            progressed: context.progressed,
        })
    }

    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32)) {
        self.pages.cache_mut().take_changes(report);
    }

    fn publishes_at_pass_start(&self) -> bool {
        false
    }

    fn active_blocks(&self) -> u64 {
        self.pages.active_pages()
    }

    fn evictions(&self) -> u64 {
        self.pages.cache().evictions()
    }
}
