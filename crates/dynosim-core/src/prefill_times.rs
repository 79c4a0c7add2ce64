//! Times of prompt computations that have been asked for before.
//!
//! Prompts of equal length are cut into equal chunks, so the same few shapes come again and again;
//! timing models are pure, so the answer can be kept.

use dynosim_timing::StepShape;

use crate::engine::PoolSetup;
use crate::error::SimError;
use crate::prices::StepTime;

/// Shapes that are kept, a power of two.
const SLOTS: usize = 256;

/// The latest answer for each of a few shapes.
#[derive(Debug)]
pub(crate) struct PrefillTimes {
    /// Each shape in the slot that its figures lead to.
    slots: Vec<Option<(StepShape, StepTime)>>,
}

impl PrefillTimes {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![None; SLOTS],
        }
    }

    /// Time of the prompt part of a step.
    pub(crate) fn time(&mut self, pool: &PoolSetup, step: &StepShape) -> Result<StepTime, SimError> {
        let slot = &mut self.slots[slot_of(step)];
        if let Some((_, time)) = slot.filter(|(kept, _)| kept == step) {
            return Ok(time);
        }
        let time = pool.prefill_time(step)?;
        *slot = Some((*step, time));
        Ok(time)
    }
}

fn slot_of(step: &StepShape) -> usize {
    let figures = [
        u64::from(step.prefill_seqs),
        step.prefill_tokens,
        step.prefill_prefix_tokens,
    ];
    let mixed = figures.into_iter().fold(0_u64, |mixed, figure| {
        (mixed ^ figure).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
    });
    usize::try_from(mixed % SLOTS as u64).expect("a slot")
}
