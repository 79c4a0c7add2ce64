//! Which requests emit a token in a pass, and when.

use dynosim_spec::{SimDuration, SimTime, WorkerRole};
use dynosim_timing::StepShape;

use super::engine::VllmEngine;
use super::sequence::SequenceKey;
use crate::engine::{PassContext, Signal};
use crate::error::SimError;
use crate::rules::{BlockTaken, FirstToken};

impl VllmEngine {
    /// Emits a token for every ready request, in running order. Returns the time of the decode part.
    pub(super) fn emit(
        &mut self,
        prefill_time: SimDuration,
        context: &mut PassContext<'_>,
    ) -> Result<SimDuration, SimError> {
        let mut ready = std::mem::take(&mut self.scratch);
        ready.extend(
            self.running
                .iter()
                .copied()
                .filter(|&key| self.sequences[key].is_ready()),
        );
        let result = self.emit_for(&ready, prefill_time, context);
        ready.clear();
        self.scratch = ready;
        result
    }

    fn emit_for(
        &mut self,
        ready: &[SequenceKey],
        prefill_time: SimDuration,
        context: &mut PassContext<'_>,
    ) -> Result<SimDuration, SimError> {
        let prefill_end = context.now + prefill_time;
        let mut decodes = ready
            .iter()
            .copied()
            .filter(|&key| !self.emits_after_prefill(key, context))
            .peekable();
        let priced = if decodes.peek().is_some() && context.pool.config.role != WorkerRole::Prefill {
            let shape = self.decode_shape(decodes, context);
            Some(context.pool.decode_time(&shape)?)
        } else {
            None
        };
        let decode_time = priced.map_or(SimDuration::ZERO, |time| time.total);
        let decode_end = prefill_end + decode_time;

        let mut anybody_decoded = false;
        for &key in ready {
            let decodes = !self.emits_after_prefill(key, context);
            let at = if decodes { decode_end } else { prefill_end };
            let emitted = self.emit_one(key, at, context);
            anybody_decoded |= decodes && emitted;
        }
        match priced {
            Some(time) if anybody_decoded => {
                context.recorder.priced(time);
                Ok(time.total)
            }
            // Everybody was preempted before its turn.
            _ => Ok(SimDuration::ZERO),
        }
    }

    /// Whether a ready request's token comes out of the prompt computation of this very step.
    fn emits_after_prefill(&self, key: SequenceKey, context: &PassContext<'_>) -> bool {
        let share = &self.sequences[key].share;
        context.pool.rules.first_token == FirstToken::AfterPrefill && share.step == self.step && share.prompt_tokens > 0
    }

    fn decode_shape(&self, keys: impl Iterator<Item = SequenceKey>, context: &PassContext<'_>) -> StepShape {
        let (seqs, tokens) = keys.fold((0_u32, 0_u64), |(seqs, tokens), key| {
            (seqs + 1, tokens + u64::from(self.sequences[key].length()))
        });
        let mut shape = StepShape::decode(seqs, tokens);
        shape.active_kv_tokens = self.blocks.active_blocks() * u64::from(context.pool.config.block_size.tokens());
        shape.total_kv_tokens = context.pool.kv_tokens();
        shape
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
            context.signals.push(Signal::Completed(sequence.request));
            self.blocks
                .release(context.pool.prompts.path(sequence.request), &mut sequence.hold);
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
        let length = self.sequences[key].length() + 1;
        if !(length - 1).is_multiple_of(context.pool.config.block_size.tokens()) {
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
