//! `expected.json`: what the simulation says that a benchmark will measure, under the names of AIPerf.

use dynosim_core::{Distribution, Report};
use serde_json::{Value, json};

use super::heading::Heading;

/// The document. AIPerf interpolates percentiles, and these are nearest-rank.
pub(super) fn expected(report: &Report, heading: &Heading, warnings: &[String]) -> String {
    let metrics = report.metrics();
    let metric = |name: &str| metrics.get(name).copied().unwrap_or_default();
    let scalar = |unit: &str, name: &str| json!({ "unit": unit, "avg": metric(name) });
    let mut simulation = heading.json();
    simulation.insert("not_the_same".to_owned(), json!(warnings));
    let document = json!({
        "simulation": simulation,
        "time_to_first_token": latencies(&report.ttft),
        "inter_token_latency": latencies(&report.tpot),
        "inter_chunk_latency": latencies(&report.itl),
        "request_latency": latencies(&report.e2e_latency),
        "request_throughput": scalar("requests/sec", "request_throughput_rps"),
        "output_token_throughput": scalar("tokens/sec", "output_throughput_tok_s"),
        "input_token_throughput": scalar("tokens/sec", "input_throughput_tok_s"),
        "total_token_throughput": scalar("tokens/sec", "total_throughput_tok_s"),
        "request_count": scalar("requests", "completed_requests"),
        "total_isl": scalar("tokens", "total_input_tokens"),
        "total_osl": scalar("tokens", "total_output_tokens"),
        "benchmark_duration": { "unit": "sec", "avg": report.duration_ms / 1000.0 },
    });
    format!("{document:#}\n")
}

fn latencies(ms: &Distribution) -> Value {
    json!({
        "unit": "ms", "avg": ms.mean, "p50": ms.median, "p75": ms.p75, "p90": ms.p90, "p95": ms.p95, "p99": ms.p99,
        "min": ms.min, "max": ms.max, "std": ms.std,
    })
}
