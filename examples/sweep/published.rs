//! The published result of this sweep, and what to make of it.

use std::fmt::Write;

use dynosim::Error;
use dynosim::spec::{ParallelShape, ReplayOptimizeSpec, Topology, WorkerRole, WorkloadSpec};
use dynosim::sweep::{Mode, OptimizationResult, Record, RouterState, State, Sweep};
use dynosim::timing::TimingProvider;

/// KV blocks that every worker had when the figures were made.
const PINNED_BLOCKS: u32 = 20_000;

const METRICS: [&str; 5] = [
    "output_throughput_tok_s",
    "prefix_cache_reused_ratio",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_e2e_latency_ms",
];

/// The published figures, approximate as they are, in the order of [`METRICS`].
const FIGURES: [f64; METRICS.len()] = [970.0, 0.5, 42_800.0, 35.0, 51_900.0];

/// The published best state.
const STATE: State = State::new(
    Topology::Disaggregated {
        prefill_workers: 3,
        decode_workers: 4,
        prefill_shape: ParallelShape::tensor(4),
        decode_shape: ParallelShape::tensor(1),
    },
    RouterState::kv_router(0.5, 1.0),
);

/// The published figures beside what is simulated here, and why they differ.
pub(crate) fn comparison(
    sweep: &Sweep<'_>,
    result: &OptimizationResult,
    provider: &dyn TimingProvider,
) -> Result<String, Error> {
    let here = sweep.evaluate_states(&[STATE]);
    let published_setting = published_setting(&result.spec);
    let scenario = dynosim::sweep_scenario(&published_setting, &[Mode::Disagg])?;
    let there = Sweep::new(&published_setting, scenario, provider)?.evaluate_states(&[STATE]);

    let mut text = String::from("\nWorth knowing\n");
    text.push_str(&explanation(result));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n{:<38}{:>9}{:>8}{:>10}{:>9}{:>9}",
        "", "tok/s", "reuse", "TTFT ms", "TPOT ms", "E2E ms"
    );
    line(&mut text, "published figures, about", &FIGURES);
    for record in &there {
        line(&mut text, "published state, published setting", &figures(record));
    }
    for record in &here {
        line(&mut text, "published state, this setting", &figures(record));
    }
    if let Some(best) = result.best() {
        let name = if best.feasible {
            "best state, this setting"
        } else {
            "closest state, this setting"
        };
        line(&mut text, name, &figures(best));
    }
    let _ = writeln!(text, "\nPublished state: {STATE}");
    for reason in here.iter().filter_map(|record| record.infeasible_reason.as_ref()) {
        let _ = writeln!(text, "It is not feasible in this setting: {reason}");
    }
    Ok(text)
}

/// The same sweep with more KV blocks than fit, and one prefix in place of all.
fn published_setting(spec: &ReplayOptimizeSpec) -> ReplayOptimizeSpec {
    let mut spec = spec.clone();
    let engine = &mut spec.engine;
    for args in [&mut engine.prefill_engine_args, &mut engine.decode_engine_args]
        .into_iter()
        .flatten()
    {
        args.num_gpu_blocks = Some(PINNED_BLOCKS);
    }
    if let WorkloadSpec::Synthetic(workload) = &mut spec.workload {
        workload.num_prefix_groups = 1;
    }
    spec
}

fn explanation(result: &OptimizationResult) -> String {
    let decode_at_tp_1 = result
        .kv_capacity
        .iter()
        .find(|capacity| capacity.role == WorkerRole::Decode && capacity.shape.tp == 1);
    let Some((capacity, fitting)) = decode_at_tp_1.and_then(|capacity| Some((capacity, capacity.blocks_estimated?)))
    else {
        return String::new();
    };
    let here = if capacity.blocks_used == fitting {
        "Here every worker has as many as fit; --num-gpu-blocks 20000 pins them.".to_owned()
    } else {
        format!(
            "Here every worker has {}, as --num-gpu-blocks says; without that, as many as fit.",
            capacity.blocks_used
        )
    };
    format!(
        "The published figures of this example were made with {PINNED_BLOCKS} KV blocks pinned for every worker,\n\
         {:.0} times what an H200 holds at tp 1 ({fitting}), and with one prefix where the workload has 50.\n\
         {here}\n",
        f64::from(PINNED_BLOCKS) / f64::from(fitting.max(1)),
    )
}

fn figures(record: &Record) -> [f64; METRICS.len()] {
    METRICS.map(|metric| record.metric(metric).unwrap_or(f64::NAN))
}

fn line(text: &mut String, name: &str, figures: &[f64; METRICS.len()]) {
    let [throughput, reuse, ttft, tpot, e2e] = figures;
    let _ = writeln!(
        text,
        "{name:<38}{throughput:>9.1}{reuse:>8.3}{ttft:>10.0}{tpot:>9.1}{e2e:>9.0}"
    );
}
