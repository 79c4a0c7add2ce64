//! The way between clients and the scheduler.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_spec::{EnginePhysics, SimDuration, SimTime, StepTerm};

/// How long requests and tokens are on their way. Nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ClientPath {
    ingress: SimDuration,
    ingress_us_per_token: f64,
    egress: SimDuration,
    resend: SimDuration,
}

impl ClientPath {
    pub(crate) fn of(physics: &EnginePhysics) -> Self {
        let constants = &physics.calibration.constants;
        let value = |constant| physics.value(StepTerm::Client, constant, 0.0);
        Self {
            ingress: span(value(constants.ingress_ms.as_ref())),
            ingress_us_per_token: value(constants.ingress_us_per_token.as_ref()),
            egress: span(value(constants.egress_ms.as_ref())),
            resend: span(value(constants.resend_ms.as_ref())),
        }
    }

    /// Turning a prompt into tokens, which [`Tokenisers`] do.
    pub(crate) fn tokenising(&self, input_tokens: u32) -> SimDuration {
        span(self.ingress_us_per_token * f64::from(input_tokens) / 1000.0)
    }

    /// The rest of the way from the client to the router.
    pub(crate) fn ingress(&self) -> SimDuration {
        self.ingress
    }

    /// From the end of a step to its tokens' reaching the client.
    pub(crate) fn egress(&self) -> SimDuration {
        self.egress
    }

    /// From the end of a request's last step to the moment from which the client sends another one.
    pub(crate) fn turnaround(&self) -> SimDuration {
        self.egress + self.resend
    }
}

/// The tokenisers of the servers, one for each worker that requests arrive at. Each does one prompt after the other.
#[derive(Debug)]
pub(crate) struct Tokenisers {
    /// When each is free.
    free: BinaryHeap<Reverse<SimTime>>,
}

impl Tokenisers {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            free: vec![Reverse(SimTime::ZERO); workers].into(),
        }
    }

    /// When a prompt that arrives at `sent` is done: the tokeniser that is free first takes it.
    pub(crate) fn take(&mut self, sent: SimTime, tokenising: SimDuration) -> SimTime {
        let Some(mut first) = self.free.peek_mut() else {
            return sent + tokenising;
        };
        first.0 = first.0.max(sent) + tokenising;
        first.0
    }
}

fn span(ms: f64) -> SimDuration {
    SimDuration::from_ms(ms).unwrap_or(SimDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenisers_take_one_prompt_after_the_other() {
        let ms = |ms: u64| SimDuration::from_nanos(ms * 1_000_000);
        let at = |time: u64| SimTime::ZERO + ms(time);
        let mut tokenisers = Tokenisers::new(2);
        let mut done = |sent: u64, tokenising: u64| tokenisers.take(at(sent), ms(tokenising));
        assert_eq!(done(0, 5), at(5));
        assert_eq!(done(0, 3), at(3));
        assert_eq!(done(1, 4), at(7));
        assert_eq!(done(6, 1), at(7));
    }
}
