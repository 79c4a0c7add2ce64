//! A search over deployments.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dynosim::answer::{Answer, AnswerOptions, Answering, comparison_json};
use dynosim::inputs::Inputs;
use dynosim::spec::{Checked, ReplayOptimizeSpec};
use dynosim::sweep::{
    Comparison, Hooks, MemoryTrials, Mode, OptimizationResult, Progress as ShowProgress, Sweep, SweepError, Trial,
    TrialStore,
};
use dynosim::timing::TimingProvider;
use dynosim::{Error, Scenario, StepTimes, sweep_scenario, sweep_warnings, timing_provider};

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
    let memory = MemoryTrials::default();
    let trials: &dyn TrialStore = surroundings.trials.unwrap_or(&memory);
    let surroundings = Surroundings {
        trials: Some(trials),
        ..surroundings
    };
    let explain = (args.answer.explain || folder.is_some()) && !args.answer.quick;
    if !explain {
        for (flag, value) in [("--top", args.answer.top), ("--repeats", args.answer.repeats)] {
            if let Some(value) = value {
                output::note(&format!(
                    "warning: {flag}: {value} has no effect without --explain or --out"
                ));
            }
        }
    }
    let found = with_sweep(args, asked, surroundings, |bench| {
        let found = find(args.mode, bench.sweep)?;
        let neighbours = Overlay {
            known: trials,
            new: MemoryTrials::default(),
        };
        let answers = Answers {
            bench,
            args,
            asked,
            trials: &neighbours,
            stop: surroundings.stop,
            explain,
            names_inputs: folder.is_some(),
        };
        answers.of(found)
    });
    let findings = match found? {
        Err(Error::Sweep(SweepError::Stopped)) => return Ok(Ending::Interrupted),
        findings => findings?,
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
    let printed = output::print(&findings.text());
    written?;
    match printed {
        // Whoever stops reading has the files.
        Err(CliError::OutputClosed) if folder.is_some() => {}
        printed => printed?,
    }
    Ok(ending)
}

/// Simulations of the sweep, and those of neighbouring budgets, which are made anew when the sweep is resumed.
struct Overlay<'a> {
    known: &'a dyn TrialStore,
    new: MemoryTrials,
}

impl TrialStore for Overlay<'_> {
    fn find(&self, key: &str) -> Option<Trial> {
        self.new.find(key).or_else(|| self.known.find(key))
    }

    fn keep(&self, key: &str, trial: &Trial) {
        self.new.keep(key, trial);
    }
}

/// A sweep, and what it was made of.
pub(crate) struct Bench<'b, 'a> {
    pub(crate) sweep: &'b Sweep<'a>,
    scenario: &'b Scenario,
    provider: &'b dyn TimingProvider,
    show: ShowProgress<'b>,
}

/// Sets up the sweep that is asked for, and lets it do something.
///
/// # Errors
/// If it cannot be set up; what comes of it is the value.
pub(crate) fn with_sweep<T, E>(
    args: &SweepArgs,
    asked: &Asked,
    surroundings: Surroundings<'_>,
    act: impl FnOnce(&Bench<'_, '_>) -> Result<T, E>,
) -> Result<Result<T, E>, CliError> {
    let spec = &asked.spec;
    let modes = modes(args.mode);
    let scenario = sweep_scenario(spec, modes);
    let scenario = scenario.map_err(|error| spec::with_trace_place(error.into(), &spec.workload))?;
    let provider = timing_provider(&spec.timing, &spec.engine, args.tables.perfdata.as_deref());
    let mut warnings = asked.warnings.clone();
    warnings.extend(sweep_warnings(spec, modes, &step_times(args, spec)));
    let sweep = Sweep::new(spec, scenario.clone(), provider.as_ref()).map_err(Error::from)?;
    let progress = Progress::every(args.progress);
    let show = |done, planned| progress.show(done, planned);
    let hooks = Hooks {
        trials: surroundings.trials,
        progress: Some(&show),
        stop: Some(surroundings.stop),
    };
    let sweep = sweep.with_warnings(warnings).with_hooks(hooks);
    let outcome = act(&Bench {
        sweep: &sweep,
        scenario: &scenario,
        provider: provider.as_ref(),
        show: &show,
    });
    drop(sweep);
    progress.end();
    Ok(outcome)
}

/// What a search comes to, before anybody asks why.
enum Found {
    Search(Box<OptimizationResult>),
    Comparison(Box<Comparison>),
}

fn find(mode: ModeArg, sweep: &Sweep<'_>) -> Result<Found, SweepError> {
    Ok(match mode {
        ModeArg::Disagg | ModeArg::Agg | ModeArg::All => Found::Search(Box::new(sweep.optimize(modes(mode))?)),
        ModeArg::Compare => Found::Comparison(Box::new(sweep.compare_agg_and_disagg()?)),
    })
}

/// Makes answers of results.
struct Answers<'x, 'b, 'a> {
    bench: &'x Bench<'b, 'a>,
    args: &'x SweepArgs,
    asked: &'x Asked,
    trials: &'x dyn TrialStore,
    stop: &'x AtomicBool,
    explain: bool,
    /// Whether documents are written, which name what they rest on; reading all of it to print a table would be a waste.
    names_inputs: bool,
}

impl Answers<'_, '_, '_> {
    fn of(&self, found: Found) -> Result<Findings, Error> {
        Ok(match found {
            Found::Search(result) => Findings::Search(Box::new(self.answer(*result, self.args.mode.name())?)),
            Found::Comparison(comparison) => {
                let side = |side: &Result<OptimizationResult, SweepError>, mode: Mode| {
                    let result = side.as_ref().ok().cloned();
                    result.map(|result| self.answer(result, mode.name())).transpose()
                };
                let agg = side(&comparison.agg, Mode::Agg)?;
                let disagg = side(&comparison.disagg, Mode::Disagg)?;
                let is_whole = [&agg, &disagg].into_iter().flatten().all(Answer::is_whole);
                let inputs = self.inputs(self.args.mode.name())?;
                Findings::Comparison(Box::new(Compared {
                    document: comparison_json(&comparison, is_whole, inputs.as_ref())?,
                    comparison: *comparison,
                    agg,
                    disagg,
                }))
            }
        })
    }

    fn inputs(&self, mode: &str) -> Result<Option<Inputs>, Error> {
        let inputs = || Inputs::of_sweep(&self.asked.spec, mode, self.args.tables.perfdata.as_deref());
        self.names_inputs.then(inputs).transpose()
    }

    fn answer(&self, result: OptimizationResult, mode: &str) -> Result<Answer, Error> {
        let Bench {
            scenario,
            provider,
            show,
            ..
        } = *self.bench;
        let defaults = AnswerOptions::default();
        let options = AnswerOptions {
            explain: self.explain,
            top: self.args.answer.top.map_or(defaults.top, |top| top as usize),
            repeats: self.args.answer.repeats.unwrap_or(defaults.repeats),
            ..defaults
        };
        let mut answering = Answering::new(result, scenario, provider)
            .with_options(options)
            .with_hooks(Hooks {
                trials: Some(self.trials),
                progress: Some(show),
                stop: Some(self.stop),
            });
        if let Some(inputs) = self.inputs(mode)? {
            answering = answering.with_inputs(inputs);
        }
        if self.args.tables.perfdata.is_some() {
            answering = answering.with_step_times(step_times(self.args, &self.asked.spec));
        }
        answering.answer()
    }
}

/// The kinds of deployments that are searched.
pub(crate) const fn modes(mode: ModeArg) -> &'static [Mode] {
    match mode {
        ModeArg::Disagg => &[Mode::Disagg],
        ModeArg::Agg => &[Mode::Agg],
        ModeArg::All | ModeArg::Compare => &[Mode::Agg, Mode::Disagg],
    }
}

fn step_times(args: &SweepArgs, spec: &ReplayOptimizeSpec) -> StepTimes {
    let perfdata = args.tables.perfdata.as_deref();
    StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, perfdata)
}

/// What is shown and written.
enum Findings {
    Search(Box<Answer>),
    Comparison(Box<Compared>),
}

/// Both kinds of deployments, one beside the other.
struct Compared {
    comparison: Comparison,
    agg: Option<Answer>,
    disagg: Option<Answer>,
    /// Both in one document.
    document: String,
}

impl Findings {
    fn text(&self) -> String {
        match self {
            Self::Search(answer) => answer.text(ROWS),
            Self::Comparison(compared) => compared.text(),
        }
    }

    fn ending(&self) -> Ending {
        if self.answers().iter().all(|answer| answer.is_whole()) {
            Ending::Finished
        } else {
            Ending::Interrupted
        }
    }

    /// States that have a record.
    fn visited(&self) -> usize {
        self.answers().iter().map(|answer| answer.result.evaluated.len()).sum()
    }

    fn answers(&self) -> Vec<&Answer> {
        match self {
            Self::Search(answer) => vec![answer],
            Self::Comparison(compared) => [&compared.agg, &compared.disagg].into_iter().flatten().collect(),
        }
    }

    /// Warnings, and how long it took on this host.
    fn tell_beside_the_result(&self) {
        let answers = self.answers();
        let mut told: Vec<&String> = Vec::new();
        for warning in answers.iter().flat_map(|answer| &answer.result.warnings) {
            if !told.contains(&warning) {
                told.push(warning);
                output::note(&format!("warning: {warning}"));
            }
        }
        let results = answers.iter().map(|answer| &answer.result);
        let simulations: usize = results.clone().map(|result| result.simulations).sum();
        let seconds: f64 = results.map(|result| result.host_time.as_secs_f64()).sum();
        output::note(&format!("{simulations} simulations took {seconds:.2} s on this host"));
    }

    fn write(&self, folder: &Path) -> Result<(), CliError> {
        match self {
            Self::Search(answer) => write_files(folder, answer),
            Self::Comparison(compared) => {
                for (name, side) in [("agg", &compared.agg), ("disagg", &compared.disagg)] {
                    if let Some(answer) = side {
                        let folder = folder.join(name);
                        output::make_folder(&folder)?;
                        write_files(&folder, answer)?;
                    }
                }
                output::write(&folder.join("result.json"), &compared.document)
            }
        }
    }
}

/// Files of an answer that are not always there.
const OPTIONAL_FILES: [&str; 3] = ["pruned.csv", "requests.csv", "report.html"];

/// Writes the files of an answer, and removes those of an earlier one that it does not have.
fn write_files(folder: &Path, answer: &Answer) -> Result<(), CliError> {
    let files = answer.files()?;
    for (name, content) in &files {
        let path = folder.join(name);
        if path.extension().is_some_and(|extension| extension == "csv") {
            output::write_table(&path, content)?;
        } else {
            output::write(&path, content)?;
        }
    }
    for stale in OPTIONAL_FILES {
        let path = folder.join(stale);
        if !files.iter().any(|(name, _)| name == stale) && path.exists() {
            let removed = fs::remove_file(&path);
            removed.map_err(|error| CliError::Failure(format!("cannot remove {}: {error}", path.display())))?;
        }
    }
    Ok(())
}

impl Compared {
    fn text(&self) -> String {
        let Comparison {
            agg,
            disagg,
            chosen_mode: mode,
            chosen_best: chosen,
        } = &self.comparison;
        let side = |title: &str, answer: &Option<Answer>, result: &Result<OptimizationResult, SweepError>| match (
            answer, result,
        ) {
            (Some(answer), _) => format!("{title}\n\n{}\n", answer.text(ROWS)),
            (None, Err(error)) => format!("{title}\n\nNot searched: {}\n\n", chain(error)),
            (None, Ok(_)) => String::new(),
        };
        let verdict = match &chosen.infeasible_reason {
            None => format!("Chosen: {mode}, {}", chosen.state),
            Some(reason) => format!(
                "No state is feasible; the closest is {mode}, {}: {reason}",
                chosen.state
            ),
        };
        let aggregated = side("== Aggregated ==", &self.agg, agg);
        let disaggregated = side("== Disaggregated ==", &self.disagg, disagg);
        format!("{aggregated}{disaggregated}{verdict}\n")
    }
}
