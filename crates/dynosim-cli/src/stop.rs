//! Ctrl-C and SIGTERM.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{CliError, INTERRUPTED};
use crate::output;

static STOP: AtomicBool = AtomicBool::new(false);

/// A flag that is true once somebody has asked to stop. The first signal sets it, so that simulations under way can end;
/// the second one ends the process at once.
///
/// # Errors
/// If signals cannot be caught.
pub(crate) fn on_signals() -> Result<&'static AtomicBool, CliError> {
    let handled = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(INTERRUPTED));
        }
        output::note("stopping after the simulations that are under way; once more stops at once");
    });
    handled.map_err(|error| CliError::Failure(format!("cannot catch Ctrl-C: {error}")))?;
    Ok(&STOP)
}
