//! The scenario of a sweep with one choice of engine arguments, and everything that is prepared once for it.

use std::sync::Arc;

use dynosim_core::Scenario;
use dynosim_spec::{BlockSize, KvRouterConfig, PromptSegments, WorkerRole};
use dynosim_timing::TimingProvider;
use indexmap::IndexMap;

use crate::engine_settings::EngineSettings;
use crate::equivalence::Equivalence;
use crate::worker_shapes::WorkerShapes;

/// Prompts in blocks of a size, shared by all variants that have it.
pub(crate) type PromptsByBlock = IndexMap<BlockSize, Arc<PromptSegments>>;

/// One choice of engine arguments.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) scenario: Scenario,
    pub(crate) shapes: WorkerShapes,
    /// By the role of the workers that compute prompts.
    prompts: Vec<(WorkerRole, Arc<PromptSegments>)>,
    equivalence: Equivalence,
}

impl Variant {
    /// Binds all workers of these roles.
    pub(crate) fn new(
        base: &Scenario,
        settings: EngineSettings,
        provider: &dyn TimingProvider,
        roles: &[WorkerRole],
        router: &KvRouterConfig,
        prompts_by_block: &mut PromptsByBlock,
    ) -> Self {
        let scenario = base.with_engine(settings.applied_to(base.engine()));
        let prompt_roles = roles.iter().copied().filter(|&role| role != WorkerRole::Decode);
        let prompts = prompt_roles.map(|role| {
            let block_size = scenario.engine().config(role).block_size;
            let prompts = prompts_by_block
                .entry(block_size)
                .or_insert_with(|| scenario.prompts(role));
            (role, Arc::clone(prompts))
        });
        Self {
            prompts: prompts.collect(),
            shapes: WorkerShapes::bind(&scenario, provider, roles),
            equivalence: Equivalence::new(scenario.engine(), router),
            scenario,
        }
    }

    /// The prompts as workers of this role see them; `None` for a role that computes none.
    pub(crate) fn prompts(&self, role: WorkerRole) -> Option<&Arc<PromptSegments>> {
        let (_, prompts) = self.prompts.iter().find(|(of, _)| *of == role)?;
        Some(prompts)
    }

    /// Which of its states are the same simulation.
    pub(crate) fn equivalence(&self) -> &Equivalence {
        &self.equivalence
    }
}
