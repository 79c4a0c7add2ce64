//! The two JSON documents of the product: one simulation, and a sweep over many.

mod engine;
mod idle;
mod kv_router_config;
mod parts;
mod router;
mod run;
mod sla;
mod sweep;
mod topology;

pub use engine::EngineSpec;
pub use kv_router_config::KvRouterConfig;
pub use parts::{HardwareSpec, TimingKind, TimingSpec};
pub use router::{RunRouterSpec, SweepRouterMode, SweepRouterSpec};
pub use run::RunSpec;
pub use sla::{SlaBound, SlaSpec};
pub use sweep::{Objective, ReplayOptimizeSpec, SearchSpec};
pub use topology::{PoolTopology, Topology};

#[cfg(test)]
mod tests;
