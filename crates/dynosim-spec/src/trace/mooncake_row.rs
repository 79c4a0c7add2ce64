//! One row of a Mooncake trace.

use serde::Deserialize;

use super::row_error::TraceRowError;
use super::row_fields::{FieldKind, ValueKind, parse_row};
use crate::units::BlockSize;

const FIELDS: [(&str, FieldKind); 10] = [
    ("timestamp", FieldKind::One(ValueKind::Number)),
    ("created_time", FieldKind::One(ValueKind::Number)),
    ("input_length", FieldKind::One(ValueKind::Count)),
    ("input_tokens", FieldKind::One(ValueKind::Count)),
    ("output_length", FieldKind::One(ValueKind::Count)),
    ("output_tokens", FieldKind::One(ValueKind::Count)),
    ("delay", FieldKind::One(ValueKind::Number)),
    ("delay_ms", FieldKind::One(ValueKind::Number)),
    ("session_id", FieldKind::One(ValueKind::Text)),
    ("hash_ids", FieldKind::List(ValueKind::Id)),
];

/// One request as the trace states it.
#[derive(Debug)]
pub(super) struct MooncakeRow {
    /// Prompt tokens, at least 1 and covered by the ids.
    pub(super) input_tokens: u32,
    /// Tokens to generate.
    pub(super) output_tokens: u32,
    /// When it was sent, in milliseconds.
    pub(super) timestamp: Option<f64>,
    /// Think time in milliseconds.
    pub(super) delay: Option<f64>,
    /// Session it belongs to; without one it stands alone.
    pub(super) session_id: Option<String>,
    /// Content of the prompt, as far as it goes.
    pub(super) hash_ids: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct RawRow {
    timestamp: Option<f64>,
    created_time: Option<f64>,
    input_length: Option<u32>,
    input_tokens: Option<u32>,
    output_length: Option<u32>,
    output_tokens: Option<u32>,
    delay: Option<f64>,
    delay_ms: Option<f64>,
    session_id: Option<String>,
    hash_ids: Option<Vec<u64>>,
}

impl MooncakeRow {
    /// Reads one line.
    pub(super) fn parse(line: &str, block_size: BlockSize) -> Result<Self, TraceRowError> {
        let raw: RawRow = parse_row(line, &FIELDS)?;
        let mut hash_ids = raw.hash_ids.ok_or(missing("hash_ids"))?;
        let given = either(("input_length", raw.input_length), ("input_tokens", raw.input_tokens))?;
        let input_tokens = input_tokens(given, hash_ids.len(), block_size)?;
        hash_ids.truncate(block_size.blocks_for(input_tokens) as usize);
        Ok(Self {
            input_tokens,
            output_tokens: either(
                ("output_length", raw.output_length),
                ("output_tokens", raw.output_tokens),
            )?
            .ok_or(missing("output_length"))?,
            timestamp: either(("timestamp", raw.timestamp), ("created_time", raw.created_time))?,
            delay: either(("delay", raw.delay), ("delay_ms", raw.delay_ms))?,
            session_id: raw.session_id,
            hash_ids,
        })
    }
}

fn missing(field: &'static str) -> TraceRowError {
    TraceRowError::Missing {
        field,
        format: "mooncake",
    }
}

/// The value of a field that has two names.
fn either<T>(field: (&'static str, Option<T>), alias: (&'static str, Option<T>)) -> Result<Option<T>, TraceRowError> {
    match (field, alias) {
        ((field, Some(_)), (alias, Some(_))) => Err(TraceRowError::Twice { field, alias }),
        ((_, value), (_, None)) | ((_, None), (_, value)) => Ok(value),
    }
}

/// Length of the prompt: as given, or as many tokens as the ids hold.
fn input_tokens(given: Option<u32>, ids: usize, block_size: BlockSize) -> Result<u32, TraceRowError> {
    let block_tokens = block_size.tokens();
    let capacity = (ids as u64).saturating_mul(u64::from(block_tokens));
    match given {
        _ if ids == 0 => Err(TraceRowError::EmptyPrompt {
            field: "hash_ids",
            value: "[]",
        }),
        Some(0) => Err(TraceRowError::EmptyPrompt {
            field: "input_length",
            value: "0",
        }),
        Some(input_length) if u64::from(input_length) > capacity => Err(TraceRowError::BeyondIds {
            input_length,
            ids,
            block_tokens,
            capacity,
        }),
        Some(input_length) => Ok(input_length),
        None => u32::try_from(capacity).map_err(|_| TraceRowError::PromptTooLong { tokens: capacity }),
    }
}
