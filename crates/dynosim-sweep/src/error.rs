//! Why a sweep has no result.

use dynosim_spec::{SpecError, WorkerRole};
use thiserror::Error;

use crate::left_out::left_out_by_reason;
use crate::state::Mode;
use crate::worker_shapes::LeftOutTp;

/// Why a sweep cannot be made. What goes wrong with a single candidate is no error but part of the result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The spec breaks its rules.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The budget is so large that enumerating its candidates makes no sense.
    #[error("hardware.totalGpus is {budget}; a sweep enumerates candidates up to a budget of {most} GPUs")]
    BudgetTooLarge {
        /// The budget.
        budget: u32,
        /// The largest that is accepted.
        most: u32,
    },
    /// No tensor-parallel size works for the workers of a role.
    #[error(
        "no tensor-parallel size can be used for {} workers of {model} on {system}{}",
        *role,
        left_out_list(left_out)
    )]
    NoUsableTp {
        /// Role of the workers.
        role: WorkerRole,
        /// Model.
        model: String,
        /// GPU system.
        system: String,
        /// Sizes that were tried, with the reasons.
        left_out: Vec<LeftOutTp>,
    },
    /// Not even the smallest deployment fits.
    #[error(
        "a budget of {budget} GPU{} is too small: the smallest {mode} deployment needs {needed} ({parts}){}",
        if *budget == 1 { "" } else { "s" },
        left_out_list(left_out)
    )]
    BudgetTooSmall {
        /// The budget.
        budget: u32,
        /// Kind of deployment.
        mode: Mode,
        /// GPUs of the smallest deployment.
        needed: u64,
        /// What that deployment consists of.
        parts: String,
        /// Sizes that cannot be used, with the reasons.
        left_out: Vec<LeftOutTp>,
    },
    /// The budget is wide enough, but no deployment has a number of GPUs within it.
    #[error(
        "no {mode} deployment uses {least} to {most} GPUs; set hardware.minGpus to a smaller or hardware.totalGpus to a larger number"
    )]
    BudgetTooNarrow {
        /// Kind of deployment.
        mode: Mode,
        /// The least number of GPUs.
        least: u32,
        /// The largest number of GPUs.
        most: u32,
    },
    /// An exhaustive search would have to go through too many states.
    #[error(
        "the space has {states} states, and an exhaustive search goes through at most {most}; use search.strategy \
         descent, or narrow the space by a smaller hardware.totalGpus, a larger hardware.minGpus, fewer router settings or \
         fewer values in search.engineArgs"
    )]
    SpaceTooLarge {
        /// States of the space.
        states: u64,
        /// As many as are gone through.
        most: u64,
    },
    /// A trade-off about what is no metric.
    #[error("pareto: there is no trade-off in {metric}; {hint}")]
    NoTradeOff {
        /// What was named.
        metric: String,
        /// What might have been meant.
        hint: String,
    },
    /// Shards are parts of an exhaustive search.
    #[error("a shard is a part of an exhaustive search: set search.strategy to exhaustive")]
    ShardOfDescent,
    /// None of several kinds of deployment can be searched.
    #[error("{}", reasons.join("; "))]
    NoMode {
        /// What is wrong with each.
        reasons: Vec<String>,
    },
    /// Neither side of a comparison has a result.
    #[error("neither kind of deployment can be searched; aggregated: {agg}; disaggregated: {disagg}")]
    NothingToCompare {
        /// What is wrong with aggregated deployments.
        agg: Box<SweepError>,
        /// What is wrong with disaggregated deployments.
        #[source]
        disagg: Box<SweepError>,
    },
    /// Somebody asked to stop before any simulation had ended.
    #[error("stopped before the first simulation ended")]
    Stopped,
    /// The threads that run simulations cannot be started.
    #[error("cannot start {threads} threads for simulations; set maxParallelEvals to a smaller number")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// What the thread pool says.
        #[source]
        source: rayon::ThreadPoolBuildError,
    },
    /// A table cannot be written.
    #[error("cannot write a table of evaluated states")]
    Csv(#[from] csv::Error),
    /// The result cannot be turned into JSON.
    #[error("cannot turn the result of a sweep into JSON")]
    Json(#[from] serde_json::Error),
}

fn left_out_list(left_out: &[LeftOutTp]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    format!("; left out: {}", left_out_by_reason(left_out).join("; "))
}
