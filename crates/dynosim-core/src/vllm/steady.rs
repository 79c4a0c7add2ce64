//! The steady batch: leading running requests that do nothing but emit a token per step.
//!
//! For these a step is a few sums, whatever their number. Their own records are brought up to date
//! only when they leave. Whenever a step needs to look at them one by one (somebody is preempted,
//! blocks or budget run short) the batch is dissolved, and they go through the scheduler like
//! everybody else; afterwards it forms again.

use dynosim_spec::SimTime;

use super::engine::VllmEngine;
use super::sequence::{Sequence, SequenceKey, StepShare};
use crate::engine::{PassContext, PoolSetup, Signal, Stepping};
use crate::rules::BlockTaken;

/// Sums over the first `len` entries of the running list.
///
/// Invariants: each of these has computed all but its latest token, has emitted that token at
/// `last_emission`, and holds the blocks for it. `scheduled` is set only within a pass.
#[derive(Debug, Default)]
pub(super) struct SteadyBatch {
    len: usize,
    /// Steps made so far; the members' own step numbers count from the same zero.
    step: u64,
    /// Sum of the members' lengths.
    tokens: u64,
    last_emission: SimTime,
    /// Step after which the first member has emitted its last token.
    first_finish: u64,
    /// Step in which the first member begins a block.
    first_block: u64,
    /// Whether the members are part of the step being scheduled.
    scheduled: bool,
}

/// Where a request stands in the steady batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Membership {
    /// Step of the batch up to which the request's own record goes.
    joined: u64,
    /// Step in which it begins its next block.
    next_block: u64,
}

impl SteadyBatch {
    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sum of the members' lengths.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Steps up to the one in which the first member finishes.
    pub(super) fn steps_to_finish(&self) -> u32 {
        if self.len == 0 {
            return u32::MAX;
        }
        u32::try_from(self.first_finish - self.step).unwrap_or(u32::MAX)
    }

    /// Steps before the first one in which a member begins a block.
    pub(super) fn steps_before_block(&self) -> u32 {
        u32::try_from(self.first_block - self.step).unwrap_or(u32::MAX)
    }

    /// Steps before the one in which this member begins a block.
    pub(super) fn steps_before_block_of(&self, sequence: &Sequence) -> u32 {
        u32::try_from(sequence.membership.next_block - self.step).unwrap_or(u32::MAX)
    }

    fn length_of(&self, sequence: &Sequence) -> u32 {
        sequence.length() + self.steps_of(sequence)
    }

    /// Steps that a member has made since it joined.
    fn steps_of(&self, sequence: &Sequence) -> u32 {
        u32::try_from(self.step - sequence.membership.joined).expect("no more steps than tokens")
    }

    fn finish_of(sequence: &Sequence) -> u64 {
        sequence.membership.joined + u64::from(sequence.output_tokens - sequence.generated)
    }
}

impl VllmEngine {
    /// Lets running requests that fit the description join, in running order.
    pub(super) fn join_steady(&mut self, context: &PassContext<'_>) {
        if context.stepping == Stepping::Single {
            return;
        }
        while let Some(&key) = self.running.get(self.steady.len) {
            let sequence = &self.sequences[key];
            let decodes = sequence.computed >= sequence.input_tokens && sequence.computed + 1 == sequence.length();
            let in_time = self.steady.len == 0 || sequence.tokens.latest() == self.steady.last_emission;
            if !decodes || !in_time || sequence.tokens.count() < 2 {
                break;
            }
            let Some(steps_before_block) = self.steps_before_block(sequence, context.pool) else {
                break;
            };
            let steady = &mut self.steady;
            let membership = Membership {
                joined: steady.step,
                next_block: steady.step + u64::from(steps_before_block),
            };
            if steady.len == 0 {
                (steady.first_finish, steady.first_block) = (u64::MAX, u64::MAX);
            }
            steady.len += 1;
            steady.tokens += u64::from(sequence.length());
            steady.last_emission = sequence.tokens.latest();
            let sequence = &mut self.sequences[key];
            sequence.membership = membership;
            steady.first_finish = steady.first_finish.min(SteadyBatch::finish_of(sequence));
            steady.first_block = steady.first_block.min(membership.next_block);
        }
    }

    /// Brings the members' own records up to date; there is no steady batch any more.
    pub(super) fn dissolve_steady(&mut self) {
        for index in 0..self.steady.len {
            self.leave_steady(self.running[index]);
        }
        self.steady.len = 0;
        self.steady.tokens = 0;
        self.steady.scheduled = false;
    }

    /// Makes the members part of the step, taking the blocks that they begin, if that goes without
    /// anybody giving way. Returns how many there are.
    pub(super) fn schedule_steady(&mut self, budget: u64, pool: &PoolSetup) -> usize {
        if self.steady.len as u64 > budget {
            self.dissolve_steady();
        }
        if self.steady.len > 0 && pool.rules.block_taken == BlockTaken::WhenScheduled {
            if self.blocks_begun_by_steady(1, pool) > self.blocks.available_blocks() {
                self.dissolve_steady();
            } else {
                self.begin_blocks(1, pool);
            }
        }
        self.steady.scheduled = self.steady.len > 0;
        self.steady.len
    }

    /// Dissolves the batch if its members cannot emit all at once.
    pub(super) fn prepare_steady_emission(&mut self, pool: &PoolSetup) {
        if self.steady.len == 0 || pool.rules.block_taken == BlockTaken::WhenScheduled {
            return;
        }
        let begun = self.blocks_begun_by_steady(1, pool);
        // Who finishes gives back a block that somebody behind might take instead of evicting another.
        let somebody_finishes = self.steady.first_finish == self.steady.step + 1;
        let room = if somebody_finishes {
            self.blocks.free_blocks()
        } else {
            self.blocks.available_blocks()
        };
        if begun > room {
            self.dissolve_steady();
        }
    }

    /// Emits a token for each member. Whoever has its last one leaves.
    pub(super) fn emit_steady(&mut self, at: SimTime, context: &mut PassContext<'_>) {
        if self.steady.len == 0 {
            return;
        }
        if context.pool.rules.block_taken == BlockTaken::WhenEmitted {
            self.begin_blocks(1, context.pool);
        }
        let members = self.steady.len as u64;
        context.recorder.gaps.add(at - self.steady.last_emission, members);
        context.progressed = true;
        self.steady.step += 1;
        self.steady.tokens += members;
        self.steady.last_emission = at;
        self.steady.scheduled = false;
        if context.recorder.keeps_token_times() {
            for &key in &self.running[..self.steady.len] {
                context.recorder.keep_token_time(self.sequences[key].request, at);
            }
        }
        self.let_steady_finish(context);
    }

    /// Lets the members make the first steps of a run. Whoever has its last token then stays until
    /// [`let_steady_finish`](Self::let_steady_finish).
    pub(super) fn advance_steady(
        &mut self,
        steps: u32,
        first_end: SimTime,
        last_end: SimTime,
        context: &mut PassContext<'_>,
    ) {
        if self.steady.len == 0 {
            return;
        }
        self.begin_blocks(steps, context.pool);
        let members = self.steady.len as u64;
        context
            .recorder
            .gaps
            .add(first_end - self.steady.last_emission, members);
        self.steady.step += u64::from(steps);
        self.steady.tokens += members * u64::from(steps);
        self.steady.last_emission = last_end;
    }

    /// Blocks that the members begin in the next `steps` steps.
    pub(super) fn blocks_begun_by_steady(&self, steps: u32, pool: &PoolSetup) -> u64 {
        if self.steady.len == 0 || self.steady.steps_before_block() >= steps {
            return 0;
        }
        let block_tokens = pool.config.block_size.tokens();
        let begun = |&key: &SequenceKey| {
            let before = self.steady.steps_before_block_of(&self.sequences[key]);
            if steps > before {
                u64::from((steps - 1 - before) / block_tokens + 1)
            } else {
                0
            }
        };
        self.running[..self.steady.len].iter().map(begun).sum()
    }

    /// Takes the blocks that the members begin in the next `steps` steps.
    fn begin_blocks(&mut self, steps: u32, pool: &PoolSetup) {
        if self.steady.steps_before_block() >= steps {
            return;
        }
        let block_tokens = pool.config.block_size.tokens();
        let mut first_block = u64::MAX;
        for &key in &self.running[..self.steady.len] {
            let sequence = &mut self.sequences[key];
            let before = self.steady.steps_before_block_of(sequence);
            if steps > before {
                let more_blocks = (steps - 1 - before) / block_tokens;
                let length = self.steady.length_of(sequence) + before + more_blocks * block_tokens;
                let length = match pool.rules.block_taken {
                    BlockTaken::WhenScheduled => length,
                    BlockTaken::WhenEmitted => length + 1,
                };
                let path = pool.prompts.path(sequence.request);
                let reached = self.blocks.extend(path, &mut sequence.hold, length, length);
                debug_assert_eq!(reached, length, "there are enough blocks");
                sequence.membership.next_block += u64::from(more_blocks + 1) * u64::from(block_tokens);
            }
            first_block = first_block.min(sequence.membership.next_block);
        }
        self.steady.first_block = first_block;
    }

    /// Whoever has its last token leaves.
    pub(super) fn let_steady_finish(&mut self, context: &mut PassContext<'_>) {
        if self.steady.len == 0 || self.steady.first_finish > self.steady.step {
            return;
        }
        let (mut first_finish, mut first_block) = (u64::MAX, u64::MAX);
        let mut kept = 0;
        for index in 0..self.steady.len {
            let key = self.running[index];
            let sequence = &self.sequences[key];
            if SteadyBatch::finish_of(sequence) > self.steady.step {
                first_finish = first_finish.min(SteadyBatch::finish_of(sequence));
                first_block = first_block.min(sequence.membership.next_block);
                self.running[kept] = key;
                kept += 1;
                continue;
            }
            self.leave_steady(key);
            let sequence = &self.sequences[key];
            self.steady.tokens -= u64::from(sequence.length());
            context.recorder.finished(sequence.request, &sequence.tokens);
            context.signals.push(Signal::Completed(sequence.request));
            self.blocks
                .retire(context.pool.prompts.path(sequence.request), sequence.hold);
            self.sequences.remove(key);
        }
        self.running.drain(kept..self.steady.len);
        self.steady.len = kept;
        self.steady.first_finish = first_finish;
        self.steady.first_block = first_block;
    }

    /// Brings the own record of one member up to date.
    fn leave_steady(&mut self, key: SequenceKey) {
        let steps = self.steady.steps_of(&self.sequences[key]);
        let sequence = &mut self.sequences[key];
        sequence.generated += steps;
        sequence.tokens.catch_up(steps, self.steady.last_emission);
        sequence.membership.joined = self.steady.step;
        sequence.computed = sequence.length() - 1;
        if self.steady.scheduled {
            sequence.computed += 1;
            sequence.share = StepShare {
                step: self.step,
                tokens: 1,
                prompt_before: sequence.input_tokens,
                prompt_tokens: 0,
            };
        }
    }
}
