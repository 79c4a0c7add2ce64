//! Tables as Parquet files, with the feature of that name.

use std::fs;

use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::command::{Folder, dynosim_with_input};
use crate::run::small_run;
use crate::sweep::small_sweep;

#[track_caller]
fn check(folder: &Folder, csv: &str, parquet: &str) {
    let file = fs::File::open(folder.path(parquet)).expect("it is there");
    let file = SerializedFileReader::new(file).expect("a Parquet file");
    let metadata = file.metadata().file_metadata();
    let text = folder.read(csv);
    let names: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
    let columns = metadata.schema_descr().columns();
    assert!(columns.iter().map(|column| column.name()).eq(names));
    assert_eq!(
        usize::try_from(metadata.num_rows()).expect("few"),
        text.lines().count() - 1
    );
}

#[test]
fn parquet_files_lie_beside_the_tables_of_a_sweep() {
    let folder = Folder::new();
    let args = ["sweep", "-", "--out", &folder.path("out")];
    dynosim_with_input(&args, &small_sweep().to_string()).succeeds();
    for name in ["evaluated", "feasible"] {
        check(&folder, &format!("out/{name}.csv"), &format!("out/{name}.parquet"));
    }
}

#[test]
fn parquet_files_lie_beside_requests() {
    let folder = Folder::new();
    let args = ["run", "-", "--requests", &folder.path("requests.csv")];
    dynosim_with_input(&args, &small_run().to_string()).succeeds();
    check(&folder, "requests.csv", "requests.parquet");
}
