//! All candidates: as points of a trade-off, and as rows of a table.

use dynosim_sweep::{OptimizationResult, Record, State, best_first};
use indexmap::IndexSet;

use crate::html_report::{Axis, CandidateRow, CandidateTable, Cell, Column, Pareto, ParetoPoint};
use crate::summary::sentence;

/// Points of a chart and rows of a table beyond which a page is slow. The best ones are shown.
const MOST: usize = 2000;

/// Rows shown until the reader asks for all.
const INITIAL_ROWS: usize = 25;

/// Records with figures, best first; of records of one simulation the first.
fn distinct(result: &OptimizationResult) -> Vec<&Record> {
    let mut records: Vec<&Record> = result.evaluated.iter().collect();
    records.retain(|record| !record.metrics.is_empty());
    records.sort_by(|a, b| best_first(a, b));
    let mut seen: IndexSet<usize> = IndexSet::new();
    records.retain(|record| seen.insert(record.simulation));
    records
}

/// All candidates by the first two metrics of the trade-off that the spec asks for.
pub(super) fn pareto(result: &OptimizationResult) -> Option<Pareto> {
    let [y, x, ..] = result.spec.pareto.as_slice() else {
        return None;
    };
    let front: IndexSet<State> = result.pareto.iter().map(|record| record.state).collect();
    let best = result.best().map(|best| best.simulation);
    let records = distinct(result);
    // The front is shown whole; of the others, the best.
    let on_front = result.pareto.iter().map(|record| record.simulation);
    let on_front: IndexSet<usize> = on_front.collect();
    let shown = records.iter().enumerate();
    let shown = shown.filter(|(place, record)| *place < MOST || on_front.contains(&record.simulation));
    let points = shown.filter_map(|(_, record)| {
        Some(ParetoPoint {
            label: record.state.short_name(),
            x: record.metric(x)?,
            y: record.metric(y)?,
            figures: figures(record),
            feasible: record.feasible,
            on_front: front.contains(&record.state) || on_front.contains(&record.simulation),
            is_best: Some(record.simulation) == best,
        })
    });
    let points: Vec<ParetoPoint> = points.collect();
    (!points.is_empty()).then(|| Pareto {
        x: axis(x),
        y: axis(y),
        points,
    })
}

/// An axis for a metric, with its unit.
fn axis(metric: &str) -> Axis {
    let (name, unit) = match metric.rsplit_once('_') {
        Some((_, "ms")) => (metric.trim_end_matches("_ms"), "ms"),
        Some((_, "rps")) => (metric.trim_end_matches("_rps"), "requests/s"),
        _ if metric.ends_with("_tok_s") => (metric.trim_end_matches("_tok_s"), "tok/s"),
        _ => (metric, ""),
    };
    let axis = Axis::new(&in_words(name), unit);
    // Latencies of bad candidates are many times those of good ones.
    if unit == "ms" {
        Axis::new(&format!("{}, logarithmic", axis.name), unit).logarithmic()
    } else {
        axis
    }
}

/// The name of a metric as people write it.
fn in_words(metric: &str) -> String {
    let words = metric.split('_').map(|word| match word {
        "ttft" | "ttst" | "tpot" | "itl" | "e2e" | "gpu" => word.to_uppercase(),
        "gpus" => "GPUs".to_owned(),
        word => word.to_owned(),
    });
    sentence(&words.collect::<Vec<String>>().join(" "))
}

fn figures(record: &Record) -> Vec<(String, String)> {
    let mut figures = vec![("GPUs".to_owned(), record.total_gpus_used.to_string())];
    for (name, metric, unit) in [
        ("Throughput", "output_throughput_tok_s", "tok/s"),
        ("Mean TTFT", "mean_ttft_ms", "ms"),
        ("Mean TPOT", "mean_tpot_ms", "ms"),
    ] {
        if let Some(value) = record.metric(metric) {
            figures.push((name.to_owned(), format!("{value:.1} {unit}")));
        }
    }
    if let Some(reason) = &record.infeasible_reason {
        figures.push(("Not feasible".to_owned(), reason.clone()));
    }
    figures
}

/// Columns of the table: heading, unit, digits and metric.
const COLUMNS: [(&str, &str, u8, &str); 9] = [
    ("Throughput", "tok/s", 1, "output_throughput_tok_s"),
    ("Throughput per GPU", "tok/s", 1, "throughput_per_gpu_tok_s"),
    ("Goodput", "requests/s", 3, "goodput_rps"),
    ("Cost", "per 1M tokens", 4, "cost_per_million_output_tokens"),
    ("Mean TTFT", "ms", 1, "mean_ttft_ms"),
    ("p95 TTFT", "ms", 1, "p95_ttft_ms"),
    ("Mean TPOT", "ms", 2, "mean_tpot_ms"),
    ("Mean E2E", "ms", 1, "mean_e2e_latency_ms"),
    ("Cached", "share", 3, "prefix_cache_reused_ratio"),
];

/// All candidates with their figures, best first; of equal simulations the first.
pub(super) fn table(result: &OptimizationResult) -> Option<CandidateTable> {
    let records = distinct(result);
    if records.is_empty() {
        return None;
    }
    let there = |metric: &str| records.iter().any(|record| record.metric(metric).is_some());
    let metrics: Vec<_> = COLUMNS.into_iter().filter(|(.., metric)| there(metric)).collect();
    let column = |name: &str, unit: &str, decimals: Option<u8>| Column {
        name: name.to_owned(),
        unit: unit.to_owned(),
        decimals,
    };
    let mut columns = vec![column("Deployment", "", None), column("GPUs", "", Some(0))];
    columns.extend(
        metrics
            .iter()
            .map(|&(name, unit, digits, _)| column(name, unit, Some(digits))),
    );
    columns.push(column("Missed", "", None));
    let best = result.best_feasible.as_ref().map(|best| best.simulation);
    let rows = records.iter().take(MOST).map(|record| {
        let mut cells: Vec<Cell> = vec![record.state.to_string().into(), (record.total_gpus_used as f64).into()];
        cells.extend(metrics.iter().map(|(.., metric)| Cell::from(record.metric(metric))));
        cells.push(record.infeasible_reason.clone().into());
        CandidateRow {
            cells,
            feasible: record.feasible,
            is_best: Some(record.simulation) == best,
        }
    });
    Some(CandidateTable {
        columns,
        rows: rows.collect(),
        initial_rows: INITIAL_ROWS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_metrics_are_told() {
        assert_eq!(
            axis("mean_tpot_ms"),
            Axis::new("Mean TPOT, logarithmic", "ms").logarithmic()
        );
        assert_eq!(
            axis("throughput_per_gpu_tok_s"),
            Axis::new("Throughput per GPU", "tok/s")
        );
        assert_eq!(axis("goodput_rps"), Axis::new("Goodput", "requests/s"));
        assert_eq!(axis("total_gpus_used"), Axis::new("Total GPUs used", ""));
    }
}
