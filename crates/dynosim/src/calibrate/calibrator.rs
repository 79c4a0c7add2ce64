//! From measured points to a calibration record.

use std::fmt;
use std::path::PathBuf;

use dynosim_spec::{Calibration, GpuSpec, LoadPoint, MeasuredSetup, TimingSpec};
use dynosim_timing::TimingProvider;

use super::error::CalibrationError;
use super::factors::{self, Factor, MOST_FACTORS};
use super::robust_fit::{Fit, Parameter, robust_fit, robust_scale};
use super::text;
use crate::error::Error;
use crate::scenario::{calibration_of, timing_provider};
use crate::validation::{
    ErrorSummary, LatencyKind, MeasuredPoint, MeasuredPoints, PerLatency, SimulatedPoint, Simulator, simulate,
};

/// What is fitted unless told otherwise.
const DEFAULT_FACTORS: [&str; 3] = ["gemmDerate", "decodeAttentionBandwidthTbS", "stepMs"];
/// Draws of lengths of every point, unless told otherwise.
const DEFAULT_SEEDS: u32 = 5;
/// Relative errors below these cannot be told from the noise of measurements and of drawn lengths.
const RESOLUTION: PerLatency<f64> = PerLatency {
    ttft: 0.025,
    tpot: 0.01,
};
/// Errors beyond this many robust standard deviations are not explained.
const UNEXPLAINED_SIGMAS: f64 = 3.0;

/// Fits constants of an engine to measured points.
///
/// The fit makes the logarithms of simulated over measured mean TTFT and mean TPOT small, in units of what can be told
/// from noise (2.5 % of TTFT, 1 % of TPOT), and robustly: a few points that nothing explains hardly count. Points at the
/// KV limit are left out. No random numbers but the seeded lengths.
pub struct Calibrator<'a> {
    setup: &'a MeasuredSetup,
    keys: Vec<String>,
    tp: Option<u32>,
    seeds: u32,
    perfdata: Option<PathBuf>,
}

/// What simulates points with one record after another.
struct Bench<'b> {
    setup: &'b MeasuredSetup,
    seeds: u32,
    timing: &'b dyn TimingProvider,
}

impl fmt::Debug for Calibrator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calibrator")
            .field("setup", self.setup)
            .field("keys", &self.keys)
            .field("tp", &self.tp)
            .finish_non_exhaustive()
    }
}

/// What a fit came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationFit {
    /// The record of the setup with the fitted constants; its name and date are those of the setup's record.
    pub record: Calibration,
    /// The fitted constants, in the order in which they were asked for.
    pub constants: Vec<FittedConstant>,
    /// Points that were fitted.
    pub points: usize,
    /// Relative errors of these points with the record of the setup.
    pub before: PerLatency<Option<ErrorSummary>>,
    /// Relative errors of these points with the fitted record.
    pub after: PerLatency<Option<ErrorSummary>>,
    /// Each pair of lengths simulated with constants fitted to the others; absent if there is one pair only.
    pub cross_validated: Option<PerLatency<Option<ErrorSummary>>>,
    /// Points of other tensor-parallel sizes, which were not fitted, before and after; absent if there are none.
    pub held_out: Option<[PerLatency<Option<ErrorSummary>>; 2]>,
    /// What the fitted constants leave unexplained.
    pub unexplained: Vec<UnexplainedFigure>,
    /// How often all points were simulated.
    pub evaluations: usize,
    /// Whether the search came to rest.
    pub converged: bool,
    /// What the reader ought to know.
    pub notes: Vec<String>,
}

/// A constant that was fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedConstant {
    /// Its key in the record.
    pub key: &'static str,
    /// Value in the record of the setup; absent if it is not there.
    pub before: Option<f64>,
    /// Fitted value; absent if no fitted point depends on the constant, which then stays as it was.
    pub after: Option<f64>,
    /// Standard error; absent at a bound, or where other constants could do the same.
    pub std_error: Option<f64>,
}

/// A measured latency that the fitted constants do not explain.
#[derive(Debug, Clone, PartialEq)]
pub struct UnexplainedFigure {
    /// The point.
    pub point: MeasuredPoint,
    /// Which of its latencies.
    pub latency: LatencyKind,
    /// Its relative error.
    pub error: f64,
    /// The error in robust standard deviations of all errors of this latency.
    pub sigmas: f64,
}

impl<'a> Calibrator<'a> {
    /// Fits `gemmDerate`, `decodeAttentionBandwidthTbS` and `stepMs`, with five draws of lengths.
    pub fn new(setup: &'a MeasuredSetup) -> Self {
        Self {
            setup,
            keys: DEFAULT_FACTORS.map(str::to_owned).to_vec(),
            tp: None,
            seeds: DEFAULT_SEEDS,
            perfdata: None,
        }
    }

    /// Fits the constants with these keys of the record, one to five.
    #[must_use]
    pub fn fit(mut self, keys: &[String]) -> Self {
        self.keys = keys.to_vec();
        self
    }

    /// Fits points with this many GPUs only; the others show how well the constants carry over.
    #[must_use]
    pub fn tp(mut self, tp: u32) -> Self {
        self.tp = Some(tp);
        self
    }

    /// Draws lengths this many times for each point, at least once.
    #[must_use]
    pub fn seeds(mut self, seeds: u32) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// Reads measured tables from this folder instead of the bundled ones.
    #[must_use]
    pub fn perfdata(mut self, folder: impl Into<PathBuf>) -> Self {
        self.perfdata = Some(folder.into());
        self
    }

    /// Fits the constants.
    ///
    /// # Errors
    /// If the setup is not valid or its rules know no constants, a constant cannot be fitted, too little was measured, or a
    /// simulation fails in the course of the search.
    pub fn calibrate(&self, measured: MeasuredPoints) -> Result<CalibrationFit, Error> {
        self.setup.validate()?;
        let record = self.record()?;
        let factors = self.factors(&record)?;
        let provider = timing_provider(&self.setup.timing, &self.setup.engine, self.perfdata.as_deref());
        let bench = Bench {
            setup: self.setup,
            seeds: self.seeds,
            timing: provider.as_ref(),
        };
        let mut notes = measured.notes;
        let points = bench.usable(measured.points, &record, &mut notes)?;
        let (fitted, held_out): (Vec<MeasuredPoint>, Vec<MeasuredPoint>) = points
            .into_iter()
            .partition(|point| self.tp.is_none_or(|tp| point.load.tp == tp));
        let figures: usize = fitted.iter().map(|point| known(point).count()).sum();
        if figures <= factors.len() {
            let factors = factors.len();
            return Err(CalibrationError::TooFewFigures { figures, factors }.into());
        }
        let gpu = GpuSpec::find(&self.setup.hardware.system)?;
        let parameters: Vec<Parameter> = factors.iter().map(|factor| factor.parameter(&record, &gpu)).collect();
        let model = Model {
            bench: &bench,
            record: &record,
            factors: &factors,
        };
        let fit = model.fit(&parameters, &fitted)?;
        notes.extend(own_notes(&factors, &parameters, &fit));
        let before = summaries(&bench.errors(&fitted, &record)?);
        let found = model.record(&fit.values, &fit.has_effect, "a search");
        let errors = bench.errors(&fitted, &found)?;
        let after = summaries(&errors);
        let source = source(&fitted, &before, &after);
        let found = model.record(&fit.values, &fit.has_effect, &source);
        Ok(CalibrationFit {
            constants: model.constants(&fit),
            points: fitted.len(),
            before,
            after,
            cross_validated: model.cross_validated(&parameters, &fit, &fitted)?,
            held_out: bench.held_out(&held_out, [&record, &found])?,
            unexplained: unexplained(&fitted, &errors),
            evaluations: fit.evaluations,
            converged: fit.converged,
            record: found,
            notes,
        })
    }

    /// The record that the setup names. If that is no record of an engine version, it becomes one of the tables'.
    fn record(&self) -> Result<Calibration, Error> {
        let setup = self.setup;
        let record = calibration_of(&setup.engine, &setup.hardware, &setup.timing)?;
        let mut record =
            record.ok_or_else(|| CalibrationError::no_physics(setup.engine.rules, setup.engine.backend))?;
        if record.name == TimingSpec::NO_CALIBRATION {
            let engine = &setup.engine;
            let version = setup.timing.engine_version(engine.backend, engine.rules);
            version.clone_into(&mut record.engine_version);
        }
        Ok(record)
    }

    fn factors(&self, record: &Calibration) -> Result<Vec<Factor>, CalibrationError> {
        let given = self.keys.len();
        if given == 0 || given > MOST_FACTORS {
            let most = MOST_FACTORS;
            return Err(CalibrationError::FactorCount { given, most });
        }
        let mut found: Vec<Factor> = Vec::new();
        for key in &self.keys {
            let factor = factors::find(key).ok_or_else(|| CalibrationError::UnknownFactor {
                key: key.clone(),
                known: factors::keys(),
            })?;
            if found.contains(&factor) {
                return Err(CalibrationError::RepeatedFactor { key: key.clone() });
            }
            found.push(factor);
        }
        let has = |key: &str| found.iter().any(|factor| factor.key == key);
        if has("decodeAttentionFloorUs")
            && !has("decodeAttentionBandwidthTbS")
            && record.constants.decode_attention_bandwidth_tb_s.is_none()
        {
            return Err(CalibrationError::FloorWithoutBandwidth);
        }
        Ok(found)
    }
}

impl Bench<'_> {
    /// Points that are not at the KV limit and can be simulated.
    fn usable(
        &self,
        points: Vec<MeasuredPoint>,
        record: &Calibration,
        notes: &mut Vec<String>,
    ) -> Result<Vec<MeasuredPoint>, Error> {
        let points: Vec<MeasuredPoint> = points.into_iter().filter(|point| !point.kv_limited).collect();
        let simulated = self.simulate(&points, record);
        let mut usable = Vec::new();
        let mut first_failure = None;
        for (point, simulated) in points.into_iter().zip(simulated) {
            match simulated {
                Ok(_) => usable.push(point),
                Err(error) => {
                    notes.push(format!("{}, line {}: not simulated: {error}", point.file, point.line));
                    first_failure = first_failure.or(Some(error));
                }
            }
        }
        match first_failure {
            Some(error) if usable.is_empty() => Err(error),
            _ => Ok(usable),
        }
    }

    fn held_out(
        &self,
        points: &[MeasuredPoint],
        records: [&Calibration; 2],
    ) -> Result<Option<[PerLatency<Option<ErrorSummary>>; 2]>, Error> {
        if points.is_empty() {
            return Ok(None);
        }
        let [before, after] = records.map(|record| self.errors(points, record));
        Ok(Some([summaries(&before?), summaries(&after?)]))
    }

    /// Relative errors of points with a record; absent where nothing was measured or simulated.
    fn errors(&self, points: &[MeasuredPoint], record: &Calibration) -> Result<Vec<PerLatency<Option<f64>>>, Error> {
        let simulated = self.simulate(points, record);
        points
            .iter()
            .zip(simulated)
            .map(|(point, simulated)| {
                let simulated = simulated?;
                Ok(PerLatency::of(|kind| {
                    let measured = (*point.mean_ms.get(kind))?;
                    Some((*simulated.mean_ms.get(kind))?.ms / measured - 1.0)
                }))
            })
            .collect()
    }

    fn simulate(&self, points: &[MeasuredPoint], record: &Calibration) -> Vec<Result<SimulatedPoint, Error>> {
        let loads: Vec<LoadPoint> = points.iter().map(|point| point.load).collect();
        let simulator = Simulator {
            setup: self.setup,
            seeds: self.seeds,
            timing: self.timing,
            calibration: Some(record),
        };
        simulate(simulator, &loads)
    }
}

impl CalibrationFit {
    /// Constants, errors before and after, what is not explained, and notes, as text.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

/// Records by the values of their factors.
struct Model<'c> {
    bench: &'c Bench<'c>,
    record: &'c Calibration,
    factors: &'c [Factor],
}

impl Model<'_> {
    fn fit(&self, parameters: &[Parameter], points: &[MeasuredPoint]) -> Result<Fit, Error> {
        // Residuals are in units of what can be told from noise, so that a tenth of one means nothing.
        const LEAST_SCALE: f64 = 0.1;
        robust_fit(parameters, LEAST_SCALE, |values| {
            let record = self.record(values, &vec![true; values.len()], "a search");
            let errors = self.bench.errors(points, &record)?;
            Ok(points
                .iter()
                .zip(&errors)
                .flat_map(|(point, errors)| known(point).map(|kind| residual(errors, kind)))
                .collect())
        })
    }

    /// The record of the setup with these values in the place of those that have an effect.
    fn record(&self, values: &[f64], has_effect: &[bool], source: &str) -> Calibration {
        let mut record = self.record.clone();
        for ((factor, &value), _) in self
            .factors
            .iter()
            .zip(values)
            .zip(has_effect)
            .filter(|(_, effect)| **effect)
        {
            factor.put(&mut record, factor.value_at(value), source);
        }
        record
    }

    fn constants(&self, fit: &Fit) -> Vec<FittedConstant> {
        let found = fit.values.iter().zip(&fit.has_effect).zip(&fit.std_errors);
        self.factors
            .iter()
            .zip(found)
            .map(|(factor, ((&value, &has_effect), error))| {
                let value = factor.value_at(value);
                FittedConstant {
                    key: factor.key,
                    before: factor.value_in(self.record),
                    after: has_effect.then_some(value),
                    std_error: error.map(|error| factor.error_of(value, error)),
                }
            })
            .collect()
    }

    /// Errors of each pair of lengths with constants fitted to the others. The searches begin with what was fitted to all:
    /// where a search ends does not hang on where it begins, but how long it takes does.
    fn cross_validated(
        &self,
        parameters: &[Parameter],
        fit: &Fit,
        points: &[MeasuredPoint],
    ) -> Result<Option<PerLatency<Option<ErrorSummary>>>, Error> {
        let mut shapes: Vec<(u32, u32)> = points.iter().map(shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        if shapes.len() < 2 {
            return Ok(None);
        }
        let parameters: Vec<Parameter> = parameters
            .iter()
            .zip(&fit.values)
            .map(|(parameter, &start)| Parameter { start, ..*parameter })
            .collect();
        let mut errors = Vec::new();
        for left_out in shapes {
            let (others, left_out): (Vec<MeasuredPoint>, Vec<MeasuredPoint>) =
                points.iter().cloned().partition(|point| shape(point) != left_out);
            let fit = self.fit(&parameters, &others)?;
            let record = self.record(&fit.values, &fit.has_effect, "a search");
            errors.extend(self.bench.errors(&left_out, &record)?);
        }
        Ok(Some(summaries(&errors)))
    }
}

fn shape(point: &MeasuredPoint) -> (u32, u32) {
    (point.load.isl, point.load.osl)
}

/// The latencies that were measured.
fn known(point: &MeasuredPoint) -> impl Iterator<Item = LatencyKind> {
    let mean_ms = point.mean_ms;
    LatencyKind::ALL
        .into_iter()
        .filter(move |&kind| mean_ms.get(kind).is_some())
}

/// Logarithm of simulated over measured, in units of what can be told from noise; 0 if nothing was simulated.
fn residual(errors: &PerLatency<Option<f64>>, kind: LatencyKind) -> f64 {
    errors
        .get(kind)
        .map_or(0.0, |error| error.ln_1p() / RESOLUTION.get(kind))
}

fn summaries(errors: &[PerLatency<Option<f64>>]) -> PerLatency<Option<ErrorSummary>> {
    PerLatency::of(|kind| ErrorSummary::of(errors.iter().filter_map(|errors| *errors.get(kind))))
}

/// Where a fitted constant comes from, for the record.
fn source(
    points: &[MeasuredPoint],
    before: &PerLatency<Option<ErrorSummary>>,
    after: &PerLatency<Option<ErrorSummary>>,
) -> String {
    let mut files: Vec<&str> = points.iter().map(|point| point.file.as_str()).collect();
    files.dedup();
    let share = |errors: &PerLatency<Option<ErrorSummary>>, kind| {
        let summary: Option<ErrorSummary> = *errors.get(kind);
        summary.map_or_else(
            || "-".to_owned(),
            |summary| format!("{:.1}", 100.0 * summary.mean_absolute),
        )
    };
    let [ttft, tpot] =
        LatencyKind::ALL.map(|kind| format!("{} {} to {} %", kind.name(), share(before, kind), share(after, kind)));
    format!(
        "fitted to {} measured points of {}; mean absolute error of {ttft}, of {tpot}",
        points.len(),
        files.join(", ")
    )
}

/// Figures whose error is beyond three robust standard deviations of the errors of their latency, which are taken to be
/// no smaller than what can be told from noise.
fn unexplained(points: &[MeasuredPoint], errors: &[PerLatency<Option<f64>>]) -> Vec<UnexplainedFigure> {
    let mut found = Vec::new();
    for latency in LatencyKind::ALL {
        let of_latency: Vec<f64> = errors.iter().filter_map(|errors| *errors.get(latency)).collect();
        let sigma = robust_scale(&of_latency, *RESOLUTION.get(latency));
        for (point, errors) in points.iter().zip(errors) {
            let Some(error) = *errors.get(latency) else { continue };
            let sigmas = error.abs() / sigma;
            if sigmas > UNEXPLAINED_SIGMAS {
                found.push(UnexplainedFigure {
                    point: point.clone(),
                    latency,
                    error,
                    sigmas,
                });
            }
        }
    }
    found
}

fn own_notes(factors: &[Factor], parameters: &[Parameter], fit: &Fit) -> Vec<String> {
    let mut notes = Vec::new();
    let found = fit.values.iter().zip(&fit.has_effect);
    for ((factor, parameter), (&value, &has_effect)) in factors.iter().zip(parameters).zip(found) {
        let key = factor.key;
        if !has_effect {
            notes.push(format!("{key} changes no fitted point, so it stays as it was"));
        } else if value <= parameter.least || value >= parameter.most {
            let bound = factor.value_at(value);
            notes.push(format!(
                "{key} ended at {bound:.4}, the bound of its search: do not trust it, something else is missing"
            ));
        }
    }
    if !fit.converged {
        notes.push("the search did not come to rest; fit fewer constants".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(line: u64) -> MeasuredPoint {
        MeasuredPoint {
            file: "m.csv".to_owned(),
            line,
            load: LoadPoint::new(1, 10, 10, 1),
            mean_ms: PerLatency {
                ttft: Some(1.0),
                tpot: None,
            },
            output_tok_s_per_gpu: None,
            kv_limited: false,
        }
    }

    #[test]
    fn figures_beyond_three_sigmas_are_unexplained() {
        let errors = [0.05, -0.04, 0.05, -0.05, 0.3].map(|error| PerLatency {
            ttft: Some(error),
            tpot: None,
        });
        let points: Vec<MeasuredPoint> = (2..7).map(point).collect();
        let [figure] = &unexplained(&points, &errors)[..] else {
            panic!("one of them is out of place");
        };
        assert_eq!((figure.point.line, figure.latency), (6, LatencyKind::Ttft));
        assert!((figure.sigmas - 0.3 / (1.4826 * 0.05)).abs() < 1e-12);
        // Errors that no measurement could tell are all explained.
        let small = [0.001, 0.001, 0.02].map(|error| PerLatency {
            ttft: Some(error),
            tpot: None,
        });
        assert_eq!(unexplained(&points[..3], &small), []);
    }

    #[test]
    fn residuals_are_logarithms_in_units_of_noise() {
        let errors = PerLatency {
            ttft: Some(1.0),
            tpot: Some(-0.5),
        };
        assert!((residual(&errors, LatencyKind::Ttft) - 2.0_f64.ln() / 0.025).abs() < 1e-12);
        assert!((residual(&errors, LatencyKind::Tpot) + 2.0_f64.ln() / 0.01).abs() < 1e-12);
    }
}
