//! A run: decode steps over an unchanged batch, computed at once.

use dynosim_spec::SimTime;

use crate::decode_pages::DecodePages;
use crate::engine::Boundary;
use crate::prices::StepTime;

/// Steps, all of which take time, in which every sequence of a batch emits one token and nothing else happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeRun {
    steps: u32,
    start: SimTime,
    /// When its last step starts, and when that ends.
    last_step_start: SimTime,
    end: SimTime,
    pub(crate) seqs: u32,
    /// Mean context of the first step, rounded down.
    pub(crate) context: u64,
    pub(crate) pricing: RunPricing,
    /// Once steps of the run have been settled: when the last of them started. It ends at `start`.
    settled_step_start: Option<SimTime>,
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
    /// A run of `steps` steps, at least 1, from `start` on.
    pub(crate) fn new(
        start: SimTime,
        steps: u32,
        (seqs, context): (u32, u64),
        pricing: RunPricing,
        pages: &DecodePages,
    ) -> Self {
        let run = Self {
            steps: 0,
            start,
            last_step_start: start,
            end: start,
            seqs,
            context,
            pricing,
            settled_step_start: None,
        };
        run.ending_after(steps, pages)
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// When it ends.
    pub(crate) fn end(&self) -> SimTime {
        self.end
    }

    /// When its last step starts.
    pub(crate) fn last_step_start(&self) -> SimTime {
        self.last_step_start
    }

    /// Time of the first `steps` steps.
    pub(crate) fn time(&self, steps: u32, pages: &DecodePages) -> StepTime {
        StepTime {
            total: self.step_end(steps, pages) - self.start,
            extrapolated: match self.pricing {
                RunPricing::ByContext => pages.extrapolated_time(self.seqs, self.context, steps),
                RunPricing::Equal(step) => step.extrapolated * u64::from(steps),
            },
        }
    }

    /// When the step with this number, from 1, ends; 0 gives the start of the run.
    pub(crate) fn step_end(&self, step: u32, pages: &DecodePages) -> SimTime {
        if step == self.steps {
            return self.end;
        }
        let time = match self.pricing {
            RunPricing::ByContext => pages.time(self.seqs, self.context, step),
            RunPricing::Equal(one) => one.total * u64::from(step),
        };
        self.start + time
    }

    /// The same run, ending after its first `steps` steps.
    #[must_use]
    pub(crate) fn ending_after(&self, steps: u32, pages: &DecodePages) -> Self {
        let last_step_start = match steps.checked_sub(1) {
            Some(before_last) => self.step_end(before_last, pages),
            None => self.settled_step_start.unwrap_or(self.start),
        };
        Self {
            steps,
            last_step_start,
            end: self.step_end(steps, pages),
            ..*self
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
        let settled = self.ending_after(steps, pages);
        let rest = Self {
            steps: 0,
            start: settled.end,
            end: settled.end,
            settled_step_start: Some(settled.last_step_start),
            context: self.context + u64::from(steps),
            ..*self
        };
        rest.ending_after(self.steps - steps, pages)
    }
}
