//! Why nothing can be handed off.

use dynosim_spec::SpecError;
use thiserror::Error;

/// What is wrong with a candidate or a target.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The candidate's file is not JSON.
    #[error("is not JSON: {0}; give a run spec, or the result.json of a sweep")]
    Json(#[source] serde_json::Error),
    /// The run spec is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A sweep's result without candidates.
    #[error("is the result of a sweep without `candidates`; make the sweep again, or give a run spec")]
    NoCandidates,
    /// A result in a format that is not known yet.
    #[error("is a result of format {version}, written by a newer version of dynosim; use that one")]
    NewerSchema {
        /// The version of the format.
        version: u64,
    },
    /// A result whose candidates were not explained.
    #[error(
        "the result has no candidates, because the sweep was made with --quick or interrupted; make it again without, or go on \
         with --resume"
    )]
    NotExplained,
    /// The result of a comparison, which has none of its own.
    #[error(
        "compares both kinds of deployments; give the result of one of them, which is in the folder `{chosen}` beside it"
    )]
    Comparison {
        /// The folder of the kind that was chosen.
        chosen: String,
    },
    /// No candidate has the rank.
    #[error("--candidate: there is no candidate {rank}; there are {known}")]
    NoSuchRank {
        /// The rank that was asked for.
        rank: u64,
        /// The ranks that there are.
        known: String,
    },
    /// A candidate's spec is wrong.
    #[error("candidates, rank {rank}: run")]
    BadCandidate {
        /// The rank of the candidate.
        rank: u64,
        /// What is wrong.
        #[source]
        source: SpecError,
    },
    /// Not a version of Dynamo that is known.
    #[error("--dynamo-version: must be 0.5.0 to 1.6.x with three numbers, as in 1.6.1, got {given:?}; {reason}")]
    DynamoVersion {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operator of that version does not know the API version.
    #[error("--api-version: Dynamo {version} has no v1beta1, which came with 1.2.0; choose v1alpha1")]
    ApiVersion {
        /// The version of Dynamo.
        version: String,
    },
    /// Not a name that Kubernetes accepts.
    #[error(
        "{option}: must be lower-case letters, digits and hyphens, at most {most} of them, beginning with a letter and \
         ending with a letter or a digit, got {given:?}"
    )]
    Name {
        /// The option.
        option: &'static str,
        /// What was given.
        given: String,
        /// The longest that it may be.
        most: usize,
    },
    /// A budget that no engine can be given.
    #[error(
        "{role} workers: max_num_batched_tokens is unlimited, which no engine can be told, since it reserves memory for \
         it; give a number of tokens and simulate again"
    )]
    UnlimitedBudget {
        /// Role of the workers.
        role: String,
    },
    /// A spread of experts that is not described for the engine.
    #[error("topology: {shape} cannot be exported for backend sglang; choose tp alone, or backend vllm")]
    SglangExperts {
        /// The spread.
        shape: String,
    },
    /// A worker that ends in the middle of a node.
    #[error(
        "topology: a worker of {gpus} GPUs does not fill nodes of {gpus_per_node} GPUs; choose a multiple of that, or fewer"
    )]
    PartialNode {
        /// GPUs of the worker.
        gpus: u32,
        /// GPUs of a node.
        gpus_per_node: u32,
    },
    /// Nothing was served that could be measured.
    #[error("no request was served, so there is nothing to be expected")]
    NothingServed,
}
