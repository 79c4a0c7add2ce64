//! Agentic traces: sessions of tool calls.

use dynosim_spec::{Admission, TraceFormat, TraceWorkload};
use proptest::prelude::*;

use crate::support::{agentic, block, check_content, check_error, mooncake, read, rows};

const SESSION: &str = r#"{"num_turns": 2, "input_prompt_length": 1000, "assistant_response_length": [20, 30], "tool_call_output_length": [100, 200], "tool_call_latency": [0.5, 1], "final_assistant_response_length": 10}"#;

#[track_caller]
fn check(line: &str, expected: &str) {
    check_error(&agentic(0.0, 0), line, &format!("t.jsonl, line 1: {expected}"));
}

#[test]
fn every_tool_call_lengthens_the_prompt() {
    let workload = read(&agentic(0.0, 0), &format!("{SESSION}\n\n{SESSION}")).expect("good rows");
    assert_eq!(workload.admission(), Admission::ClosedLoop { concurrency: 4 });
    assert_eq!(
        rows(&workload),
        [
            (0, 0, 1000, 20, 0),
            (0, 1, 1120, 30, 500_000_000),
            (0, 2, 1350, 10, 1_000_000_000),
            (1, 0, 1000, 20, 0),
            (1, 1, 1120, 30, 500_000_000),
            (1, 2, 1350, 10, 1_000_000_000),
        ]
    );
    assert_eq!(workload.prompts().node_count(), 2 * 22, "sessions share nothing");
}

#[test]
fn a_session_without_tools_is_one_request() {
    let line = r#"{"num_turns": 0, "input_prompt_length": 64, "assistant_response_length": [], "tool_call_output_length": [], "tool_call_latency": [], "final_assistant_response_length": 0}"#;
    let workload = read(&agentic(0.0, 0), line).expect("a good row");
    assert_eq!(rows(&workload), [(0, 0, 64, 0, 0)]);
}

#[test]
fn groups_are_dealt_to_the_lines_in_turn() {
    let nodes = |lines: &str, groups| {
        let workload = read(&agentic(0.5, groups), lines).expect("good rows");
        workload.prompts().node_count()
    };
    let two = format!("{SESSION}\n{SESSION}");
    assert_eq!(nodes(&two, 1), 44 - 8);
    assert_eq!(nodes(&two, 2), 44);
    assert_eq!(nodes(&two, 0), 44);
    let blank_between = format!("{SESSION}\n\n{SESSION}");
    assert_eq!(nodes(&blank_between, 2), 44 - 8, "lines 1 and 3");
}

#[test]
fn timestamps_are_not_to_be_had() {
    let open_loop = TraceWorkload {
        trace_format: TraceFormat::AppliedComputeAgentic,
        ..mooncake()
    };
    check_error(
        &open_loop,
        SESSION,
        "traces in format `applied_compute_agentic` hold no timestamps; \
         set `workload.traceReplayConcurrency` to the number of requests in flight",
    );
    check_error(
        &agentic(1.5, 1),
        SESSION,
        "`workload.traceSharedPrefixRatio` is 1.5; it must be from 0 to 1",
    );
}

#[test]
fn rows_that_make_no_sense() {
    let with = |from: &str, to: &str| SESSION.replace(from, to);
    check(
        &with("[20, 30]", "[20]"),
        "`assistant_response_length` has length 1, but `num_turns` is 2; give one entry for every turn",
    );
    check(
        &with("[100, 200]", "[]"),
        "`tool_call_output_length` has length 0, but `num_turns` is 2; give one entry for every turn",
    );
    check(
        &with("[0.5, 1]", "[1, 2, 3]"),
        "`tool_call_latency` has length 3, but `num_turns` is 2; give one entry for every turn",
    );
    check(
        &with("1000", "0"),
        "`input_prompt_length` is 0, so the prompt is empty; give it at least one token or remove the row",
    );
    check(
        &with("0.5", "-0.5"),
        "`tool_call_latency[0]` is -0.5; it must be a number of seconds from 0",
    );
    check(
        &with("[0.5, 1]", "[0, 1e300]"),
        "the request is to be sent after 1e303 ms; the clock ends after 584 years, correct `tool_call_latency`",
    );
    check(
        &with("[0.5, 1]", "[0, null]"),
        "`tool_call_latency[1]` is null; it must be a number",
    );
    check(
        &with("[20, 30]", "[20, 3.0]"),
        "`assistant_response_length[1]` is 3.0; it must be a whole number from 0 to 4294967295",
    );
    check(
        &with("\"num_turns\": 2, ", ""),
        "`num_turns` is missing; every row needs it in format `applied_compute_agentic` (`workload.traceFormat`)",
    );
    check(
        &with("[20, 30]", "[4294967295, 30]"),
        "the prompt has 4294968395 tokens; at most 4294967295 are possible",
    );
    let single_tokens = TraceWorkload {
        trace_block_size: 1,
        ..agentic(0.0, 0)
    };
    check_error(
        &single_tokens,
        &with("1000", "4000000000"),
        "t.jsonl, line 1: the prompts up to here have more than 134217728 blocks of 1 tokens; \
         raise `workload.traceBlockSize`",
    );
}

/// Content of one token: a group's prefix or a session's own block.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Group { group: usize, block: usize },
    Session { line: usize, block: usize },
}

proptest! {
    #[test]
    fn oracle_prompts_equal_their_tokens(
        sessions in prop::collection::vec((1_usize..30, prop::collection::vec((0_usize..9, 0_usize..9), 0..4)), 1..6),
        trace_block in 1_u32..7,
        engine_block in 1_u32..7,
        ratio in prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0_f64..1.0],
        groups in 0_usize..3,
    ) {
        let mut lines = String::new();
        let mut prompts = Vec::new();
        for (line, (first_prompt, calls)) in sessions.iter().enumerate() {
            let (answers, outputs): (Vec<usize>, Vec<usize>) = calls.iter().copied().unzip();
            let row = serde_json::json!({
                "num_turns": calls.len(),
                "input_prompt_length": first_prompt,
                "assistant_response_length": answers,
                "tool_call_output_length": outputs,
                "tool_call_latency": vec![0.0; calls.len()],
                "final_assistant_response_length": 1,
            });
            lines = format!("{lines}{row}\n");
            let block_tokens = trace_block as usize;
            let shared = (first_prompt.div_ceil(block_tokens) as f64 * ratio).round();
            let token = |at: usize| match at / block_tokens {
                block if groups > 0 && (block as f64) < shared => Token::Group { group: line % groups, block },
                block => Token::Session { line, block },
            };
            let mut tokens: Vec<Token> = (0..*first_prompt).map(token).collect();
            prompts.push(tokens.clone());
            for (answer, output) in calls {
                let longer = tokens.len() + answer + output;
                tokens.extend((tokens.len()..longer).map(token));
                prompts.push(tokens.clone());
            }
        }
        let spec = TraceWorkload {
            trace_block_size: trace_block,
            ..agentic(ratio, u32::try_from(groups).expect("few"))
        };
        let workload = read(&spec, &lines).expect("good rows");
        check_content(&workload, block(engine_block), &prompts);
    }
}
