//! The main metrics of a run, for people.

use std::fmt::Write;

use dynosim::core::{Breakdown, Distribution};
use dynosim::spec::{RouterMode, RunSpec, Topology};
use dynosim::{Outcome, Report, StepTimes, kv_transfer};

/// The main metrics as text.
pub(crate) fn report_table(spec: &RunSpec, outcome: &Outcome, step_times: &StepTimes) -> String {
    let mut text = String::new();
    for (name, value) in facts(spec, outcome, step_times) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<16}{value}");
    }
    text.push('\n');
    let _ = writeln!(
        text,
        "{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "", "mean", "median", "p90", "p95", "p99", "max"
    );
    let report = &outcome.report;
    let mut requests = outcome.requests.iter();
    let has_gaps = requests.any(|request| request.counts() && request.output_tokens > 1);
    for (name, distribution, there) in [
        ("TTFT ms", &report.ttft, true),
        ("TPOT ms", &report.tpot, has_gaps),
        ("ITL ms", &report.itl, has_gaps),
        ("E2E ms", &report.e2e_latency, true),
        ("tok/s per user", &report.output_token_throughput_per_user, has_gaps),
    ] {
        let figures = if there { figures(distribution) } else { no_figures() };
        let _ = writeln!(text, "{name:<16}{figures}");
    }
    if let Some(breakdown) = &report.breakdown {
        text.push_str(&breakdown_table(breakdown));
    }
    text
}

/// What time is spent on: terms of steps, the largest first, and parts of the time to first token as they pass.
fn breakdown_table(breakdown: &Breakdown) -> String {
    let mut text = "\nstep time of all workers\n".to_owned();
    let total_ms = breakdown.total_ms();
    let mut terms: Vec<_> = breakdown.terms().collect();
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, ms) in terms {
        let percent = if total_ms > 0.0 { 100.0 * ms / total_ms } else { 0.0 };
        let _ = writeln!(text, "  {name:<22}{:>12.3} s{percent:>8.1} %", ms / 1000.0);
    }
    text.push_str("mean time to first token\n");
    let parts = breakdown.ttft.named();
    let total_ms: f64 = parts.iter().map(|(_, ms)| ms).sum();
    for (name, ms) in parts {
        let percent = if total_ms > 0.0 { 100.0 * ms / total_ms } else { 0.0 };
        let _ = writeln!(text, "  {name:<22}{ms:>12.2} ms{percent:>7.1} %");
    }
    text
}

fn facts(spec: &RunSpec, outcome: &Outcome, step_times: &StepTimes) -> Vec<(&'static str, String)> {
    let report = &outcome.report;
    let metrics = report.metrics();
    let rate = |key: &str| metrics.get(key).copied().unwrap_or_default();
    let preemptions: u64 = outcome
        .requests
        .iter()
        .map(|request| u64::from(request.preemptions))
        .sum();
    let mut facts = vec![("deployment", deployment(spec)), ("step times", step_times.to_string())];
    if let Some(calibration) = &report.calibration {
        facts.push(("calibration", calibration.clone()));
    }
    if matches!(spec.topology, Topology::Disaggregated { .. }) {
        facts.push(("KV transfer", kv_transfer(&spec.engine)));
    }
    facts.extend([
        ("requests", requests(report)),
        ("simulated time", format!("{:.3} s", report.duration_ms / 1000.0)),
        (
            "throughput",
            format!(
                "{:.3} requests/s served, {:.1} output tok/s, {:.1} input tok/s",
                rate("request_throughput_rps"),
                rate("output_throughput_tok_s"),
                rate("input_throughput_tok_s")
            ),
        ),
        ("prefix reuse", format!("{:.3}", report.prefix_cache_reused_ratio)),
        ("preemptions", preemptions.to_string()),
        ("evictions", format!("{} KV blocks", outcome.evictions)),
        ("extrapolated", extrapolated(report, step_times)),
        ("error band", expected(report)),
    ]);
    facts
}

/// Where measurements are to be expected.
fn expected(report: &Report) -> String {
    let Some(bands) = &report.error_bands else {
        return "none: nothing like this was compared with measurements".to_owned();
    };
    let means = [("TTFT", bands.mean_ttft_ms), ("TPOT", bands.mean_tpot_ms)];
    let means = means.into_iter().filter_map(|(name, band)| {
        let [low, high] = band?;
        Some(format!("mean {name} {low:.1} to {high:.1} ms measured"))
    });
    format!("{} ({})", means.collect::<Vec<_>>().join(", "), bands.basis)
}

fn extrapolated(report: &Report, step_times: &StepTimes) -> String {
    let percent = 100.0 * report.extrapolated_share;
    match (step_times.rest_on_measurements(), report.extrapolated_share > 0.0) {
        (true, _) => format!("{percent:.1} % of step time"),
        (false, false) => "n/a: not from measurements".to_owned(),
        (false, true) => {
            format!("n/a: not from measurements; {percent:.1} % of step time is of kernels without a calibration")
        }
    }
}

fn deployment(spec: &RunSpec) -> String {
    let workers = match spec.topology {
        Topology::Aggregated { workers, shape } => format!("{workers} x {shape}"),
        Topology::Disaggregated {
            prefill_workers,
            decode_workers,
            prefill_shape,
            decode_shape,
        } => format!("prefill {prefill_workers} x {prefill_shape}, decode {decode_workers} x {decode_shape}"),
    };
    let router = match spec.router.mode {
        RouterMode::RoundRobin => "round robin",
        RouterMode::KvRouter => "KV router",
    };
    let gpus = spec.topology.total_gpus();
    let noun = if gpus == 1 { "GPU" } else { "GPUs" };
    format!(
        "{} on {gpus} {} {noun}: {workers}; {router}",
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

fn no_figures() -> String {
    format!("{:>12}", "-").repeat(6)
}
