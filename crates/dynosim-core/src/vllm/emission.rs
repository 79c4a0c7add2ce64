//! Which requests emit a token in a pass, and when.

use dynosim_spec::{SimDuration, SimTime, WorkerRole};
use dynosim_timing::{StepPart, StepShape};

use super::engine::VllmEngine;
use super::parts::StepParts;
use super::scheduling::Batch;
use super::sequence::{Sequence, SequenceKey};
use crate::engine::{PassContext, PoolSetup, Signal};
use crate::error::SimError;
use crate::rules::{BlockTaken, FirstToken};

/// What a token comes out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The computation of the prompt, in this very step.
    Prefill,
    /// A decode step.
    Decode,
}

impl VllmEngine {
    /// Emits a token for every ready request, in running order. Returns the time of the step.
    pub(super) fn emit(&mut self, batch: &Batch, context: &mut PassContext<'_>) -> Result<SimDuration, SimError> {
        self.prepare_steady_emission(context.pool);
        let mut ready = std::mem::take(&mut self.scratch);
        let decodes = self.collect_ready(&mut ready, context.pool);
        let result = self
            .step_parts(batch, decodes, context)
            .map(|parts| self.emit_for(&ready, parts, context));
        ready.clear();
        self.scratch = ready;
        result
    }

    /// Lists the ready requests behind the steady batch, and sums up all that decode.
    fn collect_ready(&self, ready: &mut Vec<(SequenceKey, Source)>, pool: &PoolSetup) -> StepShape {
        let mut seqs = u32::try_from(self.steady.len()).expect("requests are indexed by u32");
        let mut tokens = self.steady.tokens();
        for &key in &self.running[self.steady.len()..] {
            let sequence = &self.sequences[key];
            if !sequence.is_ready() {
                continue;
            }
            let source = self.token_source(sequence, pool);
            ready.push((key, source));
            if source == Source::Decode {
                seqs += 1;
                tokens += u64::from(sequence.length());
            }
        }
        self.decode_shape(seqs, tokens, pool)
    }

    /// A step of so many generating requests of `tokens` tokens together, with the blocks that are active now.
    pub(super) fn decode_shape(&self, seqs: u32, tokens: u64, pool: &PoolSetup) -> StepShape {
        let active_tokens = self.blocks.active_blocks() * u64::from(pool.config.block_size.tokens());
        StepShape::decode(seqs, tokens).with_kv_tokens(active_tokens, pool.kv_tokens())
    }

    /// Emits a token for every member of the steady batch and everybody of `ready`. Returns the time of the step.
    fn emit_for(
        &mut self,
        ready: &[(SequenceKey, Source)],
        parts: StepParts,
        context: &mut PassContext<'_>,
    ) -> SimDuration {
        let prefill_end = context.now + parts.prompts.total;
        let decode_end = prefill_end + parts.decodes.map_or(SimDuration::ZERO, |(time, _)| time.total);
        let mut anybody_decoded = self.steady.len() > 0;
        self.emit_steady(decode_end, context);
        for &(key, source) in ready {
            let at = if source == Source::Decode {
                decode_end
            } else {
                prefill_end
            };
            let emitted = self.emit_one(key, at, context);
            anybody_decoded |= emitted && source == Source::Decode;
        }
        match parts.decodes {
            Some((time, step)) if anybody_decoded => {
                context.priced(time, StepPart::Decodes(&step));
                parts.prompts.total + time.total
            }
            // Everybody was preempted before its turn.
            _ => parts.prompts.total,
        }
    }

    fn token_source(&self, sequence: &Sequence, pool: &PoolSetup) -> Source {
        let share = &sequence.share;
        let computed_prompt = share.step == self.step && share.prompt_tokens > 0;
        if computed_prompt && pool.rules.first_token == FirstToken::AfterPrefill {
            Source::Prefill
        } else {
            Source::Decode
        }
    }

    /// Emits one token of a request; `false` if the request lost its blocks first.
    fn emit_one(&mut self, key: SequenceKey, at: SimTime, context: &mut PassContext<'_>) -> bool {
        if !self.sequences[key].running || !self.take_block_for_next_token(key, context) {
            return false;
        }
        context.progressed = true;
        let sequence = &mut self.sequences[key];
        sequence.generated += 1;
        if context.pool.config.role != WorkerRole::Prefill {
            sequence.tokens.emit(sequence.request, at, context.recorder);
        }
        if sequence.generated == sequence.output_tokens {
            if context.pool.config.role != WorkerRole::Prefill {
                context.recorder.finished(sequence.request, &sequence.tokens);
            }
            let (request, hold) = (sequence.request, sequence.hold);
            context.signals.push(Signal::Completed(request));
            self.take_back(request, hold, context.pool);
            self.running.retain(|&running| running != key);
            self.sequences.remove(key);
        } else if sequence.generated == 1 {
            context.signals.push(Signal::FirstToken(sequence.request));
        }
        true
    }

    /// Where blocks are taken on emission: opens a block if the next token begins one, preempting
    /// others for it. `false` if the request itself had to give way.
    fn take_block_for_next_token(&mut self, key: SequenceKey, context: &mut PassContext<'_>) -> bool {
        if context.pool.rules.block_taken == BlockTaken::WhenScheduled {
            return true;
        }
        let sequence = &self.sequences[key];
        let length = sequence.length() + 1;
        if self.blocks.held_tokens(&sequence.hold) >= length {
            return true;
        }
        loop {
            let sequence = &mut self.sequences[key];
            let path = context.pool.prompts.path(sequence.request);
            if self.blocks.extend(path, &mut sequence.hold, length, length) == length {
                return true;
            }
            let index = self.victim(context.pool).expect("the request itself is running");
            if self.preempt(index, context) == key {
                return false;
            }
        }
    }
}
