//! Relative errors of groups of points.

use serde::Serialize;

use super::latencies::PerLatency;
use super::validator::ValidatedPoint;

/// What is said about relative errors, (simulated - measured) / measured, of several points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorSummary {
    /// Points that have an error.
    pub points: usize,
    /// Mean of the signed errors.
    pub bias: f64,
    /// Mean of the absolute errors.
    pub mean_absolute: f64,
    /// The error that is largest in absolute value, with its sign.
    pub worst: f64,
}

impl ErrorSummary {
    /// Sums up errors; `None` if there are none.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Self> {
        let errors: Vec<f64> = errors.into_iter().collect();
        let count = errors.len() as f64;
        let worst = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
        Some(Self {
            points: errors.len(),
            bias: errors.iter().sum::<f64>() / count,
            mean_absolute: errors.iter().map(|error| error.abs()).sum::<f64>() / count,
            worst,
        })
    }
}

/// Points that have something in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "group", rename_all = "snake_case")]
pub enum ErrorGroup {
    /// All that are not at the limit of the KV cache.
    All,
    /// Those of them with this tensor-parallel size.
    Tp {
        /// GPUs of the worker.
        tp: u32,
    },
    /// Those of them with these lengths.
    Shape {
        /// Prompt tokens.
        isl: u32,
        /// Output tokens.
        osl: u32,
    },
    /// Those at the limit of the KV cache.
    KvLimited,
}

impl ErrorGroup {
    fn contains(self, point: &ValidatedPoint) -> bool {
        let (load, kv_limited) = (point.measured.load, point.measured.kv_limited);
        match self {
            Self::All => !kv_limited,
            Self::Tp { tp } => !kv_limited && load.tp == tp,
            Self::Shape { isl, osl } => !kv_limited && (load.isl, load.osl) == (isl, osl),
            Self::KvLimited => kv_limited,
        }
    }
}

/// The errors of a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupErrors {
    /// Which points.
    #[serde(flatten)]
    pub group: ErrorGroup,
    /// Their errors; absent if none of them has one.
    pub errors: PerLatency<Option<ErrorSummary>>,
}

/// The errors of all points, of each tensor-parallel size, of each pair of lengths, and of points at the KV limit.
/// Groups without points are left out.
pub(super) fn group_errors(points: &[ValidatedPoint]) -> Vec<GroupErrors> {
    let mut groups = vec![ErrorGroup::All, ErrorGroup::KvLimited];
    for point in points {
        let load = point.measured.load;
        groups.push(ErrorGroup::Tp { tp: load.tp });
        groups.push(ErrorGroup::Shape {
            isl: load.isl,
            osl: load.osl,
        });
    }
    groups.sort_unstable();
    groups.dedup();
    groups
        .into_iter()
        .filter(|group| points.iter().any(|point| group.contains(point)))
        .map(|group| GroupErrors {
            group,
            errors: PerLatency::of(|kind| {
                let members = points.iter().filter(|point| group.contains(point));
                ErrorSummary::of(members.filter_map(|point| *point.errors.get(kind)))
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_summed_up() {
        let summary = ErrorSummary::of([0.1, -0.3, 0.05]).expect("there are errors");
        assert_eq!((summary.points, summary.worst), (3, -0.3));
        assert!((summary.bias - -0.05).abs() < 1e-15);
        assert!((summary.mean_absolute - 0.15).abs() < 1e-15);
        assert_eq!(ErrorSummary::of([]), None);
    }
}
