//! A run: decode steps over an unchanged batch, computed at once.

use dynosim_spec::{SimDuration, SimTime};

use crate::decode_pages::DecodePages;
use crate::prices::StepTime;

/// Steps in which every sequence of a batch emits one token and nothing else happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeRun {
    pub(crate) start: SimTime,
    pub(crate) steps: u32,
    pub(crate) seqs: u32,
    /// Mean context of the first step, rounded down.
    pub(crate) context: u64,
    pub(crate) pricing: RunPricing,
    /// Once steps of the run have been settled: when the last of them started. It ends at `start`.
    pub(crate) settled_step_start: Option<SimTime>,
}

/// Where the times of a run's steps come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunPricing {
    /// Each step has its price by mean context.
    ByContext,
    /// All steps take the same time.
    Equal(StepTime),
}

impl DecodeRun {
    /// Time of the first `steps` steps.
    pub(crate) fn time(&self, steps: u32, pages: &DecodePages) -> StepTime {
        match self.pricing {
            RunPricing::ByContext => pages.time(self.seqs, self.context, steps),
            RunPricing::Equal(step) => StepTime {
                total: step.total * u64::from(steps),
                extrapolated: step.extrapolated * u64::from(steps),
            },
        }
    }

    /// When the step with this number, from 1, ends; 0 gives the start of the run.
    pub(crate) fn step_end(&self, step: u32, pages: &DecodePages) -> SimTime {
        self.start + self.time(step, pages).total
    }

    /// When the run ends.
    pub(crate) fn end(&self, pages: &DecodePages) -> SimTime {
        self.step_end(self.steps, pages)
    }

    /// When its last step starts.
    pub(crate) fn last_step_start(&self, pages: &DecodePages) -> SimTime {
        match self.steps.checked_sub(1) {
            Some(before_last) => self.step_end(before_last, pages),
            None => self.settled_step_start.unwrap_or(self.start),
        }
    }

    /// The fewest steps after which it is at least `time`.
    pub(crate) fn steps_until(&self, time: SimTime, pages: &DecodePages) -> u32 {
        let span = time - self.start;
        match self.pricing {
            RunPricing::ByContext => pages.steps_until(self.seqs, self.context, self.steps, span),
            RunPricing::Equal(step) if step.total == SimDuration::ZERO => self.steps,
            RunPricing::Equal(step) => {
                let steps = span.as_nanos().div_ceil(step.total.as_nanos());
                u32::try_from(steps).unwrap_or(u32::MAX).min(self.steps)
            }
        }
    }

    /// What is left of the run after its first `steps` steps, of which there must be one.
    pub(crate) fn after(&self, steps: u32, pages: &DecodePages) -> Self {
        Self {
            start: self.step_end(steps, pages),
            steps: self.steps - steps,
            settled_step_start: Some(self.step_end(steps - 1, pages)),
            context: self.context + u64::from(steps),
            ..*self
        }
    }
}
