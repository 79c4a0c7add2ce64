//! Agentic traces: one session of tool calls per line.
//!
//! A session starts with a prompt and answers it in several steps. After each step the answer and
//! the output of the tool it called are appended, and the longer prompt is sent once the tool has
//! returned.

use std::io::BufRead;

use serde::Deserialize;

use super::lines::Lines;
use super::row_error::TraceRowError;
use super::row_fields::{FieldKind, parse_row};
use crate::synthetic::shared_blocks;
use crate::units::{BlockSize, SimDuration};
use crate::workload::{Admission, Request, Workload, WorkloadBuilder};
use crate::workload_error::{MAX_REQUESTS, WorkloadError};

/// Content blocks that all prompts together may have: they are made up here, so that a small
/// file could ask for any number.
const MAX_BLOCKS: u64 = 1 << 27;

const FIELDS: [(&str, FieldKind); 6] = [
    ("num_turns", FieldKind::Count),
    ("input_prompt_length", FieldKind::Count),
    ("assistant_response_length", FieldKind::Counts),
    ("tool_call_output_length", FieldKind::Counts),
    ("tool_call_latency", FieldKind::Numbers),
    ("final_assistant_response_length", FieldKind::Count),
];

#[derive(Debug, Deserialize)]
struct RawSession {
    num_turns: Option<u32>,
    input_prompt_length: Option<u32>,
    assistant_response_length: Option<Vec<u32>>,
    tool_call_output_length: Option<Vec<u32>>,
    /// Seconds.
    tool_call_latency: Option<Vec<f64>>,
    final_assistant_response_length: Option<u32>,
}

/// A session as the trace states it.
struct AgenticSession {
    first_prompt_tokens: u32,
    tool_calls: Vec<ToolCall>,
    final_output_tokens: u32,
}

struct ToolCall {
    output_tokens: u32,
    tool_tokens: u32,
    latency: SimDuration,
}

/// How the first prompts of sessions overlap.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedPrefixes {
    /// Share of a first prompt's blocks that is common to its group, 0 to 1.
    pub(super) ratio: f64,
    /// Groups, dealt to the lines in turn.
    pub(super) groups: u32,
}

/// Reads a whole trace.
pub(super) fn read<R: BufRead>(
    mut lines: Lines<'_, R>,
    block_size: BlockSize,
    concurrency: u32,
    prefixes: SharedPrefixes,
) -> Result<Workload, WorkloadError> {
    let path = lines.path();
    let mut sessions = Sessions {
        builder: WorkloadBuilder::new(block_size),
        block_size,
        prefixes,
        count: 0,
        requests: 0,
        blocks: 0,
    };
    while let Some((line, text)) = lines.next_row()? {
        let session = AgenticSession::parse(text);
        session
            .and_then(|session| sessions.add(line, &session))
            .map_err(|problem| problem.at(path, line))?;
        if sessions.requests > MAX_REQUESTS {
            return Err(WorkloadError::TooManyRequests);
        }
    }
    if sessions.count == 0 {
        return Err(WorkloadError::Empty { path: path.to_owned() });
    }
    Ok(sessions.builder.build(Admission::ClosedLoop { concurrency }))
}

/// The sessions read so far.
struct Sessions {
    builder: WorkloadBuilder,
    block_size: BlockSize,
    prefixes: SharedPrefixes,
    count: u32,
    requests: u64,
    blocks: u64,
}

impl Sessions {
    fn add(&mut self, line: usize, session: &AgenticSession) -> Result<(), TraceRowError> {
        let SharedPrefixes { ratio, groups } = self.prefixes;
        let group = (line as u64 - 1).checked_rem(u64::from(groups));
        let shared = group.map_or(0, |_| {
            shared_blocks(self.block_size, session.first_prompt_tokens, ratio)
        });
        // Content is told apart by all that precedes it as well, so one id per group and one
        // per session are enough.
        let group_id = group.unwrap_or(0);
        let session_id = u64::from(groups) + u64::from(self.count);
        let mut input_tokens = session.first_prompt_tokens;
        let mut delay = SimDuration::ZERO;
        for turn in 0_u32.. {
            let blocks = self.block_size.blocks_for(input_tokens);
            self.blocks += u64::from(blocks);
            self.requests += 1;
            if self.blocks > MAX_BLOCKS {
                return Err(TraceRowError::TooManyBlocks {
                    max: MAX_BLOCKS,
                    block_tokens: self.block_size.tokens(),
                });
            }
            let call = session.tool_calls.get(turn as usize);
            let request = Request {
                session: self.count,
                turn,
                input_tokens,
                output_tokens: call.map_or(session.final_output_tokens, |call| call.output_tokens),
                delay,
            };
            let content = |block| if block < shared { group_id } else { session_id };
            self.builder.push(request, (0..blocks).map(content));
            let Some(call) = call else { break };
            input_tokens = longer_prompt(input_tokens, call)?;
            delay = call.latency;
        }
        self.count += 1;
        Ok(())
    }
}

fn longer_prompt(prompt_tokens: u32, call: &ToolCall) -> Result<u32, TraceRowError> {
    let tokens = u64::from(prompt_tokens) + u64::from(call.output_tokens) + u64::from(call.tool_tokens);
    u32::try_from(tokens).map_err(|_| TraceRowError::PromptTooLong { tokens })
}

impl AgenticSession {
    /// Reads one line.
    fn parse(line: &str) -> Result<Self, TraceRowError> {
        let raw: RawSession = parse_row(line, &FIELDS)?;
        let num_turns = needed("num_turns", raw.num_turns)?;
        let first_prompt_tokens = needed("input_prompt_length", raw.input_prompt_length)?;
        if first_prompt_tokens == 0 {
            return Err(TraceRowError::EmptyPrompt {
                field: "input_prompt_length",
                value: "0",
            });
        }
        let answers = list("assistant_response_length", raw.assistant_response_length, num_turns)?;
        let tool_outputs = list("tool_call_output_length", raw.tool_call_output_length, num_turns)?;
        let latencies = list("tool_call_latency", raw.tool_call_latency, num_turns)?;
        let tool_calls = answers.into_iter().zip(tool_outputs).zip(latencies).enumerate();
        Ok(Self {
            first_prompt_tokens,
            tool_calls: tool_calls
                .map(|(index, ((output_tokens, tool_tokens), latency))| {
                    Ok(ToolCall {
                        output_tokens,
                        tool_tokens,
                        latency: latency_span(index, latency)?,
                    })
                })
                .collect::<Result<_, TraceRowError>>()?,
            final_output_tokens: needed("final_assistant_response_length", raw.final_assistant_response_length)?,
        })
    }
}

fn needed<T>(field: &'static str, value: Option<T>) -> Result<T, TraceRowError> {
    value.ok_or(TraceRowError::Missing { field })
}

fn list<T>(field: &'static str, value: Option<Vec<T>>, num_turns: u32) -> Result<Vec<T>, TraceRowError> {
    let list = needed(field, value)?;
    let length = list.len();
    if length == num_turns as usize {
        return Ok(list);
    }
    Err(TraceRowError::ListLength {
        field,
        length,
        num_turns,
    })
}

fn latency_span(index: usize, seconds: f64) -> Result<SimDuration, TraceRowError> {
    if seconds < 0.0 {
        return Err(TraceRowError::Value {
            field: format!("tool_call_latency[{index}]"),
            value: seconds.to_string(),
            expected: "a number of seconds from 0",
        });
    }
    let value = seconds * 1000.0;
    SimDuration::from_ms(value).ok_or(TraceRowError::BeyondClock {
        field: "tool_call_latency",
        value,
    })
}
