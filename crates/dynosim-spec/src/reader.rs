//! Strict reading of JSON objects into structs, and checking of structs built in code.
//!
//! Every struct lists its fields once: key, place and [`Rule`]. The list is walked either over a
//! JSON object, which fills the places, or over a finished value, which only checks them; so both
//! ways in obey the same rules and report the same paths, and all mistakes are found in one go.

mod choice;
mod document;
mod rule;
mod section;

pub(crate) use choice::{Choice, OneOf};
pub(crate) use document::{Document, parse};
pub(crate) use rule::{Flag, OrNull, Real, Text, Whole};
pub(crate) use section::{Findings, Presence, Section};

use crate::error::{Checked, SpecError};

/// Reads a whole document into `value`, which holds the defaults.
///
/// # Errors
///
/// [`SpecError::Syntax`] if the text is not JSON, [`SpecError::Invalid`] with all mistakes otherwise.
pub(crate) fn read<T>(
    text: &str,
    mut value: T,
    fields: impl FnOnce(&mut T, &mut Section<'_, '_>),
) -> Result<Checked<T>, SpecError> {
    let Document { root, duplicates } = parse(text).map_err(|error| SpecError::Syntax {
        line: error.line(),
        column: error.column(),
        message: without_position(&error),
    })?;
    let mut findings = Findings::new(duplicates);
    Section::walk_document(&root, &mut findings, |section| fields(&mut value, section));
    let warnings = findings.into_result()?;
    Ok(Checked { value, warnings })
}

/// Checks a finished value.
///
/// # Errors
///
/// [`SpecError::Invalid`] with all mistakes.
pub(crate) fn check<T: Clone>(value: &T, fields: impl FnOnce(&mut T, &mut Section<'_, '_>)) -> Result<(), SpecError> {
    let mut findings = Findings::new(Vec::new());
    Section::walk_value(&mut findings, |section| fields(&mut value.clone(), section));
    findings.into_result().map(|_| ())
}

/// The parser's message without the position that it appends.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}
