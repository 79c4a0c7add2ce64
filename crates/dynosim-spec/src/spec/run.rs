//! One simulation.

use serde::Serialize;

use super::engine::EngineSpec;
use super::parts::{HardwareSpec, TimingSpec};
use super::router::RunRouterSpec;
use crate::workload_spec::WorkloadSpec;

/// One simulation: which engines, how many, under which load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// Model and engine settings.
    pub engine: EngineSpec,
    /// The GPU.
    pub hardware: HardwareSpec,
    /// Workers of each pool and GPUs of each worker.
    pub topology: Topology,
    /// Routing.
    pub router: RunRouterSpec,
    /// The load.
    pub workload: WorkloadSpec,
    /// Where step times come from.
    pub timing: TimingSpec,
    /// Seed of router ties and router temperature, unless the router has its own.
    pub seed: u64,
}

impl RunSpec {
    /// A simulation with round robin, table timing and seed 0.
    pub fn new(engine: EngineSpec, hardware: HardwareSpec, topology: Topology, workload: WorkloadSpec) -> Self {
        Self {
            engine,
            hardware,
            topology,
            router: RunRouterSpec::default(),
            workload,
            timing: TimingSpec::default(),
            seed: 0,
        }
    }

    /// The seed of the router's streams: the router's own, else that of the run.
    pub fn router_seed(&self) -> u64 {
        self.router.seed.unwrap_or(self.seed)
    }
}

/// Workers of each pool and GPUs of each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Topology {
    /// Every worker computes prompt and output.
    Aggregated {
        /// Workers, at least 1.
        workers: u32,
        /// GPUs of one worker (tensor parallel), at least 1.
        tp: u32,
    },
    /// Prompts and outputs are computed by separate pools.
    Disaggregated {
        /// Workers of the prefill pool, at least 1.
        prefill_workers: u32,
        /// Workers of the decode pool, at least 1.
        decode_workers: u32,
        /// GPUs of one prefill worker, at least 1.
        prefill_tp: u32,
        /// GPUs of one decode worker, at least 1.
        decode_tp: u32,
    },
}

impl Topology {
    /// GPUs that the deployment occupies.
    pub fn total_gpus(&self) -> u64 {
        match *self {
            Self::Aggregated { workers, tp } => u64::from(workers) * u64::from(tp),
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_tp,
                decode_tp,
            } => u64::from(prefill_workers) * u64::from(prefill_tp) + u64::from(decode_workers) * u64::from(decode_tp),
        }
    }
}
