//! An answer as a JSON document.

use dynosim_spec::WorkerRole;
use dynosim_sweep::{Comparison, SweepError};
use serde_json::{Map, Value, json};

use super::Answer;
use crate::error::Error;
use crate::inputs::Inputs;

/// Name of the format.
pub const SCHEMA: &str = "dynosim-result";

/// Version of the format. It changes when a key changes its meaning or goes away; keys may be added without.
pub const SCHEMA_VERSION: u32 = 1;

/// The document, the same for every host and any number of threads.
pub(super) fn json(answer: &Answer) -> Result<String, Error> {
    let document = document(answer).map_err(SweepError::from)?;
    let findings = answer.result.findings()?;
    let mut all = document;
    all.extend(findings);
    Ok(format!("{:#}\n", Value::Object(all)))
}

fn document(answer: &Answer) -> Result<Map<String, Value>, serde_json::Error> {
    let result = &answer.result;
    let mut document = Map::new();
    let mode = match result.modes.as_slice() {
        [mode] => serde_json::to_value(mode)?,
        _ => json!("all"),
    };
    document.extend(heading(SCHEMA, answer.inputs.as_ref())?);
    for (key, value) in [
        ("finished", json!(answer.is_whole)),
        ("mode", mode),
        ("spec", serde_json::to_value(&result.spec)?),
        ("resolved", resolved(answer)?),
        ("candidates", candidates(answer)?),
        ("explanation", serde_json::to_value(&answer.explanation)?),
        ("confidence", serde_json::to_value(&answer.confidence)?),
        ("pareto", serde_json::to_value(&result.pareto)?),
    ] {
        document.insert(key.to_owned(), value);
    }
    Ok(document)
}

/// What wrote a document, and what it rests on.
fn heading(schema: &str, inputs: Option<&Inputs>) -> Result<Map<String, Value>, serde_json::Error> {
    let mut heading = Map::new();
    for (key, value) in [
        ("schema", json!(schema)),
        ("schema_version", json!(SCHEMA_VERSION)),
        ("dynosim_version", json!(env!("CARGO_PKG_VERSION"))),
        ("fingerprint", json!(inputs.map(Inputs::fingerprint))),
        ("inputs", serde_json::to_value(inputs)?),
    ] {
        heading.insert(key.to_owned(), value);
    }
    Ok(heading)
}

/// A comparison of both kinds of deployments as a JSON document, with what it rests on, and whether nothing that was asked
/// for is missing.
///
/// # Errors
/// If something cannot be written as JSON.
pub fn comparison_json(comparison: &Comparison, is_whole: bool, inputs: Option<&Inputs>) -> Result<String, Error> {
    let mut document = heading("dynosim-comparison", inputs).map_err(SweepError::from)?;
    let Value::Object(comparison) = serde_json::from_str(&comparison.to_json()?).map_err(SweepError::from)? else {
        unreachable!("a comparison is an object");
    };
    document.insert("finished".to_owned(), json!(is_whole));
    document.extend(comparison);
    Ok(format!("{:#}\n", Value::Object(document)))
}

/// What the spec leaves to defaults: engine settings of every role, and where step times come from.
fn resolved(answer: &Answer) -> Result<Value, serde_json::Error> {
    let spec = &answer.result.spec;
    let mut roles: Vec<WorkerRole> = Vec::new();
    for &role in answer.result.modes.iter().flat_map(|mode| mode.roles()) {
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    let mut engine = Map::new();
    for role in roles {
        engine.insert(role.to_string(), serde_json::to_value(spec.engine.config(role))?);
    }
    let calibration = answer.scenario.physics().map(|physics| &physics.calibration.name);
    Ok(json!({
        "engine": engine,
        "step_times": answer.step_times.to_string(),
        "calibration": calibration,
    }))
}

/// The explained candidates, each with its simulation as a document of its own.
fn candidates(answer: &Answer) -> Result<Value, serde_json::Error> {
    let candidates = answer.detailed.iter().zip(answer.run_specs()).zip(1..);
    let candidates = candidates.map(|((candidate, run), rank)| {
        Ok(json!({
            "rank": rank,
            "state": candidate.record.state.to_string(),
            "standing": candidate.standing,
            "run": serde_json::to_value(run)?,
            "record": serde_json::to_value(&candidate.record)?,
        }))
    });
    let candidates: Vec<Value> = candidates.collect::<Result<_, serde_json::Error>>()?;
    Ok(Value::Array(candidates))
}
