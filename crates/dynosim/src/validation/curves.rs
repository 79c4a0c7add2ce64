//! Shape errors: whether latencies grow with concurrency as they do in measurements, whatever their level.

use dynosim_spec::LoadPoint;
use indexmap::IndexMap;
use serde::Serialize;

use super::error_summary::ErrorSummary;
use super::latencies::{LatencyKind, PerLatency};
use super::validator::ValidatedPoint;

/// Latencies over concurrency of one worker size and one pair of lengths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// GPUs of the worker.
    pub tp: u32,
    /// Prompt tokens.
    pub isl: u32,
    /// Output tokens.
    pub osl: u32,
    /// The curves; absent with fewer than two points.
    pub curves: PerLatency<Option<RelativeCurve>>,
}

/// A latency over concurrency, divided by its value at the lowest concurrency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelativeCurve {
    /// Lowest concurrency, the one that the others are relative to.
    pub base_concurrency: u32,
    /// The others by concurrency.
    pub points: Vec<CurvePoint>,
    /// Their errors.
    pub errors: ErrorSummary,
}

/// A point of a relative curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Requests in flight.
    pub concurrency: u32,
    /// Measured latency over the measured one at the lowest concurrency.
    pub measured: f64,
    /// The same of simulated latencies.
    pub simulated: f64,
    /// (simulated - measured) / measured.
    pub error: f64,
}

/// The curves of all points that are not at the limit of the KV cache, by worker size and lengths.
pub(super) fn curves(points: &[ValidatedPoint]) -> Vec<Curve> {
    let mut by_shape: IndexMap<(u32, u32, u32), Vec<&ValidatedPoint>> = IndexMap::new();
    for point in points.iter().filter(|point| !point.measured.kv_limited) {
        let LoadPoint { tp, isl, osl, .. } = point.measured.load;
        by_shape.entry((tp, isl, osl)).or_default().push(point);
    }
    by_shape.sort_unstable_keys();
    by_shape
        .into_iter()
        .map(|((tp, isl, osl), mut points)| {
            points.sort_by_key(|point| point.measured.load.concurrency);
            Curve {
                tp,
                isl,
                osl,
                curves: PerLatency::of(|kind| relative_curve(&points, kind)),
            }
        })
        .filter(|curve| curve.curves != PerLatency::default())
        .collect()
}

/// The errors of all points of all curves.
pub(super) fn shape_errors(curves: &[Curve]) -> PerLatency<Option<ErrorSummary>> {
    PerLatency::of(|kind| {
        let relative = curves.iter().filter_map(|curve| curve.curves.get(kind).as_ref());
        ErrorSummary::of(relative.flat_map(|curve| &curve.points).map(|point| point.error))
    })
}

fn relative_curve(points: &[&ValidatedPoint], kind: LatencyKind) -> Option<RelativeCurve> {
    let known: Vec<(u32, f64, f64)> = points
        .iter()
        .filter_map(|point| {
            let measured = (*point.measured.mean_ms.get(kind))?;
            Some((point.measured.load.concurrency, measured, point.simulated_ms(kind)?))
        })
        .collect();
    let (&(base_concurrency, base_measured, base_simulated), others) = known.split_first()?;
    let points: Vec<CurvePoint> = others
        .iter()
        .map(|&(concurrency, measured, simulated)| {
            let (measured, simulated) = (measured / base_measured, simulated / base_simulated);
            CurvePoint {
                concurrency,
                measured,
                simulated,
                error: simulated / measured - 1.0,
            }
        })
        .collect();
    Some(RelativeCurve {
        base_concurrency,
        errors: ErrorSummary::of(points.iter().map(|point| point.error))?,
        points,
    })
}
