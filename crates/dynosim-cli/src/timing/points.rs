//! A CSV file of points, with cells that say where they are when they are wrong.

use std::str::FromStr;

use csv::StringRecord;

use crate::error::CliError;

/// Above this, not every whole number is a 64-bit float.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The rows of a file.
#[derive(Debug)]
pub(super) struct Points {
    file: String,
    headers: StringRecord,
    /// Each with its line, from 1.
    records: Vec<(u64, StringRecord)>,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'a> {
    points: &'a Points,
    line: u64,
    record: &'a StringRecord,
}

impl Points {
    /// Reads the text of `file`.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, CliError> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let malformed = |error: csv::Error| CliError::input(&error).about(file);
        let headers = reader.headers().map_err(malformed)?.clone();
        let records = reader
            .into_records()
            .map(|record| record.map(|record| (line(&record, text), record)))
            .collect::<Result<_, _>>()
            .map_err(malformed)?;
        Ok(Self {
            file: file.to_owned(),
            headers,
            records,
        })
    }

    /// Fails if one of these columns is missing, or one that is to be added is there.
    pub(super) fn check_columns(&self, required: &[&str], added: &[&str]) -> Result<(), CliError> {
        let missing: Vec<&str> = required
            .iter()
            .copied()
            .filter(|name| self.column(name).is_none())
            .collect();
        if !missing.is_empty() {
            let there: Vec<&str> = self.headers.iter().collect();
            return Err(CliError::Input(format!(
                "{}, line 1: no column {}; needed are {}, there are {}",
                self.file,
                missing.join(", "),
                required.join(", "),
                there.join(", ")
            )));
        }
        if let Some(taken) = added.iter().find(|name| self.column(name).is_some()) {
            let message = format!(
                "{}, line 1: has a column {taken} already; rename or remove it",
                self.file
            );
            return Err(CliError::Input(message));
        }
        Ok(())
    }

    /// The rows in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Point<'_>> {
        self.records.iter().map(|&(line, ref record)| Point {
            points: self,
            line,
            record,
        })
    }

    /// The file with more columns: their names, and their cells row by row.
    pub(super) fn with_columns(&self, names: &[&str], cells: &[Vec<String>]) -> Result<String, CliError> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        let rows = self.records.iter().zip(cells);
        let written = csv
            .write_record(self.headers.iter().chain(names.iter().copied()))
            .and_then(|()| {
                rows.into_iter().try_for_each(|((_, record), cells)| {
                    csv.write_record(record.iter().chain(cells.iter().map(String::as_str)))
                })
            });
        let text = written
            .map_err(|error| error.to_string())
            .and_then(|()| csv.into_inner().map_err(|error| error.to_string()))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
        text.map_err(|error| CliError::Failure(format!("the predictions cannot be written as CSV: {error}")))
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.headers.iter().position(|header| header == name)
    }
}

impl Point<'_> {
    /// Line of the file, from 1.
    pub(super) fn line(self) -> u64 {
        self.line
    }

    /// What a cell says, if the column is there and the cell is not empty.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let cell = self.record.get(self.points.column(column)?)?;
        (!cell.is_empty()).then_some(cell)
    }

    /// A cell that must hold something.
    pub(super) fn required_text(&self, column: &str) -> Result<&str, CliError> {
        self.text(column).ok_or_else(|| self.mistake(column, "is empty"))
    }

    /// A whole number from 0.
    pub(super) fn whole(self, column: &str) -> Result<u64, CliError> {
        let text = self.required_text(column)?;
        whole(text).ok_or_else(|| self.mistake(column, &format!("is `{text}`, which is not a whole number from 0")))
    }

    /// A number of things, at least 1.
    pub(super) fn count(self, column: &str) -> Result<u32, CliError> {
        let text = self.required_text(column)?;
        let count = whole(text).and_then(|count| u32::try_from(count).ok());
        count.filter(|&count| count > 0).ok_or_else(|| {
            self.mistake(
                column,
                &format!("is `{text}`, which is not a whole number from 1 to {}", u32::MAX),
            )
        })
    }

    /// A number of things, at least 1, if there is one.
    pub(super) fn optional_count(self, column: &str) -> Result<Option<u32>, CliError> {
        self.text(column).map(|_| self.count(column)).transpose()
    }

    /// A share above 0 and at most 1, if there is one.
    pub(super) fn optional_share(self, column: &str) -> Result<Option<f64>, CliError> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let share = f64::from_str(text).ok().filter(|&share| share > 0.0 && share <= 1.0);
        match share {
            Some(share) => Ok(Some(share)),
            None => Err(self.mistake(
                column,
                &format!("is `{text}`, which is not a number above 0 and at most 1"),
            )),
        }
    }

    /// An error about a cell.
    pub(super) fn mistake(self, column: &str, problem: &str) -> CliError {
        let place = self.points.column(column).map_or(0, |index| index + 1);
        CliError::Input(format!(
            "{}, line {}, column {place} ({column}): {problem}",
            self.points.file, self.line
        ))
    }
}

/// The line on which a record begins. The reader counts empty lines before a record as part of it.
fn line(record: &StringRecord, text: &str) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let start = usize::try_from(position.byte()).unwrap_or(text.len());
    let before = text.get(start..).unwrap_or_default().chars();
    let breaks = before.take_while(|letter| matches!(letter, '\r' | '\n'));
    position.line() + breaks.filter(|&letter| letter == '\n').count() as u64
}

/// A whole number, also if some program has written it as `512.0`.
fn whole(text: &str) -> Option<u64> {
    if let Ok(number) = u64::from_str(text) {
        return Some(number);
    }
    let number = f64::from_str(text).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and in range"
    )]
    (number.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: &str, expected: Option<u64>) {
        assert_eq!(whole(cell), expected, "{cell}");
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        check("512", Some(512));
        check("512.0", Some(512));
        check("1e3", Some(1000));
        check("18446744073709551615", Some(u64::MAX));
        check("-1", None);
        check("1.5", None);
        check("nan", None);
        check("1e300", None);
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let points = Points::read("p.csv", "tp,isl\n1,5\n\n2,x\n").expect("is CSV");
        let point = points.iter().nth(1).expect("there are two");
        let error = point.whole("isl").expect_err("x is no number");
        let CliError::Input(message) = error else {
            panic!("{error:?}")
        };
        assert_eq!(
            message,
            "p.csv, line 4, column 2 (isl): is `x`, which is not a whole number from 0"
        );
    }
}
