//! The two documents as a user meets them: texts in, values, warnings or mistakes out.

mod built_in_code;
mod defaults;
mod engine_mistakes;
mod idle;
mod measured_setup;
mod mistakes;
mod round_trip;
mod snippets;
mod warnings;
mod workload_mistakes;

use serde_json::{Value, json};

use super::{ReplayOptimizeSpec, RunSpec};
use crate::error::SpecError;

/// A change to a document: a dotted path, and what to put there; without a value the key goes.
struct Change(&'static str, Option<Value>);

fn set(path: &'static str, value: Value) -> Change {
    Change(path, Some(value))
}

fn without(path: &'static str) -> Change {
    Change(path, None)
}

fn run_document() -> Value {
    json!({
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "baseEngineArgs": {}},
        "hardware": {"system": "h200_sxm"},
        "topology": {"workers": 2, "tp": 1},
        "router": {},
        "workload": {"isl": 1000, "osl": 50, "requestCount": 20, "concurrency": 4},
        "timing": {}
    })
}

fn sweep_document() -> Value {
    json!({
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm"},
        "hardware": {"system": "h200_sxm", "totalGpus": 16},
        "workload": {"isl": 1000, "osl": 50, "requestCount": 20, "concurrency": 4},
        "sla": {},
        "router": {}
    })
}

/// The document with the changes, as text.
fn changed(mut document: Value, changes: &[Change]) -> String {
    for Change(path, value) in changes {
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut place = &mut document;
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            place = &mut place[parent];
            if place.is_null() {
                *place = json!({});
            }
        }
        let object = place.as_object_mut().expect("parents are objects");
        match value {
            Some(value) => drop(object.insert((*key).to_owned(), value.clone())),
            None => drop(object.shift_remove(key)),
        }
    }
    document.to_string()
}

fn mistakes<T: std::fmt::Debug>(result: Result<T, SpecError>) -> Vec<String> {
    match result {
        Err(SpecError::Invalid { violations }) => violations.iter().map(ToString::to_string).collect(),
        other => panic!("mistakes were expected, not {other:?}"),
    }
}

/// The run document with these changes has exactly these mistakes.
#[track_caller]
fn check_run(changes: &[Change], expected: &[&str]) {
    let text = changed(run_document(), changes);
    assert_eq!(mistakes(RunSpec::from_json(&text)), expected, "{text}");
}

/// The sweep document with these changes has exactly these mistakes.
#[track_caller]
fn check_sweep(changes: &[Change], expected: &[&str]) {
    let text = changed(sweep_document(), changes);
    assert_eq!(mistakes(ReplayOptimizeSpec::from_json(&text)), expected, "{text}");
}
