//! Runs of the reference on traces and synthetic workloads.

use std::path::Path;

use super::support::{Golden, golden_dir, goldens, shared_dir};

#[test]
fn runs_without_external_traces_agree() {
    check(goldens(&golden_dir().join("runs")), None);
}

#[test]
fn runs_on_public_traces_agree() {
    let Some(shared) = shared_dir() else {
        eprintln!("skipped: there is no folder ../shared with public traces beside this repository");
        return;
    };
    let mut goldens = goldens(&shared.join("golden/runs"));
    goldens.retain(|golden| {
        let file = golden.json["run"]["workload"]["traceFile"].as_str();
        file.is_some_and(|file| file != "inline")
    });
    check(goldens, Some(&shared));
}

fn check(goldens: Vec<Golden>, traces: Option<&Path>) {
    let mut differences = Vec::new();
    for golden in goldens {
        let mut spec = golden.run_spec(traces);
        if golden.json["check"] == "exact" {
            differences.extend(golden.differences(&golden.simulate(&spec).report));
            continue;
        }
        let reports = (0..golden.seeds()).map(|seed| {
            spec.router.seed = Some(seed);
            golden.simulate(&spec).report
        });
        differences.extend(golden.envelope_differences(&reports.collect::<Vec<_>>()));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

impl Golden {
    /// Seeds to average over: an interval drawn by few repetitions is narrow against the spread of ten.
    fn seeds(&self) -> u64 {
        if self.json["envelope_repeats"]
            .as_u64()
            .is_some_and(|repeats| repeats < 10)
        {
            30
        } else {
            10
        }
    }

    /// Where the mean over several seeds leaves the interval that the reference's random ties span.
    fn envelope_differences(&self, reports: &[dynosim::Report]) -> Vec<String> {
        let envelope = self.json["envelope"].as_object().expect("an envelope");
        let few = self.json["envelope_repeats"]
            .as_u64()
            .is_some_and(|repeats| repeats <= 3);
        let compared = |key: &str| {
            key.starts_with("mean_")
                || key.contains("throughput_tok_s")
                || matches!(
                    key,
                    "duration_ms" | "prefix_cache_reused_ratio" | "request_throughput_rps"
                )
        };
        let metrics: Vec<_> = reports.iter().map(dynosim::Report::metrics).collect();
        envelope
            .iter()
            .filter(|(key, _)| compared(key))
            .filter_map(|(key, interval)| {
                let mean = metrics.iter().map(|metrics| metrics[key.as_str()]).sum::<f64>() / metrics.len() as f64;
                let bound = |index: usize| interval[index].as_f64().expect("a number");
                let slack = if few { 0.02 } else { 1e-8 };
                let (low, high) = (bound(0) * (1.0 - slack), bound(1) * (1.0 + slack));
                (mean < low || mean > high)
                    .then(|| format!("{}: {key} is {mean} on average, expected {low} to {high}", self.name))
            })
            .collect()
    }
}
