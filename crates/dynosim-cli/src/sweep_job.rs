//! `dynosim sweep`: a search that may take long, and so is kept, resumed, stopped or made in parts.

use std::path::Path;
use std::sync::atomic::Ordering;

use dynosim::Error;
use dynosim::inputs::Inputs;
use dynosim::spec::SearchStrategy;
use dynosim::sweep::{Mode, Sweep, SweepError};

use crate::args::{ModeArg, PartArgs, SweepArgs};
use crate::error::CliError;
use crate::journal::{self, Header, Journal};
use crate::output;
use crate::shard::ShardArg;
use crate::spec;
use crate::stop;
use crate::sweep::{self, Asked, Ending, Surroundings};

/// Searches what a spec file describes, or makes a part of the simulations; with a folder, so that it can be resumed.
pub(crate) fn sweep(args: &SweepArgs, part: &PartArgs) -> Result<(), CliError> {
    let asked = sweep::read(args)?;
    let stop = stop::on_signals()?;
    let Some(folder) = args.out.as_deref().or(part.resume.as_deref()) else {
        if part.shard.is_some() {
            let message = "--shard needs --out DIR, the folder that its journal is to be in";
            return Err(CliError::Input(message.to_owned()));
        }
        let surroundings = Surroundings { trials: None, stop };
        return match sweep::search(args, None, &asked, surroundings)? {
            Ending::Finished => Ok(()),
            Ending::Interrupted => Err(CliError::Interrupted(
                "interrupted; with --out DIR, it could be resumed".to_owned(),
            )),
        };
    };
    let mut header = header(args, &asked, part.shard)?;
    let journal = if part.resume.is_some() {
        let journal = Journal::resume(folder, &mut header, stop)?;
        output::note(&format!(
            "{} simulations are known from {}",
            journal.known(),
            folder.display()
        ));
        journal
    } else {
        // Before the work, so that a typing error does not cost it.
        output::make_folder(folder)?;
        Journal::create(folder, &header, stop)?
    };
    let job = Job {
        args,
        asked: &asked,
        folder,
        surroundings: Surroundings {
            trials: Some(&journal),
            stop,
        },
    };
    let done = match header.shard {
        Some(shard) => job.make_shard(shard, &journal),
        None => job.search(&journal),
    };
    // What cannot be begun leaves nothing behind that would have to be resumed.
    let is_refused = matches!(done, Err(CliError::Input(_))) && part.resume.is_none();
    if is_refused || (done.is_ok() && header.shard.is_none()) {
        journal.remove()?;
    }
    done
}

/// The first line of journals of this sweep.
pub(crate) fn header(args: &SweepArgs, asked: &Asked, shard: Option<ShardArg>) -> Result<Header, CliError> {
    let perfdata = args.tables.perfdata.as_deref();
    let (mode, spec) = (args.mode.name(), &asked.spec);
    let inputs = Inputs::of_sweep(spec, mode, perfdata);
    let inputs = inputs.map_err(|error| spec::with_trace_place(error.into(), &spec.workload))?;
    if shard.is_some() && spec.search.strategy != SearchStrategy::Exhaustive {
        return Err(Error::from(SweepError::ShardOfDescent).into());
    }
    Ok(Header::new(spec, inputs, mode, shard))
}

/// A command that goes on with a sweep or makes a part of it.
pub(crate) fn command(args: &SweepArgs, options: &str) -> String {
    let mut words = vec![format!("dynosim sweep {}", args.spec.display())];
    if args.mode != ModeArg::Disagg {
        words.push(format!("--mode {}", args.mode.name()));
    }
    if let Some(folder) = &args.tables.perfdata {
        words.push(format!("--perfdata {}", folder.display()));
    }
    words.push(options.to_owned());
    words.join(" ")
}

/// A sweep with a folder.
struct Job<'a> {
    args: &'a SweepArgs,
    asked: &'a Asked,
    folder: &'a Path,
    surroundings: Surroundings<'a>,
}

impl Job<'_> {
    fn search(&self, journal: &Journal<'_>) -> Result<(), CliError> {
        let ending = sweep::search(self.args, Some(self.folder), self.asked, self.surroundings);
        journal.check()?;
        match ending? {
            Ending::Finished => Ok(()),
            Ending::Interrupted => Err(self.interrupted()),
        }
    }

    fn make_shard(&self, shard: ShardArg, journal: &Journal<'_>) -> Result<(), CliError> {
        let place = self.folder.join(journal::FILE);
        if journal.is_complete() {
            return output::print(&format!("Shard {shard} is complete: {}\n", place.display()));
        }
        let mode = self.args.mode;
        let simulations = sweep::with_sweep(self.args, self.asked, self.surroundings, |bench| match mode {
            ModeArg::Compare => simulate(bench.sweep, sweep::modes(mode), shard),
            _ => bench.sweep.simulate_shard(sweep::modes(mode), shard.shard()),
        })?;
        journal.check()?;
        let simulations = simulations.map_err(Error::from)?;
        if self.surroundings.stop.load(Ordering::Relaxed) {
            return Err(self.interrupted());
        }
        journal.complete()?;
        output::print(&format!(
            "Shard {shard} is complete: {simulations} simulations in {}\nOnce all are: {}\n",
            place.display(),
            command(self.args, "SHARD_DIR... --out DIR").replacen("sweep", "merge", 1)
        ))
    }

    fn interrupted(&self) -> CliError {
        let options = format!("--resume {}", self.folder.display());
        CliError::Interrupted(format!("interrupted; go on with: {}", command(self.args, &options)))
    }
}

/// Makes the simulations of a part of every search of the sweep; their number. Kinds of deployments that cannot be searched
/// have none, unless that holds for all.
fn simulate(sweep: &Sweep<'_>, modes: &[Mode], shard: ShardArg) -> Result<usize, SweepError> {
    let mut simulations = None;
    let mut first_error = None;
    for &mode in modes {
        match sweep.simulate_shard(&[mode], shard.shard()) {
            Ok(made) => *simulations.get_or_insert(0) += made,
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    match (simulations, first_error) {
        (None, Some(error)) => Err(error),
        (simulations, _) => Ok(simulations.unwrap_or(0)),
    }
}
