//! Candidates that are given up before their simulation ends.

use dynosim_core::{LatencyBound, SimError};
use dynosim_spec::ReplayOptimizeSpec;

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

/// Why a simulation has no report; a bound beyond which it was given up has its name in the spec.
pub(crate) fn reason(spec: &ReplayOptimizeSpec, error: &SimError) -> String {
    let SimError::GivenUp {
        bound,
        finished,
        requests,
    } = error
    else {
        return error.to_string();
    };
    let metric = bound.metric();
    let mut names = spec.sla.active_bounds().filter(|bound| bound.metric == metric);
    let Some(name) = names.next().map(|bound| bound.name) else {
        return error.to_string();
    };
    let limit_ms = bound.limit_ms;
    format!("given up after {finished} of {requests} requests: sla.{name}: {metric} exceeds {limit_ms} whatever comes")
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
                "given up after 12 of 50 requests: sla.{}: {} exceeds {} whatever comes",
                active.name, active.metric, active.bound_ms
            );
            assert_eq!(reason(&spec, &error), expected);
        }
        assert_eq!(
            reason(&spec, &SimError::ClockExhausted),
            SimError::ClockExhausted.to_string()
        );
    }

    #[test]
    fn bounds_that_are_off_end_none() {
        let mut spec = all_bounds();
        spec.sla.ttft = Some(0.0);
        assert_eq!(latency_bounds(&spec).len(), 5);
        spec.search.stop_hopeless = false;
        assert_eq!(latency_bounds(&spec), []);
    }
}
