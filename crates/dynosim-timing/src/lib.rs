//! How long an engine step takes, and how much KV cache fits on a GPU.
//!
//! A [`TimingProvider`] is bound to a deployment once (model, GPU, parallel shape, engine), which may
//! fail; the [`TimingModel`] it gives prices any step, which may not. There are three providers:
//!
//! | provider | rests on | fits |
//! |---|---|---|
//! | [`TableTiming`] | measured kernel latencies, built in or from a folder | H200 SXM with vLLM 0.14.0 or 0.19.0, SGLang 0.5.6.post2 or 0.5.10; scaled: any known GPU |
//! | [`RooflineTiming`] | peak rates of the GPU, calibrated on those measurements | any GPU |
//! | [`PolynomialTiming`] | two fixed quadratics | no particular model or GPU |
//!
//! A closure is a provider too. [`estimate_kv_tokens`] says how many tokens of KV cache a deployment has room
//! for. Every [`Price`] says how much of it rests on extrapolation.
//!
//! What the crate is not: it does not simulate. It knows nothing of requests, queues, schedulers or routers, and steps with
//! the same sums cost the same. It prices decoder-only transformers with grouped-query attention: dense ones under
//! tensor parallelism, and mixtures of experts under tensor, expert and attention data parallelism. Latent attention and
//! pipeline parallelism are not covered.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `model` | the two traits, the step and its price |
//! | `terms` | what a price is made of |
//! | `decode_inputs` | what the price of a decode step depends on |
//! | `polynomial`, `roofline`, `table` | the providers |
//! | `operators`, `dense_model` | the operators of a pass, written once for roofline and tables, and their sums |
//! | `fused_model`, `engine_kernels`, `graph_sizes` | the same in an engine that computes a step in one pass, with what its calibration adds |
//! | `precision`, `work` | number formats of a deployment; what kernels compute and move |
//! | `table_file`, `perfdata`, `engine_tables` | the tables' schema, where they are, and their cache |
//! | `soundness`, `repair`, `engine_version` | figures that cannot be true, what replaces them, and the order of versions |
//! | `scaling` | measurements of one GPU, scaled to another |
//! | `decode_rows` | what is prepared once per batch size |
//! | `gemm`, `prefill_attention`, `decode_attention`, `head_planes`, `all_reduce`, `experts` | what is read off each table |
//! | `layer_mix` | attention where some layers have a sliding window |
//! | `grid`, `plane`, `cubic_patch`, `reading` | the numerics of reading between measured points |
//! | `axis`, `curve`, `surface` | the same for what is read over and over |
//! | `capacity` | KV tokens that fit |
//!
//! # Example
//!
//! A timing model of one's own needs two methods:
//!
//! ```
//! use dynosim_timing::{Price, StepShape, TimingModel};
//!
//! /// A millisecond per hundred prompt tokens, and ten per decode step.
//! #[derive(Debug)]
//! struct Measured;
//!
//! impl TimingModel for Measured {
//!     fn prefill(&self, step: &StepShape) -> Price {
//!         Price::known((step.prefill_tokens - step.prefill_prefix_tokens) as f64 / 100.0)
//!     }
//!
//!     fn decode(&self, _step: &StepShape) -> Price {
//!         Price::known(10.0)
//!     }
//! }
//!
//! // Two prompts of 1000 tokens in all, 400 of which are cached.
//! let price = Measured.prefill(&StepShape::prefill(2, 1000, 400));
//! assert_eq!(price, Price::known(6.0));
//! ```

mod all_reduce;
mod axis;
mod capacity;
mod cubic_patch;
mod curve;
mod decode_attention;
mod decode_inputs;
mod decode_rows;
mod dense_model;
mod engine_kernels;
mod engine_tables;
mod engine_version;
mod error;
mod experts;
mod fused_model;
mod gemm;
mod graph_sizes;
mod grid;
#[cfg(test)]
mod grid_twin;
mod head_planes;
mod layer_mix;
mod model;
mod operators;
mod perfdata;
mod plane;
mod polynomial;
mod precision;
mod prefill_attention;
mod reading;
mod repair;
mod roofline;
mod scaling;
mod soundness;
mod surface;
mod table;
mod table_file;
mod terms;
mod work;

pub use capacity::estimate_kv_tokens;
pub use decode_inputs::{DecodeInputs, check_decode_inputs};
pub use error::TimingError;
pub use model::{Price, PromptChunk, StepShape, TimingModel, TimingProvider};
pub use operators::OperatorCost;
pub use polynomial::PolynomialTiming;
pub use precision::{AttentionDtype, ExpertDtype, GemmDtype};
pub use repair::{Remedy, TableRepair};
pub use roofline::{RooflineModel, RooflineTiming};
pub use soundness::{Resource, SliceFlaw};
pub use table::{TableModel, TableTiming};
pub use table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, MoeSlice, NcclOperation, NcclSlice, PrefillAttentionSlice,
    TABLE_UNIT, TableFile, TableSlice,
};
pub use terms::{PriceTerm, StepPart};
