//! One row of an agentic trace: a session of tool calls.

use serde::Deserialize;

use super::row_error::TraceRowError;
use super::row_fields::{FieldKind, ValueKind, parse_row};
use crate::units::SimDuration;

const FIELDS: [(&str, FieldKind); 6] = [
    ("num_turns", FieldKind::One(ValueKind::Count)),
    ("input_prompt_length", FieldKind::One(ValueKind::Count)),
    ("assistant_response_length", FieldKind::List(ValueKind::Count)),
    ("tool_call_output_length", FieldKind::List(ValueKind::Count)),
    ("tool_call_latency", FieldKind::List(ValueKind::Number)),
    ("final_assistant_response_length", FieldKind::One(ValueKind::Count)),
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
#[derive(Debug)]
pub(super) struct AgenticSession {
    /// Tokens of the prompt it starts with, at least 1.
    pub(super) first_prompt_tokens: u32,
    /// What happens before the final answer.
    pub(super) tool_calls: Vec<ToolCall>,
    /// Tokens of the final answer.
    pub(super) final_output_tokens: u32,
}

/// One step of a session.
#[derive(Debug)]
pub(super) struct ToolCall {
    /// Tokens that the model generates.
    pub(super) output_tokens: u32,
    /// Tokens that the tool adds to the prompt.
    pub(super) tool_tokens: u32,
    /// How long the tool takes.
    pub(super) latency: SimDuration,
}

impl AgenticSession {
    /// Reads one line.
    pub(super) fn parse(line: &str) -> Result<Self, TraceRowError> {
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
    value.ok_or(TraceRowError::Missing {
        field,
        format: "applied_compute_agentic",
    })
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
