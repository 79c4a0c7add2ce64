//! How right simulations are: measured points, the same points simulated, and what comes of the comparison.
//!
//! ```
//! use dynosim::spec::MeasuredSetup;
//! use dynosim::validation::{MeasuredPoints, Validator};
//!
//! let setup = MeasuredSetup::from_json(
//!     r#"{
//!         "engine": { "model": "Qwen/Qwen3-8B", "backend": "vllm" },
//!         "hardware": { "system": "h200_sxm" }
//!     }"#,
//! )?
//! .value;
//! let csv = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms\n1,1000,50,4,80,6.5\n1,1000,50,8,120,7.1\n";
//! let measured = MeasuredPoints::read(&[("points.csv", csv)], &setup, None)?;
//! let validation = Validator::new(&setup).validate(measured)?;
//! assert_eq!(validation.points.len(), 2);
//! println!("{}", validation.text());
//! # Ok::<(), dynosim::Error>(())
//! ```

mod bench_results;
mod choices;
mod curves;
mod error_summary;
mod latencies;
mod measured;
mod measured_csv;
mod measured_error;
mod plot;
mod points_csv;
mod simulated;
mod text;
mod validator;

pub use choices::{Choice, ChoiceCase, Choices};
pub use curves::{Curve, CurvePoint, RelativeCurve};
pub use error_summary::{ErrorGroup, ErrorSummary, GroupErrors};
pub use latencies::{LatencyKind, PerLatency};
pub use measured::{MeasuredPoint, MeasuredPoints};
pub use measured_error::MeasuredError;
pub use simulated::{SeedMeans, SimulatedMean, SimulatedPoint};
pub(crate) use simulated::{Simulator, simulate};
pub(crate) use text::{summary_row, summary_titles};
pub use validator::{ValidatedPoint, Validation, Validator};
