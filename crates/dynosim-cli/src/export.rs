//! A deployment as files for real engines.

use std::path::{Path, PathBuf};

use dynosim::Run;
use dynosim::export::{Candidate, ExportError, HandoffFile, Target, hand_off};

use crate::args::ExportArgs;
use crate::error::CliError;
use crate::output;
use crate::run::load_workload;
use crate::spec;

/// Simulates a candidate and writes what it takes to run and measure it for real.
pub(crate) fn export(args: &ExportArgs) -> Result<(), CliError> {
    let target = target(args).map_err(|error| CliError::input(&error))?;
    let path = result_file(&args.candidate);
    let file = spec::name(&path);
    let about = |error: &ExportError| CliError::input(error).about(&file);
    let candidate = Candidate::from_json(&spec::read_text(&path)?, args.rank).map_err(|error| about(&error))?;
    let Candidate {
        run: spec,
        state,
        mut warnings,
    } = candidate;
    spec::check_trace(&spec.workload).map_err(|error| error.about(&file))?;
    warnings.extend(spec::perfdata_warning(&args.tables, &spec.timing));
    // Before the work, so that a typing error does not cost it.
    output::make_folder(&args.out)?;

    let workload = load_workload(&spec)?;
    let mut run = Run::new(&spec).warnings(warnings);
    if let Some(folder) = &args.tables.perfdata {
        run = run.perfdata(folder);
    }
    let outcome = run.workload(workload.clone()).simulate()?;
    let handoff = hand_off(&spec, &workload, &outcome, &target).map_err(|error| about(&error))?;
    output::warn(&outcome.report.warnings);
    output::warn(&handoff.warnings);
    for file in &handoff.files {
        write(&args.out, file)?;
    }
    let names: Vec<&str> = handoff.files.iter().map(|file| file.name).collect();
    let what = state.map(|state| format!(" of {state}")).unwrap_or_default();
    output::print(&format!(
        "{}{what} written to {}\n",
        names.join(", "),
        args.out.display()
    ))
}

fn target(args: &ExportArgs) -> Result<Target, ExportError> {
    let mut target = Target::new(args.dynamo_version.parse()?, args.api_version.map(Into::into))?.named(&args.name)?;
    if let Some(namespace) = &args.namespace {
        target = target.in_namespace(namespace)?;
    }
    Ok(match &args.image {
        Some(image) => target.with_image(image),
        None => target,
    })
}

/// The result of a sweep is meant if its folder is named.
fn result_file(candidate: &Path) -> PathBuf {
    if candidate.is_dir() {
        candidate.join("result.json")
    } else {
        candidate.to_owned()
    }
}

fn write(folder: &Path, file: &HandoffFile) -> Result<(), CliError> {
    let path = folder.join(file.name);
    output::write(&path, &file.text)?;
    if file.is_script() {
        make_executable(&path)?;
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), CliError> {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    let changed = fs::metadata(path).and_then(|metadata| {
        let mut permissions = metadata.permissions();
        permissions.set_mode(permissions.mode() | 0o111);
        fs::set_permissions(path, permissions)
    });
    changed.map_err(|error| CliError::Failure(format!("cannot make {} executable: {error}", path.display())))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<(), CliError> {
    Ok(())
}
