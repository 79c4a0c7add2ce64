//! How the latencies of explained candidates are distributed.

use dynosim_core::Latency;
use dynosim_spec::SlaSpec;

use super::name;
use crate::answer::Answer;
use crate::explain::Detailed;
use crate::html_report::{Axis, CumulativeCurve, Distribution, Mark};

/// TTFT and TPOT of the first candidates, with the bounds of the SLA.
pub(super) fn distributions(answer: &Answer) -> Vec<Distribution> {
    let sla = &answer.result.spec.sla;
    let distributions = [
        ("Time to first token", Latency::Ttft, "ttft_ms"),
        ("Time per output token", Latency::Tpot, "tpot_ms"),
    ];
    let distributions = distributions.into_iter().map(|(title, latency, key)| Distribution {
        axis: Axis::new(title, "ms"),
        curves: (1..)
            .zip(&answer.detailed)
            .map(|(rank, candidate)| curve(rank, candidate, latency))
            .filter(|curve| !curve.points.is_empty())
            .collect(),
        bounds: bounds(sla, key),
    });
    distributions
        .filter(|distribution| !distribution.curves.is_empty())
        .collect()
}

fn curve(rank: usize, candidate: &Detailed, latency: Latency) -> CumulativeCurve {
    let requests = candidate.outcome.requests.iter();
    let values: Vec<f64> = requests.filter_map(|record| latency.ms(record)).collect();
    CumulativeCurve::of(&name(rank, &candidate.record), &values)
}

/// The bounds on percentiles of a latency, and those on single requests. A bound on the mean is no mark among single
/// requests.
fn bounds(sla: &SlaSpec, key: &str) -> Vec<Mark> {
    let bounds = sla.active_bounds().filter_map(|bound| {
        let (statistic, of) = bound.metric.split_once('_')?;
        (of == key && statistic != "mean").then(|| Mark {
            label: format!("{statistic} bound"),
            value: bound.bound_ms,
        })
    });
    let mut bounds: Vec<Mark> = bounds.collect();
    let per_request = sla.per_request.and_then(|sla| match key {
        "ttft_ms" => sla.ttft,
        _ => sla.itl,
    });
    bounds.extend(per_request.map(|value| Mark {
        label: "goodput bound".to_owned(),
        value,
    }));
    bounds
}
