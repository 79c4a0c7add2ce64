//! Records as a table to look at.

use dynosim_spec::RouterMode;
use indexmap::IndexSet;

use crate::columns::{ROUTER_COLUMNS, state_columns};
use crate::outcome::outcomes;
use crate::record::{Record, Value};
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

const ROUTER_KNOBS: [&str; 2] = ["overlap_score_credit", "prefill_load_scale"];

/// Figures whose first digits are behind the point.
const SMALL_FIGURES: [&str; 2] = ["prefix_cache_reused_ratio", "violation_penalty"];

/// The first `rows` outcomes of `records`, which are of states of these modes, as aligned columns of
/// text with a header line.
///
/// States with the same workers and equal figures share a row: the router's columns list all values
/// that occur among them, `-` if only round robin does, which has none. The penalty is shown if any
/// of the records is infeasible.
pub fn text_table<'a>(modes: &[Mode], records: impl IntoIterator<Item = &'a Record>, rows: usize) -> String {
    let outcomes = outcomes(records, rows);
    let mut columns: Vec<&str> = state_columns(modes, &outcomes.concat());
    columns.extend(FIGURE_COLUMNS);
    columns.extend(objective_column(&outcomes));
    if outcomes.iter().flatten().any(|record| !record.feasible) {
        columns.push("violation_penalty");
    }
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|&column| column.to_owned()).collect()];
    for outcome in &outcomes {
        lines.push(columns.iter().map(|column| cell(column, outcome)).collect());
    }
    align(&lines)
}

/// The metric that the objective is about, where it has no column anyway.
fn objective_column(outcomes: &[Vec<&Record>]) -> Option<&'static str> {
    let metric = outcomes.first()?.first()?.objective.metric();
    (!FIGURE_COLUMNS.contains(&metric)).then_some(metric)
}

/// All values of a column among the records of one outcome.
fn cell(column: &str, outcome: &[&Record]) -> String {
    let records = outcome.iter().filter(|record| has(record, column));
    let values: IndexSet<String> = records.map(|record| text(column, record.value(column))).collect();
    if values.is_empty() {
        return text(column, Value::Missing);
    }
    values.into_iter().collect::<Vec<String>>().join(",")
}

/// Round robin has no knobs; what is recorded for them means nothing.
fn has(record: &Record, column: &str) -> bool {
    record.state.router.mode != RouterMode::RoundRobin || !ROUTER_KNOBS.contains(&column)
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
    use dynosim_spec::{ParallelShape, Topology};

    use super::*;
    use crate::engine_settings::EngineSettings;
    use crate::metrics::Metrics;
    use crate::record::tests::record_with;
    use crate::state::{RouterState, State};

    fn record(simulation: usize, router: RouterState) -> Record {
        let figures = [958.978_4, 0.5, 43_531.456_4, 34.769_9, 52_397.787_9];
        let metrics: Vec<(&str, f64)> = FIGURE_COLUMNS.into_iter().skip(1).zip(figures).collect();
        let topology = Topology::Disaggregated {
            prefill_workers: 3,
            decode_workers: 4,
            prefill_shape: ParallelShape::tensor(4),
            decode_shape: ParallelShape::tensor(1),
        };
        Record {
            simulation,
            ..record_with(State::new(topology, router), &metrics)
        }
    }

    const SAME_SIMULATION: [RouterState; 2] = [RouterState::kv_router(1.0, 0.25), RouterState::kv_router(1.0, 4.0)];

    #[test]
    fn equal_simulations_share_a_row() {
        let [first, last] = SAME_SIMULATION.map(|router| record(1, router));
        let mut other = record(0, RouterState::round_robin());
        let changed = other.metrics.iter().map(|(name, value)| {
            let value = if name == "mean_ttft_ms" { 43_531.5 } else { value };
            (name.to_owned(), value)
        });
        other.metrics = changed.collect();
        let table = text_table(&[Mode::Disagg], [&first, &other, &last], 10);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].len(), 13);
        let figures = ["16", "958.98", "0.5000", "43531.46", "34.77", "52397.79"];
        let row = |router: [&'static str; 3], figures: [&'static str; 6]| {
            [&["4", "1", "3", "4"][..], &router, &figures].concat()
        };
        let mut other_figures = figures;
        other_figures[3] = "43531.50";
        assert_eq!(
            lines[1..],
            [
                row(["kv_router", "1", "0.25,4"], figures),
                row(["round_robin", "-", "-"], other_figures)
            ]
        );
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert_eq!(widths, [widths[0]; 3], "columns are aligned");
    }

    #[test]
    fn equal_figures_share_a_row() {
        let kv_router = record(0, RouterState::kv_router(0.5, 1.0));
        let round_robin = record(1, RouterState::round_robin());
        let table = text_table(&[Mode::Disagg], [&kv_router, &round_robin], 10);
        let cells: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells[4..7], ["kv_router,round_robin", "0.5", "1"]);
        assert_eq!(table.lines().count(), 2);

        let mut elsewhere = round_robin;
        elsewhere.state.topology = Topology::Disaggregated {
            prefill_workers: 4,
            decode_workers: 3,
            prefill_shape: ParallelShape::tensor(4),
            decode_shape: ParallelShape::tensor(1),
        };
        let table = text_table(&[Mode::Disagg], [&kv_router, &elsewhere], 10);
        assert_eq!(table.lines().count(), 3, "other workers are another outcome");
    }

    #[test]
    fn spreads_of_experts_have_columns() {
        let mut spread = record(0, RouterState::round_robin());
        spread.state.topology = Topology::Disaggregated {
            prefill_workers: 3,
            decode_workers: 5,
            prefill_shape: ParallelShape::experts(2, 1, 1, 2),
            decode_shape: ParallelShape::experts(1, 4, 4, 1),
        };
        let table = text_table(&[Mode::Disagg], [&spread], 10);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[0][..4],
            ["prefill_tp", "prefill_attention_dp", "prefill_moe_tp", "prefill_moe_ep"]
        );
        assert_eq!(lines[0][7..10], ["decode_moe_ep", "prefill_workers", "decode_workers"]);
        assert_eq!(lines[1][..10], ["2", "1", "1", "2", "1", "4", "4", "1", "3", "5"]);
        assert_eq!(
            spread.state.to_string(),
            "prefill_tp=2 prefill_moe_ep=2 decode_tp=1 decode_attention_dp=4 decode_moe_tp=4 prefill_workers=3 \
             decode_workers=5 round_robin"
        );
        let document = serde_json::to_value(&spread).expect("records are plain values");
        assert_eq!(
            (&document["decode_moe_tp"], &document["prefill_moe_ep"]),
            (&4.into(), &2.into())
        );
    }

    #[test]
    fn rows_are_limited_and_penalties_shown() {
        let [first, last] = SAME_SIMULATION.map(|router| record(1, router));
        let failed = Record {
            simulation: 2,
            metrics: Metrics::default(),
            feasible: false,
            violation_penalty: f64::INFINITY,
            ..last.clone()
        };
        assert_eq!(
            text_table(&[Mode::Disagg], [&first, &failed, &last], 1).lines().count(),
            2
        );
        let table = text_table(&[Mode::Disagg], [&first, &failed], 2);
        let last_cells: Vec<Option<&str>> = table.lines().map(|line| line.split_whitespace().last()).collect();
        assert_eq!(last_cells, [Some("violation_penalty"), Some("0.0000"), Some("inf")]);
        assert_eq!(text_table(&[Mode::Agg], [], 5).lines().count(), 1);
    }

    #[test]
    fn one_space_of_both_kinds_has_the_columns_of_both() {
        let disaggregated = record(0, RouterState::round_robin());
        let shape = ParallelShape::tensor(2);
        let settings = EngineSettings {
            block_size: Some(32),
            ..EngineSettings::default()
        };
        let state = State::new(Topology::Aggregated { workers: 5, shape }, RouterState::round_robin());
        let aggregated = record_with(state.with_engine(settings), &[("output_throughput_tok_s", 1.0)]);
        let table = text_table(&[Mode::Agg, Mode::Disagg], [&disaggregated, &aggregated], 10);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let cells = [
            "mode",
            "tp",
            "workers",
            "prefill_tp",
            "decode_tp",
            "prefill_workers",
            "decode_workers",
        ];
        assert_eq!(lines[0][..7], cells);
        assert_eq!(lines[0][10], "block_size");
        assert_eq!(lines[1][..7], ["disagg", "-", "-", "4", "1", "3", "4"]);
        assert_eq!(lines[2][..7], ["agg", "2", "5", "-", "-", "-", "-"]);
        assert_eq!((lines[1][10], lines[2][10]), ("-", "32"));
    }
}
