//! Worked examples of the reference with a few requests each.

use serde_json::Value;

use super::support::{Golden, golden_dir, goldens, request_times};

#[test]
fn worked_examples_agree_in_every_metric() {
    let mut differences = Vec::new();
    for golden in goldens(&golden_dir().join("engine")) {
        let mut spec = golden.run_spec(None);
        let outcome = match golden.json["check"].as_str() {
            Some("one_of_many") => {
                // The reference broke ties at random: some seed must give its result.
                let outcomes = (0..50).map(|seed| {
                    spec.router.seed = Some(seed);
                    golden.simulate(&spec)
                });
                let all: Vec<_> = outcomes.collect();
                let hit = all
                    .iter()
                    .position(|outcome| golden.differences(&outcome.report).is_empty());
                let Some(hit) = hit else {
                    differences.push(format!("{}: no seed below 50 agrees", golden.name));
                    continue;
                };
                all.into_iter().nth(hit).expect("it is there")
            }
            _ => golden.simulate(&spec),
        };
        differences.extend(golden.differences(&outcome.report));
        differences.extend(request_differences(&golden, &outcome));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn request_differences(golden: &Golden, outcome: &dynosim::core::Outcome) -> Vec<String> {
    let Value::Object(expected) = &golden.json["expected_requests"] else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    let mut check = |what: &str, ours: f64, expected: &Value, tolerance: f64| {
        let expected = expected.as_f64().expect("a number");
        if (ours - expected).abs() > tolerance {
            differences.push(format!("{}: {what} is {ours}, expected {expected}", golden.name));
        }
    };
    let preemptions: u32 = outcome.requests.iter().map(|record| record.preemptions).sum();
    check("preemptions", f64::from(preemptions), &expected["preemptions"], 0.0);
    check("evictions", outcome.evictions as f64, &expected["evictions"], 0.0);
    let requests = expected["requests"].as_array().expect("requests");
    let rounding_per_step = rounding_per_step(golden, requests);
    for (ours, expected) in request_times(outcome).iter().zip(requests) {
        let request = format!("request {}", expected["order"]);
        check(
            &format!("{request} arrival"),
            ours.arrival_ms,
            &expected["arrival_ms"],
            1e-6,
        );
        check(
            &format!("{request} admission"),
            ours.first_admit_ms,
            &expected["first_admit_ms"],
            1e-6,
        );
        check(
            &format!("{request} reuse"),
            f64::from(ours.reused_tokens),
            &expected["reused_input_tokens"],
            0.0,
        );
        let times = expected["token_times_ms"].as_array().expect("times");
        check(
            &format!("{request} tokens"),
            ours.token_times_ms.len() as f64,
            &times.len().into(),
            0.0,
        );
        for (at, (ours, expected)) in ours.token_times_ms.iter().zip(times).enumerate() {
            let tolerance = 1e-6 + rounding_per_step * (at + 1) as f64;
            check(&format!("{request} token {at}"), *ours, expected, tolerance);
        }
    }
    differences
}

/// Milliseconds by which each step may be off: the clock rounds steps to whole nanoseconds. Where a
/// file's list of requests contradicts its own report, the list was made with halves rounded the
/// other way (example 32, whose steps last 33.2915625 ms).
fn rounding_per_step(golden: &Golden, requests: &[Value]) -> f64 {
    let times = requests
        .iter()
        .filter_map(|request| request["token_times_ms"].as_array()?.last()?.as_f64());
    let last = times.fold(0.0, f64::max);
    let duration = golden.json["expected"]["duration_ms"].as_f64().expect("a duration");
    if (last - duration).abs() > 1e-6 { 1e-6 } else { 0.0 }
}
