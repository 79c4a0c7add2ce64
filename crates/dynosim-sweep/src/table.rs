//! Records as a table to look at.

use crate::record::{ROUTER_COLUMNS, Record, Value, topology_columns};
use crate::state::Mode;

/// Columns behind topology and router.
const FIGURE_COLUMNS: [&str; 6] = [
    "total_gpus_used",
    "output_throughput_tok_s",
    "prefix_cache_reused_ratio",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_e2e_latency_ms",
];

/// The first `rows` simulations of `records`, which are of states of one mode, as aligned columns
/// of text with a header line.
///
/// States that are provably the same simulation share a row: the router's columns list all values
/// that occur among them.
pub fn text_table(mode: Mode, records: &[Record], rows: usize) -> String {
    let columns: Vec<&str> = topology_columns(mode)
        .iter()
        .chain(&ROUTER_COLUMNS)
        .chain(&FIGURE_COLUMNS)
        .copied()
        .collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|&column| column.to_owned()).collect()];
    for simulation in by_simulation(records).iter().take(rows) {
        lines.push(columns.iter().map(|column| cell(column, simulation)).collect());
    }
    align(&lines)
}

/// Records that share a simulation, in the order of the first of each.
fn by_simulation(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut simulations: indexmap::IndexMap<usize, Vec<&Record>> = indexmap::IndexMap::new();
    for record in records {
        simulations.entry(record.simulation).or_default().push(record);
    }
    simulations.into_values().collect()
}

fn cell(column: &str, simulation: &[&Record]) -> String {
    let mut values: Vec<String> = Vec::new();
    for record in simulation {
        let value = text(record.value(column));
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join(",")
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Count(count) => count.to_string(),
        // Knobs are short and shown as given; figures are not.
        Value::Number(number) if number.abs() < 1000.0 && (number * 100.0).fract() == 0.0 => number.to_string(),
        Value::Number(number) if number.abs() < 10.0 => format!("{number:.4}"),
        Value::Number(number) => format!("{number:.2}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Missing => "-".to_owned(),
    }
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:>width$}"))
            .collect();
        text.push_str(&cells.join("  "));
        text.push('\n');
    }
    text
}
