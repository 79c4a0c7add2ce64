//! DynoSim: which LLM-serving deployment to run, answered by simulation.
//!
//! - [`run()`] simulates one deployment as a [`RunSpec`] describes it. [`Run`] does the same with parts of your own:
//!   step times, routers, requests.
//! - [`sweep()`] searches for the best deployment within a GPU budget as a [`ReplayOptimizeSpec`] describes it, and
//!   [`compare`] searches both kinds of deployments. [`sweep_scenario`] prepares a [`sweep::Sweep`] with parts of your own.
//! - [`confidence`] says how sure the answer of a search is: over repetitions, under other loads, and by validation.
//! - [`validation`] compares simulations with measurements of real deployments.
//! - [`export`] hands a deployment off: manifest, launch commands, a benchmark of the same requests, expectations.
//! - [`summary()`] shows what a search found, [`StepTimes`] and [`kv_transfer`] say what results rest on.
//!
//! What the crate is not: it adds nothing to the others but the way from names to things (models, GPUs, timing
//! providers). Each can be used alone: [`timing`] to price steps of a GPU of your own, [`router`] to develop a router, [`core`]
//! to simulate without documents, [`spec`] for documents and traces. Each is a crate of its own, `dynosim-timing` and so on.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `run` | one simulation |
//! | `search` | sweeps |
//! | `scenario` | from the names in a spec to models, GPUs, requests and step times |
//! | `summary`, `question` | the result of a sweep as text, and what was asked for |
//! | `aligned_table` | tables of text |
//! | `step_times` | where step times come from, as text |
//! | [`inputs`] | what a result rests on, with digests |
//! | `overload` | whether requests arrived faster than they were served |
//! | [`answer`] | everything that one gets from a sweep, as text and as files |
//! | `requests_csv` | a line per request |
//! | [`explain`] | why candidates of a sweep do as they do |
//! | `html_report` | a result as one HTML file with charts, behind the feature `html` |
//! | [`calibrate`] | the constants of an engine that bring simulations closest to measured points |
//! | [`confidence`] | how sure the order of candidates is |
//! | [`export`] | a deployment as files for real engines |
//! | [`validation`] | measured points, the same points simulated, and what comes of the comparison |
//! | `error` | one error for everything |
//!
//! # Example
//!
//! ```
//! use dynosim::RunSpec;
//!
//! let spec = RunSpec::from_json(
//!     r#"{
//!         "engine": { "model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm" },
//!         "hardware": { "system": "h200_sxm" },
//!         "topology": { "workers": 2, "tp": 1 },
//!         "workload": { "isl": 2000, "osl": 50, "requestCount": 40, "concurrency": 8 }
//!     }"#,
//! )?
//! .value;
//! let report = dynosim::run(&spec)?.report;
//! assert_eq!(report.completed_requests, 40);
//! println!("{:.0} output tok/s, TTFT {:.0} ms", report.output_throughput_tok_s(), report.ttft.p95);
//! # Ok::<(), dynosim::Error>(())
//! ```

mod aligned_table;
pub mod answer;
pub mod calibrate;
pub mod confidence;
mod error;
mod error_bands;
pub mod explain;
pub mod export;
#[cfg(feature = "html")]
pub mod html_report;
pub mod inputs;
mod overload;
mod question;
mod requests_csv;
mod run;
mod scenario;
mod search;
mod step_times;
mod summary;
pub mod validation;

pub use dynosim_core as core;
pub use dynosim_router as router;
pub use dynosim_spec as spec;
pub use dynosim_sweep as sweep;
pub use dynosim_timing as timing;

pub use dynosim_core::{Outcome, Report, Scenario};
pub use dynosim_spec::{ReplayOptimizeSpec, RunSpec};

pub use error::Error;
pub use error_bands::ErrorBand;
pub use question::kv_transfer;
pub use requests_csv::write_requests_csv;
pub use run::{Run, run};
pub use scenario::{load_scenario, read_calibration, timing_provider};
pub use search::{compare, sweep, sweep_scenario, sweep_warnings};
pub use step_times::StepTimes;
pub use summary::{summary, summary_with_step_times};

/// The code in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
