//! The fields of a row, and which of them is to blame when a row does not parse.

use serde::Deserialize;
use serde_json::Value;

use super::row_error::TraceRowError;

/// What a field must hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldKind {
    /// A number of tokens or turns.
    Count,
    /// Milliseconds or seconds.
    Number,
    /// A name.
    Text,
    /// A list of content ids.
    Ids,
    /// A list of token counts.
    Counts,
    /// A list of spans.
    Numbers,
}

/// Reads a row straight into typed fields.
///
/// Only when that fails is it read once more as a tree, to name the field, its value and what
/// belongs there.
pub(super) fn parse_row<'a, T: Deserialize<'a>>(
    row: &'a str,
    fields: &[(&'static str, FieldKind)],
) -> Result<T, TraceRowError> {
    // A list would be taken for the fields in their order.
    if row.starts_with('[') {
        return Err(TraceRowError::NotAnObject {
            message: "it is a list".to_owned(),
        });
    }
    serde_json::from_str(row).map_err(|error| explain(row, fields, &error))
}

fn explain(row: &str, fields: &[(&'static str, FieldKind)], error: &serde_json::Error) -> TraceRowError {
    if let Ok(Value::Object(object)) = serde_json::from_str(row) {
        let wrong = fields
            .iter()
            .find_map(|&(name, kind)| kind.fault(name, object.get(name)?));
        if let Some(wrong) = wrong {
            return wrong;
        }
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    TraceRowError::NotAnObject {
        message: format!("{message} at column {}", error.column()),
    }
}

impl FieldKind {
    fn expected(self) -> &'static str {
        match self {
            Self::Count => "a whole number from 0 to 4294967295",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Ids => "a list of whole numbers from 0 to 18446744073709551615",
            Self::Counts => "a list of whole numbers from 0 to 4294967295",
            Self::Numbers => "a list of numbers",
        }
    }

    /// What is wrong with a value; null counts as absent.
    fn fault(self, name: &str, value: &Value) -> Option<TraceRowError> {
        let fault = |field: String, value: &Value, expected| TraceRowError::Value {
            field,
            value: excerpt(value),
            expected,
        };
        let (accepts, list, entry): (fn(&Value) -> bool, bool, _) = match self {
            Self::Count => (is_count, false, ""),
            Self::Number => (Value::is_number, false, ""),
            Self::Text => (Value::is_string, false, ""),
            Self::Ids => (Value::is_u64, true, "a whole number from 0 to 18446744073709551615"),
            Self::Counts => (is_count, true, Self::Count.expected()),
            Self::Numbers => (Value::is_number, true, Self::Number.expected()),
        };
        match value {
            Value::Null => None,
            Value::Array(entries) if list => {
                let index = entries.iter().position(|entry| !accepts(entry))?;
                Some(fault(format!("{name}[{index}]"), &entries[index], entry))
            }
            value if !list && accepts(value) => None,
            value => Some(fault(name.to_owned(), value, self.expected())),
        }
    }
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| u32::try_from(count).is_ok())
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
