//! `dynosim merge`: the shards of a sweep, put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use dynosim::sweep::{Trial, TrialStore};

use crate::args::{MergeArgs, SweepArgs};
use crate::error::CliError;
use crate::journal::{self, Contents, Header};
use crate::output;
use crate::shard::ShardArg;
use crate::stop;
use crate::sweep::{self, Ending, Surroundings};
use crate::sweep_job::{command, header};

/// Reads all shards of a sweep, and shows and writes what the sweep does.
pub(crate) fn merge(args: &MergeArgs) -> Result<(), CliError> {
    let asked = sweep::read(&args.sweep)?;
    let stop = stop::on_signals()?;
    let header = header(&args.sweep, &asked, None)?;
    let shards = read_shards(&args.shards, &header)?;
    check_all_there(&args.sweep, &shards)?;
    let count = shards.len();
    let merged = Merged {
        trials: merged_trials(shards)?,
        missing: AtomicUsize::new(0),
    };
    let out = args.sweep.out.as_deref();
    if let Some(folder) = out {
        output::make_folder(folder)?;
        journal::check_folder(folder)?;
    }
    output::note(&format!(
        "{} simulations are known from {count} shards",
        merged.trials.len()
    ));
    let surroundings = Surroundings {
        trials: Some(&merged),
        stop,
    };
    let ending = sweep::search(&args.sweep, out, &asked, surroundings)?;
    let missing = merged.missing.into_inner();
    if missing > 0 {
        output::note(&format!("{missing} simulations were in no shard and have been made"));
    }
    match ending {
        Ending::Finished => Ok(()),
        Ending::Interrupted => Err(CliError::Interrupted("interrupted; merge once more".to_owned())),
    }
}

/// The journal of a shard.
#[derive(Debug)]
struct ShardJournal {
    folder: PathBuf,
    contents: Contents,
}

fn read_shards(folders: &[PathBuf], expected: &Header) -> Result<BTreeMap<ShardArg, ShardJournal>, CliError> {
    let mut shards: BTreeMap<ShardArg, ShardJournal> = BTreeMap::new();
    for folder in folders {
        let path = folder.join(journal::FILE);
        let contents = Contents::read(&path)?;
        let shard = shard_of(&contents, expected, &path)?;
        let journal = ShardJournal {
            folder: folder.clone(),
            contents,
        };
        if let Some(first) = shards.keys().next().filter(|first| first.count != shard.count) {
            return Err(CliError::Input(format!(
                "{} is shard {shard}, but others are of {} shards; merge shards of one division",
                path.display(),
                first.count
            )));
        }
        if let Some(other) = shards.insert(shard, journal) {
            return Err(CliError::Input(format!(
                "{} and {} are both shard {shard}; name one of them",
                other.folder.display(),
                folder.display()
            )));
        }
    }
    Ok(shards)
}

fn shard_of(contents: &Contents, expected: &Header, path: &Path) -> Result<ShardArg, CliError> {
    let wrong = |what: &str| CliError::Input(format!("{} {what}", path.display()));
    let found = contents.header.as_ref();
    let found = found.ok_or_else(|| wrong("is empty; make the shard again with --resume in place of --out"))?;
    expected.is_of_the_same_sweep(found, path)?;
    let resume = "is of a whole sweep, not of a shard; go on with it by `dynosim sweep --resume`";
    found.shard.ok_or_else(|| wrong(resume))
}

/// Names every shard that is missing or not complete, with the command that makes it.
fn check_all_there(args: &SweepArgs, shards: &BTreeMap<ShardArg, ShardJournal>) -> Result<(), CliError> {
    let count = shards.keys().next().map_or(0, |shard| shard.count);
    let lacks = (1..=count).filter_map(|number| {
        let shard = ShardArg { count, number };
        match shards.get(&shard) {
            Some(journal) if journal.contents.is_complete => None,
            Some(journal) => {
                let options = format!("--resume {}", journal.folder.display());
                Some(format!("shard {shard} is not complete: {}", command(args, &options)))
            }
            None => {
                let options = format!("--shard {shard} --out shard-{number}");
                Some(format!("shard {shard} is missing: {}", command(args, &options)))
            }
        }
    });
    let lacks: Vec<String> = lacks.collect();
    if lacks.is_empty() {
        return Ok(());
    }
    Err(CliError::Input(lacks.join("\n       ")))
}

/// All simulations. Those of the descent are in every shard, and must have ended alike.
fn merged_trials(shards: BTreeMap<ShardArg, ShardJournal>) -> Result<BTreeMap<String, Trial>, CliError> {
    let mut trials: BTreeMap<String, Trial> = BTreeMap::new();
    for (shard, journal) in shards {
        for (key, trial) in journal.contents.trials {
            if trials.get(&key).is_some_and(|known| *known != trial) {
                return Err(CliError::Input(format!(
                    "shard {shard} in {} has another outcome of {key} than shards before it; make all shards with the \
                     same program",
                    journal.folder.display()
                )));
            }
            trials.insert(key, trial);
        }
    }
    Ok(trials)
}

/// Simulations of all shards.
#[derive(Debug)]
struct Merged {
    trials: BTreeMap<String, Trial>,
    /// How many were looked for in vain.
    missing: AtomicUsize,
}

impl TrialStore for Merged {
    fn find(&self, key: &str) -> Option<Trial> {
        self.trials.get(key).cloned()
    }

    fn keep(&self, _key: &str, _trial: &Trial) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }
}
