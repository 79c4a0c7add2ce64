//! The first line of a journal: which sweep it belongs to.

use std::path::Path;

use dynosim::core::Report;
use dynosim::inputs::Inputs;
use dynosim::spec::ReplayOptimizeSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::changes::changes;
use crate::error::CliError;
use crate::shard::ShardArg;

/// Grows when journals of before cannot be read any more.
const SCHEMA: u32 = 1;

/// Differences that a message names.
const MOST_DIFFERENCES: usize = 3;

/// What a sweep rests on, and which part of it the journal is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    schema: u32,
    fingerprint: String,
    inputs: Inputs,
    /// As the command line calls it.
    mode: String,
    /// Which part; none if it is the whole.
    pub(crate) shard: Option<ShardArg>,
    /// Figures of a simulation.
    metrics: usize,
    /// For messages.
    spec: Value,
}

impl Header {
    /// That of a sweep, or of a part of it.
    pub(crate) fn new(spec: &ReplayOptimizeSpec, inputs: Inputs, mode: &str, shard: Option<ShardArg>) -> Self {
        Self {
            schema: SCHEMA,
            fingerprint: inputs.fingerprint(),
            inputs,
            mode: mode.to_owned(),
            shard,
            metrics: Report::default().metrics().len(),
            // Inputs were made of it, so it can be written.
            spec: serde_json::to_value(spec).unwrap_or_default(),
        }
    }

    /// Checks that the journal with the header `found` is one of this sweep, and takes over which shard it is of.
    ///
    /// # Errors
    /// If it is not; the message says what differs.
    pub(crate) fn continues(&mut self, found: &Self, path: &Path) -> Result<(), CliError> {
        self.is_of_the_same_sweep(found, path)?;
        match (self.shard, found.shard) {
            (Some(wanted), Some(shard)) if wanted != shard => Err(CliError::Input(format!(
                "{} is the journal of shard {shard}, not of {wanted}; use another folder",
                path.display()
            ))),
            (Some(wanted), None) => Err(CliError::Input(format!(
                "{} is the journal of a whole sweep, not of shard {wanted}; leave out --shard or use another folder",
                path.display()
            ))),
            (_, shard) => {
                self.shard = shard;
                Ok(())
            }
        }
    }

    /// Checks that the journal with the header `found` is one of the same sweep, or of any part of it.
    ///
    /// # Errors
    /// If it is not; the message says what differs.
    pub(crate) fn is_of_the_same_sweep(&self, found: &Self, path: &Path) -> Result<(), CliError> {
        let path = path.display();
        if (found.schema, found.metrics) != (self.schema, self.metrics) {
            return Err(CliError::Input(format!(
                "{path} was written by another version of dynosim; use that one, or begin anew in another folder"
            )));
        }
        if found.fingerprint == self.fingerprint {
            return Ok(());
        }
        let mut differences = found.inputs.differences(&self.inputs);
        for difference in &mut differences {
            if difference.starts_with("spec:") {
                *difference = format!("spec: {}", spec_changes(&found.spec, &self.spec));
            }
        }
        Err(CliError::Input(format!(
            "{path} is of another sweep (there and here; {}); give what it was begun with, or begin anew in another folder",
            first_few(differences, "; ")
        )))
    }
}

fn spec_changes(then: &Value, now: &Value) -> String {
    let changes = changes(then, now);
    first_few(changes.iter().map(ToString::to_string).collect(), ", ")
}

fn first_few(mut differences: Vec<String>, separator: &str) -> String {
    let further = differences.len().saturating_sub(MOST_DIFFERENCES);
    if further > 0 {
        differences.truncate(MOST_DIFFERENCES);
        differences.push(format!("{further} more"));
    }
    differences.join(separator)
}
