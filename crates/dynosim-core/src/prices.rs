//! Step times as the clock sees them: prices of the timing model, rounded and sped up.

use dynosim_spec::SimDuration;
use dynosim_timing::{Price, PromptChunk, StepShape};

use crate::engine::PoolSetup;
use crate::error::SimError;

/// How long a step, a part of one, or a run of steps takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepTime {
    pub(crate) total: SimDuration,
    /// How much of it rests on extrapolation beyond the model's data.
    pub(crate) extrapolated: SimDuration,
}

impl PoolSetup {
    /// Time of the prompt part of a step.
    pub(crate) fn prefill_time(&self, step: &StepShape) -> Result<StepTime, SimError> {
        step_time(self.timing.prefill(step), self.config.speedup_ratio, || *step)
    }

    /// Time of a step that computes these prompts and generates in one pass.
    pub(crate) fn fused_time(&self, step: &StepShape, prompts: &[PromptChunk]) -> Result<StepTime, SimError> {
        step_time(self.timing.fused(step, prompts), self.config.speedup_ratio, || *step)
    }

    /// Time of the generating part of a step.
    pub(crate) fn decode_time(&self, step: &StepShape) -> Result<StepTime, SimError> {
        self.decode_step_time(self.timing.decode(step), || *step)
    }

    /// Time that a price of the generating part of a step stands for.
    pub(crate) fn decode_step_time(
        &self,
        price: Price,
        step: impl FnOnce() -> StepShape,
    ) -> Result<StepTime, SimError> {
        let ratio = self.config.speedup_ratio * self.config.decode_speedup_ratio;
        step_time(price, ratio, step)
    }
}

fn step_time(price: Price, speedup: f64, step: impl FnOnce() -> StepShape) -> Result<StepTime, SimError> {
    let Some(total) = SimDuration::from_ms(price.ms) else {
        return Err(SimError::BadPrice {
            ms: price.ms,
            step: step(),
        });
    };
    let total = total.sped_up(speedup);
    if price.extrapolated_ms <= 0.0 || price.ms <= 0.0 {
        return Ok(StepTime {
            total,
            extrapolated: SimDuration::ZERO,
        });
    }
    let share = (price.extrapolated_ms / price.ms).min(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a time is one"
    )]
    let extrapolated = (total.as_nanos() as f64 * share) as u64;
    Ok(StepTime {
        total,
        extrapolated: SimDuration::from_nanos(extrapolated),
    })
}
