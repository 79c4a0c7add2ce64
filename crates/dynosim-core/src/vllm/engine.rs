//! The state of a vLLM-style worker and the course of one pass.

use std::collections::VecDeque;

use dynosim_spec::{PreemptionMode, RequestId, SegmentId, SimTime};
use dynosim_timing::StepShape;

use super::sequence::{Sequence, SequenceKey, SequenceSlab};
use crate::engine::{Engine, Incoming, Pass, PoolSetup, Signal, StepPart};
use crate::error::SimError;
use crate::kv::{BlockPool, PrefixCache};
use crate::metrics::Recorder;

/// One vLLM-style worker.
///
/// Invariants: every sequence is in exactly one of `waiting` and `running`; a waiting one holds no
/// blocks; `running` is in order of admission.
#[derive(Debug)]
pub(crate) struct VllmEngine {
    pub(super) blocks: BlockPool,
    pub(super) sequences: SequenceSlab,
    pub(super) waiting: VecDeque<SequenceKey>,
    pub(super) running: Vec<SequenceKey>,
    /// Number of the current step.
    pub(super) step: u64,
    pub(super) scratch: Vec<SequenceKey>,
}

/// What a pass works with.
pub(super) struct PassContext<'a> {
    pub(super) now: SimTime,
    pub(super) pool: &'a PoolSetup,
    pub(super) recorder: &'a mut Recorder,
    pub(super) signals: &'a mut Vec<Signal>,
    pub(super) progressed: bool,
}

impl VllmEngine {
    /// An idle worker of a pool.
    pub(crate) fn new(pool: &PoolSetup, publish_cache_changes: bool) -> Self {
        let mut cache = if pool.config.enable_prefix_caching {
            PrefixCache::for_prompts(&pool.prompts)
        } else {
            PrefixCache::without_reuse()
        };
        if publish_cache_changes {
            cache.publish_changes();
        }
        Self {
            blocks: BlockPool::new(pool.config.block_size, pool.num_gpu_blocks, cache),
            sequences: SequenceSlab::default(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: 0,
            scratch: Vec::new(),
        }
    }

    /// Takes all blocks from a running sequence and puts it at the front of the queue. What it has
    /// generated is kept and will be computed again.
    pub(super) fn preempt(&mut self, index: usize, context: &mut PassContext<'_>) -> SequenceKey {
        let key = self.running.remove(index);
        let sequence = &mut self.sequences[key];
        self.blocks
            .release(context.pool.prompts.path(sequence.request), &mut sequence.hold);
        sequence.computed = 0;
        sequence.running = false;
        self.waiting.push_front(key);
        context.recorder.preempted(sequence.request);
        key
    }

    /// Index of the running sequence that must give way.
    pub(super) fn victim(&self, pool: &PoolSetup) -> Option<usize> {
        let last = self.running.len().checked_sub(1)?;
        Some(match pool.config.preemption_mode {
            PreemptionMode::Lifo => last,
            PreemptionMode::Fifo => 0,
        })
    }
}

impl Engine for VllmEngine {
    fn enqueue(&mut self, incoming: Incoming) {
        let hold = self.blocks.no_hold(incoming.request, incoming.input_tokens);
        let key = self.sequences.insert(Sequence::new(incoming, hold));
        self.waiting.push_back(key);
    }

    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.running.is_empty())
    }

    fn head(&self) -> Option<RequestId> {
        let key = self.running.first().or(self.waiting.front())?;
        Some(self.sequences[*key].request)
    }

    fn pass(
        &mut self,
        now: SimTime,
        pool: &PoolSetup,
        recorder: &mut Recorder,
        signals: &mut Vec<Signal>,
    ) -> Result<Pass, SimError> {
        self.step += 1;
        let mut context = PassContext {
            now,
            pool,
            recorder,
            signals,
            progressed: false,
        };
        let batch = self.schedule(&mut context);
        let prefill_time = if batch.prefill_seqs == 0 {
            dynosim_spec::SimDuration::ZERO
        } else {
            let shape = StepShape::prefill(batch.prefill_seqs, batch.prefill_tokens, batch.prefill_prefix_tokens);
            let (time, price) = pool.price(StepPart::Prefill, &shape)?;
            context.recorder.priced(price);
            time
        };
        let decode_time = self.emit(prefill_time, &mut context)?;
        debug_assert!(
            self.blocks.active_blocks() <= u64::from(pool.num_gpu_blocks),
            "no more blocks than there are"
        );
        Ok(Pass {
            duration: prefill_time + decode_time,
            progressed: context.progressed,
        })
    }

    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32)) {
        self.blocks.cache_mut().take_changes(report);
    }

    fn publishes_at_pass_start(&self) -> bool {
        true
    }

    fn active_blocks(&self) -> u64 {
        self.blocks.active_blocks()
    }

    fn evictions(&self) -> u64 {
        self.blocks.cache().evictions()
    }
}
