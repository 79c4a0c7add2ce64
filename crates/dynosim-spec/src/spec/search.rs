//! How widely a sweep searches: its `search` object.

use std::ops::Not;

use serde::{Deserialize, Serialize};

use crate::engine::Backend;
use crate::engine_args::{EngineArgs, Limit};
use crate::reader::{Flag, OneOf, OrNull, Presence, Section, Whole};

const COUNT: Whole = Whole::at_least(1);

/// How widely a sweep searches, and how far it follows candidates that fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchSpec {
    /// Which candidates are visited.
    #[serde(skip_serializing_if = "SearchStrategy::is_default")]
    pub strategy: SearchStrategy,
    /// Descent: best tensor-parallel shapes whose worker splits are evaluated in each round, at least 1.
    pub beam: u32,
    /// Whether the simulation of a candidate ends as soon as it proves that a bound of the SLA will be missed.
    ///
    /// Then the candidate has no metrics and an infinite penalty. Candidates that are given up rank equally, so a search
    /// that would have gone on from the closest of them may take another path, to another best state or to none.
    #[serde(skip_serializing_if = "Not::not")]
    pub stop_hopeless: bool,
    /// Exhaustive: which candidates are left out on proof instead of being simulated.
    #[serde(skip_serializing_if = "Prune::is_default")]
    pub prune: Prune,
    /// Engine arguments that are searched over.
    #[serde(skip_serializing_if = "EngineAxes::is_empty")]
    pub engine_args: EngineAxes,
}

impl Default for SearchSpec {
    fn default() -> Self {
        Self {
            strategy: SearchStrategy::default(),
            beam: 3,
            stop_hopeless: false,
            prune: Prune::default(),
            engine_args: EngineAxes::default(),
        }
    }
}

/// Which candidates a sweep visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchStrategy {
    /// Those on a walk that improves shape, split, router and engine arguments in turn: fast, without proof.
    #[default]
    Descent,
    /// All of them.
    Exhaustive,
}

/// Which candidates an exhaustive search leaves out, each on proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prune {
    /// None.
    None,
    /// Those that cannot serve every request, because a worker's KV cache is too small for one of them.
    #[default]
    Infeasible,
    /// These, and those that cannot be better than the best state that the descent finds; tables of states then lack
    /// states that may be feasible.
    Worse,
}

impl SearchStrategy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Prune {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Engine arguments that a sweep tries values of; an empty list leaves the argument as it is.
///
/// Every candidate has one value of each, for all of its workers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EngineAxes {
    /// Token budgets of a step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub max_num_batched_tokens: Vec<Limit>,
    /// Requests that may run at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub max_num_seqs: Vec<Limit>,
    /// Tokens per KV block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_size: Vec<u32>,
    /// Whether a prompt may be computed over several steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enable_chunked_prefill: Vec<bool>,
}

impl EngineAxes {
    /// Whether no argument is searched over.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn fields(&mut self, section: &mut Section<'_, '_>, backend: Backend) {
        section.list_or_none(
            "max_num_batched_tokens",
            &mut self.max_num_batched_tokens,
            &OrNull(COUNT),
        );
        section.list_or_none("max_num_seqs", &mut self.max_num_seqs, &OrNull(COUNT));
        section.list_or_none("block_size", &mut self.block_size, &COUNT);
        section.list_or_none("enable_chunked_prefill", &mut self.enable_chunked_prefill, &Flag);
        if backend == Backend::Sglang {
            for (key, given) in [
                ("max_num_batched_tokens", !self.max_num_batched_tokens.is_empty()),
                ("max_num_seqs", !self.max_num_seqs.is_empty()),
                ("enable_chunked_prefill", !self.enable_chunked_prefill.is_empty()),
            ] {
                if given {
                    section.violation(key, "makes no difference to the SGLang-style scheduler; leave it out");
                }
            }
        }
        self.refuse_repetitions(section);
    }

    fn refuse_repetitions(&self, section: &mut Section<'_, '_>) {
        fn repeats<T: PartialEq>(values: &[T]) -> bool {
            (1..values.len()).any(|index| values[..index].contains(&values[index]))
        }
        for (key, repeated) in [
            ("max_num_batched_tokens", repeats(&self.max_num_batched_tokens)),
            ("max_num_seqs", repeats(&self.max_num_seqs)),
            ("block_size", repeats(&self.block_size)),
            ("enable_chunked_prefill", repeats(&self.enable_chunked_prefill)),
        ] {
            if repeated {
                section.violation(key, "has a value twice");
            }
        }
    }
}

impl SearchSpec {
    /// Walks the fields. `arguments` are those of the engine that the axes of the search stand in for.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>, backend: Backend, arguments: &[&EngineArgs]) {
        section.optional("strategy", &mut self.strategy, &OneOf);
        section.optional("beam", &mut self.beam, &COUNT);
        section.optional("stopHopeless", &mut self.stop_hopeless, &Flag);
        section.optional("prune", &mut self.prune, &OneOf);
        let axes = &mut self.engine_args;
        section.object("engineArgs", Presence::Optional, |section| {
            axes.fields(section, backend);
        });
        if self.strategy == SearchStrategy::Descent {
            section.idle("prune", "with strategy descent, which visits few states anyway");
        }
        let pinned = arguments.iter().any(|args| args.num_gpu_blocks.is_some());
        if pinned && self.engine_args.block_size.len() > 1 {
            let message = "changes the KV capacity in tokens, because num_gpu_blocks is given";
            section.warn("engineArgs.block_size", message);
        }
    }
}
