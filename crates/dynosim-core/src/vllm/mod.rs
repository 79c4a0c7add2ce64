//! The vLLM-style engine: block-granular KV cache, running requests first, chunked prefill,
//! preemption by recomputation.

mod absorption;
mod emission;
mod engine;
mod run;
mod scheduling;
mod sequence;
mod steady;

pub(crate) use engine::VllmEngine;
