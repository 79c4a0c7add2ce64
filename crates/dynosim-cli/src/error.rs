//! Messages and exit codes.

use std::error::Error as StdError;
use std::process::ExitCode;

use dynosim::Error;
use dynosim::core::SimError;
use dynosim::sweep::SweepError;
use dynosim::timing::TimingError;

use crate::output;

/// Exit code of what was interrupted, as shells have it for Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why the command ends early.
#[derive(Debug)]
pub(crate) enum CliError {
    /// What the user gave cannot be used; exit code 2.
    Input(String),
    /// What the user gave is fine, but it did not work out; exit code 1.
    Failure(String),
    /// What was compared is not the same, as has been shown; exit code 1.
    Differs,
    /// Somebody asked to stop; exit code 130.
    Interrupted(String),
    /// Nobody reads standard output any more, as behind `head`. That is no mistake.
    OutputClosed,
}

impl CliError {
    /// Bad input, with everything that is known about its causes.
    pub(crate) fn input(error: &dyn StdError) -> Self {
        Self::Input(chain(error))
    }

    /// The same error, its message beginning with the file it is about.
    pub(crate) fn about(self, file: &str) -> Self {
        match self {
            Self::Input(message) => Self::Input(format!("{file}: {message}")),
            Self::Failure(message) => Self::Failure(format!("{file}: {message}")),
            Self::Interrupted(message) => Self::Interrupted(message),
            Self::Differs => Self::Differs,
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Tells the user and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Self::Input(message) => {
                output::note(&format!("error: {message}"));
                ExitCode::from(2)
            }
            Self::Failure(message) => {
                output::note(&format!("error: {message}"));
                ExitCode::FAILURE
            }
            Self::Interrupted(message) => {
                output::note(message);
                ExitCode::from(INTERRUPTED)
            }
            Self::Differs => ExitCode::FAILURE,
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let message = chain(&error);
        let failed = match &error {
            Error::Simulation(error) => !matches!(error, SimError::Setup(_) | SimError::Timing(_)),
            Error::Timing(TimingError::Custom(_))
            | Error::Sweep(SweepError::Threads { .. } | SweepError::Csv(_) | SweepError::Json(_)) => true,
            _ => false,
        };
        if failed {
            Self::Failure(message)
        } else {
            Self::Input(message)
        }
    }
}

/// An error with its sources, leaving out those that a message before already contains.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Layer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|layer| layer as &dyn StdError)
        }
    }

    #[test]
    fn sources_are_told_once() {
        let cause = Layer("disk full", None);
        let quoting = Layer("write failed: disk full", Some(Box::new(cause)));
        let outer = Layer("cannot save", Some(Box::new(quoting)));
        assert_eq!(chain(&outer), "cannot save: write failed: disk full");
    }
}
