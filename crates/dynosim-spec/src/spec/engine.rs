//! Which model runs on which engine, and how the engine of each role is set up.

use serde::Serialize;

use crate::engine::{Backend, EngineConfig, Rules, WorkerRole};
use crate::engine_args::EngineArgs;
use crate::reader::{OneOf, Presence, Section, Text};

/// Names of the prefill workers' arguments.
pub(super) const PREFILL_KEY: (&str, &str) = ("prefillEngineArgs", "basePrefillEngineArgs");
/// Names of the decode workers' arguments.
pub(super) const DECODE_KEY: (&str, &str) = ("decodeEngineArgs", "baseDecodeEngineArgs");

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
    pub(super) fn args(&self, role: WorkerRole) -> &EngineArgs {
        self.own_args(role).unwrap_or(&self.base_engine_args)
    }

    /// All arguments that are given.
    pub(super) fn all_args(&self) -> Vec<&EngineArgs> {
        let own = [&self.prefill_engine_args, &self.decode_engine_args];
        [&self.base_engine_args]
            .into_iter()
            .chain(own.into_iter().flatten())
            .collect()
    }

    /// The same engine with the arguments of every role changed in this way.
    #[must_use]
    pub fn map_args(mut self, change: impl Fn(&mut EngineArgs)) -> Self {
        change(&mut self.base_engine_args);
        let own = [&mut self.prefill_engine_args, &mut self.decode_engine_args];
        own.into_iter().flatten().for_each(change);
        self
    }

    /// The arguments that a role does not share with others.
    fn own_args(&self, role: WorkerRole) -> Option<&EngineArgs> {
        match role {
            WorkerRole::Aggregated => None,
            WorkerRole::Prefill => self.prefill_engine_args.as_ref(),
            WorkerRole::Decode => self.decode_engine_args.as_ref(),
        }
    }

    /// What is said about arguments that no worker of these roles reads.
    pub(super) fn unused_args(&self, roles: &[WorkerRole]) -> Vec<String> {
        let mut unused = Vec::new();
        let base_is_read = roles.iter().any(|&role| self.own_args(role).is_none());
        if self.base_engine_args != EngineArgs::default() {
            if !base_is_read {
                let message = "has no effect, because all workers of the sweep have arguments of their own";
                unused.push(format!("engine.baseEngineArgs: {message}"));
            } else if !roles.contains(&WorkerRole::Prefill) && self.prefill_engine_args.is_none() {
                let message = "has no effect, because no KV is transferred without prefill workers";
                let given = self.base_engine_args.transfer_keys();
                unused.extend(given.map(|(key, value)| format!("engine.baseEngineArgs.{key}: {value} {message}")));
            }
        }
        for (role, (key, _)) in [(WorkerRole::Prefill, PREFILL_KEY), (WorkerRole::Decode, DECODE_KEY)] {
            if self.own_args(role).is_some() && !roles.contains(&role) {
                let message = format!("has no effect, because the sweep has no {role} workers");
                unused.push(format!("engine.{key}: {message}"));
            }
        }
        unused
    }

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>, pools: Pools) {
        section.required("model", &mut self.model, &Text);
        let backend_known = section.required("backend", &mut self.backend, &OneOf);
        let backend = backend_known.then_some(self.backend);
        section.optional("rules", &mut self.rules, &OneOf);

        let base = &mut self.base_engine_args;
        let mut sizes_known = backend_known;
        section.object("baseEngineArgs", Presence::Optional, |section| {
            sizes_known &= base.fields(section, backend, WorkerRole::Aggregated);
        });
        let roles = [
            (PREFILL_KEY, &mut self.prefill_engine_args, WorkerRole::Prefill),
            (DECODE_KEY, &mut self.decode_engine_args, WorkerRole::Decode),
        ];
        for (key, args, role) in roles {
            section.optional_object(key, args, EngineArgs::default(), |args, section| {
                sizes_known &= args.fields(section, backend, role);
            });
        }
        if sizes_known && pools != Pools::Aggregated {
            self.check_block_sizes(section);
        }
        self.warn_about_idle_args(section, pools);
    }

    /// KV blocks travel from prefill to decode workers as they are.
    fn check_block_sizes(&self, section: &mut Section<'_, '_>) {
        let [prefill, decode] =
            [WorkerRole::Prefill, WorkerRole::Decode].map(|role| self.args(role).resolved_block_size(self.backend));
        if prefill != decode {
            let message = format!("prefill and decode workers need the same block size, got {prefill} and {decode}");
            section.violation("", message);
        }
    }
}

/// Pools that a document may set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pools {
    /// One pool of aggregated workers.
    Aggregated,
    /// A prefill and a decode pool.
    Disaggregated,
    /// A sweep may try either.
    Any,
}
