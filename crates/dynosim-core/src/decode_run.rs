//! A run: decode steps over an unchanged batch, computed at once.

use dynosim_spec::SimTime;

use crate::decode_pages::DecodePages;
use crate::engine::Boundary;
use crate::prices::StepTime;

/// Steps, all of which take time, in which every sequence of a batch emits one token and nothing else happens.
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

    /// How many of its steps have started at `now`.
    pub(crate) fn steps_started(&self, now: SimTime, boundary: Boundary, pages: &DecodePages) -> u32 {
        let ended = self.steps_until(now, pages);
        let starts_now = self.step_end(ended, pages) == now;
        // The step with which the run began has started, even if that was just now.
        let began_now = ended == 0 && self.settled_step_start.is_none();
        let started = ended + u32::from(began_now || (starts_now && boundary == Boundary::Passed));
        started.min(self.steps)
    }

    /// The fewest steps after which it is at least `time`.
    fn steps_until(&self, time: SimTime, pages: &DecodePages) -> u32 {
        let span = time - self.start;
        match self.pricing {
            RunPricing::ByContext => pages.steps_until(self.seqs, self.context, self.steps, span),
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
