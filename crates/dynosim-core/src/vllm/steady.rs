//! The steady batch: leading running requests that do nothing but emit a token per step.
//!
//! For these a step is a few sums, whatever their number. Their own records are brought up to date
//! only when they leave. Whenever a step needs to look at them one by one (somebody is preempted,
//! blocks or budget run short) the batch is dissolved, and they go through the scheduler like
//! everybody else; afterwards it forms again.

use dynosim_spec::SimTime;

use super::engine::VllmEngine;
use super::sequence::{SequenceKey, StepShare, blocks_begun};
use crate::engine::{PassContext, PoolSetup, Signal, Stepping};
use crate::rules::BlockTaken;

/// Sums over the first entries of the running list, one for each of `members`.
///
/// Invariants: each of these has computed all but its latest token, has emitted that token at
/// `last_emission`, and holds the blocks for it. `scheduled` is set only within a pass.
#[derive(Debug, Default)]
pub(super) struct SteadyBatch {
    /// In running order.
    members: Vec<Member>,
    /// Steps made so far; the members' step numbers count from the same zero.
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

/// Where a request stands in the steady batch: all that a step looks at.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Step of the batch up to which the request's own record goes.
    joined: u64,
    /// Step after which it has emitted its last token.
    finish: u64,
    /// Step in which it begins its next block.
    next_block: u64,
}

impl SteadyBatch {
    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Sum of the members' lengths.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Steps up to the one in which the first member finishes.
    pub(super) fn steps_to_finish(&self) -> u32 {
        if self.members.is_empty() {
            return u32::MAX;
        }
        u32::try_from(self.first_finish - self.step).unwrap_or(u32::MAX)
    }

    /// Steps before the first one in which a member begins a block.
    pub(super) fn steps_before_block(&self) -> u32 {
        self.steps_before(self.first_block)
    }

    fn steps_before(&self, step: u64) -> u32 {
        u32::try_from(step - self.step).unwrap_or(u32::MAX)
    }

    /// Steps that a member has made since it joined.
    fn steps_of(&self, member: &Member) -> u32 {
        u32::try_from(self.step - member.joined).expect("no more steps than tokens")
    }

    /// Blocks of `block_tokens` tokens that a member begins in the next `steps` steps.
    fn blocks_begun(&self, member: &Member, steps: u32, block_tokens: u32) -> u32 {
        blocks_begun(self.steps_before(member.next_block), steps, block_tokens)
    }

    /// Index of the first member, from this one on, that has its last token.
    fn finished_from(&self, index: usize) -> Option<usize> {
        let finished = |member: &Member| member.finish <= self.step;
        Some(index + self.members[index..].iter().position(finished)?)
    }

    /// Finds out who is the first to finish and to begin a block.
    fn find_first(&mut self) {
        let first =
            |(finish, block): (u64, u64), member: &Member| (finish.min(member.finish), block.min(member.next_block));
        (self.first_finish, self.first_block) = self.members.iter().fold((u64::MAX, u64::MAX), first);
    }

    /// Adds a member with this many tokens.
    fn join(&mut self, member: Member, tokens: u32) {
        if self.members.is_empty() {
            (self.first_finish, self.first_block) = (u64::MAX, u64::MAX);
        }
        self.members.push(member);
        self.tokens += u64::from(tokens);
        self.first_finish = self.first_finish.min(member.finish);
        self.first_block = self.first_block.min(member.next_block);
    }
}

impl VllmEngine {
    /// Lets running requests that fit the description join, in running order.
    pub(super) fn join_steady(&mut self, context: &PassContext<'_>) {
        if context.stepping == Stepping::Single {
            return;
        }
        while let Some(&key) = self.running.get(self.steady.len()) {
            let sequence = &self.sequences[key];
            let in_time = self.steady.members.is_empty() || sequence.tokens.latest() == self.steady.last_emission;
            if !sequence.only_decodes() || !in_time || sequence.tokens.count() < 2 {
                break;
            }
            let Some(steps_before_block) = self.steps_before_block(sequence, context.pool) else {
                break;
            };
            let joined = self.steady.step;
            let member = Member {
                joined,
                finish: joined + u64::from(sequence.output_tokens - sequence.generated),
                next_block: joined + u64::from(steps_before_block),
            };
            self.steady.join(member, sequence.length());
            self.steady.last_emission = sequence.tokens.latest();
        }
    }

    /// Brings the members' own records up to date; there is no steady batch any more.
    pub(super) fn dissolve_steady(&mut self) {
        let members = std::mem::take(&mut self.steady.members);
        for (index, member) in members.iter().enumerate() {
            self.leave_steady(self.running[index], member);
        }
        // The allocation is used again.
        self.steady.members = members;
        self.steady.members.clear();
        self.steady.tokens = 0;
        self.steady.scheduled = false;
    }

    /// Makes the members part of the step, taking the blocks that they begin, if that goes without
    /// anybody giving way. Returns how many there are.
    pub(super) fn schedule_steady(&mut self, budget: u64, pool: &PoolSetup) -> usize {
        if self.steady.len() as u64 > budget {
            self.dissolve_steady();
        }
        if self.steady.len() > 0 && pool.rules.block_taken == BlockTaken::WhenScheduled {
            if self.blocks_begun_by_steady(1, pool) > self.blocks.available_blocks() {
                self.dissolve_steady();
            } else {
                self.begin_blocks(1, pool);
            }
        }
        self.steady.scheduled = self.steady.len() > 0;
        self.steady.len()
    }

    /// Dissolves the batch if its members cannot emit all at once.
    pub(super) fn prepare_steady_emission(&mut self, pool: &PoolSetup) {
        if self.steady.members.is_empty() || pool.rules.block_taken == BlockTaken::WhenScheduled {
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
        if self.steady.members.is_empty() {
            return;
        }
        if context.pool.rules.block_taken == BlockTaken::WhenEmitted {
            self.begin_blocks(1, context.pool);
        }
        let members = self.steady.len() as u64;
        context.recorder.gaps.add(at - self.steady.last_emission, members);
        context.progressed = true;
        self.steady.step += 1;
        self.steady.tokens += members;
        self.steady.last_emission = at;
        self.steady.scheduled = false;
        if context.recorder.keeps_token_times() {
            for &key in &self.running[..self.steady.len()] {
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
        if self.steady.members.is_empty() {
            return;
        }
        self.begin_blocks(steps, context.pool);
        let members = self.steady.len() as u64;
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
        if self.steady.members.is_empty() || self.steady.steps_before_block() >= steps {
            return 0;
        }
        let block_tokens = pool.config.block_size.tokens();
        let begun = |member| u64::from(self.steady.blocks_begun(member, steps, block_tokens));
        self.steady.members.iter().map(begun).sum()
    }

    /// Takes the blocks that the members begin in the next `steps` steps.
    fn begin_blocks(&mut self, steps: u32, pool: &PoolSetup) {
        if self.steady.steps_before_block() >= steps {
            return;
        }
        let block_tokens = pool.config.block_size.tokens();
        let mut first_block = u64::MAX;
        for index in 0..self.steady.len() {
            let member = self.steady.members[index];
            let begun = self.steady.blocks_begun(&member, steps, block_tokens);
            if begun > 0 {
                let sequence = &mut self.sequences[self.running[index]];
                // The length at the start of the last of these blocks.
                let length = sequence.length()
                    + self.steady.steps_of(&member)
                    + self.steady.steps_before(member.next_block)
                    + (begun - 1) * block_tokens;
                let length = match pool.rules.block_taken {
                    BlockTaken::WhenScheduled => length,
                    BlockTaken::WhenEmitted => length + 1,
                };
                let path = pool.prompts.path(sequence.request);
                let reached = self.blocks.extend(path, &mut sequence.hold, length, length);
                debug_assert_eq!(reached, length, "there are enough blocks");
                self.steady.members[index].next_block += u64::from(begun) * u64::from(block_tokens);
            }
            first_block = first_block.min(self.steady.members[index].next_block);
        }
        self.steady.first_block = first_block;
    }

    /// Whoever has its last token leaves.
    pub(super) fn let_steady_finish(&mut self, context: &mut PassContext<'_>) {
        if self.steady.members.is_empty() || self.steady.first_finish > self.steady.step {
            return;
        }
        let mut index = 0;
        while let Some(next) = self.steady.finished_from(index) {
            index = next;
            let member = self.steady.members.remove(index);
            let key = self.running.remove(index);
            self.finish_member(key, &member, context);
        }
        self.steady.find_first();
    }

    fn finish_member(&mut self, key: SequenceKey, member: &Member, context: &mut PassContext<'_>) {
        self.leave_steady(key, member);
        let sequence = &self.sequences[key];
        let (request, hold) = (sequence.request, sequence.hold);
        self.steady.tokens -= u64::from(sequence.length());
        context.recorder.finished(request, &sequence.tokens);
        context.signals.push(Signal::Completed(request));
        self.take_back(request, hold, context.pool);
        self.sequences.remove(key);
    }

    /// Brings the own record of one member up to date.
    fn leave_steady(&mut self, key: SequenceKey, member: &Member) {
        let steps = self.steady.steps_of(member);
        let sequence = &mut self.sequences[key];
        sequence.generated += steps;
        sequence.tokens.catch_up(steps, self.steady.last_emission);
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
