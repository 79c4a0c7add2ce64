//! Records as CSV.

use std::io::Write;

use crate::columns::columns;
use crate::error::SweepError;
use crate::record::{Record, Value};
use crate::state::Mode;

/// Writes records of states of these modes as CSV with a header line; without records, the header only.
///
/// Numbers are the shortest that read back as the same `f64`, flags are `true` and `false`, and
/// what a record does not have is left empty. Columns of experts are there if any record has such, and so are those of
/// engine arguments that are searched over, of goodput and of cost. Equal records give equal bytes on every host.
///
/// # Errors
/// If writing fails.
pub fn write_csv(modes: &[Mode], records: &[Record], writer: impl Write) -> Result<(), SweepError> {
    let columns = columns(modes, &records.iter().collect::<Vec<_>>());
    let mut table = csv::Writer::from_writer(writer);
    table.write_record(&columns)?;
    for record in records {
        let cells = columns.iter().map(|column| cell(record.value(column)));
        table.write_record(cells)?;
    }
    table.flush().map_err(csv::Error::from)?;
    Ok(())
}

fn cell(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Missing => String::new(),
    }
}
