//! What is wrong with a Mooncake trace, in words.

use dynosim_spec::TraceWorkload;

use crate::support::{check_error, closed, mooncake};

#[track_caller]
fn check(line: &str, expected: &str) {
    check_error(&mooncake(), line, &format!("t.jsonl, line 1: {expected}"));
}

/// Checks the error of the last row.
#[track_caller]
fn check_last(spec: &TraceWorkload, lines: &str, expected: &str) {
    let last = lines.lines().count();
    check_error(spec, lines, &format!("t.jsonl, line {last}: {expected}"));
}

#[test]
fn rows_that_are_no_objects() {
    check(
        r#"{"timestamp": 0, "#,
        "not readable as a JSON object: EOF while parsing a value at column 16; every line of a trace is one",
    );
    check(
        "timestamp,input_length",
        "not readable as a JSON object: expected ident at column 2; every line of a trace is one",
    );
    check(
        "[0, null, 6, null, 1, null, null, null, null, [1]]",
        "not readable as a JSON object: it is a list; every line of a trace is one",
    );
    check(
        r#"{"timestamp": 1e999, "output_length": 1, "hash_ids": [1]}"#,
        "not readable as a JSON object: number out of range at column 19; every line of a trace is one",
    );
    check(
        r#"{"timestamp": 1, "timestamp": 2, "output_length": 1, "hash_ids": [1]}"#,
        "not readable as a JSON object: duplicate field `timestamp` at column 28; every line of a trace is one",
    );
    check_last(
        &mooncake(),
        "{\"timestamp\": 0, \"output_length\": 1, \"hash_ids\": [1]}\n\n7",
        "not readable as a JSON object: it is a number; every line of a trace is one",
    );
}

#[test]
fn missing_fields() {
    let ids = "`hash_ids` is missing; every row needs it in format `mooncake` (`workload.traceFormat`)";
    check(r#"{"timestamp": 0, "output_length": 1}"#, ids);
    check(r#"{"timestamp": 0, "output_length": 1, "hash_ids": null}"#, ids);
    check(
        r#"{"timestamp": 0, "hash_ids": [1]}"#,
        "`output_length` is missing; every row needs it in format `mooncake` (`workload.traceFormat`)",
    );
}

#[test]
fn fields_given_under_two_names() {
    check(
        r#"{"timestamp": 0, "created_time": 0, "output_length": 1, "hash_ids": [1]}"#,
        "`timestamp` is given twice, the second time as `created_time`; keep one of them",
    );
    check(
        r#"{"input_length": 1, "input_tokens": 1, "output_length": 1, "hash_ids": [1]}"#,
        "`input_length` is given twice, the second time as `input_tokens`; keep one of them",
    );
    check(
        r#"{"output_length": 1, "output_tokens": 1, "hash_ids": [1]}"#,
        "`output_length` is given twice, the second time as `output_tokens`; keep one of them",
    );
    check(
        r#"{"delay": 1, "delay_ms": 1, "output_length": 1, "hash_ids": [1]}"#,
        "`delay` is given twice, the second time as `delay_ms`; keep one of them",
    );
}

#[test]
fn values_of_the_wrong_kind() {
    let count = "it must be a whole number from 0 to 4294967295";
    let id = "it must be a whole number from 0 to 18446744073709551615";
    check(
        r#"{"timestamp": "0", "output_length": 1, "hash_ids": [1]}"#,
        r#"`timestamp` is "0"; it must be a number"#,
    );
    check(
        r#"{"output_length": -1, "hash_ids": [1]}"#,
        &format!("`output_length` is -1; {count}"),
    );
    check(
        r#"{"input_tokens": 6.0, "output_length": 1, "hash_ids": [1]}"#,
        &format!("`input_tokens` is 6.0; {count}"),
    );
    check(
        r#"{"output_length": 4294967296, "hash_ids": [1]}"#,
        &format!("`output_length` is 4294967296; {count}"),
    );
    check(
        r#"{"output_length": 1, "hash_ids": [1, 2, 3.0]}"#,
        &format!("`hash_ids[2]` is 3.0; {id}"),
    );
    check(
        r#"{"output_length": 1, "hash_ids": [-4]}"#,
        &format!("`hash_ids[0]` is -4; {id}"),
    );
    check(
        r#"{"output_length": 1, "hash_ids": [1, 18446744073709551616]}"#,
        &format!("`hash_ids[1]` is 1.8446744073709552e+19; {id}"),
    );
    check(
        r#"{"output_length": 1, "hash_ids": "abc"}"#,
        r#"`hash_ids` is "abc"; it must be a list"#,
    );
    check(
        r#"{"output_length": 1, "hash_ids": [1], "session_id": 7}"#,
        "`session_id` is 7; it must be a string",
    );
    check(
        r#"{"output_length": {"tokens": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}, "hash_ids": [1]}"#,
        &format!(r#"`output_length` is {{"tokens":[1,2,3,4,5,6,7,8,9,10,11,12,13...; {count}"#),
    );
}

#[test]
fn prompts_that_do_not_fit_their_ids() {
    check(
        r#"{"timestamp": 0, "output_length": 1, "hash_ids": []}"#,
        "`hash_ids` is [], so the prompt is empty; give it at least one token or remove the row",
    );
    check(
        r#"{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": [1]}"#,
        "`input_length` is 0, so the prompt is empty; give it at least one token or remove the row",
    );
    check(
        r#"{"timestamp": 0, "input_length": 1025, "output_length": 1, "hash_ids": [1, 2]}"#,
        "`input_length` is 1025, but its 2 `hash_ids` of 512 tokens hold only 1024; \
         correct the row or set `workload.traceBlockSize`",
    );
    let huge_blocks = TraceWorkload {
        trace_block_size: u32::MAX,
        ..mooncake()
    };
    check_last(
        &huge_blocks,
        r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1, 2]}"#,
        "the prompt has 8589934590 tokens; at most 4294967295 are possible",
    );
}

#[test]
fn sessions_that_do_not_say_when() {
    let needed = "`timestamp` is missing on the first row of a session; add it, or set \
                  `workload.traceReplayConcurrency` to replay in a closed loop";
    check(r#"{"output_length": 1, "hash_ids": [1]}"#, needed);
    check(r#"{"timestamp": null, "output_length": 1, "hash_ids": [1]}"#, needed);
    check_last(
        &mooncake(),
        r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1], "session_id": "a"}
{"delay": 0, "output_length": 1, "hash_ids": [1], "session_id": "b"}"#,
        needed,
    );
    check_last(
        &closed(2),
        r#"{"output_length": 1, "hash_ids": [1], "session_id": "a"}
{"timestamp": 5, "output_length": 1, "hash_ids": [1], "session_id": "a"}"#,
        "`timestamp` is 5, but no earlier row of the session has one to count the think time from; give a `delay`",
    );
}

#[test]
fn times_that_cannot_be() {
    check(
        r#"{"timestamp": 0, "delay": 20, "output_length": 1, "hash_ids": [1]}"#,
        "`delay` is 20 on the first row of a session; it counts from the end of the turn before, \
         so remove it or make it 0",
    );
    let turns = |row: &str| {
        format!("{{\"timestamp\": 50, \"output_length\": 1, \"hash_ids\": [1], \"session_id\": \"a\"}}\n{row}")
    };
    check_last(
        &mooncake(),
        &turns(r#"{"delay_ms": -0.5, "output_length": 1, "hash_ids": [1], "session_id": "a"}"#),
        "`delay` is -0.5; it must be a number of milliseconds from 0",
    );
    check_last(
        &mooncake(),
        &turns(r#"{"timestamp": 49.5, "output_length": 1, "hash_ids": [1], "session_id": "a"}"#),
        "`timestamp` is 49.5, earlier than 50 in the row before of the same session; sort the rows or give a `delay`",
    );
    check_last(
        &closed(1),
        r#"{"timestamp": -3, "output_length": 1, "hash_ids": [1]}"#,
        "`timestamp` is -3; in a closed loop it must not be negative, remove it or make it 0",
    );
    check_last(
        &mooncake(),
        &turns(r#"{"timestamp": 1e200, "output_length": 1, "hash_ids": [1]}"#),
        "the request is to be sent after 1e200 ms; the clock ends after 584 years, correct `timestamp`",
    );
    check_last(
        &mooncake(),
        &turns(r#"{"delay": 1e14, "output_length": 1, "hash_ids": [1], "session_id": "a"}"#),
        "the request is to be sent after 1e14 ms; the clock ends after 584 years, correct `delay`",
    );
}

#[test]
fn specs_that_cannot_be() {
    let row = r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1]}"#;
    let no_blocks = TraceWorkload {
        trace_block_size: 0,
        ..mooncake()
    };
    check_error(&no_blocks, row, "`workload.traceBlockSize` is 0; it must be at least 1");
    check_error(
        &closed(0),
        row,
        "`workload.traceReplayConcurrency` is 0; it must be at least 1",
    );
    let standing_still = TraceWorkload {
        arrival_speedup_ratio: 0.0,
        ..mooncake()
    };
    check_error(
        &standing_still,
        row,
        "`workload.arrivalSpeedupRatio` is 0; it must be a finite number above 0",
    );
}
