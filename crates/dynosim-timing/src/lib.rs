//! How long an engine step takes.

mod capacity;
mod error;
mod model;
mod polynomial;

pub use capacity::estimate_kv_tokens;
pub use error::TimingError;
pub use model::{Price, StepShape, TimingModel, TimingProvider};
pub use polynomial::PolynomialTiming;
