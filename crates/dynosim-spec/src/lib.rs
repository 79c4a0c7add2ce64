//! What a simulated deployment consists of: units, identities, engines, models, GPUs, routers and workloads.
//!
//! This is the bottom layer. It reads and checks specs and traces and draws synthetic workloads.
//!
//! What the crate is not: it does not price, route or simulate anything, and it never asks the host for anything but
//! the files it is told to read and the number of cores.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `spec` | the JSON documents and their parts: [`RunSpec`], one simulation, [`ReplayOptimizeSpec`], a sweep, and [`MeasuredSetup`], what measured points have in common |
//! | `engine_args`, `engine` | [`EngineArgs`] as given, [`EngineConfig`] with every default filled in |
//! | `router` | [`RouterSettings`] |
//! | `model`, `gpu` | [`ModelSpec`] and [`GpuSpec`], found by name |
//! | `parallel_shape` | [`ParallelShape`]: the GPUs of a worker and how a model is spread over them |
//! | `deployment` | [`Deployment`]: model, GPU and engine settings of one pool |
//! | `calibration` | [`Calibration`], what an engine adds to the latencies of its kernels |
//! | `workload_spec` | [`WorkloadSpec`], a workload as declared |
//! | `load`, `synthetic`, `random`, `trace` | from there to requests: drawn, or read from a trace |
//! | `workload`, `prompt_interner`, `prompt_segments` | [`Workload`], every request of it, and what their prompts share |
//! | `workload_checks`, `workload_error` | what makes no workload, and [`WorkloadError`] |
//! | `units`, `ids` | simulated time, block sizes and identities |
//! | `reader`, `nearest`, `error` | strict reading that finds all mistakes at once, and [`SpecError`] |
//!
//! # Example
//!
//! Reading a document fills in every default and says what is wrong and what is asked for in vain:
//!
//! ```
//! use dynosim_spec::{RunSpec, WorkerRole};
//!
//! let text = r#"{
//!     "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "baseEngineArgs": {"block_size": 16}},
//!     "hardware": {"system": "h200_sxm"},
//!     "topology": {"workers": 4, "tp": 2},
//!     "workload": {"isl": 4000, "osl": 500, "requestCount": 100, "concurrency": 16, "arrivalSeed": 7}
//! }"#;
//! let read = RunSpec::from_json(text)?;
//! assert_eq!(read.value.engine.config(WorkerRole::Aggregated).max_num_seqs, Some(256));
//! assert_eq!(read.warnings, ["workload.arrivalSeed: 7 has no effect without requestRate"]);
//!
//! let error = RunSpec::from_json(&text.replace("\"isl\"", "\"islands\"")).expect_err("isl is missing");
//! assert!(error.to_string().contains("workload.isl: is missing"));
//! # Ok::<(), dynosim_spec::SpecError>(())
//! ```

mod calibration;
mod deployment;
mod engine;
mod engine_args;
mod error;
mod gpu;
mod ids;
mod load;
mod model;
mod nearest;
mod parallel_shape;
mod prompt_interner;
mod prompt_segments;
mod random;
mod reader;
mod router;
mod spec;
mod synthetic;
mod trace;
mod units;
mod workload;
mod workload_checks;
mod workload_error;
mod workload_spec;

pub use calibration::{Calibration, CalibrationConstants, Constant, EnginePhysics};
pub use deployment::Deployment;
pub use engine::{Backend, EngineConfig, PreemptionMode, QueuePolicy, Rules, SchedulePolicy, SglangConfig, WorkerRole};
pub use engine_args::{EngineArgs, Limit, SglangArgs};
pub use error::{Checked, SpecError, Violation};
pub use gpu::GpuSpec;
pub use ids::{RequestId, SegmentId, WorkerId};
pub use model::{ModelSpec, MoeSpec, SlidingWindow, WeightFormat};
pub use nearest::nearest;
pub use parallel_shape::ParallelShape;
pub use prompt_segments::PromptSegments;
pub use router::{RouterMode, RouterSettings};
pub use spec::{
    EngineAxes, EngineSpec, HardwareSpec, KvRouterConfig, LoadPoint, MeasuredSetup, MeasuredTopology, MeasuredWorkload,
    Objective, PerRequestSla, PoolTopology, Prune, ReplayOptimizeSpec, RunRouterSpec, RunSpec, SearchSpec,
    SearchStrategy, SlaBound, SlaSpec, StepTerm, SweepRouterMode, SweepRouterSpec, TimingKind, TimingSpec, Topology,
};
pub use trace::{TraceRowError, read_trace};
pub use units::{BlockSize, SimDuration, SimTime};
pub use workload::{Admission, PromptPaths, Request, Workload, WorkloadBuilder};
pub use workload_error::WorkloadError;
pub use workload_spec::{SyntheticLoad, SyntheticWorkload, TraceFormat, TraceWorkload, WorkloadSpec};
