//! One simulation.

use serde::Serialize;

use super::engine::{EngineSpec, Pools};
use super::idle;
use super::parts::{HardwareSpec, TimingSpec};
use super::router::RunRouterSpec;
use crate::engine::Backend;
use crate::engine::WorkerRole;
use crate::error::{Checked, SpecError};
use crate::reader::{self, Presence, Section, Whole};
use crate::router::RouterMode;
use crate::workload_spec::WorkloadSpec;

/// Workers of a pool, and GPUs of a worker: as many as a sweep may use.
const COUNT: Whole = Whole::at_least(1).at_most(65_536);
const POOLS: [&str; 4] = ["prefillWorkers", "decodeWorkers", "prefillTp", "decodeTp"];

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

    /// Reads a simulation from JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Syntax`] if the text is not JSON, [`SpecError::Invalid`] with all its mistakes otherwise.
    pub fn from_json(text: &str) -> Result<Checked<Self>, SpecError> {
        reader::read(text, Self::blank(), Self::fields)
    }

    /// Checks a simulation built in code by the rules that hold for JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Invalid`] with all its mistakes.
    pub fn validate(&self) -> Result<(), SpecError> {
        reader::check(self, Self::fields)
    }

    /// The seed of the router's streams: the router's own, else that of the run.
    pub fn router_seed(&self) -> u64 {
        self.router.seed.unwrap_or(self.seed)
    }

    /// What reading begins with; whatever has no default is replaced.
    fn blank() -> Self {
        Self::new(
            EngineSpec::new("model", Backend::Vllm),
            HardwareSpec::new("system"),
            Topology::Aggregated { workers: 1, tp: 1 },
            WorkloadSpec::blank(),
        )
    }

    fn fields(&mut self, section: &mut Section<'_, '_>) {
        let Self {
            engine,
            hardware,
            topology,
            router,
            workload,
            timing,
            seed,
        } = self;
        section.object("topology", Presence::Required, |section| topology.fields(section));
        let pools = match topology {
            Topology::Aggregated { .. } => Pools::Aggregated,
            Topology::Disaggregated { .. } => Pools::Disaggregated,
        };
        section.object("engine", Presence::Required, |section| engine.fields(section, pools));
        section.object("hardware", Presence::Required, |section| {
            hardware.fields(section, Presence::Optional);
        });
        section.object("workload", Presence::Required, |section| workload.fields(section));
        section.object("router", Presence::Optional, |section| router.fields(section));
        section.object("timing", Presence::Optional, |section| timing.fields(section));
        section.optional("seed", seed, &Whole::at_least(0));
        warn_about_idle_routing(section, engine, pools, router, *seed);
        idle::warn_about_shared_prefixes(section, engine, pools, workload);
        idle::warn_about_physics(section, engine);
        for key in ["sla", "objective", "search", "maxParallelEvals"] {
            section.hint(key, "it belongs to a sweep, and this is a single run");
        }
    }
}

/// Within a whole document: settings that no router of it reads.
pub(super) fn warn_about_idle_routing(
    section: &mut Section<'_, '_>,
    engine: &EngineSpec,
    pools: Pools,
    router: &RunRouterSpec,
    seed: u64,
) {
    let round_robin = router.mode == RouterMode::RoundRobin;
    if router.seed.is_some() {
        section.idle("seed", "because router.seed is given");
    } else if round_robin && seed != 0 {
        section.idle("seed", "with router mode round_robin");
    }
    idle::warn_about_queue_policies(section, engine, pools, round_robin, &router.base_config);
}

/// Workers of each pool and GPUs of each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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

/// One pool of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTopology {
    /// Part of a request's life that the pool serves.
    pub role: WorkerRole,
    /// Its workers.
    pub workers: u32,
    /// GPUs of one worker.
    pub tp: u32,
}

impl Topology {
    /// The pools, in the order in which a request passes through them.
    pub fn pools(&self) -> Vec<PoolTopology> {
        let pool = |role, workers, tp| PoolTopology { role, workers, tp };
        match *self {
            Self::Aggregated { workers, tp } => vec![pool(WorkerRole::Aggregated, workers, tp)],
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_tp,
                decode_tp,
            } => vec![
                pool(WorkerRole::Prefill, prefill_workers, prefill_tp),
                pool(WorkerRole::Decode, decode_workers, decode_tp),
            ],
        }
    }

    /// GPUs that the deployment occupies.
    pub fn total_gpus(&self) -> u64 {
        self.pools()
            .iter()
            .map(|pool| u64::from(pool.workers) * u64::from(pool.tp))
            .fold(0, u64::saturating_add)
    }

    fn fields(&mut self, section: &mut Section<'_, '_>) {
        if section.reads() {
            let pools = section.present(&POOLS);
            let aggregated = section.present(&["workers", "tp"]);
            if let ([pool, ..], [other, ..]) = (pools.as_slice(), aggregated.as_slice()) {
                let message = format!(
                    "needs either workers and tp or {}, got both {other} and {pool}",
                    POOLS.join(", ")
                );
                section.violation("", message);
                section.accept(&["workers", "tp"]);
                section.accept(&POOLS);
                return;
            }
            *self = if pools.is_empty() {
                Self::Aggregated { workers: 1, tp: 1 }
            } else {
                Self::Disaggregated {
                    prefill_workers: 1,
                    decode_workers: 1,
                    prefill_tp: 1,
                    decode_tp: 1,
                }
            };
        }
        match self {
            Self::Aggregated { workers, tp } => {
                section.required("workers", workers, &COUNT);
                section.required("tp", tp, &COUNT);
            }
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_tp,
                decode_tp,
            } => {
                let places = [prefill_workers, decode_workers, prefill_tp, decode_tp];
                for (key, place) in POOLS.into_iter().zip(places) {
                    section.required(key, place, &COUNT);
                }
            }
        }
    }
}
