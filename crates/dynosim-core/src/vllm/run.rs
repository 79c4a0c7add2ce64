//! Runs of decode steps: how long the batch stays as it is, and what so many steps amount to.
//!
//! A run is exactly what single passes would do: every sequence emits one token per step, takes a
//! block whenever it begins one, and nobody joins or gives way. Requests finish in its last step only.
//! Besides, one request may [take in its prompt](super::absorption).

use dynosim_spec::{SimDuration, SimTime};
use dynosim_timing::DecodeInputs;

use super::absorption::Absorber;
use super::engine::VllmEngine;
use super::scheduling::takes_prompts_whole;
use super::sequence::{Sequence, blocks_begun};
use crate::decode_run::{DecodeRun, RunPricing};
use crate::engine::{PassContext, PoolSetup, Stepping};
use crate::error::SimError;
use crate::rules::{AdmissionShortage, BlockTaken};

/// How many steps are computed at once at most.
///
/// A run is priced to its end even if an arrival soon cuts it, so runs are not planned much longer than they
/// lately turned out to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach(u32);

impl Reach {
    const LEAST: u32 = 128;
    const MOST: u32 = 4096;

    /// A run came to this many steps.
    pub(super) fn learn(&mut self, steps: u32) {
        let shorter = self.0 - self.0 / 4;
        self.0 = steps.saturating_mul(4).max(shorter).clamp(Self::LEAST, Self::MOST);
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self(2 * Self::LEAST)
    }
}

/// Whom the queue keeps waiting while the batch stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueDuringRun {
    /// The next request might be admitted: there can be no run.
    Moves,
    /// Nobody can be admitted before a request finishes.
    Stands,
    /// Nobody can be admitted unless blocks are evicted, which may change what is asked for.
    StandsWithoutEviction,
}

/// The running requests, if all of them only wait for their next token, or all but one that takes in its prompt.
#[derive(Debug, Clone, Copy)]
struct DecodeBatch {
    /// Those that wait for a token.
    seqs: u32,
    /// Sum of their lengths.
    tokens: u64,
    /// Steps up to the one in which the first of them finishes.
    steps_to_finish: u32,
    /// Whether all who finish in that step are in the steady batch.
    steady_finishes: bool,
    /// Steps before the first one in which one of them begins a block.
    steps_before_block: u32,
    absorber: Option<Absorber>,
}

impl VllmEngine {
    /// The steps that can be computed at once from now on, if there are at least two.
    pub(super) fn plan_run(&mut self, context: &mut PassContext<'_>) -> Result<Option<DecodeRun>, SimError> {
        let pool = context.pool;
        let inputs = pool.timing.decode_depends_on();
        if inputs == DecodeInputs::WholeStep || context.stepping == Stepping::Single || !self.not_yet_seen.is_empty() {
            return Ok(None);
        }
        let Some(batch) = self.decode_batch(pool) else {
            return Ok(None);
        };
        let most_steps = batch.steps_to_finish - u32::from(!batch.steady_finishes);
        let mut steps = most_steps.min(self.reach.0);
        if let Some(absorber) = batch.absorber {
            if inputs == DecodeInputs::KvUsage {
                return Ok(None);
            }
            steps = steps.min(absorber.steps);
        }
        let queue = if steps < 2 {
            QueueDuringRun::Moves
        } else {
            self.queue_during_run(&batch, pool)
        };
        let room = match queue {
            QueueDuringRun::Moves => return Ok(None),
            QueueDuringRun::Stands => self.blocks.available_blocks(),
            QueueDuringRun::StandsWithoutEviction => self.blocks.free_blocks(),
        };
        if inputs == DecodeInputs::KvUsage {
            steps = steps.min(steps_at_equal_usage(&batch, pool));
        }
        let needs_eviction =
            steps > batch.steps_before_block && self.blocks_begun_in(steps, pool) > self.blocks.free_blocks();
        if needs_eviction {
            steps = self.steps_within(room, steps, pool);
            if steps == batch.steps_to_finish && !self.can_finish_in(steps, pool) {
                steps -= 1;
            }
        }
        // A request may arrive where a step of no length begins, so such a step is a pass of its own.
        let mean_context = batch.tokens / u64::from(batch.seqs);
        let pricing = if inputs == DecodeInputs::KvUsage {
            let step = pool.decode_time(&self.decode_shape(batch.seqs, batch.tokens, pool))?;
            steps = if step.total == SimDuration::ZERO { 0 } else { steps };
            RunPricing::Equal(step)
        } else {
            context.pages.fill(pool, batch.seqs, mean_context, steps)?;
            steps = context.pages.steps_with_time(batch.seqs, mean_context, steps);
            RunPricing::ByContext
        };
        let batch = (batch.seqs, mean_context);
        Ok((steps >= 2).then(|| DecodeRun::new(context.now, steps, batch, pricing, context.pages)))
    }

    /// Lets the first `steps` steps of a run happen.
    pub(super) fn advance(&mut self, run: &DecodeRun, steps: u32, context: &mut PassContext<'_>) {
        if steps == 0 {
            return;
        }
        let pool = context.pool;
        let absorber = self.absorber(pool);
        let first_end = run.step_end(1, context.pages);
        let last_end = run.step_end(steps, context.pages);
        if context.recorder.keeps_token_times() {
            self.keep_token_times(run, steps, context);
        }
        self.advance_steady(steps, first_end, last_end, context);
        for index in self.steady.len()..self.generating(absorber) {
            let key = self.running[index];
            let last_block = self.length_at_last_block(&self.sequences[key], steps, pool);
            let sequence = &mut self.sequences[key];
            if let Some(length) = last_block {
                let path = pool.prompts.path(sequence.request);
                let reached = self.blocks.extend(path, &mut sequence.hold, length, length);
                debug_assert_eq!(reached, length, "a run stays within the blocks that there are");
            }
            sequence.generated += steps;
            sequence.computed += steps;
            sequence.tokens.emit_run(steps, first_end, last_end, context.recorder);
        }
        if let Some(absorber) = absorber {
            self.absorb(absorber, steps, pool);
        }
        self.let_steady_finish(context);
        match run.pricing {
            RunPricing::ByContext => context.pages.visit(run.seqs, run.context + 1, steps - 1),
            RunPricing::Equal(step) => {
                context
                    .recorder
                    .gaps
                    .add(step.total, u64::from(steps - 1) * u64::from(run.seqs));
            }
        }
        context.tally.priced(run.time(steps, context.pages));
        context.progressed = true;
    }

    /// When the first step of a run starts that must evict, if others are to know; `None` if none does.
    pub(super) fn first_eviction(&self, run: &DecodeRun, context: &PassContext<'_>) -> Option<SimTime> {
        if !self.blocks.cache().publishes_changes() {
            return None;
        }
        let steps = self.steps_within(self.blocks.free_blocks(), run.steps(), context.pool);
        (steps < run.steps()).then(|| run.step_end(steps, context.pages))
    }

    fn decode_batch(&self, pool: &PoolSetup) -> Option<DecodeBatch> {
        let absorber = self.absorber(pool);
        let seqs = u32::try_from(self.generating(absorber)).ok().filter(|&seqs| seqs > 0)?;
        if pool.config.max_num_batched_tokens.is_some_and(|budget| seqs > budget) {
            return None;
        }
        let mut batch = DecodeBatch {
            seqs,
            tokens: self.steady.tokens(),
            steps_to_finish: u32::MAX,
            steady_finishes: true,
            steps_before_block: if absorber.is_some() { 0 } else { u32::MAX },
            absorber,
        };
        if self.steady.len() > 0 {
            batch.steps_to_finish = self.steady.steps_to_finish();
            batch.steps_before_block = batch.steps_before_block.min(self.steady.steps_before_block());
        }
        for sequence in self.sequences_behind_steady(absorber) {
            if !sequence.only_decodes() {
                return None;
            }
            let steps_before_block = self.steps_before_block(sequence, pool)?;
            batch.tokens += u64::from(sequence.length());
            let steps_to_finish = sequence.output_tokens - sequence.generated;
            if steps_to_finish <= batch.steps_to_finish {
                batch.steps_to_finish = steps_to_finish;
                batch.steady_finishes = false;
            }
            batch.steps_before_block = batch.steps_before_block.min(steps_before_block);
        }
        Some(batch)
    }

    fn queue_during_run(&self, batch: &DecodeBatch, pool: &PoolSetup) -> QueueDuringRun {
        let Some(&key) = self.waiting.front().filter(|_| batch.absorber.is_none()) else {
            return QueueDuringRun::Stands;
        };
        if pool
            .config
            .max_num_seqs
            .is_some_and(|most| self.running.len() >= most as usize)
        {
            return QueueDuringRun::Stands;
        }
        let head = &self.sequences[key];
        let budget = pool.config.max_num_batched_tokens.map_or(u64::MAX, u64::from) - self.running.len() as u64;
        let Some(ask) = self.ask(head, budget, pool) else {
            return QueueDuringRun::Stands;
        };
        if pool.rules.admission_shortage != AdmissionShortage::Waits || self.fits(head, ask.target, pool) {
            QueueDuringRun::Moves
        } else if ask.cached == 0 || takes_prompts_whole(pool) {
            QueueDuringRun::Stands
        } else {
            QueueDuringRun::StandsWithoutEviction
        }
    }

    /// Whether requests can finish in the last of `steps` steps without anybody noticing that they give back
    /// their blocks one by one: if nobody takes a block in that step, or there is no need to evict any.
    fn can_finish_in(&self, steps: u32, pool: &PoolSetup) -> bool {
        let begun = self.blocks_begun_in(steps, pool);
        begun <= self.blocks.free_blocks() || begun == self.blocks_begun_in(steps - 1, pool)
    }

    /// Blocks that the batch begins in the next `steps` steps.
    fn blocks_begun_in(&self, steps: u32, pool: &PoolSetup) -> u64 {
        let absorber = self.absorber(pool);
        let absorbed = absorber.map_or(0, |absorber| self.blocks_absorbed(absorber, steps, pool));
        absorbed + self.blocks_begun_by_generating(absorber, steps, pool)
    }

    /// Blocks that those who generate begin in the next `steps` steps.
    #[inline]
    pub(super) fn blocks_begun_by_generating(&self, absorber: Option<Absorber>, steps: u32, pool: &PoolSetup) -> u64 {
        let behind = self.sequences_behind_steady(absorber);
        let begun: u64 = behind
            .map(|sequence| u64::from(self.blocks_begun(sequence, steps, pool)))
            .sum();
        begun + self.blocks_begun_by_steady(steps, pool)
    }

    /// The most steps, of `most`, in which the batch begins at most `room` blocks.
    fn steps_within(&self, room: u64, most: u32, pool: &PoolSetup) -> u32 {
        if self.blocks_begun_in(most, pool) <= room {
            return most;
        }
        let (mut fits, mut exceeds) = (0, most);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if self.blocks_begun_in(middle, pool) <= room {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        fits
    }

    /// Steps that a sequence makes before the first one in which it begins a block; `None` if it
    /// lacks a block even for the tokens that it has.
    pub(super) fn steps_before_block(&self, sequence: &Sequence, pool: &PoolSetup) -> Option<u32> {
        let tokens = match pool.rules.block_taken {
            // The step computes the last token of the sequence.
            BlockTaken::WhenScheduled => sequence.length() - 1,
            // The step emits the token after it.
            BlockTaken::WhenEmitted => sequence.length(),
        };
        self.blocks.held_tokens(&sequence.hold).checked_sub(tokens)
    }

    /// Blocks that a sequence begins in the next `steps` steps.
    fn blocks_begun(&self, sequence: &Sequence, steps: u32, pool: &PoolSetup) -> u32 {
        let before = self.steps_before_block(sequence, pool);
        before.map_or(0, |before| blocks_begun(before, steps, pool.config.block_size.tokens()))
    }

    /// Length that a sequence has with the first token of the last block it begins in `steps`
    /// steps; `None` if it begins none.
    fn length_at_last_block(&self, sequence: &Sequence, steps: u32, pool: &PoolSetup) -> Option<u32> {
        let blocks = self.blocks_begun(sequence, steps, pool);
        let held_tokens = self.blocks.held_tokens(&sequence.hold);
        (blocks > 0).then(|| held_tokens + (blocks - 1) * pool.config.block_size.tokens() + 1)
    }

    /// How many requests, the first ones of those running, generate tokens.
    fn generating(&self, absorber: Option<Absorber>) -> usize {
        self.running.len() - usize::from(absorber.is_some())
    }

    fn sequences_behind_steady(&self, absorber: Option<Absorber>) -> impl Iterator<Item = &Sequence> {
        self.running[self.steady.len()..self.generating(absorber)]
            .iter()
            .map(|&key| &self.sequences[key])
    }

    fn keep_token_times(&self, run: &DecodeRun, steps: u32, context: &mut PassContext<'_>) {
        for step in 1..=steps {
            let at = run.step_end(step, context.pages);
            for &key in &self.running[..run.seqs as usize] {
                let sequence = &self.sequences[key];
                context.recorder.keep_token_time(sequence.request, at);
            }
        }
    }
}

/// Steps that are priced with the blocks that are active now.
fn steps_at_equal_usage(batch: &DecodeBatch, pool: &PoolSetup) -> u32 {
    match pool.rules.block_taken {
        // The step that takes a block is priced with it, so it must begin a run.
        BlockTaken::WhenScheduled => batch.steps_before_block,
        // The step that emits into a new block is priced without it.
        BlockTaken::WhenEmitted => batch.steps_before_block.saturating_add(1),
    }
}
