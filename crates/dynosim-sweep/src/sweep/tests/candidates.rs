//! Which candidates there are, and what is said if there are none.

use dynosim_timing::PolynomialTiming;

use super::*;

#[track_caller]
fn check_error(result: Result<OptimizationResult, SweepError>, parts: &[&str]) {
    let message = result.expect_err("nothing fits").to_string();
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn tiny_budgets_say_what_they_lack() {
    let mut spec = small_spec();
    spec.hardware.total_gpus = Some(1);
    let one_gpu = sweep(&spec, &PolynomialTiming);
    check_error(
        one_gpu.optimize_dense_disagg(),
        &[
            "budget of 1 GPU",
            "disaggregated deployment needs 2",
            "a prefill worker at tp 1 and a decode worker",
        ],
    );
    let single = one_gpu.optimize_dense_agg().expect("one worker fits");
    assert_eq!(single.evaluated.len(), 1);
    // The side that works decides a comparison.
    let comparison = one_gpu.compare_agg_and_disagg().expect("one side works");
    assert_eq!(comparison.chosen_mode, Mode::Agg);
    assert!(comparison.disagg.is_err());
    assert!(
        comparison
            .to_json()
            .expect("no odd paths")
            .contains("\"error\": \"a budget of 1 GPU")
    );

    spec.router.mode = SweepRouterMode::KvRouter;
    let picky = sweep(&spec, &PolynomialTiming);
    check_error(
        picky.optimize_dense_agg(),
        &["aggregated deployment needs 2", "router.mode kv_router"],
    );
    let error = picky
        .compare_agg_and_disagg()
        .expect_err("neither side works")
        .to_string();
    assert!(
        error.contains("aggregated: a budget") && error.contains("disaggregated: a budget"),
        "{error}"
    );
}

#[test]
fn sizes_without_room_are_left_out() {
    // Blocks are pinned, and still the weights must fit.
    let spec = small_spec();
    let result = sweep(&spec, &TokensPerGpu(3200))
        .optimize_dense_agg()
        .expect("tp 2 fits");
    assert_eq!(result.left_out_tps.len(), 1);
    assert_eq!(
        (result.left_out_tps[0].role, result.left_out_tps[0].shape),
        (WorkerRole::Aggregated, ParallelShape::tensor(1))
    );
    assert!(result.left_out_tps[0].reason.contains("no room for KV cache"));
    let capacity = |tp, blocks_estimated| KvCapacity {
        role: WorkerRole::Aggregated,
        shape: ParallelShape::tensor(tp),
        block_size: 16,
        blocks_used: 300,
        blocks_estimated: Some(blocks_estimated),
    };
    assert_eq!(result.kv_capacity, [capacity(2, 200), capacity(4, 600)]);
    let too_much: Vec<&String> = result
        .warnings
        .iter()
        .filter(|warning| warning.contains("does not fit"))
        .collect();
    assert_eq!(too_much.len(), 1, "{:?}", result.warnings);

    check_error(
        sweep(&spec, &TokensPerGpu(0)).optimize_dense_disagg(),
        &[
            "for prefill workers of some-model on h200_sxm",
            "prefill and decode tp 1, 2, 4, 8: no room for KV cache",
        ],
    );
    let mut tiny = small_spec();
    tiny.hardware.total_gpus = Some(1);
    check_error(
        sweep(&tiny, &TokensPerGpu(3200)).optimize_dense_agg(),
        &["needs 2 (one worker at tp 2)", "left out: aggregated tp 1: no room"],
    );
}

#[test]
fn estimated_capacity_is_used_if_none_is_pinned() {
    let mut spec = small_spec();
    spec.engine.base_engine_args.num_gpu_blocks = None;
    let result = sweep(&spec, &TokensPerGpu(3200))
        .optimize_dense_agg()
        .expect("tp 2 fits");
    assert!(
        result
            .kv_capacity
            .iter()
            .all(|capacity| Some(capacity.blocks_used) == capacity.blocks_estimated)
    );
    // Nothing is known about the model, and nothing is pinned.
    check_error(
        sweep(&spec, &PolynomialTiming).optimize_dense_agg(),
        &["nothing is known about model `some-model`"],
    );
}

#[test]
fn wrong_specs_are_refused() {
    let mut spec = small_spec();
    spec.hardware.total_gpus = None;
    spec.router.overlap_credits = vec![2.0];
    let error = Sweep::new(&spec, scenario(&small_spec()), &PolynomialTiming).expect_err("two mistakes");
    assert!(error.to_string().contains("2 mistakes"), "{error}");
    spec = small_spec();
    spec.hardware.total_gpus = Some(1_000_000);
    let error = Sweep::new(&spec, scenario(&spec), &PolynomialTiming).expect_err("too many GPUs");
    assert!(error.to_string().contains("65536"), "{error}");
}
