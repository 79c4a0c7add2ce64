//! Engine arguments that differ between candidates.

use std::fmt;

use dynosim_spec::{Backend, EngineArgs, EngineAxes, EngineSpec, Limit};

/// Values that a candidate has for engine arguments that a sweep searches over, for all of its workers; `None` leaves an
/// argument as the spec has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EngineSettings {
    /// Token budget of a step.
    pub max_num_batched_tokens: Option<Limit>,
    /// Requests that may run at once.
    pub max_num_seqs: Option<Limit>,
    /// Tokens per KV block.
    pub block_size: Option<u32>,
    /// Whether a prompt may be computed over several steps.
    pub enable_chunked_prefill: Option<bool>,
}

/// A value of an engine argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Limit(Limit),
    Tokens(u32),
    Flag(bool),
}

impl EngineSettings {
    /// The engine as the spec has it.
    pub const UNCHANGED: Self = Self {
        max_num_batched_tokens: None,
        max_num_seqs: None,
        block_size: None,
        enable_chunked_prefill: None,
    };

    /// Names of all arguments, as specs and columns have them.
    pub(crate) const NAMES: [&str; 4] = [
        "max_num_batched_tokens",
        "max_num_seqs",
        "block_size",
        "enable_chunked_prefill",
    ];

    /// Every combination of values, the last argument changing fastest; the unchanged engine alone without axes.
    pub(crate) fn combinations(axes: &EngineAxes) -> Vec<Self> {
        fn values<T: Copy>(axis: &[T]) -> Vec<Option<T>> {
            if axis.is_empty() {
                vec![None]
            } else {
                axis.iter().copied().map(Some).collect()
            }
        }
        let mut combinations = Vec::new();
        for max_num_batched_tokens in values(&axes.max_num_batched_tokens) {
            for max_num_seqs in values(&axes.max_num_seqs) {
                for block_size in values(&axes.block_size) {
                    for enable_chunked_prefill in values(&axes.enable_chunked_prefill) {
                        combinations.push(Self {
                            max_num_batched_tokens,
                            max_num_seqs,
                            block_size,
                            enable_chunked_prefill,
                        });
                    }
                }
            }
        }
        combinations
    }

    /// The engine with these values in the arguments of every role.
    pub(crate) fn applied_to(self, engine: &EngineSpec) -> EngineSpec {
        let backend = engine.backend;
        engine.clone().map_args(|args| self.change(args, backend))
    }

    fn change(self, args: &mut EngineArgs, backend: Backend) {
        args.max_num_batched_tokens = self.max_num_batched_tokens.or(args.max_num_batched_tokens);
        args.max_num_seqs = self.max_num_seqs.or(args.max_num_seqs);
        args.enable_chunked_prefill = self.enable_chunked_prefill.or(args.enable_chunked_prefill);
        if self.block_size.is_some() {
            args.block_size = self.block_size;
            if let (Backend::Sglang, Some(sglang)) = (backend, &mut args.sglang) {
                // Another name of the block size, which must not contradict it.
                sglang.page_size = None;
            }
        }
    }

    /// The value of an argument by its name, if this has one.
    pub(crate) fn value(self, name: &str) -> Option<Setting> {
        match name {
            "max_num_batched_tokens" => self.max_num_batched_tokens.map(Setting::Limit),
            "max_num_seqs" => self.max_num_seqs.map(Setting::Limit),
            "block_size" => self.block_size.map(Setting::Tokens),
            "enable_chunked_prefill" => self.enable_chunked_prefill.map(Setting::Flag),
            _ => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(Limit::Unlimited) => f.write_str("unlimited"),
            Self::Limit(Limit::AtMost(most)) => write!(f, "{most}"),
            Self::Tokens(tokens) => write!(f, "{tokens}"),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// `max_num_seqs=64 block_size=32`; nothing if nothing is changed.
impl fmt::Display for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = Self::NAMES
            .into_iter()
            .filter_map(|name| Some(format!("{name}={}", self.value(name)?)));
        f.write_str(&values.collect::<Vec<String>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::WorkerRole;

    use super::*;

    #[test]
    fn combinations_come_in_order() {
        assert_eq!(
            EngineSettings::combinations(&EngineAxes::default()),
            [EngineSettings::default()]
        );
        let axes = EngineAxes {
            max_num_seqs: vec![Limit::AtMost(64), Limit::Unlimited],
            block_size: vec![16, 32],
            ..EngineAxes::default()
        };
        let names: Vec<String> = EngineSettings::combinations(&axes)
            .iter()
            .map(EngineSettings::to_string)
            .collect();
        assert_eq!(
            names,
            [
                "max_num_seqs=64 block_size=16",
                "max_num_seqs=64 block_size=32",
                "max_num_seqs=unlimited block_size=16",
                "max_num_seqs=unlimited block_size=32",
            ]
        );
    }

    #[test]
    fn every_role_changes() {
        let mut engine = EngineSpec::new("m", Backend::Vllm);
        engine.decode_engine_args = Some(EngineArgs {
            max_num_seqs: Some(Limit::AtMost(7)),
            ..EngineArgs::default()
        });
        let settings = EngineSettings {
            block_size: Some(32),
            max_num_seqs: Some(Limit::Unlimited),
            ..EngineSettings::default()
        };
        let changed = settings.applied_to(&engine);
        for role in [WorkerRole::Aggregated, WorkerRole::Prefill, WorkerRole::Decode] {
            let config = changed.config(role);
            assert_eq!((config.block_size.tokens(), config.max_num_seqs), (32, None));
            assert_eq!(config.max_num_batched_tokens, Some(8192));
        }
    }
}
