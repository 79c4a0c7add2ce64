//! A workload as declared in a spec.

mod fields;

use std::path::PathBuf;

use serde::Serialize;

const DEFAULT_ARRIVAL_SEED: u64 = 42;

/// What a run is loaded with: drawn from numbers, or replayed from a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum WorkloadSpec {
    /// Requests of equal size, with optional prefix groups and turns.
    Synthetic(SyntheticWorkload),
    /// Requests of a trace file.
    Trace(TraceWorkload),
}

/// A synthetic workload.
///
/// With a [`length_range_ratio`](Self::length_range_ratio) below 1, lengths differ from request to request: every one
/// is a whole number from [`least_tokens`](Self::least_tokens) of the greatest length to that length, all equally
/// likely. One stream of random numbers, seeded with [`length_seed`](Self::length_seed), draws the prompt lengths of all
/// requests, then all output lengths, both in order of session and turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyntheticWorkload {
    /// Prompt tokens of every request; the most, if lengths differ.
    pub isl: u32,
    /// Output tokens of every request; the most, if lengths differ.
    pub osl: u32,
    /// Sessions; with one turn each, requests.
    pub request_count: u32,
    /// When requests arrive.
    #[serde(flatten)]
    pub load: SyntheticLoad,
    /// Shortest length as a share of the longest, for prompts and outputs, above 0 and at most 1; 1: all are equal.
    pub length_range_ratio: f64,
    /// Seed of the lengths; without effect if all are equal.
    pub length_seed: u64,
    /// Share of each prompt's blocks that is common to its prefix group, 0 to 1. If prompt lengths differ, it is that
    /// of a prompt of the greatest length, and shorter prompts begin with as much of it as they hold.
    pub shared_prefix_ratio: f64,
    /// Distinct shared prefixes.
    pub num_prefix_groups: u32,
    /// Tokens of the blocks that shared prefixes consist of, of which there are as many as come closest to the ratio; `None`
    /// is the block size of the workers that compute prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_prefix_block_size: Option<u32>,
    /// Requests of one session, each sent after the one before has completed.
    pub turns_per_session: u32,
    /// Think time between turns, in milliseconds.
    pub inter_turn_delay_ms: f64,
    /// Seed of the Poisson gaps.
    pub arrival_seed: u64,
    /// Divides arrival times and think times; without effect in a closed loop.
    pub arrival_speedup_ratio: f64,
}

impl SyntheticWorkload {
    /// Requests of one turn each, without shared prefixes.
    pub fn new(isl: u32, osl: u32, request_count: u32, load: SyntheticLoad) -> Self {
        Self {
            isl,
            osl,
            request_count,
            load,
            length_range_ratio: 1.0,
            length_seed: 0,
            shared_prefix_ratio: 0.0,
            num_prefix_groups: 0,
            shared_prefix_block_size: None,
            turns_per_session: 1,
            inter_turn_delay_ms: 0.0,
            arrival_seed: DEFAULT_ARRIVAL_SEED,
            arrival_speedup_ratio: 1.0,
        }
    }

    /// The shortest of lengths that go up to `most_tokens`: the ratio times that, rounded down, but at least 1.
    ///
    /// A product that binary fractions put just below a whole number counts as that number.
    pub fn least_tokens(&self, most_tokens: u32) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and a share of a u32 does not exceed it"
        )]
        let least = (f64::from(most_tokens) * self.length_range_ratio + 1e-6).floor() as u32;
        least.clamp(1, most_tokens.max(1))
    }

    /// Whether lengths differ between requests.
    pub fn lengths_differ(&self) -> bool {
        self.length_range_ratio < 1.0
    }
}

/// When the requests of a synthetic workload arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SyntheticLoad {
    /// Closed loop with this many requests in flight.
    Concurrency(u32),
    /// Poisson arrivals, requests per second.
    RequestRate(f64),
    /// Equal gaps, milliseconds.
    ArrivalIntervalMs(f64),
}

/// A workload replayed from a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceWorkload {
    /// The file; a relative path is resolved against the working directory.
    pub trace_file: PathBuf,
    /// Its format.
    pub trace_format: TraceFormat,
    /// Tokens per content id of the trace.
    pub trace_block_size: u32,
    /// Divides arrival times and think times; without effect in a closed loop.
    pub arrival_speedup_ratio: f64,
    /// Requests in flight of a closed loop; absent, requests arrive by timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_replay_concurrency: Option<u32>,
    /// Agentic traces: share of each first prompt's blocks that is common to its group, 0 to 1.
    pub trace_shared_prefix_ratio: f64,
    /// Agentic traces: distinct shared prefixes.
    pub trace_num_prefix_groups: u32,
}

impl TraceWorkload {
    /// A Mooncake trace replayed by its timestamps, 512 tokens per content id.
    pub fn new(trace_file: impl Into<PathBuf>) -> Self {
        Self {
            trace_file: trace_file.into(),
            trace_format: TraceFormat::Mooncake,
            trace_block_size: 512,
            arrival_speedup_ratio: 1.0,
            trace_replay_concurrency: None,
            trace_shared_prefix_ratio: 0.0,
            trace_num_prefix_groups: 0,
        }
    }
}

/// Format of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// One request per line with content ids.
    #[default]
    Mooncake,
    /// One session of tool calls per line.
    AppliedComputeAgentic,
}
