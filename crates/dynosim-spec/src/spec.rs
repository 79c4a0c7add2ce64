//! The JSON documents of the product: one simulation, a sweep over many, and what measured points have in common.

mod engine;
mod idle;
mod kv_router_config;
mod measured_setup;
mod objective;
mod parts;
mod router;
mod run;
mod search;
mod sla;
mod sweep;
mod topology;

pub use engine::EngineSpec;
pub use kv_router_config::KvRouterConfig;
pub use measured_setup::{LoadPoint, MeasuredSetup, MeasuredTopology, MeasuredWorkload};
pub use objective::Objective;
pub use parts::{HardwareSpec, StepTerm, TimingKind, TimingSpec};
pub use router::{RunRouterSpec, SweepRouterMode, SweepRouterSpec};
pub use run::RunSpec;
pub use search::{EngineAxes, Prune, SearchSpec, SearchStrategy};
pub use sla::{PerRequestSla, SlaBound, SlaSpec};
pub use sweep::ReplayOptimizeSpec;
pub use topology::{PoolTopology, Topology};

#[cfg(test)]
mod tests;
