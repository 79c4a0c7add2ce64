//! Hand-off: a simulated deployment as files with which it is run and measured for real.
//!
//! [`hand_off`] writes a Kubernetes manifest of Dynamo (`dgd.yaml`), plain commands that start the same engines
//! (`serve.sh`), a benchmark of the very requests that were simulated (`bench.sh` and `trace.jsonl`), and what the
//! simulation expects of it (`expected.json`). Whatever was simulated and cannot be asked for there, and whatever
//! is there and was not simulated, is listed at the head of the file that it concerns and in [`Handoff::warnings`].
//!
//! No file depends on the host or its clock.

mod bench;
mod candidate;
mod dynamo_version;
mod engine_flags;
mod error;
mod expected;
mod heading;
mod launch;
mod manifest;
mod placement;
mod router_env;
mod shell;
mod target;
#[cfg(test)]
mod tests;
mod trace_file;
mod unreproduced;
mod worker_pool;

use dynosim_core::Outcome;
use dynosim_spec::{RunSpec, Workload};

pub use self::candidate::Candidate;
pub use self::dynamo_version::DynamoVersion;
pub use self::error::ExportError;
pub use self::target::{ApiVersion, Target};

use self::heading::Heading;
use self::trace_file::TraceFile;
use self::worker_pool::WorkerPool;

/// A deployment, ready to be run elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// The files, in the order in which people need them.
    pub files: Vec<HandoffFile>,
    /// What the target cannot do as simulated, and what of it was not simulated.
    pub warnings: Vec<String>,
}

/// One file of a [`Handoff`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffFile {
    /// Its name within the folder.
    pub name: &'static str,
    /// All of it.
    pub text: String,
}

impl HandoffFile {
    /// Whether it is a script.
    pub fn is_script(&self) -> bool {
        self.text.starts_with("#!")
    }
}

/// Writes the files for a simulation of `spec` over `workload` that came out as `outcome`.
///
/// # Errors
/// If the deployment cannot be had on the target at all: see [`ExportError`].
pub fn hand_off(
    spec: &RunSpec,
    workload: &Workload,
    outcome: &Outcome,
    target: &Target,
) -> Result<Handoff, ExportError> {
    let pools = WorkerPool::of_run(spec, workload, outcome)?;
    let trace = TraceFile::new(workload, outcome, spec.engine.config(pools[0].role).block_size);
    let heading = Heading::new(spec, outcome);
    let manifest = manifest::manifest(spec, &pools, target);
    let launch = launch::launch(spec, &pools);
    let bench = bench::bench(spec, workload, &trace);
    let common = unreproduced::unreproduced(spec, &pools);

    let mut files = Vec::new();
    let mut warnings = common.clone();
    for (name, part) in [("dgd.yaml", manifest), ("serve.sh", launch), ("bench.sh", bench)] {
        warnings.extend(part.warnings.iter().map(|warning| format!("{name}: {warning}")));
        let notes = common.iter().chain(&part.warnings);
        files.push(HandoffFile {
            name,
            text: heading.above(&part.text, notes),
        });
    }
    files.push(HandoffFile {
        name: "trace.jsonl",
        text: trace.text,
    });
    files.push(HandoffFile {
        name: "expected.json",
        text: expected::expected(&outcome.report, &heading, &warnings),
    });
    Ok(Handoff { files, warnings })
}

/// A file before its heading, and what it cannot say.
#[derive(Debug)]
struct Part {
    text: String,
    warnings: Vec<String>,
}
