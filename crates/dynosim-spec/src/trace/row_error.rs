//! What can be wrong with a row of a trace.

use thiserror::Error;

use crate::workload_error::WorkloadError;

/// What is wrong with a row of a trace; [`WorkloadError::Row`] says which row.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TraceRowError {
    /// The line is no JSON object, or one with a doubled key.
    #[error("not readable as a JSON object: {message}; every line of a trace is one")]
    NotAnObject {
        /// What the JSON reader says.
        message: String,
    },
    /// A field that every row needs is missing or null.
    #[error("`{field}` is missing; every row needs it in format `{format}` (`workload.traceFormat`)")]
    Missing {
        /// The field.
        field: &'static str,
        /// The format, as it is spelt in a spec.
        format: &'static str,
    },
    /// A field is given under two names.
    #[error("`{field}` is given twice, the second time as `{alias}`; keep one of them")]
    Twice {
        /// The field.
        field: &'static str,
        /// Its other name.
        alias: &'static str,
    },
    /// A field holds something of the wrong kind or out of range.
    #[error("`{field}` is {value}; it must be {expected}")]
    Value {
        /// The field, with the index in case of a list.
        field: String,
        /// What it holds.
        value: String,
        /// What it must hold.
        expected: &'static str,
    },
    /// The prompt has no tokens.
    #[error("`{field}` is {value}, so the prompt is empty; give it at least one token or remove the row")]
    EmptyPrompt {
        /// The field that says so.
        field: &'static str,
        /// What it holds.
        value: &'static str,
    },
    /// The prompt is longer than its content ids reach.
    #[error(
        "`input_length` is {input_length}, but its {ids} `hash_ids` of {block_tokens} tokens hold only {capacity}; correct the row or set `workload.traceBlockSize`"
    )]
    BeyondIds {
        /// Prompt tokens.
        input_length: u32,
        /// Number of content ids.
        ids: usize,
        /// Tokens per content id.
        block_tokens: u32,
        /// Tokens that the ids hold.
        capacity: u64,
    },
    /// The prompt is longer than any prompt may be.
    #[error("the prompt has {tokens} tokens; at most {max} are possible", max = u32::MAX)]
    PromptTooLong {
        /// Prompt tokens.
        tokens: u64,
    },
    /// A session has no start although it is to arrive by timestamp.
    #[error(
        "`timestamp` is missing on the first row of a session; add it, or set `workload.traceReplayConcurrency` to replay in a closed loop"
    )]
    NoTimestamp,
    /// A session starts before zero where nothing shifts it.
    #[error("`timestamp` is {value}; in a closed loop it must not be negative, remove it or make it 0")]
    NegativeTimestamp {
        /// The timestamp in milliseconds.
        value: f64,
    },
    /// A think time before the first request of a session.
    #[error(
        "`delay` is {value} on the first row of a session; it counts from the end of the turn before, so remove it or make it 0"
    )]
    DelayOnFirstTurn {
        /// The delay in milliseconds.
        value: f64,
    },
    /// The timestamps of a session run backwards.
    #[error(
        "`timestamp` is {value}, earlier than {previous} in the row before of the same session; sort the rows or give a `delay`"
    )]
    TimestampBackwards {
        /// The timestamp in milliseconds.
        value: f64,
        /// The timestamp before, in milliseconds.
        previous: f64,
    },
    /// A turn has a timestamp, but no turn before it has.
    #[error(
        "`timestamp` is {value}, but no earlier row of the session has one to count the think time from; give a `delay`"
    )]
    NothingToCountFrom {
        /// The timestamp in milliseconds.
        value: f64,
    },
    /// An arrival or a think time is longer than the simulated clock runs.
    #[error("the request is to be sent after {value:e} ms; the clock ends after 584 years, correct `{field}`")]
    BeyondClock {
        /// The field it follows from.
        field: &'static str,
        /// The span in milliseconds.
        value: f64,
    },
    /// A list of an agentic session has the wrong length.
    #[error("`{field}` has length {length}, but `num_turns` is {num_turns}; give one entry for every turn")]
    ListLength {
        /// The field.
        field: &'static str,
        /// Its number of entries.
        length: usize,
        /// Turns of the session.
        num_turns: u32,
    },
    /// The prompts read so far have more content blocks than can be kept.
    #[error(
        "the prompts up to here have more than {max} blocks of {block_tokens} tokens; raise `workload.traceBlockSize`"
    )]
    TooManyBlocks {
        /// The limit.
        max: u64,
        /// Tokens per block.
        block_tokens: u32,
    },
}

impl TraceRowError {
    /// The error with its place.
    pub(super) fn at(self, path: &str, line: usize) -> WorkloadError {
        WorkloadError::Row {
            path: path.to_owned(),
            line,
            problem: self,
        }
    }
}
