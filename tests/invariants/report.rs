//! The report against the requests that it sums up.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::any_run::{AnyRun, Served};
use crate::random_cases::random_cases;

proptest! {
    #![proptest_config(random_cases(300))]

    #[test]
    fn oracle_the_report_follows_from_the_requests(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        let expected = recomputed(&served);
        let reported = served.report().metrics();
        prop_assert_eq!(reported.len(), 65);
        prop_assert_eq!(expected.len(), 65);
        for (name, &value) in &reported {
            let expected = expected[name.as_str()];
            let close = (value - expected).abs() <= 1e-9 * expected.abs().max(1.0);
            prop_assert!(close, "{} is {}, expected {}", name, value, expected);
        }
    }
}

/// All metrics from arrivals, reuse and token times.
fn recomputed(served: &Served) -> BTreeMap<String, f64> {
    let mut ttft = Vec::new();
    let mut ttst = Vec::new();
    let mut tpot = Vec::new();
    let mut gaps = Vec::new();
    let mut latency = Vec::new();
    let (mut completed, mut input, mut output, mut reused) = (0.0, 0.0, 0.0, 0.0);
    let mut end_ms = 0.0_f64;
    for (index, (request, record)) in served.requests.iter().zip(&served.outcome.requests).enumerate() {
        let nanos = served.token_times(index);
        let (Some(arrival), Some(&first), Some(&last)) = (record.arrival, nanos.first(), nanos.last()) else {
            continue;
        };
        completed += 1.0;
        input += f64::from(request.input_tokens);
        output += nanos.len() as f64;
        reused += f64::from(record.reused_tokens);
        end_ms = end_ms.max(ms(last));
        ttft.push(ms(first - arrival.as_nanos()));
        latency.push(ms(last - arrival.as_nanos()));
        if let Some(second) = nanos.get(1) {
            ttst.push(ms(second - first));
            tpot.push(ms(last - first) / (nanos.len() - 1) as f64);
        }
        gaps.extend(nanos.windows(2).map(|pair| ms(pair[1] - pair[0])));
    }
    let per_user: Vec<f64> = gaps.iter().filter(|&&gap| gap > 0.0).map(|gap| 1000.0 / gap).collect();
    let seconds = (end_ms / 1000.0).max(1e-9);

    let mut metrics = BTreeMap::new();
    for (name, value) in [
        ("num_requests", served.requests.len() as f64),
        ("completed_requests", completed),
        ("total_input_tokens", input),
        ("total_output_tokens", output),
        ("duration_ms", end_ms),
        ("request_throughput_rps", completed / seconds),
        ("input_throughput_tok_s", input / seconds),
        ("output_throughput_tok_s", output / seconds),
        ("total_throughput_tok_s", (input + output) / seconds),
        ("processed_tokens", input + output),
        (
            "prefix_cache_reused_ratio",
            if input > 0.0 { reused / input } else { 0.0 },
        ),
    ] {
        metrics.insert(name.to_owned(), value);
    }
    for (name, sample) in [
        ("ttft_ms", ttft),
        ("ttst_ms", ttst),
        ("tpot_ms", tpot),
        ("itl_ms", gaps),
        ("e2e_latency_ms", latency),
        ("output_token_throughput_per_user", per_user),
    ] {
        for (figure, value) in figures(sample) {
            metrics.insert(format!("{figure}_{name}"), value);
        }
    }
    metrics
}

fn figures(mut sample: Vec<f64>) -> Vec<(&'static str, f64)> {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let at = |percent: usize| {
        // The nearest rank, halves rounded up.
        let rank = (sample.len().saturating_sub(1) * percent * 2 + 100) / 200;
        sample.get(rank).copied().unwrap_or_default()
    };
    let per_value = |sum: f64| if sample.is_empty() { 0.0 } else { sum / count };
    let mean = per_value(sample.iter().sum());
    let variance = per_value(sample.iter().map(|value| (value - mean).powi(2)).sum());
    vec![
        ("mean", mean),
        ("min", at(0)),
        ("max", at(100)),
        ("median", at(50)),
        ("p75", at(75)),
        ("p90", at(90)),
        ("p95", at(95)),
        ("p99", at(99)),
        ("std", variance.sqrt()),
    ]
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
