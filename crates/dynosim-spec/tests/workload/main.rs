//! Workloads through the public interface.

mod agentic;
mod lengths;
mod mooncake;
mod mooncake_errors;
mod public_traces;
mod sample_trace;
mod support;
mod synthetic;
mod synthetic_errors;
mod trace_files;
