//! The two JSON documents of the product: one simulation, and a sweep over many.

mod engine;
mod parts;
mod router;
mod run;
mod sla;
mod sweep;

pub use engine::EngineSpec;
pub use parts::{HardwareSpec, TimingKind, TimingSpec};
pub use router::{KvRouterConfig, RunRouterSpec, SweepRouterMode, SweepRouterSpec};
pub use run::{RunSpec, Topology};
pub use sla::{SlaBound, SlaSpec};
pub use sweep::{Objective, ReplayOptimizeSpec, SearchSpec};
