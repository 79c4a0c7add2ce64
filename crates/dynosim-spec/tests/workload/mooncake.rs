//! What Mooncake traces mean.

use dynosim_spec::{Admission, RequestId, TraceWorkload, Workload};
use proptest::prelude::*;

use crate::support::{block, check_content, closed, mooncake, read, rows};

fn loaded(spec: &TraceWorkload, lines: &str) -> Workload {
    match read(spec, lines) {
        Ok(workload) => workload,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn check_rows(spec: &TraceWorkload, lines: &str, expected: &[(u32, u32, u32, u32, u64)]) {
    assert_eq!(rows(&loaded(spec, lines)), expected, "{lines}");
}

#[test]
fn arrivals_count_from_the_earliest() {
    let lines = r#"
        {"timestamp": 30.5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}

        {"timestamp": -10, "input_length": 512, "output_length": 0, "hash_ids": [1]}
    "#;
    check_rows(&mooncake(), lines, &[(0, 0, 600, 3, 40_500_000), (1, 0, 512, 0, 0)]);
    let faster = TraceWorkload {
        arrival_speedup_ratio: 2.0,
        ..mooncake()
    };
    check_rows(&faster, lines, &[(0, 0, 600, 3, 20_250_000), (1, 0, 512, 0, 0)]);
}

#[test]
fn aliases_stand_for_their_fields() {
    let lines = r#"{"created_time": 5, "input_tokens": 100, "output_tokens": 3, "hash_ids": [1], "session_id": "s"}
{"input_tokens": 100, "output_tokens": 3, "hash_ids": [1], "session_id": "s", "delay_ms": 7}"#;
    check_rows(&mooncake(), lines, &[(0, 0, 100, 3, 0), (0, 1, 100, 3, 7_000_000)]);
}

#[test]
fn a_missing_input_length_is_what_the_ids_hold() {
    let lines = r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1, 2, 3]}"#;
    check_rows(&mooncake(), lines, &[(0, 0, 1536, 1, 0)]);
    let small_blocks = TraceWorkload {
        trace_block_size: 16,
        ..mooncake()
    };
    check_rows(&small_blocks, lines, &[(0, 0, 48, 1, 0)]);
}

#[test]
fn null_counts_as_absent_and_unknown_fields_do_not_matter() {
    let lines = r#"{"timestamp": 3, "created_time": null, "input_length": null, "output_length": 1, "hash_ids": [1],
"delay": null, "session_id": null, "priority": {"level": [1]}, "model": "m"}"#;
    check_rows(&mooncake(), &lines.replace('\n', ""), &[(0, 0, 512, 1, 0)]);
}

#[test]
fn surplus_ids_are_dropped() {
    let workload = loaded(
        &mooncake(),
        r#"{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1, 2, 3, 4]}"#,
    );
    assert_eq!(workload.prompts().path(RequestId::new(0)).len(), 2);
    assert_eq!(workload.prompts().node_count(), 2);
}

#[test]
fn ids_are_full_64_bit_numbers() {
    let lines = r#"{"timestamp": 0, "output_length": 1, "hash_ids": [18446744073709551615]}
{"timestamp": 0, "output_length": 1, "hash_ids": [18446744073709551614]}
{"timestamp": 0, "output_length": 1, "hash_ids": [4294967295]}
{"timestamp": 0, "output_length": 1, "hash_ids": [18446744073709551615]}"#;
    let workload = loaded(&mooncake(), lines);
    assert_eq!(workload.prompts().node_count(), 3);
    let first_node = |request| workload.prompts().path(RequestId::new(request))[0];
    assert_eq!(first_node(0), first_node(3));
}

#[test]
fn sessions_gather_their_rows_in_file_order() {
    let lines = r#"{"timestamp": 10, "output_length": 1, "hash_ids": [1], "session_id": "a"}
{"timestamp": 20, "output_length": 2, "hash_ids": [2]}
{"timestamp": 30, "output_length": 3, "hash_ids": [3], "session_id": "b"}
{"timestamp": 45, "output_length": 4, "hash_ids": [4], "session_id": "a"}
{"output_length": 5, "hash_ids": [5], "session_id": "a"}
{"timestamp": 95, "output_length": 6, "hash_ids": [6], "session_id": "a"}
{"timestamp": 95, "output_length": 7, "hash_ids": [7], "session_id": "b", "delay": 2}"#;
    let expected = [
        (0, 0, 512, 1, 0),
        (0, 1, 512, 4, 35_000_000),
        (0, 2, 512, 5, 0),
        (0, 3, 512, 6, 50_000_000),
        (1, 0, 512, 2, 10_000_000),
        (2, 0, 512, 3, 20_000_000),
        (2, 1, 512, 7, 2_000_000),
    ];
    check_rows(&mooncake(), lines, &expected);
    let workload = loaded(&mooncake(), lines);
    assert_eq!(workload.next_turn(RequestId::new(2)), Some(RequestId::new(3)));
    assert_eq!(workload.next_turn(RequestId::new(3)), None);
}

#[test]
fn a_speed_up_divides_think_times_too() {
    let lines = r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1], "session_id": "a"}
{"timestamp": 100, "output_length": 1, "hash_ids": [1], "session_id": "a"}
{"delay": 50, "output_length": 1, "hash_ids": [1], "session_id": "a"}"#;
    let faster = TraceWorkload {
        arrival_speedup_ratio: 10.0,
        ..mooncake()
    };
    let expected = [(0, 0, 512, 1, 0), (0, 1, 512, 1, 10_000_000), (0, 2, 512, 1, 5_000_000)];
    check_rows(&faster, lines, &expected);
}

#[test]
fn a_closed_loop_needs_no_timestamps_and_scales_nothing() {
    let lines = r#"{"output_length": 1, "hash_ids": [1], "session_id": "a"}
{"timestamp": 700, "output_length": 1, "hash_ids": [1], "session_id": "b"}
{"delay": 50, "output_length": 1, "hash_ids": [1], "session_id": "a"}
{"timestamp": 800, "output_length": 1, "hash_ids": [1], "session_id": "b"}"#;
    let spec = TraceWorkload {
        arrival_speedup_ratio: 10.0,
        ..closed(3)
    };
    let expected = [
        (0, 0, 512, 1, 0),
        (0, 1, 512, 1, 50_000_000),
        (1, 0, 512, 1, 0),
        (1, 1, 512, 1, 100_000_000),
    ];
    check_rows(&spec, lines, &expected);
    assert_eq!(
        loaded(&spec, lines).admission(),
        Admission::ClosedLoop { concurrency: 3 }
    );
}

#[test]
fn files_from_other_systems_are_read() {
    let row = r#"{"timestamp": 0, "output_length": 1, "hash_ids": [1]}"#;
    let expected = [(0, 0, 512, 1, 0), (1, 0, 512, 1, 0)];
    check_rows(&mooncake(), &format!("\u{feff}{row}\r\n{row}\r\n"), &expected);
    check_rows(&mooncake(), &format!("\u{feff}\r\n{row}\n\t \n{row}"), &expected);
}

#[derive(Debug, Clone)]
struct Row {
    session: Option<u8>,
    ids: Vec<u64>,
    partial: u32,
    delay: Option<u32>,
}

fn row() -> impl Strategy<Value = Row> {
    let session = prop::option::of(0_u8..3);
    let ids = prop::collection::vec(0_u64..2, 1..5);
    (session, ids, 0_u32..4, prop::option::of(0_u32..9)).prop_map(|(session, ids, partial, delay)| Row {
        session,
        ids,
        partial,
        delay,
    })
}

proptest! {
    #[test]
    fn differential_rows_are_grouped_as_a_plain_search_groups_them(rows_in_file in prop::collection::vec(row(), 1..12)) {
        let spec = TraceWorkload { trace_block_size: 4, ..closed(1) };
        let mut lines = String::new();
        let mut sessions: Vec<(Option<u8>, Vec<Row>)> = Vec::new();
        for row in rows_in_file {
            let known = sessions.iter_mut().find(|(id, _)| id.is_some() && *id == row.session);
            let mut line = serde_json::json!({"output_length": 1, "hash_ids": row.ids});
            line["input_length"] = (row.ids.len() * 4 - row.partial as usize).into();
            if let Some(session) = row.session {
                line["session_id"] = session.to_string().into();
            }
            if let Some((_, turns)) = known {
                line["delay"] = row.delay.into();
                turns.push(row);
            } else {
                sessions.push((row.session, vec![row]));
            }
            lines = format!("{lines}{line}\n");
        }
        let workload = loaded(&spec, &lines);
        let mut expected = Vec::new();
        let mut prompts: Vec<Vec<u64>> = Vec::new();
        for (session, (_, turns)) in (0_u32..).zip(&sessions) {
            for (turn, row) in (0_u32..).zip(turns) {
                let tokens = u32::try_from(row.ids.len()).expect("few") * 4 - row.partial;
                let delay = if turn == 0 { 0 } else { row.delay.unwrap_or(0) };
                expected.push((session, turn, tokens, 1, u64::from(delay) * 1_000_000));
                prompts.push((0..tokens).map(|at| row.ids[at as usize / 4]).collect());
            }
        }
        prop_assert_eq!(rows(&workload), expected);
        check_content(&workload, block(3), &prompts);
    }
}
