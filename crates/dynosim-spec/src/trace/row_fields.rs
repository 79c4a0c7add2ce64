//! The fields of a row, and which of them is to blame when a row does not parse.

use serde::Deserialize;
use serde_json::Value;

use super::row_error::TraceRowError;

/// What a field must hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldKind {
    /// A single value.
    One(ValueKind),
    /// Any number of them.
    List(ValueKind),
}

/// What a single value must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueKind {
    /// A number of tokens or turns.
    Count,
    /// A content id.
    Id,
    /// Milliseconds or seconds.
    Number,
    /// A name.
    Text,
}

/// Reads a row straight into typed fields.
///
/// Only when that fails is it read once more as a tree, to name the field, its value and what
/// belongs there.
pub(super) fn parse_row<'a, T: Deserialize<'a>>(
    row: &'a str,
    fields: &[(&'static str, FieldKind)],
) -> Result<T, TraceRowError> {
    let unreadable = |message| TraceRowError::NotAnObject { message };
    // Only then: a list would be taken for the fields in their order.
    let typed = row.starts_with('{').then(|| serde_json::from_str(row));
    if let Some(Ok(parsed)) = typed {
        return Ok(parsed);
    }
    let object = match serde_json::from_str(row) {
        Ok(Value::Object(object)) => object,
        Ok(other) => return Err(unreadable(format!("it is {}", kind_of(&other)))),
        Err(error) => return Err(unreadable(within_row(&error))),
    };
    let wrong = fields
        .iter()
        .find_map(|&(name, kind)| kind.fault(name, object.get(name)?));
    Err(wrong.unwrap_or_else(|| {
        // All values are right, so a key is there twice.
        let error = typed.and_then(Result::err);
        unreadable(error.as_ref().map(within_row).unwrap_or_default())
    }))
}

/// The message of an error, placed by its column.
fn within_row(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let (message, _) = message.split_once(" at line ").unwrap_or((&message, ""));
    format!("{message} at column {}", error.column())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl FieldKind {
    /// What is wrong with a value; null counts as absent.
    fn fault(self, name: &str, value: &Value) -> Option<TraceRowError> {
        match (self, value) {
            (_, Value::Null) => None,
            (Self::One(kind), value) => kind.fault(name.to_owned(), value),
            (Self::List(kind), Value::Array(entries)) => entries
                .iter()
                .enumerate()
                .find_map(|(index, entry)| kind.fault(format!("{name}[{index}]"), entry)),
            (Self::List(_), value) => Some(wrong_value(name.to_owned(), value, "a list")),
        }
    }
}

impl ValueKind {
    fn fault(self, field: String, value: &Value) -> Option<TraceRowError> {
        let (fits, expected) = match self {
            Self::Count => (is_count(value), "a whole number from 0 to 4294967295"),
            Self::Id => (value.is_u64(), "a whole number from 0 to 18446744073709551615"),
            Self::Number => (value.is_number(), "a number"),
            Self::Text => (value.is_string(), "a string"),
        };
        (!fits).then(|| wrong_value(field, value, expected))
    }
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| u32::try_from(count).is_ok())
}

fn wrong_value(field: String, value: &Value, expected: &'static str) -> TraceRowError {
    TraceRowError::Value {
        field,
        value: excerpt(value),
        expected,
    }
}

/// The value as JSON, cut short.
fn excerpt(value: &Value) -> String {
    const LONGEST: usize = 40;
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(cut);
        text.push_str("...");
    }
    text
}
