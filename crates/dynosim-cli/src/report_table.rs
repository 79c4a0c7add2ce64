//! The main metrics of a run, for people.

use std::fmt::Write;

use dynosim::Report;
use dynosim::core::Distribution;
use dynosim::spec::{RouterMode, RunSpec, Topology};

/// The main metrics as text.
pub(crate) fn report_table(spec: &RunSpec, report: &Report) -> String {
    let mut text = String::new();
    let metrics = report.metrics();
    let rate = |key: &str| metrics.get(key).copied().unwrap_or_default();
    for (name, value) in [
        ("deployment", deployment(spec)),
        ("requests", requests(report)),
        ("simulated time", format!("{:.3} s", report.duration_ms / 1000.0)),
        ("request rate", format!("{:.3} /s", rate("request_throughput_rps"))),
        (
            "throughput",
            format!(
                "{:.1} output tok/s, {:.1} input tok/s",
                rate("output_throughput_tok_s"),
                rate("input_throughput_tok_s")
            ),
        ),
        ("prefix reuse", format!("{:.3}", report.prefix_cache_reused_ratio)),
        (
            "extrapolated",
            format!("{:.1} % of step time", 100.0 * report.extrapolated_share),
        ),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<16}{value}");
    }
    text.push('\n');
    let _ = writeln!(
        text,
        "{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "", "mean", "median", "p90", "p95", "p99", "max"
    );
    for (name, distribution) in [
        ("TTFT ms", &report.ttft),
        ("TPOT ms", &report.tpot),
        ("ITL ms", &report.itl),
        ("E2E ms", &report.e2e_latency),
        ("tok/s per user", &report.output_token_throughput_per_user),
    ] {
        let _ = writeln!(text, "{name:<16}{}", figures(distribution));
    }
    text
}

fn deployment(spec: &RunSpec) -> String {
    let workers = match spec.topology {
        Topology::Aggregated { workers, tp } => format!("{workers} x tp {tp}"),
        Topology::Disaggregated {
            prefill_workers,
            decode_workers,
            prefill_tp,
            decode_tp,
        } => format!("prefill {prefill_workers} x tp {prefill_tp}, decode {decode_workers} x tp {decode_tp}"),
    };
    let router = match spec.router.mode {
        RouterMode::RoundRobin => "round robin",
        RouterMode::KvRouter => "KV router",
    };
    let gpus = spec.topology.total_gpus();
    format!(
        "{} on {gpus} {} GPUs: {workers}; {router}",
        spec.engine.model, spec.hardware.system
    )
}

fn requests(report: &Report) -> String {
    let mut text = format!("{} of {} completed", report.completed_requests, report.num_requests);
    if let Some(first) = report.rejections.first() {
        let _ = write!(
            text,
            ", {} rejected (request {}: {})",
            report.rejections.len(),
            first.request,
            first.reason
        );
    }
    text
}

fn figures(distribution: &Distribution) -> String {
    let Distribution {
        mean,
        median,
        p90,
        p95,
        p99,
        max,
        ..
    } = distribution;
    let figures = [mean, median, p90, p95, p99, max];
    figures.map(|value| format!("{value:>12.2}")).concat()
}
