//! How long an engine step takes.

mod capacity;
mod error;
mod model;
mod polynomial;
mod precision;
mod table_file;

pub use capacity::estimate_kv_tokens;
pub use error::TimingError;
pub use model::{Price, StepShape, TimingModel, TimingProvider};
pub use polynomial::PolynomialTiming;
pub use precision::{AttentionDtype, GemmDtype};
pub use table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, PrefillAttentionSlice, TABLE_UNIT, TableFile, TableSlice,
};
