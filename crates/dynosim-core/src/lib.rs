//! Request-level discrete-event simulation of LLM serving engines.

mod arrivals;
mod decode_pages;
mod decode_run;
mod engine;
mod error;
mod events;
mod kv;
mod metrics;
mod pool;
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
pub use metrics::{Distribution, Rejection, Report, RequestRecord};
pub use scenario::{RouterFactory, Scenario, WorkerShape};
pub use simulation::{Outcome, PoolPlan, Simulation};
