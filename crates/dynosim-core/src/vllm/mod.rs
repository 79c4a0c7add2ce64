//! The vLLM-style engine: block-granular KV cache, running requests first, chunked prefill,
//! preemption by recomputation.

mod absorption;
mod ahead;
mod emission;
mod engine;
mod parts;
mod run;
mod scheduling;
mod sequence;
mod steady;
mod usage;

pub(crate) use engine::VllmEngine;
