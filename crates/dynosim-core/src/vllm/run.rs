//! Runs of decode steps: how long the batch stays as it is, and what so many steps amount to.
//!
//! A run is exactly what single passes would do: every sequence emits one token per step, takes a
//! block whenever it begins one, and nobody joins, finishes or gives way. The step in which a
//! request finishes is always a pass of its own.

use dynosim_spec::SimTime;
use dynosim_timing::{DecodeInputs, StepShape};

use super::engine::VllmEngine;
use super::scheduling::takes_prompts_whole;
use super::sequence::Sequence;
use crate::decode_run::{DecodeRun, RunPricing};
use crate::engine::{PassContext, PoolSetup, Stepping};
use crate::error::SimError;
use crate::rules::{AdmissionShortage, BlockTaken};

/// The most steps computed at once: a long run would be priced to its end even if an arrival soon
/// cuts it.
const LONGEST_RUN: u32 = 256;

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

impl VllmEngine {
    /// The steps that can be computed at once from now on, if there are at least two.
    pub(super) fn plan_run(&mut self, context: &mut PassContext<'_>) -> Result<Option<DecodeRun>, SimError> {
        let pool = context.pool;
        let inputs = pool.timing.decode_depends_on();
        let Ok(seqs @ 1..) = u32::try_from(self.running.len()) else {
            return Ok(None);
        };
        if inputs == DecodeInputs::WholeStep || context.stepping == Stepping::Single || !self.only_decodes(pool) {
            return Ok(None);
        }
        let queue = self.queue_during_run(pool);
        if queue == QueueDuringRun::Moves {
            return Ok(None);
        }
        let to_finish = self
            .running_sequences()
            .map(|sequence| sequence.output_tokens - sequence.generated)
            .min();
        // The last token of a request is left to a pass of its own.
        let mut steps = to_finish.map_or(0, |steps| steps - 1).min(LONGEST_RUN);
        let room = match queue {
            QueueDuringRun::StandsWithoutEviction => self.blocks.free_blocks(),
            QueueDuringRun::Stands | QueueDuringRun::Moves => self.blocks.available_blocks(),
        };
        if inputs == DecodeInputs::KvUsage {
            steps = steps.min(self.steps_to_first_block(pool));
        }
        steps = self.steps_within(room, steps, pool);
        if steps < 2 {
            return Ok(None);
        }
        let tokens: u64 = self
            .running_sequences()
            .map(|sequence| u64::from(sequence.length()))
            .sum();
        let mean_context = tokens / u64::from(seqs);
        let pricing = if inputs == DecodeInputs::KvUsage {
            RunPricing::Equal(pool.decode_time(&self.shape_of_batch(seqs, tokens, pool))?)
        } else {
            context.pages.fill(pool, seqs, mean_context, steps)?;
            RunPricing::ByContext
        };
        Ok(Some(DecodeRun {
            start: context.now,
            steps,
            seqs,
            context: mean_context,
            pricing,
            settled_step_start: None,
        }))
    }

    /// Lets the first `steps` steps of a run happen.
    pub(super) fn advance(&mut self, run: &DecodeRun, steps: u32, context: &mut PassContext<'_>) {
        if steps == 0 {
            return;
        }
        let pool = context.pool;
        let first_end = run.step_end(1, context.pages);
        let last_end = run.step_end(steps, context.pages);
        if context.recorder.keeps_token_times() {
            self.keep_token_times(run, steps, context);
        }
        for &key in &self.running {
            let sequence = &mut self.sequences[key];
            if let Some(length) = length_at_last_block(sequence, steps, pool) {
                let path = pool.prompts.path(sequence.request);
                let reached = self.blocks.extend(path, &mut sequence.hold, length, length);
                debug_assert_eq!(reached, length, "a run stays within the blocks that there are");
            }
            sequence.generated += steps;
            sequence.computed += steps;
            sequence.tokens.emit_run(steps, first_end, last_end, context.recorder);
        }
        match run.pricing {
            RunPricing::ByContext => context.pages.visit(run.seqs, run.context + 1, steps - 1),
            RunPricing::Equal(step) => {
                context
                    .recorder
                    .gaps
                    .add(step.total, u64::from(steps - 1) * u64::from(run.seqs));
            }
        }
        context.recorder.priced(run.time(steps, context.pages));
        context.progressed = true;
    }

    /// When the first step of a run starts that must evict; `None` if none does.
    pub(super) fn first_eviction(&self, run: &DecodeRun, context: &PassContext<'_>) -> Option<SimTime> {
        let steps = self.steps_within(self.blocks.free_blocks(), run.steps, context.pool);
        (steps < run.steps).then(|| run.step_end(steps, context.pages))
    }

    /// Whether every running request only waits for its next token, and the budget pays for all.
    fn only_decodes(&self, pool: &PoolSetup) -> bool {
        let budget = pool
            .config
            .max_num_batched_tokens
            .map_or(usize::MAX, |tokens| tokens as usize);
        self.running.len() <= budget
            && self.running_sequences().all(|sequence| {
                sequence.computed >= sequence.input_tokens
                    && sequence.computed + 1 == sequence.length()
                    && self.has_block_to_compute_in(sequence, pool)
            })
    }

    /// Whether the next step finds the block that it expects. Where blocks are taken on emission it
    /// is there, unless the request is just being recomputed after a preemption.
    fn has_block_to_compute_in(&self, sequence: &Sequence, pool: &PoolSetup) -> bool {
        match pool.rules.block_taken {
            BlockTaken::WhenScheduled => true,
            BlockTaken::WhenEmitted => self.blocks.holds(&sequence.hold, sequence.length()),
        }
    }

    fn queue_during_run(&self, pool: &PoolSetup) -> QueueDuringRun {
        let Some(&key) = self.waiting.front() else {
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

    /// The most steps, of `most`, in which the batch begins at most `room` blocks.
    fn steps_within(&self, room: u64, most: u32, pool: &PoolSetup) -> u32 {
        let begun_in = |steps: u32| -> u64 {
            self.running_sequences()
                .map(|sequence| u64::from(blocks_begun(sequence, steps, pool)))
                .sum()
        };
        if begun_in(most) <= room {
            return most;
        }
        let (mut fits, mut exceeds) = (0, most);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if begun_in(middle) <= room {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        fits
    }

    /// Steps up to the first one after which more blocks are active than before.
    fn steps_to_first_block(&self, pool: &PoolSetup) -> u32 {
        let steps = self
            .running_sequences()
            .map(|sequence| steps_before_block(sequence, pool))
            .min()
            .unwrap_or(0);
        match pool.rules.block_taken {
            // The step that takes a block is priced with it, so it must begin a run.
            BlockTaken::WhenScheduled => steps,
            // The step that emits into a new block is priced without it.
            BlockTaken::WhenEmitted => steps + 1,
        }
    }

    fn shape_of_batch(&self, seqs: u32, tokens: u64, pool: &PoolSetup) -> StepShape {
        let mut shape = StepShape::decode(seqs, tokens);
        shape.active_kv_tokens = self.blocks.active_blocks() * u64::from(pool.config.block_size.tokens());
        shape.total_kv_tokens = pool.kv_tokens();
        shape
    }

    fn running_sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.running.iter().map(|&key| &self.sequences[key])
    }

    fn keep_token_times(&self, run: &DecodeRun, steps: u32, context: &mut PassContext<'_>) {
        for step in 1..=steps {
            let at = run.step_end(step, context.pages);
            for sequence in self.running_sequences() {
                context.recorder.keep_token_time(sequence.request, at);
            }
        }
    }
}

/// Steps that a sequence makes before the first one in which it begins a block.
fn steps_before_block(sequence: &Sequence, pool: &PoolSetup) -> u32 {
    let block_tokens = pool.config.block_size.tokens();
    let tokens = match pool.rules.block_taken {
        // The step computes the last token of the sequence.
        BlockTaken::WhenScheduled => sequence.length() - 1,
        // The step emits the token after it.
        BlockTaken::WhenEmitted => sequence.length(),
    };
    (block_tokens - tokens % block_tokens) % block_tokens
}

/// Blocks that a sequence begins in the next `steps` steps.
fn blocks_begun(sequence: &Sequence, steps: u32, pool: &PoolSetup) -> u32 {
    let before = steps_before_block(sequence, pool);
    if steps > before {
        (steps - 1 - before) / pool.config.block_size.tokens() + 1
    } else {
        0
    }
}

/// Length that a sequence has with the first token of the last block it begins in `steps` steps;
/// `None` if it begins none.
fn length_at_last_block(sequence: &Sequence, steps: u32, pool: &PoolSetup) -> Option<u32> {
    let more_blocks = blocks_begun(sequence, steps, pool).checked_sub(1)?;
    let step = steps_before_block(sequence, pool) + more_blocks * pool.config.block_size.tokens();
    Some(match pool.rules.block_taken {
        BlockTaken::WhenScheduled => sequence.length() + step,
        BlockTaken::WhenEmitted => sequence.length() + step + 1,
    })
}
