//! Calibration: the constants of an engine that bring simulations closest to measured points.
//!
//! A [`Calibrator`] fits a few constants of a [`Calibration`](dynosim_spec::Calibration) record, says what that
//! explains and what not, and checks it on points that were not fitted.

mod calibrator;
mod error;
mod factors;
mod normal_equations;
mod robust_fit;
mod text;

pub use calibrator::{CalibrationFit, Calibrator, FittedConstant, UnexplainedFigure};
pub use error::CalibrationError;
