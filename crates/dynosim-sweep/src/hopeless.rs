//! Candidates that are given up before their simulation ends.

use dynosim_core::{LatencyBound, SimError};
use dynosim_spec::ReplayOptimizeSpec;

use crate::trial::Trial;

/// Bounds beyond which simulations are given up: none unless the spec asks for it.
pub(crate) fn latency_bounds(spec: &ReplayOptimizeSpec) -> Vec<LatencyBound> {
    if !spec.search.stop_hopeless {
        return Vec::new();
    }
    let bounds = spec.sla.active_bounds();
    bounds
        .filter_map(|bound| LatencyBound::on_metric(bound.metric, bound.bound_ms))
        .collect()
}

/// What a simulation that ended with this error counts as, if it was given up.
///
/// Bounds are missed for certain when what has finished uses them up. The earlier that is, the farther away is a
/// state from keeping the bound: the rest is taken to go on in the same way.
pub(crate) fn given_up(spec: &ReplayOptimizeSpec, error: &SimError) -> Option<Trial> {
    let SimError::GivenUp {
        bound,
        finished,
        requests,
    } = error
    else {
        return None;
    };
    let metric = bound.metric();
    let name = spec.sla.active_bounds().find(|bound| bound.metric == metric)?.name;
    let limit_ms = bound.limit_ms;
    Some(Trial::GivenUp {
        reason: format!(
            "given up after {finished} of {requests} requests: sla.{name}: {metric} exceeds {limit_ms} ms whatever comes"
        ),
        expected_excess: *requests as f64 / (*finished).max(1) as f64 - 1.0,
    })
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Backend, EngineSpec, HardwareSpec, SlaSpec, SyntheticLoad, SyntheticWorkload, WorkloadSpec};

    use super::*;

    fn all_bounds() -> ReplayOptimizeSpec {
        let load = SyntheticWorkload::new(100, 10, 1, SyntheticLoad::Concurrency(1));
        let mut spec = ReplayOptimizeSpec::new(
            EngineSpec::new("model", Backend::Vllm),
            HardwareSpec::new("h200_sxm"),
            WorkloadSpec::Synthetic(load),
        );
        spec.search.stop_hopeless = true;
        spec.sla = SlaSpec {
            ttft: Some(1.0),
            itl: Some(2.0),
            e2e_latency: Some(3.0),
            p95_ttft: Some(4.0),
            p95_itl: Some(5.0),
            p95_e2e_latency: Some(6.0),
            p50_ttft: Some(7.0),
            p50_itl: Some(8.0),
            p50_e2e_latency: Some(9.0),
            p99_ttft: Some(10.0),
            p99_itl: Some(11.0),
            p99_e2e_latency: Some(12.0),
            per_request: None,
        };
        spec
    }

    #[test]
    fn every_bound_can_end_a_simulation_and_is_named() {
        let spec = all_bounds();
        let bounds = latency_bounds(&spec);
        assert_eq!(bounds.len(), spec.sla.active_bounds().count());
        for (bound, active) in bounds.into_iter().zip(spec.sla.active_bounds()) {
            assert_eq!(bound.metric(), active.metric);
            let error = SimError::GivenUp {
                bound,
                finished: 12,
                requests: 50,
            };
            let expected = format!(
                "given up after 12 of 50 requests: sla.{}: {} exceeds {} ms whatever comes",
                active.name, active.metric, active.bound_ms
            );
            let Some(Trial::GivenUp {
                reason,
                expected_excess,
            }) = given_up(&spec, &error)
            else {
                panic!("{error} is giving up");
            };
            assert_eq!(reason, expected);
            assert!((expected_excess - (50.0 / 12.0 - 1.0)).abs() < 1e-12);
        }
        assert!(given_up(&spec, &SimError::ClockExhausted).is_none());
    }

    #[test]
    fn bounds_that_are_off_end_none() {
        let mut spec = all_bounds();
        spec.sla.ttft = Some(0.0);
        assert_eq!(latency_bounds(&spec).len(), 11);
        spec.search.stop_hopeless = false;
        assert_eq!(latency_bounds(&spec), []);
    }
}
