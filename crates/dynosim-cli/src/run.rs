//! One simulation.

use std::path::Path;

use dynosim::spec::{RunSpec, Topology, WorkerRole, Workload};
use dynosim::{Error, Outcome, Report, Run, timing_provider};

use crate::args::RunArgs;
use crate::error::CliError;
use crate::output;
use crate::report_table::report_table;
use crate::requests_csv::requests_csv;
use crate::spec;

/// Runs what a spec file describes and shows or writes the outcome.
pub(crate) fn run(args: &RunArgs) -> Result<(), CliError> {
    let file = spec::name(&args.spec);
    let checked = spec::read(&args.spec, RunSpec::from_json)?;
    let (spec, mut warnings) = (checked.value, checked.warnings);
    spec::check_trace(&spec.workload).map_err(|error| error.about(&file))?;
    warnings.extend(spec::perfdata_warning(&args.tables, &spec.timing));

    let workload = load_workload(&spec)?;
    let timing = timing_provider(&spec.timing, args.tables.perfdata.as_deref());
    let run = Run::new(&spec).timing(timing.as_ref()).warnings(warnings);
    let outcome = run.workload(workload.clone()).simulate()?;

    output::warn(&outcome.report.warnings);
    if let Some(path) = &args.requests {
        output::write(path, &requests_csv(&workload, &outcome)?)?;
    }
    show(&spec, &outcome, args.report.as_deref())
}

fn load_workload(spec: &RunSpec) -> Result<Workload, CliError> {
    let first_role = match spec.topology {
        Topology::Aggregated { .. } => WorkerRole::Aggregated,
        Topology::Disaggregated { .. } => WorkerRole::Prefill,
    };
    let block_size = spec.engine.config(first_role).block_size;
    Ok(Workload::load(&spec.workload, block_size).map_err(Error::from)?)
}

fn show(spec: &RunSpec, outcome: &Outcome, report_file: Option<&Path>) -> Result<(), CliError> {
    match report_file {
        Some(path) => output::write(path, &report_json(&outcome.report)?),
        None => output::print(&report_table(spec, &outcome.report)),
    }
}

fn report_json(report: &Report) -> Result<String, CliError> {
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| CliError::Failure(format!("the report cannot be written as JSON: {error}")))?;
    Ok(json + "\n")
}
