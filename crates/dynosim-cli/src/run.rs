//! One simulation.

use std::path::{Path, PathBuf};

use dynosim::spec::{RunSpec, Topology, WorkerRole, Workload};
use dynosim::{Error, Outcome, Report, Run, StepTimes, write_requests_csv};

use crate::args::RunArgs;
use crate::error::CliError;
use crate::output;
use crate::report_table::report_table;
use crate::spec;

/// Runs what a spec file describes and shows or writes the outcome.
pub(crate) fn run(args: &RunArgs) -> Result<(), CliError> {
    check_outputs(args)?;
    let file = spec::name(&args.spec);
    let checked = spec::read(&args.spec, RunSpec::from_json)?;
    let (spec, mut warnings) = (checked.value, checked.warnings);
    spec::check_trace(&spec.workload).map_err(|error| error.about(&file))?;
    warnings.extend(spec::perfdata_warning(&args.tables, &spec.timing));

    let workload = load_workload(&spec)?;
    let perfdata = args.tables.perfdata.as_deref();
    let step_times = StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, perfdata);
    let mut run = Run::new(&spec).warnings(warnings);
    if let Some(folder) = perfdata {
        run = run.perfdata(folder);
    }
    if args.breakdown {
        run = run.keep_breakdown();
    }
    if args.requests.is_some() {
        run = run.keep_details();
    }
    let outcome = run.workload(workload.clone()).simulate()?;

    output::warn(&outcome.report.warnings);
    if let Some(path) = &args.requests {
        output::write_table(path, &requests_csv(&workload, &outcome)?)?;
    }
    if let Some(path) = &args.report {
        return output::write(path, &report_json(&outcome.report)?);
    }
    let table = report_table(&spec, &outcome, &step_times);
    if args.requests.as_deref().is_some_and(output::is_standard_stream) {
        // Standard output holds the requests.
        output::note(table.trim_end());
        return Ok(());
    }
    output::print(&table)
}

/// Before the work, so that a typing error does not cost it.
fn check_outputs(args: &RunArgs) -> Result<(), CliError> {
    let files: Vec<&Path> = [&args.report, &args.requests]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    if let [report, requests] = files[..]
        && report == requests
    {
        let place = if output::is_standard_stream(report) {
            "standard output".to_owned()
        } else {
            report.display().to_string()
        };
        let message = format!("--report and --requests cannot both go to {place}; name another file for one of them");
        return Err(CliError::Input(message));
    }
    files.into_iter().try_for_each(output::check_place)
}

/// The requests of a run.
pub(crate) fn load_workload(spec: &RunSpec) -> Result<Workload, CliError> {
    let first_role = match spec.topology {
        Topology::Aggregated { .. } => WorkerRole::Aggregated,
        Topology::Disaggregated { .. } => WorkerRole::Prefill,
    };
    let block_size = spec.engine.config(first_role).block_size;
    let workload = Workload::load(&spec.workload, block_size);
    workload.map_err(|error| spec::with_trace_place(Error::from(error).into(), &spec.workload))
}

fn report_json(report: &Report) -> Result<String, CliError> {
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| CliError::Failure(format!("the report cannot be written as JSON: {error}")))?;
    Ok(json + "\n")
}

fn requests_csv(workload: &Workload, outcome: &Outcome) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let written = write_requests_csv(workload, outcome, &mut bytes).map_err(|error| error.to_string());
    let text = written.and_then(|()| String::from_utf8(bytes).map_err(|error| error.to_string()));
    text.map_err(|error| CliError::Failure(format!("the requests cannot be written as CSV: {error}")))
}
