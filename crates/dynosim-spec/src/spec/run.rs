//! One simulation.

use serde::Serialize;

use super::engine::{EngineSpec, Pools};
use super::idle;
use super::parts::{HardwareSpec, TimingSpec};
use super::router::RunRouterSpec;
use super::topology::Topology;
use crate::engine::Backend;
use crate::error::{Checked, SpecError};
use crate::parallel_shape::ParallelShape;
use crate::reader::{self, Presence, Section, Whole};
use crate::router::RouterMode;
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
            Topology::Aggregated {
                workers: 1,
                shape: ParallelShape::tensor(1),
            },
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
