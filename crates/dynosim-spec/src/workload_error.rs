//! Why a workload cannot be had.

use std::io;

use thiserror::Error;

use crate::trace::TraceRowError;

/// Requests that one workload may have at most.
pub(crate) const MAX_REQUESTS: u64 = 100_000_000;

/// Why a workload could not be drawn or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A field of the workload spec has a value that means nothing.
    #[error("`workload.{field}` is {value}; it must be {expected}")]
    Field {
        /// The field as it is spelt in a spec.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// More requests than a workload may have.
    #[error(
        "the workload has more than {max} requests; lower `requestCount` or `turnsPerSession`, or shorten the trace",
        max = MAX_REQUESTS
    )]
    TooManyRequests,
    /// The trace format knows no timestamps, so it can only run in a closed loop.
    #[error(
        "traces in format `applied_compute_agentic` hold no timestamps; set `workload.traceReplayConcurrency` to the number of requests in flight"
    )]
    ConcurrencyNeeded,
    /// The trace file cannot be opened.
    #[error("trace file {path} cannot be opened: {source}; check `workload.traceFile`")]
    Open {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The trace file is a directory.
    #[error("trace file {path} is a directory; name the file inside it")]
    Directory {
        /// The directory.
        path: String,
    },
    /// Reading failed half-way.
    #[error("{path}, line {line}: reading failed: {source}")]
    Read {
        /// The trace.
        path: String,
        /// Line that was being read, from 1.
        line: usize,
        /// What the system says.
        source: io::Error,
    },
    /// The trace is not text.
    #[error(
        "{path}, line {line}: not UTF-8 text; a trace is plain JSON lines, so unpack it or convert its encoding first"
    )]
    NotText {
        /// The trace.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// A line has no end in sight.
    #[error("{path}, line {line}: longer than 256 MiB; a trace is JSON lines, one request or session each")]
    LineTooLong {
        /// The trace.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// The trace is a stand-in that Git LFS left for the real file.
    #[error("{path} is a Git LFS pointer and not the trace itself; fetch it with `git lfs pull`")]
    LfsPointer {
        /// The trace.
        path: String,
    },
    /// The trace has no rows.
    #[error("{path} holds no requests; every line of a trace is one JSON object")]
    Empty {
        /// The trace.
        path: String,
    },
    /// A row of the trace is wrong.
    #[error("{path}, line {line}: {problem}")]
    Row {
        /// The trace.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: TraceRowError,
    },
}
