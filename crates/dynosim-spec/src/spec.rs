//! The JSON documents of the product: one simulation, a sweep over many, and what measured points have in common.

mod engine;
mod idle;
mod kv_router_config;
mod measured_setup;
mod parts;
mod router;
mod run;
mod sla;
mod sweep;
mod topology;

pub use engine::EngineSpec;
pub use kv_router_config::KvRouterConfig;
pub use measured_setup::{LoadPoint, MeasuredSetup, MeasuredTopology, MeasuredWorkload};
pub use parts::{HardwareSpec, StepTerm, TimingKind, TimingSpec};
pub use router::{RunRouterSpec, SweepRouterMode, SweepRouterSpec};
pub use run::RunSpec;
pub use sla::{SlaBound, SlaSpec};
pub use sweep::{Objective, ReplayOptimizeSpec, SearchSpec};
pub use topology::{PoolTopology, Topology};

#[cfg(test)]
mod tests;
