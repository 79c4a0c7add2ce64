//! What the head of every file says: the deployment, and what its simulation came out as.

use dynosim_core::{Outcome, Report};
use dynosim_spec::RunSpec;
use serde_json::{Map, Value};

use crate::question::{gpus, load};
use crate::step_times::StepTimes;

/// Facts about a simulation, by name.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    facts: Vec<(&'static str, String)>,
}

impl Heading {
    pub(super) fn new(spec: &RunSpec, outcome: &Outcome) -> Self {
        let report = &outcome.report;
        let step_times = StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, None);
        let facts = vec![
            ("dynosim", env!("CARGO_PKG_VERSION").to_owned()),
            ("model", spec.engine.model.clone()),
            ("gpus", gpus(spec.topology.total_gpus(), &spec.hardware.system)),
            ("deployment", deployment(spec)),
            ("workload", load(&spec.workload)),
            ("step times", step_times.to_string()),
            (
                "calibration",
                report.calibration.clone().unwrap_or_else(|| "none".to_owned()),
            ),
            (
                "requests",
                format!("{} of {} served", report.completed_requests, report.num_requests),
            ),
            ("ttft", mean_and_p95(report.ttft.mean, report.ttft.p95)),
            ("tpot", mean_and_p95(report.tpot.mean, report.tpot.p95)),
            ("e2e", mean_and_p95(report.e2e_latency.mean, report.e2e_latency.p95)),
            ("throughput", throughput(report)),
            ("error band", error_band(report)),
        ];
        Self { facts }
    }

    /// A file with the facts and these notes above it as comments; the first line stays first if it names an interpreter.
    pub(super) fn above<'a>(&self, text: &str, notes: impl Iterator<Item = &'a String>) -> String {
        let (first, rest) = match text.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => (format!("{first}\n"), rest),
            _ => (String::new(), text),
        };
        let mut head = format!("{first}# Simulated by DynoSim:\n");
        for (name, fact) in &self.facts {
            comment(&mut head, &format!("  {name:<12}{fact}"));
        }
        let mut notes = notes.peekable();
        if notes.peek().is_some() {
            head.push_str("#\n# Not the same here as in the simulation:\n");
        }
        for note in notes {
            comment(&mut head, &format!("  - {note}"));
        }
        format!("{head}\n{rest}")
    }

    /// The facts as an object.
    pub(super) fn json(&self) -> Map<String, Value> {
        let facts = self.facts.iter();
        facts
            .map(|(name, fact)| (name.replace(' ', "_"), fact.as_str().into()))
            .collect()
    }
}

/// A comment of one line, whatever the text holds.
fn comment(head: &mut String, text: &str) {
    head.push('#');
    head.extend(
        text.chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter }),
    );
    head.push('\n');
}

/// The pools and their router.
fn deployment(spec: &RunSpec) -> String {
    let pools = spec.topology.pools();
    let pools: Vec<String> = pools
        .iter()
        .map(|pool| format!("{} {} x {}", pool.workers, pool.role, pool.shape))
        .collect();
    let settings = spec.router.settings();
    let router = match settings.mode {
        dynosim_spec::RouterMode::RoundRobin => "round robin".to_owned(),
        dynosim_spec::RouterMode::KvRouter => format!(
            "KV router with overlap_score_credit {} and prefill_load_scale {}",
            settings.overlap_score_credit, settings.prefill_load_scale
        ),
    };
    let backend = super::bench::engine_name(spec.engine.backend);
    format!("{backend}: {}; {router}", pools.join(", "))
}

fn mean_and_p95(mean_ms: f64, p95_ms: f64) -> String {
    format!("mean {mean_ms:.2} ms, p95 {p95_ms:.2} ms")
}

fn throughput(report: &Report) -> String {
    let metrics = report.metrics();
    let requests = metrics.get("request_throughput_rps").copied().unwrap_or_default();
    format!(
        "{requests:.3} requests/s, {:.1} output tok/s",
        report.output_throughput_tok_s()
    )
}

/// Where measurements are to be expected.
fn error_band(report: &Report) -> String {
    let Some(bands) = &report.error_bands else {
        return "none: nothing like this was compared with measurements".to_owned();
    };
    let means = [("TTFT", bands.mean_ttft_ms), ("TPOT", bands.mean_tpot_ms)];
    let means = means.into_iter().filter_map(|(name, band)| {
        let [low, high] = band?;
        Some(format!("mean {name} {low:.1} to {high:.1} ms"))
    });
    format!("{} ({})", means.collect::<Vec<_>>().join(", "), bands.basis)
}
