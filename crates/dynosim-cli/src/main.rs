//! The dynosim command.
//!
//! A thin shell around the library: it reads arguments and files, calls `dynosim`, and prints.
//!
//! | module | subject |
//! |---|---|
//! | `args` | the command line |
//! | `spec` | reading spec files |
//! | `run`, `report_table` | one simulation and how its outcome is shown |
//! | `sweep`, `progress` | a search, its files and how far it is |
//! | `sweep_job`, `journal`, `shard`, `merge`, `stop` | searches that are kept, resumed, stopped, made in parts and put together |
//! | `diff` | what differs between two results |
//! | `changes` | where two documents differ |
//! | `validate` | simulations compared with measurements |
//! | `calibrate`, `date` | constants fitted to measurements, and the day on which that is done |
//! | `export` | a deployment as files for real engines |
//! | `timing` | step times and KV capacities for a file of points |
//! | `names` | what is bundled |
//! | `output` | everything that is printed or written |
//! | `parquet_table` | a CSV table as a Parquet file, with the feature `parquet` |
//! | `error` | messages and exit codes |

mod args;
mod calibrate;
mod changes;
mod date;
mod diff;
mod error;
mod export;
mod journal;
mod merge;
mod names;
mod output;
#[cfg(feature = "parquet")]
mod parquet_table;
mod progress;
mod report_table;
mod run;
mod shard;
mod spec;
mod stop;
mod sweep;
mod sweep_job;
mod timing;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::error::CliError;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| error.exit());
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.tell(),
    }
}

fn dispatch(command: Command) -> Result<(), CliError> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Sweep(args) => sweep_job::sweep(&args.sweep, &args.part),
        Command::Merge(args) => merge::merge(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Export(args) => export::export(&args),
        Command::Timing(args) => timing::timing(&args),
        Command::Models => names::models(),
        Command::Systems => names::systems(),
    }
}
