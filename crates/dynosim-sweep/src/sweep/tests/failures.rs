//! Candidates that go wrong.

use dynosim_router::{Pool, RouteQuery, Router};
use dynosim_spec::{
    Admission, BlockSize, Request, RouterSettings, SimDuration, SimTime, Topology, WorkerId, WorkloadBuilder,
};
use dynosim_timing::PolynomialTiming;

use super::*;

#[test]
fn rejections_make_a_state_infeasible() {
    let mut spec = small_spec();
    spec.engine.base_engine_args.num_gpu_blocks = None;
    let block_size = BlockSize::new(16).expect("not zero");
    let mut workload = WorkloadBuilder::new(block_size);
    for (session, input_tokens) in (0..).zip([100, 500, 5000]) {
        let request = Request {
            session,
            turn: 0,
            input_tokens,
            output_tokens: 4,
            delay: SimDuration::ZERO,
        };
        workload.push(request, []);
    }
    let workload = workload.build(Admission::OpenLoop);
    let provider = TokensPerGpu(1000);
    let sweep = Sweep::new(&spec, scenario_of(&spec, workload), &provider).expect("the spec is valid");
    let topology = |tp, workers| {
        let shape = ParallelShape::tensor(tp);
        State::new(Topology::Aggregated { workers, shape }, RouterState::round_robin())
    };
    let records = sweep.evaluate_states(&[topology(2, 1), topology(8, 1), topology(4, 2)]);
    let reason = records[0].infeasible_reason.as_deref().unwrap_or_default();
    assert!(
        reason.starts_with("rejects 1 of 3 requests, the first one because it needs"),
        "{reason}"
    );
    assert!((records[0].violation_penalty - 4.0 / 3.0).abs() < 1e-12);
    assert_eq!(records[0].rejected_requests, Some(1));
    assert!(records[0].score.is_some());
    assert_eq!(
        records[1].infeasible_reason.as_deref(),
        Some("uses 8 GPUs of a budget of 4")
    );
    assert!(!records[2].feasible);
}

/// Works with up to two workers; with more of them it loses count.
#[derive(Debug)]
struct Forgetful {
    workers: u32,
}

impl Router for Forgetful {
    fn route(&mut self, _now: SimTime, query: &RouteQuery<'_>) -> Option<WorkerId> {
        let modulus = if self.workers > 2 {
            self.workers + 1
        } else {
            self.workers
        };
        Some(WorkerId::new(query.request.get() % modulus))
    }
}

#[test]
fn failures_are_data() {
    let spec = small_spec();
    let forgetful =
        |_: &RouterSettings, pool: Pool, _: u64| -> Box<dyn Router> { Box::new(Forgetful { workers: pool.workers }) };
    let sweep = sweep(&spec, &PolynomialTiming).with_router_factory(&forgetful);
    let result = sweep.optimize_dense_agg().expect("there are candidates");
    let failed: Vec<&Record> = result.evaluated.iter().filter(|record| !record.feasible).collect();
    assert!(!failed.is_empty() && !result.feasible.is_empty());
    for record in failed {
        let reason = record.infeasible_reason.as_deref().unwrap_or_default();
        assert!(reason.contains("sent request"), "{reason}");
        assert!(record.metrics.is_empty() && record.score.is_none() && record.violation_penalty.is_infinite());
    }
    let mut csv = Vec::new();
    result.write_evaluated_csv(&mut csv).expect("memory is writable");
    let mut rows = csv::Reader::from_reader(csv.as_slice());
    assert_eq!(rows.headers().expect("a header").len(), 2 + 3 + 9 + 65 + 1);
    assert_eq!(rows.records().flatten().count(), result.evaluated.len());
}

#[test]
fn impossible_states_have_reasons() {
    let spec = small_spec();
    let state = |workers, tp| {
        let shape = ParallelShape::tensor(tp);
        State::new(
            Topology::Aggregated { workers, shape },
            RouterState::kv_router(1.0, 1.0),
        )
    };
    let records = sweep(&spec, &PolynomialTiming).evaluate_states(&[state(0, 1), state(1, 3), state(1, 1)]);
    assert_eq!(records[0].infeasible_reason.as_deref(), Some("a pool has no workers"));
    assert_eq!(
        records[1].infeasible_reason.as_deref(),
        Some("tp 3 is not among the sizes that the timing provider offers")
    );
    assert!(records[2].feasible);
    assert!(sweep(&spec, &PolynomialTiming).evaluate_states(&[]).is_empty());
}
