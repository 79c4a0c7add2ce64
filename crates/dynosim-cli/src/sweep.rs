//! A search over deployments.

use std::path::Path;

use dynosim::spec::{Checked, ReplayOptimizeSpec};
use dynosim::sweep::{Comparison, Mode, OptimizationResult, Record, Sweep, SweepError, write_csv};
use dynosim::{Error, StepTimes, summary_with_step_times, sweep_scenario, sweep_warnings, timing_provider};

use crate::args::{ModeArg, SweepArgs};
use crate::error::{CliError, chain};
use crate::output;
use crate::progress_bar::{progress_bar, show_progress};
use crate::spec;

/// Rows of printed tables.
const ROWS: usize = 10;

/// Searches what a spec file describes, and shows and writes what is found.
pub(crate) fn sweep(args: &SweepArgs) -> Result<(), CliError> {
    let Checked {
        value: mut spec,
        mut warnings,
    } = spec::read(&args.spec, ReplayOptimizeSpec::from_json)?;
    spec::check_trace(&spec.workload).map_err(|error| error.about(&spec::name(&args.spec)))?;
    warnings.extend(spec::perfdata_warning(&args.tables, &spec.timing));
    spec.max_parallel_evals = args.max_parallel_evals.or(spec.max_parallel_evals);
    if let Some(folder) = &args.out {
        // Before the work, so that a typing error does not cost it.
        output::make_folder(folder)?;
    }

    let modes: &[Mode] = match args.mode {
        ModeArg::Disagg => &[Mode::Disagg],
        ModeArg::Agg => &[Mode::Agg],
        ModeArg::Compare => &[Mode::Agg, Mode::Disagg],
    };
    let scenario = sweep_scenario(&spec, modes);
    let scenario = scenario.map_err(|error| spec::with_trace_place(error.into(), &spec.workload))?;
    let perfdata = args.tables.perfdata.as_deref();
    let provider = timing_provider(&spec.timing, &spec.engine, perfdata);
    let step_times = StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, perfdata);
    warnings.extend(sweep_warnings(&spec, modes, &step_times));
    let bar = progress_bar();
    let show = |done, planned| show_progress(&bar, done, planned);
    let sweep = Sweep::new(&spec, scenario, provider.as_ref()).map_err(Error::from)?;
    let sweep = sweep.with_warnings(warnings).with_progress(&show);
    let findings = match args.mode {
        ModeArg::Disagg => sweep
            .optimize_dense_disagg()
            .map(|result| Findings::Search(Box::new(result))),
        ModeArg::Agg => sweep
            .optimize_dense_agg()
            .map(|result| Findings::Search(Box::new(result))),
        ModeArg::Compare => sweep
            .compare_agg_and_disagg()
            .map(|comparison| Findings::Comparison(Box::new(comparison))),
    };
    bar.finish_and_clear();
    let findings = findings.map_err(Error::from)?;

    findings.tell_beside_the_result();
    let written = match &args.out {
        Some(folder) => findings.write(folder),
        None => Ok(()),
    };
    // If the files cannot be written, at least what is printed is not lost.
    output::print(&findings.text(&step_times))?;
    written
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

    /// Warnings, and how long it took on this host.
    fn tell_beside_the_result(&self) {
        let results: Vec<&OptimizationResult> = match self {
            Self::Search(result) => vec![result],
            Self::Comparison(comparison) => {
                let sides = [&comparison.agg, &comparison.disagg];
                sides.into_iter().flatten().collect()
            }
        };
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
        output::write(&folder.join(name), &table(&result.modes, records)?)?;
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
