//! Everything that is printed or written.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::CliError;
#[cfg(feature = "parquet")]
use crate::parquet_table::parquet_table;

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    printed.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::Failure(format!("cannot write to standard output: {error}")),
    })
}

/// Prints a line beside the result: to standard error, whether or not anybody reads it.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints warnings.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        note(&format!("warning: {warning}"));
    }
}

/// Whether a path stands for standard input or output.
pub(crate) fn is_standard_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a result to a file, or prints it if the file is `-`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if is_standard_stream(path) {
        return print(text);
    }
    write_bytes(path, text.as_bytes())
}

/// Writes a file as a whole or not at all: first beside it, and then in its place. What is no ordinary file, such as a pipe
/// or a link, is written as it is.
fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    check_place(path)?;
    let is_special = fs::symlink_metadata(path).is_ok_and(|found| !found.is_file());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let beside = path.with_file_name(format!(".{}.{}", name.unwrap_or_default(), std::process::id()));
    if is_special || fs::File::create_new(&beside).is_err() {
        return fs::write(path, bytes).map_err(|error| cannot_write(path, &error));
    }
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // Nothing can be done about a part that stays behind.
        let _ = fs::remove_file(&beside);
        cannot_write(path, &error)
    })
}

/// Writes a CSV table to a file, and beside it as a Parquet file if the program was built with the feature `parquet`; or
/// prints it if the file is `-`.
pub(crate) fn write_table(path: &Path, csv_text: &str) -> Result<(), CliError> {
    write(path, csv_text)?;
    #[cfg(feature = "parquet")]
    if !is_standard_stream(path) {
        write_parquet(&path.with_extension("parquet"), csv_text)?;
    }
    Ok(())
}

#[cfg(feature = "parquet")]
fn write_parquet(path: &Path, csv_text: &str) -> Result<(), CliError> {
    let bytes = parquet_table(csv_text)
        .map_err(|error| CliError::Failure(format!("cannot write {}: {error}", path.display())))?;
    write_bytes(path, &bytes)
}

/// Fails if a file cannot be written because it is a folder, or because the folder that it is to be in is not
/// there. That is not made: a path that leads nowhere is more often a typing error than a wish.
pub(crate) fn check_place(path: &Path) -> Result<(), CliError> {
    if path.is_dir() {
        return Err(CliError::Failure(format!(
            "cannot write {}: it is a folder",
            path.display()
        )));
    }
    // The parent of a plain file name is the empty path, which is the working directory.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(CliError::Failure(format!(
            "cannot write {}: there is no folder {}",
            path.display(),
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// Makes a folder that is to hold results.
pub(crate) fn make_folder(folder: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder)
        .map_err(|error| CliError::Failure(format!("cannot make the folder {}: {error}", folder.display())))
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::Failure(format!("cannot write {}: {error}", path.display()))
}
