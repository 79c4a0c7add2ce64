//! Values of workload fields that nothing sensible can be built from.
//!
//! Specs are checked as a whole when they are read; these checks guard workloads whose spec was
//! put together in code.

use std::fmt::Display;

use crate::workload_error::WorkloadError;

/// The error of a field with an impossible value.
pub(crate) fn impossible(field: &'static str, value: impl Display, expected: &'static str) -> WorkloadError {
    WorkloadError::Field {
        field,
        value: value.to_string(),
        expected,
    }
}

/// A count of at least 1.
pub(crate) fn count(field: &'static str, value: u32) -> Result<u32, WorkloadError> {
    match value {
        0 => Err(impossible(field, value, "at least 1")),
        _ => Ok(value),
    }
}

/// A share between 0 and 1.
pub(crate) fn share(field: &'static str, value: f64) -> Result<f64, WorkloadError> {
    match value {
        0.0..=1.0 => Ok(value),
        _ => Err(impossible(field, value, "from 0 to 1")),
    }
}

/// A share above 0.
pub(crate) fn share_above_zero(field: &'static str, value: f64) -> Result<f64, WorkloadError> {
    if value > 0.0 && value <= 1.0 {
        return Ok(value);
    }
    Err(impossible(field, value, "above 0 and at most 1"))
}

/// A finite number above 0.
pub(crate) fn positive(field: &'static str, value: f64) -> Result<f64, WorkloadError> {
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    Err(impossible(field, value, "a finite number above 0"))
}

/// A finite number of milliseconds, 0 or more.
pub(crate) fn milliseconds(field: &'static str, value: f64) -> Result<f64, WorkloadError> {
    if value >= 0.0 && value.is_finite() {
        return Ok(value);
    }
    Err(impossible(field, value, "a finite number of milliseconds from 0"))
}
