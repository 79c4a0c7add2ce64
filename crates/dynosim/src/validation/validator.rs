//! From measured points to everything that is said about how right their simulations are.

use std::fmt;
use std::path::PathBuf;

use dynosim_spec::{Calibration, LoadPoint, MeasuredSetup};
use dynosim_timing::TimingProvider;
use serde::Serialize;
use serde_json::json;

use super::choices::{Choices, choices};
use super::curves::{Curve, curves, shape_errors};
use super::error_summary::{ErrorSummary, GroupErrors, group_errors};
use super::latencies::{LatencyKind, PerLatency};
use super::measured::{MeasuredPoint, MeasuredPoints};
use super::simulated::{SimulatedPoint, Simulator, draws, output_tok_s_per_gpu, simulate};
use super::{plot, points_csv, text};
use crate::error::Error;
use crate::error_bands::ErrorBand;
use crate::scenario::{calibration_of, timing_provider};
use crate::step_times::StepTimes;

/// Draws of lengths of every point, unless told otherwise.
const DEFAULT_SEEDS: u32 = 5;

/// Simulates measured points and compares.
///
/// Every point is one aggregated worker that starts cold, in a closed loop over ten requests for each one in flight (or as
/// many as the point says). Its latencies are means over several draws of lengths, with the seeds from 0 on.
pub struct Validator<'a> {
    setup: &'a MeasuredSetup,
    seeds: u32,
    timing: Option<&'a dyn TimingProvider>,
    perfdata: Option<PathBuf>,
    warnings: Vec<String>,
}

impl fmt::Debug for Validator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator")
            .field("setup", self.setup)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl<'a> Validator<'a> {
    /// Five draws of lengths, and the step times that the setup names.
    pub fn new(setup: &'a MeasuredSetup) -> Self {
        Self {
            setup,
            seeds: DEFAULT_SEEDS,
            timing: None,
            perfdata: None,
            warnings: Vec::new(),
        }
    }

    /// Draws lengths this many times for each point, at least once. Equal lengths are simulated once whatever is
    /// asked for.
    #[must_use]
    pub fn seeds(mut self, seeds: u32) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// Prices steps with this provider instead of the one that the setup names.
    #[must_use]
    pub fn timing(mut self, provider: &'a dyn TimingProvider) -> Self {
        self.timing = Some(provider);
        self
    }

    /// Reads measured tables from this folder instead of the bundled ones.
    #[must_use]
    pub fn perfdata(mut self, folder: impl Into<PathBuf>) -> Self {
        self.perfdata = Some(folder.into());
        self
    }

    /// Puts these warnings into the result, ahead of its own.
    #[must_use]
    pub fn warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Simulates the points, in parallel, and compares. The result does not depend on the number of threads.
    ///
    /// A point whose simulation fails is part of the result, with the reason.
    ///
    /// # Errors
    /// If the setup is not valid, or no point can be simulated: the reason of the first one.
    pub fn validate(self, measured: MeasuredPoints) -> Result<Validation, Error> {
        self.setup.validate()?;
        let calibration = calibration_of(&self.setup.engine, &self.setup.hardware, &self.setup.timing)?;
        let loads: Vec<LoadPoint> = measured.points.iter().map(|point| point.load).collect();
        let built_in = timing_provider(&self.setup.timing, &self.setup.engine, self.perfdata.as_deref());
        let simulator = Simulator {
            setup: self.setup,
            seeds: self.seeds,
            timing: self.timing.unwrap_or(built_in.as_ref()),
            calibration: None,
        };
        let mut simulated = simulate(simulator, &loads);
        if simulated.iter().all(Result::is_err)
            && let Some(Err(error)) = simulated.drain(..).next()
        {
            return Err(error);
        }
        let points: Vec<ValidatedPoint> = measured
            .points
            .into_iter()
            .zip(simulated)
            .map(|(measured, simulated)| ValidatedPoint::new(self.setup, measured, simulated))
            .collect();
        let mut notes = measured.notes;
        notes.extend(own_notes(self.setup, &points));
        Ok(self.compare(calibration, points, notes))
    }

    fn compare(self, calibration: Option<Calibration>, points: Vec<ValidatedPoint>, notes: Vec<String>) -> Validation {
        let setup = self.setup;
        let step_times = match self.timing {
            Some(_) => StepTimes::Own,
            None => StepTimes::built_in(&setup.timing, &setup.engine, &setup.hardware, self.perfdata.as_deref()),
        };
        let mut warnings = self.warnings;
        warnings.extend(step_times.warning());
        for warning in points
            .iter()
            .filter_map(|point| point.simulated.as_ref())
            .flat_map(|point| &point.warnings)
        {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        let curves = curves(&points);
        let any_limited = points.iter().any(|point| point.measured.kv_limited);
        Validation {
            setup: setup.clone(),
            step_times,
            calibration,
            seeds: draws(setup, self.seeds),
            groups: group_errors(&points),
            error_bands: PerLatency::of(|kind| {
                let free = points.iter().filter(|point| !point.measured.kv_limited);
                ErrorBand::of(free.filter_map(|point| *point.errors.get(kind)))
            }),
            shape_errors: shape_errors(&curves),
            curves,
            choices: choices(points.iter().filter(|point| !point.measured.kv_limited)),
            choices_with_kv_limited: any_limited.then(|| choices(&points)),
            points,
            notes,
            warnings,
        }
    }
}

/// How right the simulations of measured points are. All errors are relative: (simulated - measured) / measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// What the points have in common.
    pub setup: MeasuredSetup,
    /// Where step times come from.
    pub step_times: StepTimes,
    /// What was added to kernels; absent under rules that add nothing.
    pub calibration: Option<Calibration>,
    /// Draws of lengths of each point.
    pub seeds: u32,
    /// The points in order.
    pub points: Vec<ValidatedPoint>,
    /// Errors of all points, and by worker size and lengths; points at the KV limit apart.
    pub groups: Vec<GroupErrors>,
    /// Where measurements lie around simulations, without points at the KV limit.
    pub error_bands: PerLatency<Option<ErrorBand>>,
    /// Curves over concurrency, without points at the KV limit.
    pub curves: Vec<Curve>,
    /// Errors of all relative curves.
    pub shape_errors: PerLatency<Option<ErrorSummary>>,
    /// Choices under bounds on TPOT, without points at the KV limit.
    pub choices: Choices,
    /// Choices among all points; absent if no point is at the KV limit.
    pub choices_with_kv_limited: Option<Choices>,
    /// What the reader ought to know about points and figures.
    pub notes: Vec<String>,
    /// What the simulations warn of, each once.
    pub warnings: Vec<String>,
}

/// A point as measured and as simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidatedPoint {
    /// As measured.
    pub measured: MeasuredPoint,
    /// Measured output tokens per second and GPU: as given, else from the latencies; absent where these are.
    pub measured_tok_s_per_gpu: Option<f64>,
    /// As simulated; absent if that failed.
    pub simulated: Option<SimulatedPoint>,
    /// Why the simulation failed.
    pub failure: Option<String>,
    /// Relative errors; absent where nothing was measured, or simulated.
    pub errors: PerLatency<Option<f64>>,
}

impl ValidatedPoint {
    fn new(setup: &MeasuredSetup, measured: MeasuredPoint, simulated: Result<SimulatedPoint, Error>) -> Self {
        let from_latencies = output_tok_s_per_gpu(setup, &measured.load, &measured.mean_ms);
        let (simulated, failure) = match simulated {
            Ok(simulated) => (Some(simulated), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut point = Self {
            measured_tok_s_per_gpu: measured.output_tok_s_per_gpu.or(from_latencies),
            measured,
            simulated,
            failure,
            errors: PerLatency::default(),
        };
        point.errors = PerLatency::of(|kind| {
            let measured = (*point.measured.mean_ms.get(kind))?;
            Some(point.simulated_ms(kind)? / measured - 1.0)
        });
        point
    }

    /// A simulated mean in milliseconds.
    pub(super) fn simulated_ms(&self, kind: LatencyKind) -> Option<f64> {
        let simulated = self.simulated.as_ref()?;
        simulated.mean_ms.get(kind).as_ref().map(|mean| mean.ms)
    }
}

impl Validation {
    /// Everything as a JSON document of format `dynosim-validation`, version 1. Errors are shares, not percent.
    pub fn to_json(&self) -> String {
        let document = json!({
            "format": "dynosim-validation",
            "version": 1,
            "setup": self.setup,
            "step_times": self.step_times.to_string(),
            "calibration": self.calibration,
            "seeds": self.seeds,
            "points": self.points,
            "groups": self.groups,
            "error_bands": self.error_bands,
            "shape_errors": self.shape_errors,
            "curves": self.curves,
            "choices": self.choices,
            "choices_with_kv_limited": self.choices_with_kv_limited,
            "notes": self.notes,
            "warnings": self.warnings,
        });
        format!("{document:#}\n")
    }

    /// The points and the summaries as text tables; notes are part of it, warnings are not.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// One line per point as CSV with a header. Errors and spreads are shares, what is not there is empty.
    pub fn points_csv(&self) -> String {
        points_csv::points_csv(&self.points)
    }

    /// Simulated against measured latencies as an SVG image, readable on light and on dark ground.
    pub fn svg(&self) -> String {
        plot::svg(self)
    }
}

fn own_notes(setup: &MeasuredSetup, points: &[ValidatedPoint]) -> Vec<String> {
    let mut notes = Vec::new();
    if setup.workload.length_range_ratio >= 1.0 {
        notes.push(
            "all lengths are equal, so each point is simulated once, and requests keep in step; real ones drift apart, \
             which changes mean TTFT"
                .to_owned(),
        );
    }
    for point in points {
        let (file, line) = (&point.measured.file, point.measured.line);
        if let Some(failure) = &point.failure {
            notes.push(format!("{file}, line {line}: not simulated: {failure}"));
        }
        let rejected = point
            .simulated
            .as_ref()
            .map_or(0, |simulated| simulated.rejected_requests);
        if rejected > 0 {
            notes.push(format!(
                "{file}, line {line}: {rejected} requests of the simulation can never run, and are no part of its means"
            ));
        }
    }
    notes
}
