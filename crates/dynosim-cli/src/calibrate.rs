//! Constants of an engine fitted to measurements of real deployments.

use std::path::Path;

use dynosim::calibrate::Calibrator;
use dynosim::spec::{Calibration, Checked, MeasuredSetup};

use crate::args::CalibrateArgs;
use crate::date;
use crate::error::CliError;
use crate::output;
use crate::spec;
use crate::validate::read_measured;

/// Fits constants to the points of measured files, shows how that went and writes the calibration.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<(), CliError> {
    if !output::is_standard_stream(&args.out) {
        // Before the work, so that a typing error does not cost it.
        output::check_place(&args.out)?;
    }
    let Checked {
        value: setup,
        mut warnings,
    } = spec::read(&args.setup, MeasuredSetup::from_json)?;
    warnings.extend(spec::perfdata_warning(&args.tables, &setup.timing));
    output::warn(&warnings);
    let measured = read_measured(&args.measured, &setup, args.tp)?;
    let mut calibrator = Calibrator::new(&setup).fit(&args.fit).seeds(args.seeds);
    if let Some(tp) = args.tp {
        calibrator = calibrator.tp(tp);
    }
    if let Some(folder) = &args.tables.perfdata {
        calibrator = calibrator.perfdata(folder);
    }
    let fit = calibrator.calibrate(measured)?;

    let record = Calibration {
        name: args.name.clone().unwrap_or_else(|| name(&args.out)),
        date: args.date.clone().unwrap_or_else(date::today),
        ..fit.record.clone()
    };
    let json = serde_json::to_string_pretty(&record);
    let json =
        json.map_err(|error| CliError::Failure(format!("the calibration cannot be written as JSON: {error}")))?;
    output::write(&args.out, &(json + "\n"))?;
    if output::is_standard_stream(&args.out) {
        output::note(fit.text().trim_end());
        return Ok(());
    }
    output::print(&fit.text())
}

/// The name of a file without its ending.
fn name(path: &Path) -> String {
    let stem = path.file_stem().filter(|stem| *stem != "-");
    stem.map_or_else(|| "calibration".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
