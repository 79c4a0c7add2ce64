//! The way between clients and the scheduler.

use dynosim_spec::{CalibrationConstants, EnginePhysics, SimDuration, StepTerm};

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
        if !physics.has(StepTerm::Client) {
            return Self::default();
        }
        let constants = &physics.calibration.constants;
        let value = |constant| CalibrationConstants::value(constant, 0.0);
        Self {
            ingress: span(value(constants.ingress_ms.as_ref())),
            ingress_us_per_token: value(constants.ingress_us_per_token.as_ref()),
            egress: span(value(constants.egress_ms.as_ref())),
            resend: span(value(constants.resend_ms.as_ref())),
        }
    }

    /// Turning a prompt into tokens, one request after the other.
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

fn span(ms: f64) -> SimDuration {
    SimDuration::from_ms(ms).unwrap_or(SimDuration::MAX)
}
