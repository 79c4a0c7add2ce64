//! What the comparison of simulations with measurements leaves open between candidates.

use dynosim_core::Scenario;
use dynosim_spec::{Admission, Objective, ParallelShape, ReplayOptimizeSpec, Topology};
use dynosim_sweep::{Record, State};
use serde::Serialize;

use crate::error_bands::{Accuracy, ErrorBand, accuracy_of};

/// By how much measured latencies of comparable deployments differed from simulated ones.
///
/// Nine in ten measured values were within a band of factors on the simulated ones. Its middle is an error that all
/// validated deployments had in common: if candidates have it in common, too, it changes their figures, but not their
/// order. What is left, half the width of the band, differed from one deployment to another, so that it can change the
/// order of candidates which are closer to each other. It is no more than a rule of thumb: candidates that are much
/// alike (the same workers behind another router) share most of their error, and candidates of different shapes less.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelError {
    /// The measurements.
    pub basis: String,
    /// What deployments had in common: measured over simulated latencies at the middle of the band, less 1.
    pub common: f64,
    /// What differed between them: half the width of the band, as a share of its middle.
    pub differing: f64,
    /// Whether every candidate is of the kind that was compared: one aggregated worker of a size that was measured, in
    /// a closed loop without reuse of prefixes. If not, nothing was measured that is quite like it, and the error may
    /// be larger.
    pub as_validated: bool,
}

impl ModelError {
    /// Of these candidates, with the records of the workload itself; `None` if nothing comparable was measured.
    pub(super) fn of(
        spec: &ReplayOptimizeSpec,
        scenario: &Scenario,
        states: &[State],
        records: &[Record],
    ) -> Option<Self> {
        let accuracy = accuracy_of(&spec.timing, &spec.hardware, scenario)?;
        let band = widest(&accuracy, spec.objective)?;
        let closed = scenario.workload().admission() != Admission::OpenLoop;
        let no_reuse = |record: &Record| {
            record
                .metric("prefix_cache_reused_ratio")
                .is_some_and(|share| share <= 0.0)
        };
        let one_worker = |state: &State| match state.topology {
            Topology::Aggregated { workers: 1, shape } => {
                shape == ParallelShape::tensor(shape.tp) && accuracy.tps.contains(&shape.tp)
            }
            _ => false,
        };
        let as_validated = closed && states.iter().all(one_worker) && records.iter().all(no_reuse);
        Some(Self {
            basis: accuracy.measured,
            common: 0.5 * (band.high + band.low) - 1.0,
            differing: half_width(band),
            as_validated,
        })
    }

    /// Whether candidates whose scores differ by this share may as well be the other way round.
    pub fn covers(&self, relative_difference: f64) -> bool {
        relative_difference.abs() < self.differing
    }
}

/// The band of the latency that an objective is about; the relatively wider one if it depends on both.
fn widest(accuracy: &Accuracy, objective: Objective) -> Option<ErrorBand> {
    let (with_ttft, with_tpot) = match objective {
        Objective::MeanTtft | Objective::P99Ttft => (true, false),
        Objective::P99Itl => (false, true),
        // Sizes are not measured; what is measured is whether they do.
        Objective::MinGpus => (false, false),
        _ => (true, true),
    };
    let ttft = accuracy.ttft.filter(|_| with_ttft);
    let tpot = accuracy.tpot.filter(|_| with_tpot);
    let bands = [ttft, tpot].into_iter().flatten();
    bands.max_by(|a, b| half_width(*a).total_cmp(&half_width(*b)))
}

fn half_width(band: ErrorBand) -> f64 {
    (band.high - band.low) / (band.high + band.low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_within_the_band_are_open() {
        let error = ModelError {
            basis: String::new(),
            common: 0.2,
            differing: 0.05,
            as_validated: true,
        };
        assert!(error.covers(0.049) && error.covers(-0.049));
        assert!(
            !error.covers(0.051) && !error.covers(-0.051),
            "what is common does not count"
        );
    }
}
