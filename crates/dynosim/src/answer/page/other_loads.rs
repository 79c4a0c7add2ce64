//! How candidates do under other loads.

use super::name;
use crate::answer::Answer;
use crate::confidence::{CandidateLoads, FiguresAtLoad, Knee, LoadSensitivity, WinnerEdge};
use crate::html_report::{Axis, LoadCurve, LoadSeries, Mark};

/// A figure of a candidate under a load.
type Figure = fn(&FiguresAtLoad) -> Option<f64>;

/// Goodput, or throughput without bounds on single requests, and the two latencies, over the load.
pub(super) fn curves(answer: &Answer) -> Vec<LoadCurve> {
    let Some(confidence) = &answer.confidence else {
        return Vec::new();
    };
    let Some(load) = &confidence.load else {
        return Vec::new();
    };
    let assessed = answer.assessed();
    let goodput: Figure = |figures| figures.goodput_rps;
    let figures: [(&str, &str, Figure); 4] = [
        ("Goodput", "requests/s", goodput),
        ("Throughput", "tok/s", |figures| figures.output_throughput_tok_s),
        ("Mean TTFT", "ms", |figures| figures.mean_ttft_ms),
        ("Mean TPOT", "ms", |figures| figures.mean_tpot_ms),
    ];
    let bound = |metric: &str| {
        let mut bounds = answer.result.spec.sla.active_bounds();
        bounds.find(|bound| bound.metric == metric).map(|bound| Mark {
            label: "bound".to_owned(),
            value: bound.bound_ms,
        })
    };
    let curves = figures.into_iter().map(|(title, unit, figure)| LoadCurve {
        x: Axis::new("Load", "times"),
        y: Axis::new(title, unit),
        curves: (1..)
            .zip(assessed.iter().zip(&load.candidates))
            .map(|(rank, (record, loads))| series(name(rank, record), loads, figure))
            .filter(|series| !series.points.is_empty())
            .collect(),
        marks: marks(load),
        bounds: match title {
            "Mean TTFT" => bound("mean_ttft_ms").into_iter().collect(),
            "Mean TPOT" => bound("mean_tpot_ms").into_iter().collect(),
            _ => Vec::new(),
        },
    });
    curves.filter(|curve| !curve.curves.is_empty()).collect()
}

fn series(name: String, loads: &CandidateLoads, figure: Figure) -> LoadSeries {
    let points = loads.loads.iter();
    LoadSeries {
        name,
        points: points.filter_map(|at| Some((at.factor, figure(at)?))).collect(),
    }
}

/// The knee of the first candidate, and the loads at which another one becomes the best.
fn marks(load: &LoadSensitivity) -> Vec<Mark> {
    let knee = load.candidates.first().map(|first| first.knee);
    let mut marks = Vec::new();
    if let Some(Knee::Within { factor, .. }) = knee {
        marks.push(Mark {
            label: "knee of 1".to_owned(),
            value: factor,
        });
    }
    for edge in [load.winner_below, load.winner_above] {
        if let WinnerEdge::Changes { changes_at, to, .. } = edge {
            marks.push(Mark {
                label: format!("{} is best", to + 1),
                value: changes_at,
            });
        }
    }
    marks
}
