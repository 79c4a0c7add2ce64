//! Figures of the reference (AIConfigurator 0.10.0 as called by ai-dynamo 1.2.1) in `tests/golden/timing`.

mod facts;

use std::fs;
use std::path::Path;

use dynosim_spec::Backend;
use dynosim_timing::{OperatorCost, RooflineTiming, TableTiming, TimingError, estimate_kv_tokens};
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
    #[serde(rename = "call")]
    phase: String,
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
fn check_prefill(file: &str, backend: Backend, version: Option<&str>, expected_rows: usize) {
    let timing = TableTiming::new(version.map(str::to_owned));
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
fn check_decode(file: &str, backend: Backend, version: Option<&str>, expected_rows: usize) {
    let timing = TableTiming::new(version.map(str::to_owned));
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
    check_prefill("prefill.csv", Backend::Vllm, None, 1302);
}

#[test]
fn decode_on_vllm_matches() {
    check_decode("decode.csv", Backend::Vllm, None, 1300);
}

/// As published, so without repair.
#[test]
fn steps_on_vllm_0_19_0_match() {
    check_prefill("prefill_vllm_0.19.0.csv", Backend::Vllm, Some("0.19.0"), 146);
    check_decode("decode_vllm_0.19.0.csv", Backend::Vllm, Some("0.19.0"), 140);
}

#[test]
fn prefill_on_sglang_matches() {
    check_prefill("prefill_sglang_0.5.6.post2.csv", Backend::Sglang, None, 259);
}

#[test]
fn decode_on_sglang_matches() {
    check_decode("decode_sglang_0.5.6.post2.csv", Backend::Sglang, None, 262);
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
        let phase = if call.phase == "prefill" {
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

#[derive(Debug, Deserialize)]
struct CapacityRow {
    model: String,
    tp: u32,
    block_size: u64,
    num_gpu_blocks: String,
    backend: Backend,
    memory_fraction: f64,
    max_num_batched_tokens: u32,
}

#[test]
fn capacities_match_exactly() {
    let rows: Vec<CapacityRow> = golden_rows("capacity.csv");
    let mut without_room = 0;
    for row in &rows {
        let mut deployment = deployment(model(&row.model), row.tp, row.backend);
        deployment.engine.memory_fraction = row.memory_fraction;
        deployment.engine.max_num_batched_tokens = Some(row.max_num_batched_tokens);
        let tokens = estimate_kv_tokens(&deployment);
        if row.num_gpu_blocks.starts_with("ERR") {
            assert!(
                matches!(tokens, Err(TimingError::NoKvRoom { .. })),
                "{row:?}: {tokens:?}"
            );
            without_room += 1;
        } else {
            let blocks = tokens.expect("has room") / row.block_size;
            assert_eq!(blocks.to_string(), row.num_gpu_blocks, "{row:?}");
        }
    }
    println!("capacity.csv: {} rows, {without_room} of them without room", rows.len());
}

/// Median of unsigned relative errors in percent, and the 90th percentile.
fn median_and_p90(mut errors: Vec<f64>) -> (f64, f64) {
    errors.sort_by(f64::total_cmp);
    (100.0 * errors[errors.len() / 2], 100.0 * errors[errors.len() * 9 / 10])
}

#[test]
fn roofline_is_near_the_reference() {
    for (name, prefill_median, decode_median) in [
        ("Qwen/Qwen3-32B", 6.0, 6.0),
        ("Qwen/Qwen3-8B", 6.0, 6.0),
        ("meta-llama/Meta-Llama-3.1-8B", 6.0, 6.0),
        ("meta-llama/Meta-Llama-3.1-70B", 6.0, 6.0),
        ("Qwen/Qwen3-32B-FP8", 9.0, 6.0),
    ] {
        let bound = |tp| {
            let deployment = deployment(model(name), tp, Backend::Vllm);
            RooflineTiming.bind_roofline(&deployment).expect("facts are known")
        };
        let prefill: Vec<f64> = (golden_rows::<PrefillRow>("prefill.csv").into_iter())
            .filter(|row| row.model == name && row.new_tokens + row.prefix <= 16_384)
            .map(|row| error(bound(row.tp).prefill_ms(row.batch, row.new_tokens, row.prefix), row.ms))
            .collect();
        let decode: Vec<f64> = (golden_rows::<DecodeRow>("decode.csv").into_iter())
            .filter(|row| row.model == name && row.isl <= 16_384 && row.osl > 1)
            .map(|row| error(bound(row.tp).decode_ms(row.batch, row.isl, row.osl), row.ms))
            .collect();
        let (prefill, decode) = (median_and_p90(prefill), median_and_p90(decode));
        println!("{name}: prefill median, p90 {prefill:.1?} %, decode {decode:.1?} %");
        assert!(prefill.0 < prefill_median, "{name}: {prefill:?}");
        assert!(decode.0 < decode_median, "{name}: {decode:?}");
    }
}
