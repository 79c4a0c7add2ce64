//! Where time goes, term by term.

use dynosim_spec::SimDuration;
use dynosim_timing::PriceTerm;
use indexmap::IndexMap;
use serde::Serialize;

use super::phases::TtftParts;
use crate::prices::StepTime;

/// What time was spent on, milliseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Breakdown {
    /// Time of all steps of all workers by terms, which have the names of the timing model and come in the order in
    /// which they first occurred.
    #[serde(rename = "steps_ms")]
    pub(super) terms: IndexMap<&'static str, f64>,
    /// The parts of the mean time to first token.
    #[serde(rename = "mean_ttft_ms")]
    pub ttft: TtftParts,
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
