//! Trace files that are not what they should be.

use std::fs;
use std::path::PathBuf;

use dynosim_spec::{TraceWorkload, Workload, WorkloadSpec, read_trace};
use proptest::prelude::*;

use crate::support::{agentic, block, check_error, closed, mooncake};

/// A path that only this test uses.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn load_error(trace_file: PathBuf) -> String {
    let spec = WorkloadSpec::Trace(TraceWorkload {
        trace_file,
        ..mooncake()
    });
    match Workload::load(&spec, block(64)) {
        Ok(_) => "loaded".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_is_read() {
    let file = path("good.jsonl");
    fs::write(&file, r#"{"timestamp": 9, "output_length": 1, "hash_ids": [1]}"#).expect("writable");
    assert_eq!(load_error(file), "loaded");
}

#[test]
fn a_missing_file_is_named() {
    let file = path("missing.jsonl");
    let error = load_error(file.clone());
    let start = format!("trace file {} cannot be opened: ", file.display());
    assert!(error.starts_with(&start), "{error}");
    assert!(error.ends_with("; check `workload.traceFile`"), "{error}");
}

#[test]
fn a_directory_is_no_file() {
    let directory = path("");
    assert_eq!(
        load_error(directory.clone()),
        format!(
            "trace file {} is a directory; name the file inside it",
            directory.display()
        )
    );
}

#[test]
fn a_file_without_rows_is_refused() {
    let empty = "t.jsonl holds no requests; every line of a trace is one JSON object";
    for nothing in ["", "\n", " \r\n\t\n", "\u{feff}"] {
        check_error(&mooncake(), nothing, empty);
    }
}

#[test]
fn a_pointer_of_git_lfs_is_recognised() {
    check_error(
        &mooncake(),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "t.jsonl is a Git LFS pointer and not the trace itself; fetch it with `git lfs pull`",
    );
}

#[test]
fn what_is_not_text_is_refused() {
    let check = |bytes: &[u8], line: usize| {
        let error = read_trace(bytes, "t.jsonl", &mooncake()).err();
        assert_eq!(
            error.map(|error| error.to_string()),
            Some(format!(
                "t.jsonl, line {line}: not UTF-8 text; a trace is plain JSON lines, so unpack it or convert its encoding first"
            ))
        );
    };
    check(b"\x1f\x8b\x08\x00", 1);
    check(b"\xff\xfe{\x00}\x00", 1);
    check(
        b"{\"timestamp\": 0, \"output_length\": 1, \"hash_ids\": [1]}\n{\"name\": \"\xe9\"}",
        2,
    );
}

#[test]
fn a_source_that_fails_is_reported_with_its_line() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the cable is out"))
        }
    }
    let error = read_trace(std::io::BufReader::new(Failing), "t.jsonl", &mooncake()).err();
    assert_eq!(
        error.map(|error| error.to_string()),
        Some("t.jsonl, line 1: reading failed: the cable is out".to_owned())
    );
}

/// Rows made of right and wrong pieces.
fn rows() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec![
        "timestamp",
        "created_time",
        "delay",
        "input_length",
        "output_length",
        "hash_ids",
        "session_id",
        "num_turns",
        "input_prompt_length",
        "assistant_response_length",
        "tool_call_output_length",
        "tool_call_latency",
        "final_assistant_response_length",
    ]);
    let value = prop::sample::select(vec![
        "0",
        "1",
        "-1",
        "0.5",
        "1e308",
        "-1e308",
        "1e999",
        "4294967295",
        "18446744073709551615",
        "null",
        "[]",
        "[1]",
        "[0, 18446744073709551615]",
        "[-1e300]",
        "\"a\"",
        "{}",
        "tru",
    ]);
    let row = prop::collection::btree_map(key, value, 0..9).prop_map(|fields| {
        let fields: Vec<String> = fields
            .iter()
            .map(|(key, value)| format!("\"{key}\": {value}"))
            .collect();
        format!("{{{}}}\n", fields.join(", ")).into_bytes()
    });
    let piece = prop_oneof![9 => row, 1 => prop::collection::vec(any::<u8>(), 0..9)];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_in_a_file_can_cause_a_panic(bytes in rows(), block_tokens in prop_oneof![Just(512), Just(u32::MAX)]) {
        for spec in [mooncake(), closed(1), agentic(0.5, 1)] {
            let spec = TraceWorkload { trace_block_size: block_tokens, ..spec };
            if let Ok(workload) = read_trace(bytes.as_slice(), "t.jsonl", &spec) {
                prop_assert!(!workload.requests().is_empty());
            }
        }
    }
}
