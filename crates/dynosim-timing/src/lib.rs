//! How long an engine step takes.

mod all_reduce;
mod attention;
mod capacity;
mod cubic_patch;
mod dense_model;
mod engine_tables;
mod error;
mod gemm;
mod grid;
mod model;
mod operators;
mod perfdata;
mod plane;
mod polynomial;
mod precision;
mod reading;
mod roofline;
mod table;
mod table_file;
mod work;

pub use capacity::estimate_kv_tokens;
pub use error::TimingError;
pub use model::{Price, StepShape, TimingModel, TimingProvider};
pub use operators::OperatorCost;
pub use polynomial::PolynomialTiming;
pub use precision::{AttentionDtype, GemmDtype};
pub use roofline::{RooflineModel, RooflineTiming};
pub use table::{TableModel, TableTiming};
pub use table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, PrefillAttentionSlice, TABLE_UNIT, TableFile, TableSlice,
};
