//! Request-level discrete-event simulation of LLM serving engines.
//!
//! A [`Scenario`] is a model, a GPU, engine settings and a workload. It binds [workers](WorkerShape) to a timing
//! provider, and puts pools of them together to a [`Simulation`], which plays every request from its arrival to
//! its last token and leaves an [`Outcome`]: a [`Report`] and the life of each request.
//!
//! What a run does is a function of what it is given. At one instant passes end, KV transfers land and requests arrive,
//! and only then do idle workers start passes. Time is whole nanoseconds, and simultaneous events are ordered by what they
//! are, never by the order in which they were planned.
//!
//! What the crate is not: it reads no files, never looks at the host's clock or environment, starts no threads and draws
//! no random numbers (a router may, from the seed it was built with). It knows timing models and routers by
//! their traits only, and does not search for deployments.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `scenario` | what runs over one workload have in common, and how a run is put together from it |
//! | `simulation` | the event loop |
//! | `events`, `arrivals` | what will happen; which requests are ready to enter |
//! | `pool`, `worker_set` | equal workers behind one router; which of them can start a pass |
//! | `engine` | what the loop asks of a worker's engine |
//! | `vllm`, `sglang` | the engines |
//! | `rules` | the points at which named rule sets differ |
//! | `rejection` | requests that can never run |
//! | `give_up` | runs that can no longer keep to a latency bound |
//! | `kv` | the KV cache of a worker |
//! | `prices`, `decode_run`, `decode_pages` | prices as the clock sees them; decode steps computed at once |
//! | `metrics` | records while a run goes on, and the report at its end |
//!
//! # Example
//!
//! Two workers behind round robin:
//!
//! ```
//! use dynosim_core::Scenario;
//! use dynosim_spec::{
//!     Backend, EngineArgs, EngineSpec, GpuSpec, ParallelShape, RouterSettings, SyntheticLoad, SyntheticWorkload,
//!     WorkerRole, Workload, WorkloadSpec,
//! };
//! use dynosim_timing::PolynomialTiming;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut engine = EngineSpec::new("some-model", Backend::Vllm);
//! engine.base_engine_args = EngineArgs { num_gpu_blocks: Some(1000), ..EngineArgs::default() };
//! let load = WorkloadSpec::Synthetic(SyntheticWorkload::new(500, 20, 40, SyntheticLoad::Concurrency(8)));
//! let role = WorkerRole::Aggregated;
//! let workload = Workload::load(&load, engine.config(role).block_size)?;
//! let scenario = Scenario::new(engine, None, GpuSpec::find("h200_sxm")?, workload);
//!
//! let worker = scenario.worker_shape(role, ParallelShape::tensor(1), &PolynomialTiming)?;
//! let prompts = scenario.prompts(role);
//! let settings = RouterSettings::default();
//! let simulation = scenario.simulation(&[(&worker, 2)], &prompts, &settings, 0, &dynosim_router::build)?;
//! let outcome = simulation.run(Vec::new())?;
//!
//! assert_eq!(outcome.report.completed_requests, 40);
//! assert_eq!(outcome.report.total_output_tokens, 40 * 20);
//! assert!(outcome.requests.iter().all(|request| request.first_token <= request.last_token));
//! # Ok(())
//! # }
//! ```

mod arrivals;
mod client;
mod decode_pages;
mod decode_run;
mod engine;
mod error;
mod events;
mod give_up;
mod kv;
mod metrics;
mod pool;
mod prefill_times;
mod prices;
mod rejection;
mod rules;
mod scenario;
mod sglang;
mod simulation;
mod vllm;
mod worker_set;

#[doc(hidden)]
pub use engine::Stepping;
pub use error::SimError;
pub use give_up::{LatencyBound, Statistic};
pub use metrics::{
    Breakdown, Details, Distribution, ErrorBands, Latency, PoolSample, PoolTimeline, PoolUse, Rejection, Report,
    RequestPhases, RequestRecord, TtftParts,
};
pub use scenario::{RouterFactory, Scenario, WorkerShape};
pub use simulation::{Outcome, PoolPlan, Simulation};
