//! Who computes how many tokens in a pass: running requests first, then waiting ones.

use dynosim_spec::WorkerRole;

use super::engine::VllmEngine;
use super::sequence::{Sequence, SequenceKey, StepShare};
use crate::engine::{PassContext, PoolSetup};
use crate::rules::{AdmissionShortage, DecodeIntake, FullHit, ScanAfterPreemption};

/// What a pass was filled with.
#[derive(Debug)]
pub(super) struct Batch {
    /// Tokens that may still be scheduled.
    budget: u64,
    preempted: bool,
    pub(super) prefill_seqs: u32,
    pub(super) prefill_tokens: u64,
    pub(super) prefill_prefix_tokens: u64,
}

impl Batch {
    fn new(budget: Option<u32>) -> Self {
        Self {
            budget: budget.map_or(u64::MAX, u64::from),
            preempted: false,
            prefill_seqs: 0,
            prefill_tokens: 0,
            prefill_prefix_tokens: 0,
        }
    }

    fn take(&mut self, share: &StepShare) {
        self.budget -= share.tokens;
        if share.prompt_tokens > 0 {
            self.prefill_seqs += 1;
            self.prefill_tokens += u64::from(share.prompt_before + share.prompt_tokens);
            self.prefill_prefix_tokens += u64::from(share.prompt_before);
        }
    }

    fn give_back(&mut self, share: &StepShare) {
        self.budget += share.tokens;
        if share.prompt_tokens > 0 {
            self.prefill_seqs -= 1;
            self.prefill_tokens -= u64::from(share.prompt_before + share.prompt_tokens);
            self.prefill_prefix_tokens -= u64::from(share.prompt_before);
        }
    }
}

/// Whether a request got a share of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Scheduled,
    /// It gets nothing, and neither does anyone behind it.
    Blocked,
    /// It had to give up its own blocks.
    PreemptedItself,
}

/// Where a request stands when it asks for a share of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Running,
    Waiting,
}

/// The tokens that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    /// Tokens computed or cached so far.
    base: u32,
    /// Of these, tokens found in the cache just now.
    pub(super) cached: u32,
    /// Tokens computed or cached after the step.
    pub(super) target: u32,
    /// Whether the step's budget pays for them.
    budgeted: bool,
}

impl VllmEngine {
    /// Fills a pass: continues running requests, then admits waiting ones.
    pub(super) fn schedule(&mut self, context: &mut PassContext<'_>) -> Batch {
        let mut batch = Batch::new(context.pool.config.max_num_batched_tokens);
        self.continue_running(&mut batch, context);
        self.admit_waiting(&mut batch, context);
        batch
    }

    fn continue_running(&mut self, batch: &mut Batch, context: &mut PassContext<'_>) {
        let mut index = self.schedule_steady(batch.budget, context.pool);
        batch.budget -= index as u64;
        while batch.budget > 0 && index < self.running.len() {
            if self.continue_decode(self.running[index], batch) {
                index += 1;
                continue;
            }
            let before = self.running.len();
            let (attempt, ahead) = self.try_schedule(self.running[index], Standing::Running, batch, context);
            debug_assert!(ahead <= before, "only running requests are preempted");
            let shift = match context.pool.rules.scan_after_preemption {
                ScanAfterPreemption::Continues => ahead,
                ScanAfterPreemption::SkipsShifted => 0,
            };
            match attempt {
                Attempt::Scheduled => index = index + 1 - shift,
                Attempt::PreemptedItself => index -= shift,
                Attempt::Blocked => break,
            }
        }
    }

    /// The common case of [`try_schedule`](Self::try_schedule): a request that only waits for its
    /// next token, and holds a block for it. `false` if it is no such case.
    fn continue_decode(&mut self, key: SequenceKey, batch: &mut Batch) -> bool {
        let sequence = &mut self.sequences[key];
        let length = sequence.length();
        if !sequence.only_decodes() || self.blocks.held_tokens(&sequence.hold) < length {
            return false;
        }
        sequence.computed = length;
        sequence.share = StepShare {
            step: self.step,
            tokens: 1,
            prompt_before: sequence.input_tokens,
            prompt_tokens: 0,
        };
        batch.budget -= 1;
        true
    }

    fn admit_waiting(&mut self, batch: &mut Batch, context: &mut PassContext<'_>) {
        let most_running = context
            .pool
            .config
            .max_num_seqs
            .map_or(usize::MAX, |seqs| seqs as usize);
        while !batch.preempted && self.places_taken() < most_running {
            let Some(&key) = self.waiting.front() else { break };
            let budget_before = batch.budget;
            let (attempt, _) = self.try_schedule(key, Standing::Waiting, batch, context);
            if attempt != Attempt::Scheduled {
                break;
            }
            // Whoever was preempted for it now waits in front of it.
            let at = self.waiting.iter().position(|&waiting| waiting == key);
            self.waiting.remove(at.expect("it was waiting"));
            self.running.push(key);
            self.sequences[key].running = true;
            if budget_before == 0 && !takes_prompts_whole(context.pool) {
                break;
            }
        }
    }

    /// Places among the running requests that nobody else can have.
    pub(super) fn places_taken(&self) -> usize {
        self.running.len() + self.not_yet_seen.places_taken()
    }

    /// Gives one request its share of the step, taking the blocks for it. Also returns how many
    /// requests ahead of it in the running list were preempted.
    fn try_schedule(
        &mut self,
        key: SequenceKey,
        standing: Standing,
        batch: &mut Batch,
        context: &mut PassContext<'_>,
    ) -> (Attempt, usize) {
        let sequence = &self.sequences[key];
        let Some(ask) = self.ask(sequence, batch.budget, context.pool) else {
            return (Attempt::Blocked, 0);
        };
        let waits = context.pool.rules.admission_shortage == AdmissionShortage::Waits;
        if standing == Standing::Waiting && waits && !self.fits(sequence, ask.target, context.pool) {
            return (Attempt::Blocked, 0);
        }
        let mut ahead = 0;
        let reached = loop {
            let sequence = &mut self.sequences[key];
            let path = context.pool.prompts.path(sequence.request);
            let length = sequence.length();
            let reached = self.blocks.extend(path, &mut sequence.hold, length, ask.target);
            sequence.computed = reached;
            if reached >= ask.target {
                break reached;
            }
            let Some(index) = self.victim(context.pool) else {
                break reached;
            };
            batch.preempted = true;
            self.dissolve_steady();
            let victim = self.running[index];
            let share = self.sequences[victim].share;
            if victim != key && share.step == self.step {
                batch.give_back(&share);
            }
            self.preempt(index, context);
            if victim == key {
                return (Attempt::PreemptedItself, ahead);
            }
            ahead += usize::from(index == 0);
        };
        let sequence = &mut self.sequences[key];
        let tokens = reached.saturating_sub(ask.base);
        if tokens == 0 && reached < sequence.length() {
            return (Attempt::Blocked, ahead);
        }
        let prompt_before = ask.base.min(sequence.input_tokens);
        let prompt_after = reached.min(sequence.input_tokens);
        let computes_prompt = context.pool.config.role != WorkerRole::Decode;
        sequence.share = StepShare {
            step: self.step,
            tokens: if ask.budgeted { u64::from(tokens) } else { 0 },
            prompt_before,
            prompt_tokens: if computes_prompt {
                prompt_after - prompt_before
            } else {
                0
            },
        };
        batch.take(&sequence.share);
        if prompt_after > sequence.furthest {
            sequence.furthest = prompt_after;
            context.progressed = true;
        }
        if standing == Standing::Waiting {
            context.admitted(sequence.request, ask.cached);
        }
        (Attempt::Scheduled, ahead)
    }

    /// The tokens that a request would compute next; `None` if the budget does not allow any.
    pub(super) fn ask(&self, sequence: &Sequence, budget: u64, pool: &PoolSetup) -> Option<Ask> {
        let cached = if sequence.computed == 0 {
            self.cached_tokens(sequence, pool)
        } else {
            0
        };
        let base = sequence.computed + cached;
        let missing = sequence.length().saturating_sub(base);
        if sequence.computed == 0 && takes_prompts_whole(pool) {
            return Some(Ask {
                base,
                cached,
                target: sequence.length(),
                budgeted: false,
            });
        }
        let missing_prompt = sequence.input_tokens.saturating_sub(base);
        if !pool.config.enable_chunked_prefill && u64::from(missing_prompt) > budget {
            return None;
        }
        let tokens = u32::try_from(budget).map_or(missing, |budget| missing.min(budget));
        (tokens > 0 || missing == 0).then_some(Ask {
            base,
            cached,
            target: base + tokens,
            budgeted: true,
        })
    }

    /// Prompt tokens of a request without blocks that need not be computed.
    fn cached_tokens(&self, sequence: &Sequence, pool: &PoolSetup) -> u32 {
        let path = pool.prompts.path(sequence.request);
        let mut blocks = self.blocks.cached_blocks(path, &sequence.hold, sequence.length());
        if pool.rules.full_hit == FullHit::RecomputesLastBlock {
            blocks = blocks.min(pool.config.block_size.full_blocks(sequence.length().saturating_sub(1)));
        }
        (blocks * pool.config.block_size.tokens()).min(sequence.input_tokens)
    }

    pub(super) fn fits(&self, sequence: &Sequence, target: u32, pool: &PoolSetup) -> bool {
        let path = pool.prompts.path(sequence.request);
        let needed = self
            .blocks
            .blocks_needed(path, &sequence.hold, sequence.length(), target);
        needed <= self.blocks.available_blocks()
    }
}

/// Whether requests are admitted outside the token budget because their KV arrives complete.
pub(super) fn takes_prompts_whole(pool: &PoolSetup) -> bool {
    pool.config.role == WorkerRole::Decode && pool.rules.decode_intake == DecodeIntake::Whole
}
