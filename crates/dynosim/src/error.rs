//! One error for everything.

use std::io;
use std::path::PathBuf;

use dynosim_core::SimError;
use dynosim_spec::{SpecError, WorkloadError};
use dynosim_sweep::SweepError;
use dynosim_timing::TimingError;
use thiserror::Error;

use crate::calibrate::CalibrationError;
use crate::confidence::ConfidenceError;
use crate::validation::MeasuredError;

/// Whatever can go wrong between a spec and a report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The spec is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The workload cannot be made or read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Step times cannot be had.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The run cannot be set up or finished.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// A calibration cannot be read.
    #[error("timing.calibration: cannot read {}; give the path of a calibration record, or \"none\"", path.display())]
    CalibrationFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A calibration breaks its rules.
    #[error("calibration {}", path.display())]
    Calibration {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: SpecError,
    },
    /// A file that a result rests on cannot be read.
    #[error("cannot read {what} {}", path.display())]
    InputFile {
        /// What it is.
        what: String,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The sweep cannot be made.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Measured points cannot be read.
    #[error(transparent)]
    Measured(#[from] MeasuredError),
    /// Nothing can be fitted.
    #[error(transparent)]
    Fit(#[from] CalibrationError),
    /// It cannot be said how sure an answer is.
    #[error(transparent)]
    Confidence(#[from] ConfidenceError),
}
