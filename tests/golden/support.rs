//! Reading golden files, running what they describe, comparing.

use std::fs;
use std::path::{Path, PathBuf};

use dynosim::core::Outcome;
use dynosim::spec::{RunSpec, SimTime, WorkloadSpec, read_trace};
use dynosim::{Report, Run};
use serde_json::Value;

/// `tests/golden` of this repository.
pub(crate) fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The folder of traces and further figures beside the repository, where there is one.
pub(crate) fn shared_dir() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    dir.join("traces").is_dir().then_some(dir)
}

/// One golden file.
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) json: Value,
}

/// All golden files of a folder, by name.
pub(crate) fn goldens(dir: &Path) -> Vec<Golden> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| Golden {
        name: path.file_stem().expect("a file name").to_string_lossy().into_owned(),
        json: serde_json::from_str(&fs::read_to_string(path).expect("a readable file")).expect("valid JSON"),
    };
    paths.iter().map(read).collect()
}

impl Golden {
    /// Its run, trace paths resolved against the folder that they are relative to.
    pub(crate) fn run_spec(&self, traces: Option<&Path>) -> RunSpec {
        let checked = RunSpec::from_json(&self.json["run"].to_string());
        let mut spec = checked.unwrap_or_else(|error| panic!("{}: {error}", self.name)).value;
        if let (WorkloadSpec::Trace(trace), Some(traces)) = (&mut spec.workload, traces) {
            trace.trace_file = traces.join(&trace.trace_file);
        }
        spec
    }

    /// Runs `spec` on this file's inline trace, or on its own workload.
    pub(crate) fn simulate(&self, spec: &RunSpec) -> Outcome {
        let mut run = Run::new(spec).keep_token_times();
        if let (WorkloadSpec::Trace(trace), Value::Array(lines)) = (&spec.workload, &self.json["trace_lines"]) {
            let lines: Vec<&str> = lines.iter().map(|line| line.as_str().expect("a line")).collect();
            let workload = read_trace(lines.join("\n").as_bytes(), &self.name, trace);
            run = run.workload(workload.unwrap_or_else(|error| panic!("{}: {error}", self.name)));
        }
        run.simulate().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Differences between a report and the figures of this file, under its tolerance.
    pub(crate) fn differences(&self, report: &Report) -> Vec<String> {
        let expected = self.json["expected"].as_object().expect("a report");
        let metrics = report.metrics();
        expected
            .iter()
            .filter_map(|(key, value)| {
                let (ours, expected) = (metrics.get(key)?, value.as_f64()?);
                let close = (ours - expected).abs() <= 1e-9 + 1e-8 * expected.abs();
                (!close).then(|| format!("{}: {key} is {ours}, expected {expected}", self.name))
            })
            .collect()
    }
}

/// A request as golden files list it.
#[derive(Debug)]
pub(crate) struct RequestTimes {
    pub(crate) arrival_ms: f64,
    pub(crate) first_admit_ms: f64,
    pub(crate) reused_tokens: u32,
    pub(crate) token_times_ms: Vec<f64>,
}

/// The requests of a run in order of arrival.
pub(crate) fn request_times(outcome: &Outcome) -> Vec<RequestTimes> {
    let times = outcome.token_times.as_ref().expect("token times were kept");
    let ms = |time: Option<SimTime>| time.map_or(f64::NAN, SimTime::as_ms);
    let mut requests: Vec<RequestTimes> = outcome
        .requests
        .iter()
        .zip(times)
        .map(|(record, times)| RequestTimes {
            arrival_ms: ms(record.arrival),
            first_admit_ms: ms(record.first_admission),
            reused_tokens: record.reused_tokens,
            token_times_ms: times.iter().map(|time| time.as_ms()).collect(),
        })
        .collect();
    requests.sort_by(|a, b| a.arrival_ms.total_cmp(&b.arrival_ms));
    requests
}
