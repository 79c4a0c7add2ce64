//! Which model runs on which engine, and how the engine of each role is set up.

use serde::Serialize;

use crate::engine::{Backend, EngineConfig, Rules, WorkerRole};
use crate::engine_args::EngineArgs;

/// Model, engine family and engine arguments: the `engine` object of a spec.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineSpec {
    /// A bundled model name, or the path of a Hugging Face `config.json` (see `ModelSpec::find`).
    pub model: String,
    /// Scheduler family.
    pub backend: Backend,
    /// Named set of engine rules.
    pub rules: Rules,
    /// Arguments of aggregated workers, and of a role whose own are absent.
    pub base_engine_args: EngineArgs,
    /// Arguments of prefill workers. They stand alone: nothing is inherited from the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_engine_args: Option<EngineArgs>,
    /// Arguments of decode workers. They stand alone: nothing is inherited from the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_engine_args: Option<EngineArgs>,
}

impl EngineSpec {
    /// This model on this engine family with default rules and arguments.
    pub fn new(model: impl Into<String>, backend: Backend) -> Self {
        Self {
            model: model.into(),
            backend,
            rules: Rules::default(),
            base_engine_args: EngineArgs::default(),
            prefill_engine_args: None,
            decode_engine_args: None,
        }
    }

    /// The settings of a worker of this role, every default filled in.
    ///
    /// A role without arguments of its own takes those of the base.
    pub fn config(&self, role: WorkerRole) -> EngineConfig {
        self.args(role).resolve(self.backend, role)
    }

    /// The arguments that count for a role.
    fn args(&self, role: WorkerRole) -> &EngineArgs {
        let own = match role {
            WorkerRole::Aggregated => None,
            WorkerRole::Prefill => self.prefill_engine_args.as_ref(),
            WorkerRole::Decode => self.decode_engine_args.as_ref(),
        };
        own.unwrap_or(&self.base_engine_args)
    }
}
