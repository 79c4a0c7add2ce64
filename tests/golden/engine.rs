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
    let mut check = |what: &str, ours: f64, expected: &Value| {
        let expected = expected.as_f64().expect("a number");
        if (ours - expected).abs() > 1e-6 {
            differences.push(format!("{}: {what} is {ours}, expected {expected}", golden.name));
        }
    };
    let preemptions: u32 = outcome.requests.iter().map(|record| record.preemptions).sum();
    check("preemptions", f64::from(preemptions), &expected["preemptions"]);
    check("evictions", outcome.evictions as f64, &expected["evictions"]);
    let requests = expected["requests"].as_array().expect("requests");
    for (ours, expected) in request_times(outcome).iter().zip(requests) {
        let request = format!("request {}", expected["order"]);
        check(&format!("{request} arrival"), ours.arrival_ms, &expected["arrival_ms"]);
        check(
            &format!("{request} admission"),
            ours.first_admit_ms,
            &expected["first_admit_ms"],
        );
        check(
            &format!("{request} reuse"),
            f64::from(ours.reused_tokens),
            &expected["reused_input_tokens"],
        );
        let times = expected["token_times_ms"].as_array().expect("times");
        check(
            &format!("{request} tokens"),
            ours.token_times_ms.len() as f64,
            &times.len().into(),
        );
        for (at, (ours, expected)) in ours.token_times_ms.iter().zip(times).enumerate() {
            check(&format!("{request} token {at}"), *ours, expected);
        }
    }
    differences
}
