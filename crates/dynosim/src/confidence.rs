//! How sure the answer of a sweep is: its best candidates simulated again, over variations of the workload and
//! under other loads.
//!
//! An [`Assessment`] answers three questions about candidates that a sweep has ranked, best first:
//!
//! - **Would chance order them otherwise?** [`Repetitions`]: every candidate serves the same variations of the
//!   workload, so that what chance does to all of them cancels in their differences.
//! - **Would another load?** [`LoadSensitivity`]: the same under a share and under multiples of the load, the load up
//!   to which bounds are kept, and the loads at which another candidate is better.
//! - **Would the machine?** [`ModelError`]: by how much measurements of comparable deployments differed from
//!   simulations, and which differences between candidates that leaves open.
//!
//! What it does not say: repetitions vary a given workload, not the traffic of other days, and intervals hold for their
//! mean in the simulation.
//!
//! ```
//! use dynosim::confidence::{Assessment, ConfidenceOptions};
//! use dynosim::spec::ReplayOptimizeSpec;
//! use dynosim::sweep::Mode;
//!
//! let spec = ReplayOptimizeSpec::from_json(
//!     r#"{
//!         "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
//!         "hardware": { "system": "h200_sxm", "totalGpus": 4 },
//!         "workload": { "isl": 2000, "osl": 20, "requestCount": 60, "requestRate": 8 },
//!         "sla": { "p95Ttft": 1000 }
//!     }"#,
//! )?
//! .value;
//! let result = dynosim::sweep(&spec, Mode::Agg)?;
//! let best: Vec<_> = result.feasible.iter().take(2).map(|record| record.state).collect();
//! let provider = dynosim::timing_provider(&spec.timing, &spec.engine, None);
//! let options = ConfidenceOptions {
//!     load_factors: vec![1.0, 2.0],
//!     ..ConfidenceOptions::default()
//! };
//! let confidence = Assessment::new(&spec, provider.as_ref(), &best, options)?.run()?;
//! println!("{}", confidence.text());
//! # assert_eq!(confidence.repetitions.candidates.len(), 2);
//! # Ok::<(), dynosim::Error>(())
//! ```

mod assessment;
mod error;
mod load;
mod load_sensitivity;
mod loads;
mod model_error;
mod narrowing;
mod repetitions;
mod simulations;
mod spread;
mod student;
mod text;
mod variation;

pub use assessment::{Assessment, Confidence, ConfidenceOptions};
pub use error::ConfidenceError;
pub use load::LoadQuantity;
pub use load_sensitivity::{CandidateLoads, Knee, LoadSensitivity, WinnerEdge};
pub use loads::FiguresAtLoad;
pub use model_error::ModelError;
pub use repetitions::{CandidateRepetitions, Pair, Repetitions};
pub use spread::Spread;
pub use variation::Variation;
