//! A CSV table as a Parquet file, with typed columns.

use std::str::FromStr;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// The table as a Parquet file of one row group. Columns have the names of the header and may be null, which is what empty
/// cells become. The type of a column is the first of these that all its other cells have: 64-bit integers, 64-bit floats,
/// booleans, text. Equal tables give equal bytes.
///
/// # Errors
/// If the text is no CSV table with a header, or its columns are no columns of Parquet, as with two of one name.
pub(crate) fn parquet_table(csv_text: &str) -> Result<Vec<u8>> {
    let columns = columns(csv_text)?;
    let fields = columns.iter().map(|column| column.field().map(Arc::new));
    let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_>>()?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let schema = Arc::new(schema.build()?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut rows = file.next_row_group()?;
    for column in &columns {
        column.write(&mut rows)?;
    }
    rows.close()?;
    file.into_inner()
}

/// A column of a CSV table.
#[derive(Debug)]
struct Column {
    name: String,
    cells: Vec<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Flag,
    Text,
}

fn columns(csv_text: &str) -> Result<Vec<Column>> {
    let external = |error: csv::Error| ParquetError::External(Box::new(error));
    let mut table = csv::Reader::from_reader(csv_text.as_bytes());
    let names = table.headers().map_err(external)?.clone();
    let mut cells: Vec<Vec<String>> = vec![Vec::new(); names.len()];
    for row in table.records() {
        let row = row.map_err(external)?;
        for (cells, cell) in cells.iter_mut().zip(&row) {
            cells.push(cell.to_owned());
        }
    }
    let columns = names.iter().zip(cells).map(|(name, cells)| Column {
        name: name.to_owned(),
        kind: Kind::of(&cells),
        cells,
    });
    Ok(columns.collect())
}

impl Kind {
    fn of(cells: &[String]) -> Self {
        let all = |fits: fn(&str) -> bool| {
            let mut filled = cells.iter().filter(|cell| !cell.is_empty()).peekable();
            filled.peek().is_some() && filled.all(|cell| fits(cell))
        };
        // Digits that would be written otherwise, such as 007, are a name; so are those that no integer has room for.
        if all(|cell| cell.parse::<i64>().is_ok_and(|number| number.to_string() == cell)) {
            Self::Integer
        } else if all(is_float) {
            Self::Float
        } else if all(|cell| cell.parse::<bool>().is_ok()) {
            Self::Flag
        } else {
            Self::Text
        }
    }
}

fn is_float(cell: &str) -> bool {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = is_whole && (digits.len() > 15 || (digits.len() > 1 && digits.starts_with('0')));
    !is_name && cell.parse::<f64>().is_ok()
}

impl Column {
    fn field(&self) -> Result<Type> {
        let (physical, logical) = match self.kind {
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Float => (PhysicalType::DOUBLE, None),
            Kind::Flag => (PhysicalType::BOOLEAN, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(&self.name, physical);
        field
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }

    fn write(&self, rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        match self.kind {
            Kind::Integer => self.write_values::<Int64Type>(rows, &self.parsed()),
            Kind::Float => self.write_values::<DoubleType>(rows, &self.parsed()),
            Kind::Flag => self.write_values::<BoolType>(rows, &self.parsed()),
            Kind::Text => {
                let values: Vec<ByteArray> = self.filled().map(ByteArray::from).collect();
                self.write_values::<ByteArrayType>(rows, &values)
            }
        }
    }

    fn filled(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// The values of a kind that all cells have.
    fn parsed<T: FromStr>(&self) -> Vec<T> {
        self.filled().filter_map(|cell| cell.parse().ok()).collect()
    }

    fn write_values<T: DataType>(
        &self,
        rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        values: &[T::T],
    ) -> Result<()> {
        let levels: Vec<i16> = self.cells.iter().map(|cell| i16::from(!cell.is_empty())).collect();
        let column = rows.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("there are fewer columns".to_owned()))?;
        column.typed::<T>().write_batch(values, Some(&levels), None)?;
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    /// The table again as CSV text, and the physical types of its columns.
    fn read_back(bytes: &[u8]) -> (String, Vec<PhysicalType>) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("can be written");
        let file = SerializedFileReader::new(file).expect("a Parquet file");
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let columns = schema.columns();
        let mut lines = vec![
            columns
                .iter()
                .map(|column| column.name().to_owned())
                .collect::<Vec<_>>(),
        ];
        for row in file.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let cells = row.get_column_iter().map(|(_, field)| match field {
                Field::Null => String::new(),
                Field::Bool(flag) => flag.to_string(),
                Field::Long(number) => number.to_string(),
                Field::Double(number) => format!("{number:?}"),
                Field::Str(text) => text.clone(),
                other => panic!("{other:?}"),
            });
            lines.push(cells.collect());
        }
        let mut table = csv::Writer::from_writer(Vec::new());
        for line in lines {
            table.write_record(line).expect("memory");
        }
        let text = String::from_utf8(table.into_inner().expect("memory")).expect("text");
        (text, columns.iter().map(|column| column.physical_type()).collect())
    }

    #[test]
    fn a_parquet_table_reads_back_as_it_was() {
        let text = "tp,score,feasible,reason,nothing,hash,mixed\n\
                    1,0.30000000000000004,true,,,007,1.0\n\
                    -2,,false,\"late, \"\"very\"\" late\",,12,2.5\n\
                    ,1e-300,,ü,,,inf\n";
        let (again, types) = read_back(&parquet_table(text).expect("a table"));
        assert_eq!(again, text);
        let (integer, float, words) = (PhysicalType::INT64, PhysicalType::DOUBLE, PhysicalType::BYTE_ARRAY);
        assert_eq!(
            types,
            [integer, float, PhysicalType::BOOLEAN, words, words, words, float]
        );
    }

    #[test]
    fn a_parquet_table_may_be_empty() {
        let (again, _) = read_back(&parquet_table("a,b\n").expect("a table"));
        assert_eq!(again, "a,b\n");
    }

    #[test]
    fn what_is_no_parquet_table_is_an_error() {
        assert!(parquet_table("a,b\n1\n").is_err());
    }
}
