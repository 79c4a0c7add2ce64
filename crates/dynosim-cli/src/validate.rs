//! Simulations compared with measurements of real deployments.

use std::path::{Path, PathBuf};

use dynosim::Error;
use dynosim::spec::{Checked, MeasuredSetup};
use dynosim::validation::{MeasuredPoints, Validation, Validator};

use crate::args::ValidateArgs;
use crate::error::CliError;
use crate::output;
use crate::spec;

/// Simulates the points of measured files, and shows and writes how right that is.
pub(crate) fn validate(args: &ValidateArgs) -> Result<(), CliError> {
    let Checked {
        value: setup,
        mut warnings,
    } = spec::read(&args.setup, MeasuredSetup::from_json)?;
    warnings.extend(spec::perfdata_warning(&args.tables, &setup.timing));
    let mut measured = read_measured(&args.measured, &setup, args.tp)?;
    if let Some(tp) = args.tp.or(setup.topology.map(|topology| topology.tp)) {
        let unused = |file| format!("{file}: has a column tp, so a tp of {tp} for all points is not used");
        let notes: Vec<String> = measured.files_with_tp.iter().map(unused).collect();
        measured.notes.extend(notes);
    }
    if let Some(folder) = &args.out {
        // Before the work, so that a typing error does not cost it.
        output::make_folder(folder)?;
    }
    let mut validator = Validator::new(&setup).seeds(args.seeds).warnings(warnings);
    if let Some(folder) = &args.tables.perfdata {
        validator = validator.perfdata(folder);
    }
    let validation = validator.validate(measured)?;

    output::warn(&validation.warnings);
    let written = match &args.out {
        Some(folder) => write(folder, &validation),
        None => Ok(()),
    };
    // If the files cannot be written, at least what is printed is not lost.
    output::print(&validation.text())?;
    written
}

/// The points of all files.
pub(crate) fn read_measured(
    paths: &[PathBuf],
    setup: &MeasuredSetup,
    tp: Option<u32>,
) -> Result<MeasuredPoints, CliError> {
    let files: Vec<(String, String)> = paths
        .iter()
        .map(|path| Ok((spec::name(path), spec::read_text(path)?)))
        .collect::<Result<_, CliError>>()?;
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let points = MeasuredPoints::read(&files, setup, tp);
    points.map_err(|error| Error::from(error).into())
}

fn write(folder: &Path, validation: &Validation) -> Result<(), CliError> {
    for (name, text) in [
        ("validation.csv", validation.points_csv()),
        ("validation.json", validation.to_json()),
        ("validation.svg", validation.svg()),
    ] {
        output::write(&folder.join(name), &text)?;
    }
    Ok(())
}
