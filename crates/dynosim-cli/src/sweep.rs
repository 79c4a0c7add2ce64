//! A search over deployments.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use dynosim::spec::{Checked, ReplayOptimizeSpec};
use dynosim::sweep::{Comparison, Mode, OptimizationResult, Record, Sweep, SweepError, TrialStore, write_csv};
use dynosim::{Error, StepTimes, summary_with_step_times, sweep_scenario, sweep_warnings, timing_provider};

use crate::args::{ModeArg, SweepArgs};
use crate::error::{CliError, chain};
use crate::output;
use crate::progress::Progress;
use crate::spec;

/// Rows of printed tables.
const ROWS: usize = 10;

/// What is asked for, and what is to be said about it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) spec: ReplayOptimizeSpec,
    warnings: Vec<String>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    /// Somebody asked to stop; what was shown and written is the result so far.
    Interrupted,
}

/// What a sweep takes from others while it runs, besides its spec.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// What is known of simulations, and is to be kept of them.
    pub(crate) trials: Option<&'a dyn TrialStore>,
    /// Whether to stop.
    pub(crate) stop: &'a AtomicBool,
}

/// Reads a spec file.
pub(crate) fn read(args: &SweepArgs) -> Result<Asked, CliError> {
    let Checked {
        value: mut spec,
        mut warnings,
    } = spec::read(&args.spec, ReplayOptimizeSpec::from_json)?;
    spec::check_trace(&spec.workload).map_err(|error| error.about(&spec::name(&args.spec)))?;
    warnings.extend(spec::perfdata_warning(&args.tables, &spec.timing));
    spec.max_parallel_evals = args.max_parallel_evals.or(spec.max_parallel_evals);
    Ok(Asked { spec, warnings })
}

/// Searches what is asked for, and shows and writes what is found.
pub(crate) fn search(
    args: &SweepArgs,
    folder: Option<&Path>,
    asked: &Asked,
    surroundings: Surroundings<'_>,
) -> Result<Ending, CliError> {
    let found = with_sweep(args, asked, surroundings, |sweep| {
        Ok(match args.mode {
            ModeArg::Disagg => Findings::Search(Box::new(sweep.optimize_dense_disagg()?)),
            ModeArg::Agg => Findings::Search(Box::new(sweep.optimize_dense_agg()?)),
            ModeArg::Compare => Findings::Comparison(Box::new(sweep.compare_agg_and_disagg()?)),
        })
    });
    let findings = match found? {
        Err(SweepError::Stopped) => return Ok(Ending::Interrupted),
        findings => findings.map_err(Error::from)?,
    };
    let ending = findings.ending();
    if ending == Ending::Interrupted && findings.visited() == 0 {
        return Ok(ending);
    }

    findings.tell_beside_the_result();
    let written = match folder {
        Some(folder) => findings.write(folder),
        None => Ok(()),
    };
    // If the files cannot be written, at least what is printed is not lost.
    let printed = output::print(&findings.text(&step_times(args, &asked.spec)));
    written?;
    match printed {
        // Whoever stops reading has the files.
        Err(CliError::OutputClosed) if folder.is_some() => {}
        printed => printed?,
    }
    Ok(ending)
}

/// Sets up the sweep that is asked for, and lets it do something.
///
/// # Errors
/// If it cannot be set up; what comes of it is the value.
pub(crate) fn with_sweep<T>(
    args: &SweepArgs,
    asked: &Asked,
    surroundings: Surroundings<'_>,
    act: impl FnOnce(&Sweep<'_>) -> Result<T, SweepError>,
) -> Result<Result<T, SweepError>, CliError> {
    let spec = &asked.spec;
    let modes = modes(args.mode);
    let scenario = sweep_scenario(spec, modes);
    let scenario = scenario.map_err(|error| spec::with_trace_place(error.into(), &spec.workload))?;
    let provider = timing_provider(&spec.timing, &spec.engine, args.tables.perfdata.as_deref());
    let mut warnings = asked.warnings.clone();
    warnings.extend(sweep_warnings(spec, modes, &step_times(args, spec)));
    let sweep = Sweep::new(spec, scenario, provider.as_ref()).map_err(Error::from)?;
    let progress = Progress::every(args.progress);
    let show = |done, planned| progress.show(done, planned);
    let mut sweep = sweep
        .with_warnings(warnings)
        .with_progress(&show)
        .with_stop(surroundings.stop);
    if let Some(trials) = surroundings.trials {
        sweep = sweep.with_trials(trials);
    }
    let outcome = act(&sweep);
    drop(sweep);
    progress.end();
    Ok(outcome)
}

/// The kinds of deployments that are searched.
pub(crate) const fn modes(mode: ModeArg) -> &'static [Mode] {
    match mode {
        ModeArg::Disagg => &[Mode::Disagg],
        ModeArg::Agg => &[Mode::Agg],
        ModeArg::Compare => &[Mode::Agg, Mode::Disagg],
    }
}

fn step_times(args: &SweepArgs, spec: &ReplayOptimizeSpec) -> StepTimes {
    let perfdata = args.tables.perfdata.as_deref();
    StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, perfdata)
}

enum Findings {
    Search(Box<OptimizationResult>),
    Comparison(Box<Comparison>),
}

impl Findings {
    fn text(&self, step_times: &StepTimes) -> String {
        match self {
            Self::Search(result) => summary_with_step_times(result, ROWS, step_times),
            Self::Comparison(comparison) => comparison_text(comparison, step_times),
        }
    }

    fn ending(&self) -> Ending {
        if self.results().iter().all(|result| result.certificate.finished) {
            Ending::Finished
        } else {
            Ending::Interrupted
        }
    }

    /// States that have a record.
    fn visited(&self) -> usize {
        self.results().iter().map(|result| result.evaluated.len()).sum()
    }

    fn results(&self) -> Vec<&OptimizationResult> {
        match self {
            Self::Search(result) => vec![result],
            Self::Comparison(comparison) => {
                let sides = [&comparison.agg, &comparison.disagg];
                sides.into_iter().flatten().collect()
            }
        }
    }

    /// Warnings, and how long it took on this host.
    fn tell_beside_the_result(&self) {
        let results = self.results();
        let mut told: Vec<&String> = Vec::new();
        for warning in results.iter().flat_map(|result| &result.warnings) {
            if !told.contains(&warning) {
                told.push(warning);
                output::note(&format!("warning: {warning}"));
            }
        }
        let simulations: usize = results.iter().map(|result| result.simulations).sum();
        let seconds: f64 = results.iter().map(|result| result.host_time.as_secs_f64()).sum();
        output::note(&format!("{simulations} simulations took {seconds:.2} s on this host"));
    }

    fn write(&self, folder: &Path) -> Result<(), CliError> {
        let document = match self {
            Self::Search(result) => {
                write_tables(folder, result)?;
                result.to_json()
            }
            Self::Comparison(comparison) => {
                for (name, side) in [("agg", &comparison.agg), ("disagg", &comparison.disagg)] {
                    if let Ok(result) = side {
                        let folder = folder.join(name);
                        output::make_folder(&folder)?;
                        write_tables(&folder, result)?;
                        output::write(&folder.join("result.json"), &result.to_json().map_err(Error::from)?)?;
                    }
                }
                comparison.to_json()
            }
        };
        output::write(&folder.join("result.json"), &document.map_err(Error::from)?)
    }
}

fn write_tables(folder: &Path, result: &OptimizationResult) -> Result<(), CliError> {
    for (name, records) in [("evaluated.csv", &result.evaluated), ("feasible.csv", &result.feasible)] {
        output::write_table(&folder.join(name), &table(&result.modes, records)?)?;
    }
    Ok(())
}

fn table(modes: &[Mode], records: &[Record]) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    write_csv(modes, records, &mut bytes).map_err(Error::from)?;
    String::from_utf8(bytes).map_err(|error| CliError::Failure(format!("a table is not text: {error}")))
}

fn comparison_text(comparison: &Comparison, step_times: &StepTimes) -> String {
    let side = |title: &str, side: &Result<OptimizationResult, SweepError>| match side {
        Ok(result) => format!("{title}\n\n{}\n", summary_with_step_times(result, ROWS, step_times)),
        Err(error) => format!("{title}\n\nNot searched: {}\n\n", chain(error)),
    };
    let chosen = &comparison.chosen_best;
    let verdict = match &chosen.infeasible_reason {
        None => format!("Chosen: {}, {}", comparison.chosen_mode, chosen.state),
        Some(reason) => format!(
            "No state is feasible; the closest is {}, {}: {reason}",
            comparison.chosen_mode, chosen.state
        ),
    };
    let aggregated = side("== Aggregated ==", &comparison.agg);
    let disaggregated = side("== Disaggregated ==", &comparison.disagg);
    format!("{aggregated}{disaggregated}{verdict}\n")
}
