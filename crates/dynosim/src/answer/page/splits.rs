//! How the number of workers changes the score.

use dynosim_spec::{ParallelShape, Topology};
use dynosim_sweep::{OptimizationResult, Record, best_first};
use indexmap::IndexMap;

use crate::html_report::{Axis, HeatCell, HeatMap};

/// Numbers of workers with the shapes and engine arguments of the best state, each behind its best router; of aggregated
/// deployments, sizes against numbers of workers. `None` if there is but one.
pub(super) fn heat_map(result: &OptimizationResult) -> Option<HeatMap> {
    let best = result.best()?;
    let mut cells: IndexMap<(u32, u32), &Record> = IndexMap::new();
    for record in &result.evaluated {
        let Some(place) = place(record, best) else { continue };
        let known = cells.entry(place).or_insert(record);
        if best_first(record, known).is_lt() {
            *known = record;
        }
    }
    if cells.len() < 2 {
        return None;
    }
    let spec = &result.spec;
    let (title, x, y) = match best.state.topology {
        Topology::Aggregated { .. } => (String::new(), "tensor-parallel size", "workers"),
        Topology::Disaggregated {
            prefill_shape,
            decode_shape,
            ..
        } => (
            format!("Prefill at {prefill_shape}, decode at {decode_shape}"),
            "prefill workers",
            "decode workers",
        ),
    };
    let sign = if spec.objective.is_more_better() { 1.0 } else { -1.0 };
    let cell = |((x, y), record): ((u32, u32), &Record)| HeatCell {
        x,
        y,
        score: record.score.map(|score| sign * score),
        label: record.state.short_name(),
        feasible: record.feasible,
        is_best: record.state == best.state,
    };
    Some(HeatMap {
        title,
        x: x.to_owned(),
        y: y.to_owned(),
        score: Axis::new(&spec.objective.name().replace('_', " "), spec.objective.unit()),
        cells: cells.into_iter().map(cell).collect(),
    })
}

/// Where a record is on the map of `best`, if it is on it.
fn place(record: &Record, best: &Record) -> Option<(u32, u32)> {
    if record.state.engine != best.state.engine {
        return None;
    }
    match (record.state.topology, best.state.topology) {
        (Topology::Aggregated { workers, shape }, Topology::Aggregated { shape: best_shape, .. }) => {
            // Of several shapes of one size, the map has room for those that spread experts as the best one does.
            let like_best = spread(shape) == spread(best_shape);
            like_best.then_some((shape.tp, workers))
        }
        (
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            },
            Topology::Disaggregated {
                prefill_shape: best_prefill,
                decode_shape: best_decode,
                ..
            },
        ) => {
            let same = (prefill_shape, decode_shape) == (best_prefill, best_decode);
            same.then_some((prefill_workers, decode_workers))
        }
        _ => None,
    }
}

/// How a shape spreads experts, whatever its tensor-parallel size: groups with sequences of their own, and whether
/// groups hold different experts.
fn spread(shape: ParallelShape) -> (u32, Option<bool>) {
    (shape.attention_dp, shape.moe_ep.map(|groups| groups > 1))
}
