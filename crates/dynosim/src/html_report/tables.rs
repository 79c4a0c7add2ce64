//! Tables of a report.

use serde::{Deserialize, Serialize};

/// A small table of finished texts. Columns in which every cell starts like a number are aligned to the right.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextTable {
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows, a cell per column; missing cells are empty.
    pub rows: Vec<Vec<String>>,
}

/// All candidates, a row each. The reader sorts it by a click on a heading and filters it by words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateTable {
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The candidates, best first.
    pub rows: Vec<CandidateRow>,
    /// How many rows are shown until the reader asks for all; 0 shows all of them.
    pub initial_rows: usize,
}

/// A column of the table of candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The unit of its numbers, shown below the heading; empty if they have none.
    #[serde(default)]
    pub unit: String,
    /// Digits behind the decimal point; `None` shows what four significant digits need.
    #[serde(default)]
    pub decimals: Option<u8>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateRow {
    /// Its figures, a cell per column; missing cells are empty.
    pub cells: Vec<Cell>,
    /// Whether it keeps to all bounds.
    pub feasible: bool,
    /// Whether it is the answer.
    #[serde(default)]
    pub is_best: bool,
}

/// A cell of the table of candidates; as JSON a number, a string or `null`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the unit of its column. What is not finite reads like [`Cell::Empty`].
    Number(f64),
    /// A text.
    Text(String),
    /// Nothing to show.
    #[default]
    Empty,
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Empty, Into::into)
    }
}
