//! The dynosim command.
//!
//! A thin shell around the library: it reads arguments and files, calls `dynosim`, and prints.
//!
//! | module | subject |
//! |---|---|
//! | `args` | the command line |
//! | `spec` | reading spec files |
//! | `run`, `report_table` | one simulation and how its outcome is shown |
//! | `sweep`, `progress_bar` | a search, its files and its progress |
//! | `validate` | simulations compared with measurements |
//! | `calibrate`, `date` | constants fitted to measurements, and the day on which that is done |
//! | `export` | a deployment as files for real engines |
//! | `timing` | step times and KV capacities for a file of points |
//! | `names` | what is bundled |
//! | `output` | everything that is printed or written |
//! | `error` | messages and exit codes |

mod args;
mod calibrate;
mod date;
mod error;
mod export;
mod names;
mod output;
mod progress_bar;
mod report_table;
mod run;
mod spec;
mod sweep;
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
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Export(args) => export::export(&args),
        Command::Timing(args) => timing::timing(&args),
        Command::Models => names::models(),
        Command::Systems => names::systems(),
    }
}
