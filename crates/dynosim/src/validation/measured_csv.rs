//! Measured points of a CSV file.

use std::str::FromStr;

use csv::StringRecord;
use dynosim_spec::LoadPoint;

use super::latencies::PerLatency;
use super::measured::MeasuredPoint;
use super::measured_error::MeasuredError;

const TP: &str = "tp";
const ISL: &str = "isl";
const OSL: &str = "osl";
const CONCURRENCY: &str = "concurrency";
const REQUESTS: &str = "requests";
const TTFT: &str = "ttft_mean_ms";
const TPOT: &str = "tpot_mean_ms";
const THROUGHPUT: &str = "derived_output_tok_s_per_gpu";
const KV_LIMITED: &str = "kv_limited";

const REQUIRED: [&str; 6] = [TP, ISL, OSL, CONCURRENCY, TTFT, TPOT];
const OPTIONAL: [&str; 3] = [REQUESTS, THROUGHPUT, KV_LIMITED];

/// Reads the points of a file, notes on it, and whether it has a column `tp`; the argument is for files without one.
pub(super) fn read(
    file: &str,
    text: &str,
    tp: Option<u32>,
) -> Result<(Vec<MeasuredPoint>, Vec<String>, bool), MeasuredError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| malformed(file, &error))?.clone();
    check_columns(file, &headers, tp)?;
    let mut points = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(|error| malformed(file, &error))?;
        let row = Row {
            file,
            line: line(&record, text),
            headers: &headers,
            record: &record,
        };
        points.push(row.point(tp)?);
    }
    if points.is_empty() {
        return Err(MeasuredError::File {
            file: file.to_owned(),
            problem: "has no points; every line below the header is one".to_owned(),
        });
    }
    let notes = notes(file, &headers);
    Ok((points, notes, headers.iter().any(|header| header == TP)))
}

fn malformed(file: &str, error: &csv::Error) -> MeasuredError {
    MeasuredError::File {
        file: file.to_owned(),
        problem: error.to_string(),
    }
}

fn check_columns(file: &str, headers: &StringRecord, tp: Option<u32>) -> Result<(), MeasuredError> {
    let first_line = |problem| MeasuredError::Line {
        file: file.to_owned(),
        line: 1,
        problem,
    };
    let times = |name: &str| headers.iter().filter(|header| *header == name).count();
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|&name| times(name) == 0 && !(name == TP && tp.is_some()))
        .collect();
    if !missing.is_empty() {
        let there: Vec<&str> = headers.iter().collect();
        return Err(first_line(format!(
            "no column {}; needed are {}, there are {}",
            missing.join(", "),
            REQUIRED.join(", "),
            there.join(", ")
        )));
    }
    match REQUIRED.into_iter().chain(OPTIONAL).find(|name| times(name) > 1) {
        Some(name) => Err(first_line(format!("has the column {name} more than once; remove one"))),
        None => Ok(()),
    }
}

fn notes(file: &str, headers: &StringRecord) -> Vec<String> {
    let mut notes = Vec::new();
    let unused: Vec<&str> = headers
        .iter()
        .filter(|header| !REQUIRED.contains(header) && !OPTIONAL.contains(header))
        .collect();
    if !unused.is_empty() {
        notes.push(format!("{file}: not used: column {}", unused.join(", ")));
    }
    notes
}

/// One line of a file.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    file: &'a str,
    line: u64,
    headers: &'a StringRecord,
    record: &'a StringRecord,
}

impl Row<'_> {
    fn point(self, tp: Option<u32>) -> Result<MeasuredPoint, MeasuredError> {
        let has_tp = self.column(TP).is_some();
        let tp = match tp.filter(|_| !has_tp) {
            Some(tp) => tp,
            None => self.count(TP)?,
        };
        let mut load = LoadPoint::new(tp, self.count(ISL)?, self.count(OSL)?, self.count(CONCURRENCY)?);
        if self.cell(REQUESTS).is_some() {
            load.requests = self.count(REQUESTS)?;
        }
        let mean_ms = PerLatency {
            ttft: self.positive(TTFT)?,
            tpot: self.positive(TPOT)?,
        };
        if mean_ms == PerLatency::default() {
            return Err(self.mistake(TTFT, "is empty, and tpot_mean_ms is too; a point needs one of them"));
        }
        Ok(MeasuredPoint {
            file: self.file.to_owned(),
            line: self.line,
            load,
            mean_ms,
            output_tok_s_per_gpu: self.positive(THROUGHPUT)?,
            kv_limited: self.flag(KV_LIMITED)?,
        })
    }

    fn column(self, name: &str) -> Option<usize> {
        self.headers.iter().position(|header| header == name)
    }

    /// What a cell says, if the column is there and the cell is not empty.
    fn cell(&self, name: &str) -> Option<&str> {
        let cell = self.record.get(self.column(name)?)?;
        (!cell.is_empty()).then_some(cell)
    }

    /// A number of things, at least 1; also if some program has written it as `512.0`.
    fn count(self, name: &'static str) -> Result<u32, MeasuredError> {
        let wanted = format!("a whole number from 1 to {}", u32::MAX);
        let Some(text) = self.cell(name) else {
            return Err(self.mistake(name, &format!("is empty; it must be {wanted}")));
        };
        let number = f64::from_str(text).ok();
        let whole = number.filter(|number| number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(number));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and in range"
        )]
        whole
            .map(|number| number as u32)
            .ok_or_else(|| self.mistake(name, &format!("is `{text}`; it must be {wanted}")))
    }

    /// A finite number above 0, if the cell says something.
    fn positive(self, name: &'static str) -> Result<Option<f64>, MeasuredError> {
        let Some(text) = self.cell(name) else { return Ok(None) };
        let number = f64::from_str(text).ok();
        match number.filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.mistake(
                name,
                &format!("is `{text}`; it must be a number above 0, or empty if nothing was measured"),
            )),
        }
    }

    fn flag(self, name: &'static str) -> Result<bool, MeasuredError> {
        match self.cell(name) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(text) => Err(self.mistake(name, &format!("is `{text}`; it must be 0, 1, true or false"))),
        }
    }

    fn mistake(self, name: &'static str, problem: &str) -> MeasuredError {
        MeasuredError::Cell {
            file: self.file.to_owned(),
            line: self.line,
            column: self.column(name).map_or(0, |index| index + 1),
            name,
            problem: problem.to_owned(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms";

    fn read_rows(rows: &str) -> Result<(Vec<MeasuredPoint>, Vec<String>, bool), MeasuredError> {
        read("m.csv", &format!("{HEADER},kv_limited,requests,gpu\n{rows}"), None)
    }

    #[test]
    fn points_are_read_and_unknown_columns_named() {
        let (points, notes, _) =
            read_rows("4,1024,128.0, 8,90.5,9.25,,,h200\n\n1,8,2,1,,3,1,7,\n").expect("two points");
        assert_eq!(points[0].load, LoadPoint::new(4, 1024, 128, 8));
        assert_eq!(points[0].load.requests, 80);
        assert_eq!(
            (points[0].mean_ms.ttft, points[0].mean_ms.tpot),
            (Some(90.5), Some(9.25))
        );
        assert!(!points[0].kv_limited);
        assert_eq!((points[1].line, points[1].load.requests), (4, 7));
        assert_eq!((points[1].mean_ms.ttft, points[1].kv_limited), (None, true));
        assert_eq!(notes, ["m.csv: not used: column gpu"]);
    }

    #[test]
    fn a_tp_for_all_is_for_files_without_the_column() {
        let without = "isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms\n8,2,1,5,3\n";
        let (points, _, has_tp) = read("m.csv", without, Some(2)).expect("a point");
        assert_eq!((points[0].load.tp, has_tp), (2, false));
        let (points, _, has_tp) = read("m.csv", &format!("{HEADER}\n4,8,2,1,5,3\n"), Some(2)).expect("a point");
        assert_eq!((points[0].load.tp, has_tp), (4, true));
    }

    #[track_caller]
    fn check(rows: &str, expected: &str) {
        let error = read_rows(rows).expect_err("there is a mistake");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        check("", "m.csv: has no points; every line below the header is one");
        check(
            "1,8,2,1,5,3,,,\n0,8,2,1,5,3,,,\n",
            "m.csv, line 3, column 1 (tp): is `0`; it must be a whole number from 1 to 4294967295",
        );
        check(
            "1,,2,1,5,3,,,",
            "m.csv, line 2, column 2 (isl): is empty; it must be a whole number from 1 to 4294967295",
        );
        check(
            "1,8,2,1,-5,3,,,",
            "m.csv, line 2, column 5 (ttft_mean_ms): is `-5`; it must be a number above 0, or empty if nothing was \
             measured",
        );
        check(
            "1,8,2,1,,,,,",
            "m.csv, line 2, column 5 (ttft_mean_ms): is empty, and tpot_mean_ms is too; a point needs one of them",
        );
        check(
            "1,8,2,1,5,3,maybe,,",
            "m.csv, line 2, column 7 (kv_limited): is `maybe`; it must be 0, 1, true or false",
        );
        let error = read("m.csv", "tp,isl,concurrency,ttft,tpot_mean_ms\n", None).expect_err("columns are missing");
        assert_eq!(
            error.to_string(),
            "m.csv, line 1: no column osl, ttft_mean_ms; needed are tp, isl, osl, concurrency, ttft_mean_ms, \
             tpot_mean_ms, there are tp, isl, concurrency, ttft, tpot_mean_ms"
        );
        let error = read("m.csv", &format!("{HEADER},tp\n1,8,2,1,5,3,1\n"), None).expect_err("tp is there twice");
        assert_eq!(
            error.to_string(),
            "m.csv, line 1: has the column tp more than once; remove one"
        );
    }
}
