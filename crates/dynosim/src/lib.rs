//! DynoSim: which LLM-serving deployment to run, answered by simulation.
//!
//! This crate only puts the others together. Each can be used alone: `dynosim-timing` to price
//! steps of a GPU of your own, `dynosim-router` to develop a router, `dynosim-core` to simulate.

mod error;
mod run;
mod scenario;
mod search;
mod summary;

pub use dynosim_core as core;
pub use dynosim_router as router;
pub use dynosim_spec as spec;
pub use dynosim_sweep as sweep;
pub use dynosim_timing as timing;

pub use dynosim_core::{Outcome, Report, Scenario};
pub use dynosim_spec::{ReplayOptimizeSpec, RunSpec};

pub use error::Error;
pub use run::{Run, run};
pub use scenario::{load_scenario, timing_provider};
pub use search::{compare, sweep, sweep_scenario};
pub use summary::summary;

/// The code in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
