//! Figures of the reference (AIConfigurator 0.10.0 as called by ai-dynamo 1.2.1) in `tests/golden/timing`.

mod facts;

use std::fs;
use std::path::Path;

use dynosim_spec::Backend;
use dynosim_timing::{OperatorCost, TableTiming};
use facts::{deployment, model};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Largest relative error against a golden figure; absolute 1e-9 where that is 0.
const TOLERANCE: f64 = 1e-7;

#[derive(Debug, Deserialize)]
struct PrefillRow {
    model: String,
    tp: u32,
    batch: u32,
    prefix: u64,
    new_tokens: u64,
    ms: f64,
}

#[derive(Debug, Deserialize)]
struct DecodeRow {
    model: String,
    tp: u32,
    batch: u32,
    isl: u64,
    osl: u32,
    ms: f64,
}

#[derive(Debug, Deserialize)]
struct Call {
    call: String,
    model: String,
    tp: u32,
    batch: u32,
    prefix: Option<u64>,
    new_tokens: Option<u64>,
    context: Option<u64>,
    ops: Vec<GoldenOperator>,
}

#[derive(Debug, Deserialize)]
struct GoldenOperator {
    name: String,
    ms: f64,
    count: f64,
}

fn golden_text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/timing")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn golden_rows<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let text = golden_text(name);
    let rows = csv::Reader::from_reader(text.as_bytes())
        .into_deserialize()
        .collect::<Result<Vec<T>, _>>();
    rows.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn error(found: f64, expected: f64) -> f64 {
    if expected == 0.0 {
        // Scaled so that one tolerance serves both.
        return found.abs() / 1e-9 * TOLERANCE;
    }
    (found - expected).abs() / expected
}

#[track_caller]
fn check_prefill(file: &str, backend: Backend, expected_rows: usize) {
    let timing = TableTiming::new(None);
    let rows: Vec<PrefillRow> = golden_rows(file);
    assert_eq!(rows.len(), expected_rows);
    let mut largest = 0.0_f64;
    for row in rows {
        let bound = timing
            .bind_table(&deployment(model(&row.model), row.tp, backend))
            .expect("tables cover the model");
        let ms = bound
            .prefill_ms(row.batch, row.new_tokens, row.prefix)
            .expect("within reach");
        let error = error(ms, row.ms);
        assert!(error <= TOLERANCE, "{row:?}: {ms}");
        largest = largest.max(error);
    }
    println!("{file}: largest relative error {largest:e}");
}

#[track_caller]
fn check_decode(file: &str, backend: Backend, expected_rows: usize) {
    let timing = TableTiming::new(None);
    let rows: Vec<DecodeRow> = golden_rows(file);
    assert_eq!(rows.len(), expected_rows);
    let mut largest = 0.0_f64;
    for row in rows {
        let bound = timing
            .bind_table(&deployment(model(&row.model), row.tp, backend))
            .expect("tables cover the model");
        let ms = bound.decode_ms(row.batch, row.isl, row.osl).expect("within reach");
        let error = error(ms, row.ms);
        assert!(error <= TOLERANCE, "{row:?}: {ms}");
        largest = largest.max(error);
    }
    println!("{file}: largest relative error {largest:e}");
}

#[test]
fn prefill_on_vllm_matches() {
    check_prefill("prefill.csv", Backend::Vllm, 1302);
}

#[test]
fn decode_on_vllm_matches() {
    check_decode("decode.csv", Backend::Vllm, 1300);
}

#[test]
fn prefill_on_sglang_matches() {
    check_prefill("prefill_sglang_0.5.6.post2.csv", Backend::Sglang, 259);
}

#[test]
fn decode_on_sglang_matches() {
    check_decode("decode_sglang_0.5.6.post2.csv", Backend::Sglang, 262);
}

#[test]
fn every_operator_matches() {
    let timing = TableTiming::new(None);
    let calls: Vec<Call> = serde_json::from_str(&golden_text("breakdown.json")).expect("golden file is valid");
    assert_eq!(calls.len(), 40);
    for call in calls {
        let bound = timing.bind_table(&deployment(model(&call.model), call.tp, Backend::Vllm));
        let bound = bound.expect("tables cover the model");
        let operators = match (call.new_tokens.zip(call.prefix), call.context) {
            (Some((new_tokens, prefix)), None) => bound.prefill_operators(call.batch, new_tokens, prefix),
            (None, Some(context)) => bound.decode_operators(call.batch, context),
            _ => panic!("{call:?} is neither prefill nor decode"),
        };
        check_operators(&call, &operators.expect("within reach"));
    }
}

#[track_caller]
fn check_operators(call: &Call, operators: &[OperatorCost]) {
    // Pipeline parallelism is never used: the reference lists its transfer with count 0.
    let (used, unused): (Vec<_>, Vec<_>) = call.ops.iter().partition(|operator| operator.count > 0.0);
    assert!(
        unused
            .iter()
            .all(|operator| operator.name.ends_with("p2p") && operator.ms == 0.0)
    );
    assert_eq!(used.len(), operators.len());
    for (expected, found) in used.iter().zip(operators) {
        let phase = if call.call == "prefill" {
            "context"
        } else {
            "generation"
        };
        assert_eq!(expected.name, format!("{phase}_{}", found.name));
        assert!(
            (f64::from(found.count) - expected.count).abs() < 1e-9,
            "{expected:?}: {found:?}"
        );
        assert!(error(found.ms, expected.ms) <= TOLERANCE, "{expected:?}: {found:?}");
    }
}
