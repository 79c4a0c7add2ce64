//! Charts of a report.

use serde::{Deserialize, Serialize};

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal steps are equal differences.
    #[default]
    Linear,
    /// Equal steps are equal ratios. Points at or below 0 are not drawn.
    Logarithmic,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What is shown along it.
    pub name: String,
    /// The unit of its values; empty if they have none.
    #[serde(default)]
    pub unit: String,
    /// How it is divided.
    #[serde(default)]
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn new(name: &str, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// The same axis, divided logarithmically.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self {
            scale: Scale::Logarithmic,
            ..self
        }
    }
}

/// A line across a chart at a value that matters: the bound of a latency, the knee of a curve.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// What it says; short, for it is written along the line.
    pub label: String,
    /// Where it is, in the unit of its axis.
    pub value: f64,
}

/// Candidates by two figures, and the front of those that no other beats in both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// The figure along the horizontal axis.
    pub x: Axis,
    /// The figure along the vertical axis.
    pub y: Axis,
    /// The candidates, in any order.
    pub points: Vec<ParetoPoint>,
}

/// A candidate among others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParetoPoint {
    /// Its configuration, in the words of the table.
    pub label: String,
    /// Its figure along the horizontal axis.
    pub x: f64,
    /// Its figure along the vertical axis.
    pub y: f64,
    /// Further figures, shown when the reader points at it.
    #[serde(default)]
    pub figures: Vec<(String, String)>,
    /// Whether it keeps to all bounds.
    pub feasible: bool,
    /// Whether it is on the front. The front is drawn as a line in the order of `x`.
    #[serde(default)]
    pub on_front: bool,
    /// Whether it is the answer; its label is written beside it.
    #[serde(default)]
    pub is_best: bool,
}

/// How a latency is distributed: the share of requests up to each value, a line per candidate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The latency, with its unit.
    pub axis: Axis,
    /// The candidates, the one of interest first.
    pub curves: Vec<CumulativeCurve>,
    /// Bounds of the latency.
    #[serde(default)]
    pub bounds: Vec<Mark>,
}

/// The share of requests whose latency is at most a value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CumulativeCurve {
    /// The candidate.
    pub name: String,
    /// Value and share from 0 to 1, both ascending.
    pub points: Vec<(f64, f64)>,
}

impl CumulativeCurve {
    /// Steps of a curve made of single values; more cannot be told apart on a screen.
    const STEPS: usize = 400;

    /// The curve of single values in any order, which need not be finite: what is not, is left out.
    ///
    /// Up to 400 values all become points; of more, every point is still one of the values with its exact share, the
    /// smallest and the largest among them.
    pub fn of(name: &str, values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let steps = count.min(Self::STEPS);
        let ranks = (0..steps).map(|step| {
            if steps == 1 {
                0
            } else {
                step * (count - 1) / (steps - 1)
            }
        });
        let points = ranks.map(|rank| (sorted[rank], (rank + 1) as f64 / count as f64));
        Self {
            name: name.to_owned(),
            points: points.collect(),
        }
    }
}

/// A figure under other loads, a line per candidate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadCurve {
    /// The load, usually as a multiple of the load asked about.
    pub x: Axis,
    /// The figure.
    pub y: Axis,
    /// The candidates, the one of interest first.
    pub curves: Vec<LoadSeries>,
    /// Loads that matter: the knee, and where another candidate becomes the better one.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Bounds of the figure.
    #[serde(default)]
    pub bounds: Vec<Mark>,
}

/// A candidate under other loads.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSeries {
    /// The candidate.
    pub name: String,
    /// Load and figure, by ascending load.
    pub points: Vec<(f64, f64)>,
}

/// Scores by two sizes: prefill and decode workers, or tensor parallelism and workers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    /// What all cells have in common; may be empty.
    #[serde(default)]
    pub title: String,
    /// The size along the horizontal axis.
    pub x: String,
    /// The size along the vertical axis.
    pub y: String,
    /// The score; higher values are darker on light ground, brighter on dark ground.
    pub score: Axis,
    /// The cells, in any order. Where two have the same sizes, the later one is drawn.
    pub cells: Vec<HeatCell>,
}

/// A pair of sizes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatCell {
    /// The size along the horizontal axis.
    pub x: u32,
    /// The size along the vertical axis.
    pub y: u32,
    /// The score; `None` if it could not be told.
    pub score: Option<f64>,
    /// The configuration, shown when the reader points at the cell.
    pub label: String,
    /// Whether it keeps to all bounds. Cells that do not are hollow and crossed.
    pub feasible: bool,
    /// Whether it is the answer; it gets a star and a frame.
    #[serde(default)]
    pub is_best: bool,
}

/// What a pool of workers did over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The pool: "prefill", "decode" or "workers".
    pub pool: String,
    /// Instants, in ascending seconds of simulated time. A few hundred are enough for a screen.
    pub time_s: Vec<f64>,
    /// Requests waiting for a worker's scheduler from each instant to the next.
    pub waiting_requests: Vec<f64>,
    /// Requests running from each instant to the next.
    pub running_requests: Vec<f64>,
    /// Share of the KV cache in use from each instant to the next, from 0 to 1.
    pub kv_share: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_points() {
        let curve = CumulativeCurve::of("a", &[3.0, f64::NAN, 1.0, 2.0, 2.0]);
        assert_eq!(curve.points, [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
        assert_eq!(CumulativeCurve::of("a", &[7.0]).points, [(7.0, 1.0)]);
        assert_eq!(CumulativeCurve::of("a", &[]).points, []);
    }

    #[test]
    fn many_values_keep_their_exact_shares() {
        let values: Vec<f64> = (1..=10_000).rev().map(f64::from).collect();
        let points = CumulativeCurve::of("a", &values).points;
        assert_eq!(points.len(), 400);
        assert_eq!((points[0], points[399]), ((1.0, 0.0001), (10_000.0, 1.0)));
        let exact: Vec<(f64, f64)> = points.iter().map(|&(value, _)| (value, value / 10_000.0)).collect();
        assert_eq!(points, exact);
    }
}
