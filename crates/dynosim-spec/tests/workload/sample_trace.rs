//! The sample trace that comes with the repository.

use std::path::{Path, PathBuf};

use dynosim_spec::{PromptSegments, TraceWorkload, Workload, WorkloadSpec};

use crate::support::{block, mooncake, request_ids};

#[path = "../../examples/make_sample_trace.rs"]
#[expect(dead_code, reason = "the program itself is not run here")]
mod make_sample_trace;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/sample_trace.jsonl")
}

#[test]
fn the_file_is_what_its_program_writes() {
    let file = std::fs::read_to_string(sample()).expect("the sample is part of the repository");
    assert!(
        file == make_sample_trace::sample_trace(),
        "run `cargo run -p dynosim-spec --example make_sample_trace -- examples/data/sample_trace.jsonl`"
    );
    assert!(file.len() < 100_000);
}

#[test]
fn it_has_minutes_of_requests_with_shared_prefixes() {
    let spec = WorkloadSpec::Trace(TraceWorkload {
        trace_file: sample(),
        ..mooncake()
    });
    let workload = Workload::load(&spec, block(512)).expect("a good trace");
    let requests = workload.requests();
    assert!((200..600).contains(&requests.len()), "{} requests", requests.len());
    let last_ms = requests.last().map_or(0.0, |request| request.delay.as_ms());
    assert!((300_000.0..360_000.0).contains(&last_ms), "{last_ms} ms");
    assert!(requests.is_sorted_by_key(|request| request.delay));
    assert!(requests.iter().all(|request| request.output_tokens > 0));
    let segments = PromptSegments::new(&workload, block(512));
    let share_several = request_ids(&workload).filter(|&id| segments.shared_blocks(id) > 1);
    assert_eq!(share_several.count(), requests.len());
}
