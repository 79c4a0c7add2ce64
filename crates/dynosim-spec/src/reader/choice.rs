//! Values that are one of a few words.

use serde::Serialize;
use serde_json::Value;

use super::rule::Rule;
use crate::engine::{Backend, PreemptionMode, QueuePolicy, Rules, SchedulePolicy, WorkerRole};
use crate::model::WeightFormat;
use crate::router::RouterMode;
use crate::spec::{Objective, Prune, SearchStrategy, StepTerm, SweepRouterMode, TimingKind};
use crate::workload_spec::TraceFormat;

/// A type whose values are words; the words are those it is serialised as.
pub(crate) trait Choice: Copy + Serialize + 'static {
    /// Every value.
    const ALL: &[Self];

    /// The word for a value.
    fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            other => unreachable!("unit variants are serialised as text, not as {other:?}"),
        }
    }
}

/// One of the words of a [`Choice`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneOf;

impl<T: Choice> Rule<T> for OneOf {
    fn wanted(&self) -> String {
        let words: Vec<String> = T::ALL.iter().map(|value| value.word()).collect();
        match words.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            words => words.concat(),
        }
    }

    fn read(&self, json: &Value) -> Option<T> {
        let word = json.as_str()?;
        T::ALL.iter().copied().find(|value| value.word() == word)
    }

    fn admits(&self, _value: &T) -> bool {
        true
    }

    fn show(&self, value: &T) -> String {
        value.word()
    }
}

impl Choice for Backend {
    const ALL: &[Self] = &[Self::Vllm, Self::Sglang];
}

impl Choice for Rules {
    const ALL: &[Self] = &[Self::VllmV1Async, Self::VllmV1, Self::Dynosim12];
}

impl Choice for WeightFormat {
    const ALL: &[Self] = &[Self::Bfloat16, Self::Fp8PerTensor, Self::Fp8Block];
}

impl Choice for StepTerm {
    const ALL: &[Self] = Self::ALL;
}

impl Choice for WorkerRole {
    const ALL: &[Self] = &[Self::Aggregated, Self::Prefill, Self::Decode];
}

impl Choice for PreemptionMode {
    const ALL: &[Self] = &[Self::Lifo, Self::Fifo];
}

impl Choice for SchedulePolicy {
    const ALL: &[Self] = &[Self::Fifo, Self::Lpm];
}

impl Choice for QueuePolicy {
    const ALL: &[Self] = &[Self::Fcfs, Self::Lcfs, Self::Wspt];
}

impl Choice for RouterMode {
    const ALL: &[Self] = &[Self::RoundRobin, Self::KvRouter];
}

impl Choice for SweepRouterMode {
    const ALL: &[Self] = &[Self::KvRouter, Self::RoundRobin, Self::Both];
}

impl Choice for TimingKind {
    const ALL: &[Self] = &[Self::Table, Self::Roofline, Self::Polynomial];
}

impl Choice for Objective {
    const ALL: &[Self] = Objective::ALL;
}

impl Choice for SearchStrategy {
    const ALL: &[Self] = &[Self::Descent, Self::Exhaustive];
}

impl Choice for Prune {
    const ALL: &[Self] = &[Self::None, Self::Infeasible, Self::Worse];
}

impl Choice for TraceFormat {
    const ALL: &[Self] = &[Self::Mooncake, Self::AppliedComputeAgentic];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_listed_in_words() {
        assert_eq!(Rule::<Backend>::wanted(&OneOf), "vllm or sglang");
        assert_eq!(Rule::<Rules>::wanted(&OneOf), "vllm-v1-async, vllm-v1 or dynosim-1.2");
        assert_eq!(
            Rule::<Objective>::wanted(&OneOf),
            "throughput, throughput_per_gpu, goodput, mean_ttft, mean_e2e_latency, p99_ttft, p99_itl, \
             p99_e2e_latency, min_gpus or cost"
        );
    }
}
