//! What a simulated deployment consists of: units, identities, engines, models, GPUs, routers and workloads.
//!
//! This is the bottom layer. It reads and checks specs and traces and draws synthetic workloads; it
//! does not price, route or simulate anything.

mod deployment;
mod engine;
mod engine_args;
mod error;
mod gpu;
mod ids;
mod load;
mod model;
mod nearest;
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

pub use deployment::Deployment;
pub use engine::{Backend, EngineConfig, PreemptionMode, QueuePolicy, Rules, SchedulePolicy, SglangConfig, WorkerRole};
pub use engine_args::{EngineArgs, Limit, SglangArgs};
pub use error::{Checked, SpecError, Violation};
pub use gpu::GpuSpec;
pub use ids::{RequestId, SegmentId, WorkerId};
pub use model::{ModelSpec, WeightFormat};
pub use prompt_segments::PromptSegments;
pub use router::{RouterMode, RouterSettings};
pub use spec::{
    EngineSpec, HardwareSpec, KvRouterConfig, Objective, ReplayOptimizeSpec, RunRouterSpec, RunSpec, SearchSpec,
    SlaBound, SlaSpec, SweepRouterMode, SweepRouterSpec, TimingKind, TimingSpec, Topology,
};
pub use trace::{TraceRowError, read_trace};
pub use units::{BlockSize, SimDuration, SimTime};
pub use workload::{Admission, PromptPaths, Request, Workload, WorkloadBuilder};
pub use workload_error::WorkloadError;
pub use workload_spec::{SyntheticLoad, SyntheticWorkload, TraceFormat, TraceWorkload, WorkloadSpec};
