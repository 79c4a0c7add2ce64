//! Where time goes, term by term.

use dynosim_spec::SimDuration;
use dynosim_timing::PriceTerm;
use indexmap::IndexMap;
use serde::Serialize;

use super::recorder::RequestRecord;
use crate::prices::StepTime;

/// What time was spent on, milliseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Breakdown {
    /// Time of all steps of all workers by terms, which have the names of the timing model and come in the order in
    /// which they first occurred.
    #[serde(rename = "steps_ms")]
    pub(super) terms: IndexMap<&'static str, f64>,
    /// The mean time to first token.
    #[serde(rename = "mean_ttft_ms")]
    pub ttft: TtftParts,
}

/// The time from a request's leaving the client to its first token's reaching it, mean over requests, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TtftParts {
    /// From the client to the router.
    pub ingress: f64,
    /// From there to the start of the first step that the request is part of.
    pub wait: f64,
    /// From there to the end of the step that its first token comes out of.
    pub compute: f64,
    /// From the engine to the client.
    pub egress: f64,
}

impl TtftParts {
    /// The parts of these requests, each with its way to the router; tokens take `egress` back.
    pub(crate) fn of(requests: &[RequestRecord], ways: &[SimDuration], egress: SimDuration) -> Self {
        let (mut count, mut sum) = (0, Self::default());
        for (record, &way) in requests.iter().zip(ways).filter(|(record, _)| record.counts()) {
            let (Some(sent), Some(admitted)) = (record.arrival, record.first_admission) else {
                continue;
            };
            count += 1;
            sum.ingress += way.as_ms();
            sum.wait += (admitted - (sent + way)).as_ms();
            sum.compute += (record.first_token - (admitted + egress)).as_ms();
            sum.egress += egress.as_ms();
        }
        let mean = |sum: f64| if count == 0 { 0.0 } else { sum / f64::from(count) };
        Self {
            ingress: mean(sum.ingress),
            wait: mean(sum.wait),
            compute: mean(sum.compute),
            egress: mean(sum.egress),
        }
    }
}

impl Breakdown {
    /// Adds a step, or a part of one, that took `time` and whose price is the sum of `terms`. A speed-up shortens
    /// all terms alike.
    pub(crate) fn add(&mut self, time: StepTime, terms: &[PriceTerm]) {
        let price_ms: f64 = terms.iter().map(|term| term.ms).sum();
        let scale = if price_ms > 0.0 && time.total > SimDuration::ZERO {
            time.total.as_ms() / price_ms
        } else {
            0.0
        };
        for term in terms {
            *self.terms.entry(term.name).or_default() += term.ms * scale;
        }
    }

    /// Terms and their time in milliseconds.
    pub fn terms(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.terms.iter().map(|(&name, &ms)| (name, ms))
    }

    /// Time of all terms, milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.terms.values().sum()
    }
}
