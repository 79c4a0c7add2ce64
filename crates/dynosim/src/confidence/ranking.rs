//! Which of two records a sweep would prefer.

use std::cmp::Ordering;

use dynosim_sweep::Record;
use ordered_float::OrderedFloat;

/// Orders records as a sweep does: feasible ones first, by score, output throughput, mean end-to-end latency and
/// GPUs; then the others by penalty, output throughput and mean end-to-end latency. What is not a number ranks last. A
/// test compares it with the order of a sweep's results.
pub(super) fn best_first(a: &Record, b: &Record) -> Ordering {
    key(a).cmp(&key(b))
}

/// The place of the best of these records, the first among equals; `None` without any.
pub(super) fn place_of_best<'r>(records: impl IntoIterator<Item = &'r Record>) -> Option<usize> {
    let best = records
        .into_iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| best_first(a, b));
    best.map(|(place, _)| place)
}

type Key = (bool, OrderedFloat<f64>, OrderedFloat<f64>, OrderedFloat<f64>, u64);

fn key(record: &Record) -> Key {
    let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let (leading, gpus) = if record.feasible {
        (-known(record.score), record.total_gpus_used)
    } else {
        (record.violation_penalty, 0)
    };
    (
        !record.feasible,
        OrderedFloat(leading),
        OrderedFloat(-known(record.metric("output_throughput_tok_s"))),
        OrderedFloat(known(record.metric("mean_e2e_latency_ms"))),
        gpus,
    )
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{
        Backend, EngineArgs, EngineSpec, HardwareSpec, Objective, ReplayOptimizeSpec, SyntheticLoad, SyntheticWorkload,
        WorkloadSpec,
    };
    use dynosim_sweep::{Mode, Sweep};
    use dynosim_timing::PolynomialTiming;

    use super::*;
    use crate::search::sweep_scenario;

    /// A sweep in which this bound on the mean TTFT leaves some states infeasible.
    #[track_caller]
    fn check(objective: Objective, ttft_ms: f64) {
        let mut engine = EngineSpec::new("some-model", Backend::Vllm);
        engine.base_engine_args = EngineArgs {
            num_gpu_blocks: Some(2000),
            ..EngineArgs::default()
        };
        let load = SyntheticWorkload::new(500, 20, 40, SyntheticLoad::Concurrency(8));
        let hardware = HardwareSpec::new("h200_sxm").with_budget(6);
        let mut spec = ReplayOptimizeSpec::new(engine, hardware, WorkloadSpec::Synthetic(load));
        spec.objective = objective;
        spec.sla.ttft = Some(ttft_ms);
        let scenario = sweep_scenario(&spec, &[Mode::Disagg]).expect("the spec is sound");
        let sweep = Sweep::new(&spec, scenario, &PolynomialTiming).expect("the spec is sound");
        let result = sweep.optimize_dense_disagg().expect("the budget is enough");

        let (mut feasible, infeasible): (Vec<&Record>, Vec<&Record>) =
            result.evaluated.iter().partition(|record| record.feasible);
        assert!(
            feasible.len() > 1 && infeasible.len() > 1,
            "{ttft_ms} ms divide the states"
        );
        feasible.sort_by(|a, b| best_first(a, b));
        assert!(feasible.into_iter().eq(&result.feasible));
        let closest = place_of_best(infeasible.iter().copied()).map(|place| infeasible[place]);
        assert_eq!(closest, result.best_infeasible.as_ref());
        let best = place_of_best(&result.evaluated).map(|place| &result.evaluated[place]);
        assert_eq!(best, result.best());
    }

    #[test]
    fn the_order_is_that_of_a_sweep() {
        for objective in [Objective::Throughput, Objective::MeanTtft, Objective::MeanE2eLatency] {
            check(objective, 60.0);
        }
    }
}
