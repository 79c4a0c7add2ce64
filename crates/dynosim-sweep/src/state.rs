//! A candidate: who serves, and who routes to them.

use std::fmt;
use std::hash::{Hash, Hasher};

use dynosim_spec::{
    EngineArgs, EngineSpec, KvRouterConfig, ParallelShape, PoolTopology, ReplayOptimizeSpec, RouterMode, RunRouterSpec,
    RunSpec, Topology, WorkerRole,
};
use ordered_float::OrderedFloat;
use serde::Serialize;

use crate::engine_settings::EngineSettings;

/// A deployment that a sweep may try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// Workers of each pool and GPUs of each worker.
    pub topology: Topology,
    /// The router of every pool.
    pub router: RouterState,
    /// What all workers have for engine arguments that are searched over.
    pub engine: EngineSettings,
}

impl State {
    /// Workers of the engine as the spec has it.
    pub const fn new(topology: Topology, router: RouterState) -> Self {
        Self {
            topology,
            router,
            engine: EngineSettings::UNCHANGED,
        }
    }

    /// The same workers with other engine arguments.
    #[must_use]
    pub fn with_engine(self, engine: EngineSettings) -> Self {
        Self { engine, ..self }
    }

    /// The simulation of this candidate of a sweep, as a document of its own.
    pub fn run_spec(&self, spec: &ReplayOptimizeSpec) -> RunSpec {
        let mut hardware = spec.hardware.clone();
        hardware.total_gpus = None;
        hardware.min_gpus = None;
        hardware.gpu_hour_price = None;
        let kv_router = self.router.mode == RouterMode::KvRouter;
        let default = KvRouterConfig::default();
        let base_config = if kv_router {
            // The values of the candidate stand beside it.
            KvRouterConfig {
                overlap_score_credit: default.overlap_score_credit,
                prefill_load_scale: default.prefill_load_scale,
                ..spec.router.base_config.clone()
            }
        } else {
            default
        };
        let router = RunRouterSpec {
            mode: self.router.mode,
            overlap_score_credit: kv_router.then_some(self.router.overlap_score_credit),
            prefill_load_scale: kv_router.then_some(self.router.prefill_load_scale),
            seed: None,
            base_config,
        };
        RunSpec {
            router,
            timing: spec.timing.clone(),
            // Chance has no part in round robin.
            seed: if kv_router { spec.seed } else { 0 },
            ..RunSpec::new(
                self.read_arguments(self.engine.applied_to(&spec.engine)),
                hardware,
                self.topology,
                spec.workload.clone(),
            )
        }
    }

    /// The engine without the arguments that no worker of this candidate reads.
    fn read_arguments(&self, mut engine: EngineSpec) -> EngineSpec {
        match self.mode() {
            Mode::Agg => {
                engine.prefill_engine_args = None;
                engine.decode_engine_args = None;
                engine.base_engine_args.kv_bytes_per_token = None;
                engine.base_engine_args.kv_transfer_bandwidth = None;
            }
            Mode::Disagg => {
                if engine.prefill_engine_args.is_some() && engine.decode_engine_args.is_some() {
                    engine.base_engine_args = EngineArgs::default();
                }
            }
        }
        engine
    }

    /// The same workers behind another router.
    #[must_use]
    pub fn with_router(self, router: RouterState) -> Self {
        Self { router, ..self }
    }

    /// GPUs that the deployment occupies.
    pub fn total_gpus(&self) -> u64 {
        self.topology.total_gpus()
    }

    /// Whether prompt and output are computed by the same workers.
    pub fn mode(&self) -> Mode {
        match self.topology {
            Topology::Aggregated { .. } => Mode::Agg,
            Topology::Disaggregated { .. } => Mode::Disagg,
        }
    }

    /// A name for charts, shorter than the one that [`fmt::Display`] gives: `prefill 3 x tp 1, decode 2 x tp 2, kv 1/0.5`,
    /// with overlap credit and prefill load scale behind the router.
    pub fn short_name(&self) -> String {
        let role = |role: WorkerRole| match role {
            WorkerRole::Aggregated => String::new(),
            WorkerRole::Prefill | WorkerRole::Decode => format!("{role} "),
        };
        let pools = self.pools().into_iter();
        let pools = pools.map(|pool| format!("{}{} x {}", role(pool.role), pool.workers, pool.shape));
        let pools: Vec<String> = pools.collect();
        let RouterState {
            mode,
            overlap_score_credit: credit,
            prefill_load_scale: scale,
        } = self.router;
        let router = match mode {
            RouterMode::RoundRobin => "round robin".to_owned(),
            RouterMode::KvRouter => format!("kv {credit}/{scale}"),
        };
        let engine = if self.engine == EngineSettings::UNCHANGED {
            String::new()
        } else {
            format!(", {}", self.engine)
        };
        format!("{}, {router}{engine}", pools.join(", "))
    }

    /// The pools, in the order in which a request passes through them.
    pub(crate) fn pools(&self) -> Vec<PoolTopology> {
        self.topology.pools()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topology {
            Topology::Aggregated { workers, shape } => {
                write_shape(f, "", shape)?;
                write!(f, "workers={workers}")?;
            }
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => {
                write_shape(f, "prefill_", prefill_shape)?;
                write_shape(f, "decode_", decode_shape)?;
                write!(f, "prefill_workers={prefill_workers} decode_workers={decode_workers}")?;
            }
        }
        write!(f, " {}", self.router)?;
        if self.engine == EngineSettings::UNCHANGED {
            Ok(())
        } else {
            write!(f, " {}", self.engine)
        }
    }
}

/// The tensor-parallel size, and all other sizes that are not 1, each with a space behind it.
fn write_shape(f: &mut fmt::Formatter<'_>, prefix: &str, shape: ParallelShape) -> fmt::Result {
    write!(f, "{prefix}tp={} ", shape.tp)?;
    for (name, size) in shape.other_sizes() {
        write!(f, "{prefix}{name}={size} ")?;
    }
    Ok(())
}

/// Whether prompts and outputs are computed by the same workers; `agg` or `disagg` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By the same workers.
    Agg,
    /// By a prefill and a decode pool.
    Disagg,
}

impl Mode {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agg => "agg",
            Self::Disagg => "disagg",
        }
    }

    /// The roles of the pools, in the order in which a request passes through them.
    pub fn roles(self) -> &'static [WorkerRole] {
        match self {
            Self::Agg => &[WorkerRole::Aggregated],
            Self::Disagg => &[WorkerRole::Prefill, WorkerRole::Decode],
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agg => "aggregated",
            Self::Disagg => "disaggregated",
        })
    }
}

/// A routing strategy and its two knobs.
///
/// Numbers are compared as by `ordered_float`: `NaN` equals itself, and so do the two zeros.
#[derive(Debug, Clone, Copy)]
pub struct RouterState {
    /// Strategy.
    pub mode: RouterMode,
    /// Share of each cached prefix block that is subtracted from the prefill load, 0 to 1.
    pub overlap_score_credit: f64,
    /// Weight of the prefill load against active blocks, at least 0.
    pub prefill_load_scale: f64,
}

impl RouterState {
    /// Round robin, which knows neither knob; recorded with credit 0 and scale 1.
    pub const fn round_robin() -> Self {
        Self {
            mode: RouterMode::RoundRobin,
            overlap_score_credit: 0.0,
            prefill_load_scale: 1.0,
        }
    }

    /// KV routing with these knobs.
    pub const fn kv_router(overlap_score_credit: f64, prefill_load_scale: f64) -> Self {
        Self {
            mode: RouterMode::KvRouter,
            overlap_score_credit,
            prefill_load_scale,
        }
    }

    /// The strategy as specs and result columns spell it.
    pub const fn mode_name(self) -> &'static str {
        match self.mode {
            RouterMode::RoundRobin => "round_robin",
            RouterMode::KvRouter => "kv_router",
        }
    }

    fn key(self) -> (RouterMode, OrderedFloat<f64>, OrderedFloat<f64>) {
        (
            self.mode,
            OrderedFloat(self.overlap_score_credit),
            OrderedFloat(self.prefill_load_scale),
        )
    }
}

impl PartialEq for RouterState {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for RouterState {}

impl Hash for RouterState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for RouterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode_name())?;
        match self.mode {
            RouterMode::RoundRobin => Ok(()),
            RouterMode::KvRouter => write!(
                f,
                " overlap_score_credit={} prefill_load_scale={}",
                self.overlap_score_credit, self.prefill_load_scale
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_tell_candidates_apart() {
        let topology = Topology::Disaggregated {
            prefill_workers: 3,
            decode_workers: 2,
            prefill_shape: ParallelShape::tensor(1),
            decode_shape: ParallelShape::tensor(4),
        };
        let state = State::new(topology, RouterState::kv_router(1.0, 0.5));
        assert_eq!(state.short_name(), "prefill 3 x tp 1, decode 2 x tp 4, kv 1/0.5");
        let shape = ParallelShape::tensor(2);
        let settings = EngineSettings {
            block_size: Some(32),
            ..EngineSettings::UNCHANGED
        };
        let state = State::new(Topology::Aggregated { workers: 4, shape }, RouterState::round_robin());
        let name = state.with_engine(settings).short_name();
        assert_eq!(name, "4 x tp 2, round robin, block_size=32");
    }
}
