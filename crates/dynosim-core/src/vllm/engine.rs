//! The state of a vLLM-style worker and the course of one pass.

use std::collections::VecDeque;

use super::ahead::NotYetSeen;
use super::emission::Source;
use super::run::Reach;
use super::sequence::{Sequence, SequenceKey, SequenceSlab};
use super::steady::SteadyBatch;
use crate::decode_pages::DecodePages;
use crate::decode_run::DecodeRun;
use crate::engine::{Boundary, Engine, Incoming, PassContext, PassTimes, PoolSetup, WorkerUsage};
use crate::error::SimError;
use crate::kv::{BlockPool, PrefixCache};
use crate::rules::ScheduledWhen;
use dynosim_spec::{PreemptionMode, RequestId, SegmentId, SimDuration, SimTime};

/// One vLLM-style worker.
///
/// Invariants: every sequence is in exactly one of `waiting`, `not_yet_seen` and `running`; a waiting one holds no
/// blocks; `running` is in order of admission.
#[derive(Debug)]
pub(crate) struct VllmEngine {
    pub(super) blocks: BlockPool,
    pub(super) sequences: SequenceSlab,
    pub(super) waiting: VecDeque<SequenceKey>,
    /// Waiting requests that the scheduler has not seen yet, among other things.
    pub(super) not_yet_seen: NotYetSeen,
    pub(super) running: Vec<SequenceKey>,
    /// Number of the current step.
    pub(super) step: u64,
    pub(super) scratch: Vec<(SequenceKey, Source)>,
    pub(super) steady: SteadyBatch,
    pub(super) reach: Reach,
    /// What is held in the single step under way, or in the latest step of a run that was settled; where phases are
    /// kept.
    pub(super) step_usage: WorkerUsage,
    scheduled_when: ScheduledWhen,
    /// Steps computed at once that have not happened yet.
    run: Option<DecodeRun>,
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
            not_yet_seen: NotYetSeen::default(),
            running: Vec::new(),
            step: 0,
            scratch: Vec::new(),
            steady: SteadyBatch::default(),
            reach: Reach::default(),
            step_usage: WorkerUsage::default(),
            scheduled_when: pool.rules.scheduled_when,
            run: None,
        }
    }

    /// Schedules and computes one step. Returns how long it takes.
    fn single_pass(&mut self, context: &mut PassContext<'_>) -> Result<SimDuration, SimError> {
        self.step += 1;
        let batch = self.schedule_step(context);
        if context.recorder.keeps_phases() {
            self.step_usage = self.usage_now();
        }
        let duration = self.emit(&batch, context)?;
        self.join_steady(context);
        let blocks = u64::from(context.pool.num_gpu_blocks);
        debug_assert!(self.blocks.active_blocks() <= blocks, "no more blocks than there are");
        Ok(duration)
    }

    fn run_times(&self, run: &DecodeRun, context: &PassContext<'_>) -> PassTimes {
        PassTimes {
            last_step_start: run.last_step_start(),
            end: run.end(),
            first_eviction: self.first_eviction(run, context),
        }
    }

    /// Takes all blocks from a running sequence and puts it at the front of the queue. What it has
    /// generated is kept and will be computed again.
    pub(super) fn preempt(&mut self, index: usize, context: &mut PassContext<'_>) -> SequenceKey {
        self.dissolve_steady();
        let key = self.running.remove(index);
        let sequence = &mut self.sequences[key];
        self.blocks
            .release(context.pool.prompts.path(sequence.request), &mut sequence.hold);
        sequence.computed = 0;
        sequence.running = false;
        self.waiting.push_front(key);
        context.preempted(sequence.request);
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
        let hold = self.blocks.no_hold(incoming.input_tokens);
        let key = self.sequences.insert(Sequence::new(incoming, hold));
        match self.scheduled_when {
            ScheduledWhen::StepStarts => self.waiting.push_back(key),
            ScheduledWhen::StepBeforeStarts => self.not_yet_seen.arrived.push_back(key),
        }
    }

    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.running.is_empty() && self.not_yet_seen.arrived.is_empty())
    }

    fn head(&self) -> Option<RequestId> {
        let arrived = self.not_yet_seen.arrived.front();
        let key = self.running.first().or(self.waiting.front()).or(arrived)?;
        Some(self.sequences[*key].request)
    }

    fn start_pass(&mut self, context: &mut PassContext<'_>) -> Result<PassTimes, SimError> {
        self.see_what_nobody_waits_for(context.pool);
        if let Some(run) = self.plan_run(context)? {
            context.progressed = true;
            self.run = Some(run);
            return Ok(self.run_times(&run, context));
        }
        let duration = self.single_pass(context)?;
        Ok(PassTimes {
            last_step_start: context.now,
            end: context.now + duration,
            first_eviction: None,
        })
    }

    fn cut_run(&mut self, now: SimTime, boundary: Boundary, pages: &DecodePages) -> Option<PassTimes> {
        let run = self.run.as_mut()?;
        let steps = run.steps_started(now, boundary, pages);
        if steps < run.steps() {
            *run = run.ending_after(steps, pages);
        }
        Some(PassTimes {
            last_step_start: run.last_step_start(),
            end: run.end(),
            // Cutting does not move it; whoever looks early finds nothing to do.
            first_eviction: None,
        })
    }

    fn settle_run(&mut self, boundary: Boundary, context: &mut PassContext<'_>) -> Option<PassTimes> {
        let run = self.run?;
        // A step that has started but not ended counts, too: its blocks are taken at its start. The step in
        // which somebody finishes takes none if any of the run is evicted for, and is left to the end.
        let unfinished = self.steady.steps_to_finish() - 1;
        let steps = run.steps_started(context.now, boundary, context.pages).min(unfinished);
        if steps == 0 {
            return Some(self.run_times(&run, context));
        }
        if context.recorder.keeps_phases() {
            self.step_usage = self.usage_in_run(steps, context.pool);
        }
        self.advance(&run, steps, context);
        let rest = run.after(steps, context.pages);
        self.run = Some(rest);
        Some(self.run_times(&rest, context))
    }

    fn end_pass(&mut self, context: &mut PassContext<'_>) {
        if let Some(run) = self.run.take() {
            self.reach.learn(run.steps());
            self.advance(&run, run.steps(), context);
            self.join_steady(context);
        }
    }

    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32)) {
        self.blocks.cache_mut().take_changes(report);
    }

    fn publishes_at_pass_start(&self) -> bool {
        true
    }

    fn evictions(&self) -> u64 {
        self.blocks.cache().evictions()
    }

    fn usage_in_pass(&self, now: SimTime, pool: &PoolSetup, pages: &DecodePages) -> WorkerUsage {
        let started = self.run.map(|run| run.steps_started(now, Boundary::Passed, pages));
        match started {
            Some(step @ 1..) => self.usage_in_run(step, pool),
            // A run of which nothing is left but a step that has been settled, or a single pass.
            Some(0) | None => self.step_usage,
        }
    }

    fn usage_at_rest(&self) -> WorkerUsage {
        WorkerUsage {
            idle_blocks: self.blocks.cache().blocks_kept(),
            ..WorkerUsage::default()
        }
    }
}
