//! Reading spec files.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use dynosim::spec::{Checked, SpecError, TimingKind, TimingSpec, WorkloadSpec};

use crate::args::PerfdataArg;
use crate::error::CliError;
use crate::output::is_standard_stream;

/// Reads a spec from a file, or from standard input if the file is `-`.
pub(crate) fn read<T>(
    path: &Path,
    from_json: impl FnOnce(&str) -> Result<Checked<T>, SpecError>,
) -> Result<Checked<T>, CliError> {
    let text = read_text(path)?;
    from_json(&text).map_err(|error| CliError::input(&error).about(&name(path)))
}

/// The text of a file, or of standard input if the file is `-`.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = if is_standard_stream(path) {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let bytes = bytes.map_err(|error| CliError::Input(format!("cannot read {}: {error}", name(path))))?;
    String::from_utf8(bytes).map_err(|_| CliError::Input(format!("{} is not UTF-8 text", name(path))))
}

/// What messages call a file.
pub(crate) fn name(path: &Path) -> String {
    if is_standard_stream(path) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Refuses the placeholder that files of worked examples have in place of a trace.
pub(crate) fn check_trace(workload: &WorkloadSpec) -> Result<(), CliError> {
    match workload {
        WorkloadSpec::Trace(trace) if trace.trace_file.as_os_str() == "inline" => Err(CliError::Input(
            "workload.traceFile is `inline`, which stands for requests that are listed in the same file and is for \
             tests only; write the requests to a file, one JSON object per line, and name it here"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// An error, with the folder that a missing trace was looked for in.
pub(crate) fn with_trace_place(error: CliError, workload: &WorkloadSpec) -> CliError {
    let (CliError::Input(message), WorkloadSpec::Trace(trace)) = (&error, workload) else {
        return error;
    };
    if trace.trace_file.is_absolute() || trace.trace_file.exists() {
        return error;
    }
    match env::current_dir() {
        Ok(folder) => CliError::Input(format!(
            "{message}; a relative path starts at the working directory, which is {}",
            folder.display()
        )),
        Err(_) => error,
    }
}

/// Says so if tables are given that nothing will be read from.
pub(crate) fn perfdata_warning(tables: &PerfdataArg, timing: &TimingSpec) -> Option<String> {
    (tables.perfdata.is_some() && timing.provider != TimingKind::Table)
        .then(|| "--perfdata has no effect, because timing.provider is not `table`".to_owned())
}
