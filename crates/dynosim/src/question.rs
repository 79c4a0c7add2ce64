//! What was asked for, for people.

use dynosim_spec::{
    EngineSpec, PerRequestSla, ReplayOptimizeSpec, SyntheticLoad, SyntheticWorkload, TraceWorkload, WorkerRole,
    WorkloadSpec,
};
use dynosim_sweep::Mode;

/// What a sweep searches for, as two lines.
pub(crate) fn question(spec: &ReplayOptimizeSpec, modes: &[Mode]) -> String {
    let budget = spec.hardware.total_gpus.unwrap_or(0);
    let mut bounds: Vec<String> = spec
        .sla
        .active_bounds()
        .map(|bound| format!("{} {} ms", bound.name, bound.bound_ms))
        .collect();
    bounds.extend(spec.sla.per_request.as_ref().map(per_request));
    let bounds = if bounds.is_empty() {
        "no bounds".to_owned()
    } else {
        format!("bounds {}", bounds.join(", "))
    };
    format!(
        "{}, {}, on {}: {}\nObjective {}, {bounds}\n",
        spec.engine.model,
        modes.iter().map(Mode::to_string).collect::<Vec<_>>().join(" or "),
        gpu_range(spec.hardware.min_gpus, budget, &spec.hardware.system),
        load(&spec.workload),
        spec.objective,
    )
}

/// `each request ttft 500 ms and itl 50 ms`.
fn per_request(sla: &PerRequestSla) -> String {
    let bounds = [("ttft", sla.ttft), ("itl", sla.itl), ("e2eLatency", sla.e2e_latency)];
    let bounds = bounds
        .into_iter()
        .filter_map(|(name, bound)| Some(format!("{name} {} ms", bound?)));
    format!(
        "for goodput of each request {}",
        bounds.collect::<Vec<_>>().join(" and ")
    )
}

/// `at most 8 GPUs`, or `4 to 8 GPUs`.
fn gpu_range(least: Option<u32>, most: u32, system: &str) -> String {
    let most_gpus = gpus(u64::from(most), system);
    match least.filter(|&least| least > 1) {
        Some(least) if least == most => format!("exactly {most_gpus}"),
        Some(least) => format!("{least} to {most_gpus}"),
        None => format!("at most {most_gpus}"),
    }
}

/// A number of GPUs of a kind; the kind may be empty.
pub(crate) fn gpus(count: u64, system: &str) -> String {
    let noun = if count == 1 { "GPU" } else { "GPUs" };
    if system.is_empty() {
        format!("{count} {noun}")
    } else {
        format!("{count} {system} {noun}")
    }
}

/// Whether requests arrive at given times, however the deployment does.
pub(crate) fn is_open_loop(workload: &WorkloadSpec) -> bool {
    match workload {
        WorkloadSpec::Synthetic(workload) => !matches!(workload.load, SyntheticLoad::Concurrency(_)),
        WorkloadSpec::Trace(workload) => workload.trace_replay_concurrency.is_none(),
    }
}

/// What it takes to bring the KV cache of a prompt from a prefill to a decode worker.
pub fn kv_transfer(engine: &EngineSpec) -> String {
    let config = engine.config(WorkerRole::Prefill);
    match (config.kv_bytes_per_token, config.kv_transfer_bandwidth) {
        (Some(bytes), Some(gb_per_s)) => format!("{gb_per_s} GB/s, {bytes} bytes per token"),
        (None, None) => "free (kv_bytes_per_token and kv_transfer_bandwidth not given)".to_owned(),
        (None, Some(_)) => "free (kv_bytes_per_token not given)".to_owned(),
        (Some(_), None) => "free (kv_transfer_bandwidth not given)".to_owned(),
    }
}

/// How many requests of what size arrive, and when.
pub(crate) fn load(workload: &WorkloadSpec) -> String {
    match workload {
        WorkloadSpec::Synthetic(workload) => synthetic_load(workload),
        WorkloadSpec::Trace(workload) => trace_load(workload),
    }
}

fn synthetic_load(workload: &SyntheticWorkload) -> String {
    let SyntheticWorkload {
        isl,
        osl,
        request_count,
        turns_per_session,
        ..
    } = workload;
    let requests = match turns_per_session {
        1 => format!("{request_count} requests"),
        turns => format!("{request_count} sessions of {turns} requests"),
    };
    let arrivals = match workload.load {
        SyntheticLoad::Concurrency(concurrency) => format!("{concurrency} in flight"),
        SyntheticLoad::RequestRate(rate) => {
            format!("{rate} per second{}", speedup(workload.arrival_speedup_ratio))
        }
        SyntheticLoad::ArrivalIntervalMs(ms) => {
            format!("one every {ms} ms{}", speedup(workload.arrival_speedup_ratio))
        }
    };
    let shared = if workload.shared_prefix_ratio > 0.0 {
        format!(" ({:.0} % shared)", 100.0 * workload.shared_prefix_ratio)
    } else {
        String::new()
    };
    let (isl, osl) = (tokens(workload, *isl), tokens(workload, *osl));
    format!("{requests} of {isl} prompt{shared} and {osl} output tokens, {arrivals}")
}

/// A length, or the range of lengths up to this one.
fn tokens(workload: &SyntheticWorkload, most_tokens: u32) -> String {
    if workload.lengths_differ() {
        format!("{} to {most_tokens}", workload.least_tokens(most_tokens))
    } else {
        most_tokens.to_string()
    }
}

fn trace_load(workload: &TraceWorkload) -> String {
    let file = workload.trace_file.display();
    match workload.trace_replay_concurrency {
        Some(concurrency) => format!("requests of {file}, {concurrency} in flight"),
        None => format!(
            "requests of {file} at its times{}",
            speedup(workload.arrival_speedup_ratio)
        ),
    }
}

fn speedup(ratio: f64) -> String {
    // Written so that nothing is said about the usual case.
    if (ratio - 1.0).abs() < f64::EPSILON {
        String::new()
    } else {
        format!(", {ratio} times as fast")
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Backend, EngineArgs, HardwareSpec, SlaSpec};

    use super::*;

    #[track_caller]
    fn check(workload: &WorkloadSpec, expected: &str, open: bool) {
        assert_eq!((load(workload).as_str(), is_open_loop(workload)), (expected, open));
    }

    fn synthetic(load: SyntheticLoad) -> WorkloadSpec {
        WorkloadSpec::Synthetic(SyntheticWorkload::new(400, 20, 50, load))
    }

    #[test]
    fn loads_are_described() {
        check(
            &synthetic(SyntheticLoad::Concurrency(8)),
            "50 requests of 400 prompt and 20 output tokens, 8 in flight",
            false,
        );
        check(
            &synthetic(SyntheticLoad::RequestRate(2.5)),
            "50 requests of 400 prompt and 20 output tokens, 2.5 per second",
            true,
        );
        let sessions = SyntheticWorkload {
            shared_prefix_ratio: 0.5,
            turns_per_session: 3,
            arrival_speedup_ratio: 2.0,
            ..SyntheticWorkload::new(400, 20, 50, SyntheticLoad::ArrivalIntervalMs(10.0))
        };
        check(
            &WorkloadSpec::Synthetic(sessions),
            "50 sessions of 3 requests of 400 prompt (50 % shared) and 20 output tokens, one every 10 ms, 2 times as fast",
            true,
        );
        let drawn = SyntheticWorkload {
            length_range_ratio: 0.8,
            ..SyntheticWorkload::new(400, 21, 50, SyntheticLoad::Concurrency(8))
        };
        check(
            &WorkloadSpec::Synthetic(drawn),
            "50 requests of 320 to 400 prompt and 16 to 21 output tokens, 8 in flight",
            false,
        );
        let trace = TraceWorkload::new("t.jsonl");
        let closed = TraceWorkload {
            trace_replay_concurrency: Some(4),
            ..trace.clone()
        };
        check(&WorkloadSpec::Trace(trace), "requests of t.jsonl at its times", true);
        check(&WorkloadSpec::Trace(closed), "requests of t.jsonl, 4 in flight", false);
    }

    #[test]
    fn a_sweep_repeats_its_question() {
        let mut spec = ReplayOptimizeSpec::new(
            EngineSpec::new("m", Backend::Vllm),
            HardwareSpec::new("h200_sxm").with_budget(1),
            synthetic(SyntheticLoad::Concurrency(8)),
        );
        let first =
            "m, aggregated, on at most 1 h200_sxm GPU: 50 requests of 400 prompt and 20 output tokens, 8 in flight";
        assert_eq!(
            question(&spec, &[Mode::Agg]),
            format!("{first}\nObjective throughput, no bounds\n")
        );
        spec.sla = SlaSpec {
            ttft: Some(250.0),
            p95_e2e_latency: Some(9e3),
            ..SlaSpec::default()
        };
        let bounds = "bounds ttft 250 ms, p95E2eLatency 9000 ms";
        assert_eq!(
            question(&spec, &[Mode::Agg]),
            format!("{first}\nObjective throughput, {bounds}\n")
        );
    }

    #[test]
    fn transfers_are_free_unless_both_figures_are_given() {
        let mut engine = EngineSpec::new("m", Backend::Vllm);
        assert_eq!(
            kv_transfer(&engine),
            "free (kv_bytes_per_token and kv_transfer_bandwidth not given)"
        );
        engine.base_engine_args = EngineArgs {
            kv_bytes_per_token: Some(262_144),
            ..EngineArgs::default()
        };
        assert_eq!(kv_transfer(&engine), "free (kv_transfer_bandwidth not given)");
        engine.base_engine_args.kv_transfer_bandwidth = Some(25.0);
        assert_eq!(kv_transfer(&engine), "25 GB/s, 262144 bytes per token");
    }
}
