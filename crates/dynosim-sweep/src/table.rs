//! Records as a table to look at.

use indexmap::{IndexMap, IndexSet};

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

/// Figures whose first digits are behind the point.
const SMALL_FIGURES: [&str; 2] = ["prefix_cache_reused_ratio", "violation_penalty"];

/// The first `rows` simulations of `records`, which are of states of one mode, as aligned columns
/// of text with a header line.
///
/// States that are provably the same simulation share a row: the router's columns list all values
/// that occur among them. The penalty is shown if any of the records is infeasible.
pub fn text_table<'a>(mode: Mode, records: impl IntoIterator<Item = &'a Record>, rows: usize) -> String {
    let mut simulations: IndexMap<usize, Vec<&Record>> = IndexMap::new();
    for record in records {
        simulations.entry(record.simulation).or_default().push(record);
    }
    simulations.truncate(rows);
    let mut columns: Vec<&str> = topology_columns(mode).to_vec();
    columns.extend(ROUTER_COLUMNS);
    columns.extend(FIGURE_COLUMNS);
    if simulations.values().flatten().any(|record| !record.feasible) {
        columns.push("violation_penalty");
    }
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|&column| column.to_owned()).collect()];
    for simulation in simulations.values() {
        lines.push(columns.iter().map(|column| cell(column, simulation)).collect());
    }
    align(&lines)
}

/// All values of a column among the records of one simulation.
fn cell(column: &str, simulation: &[&Record]) -> String {
    let values: IndexSet<String> = simulation
        .iter()
        .map(|record| text(column, record.value(column)))
        .collect();
    values.into_iter().collect::<Vec<String>>().join(",")
}

fn text(column: &str, value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) if ROUTER_COLUMNS.contains(&column) => number.to_string(),
        Value::Number(number) if SMALL_FIGURES.contains(&column) => format!("{number:.4}"),
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

#[cfg(test)]
mod tests {
    use dynosim_spec::{Objective, Topology};

    use super::*;
    use crate::state::{RouterState, State};

    fn record(simulation: usize, router: RouterState) -> Record {
        let metrics = FIGURE_COLUMNS
            .iter()
            .skip(1)
            .zip([958.978_4, 0.5, 43_531.456_4, 34.769_9, 52_397.787_9]);
        Record {
            state: State {
                topology: Topology::Disaggregated {
                    prefill_workers: 3,
                    decode_workers: 4,
                    prefill_tp: 4,
                    decode_tp: 1,
                },
                router,
            },
            simulation,
            metrics: metrics.map(|(&name, value)| (name.to_owned(), value)).collect(),
            rejected_requests: Some(0),
            extrapolated_share: Some(0.0),
            total_gpus_used: 16,
            objective: Objective::Throughput,
            score: Some(958.978_4),
            feasible: true,
            violation_penalty: 0.0,
            infeasible_reason: None,
        }
    }

    const SAME_SIMULATION: [RouterState; 2] = [RouterState::kv_router(1.0, 0.25), RouterState::kv_router(1.0, 4.0)];

    #[test]
    fn equal_simulations_share_a_row() {
        let [first, last] = SAME_SIMULATION.map(|router| record(1, router));
        let other = record(0, RouterState::round_robin());
        let table = text_table(Mode::Disagg, [&first, &other, &last], 10);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].len(), 13);
        let figures = ["16", "958.98", "0.5000", "43531.46", "34.77", "52397.79"];
        let row = |router: [&'static str; 3]| [&["4", "1", "3", "4"][..], &router, &figures].concat();
        assert_eq!(
            lines[1..],
            [row(["kv_router", "1", "0.25,4"]), row(["round_robin", "0", "1"])]
        );
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert_eq!(widths, [widths[0]; 3], "columns are aligned");
    }

    #[test]
    fn rows_are_limited_and_penalties_shown() {
        let [first, last] = SAME_SIMULATION.map(|router| record(1, router));
        let failed = Record {
            simulation: 2,
            metrics: IndexMap::new(),
            feasible: false,
            violation_penalty: f64::INFINITY,
            ..last.clone()
        };
        assert_eq!(text_table(Mode::Disagg, [&first, &failed, &last], 1).lines().count(), 2);
        let table = text_table(Mode::Disagg, [&first, &failed], 2);
        let last_cells: Vec<Option<&str>> = table.lines().map(|line| line.split_whitespace().last()).collect();
        assert_eq!(last_cells, [Some("violation_penalty"), Some("0.0000"), Some("inf")]);
        assert_eq!(text_table(Mode::Agg, [], 5).lines().count(), 1);
    }
}
