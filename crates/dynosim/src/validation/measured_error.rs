//! What can be wrong with measured points.

use thiserror::Error;

/// Why measured points cannot be used: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MeasuredError {
    /// A file as a whole.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A line of a file.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A cell of a CSV file.
    #[error("{file}, line {line}, column {column} ({name}): {problem}")]
    Cell {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: usize,
        /// Name of the column.
        name: &'static str,
        /// What is wrong with the cell.
        problem: String,
    },
    /// A key of a JSON file.
    #[error("{file}: {key}: {problem}")]
    Key {
        /// The file.
        file: String,
        /// Path of the key.
        key: String,
        /// What is wrong there.
        problem: String,
    },
}
