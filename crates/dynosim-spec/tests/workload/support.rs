//! What the tests of workloads have in common.

use std::path::{Path, PathBuf};

use dynosim_spec::{
    BlockSize, PromptSegments, RequestId, TraceFormat, TraceWorkload, Workload, WorkloadError, read_trace,
};

pub(crate) fn block(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).expect("not zero")
}

/// A Mooncake trace in blocks of 512, replayed by timestamp.
pub(crate) fn mooncake() -> TraceWorkload {
    TraceWorkload {
        trace_file: PathBuf::from("t.jsonl"),
        trace_format: TraceFormat::Mooncake,
        trace_block_size: 512,
        arrival_speedup_ratio: 1.0,
        trace_replay_concurrency: None,
        trace_shared_prefix_ratio: 0.0,
        trace_num_prefix_groups: 0,
    }
}

/// A Mooncake trace in a closed loop.
pub(crate) fn closed(concurrency: u32) -> TraceWorkload {
    TraceWorkload {
        trace_replay_concurrency: Some(concurrency),
        ..mooncake()
    }
}

/// An agentic trace in blocks of 64.
pub(crate) fn agentic(ratio: f64, groups: u32) -> TraceWorkload {
    TraceWorkload {
        trace_format: TraceFormat::AppliedComputeAgentic,
        trace_block_size: 64,
        trace_shared_prefix_ratio: ratio,
        trace_num_prefix_groups: groups,
        ..closed(4)
    }
}

pub(crate) fn read(spec: &TraceWorkload, lines: &str) -> Result<Workload, WorkloadError> {
    read_trace(lines.as_bytes(), "t.jsonl", spec)
}

#[track_caller]
pub(crate) fn check_error(spec: &TraceWorkload, lines: &str, expected: &str) {
    match read(spec, lines) {
        Ok(workload) => panic!("{lines} gave {} requests", workload.requests().len()),
        Err(error) => assert_eq!(error.to_string(), expected, "{lines}"),
    }
}

/// Session, turn, prompt tokens, output tokens and delay in nanoseconds of every request.
pub(crate) fn rows(workload: &Workload) -> Vec<(u32, u32, u32, u32, u64)> {
    let requests = workload.requests().iter();
    requests
        .map(|request| {
            let nanos = request.delay.as_nanos();
            (
                request.session,
                request.turn,
                request.input_tokens,
                request.output_tokens,
                nanos,
            )
        })
        .collect()
}

pub(crate) fn request_ids(workload: &Workload) -> impl Iterator<Item = RequestId> + use<> {
    (0..u32::try_from(workload.requests().len()).expect("few")).map(RequestId::new)
}

/// Full engine blocks that two prompts have in common.
pub(crate) fn common_blocks(segments: &PromptSegments, a: RequestId, b: RequestId) -> u32 {
    let pairs = segments.path(a).iter().zip(segments.path(b));
    pairs
        .take_while(|(a, b)| a == b)
        .map(|(&segment, _)| segments.segment_blocks(segment))
        .sum()
}

/// Checks prompts against their tokens written out, one token after the other.
#[track_caller]
pub(crate) fn check_content<T: PartialEq>(workload: &Workload, block_size: BlockSize, prompts: &[Vec<T>]) {
    assert_eq!(workload.requests().len(), prompts.len());
    let segments = PromptSegments::new(workload, block_size);
    for (a, a_tokens) in request_ids(workload).zip(prompts) {
        assert_eq!(workload.request(a).input_tokens as usize, a_tokens.len());
        for (b, b_tokens) in request_ids(workload).zip(prompts).filter(|&(b, _)| b != a) {
            let pairs = a_tokens.iter().zip(b_tokens);
            let same_tokens = pairs.take_while(|(a, b)| a == b).count();
            let expected = block_size.full_blocks(u32::try_from(same_tokens).expect("short"));
            assert_eq!(common_blocks(&segments, a, b), expected, "requests {a:?} and {b:?}");
        }
    }
}

/// A file of the public traces, which are not part of the repository; `None` where they are absent.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn public_trace(name: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let path = workspace.join("../shared/traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}
