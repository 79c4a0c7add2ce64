//! How far measurements are from simulations: bands that follow from validation, and those that hold for a run.

use dynosim_core::{ErrorBands, Outcome, Scenario};
use dynosim_spec::{Admission, HardwareSpec, ParallelShape, RunSpec, TimingKind, TimingSpec, Topology, WorkerRole};
use serde::{Deserialize, Serialize};

/// Between which quantiles of measured over simulated values a band lies.
const QUANTILES: [f64; 2] = [0.05, 0.95];

/// Where measured values lie, as factors on simulated ones: nine in ten of those that were compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorBand {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Points that were compared.
    pub points: usize,
}

impl ErrorBand {
    /// The band of these relative errors, (simulated - measured) / measured; `None` without any. Quantiles are
    /// nearest-rank, so few points give their whole range.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut factors: Vec<f64> = errors.into_iter().map(|error| 1.0 / (1.0 + error)).collect();
        factors.retain(|factor| factor.is_finite());
        factors.sort_unstable_by(f64::total_cmp);
        let last = factors.len().checked_sub(1)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let at = |rank: f64| factors[(rank as usize).min(last)];
        Some(Self {
            low: at((QUANTILES[0] * last as f64).floor()),
            high: at((QUANTILES[1] * last as f64).ceil()),
            points: factors.len(),
        })
    }

    fn around(self, simulated_ms: f64) -> [f64; 2] {
        [self.low * simulated_ms, self.high * simulated_ms]
    }
}

/// What a validation with the bundled constants found: `perfdata/accuracy/*.json`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accuracy {
    /// GPU system of the measurements.
    system: String,
    /// Calibration that was validated, by name.
    calibration: String,
    /// What was measured, for people.
    pub(crate) measured: String,
    /// Tensor-parallel sizes among and between those that were measured.
    pub(crate) tps: Vec<u32>,
    /// Band of the mean time to first token, if it was compared.
    pub(crate) ttft: Option<ErrorBand>,
    /// Band of the mean time per output token, if it was compared.
    pub(crate) tpot: Option<ErrorBand>,
}

const RECORDS: [&str; 2] = [
    include_str!("../../../perfdata/accuracy/vllm_h200_fp8.json"),
    include_str!("../../../perfdata/accuracy/vllm_h100_bfloat16.json"),
];

fn records() -> impl Iterator<Item = Accuracy> {
    let read = |text: &str| serde_json::from_str(text).expect("bundled records are valid");
    RECORDS.into_iter().map(read)
}

/// What was validated with the tables and constants that a scenario runs with by default, on its GPU system and for dense
/// models; `None` if nothing was.
pub(crate) fn accuracy_of(timing: &TimingSpec, hardware: &HardwareSpec, scenario: &Scenario) -> Option<Accuracy> {
    let physics = scenario.physics()?;
    let defaults = timing.provider == TimingKind::Table
        && timing.engine_version.is_none()
        && timing.calibration.is_none()
        && timing.without.is_empty();
    let is_dense = scenario.model().is_some_and(|model| model.moe.is_none());
    let same = |record: &Accuracy| record.calibration == physics.calibration.name && record.system == hardware.system;
    records().find(|record| defaults && is_dense && same(record))
}

/// The bands around the means of a run, if it is of a kind that was compared with measurements: with the same constants on
/// the same GPU system, one aggregated worker of a size that was measured, in a closed loop without reuse of prefixes
/// or rejections.
pub(crate) fn error_bands(spec: &RunSpec, scenario: &Scenario, outcome: &Outcome) -> Option<ErrorBands> {
    let report = &outcome.report;
    let config = spec.engine.config(WorkerRole::Aggregated);
    let as_measured = is_one(config.speedup_ratio)
        && is_one(config.decode_speedup_ratio)
        && report.prefix_cache_reused_ratio <= 0.0
        && report.rejections.is_empty()
        && scenario.workload().admission() != Admission::OpenLoop;
    let Topology::Aggregated { workers: 1, shape } = spec.topology else {
        return None;
    };
    let record = accuracy_of(&spec.timing, &spec.hardware, scenario)?;
    let size_measured = shape == ParallelShape::tensor(shape.tp) && record.tps.contains(&shape.tp);
    let band = |band: Option<ErrorBand>, mean_ms: f64| band.filter(|_| mean_ms > 0.0).map(|band| band.around(mean_ms));
    (size_measured && as_measured).then(|| ErrorBands {
        basis: record.measured,
        mean_ttft_ms: band(record.ttft, report.ttft.mean),
        mean_tpot_ms: band(record.tpot, report.tpot.mean),
    })
}

fn is_one(ratio: f64) -> bool {
    (ratio - 1.0).abs() < f64::EPSILON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_nine_in_ten_of_the_points() {
        let errors = (0..=20).map(|point| 1.0 / (0.9 + 0.01 * f64::from(point)) - 1.0);
        let band = ErrorBand::of(errors).expect("there are points");
        assert!(
            (band.low - 0.91).abs() < 1e-12 && (band.high - 1.09).abs() < 1e-12,
            "{band:?}"
        );
        assert_eq!(band.points, 21);
    }

    #[test]
    fn few_points_give_their_whole_range() {
        let band = ErrorBand::of([0.25, -0.2]).expect("there are points");
        assert!(
            (band.low - 0.8).abs() < 1e-12 && (band.high - 1.25).abs() < 1e-12,
            "{band:?}"
        );
        assert_eq!(ErrorBand::of([]), None);
    }

    #[test]
    fn bundled_records_are_valid() {
        assert!(records().all(|record| record.ttft.or(record.tpot).is_some_and(|band| band.low < band.high)));
    }
}
