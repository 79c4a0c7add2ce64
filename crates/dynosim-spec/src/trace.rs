//! Workloads replayed from trace files.

mod agentic;
mod agentic_row;
mod lines;
mod mooncake;
mod mooncake_row;
mod row_error;
mod row_fields;

use std::fs::File;
use std::io::{BufRead, BufReader};

pub use row_error::TraceRowError;

use self::agentic::SharedPrefixes;
use self::lines::Lines;
use crate::units::BlockSize;
use crate::workload::{Admission, Workload};
use crate::workload_checks as checks;
use crate::workload_error::WorkloadError;
use crate::workload_spec::{TraceFormat, TraceWorkload};

const READ_BUFFER_BYTES: usize = 128 * 1024;

/// Reads a trace from any source; `name` stands for the file in errors, `spec.trace_file` is not looked at.
///
/// ```
/// use dynosim_spec::{TraceFormat, TraceWorkload, read_trace};
///
/// let spec = TraceWorkload {
///     trace_file: "memory".into(),
///     trace_format: TraceFormat::Mooncake,
///     trace_block_size: 512,
///     arrival_speedup_ratio: 1.0,
///     trace_replay_concurrency: None,
///     trace_shared_prefix_ratio: 0.0,
///     trace_num_prefix_groups: 0,
/// };
/// let lines = r#"{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [1, 2]}
/// {"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [1, 3]}"#;
/// let workload = read_trace(lines.as_bytes(), "memory", &spec)?;
/// assert_eq!(workload.requests().len(), 2);
/// assert_eq!(workload.prompts().node_count(), 3, "both begin with block 1");
/// # Ok::<(), dynosim_spec::WorkloadError>(())
/// ```
///
/// # Errors
///
/// If reading fails, if there are no rows, or if one of them makes no sense: see [`WorkloadError`].
pub fn read_trace(lines: impl BufRead, name: &str, spec: &TraceWorkload) -> Result<Workload, WorkloadError> {
    let lines = Lines::new(lines, name);
    let block_size = BlockSize::new(spec.trace_block_size)
        .ok_or_else(|| checks::impossible("traceBlockSize", spec.trace_block_size, "at least 1"))?;
    let concurrency = spec.trace_replay_concurrency;
    let concurrency = concurrency.map(|value| checks::count("traceReplayConcurrency", value));
    match (spec.trace_format, concurrency.transpose()?) {
        (TraceFormat::Mooncake, None) => {
            let speedup = checks::positive("arrivalSpeedupRatio", spec.arrival_speedup_ratio)?;
            mooncake::read(lines, block_size, Admission::OpenLoop, speedup)
        }
        (TraceFormat::Mooncake, Some(concurrency)) => {
            mooncake::read(lines, block_size, Admission::ClosedLoop { concurrency }, 1.0)
        }
        (TraceFormat::AppliedComputeAgentic, None) => Err(WorkloadError::ConcurrencyNeeded),
        (TraceFormat::AppliedComputeAgentic, Some(concurrency)) => {
            let prefixes = SharedPrefixes {
                ratio: checks::share("traceSharedPrefixRatio", spec.trace_shared_prefix_ratio)?,
                groups: spec.trace_num_prefix_groups,
            };
            agentic::read(lines, block_size, concurrency, prefixes)
        }
    }
}

/// Reads the trace file that a spec names.
pub(crate) fn read_trace_file(spec: &TraceWorkload) -> Result<Workload, WorkloadError> {
    let path = spec.trace_file.display().to_string();
    if spec.trace_file.is_dir() {
        return Err(WorkloadError::Directory { path });
    }
    match File::open(&spec.trace_file) {
        Ok(file) => read_trace(BufReader::with_capacity(READ_BUFFER_BYTES, file), &path, spec),
        Err(source) => Err(WorkloadError::Open { path, source }),
    }
}
