//! A deployment that is ready to run: what all runs of a benchmark share is made once.

use std::sync::Arc;

use dynosim::core::{Outcome, Scenario, Stepping, WorkerShape};
use dynosim::router::{self, Pool, Router};
use dynosim::spec::{ParallelShape, PromptSegments, RouterMode, RouterSettings, WorkerRole};
use dynosim::timing::TimingProvider;

/// Workers of one role: their tensor-parallel size and how many there are.
pub(crate) type PoolSize = (WorkerRole, u32, u32);

/// Names and settings of the routers that every fleet is measured with.
pub(crate) fn routers() -> [(&'static str, RouterSettings); 2] {
    let with_mode = |mode| RouterSettings {
        mode,
        ..RouterSettings::default()
    };
    [
        ("round_robin", with_mode(RouterMode::RoundRobin)),
        ("kv_router", with_mode(RouterMode::KvRouter)),
    ]
}

/// Pools of workers over one workload.
pub(crate) struct Fleet {
    scenario: Scenario,
    pools: Vec<(WorkerShape, u32)>,
    prompts: Arc<PromptSegments>,
}

impl Fleet {
    /// Binds the workers of these pools.
    pub(crate) fn new(scenario: Scenario, provider: &dyn TimingProvider, pools: &[PoolSize]) -> Self {
        let bind = |&(role, tp, workers): &PoolSize| {
            let shape = scenario.worker_shape(role, ParallelShape::tensor(tp), provider);
            (shape.expect("such workers can be had"), workers)
        };
        Self {
            pools: pools.iter().map(bind).collect(),
            prompts: scenario.prompts(pools[0].0),
            scenario,
        }
    }

    /// Simulates the workload.
    pub(crate) fn run(&self, settings: &RouterSettings, stepping: Stepping) -> Outcome {
        let pools: Vec<(&WorkerShape, u32)> = self.pools.iter().map(|(shape, workers)| (shape, *workers)).collect();
        let build = |settings: &RouterSettings, pool: Pool, seed: u64| -> Box<dyn Router> {
            router::build(settings, pool, seed)
        };
        let simulation = self.scenario.simulation(&pools, &self.prompts, settings, 0, &build);
        let simulation = simulation.expect("the parts fit together").stepping(stepping);
        simulation.run(Vec::new()).expect("the run comes to an end")
    }
}
