//! Mistakes that concern a document as a whole, and every object but engine and workload.

use serde_json::json;

use super::{changed, check_run, check_sweep, run_document, set, without};
use crate::error::SpecError;
use crate::spec::RunSpec;

#[test]
fn a_text_that_is_not_json_is_located() {
    let check = |text: &str, expected: &str| {
        let error = RunSpec::from_json(text).expect_err("the text is not JSON");
        assert!(matches!(error, SpecError::Syntax { .. }));
        assert_eq!(error.to_string(), expected);
    };
    check(
        "{\n  \"engine\" {}}",
        "not valid JSON at line 2, column 12: expected `:`",
    );
    check(
        "{\"seed\": 1e999}",
        "not valid JSON at line 1, column 14: number out of range",
    );
    check("{} {}", "not valid JSON at line 1, column 4: trailing characters");
    check("", "not valid JSON at line 1, column 0: EOF while parsing a value");
}

#[test]
fn a_document_is_an_object() {
    let error = RunSpec::from_json("[1]").expect_err("a list is no document");
    assert_eq!(error.to_string(), "invalid spec: must be an object, got [1]");
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let text = changed(
        run_document(),
        &[
            set("engine.baseEngineArgs.max_num_seqs", json!(0)),
            set("workload.isl", json!("long")),
            set("topologie", json!({})),
            without("hardware"),
        ],
    );
    let error = RunSpec::from_json(&text).expect_err("there are mistakes");
    assert_eq!(
        error.to_string(),
        "invalid spec, 4 mistakes:\n  \
         engine.baseEngineArgs.max_num_seqs: must be a whole number of at least 1 or null, got 0\n  \
         hardware: is missing; must be an object\n  \
         workload.isl: must be a whole number of at least 1, got \"long\"\n  \
         topologie: unknown key, did you mean `topology`?"
    );
}

#[test]
fn repeated_keys_are_mistakes() {
    let text = run_document().to_string().replace("\"tp\":1", "\"tp\":1,\"tp\":2");
    assert_eq!(
        super::mistakes(RunSpec::from_json(&text)),
        ["topology.tp: is given more than once"]
    );
}

#[test]
fn required_objects_are_missed() {
    for key in ["engine", "hardware", "topology", "workload"] {
        check_run(&[without(key)], &[&format!("{key}: is missing; must be an object")]);
        check_run(
            &[set(key, json!(null))],
            &[&format!("{key}: is missing; must be an object")],
        );
        check_run(&[set(key, json!([]))], &[&format!("{key}: must be an object, got []")]);
    }
    check_run(
        &[set("router", json!("kv_router"))],
        &["router: must be an object, got \"kv_router\""],
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let long = "x".repeat(100);
    let shown = format!(
        "seed: must be a whole number of at least 0, got \"{}...",
        "x".repeat(59)
    );
    check_run(&[set("seed", json!(long))], &[&shown]);
}

#[test]
fn hardware() {
    check_run(
        &[without("hardware.system")],
        &["hardware.system: is missing; must be a text that is not empty"],
    );
    check_run(
        &[set("hardware.gpuSku", json!("h200_sxm"))],
        &["hardware.gpuSku: is another name of `system`, which is given too"],
    );
    check_run(
        &[without("hardware.system"), set("hardware.gpuSku", json!(""))],
        &["hardware.gpuSku: must be a text that is not empty, got \"\""],
    );
    check_sweep(
        &[without("hardware.totalGpus")],
        &["hardware.totalGpus: is missing; must be a whole number of at least 1"],
    );
    check_sweep(
        &[
            set("hardware.minGpus", json!(17)),
            set("hardware.gpuHourPrice", json!(0)),
        ],
        &[
            "hardware.gpuHourPrice: must be a number above 0, got 0",
            "hardware.minGpus: must be at most totalGpus, which is 16, got 17",
        ],
    );
    check_sweep(
        &[set("hardware.totalGpus", json!(0))],
        &["hardware.totalGpus: must be a whole number of at least 1, got 0"],
    );
}

#[test]
fn topology() {
    check_run(
        &[without("topology.tp")],
        &["topology.tp: is missing; must be a whole number from 1 to 65536"],
    );
    check_run(
        &[set(
            "topology",
            json!({"prefillWorkers": 1, "decodeWorkers": 0, "prefillTp": 1.5}),
        )],
        &[
            "topology.decodeWorkers: must be a whole number from 1 to 65536, got 0",
            "topology.prefillTp: must be a whole number from 1 to 65536, got 1.5",
            "topology.decodeTp: is missing; must be a whole number from 1 to 65536",
        ],
    );
    check_run(
        &[set("topology.decodeTp", json!(1))],
        &[
            "topology: needs either workers and tp or prefillWorkers, decodeWorkers, prefillTp, decodeTp, \
             got both workers and decodeTp",
        ],
    );
    check_run(
        &[set(
            "topology",
            json!({"workers": 1, "tp": 2, "attentionDp": 2, "moeTp": 1, "moeEp": 2}),
        )],
        &[
            "topology.tp: tp 2 times attention_dp 2 is 4, which must equal moe_tp times moe_ep; moe_tp 1 with moe_ep 2 \
             cannot do that",
        ],
    );
    check_run(
        &[set(
            "topology",
            json!({"prefillWorkers": 1, "decodeWorkers": 1, "prefillTp": 4, "decodeTp": 1,
                   "prefillMoeTp": 3, "decodeMoeEp": 0}),
        )],
        &[
            "topology.prefillTp: tp 4 times attention_dp 1 is 4, which must equal moe_tp times moe_ep; moe_tp 3 cannot \
             do that",
            "topology.decodeMoeEp: must be a whole number from 1 to 65536, got 0",
        ],
    );
    check_run(
        &[set("topology.decodeMoeEp", json!(1))],
        &[
            "topology: needs either workers and tp or prefillWorkers, decodeWorkers, prefillTp, decodeTp, \
             got both workers and decodeMoeEp",
        ],
    );
    check_sweep(
        &[set("topology", json!({}))],
        &["topology: unknown key; a sweep searches for it; a single run needs it"],
    );
}

#[test]
fn run_router() {
    check_run(
        &[
            set("router.mode", json!("both")),
            set("router.overlapScoreCredit", json!(1.5)),
            set("router.prefillLoadScale", json!(-1)),
            set("router.seed", json!(-1)),
        ],
        &[
            "router.mode: must be round_robin or kv_router, got \"both\"",
            "router.overlapScoreCredit: must be a number from 0 to 1, got 1.5",
            "router.prefillLoadScale: must be a number of at least 0, got -1",
            "router.seed: must be a whole number of at least 0, got -1",
        ],
    );
    check_run(
        &[set("router.overlapCredits", json!([1]))],
        &["router.overlapCredits: unknown key, did you mean `overlapScoreCredit`?"],
    );
}

#[test]
fn kv_router_config() {
    check_run(
        &[set(
            "router.baseConfig",
            json!({
                "overlap_score_credit": 2,
                "prefill_load_scale": -0.5,
                "router_temperature": -1,
                "router_queue_threshold": -4,
                "router_queue_policy": "lifo",
                "router_track_active_blocks": 1,
                "router_prefill_load_model": "aic",
                "router_temprature": 0
            }),
        )],
        &[
            "router.baseConfig.overlap_score_credit: must be a number from 0 to 1, got 2",
            "router.baseConfig.prefill_load_scale: must be a number of at least 0, got -0.5",
            "router.baseConfig.router_temperature: must be a number of at least 0, got -1",
            "router.baseConfig.router_queue_threshold: must be a number of at least 0 or null, got -4",
            "router.baseConfig.router_queue_policy: must be fcfs, lcfs or wspt, got \"lifo\"",
            "router.baseConfig.router_track_active_blocks: must be true or false, got 1",
            "router.baseConfig.router_prefill_load_model: only none is supported, got \"aic\"",
            "router.baseConfig.router_temprature: unknown key, did you mean `router_temperature`?",
        ],
    );
    check_run(
        &[
            set("router.baseConfig", json!({})),
            set("router.baseRouterConfig", json!({})),
        ],
        &["router.baseRouterConfig: is another name of `baseConfig`, which is given too"],
    );
}

#[test]
fn sweep_router() {
    check_sweep(
        &[
            set("router.mode", json!("kv")),
            set("router.overlapCredits", json!([1, 1.5, "a"])),
            set("router.prefillLoadScales", json!([])),
        ],
        &[
            "router.mode: must be kv_router, round_robin or both, got \"kv\"",
            "router.overlapCredits[1]: must be a number from 0 to 1, got 1.5",
            "router.overlapCredits[2]: must be a number from 0 to 1, got \"a\"",
            "router.prefillLoadScales: must have at least one item",
        ],
    );
    check_sweep(
        &[set("router.overlapCredits", json!(1))],
        &["router.overlapCredits: must be a list, got 1"],
    );
}

#[test]
fn the_rest_of_a_sweep() {
    check_sweep(
        &[
            set("sla.ttft", json!("fast")),
            set("sla.p95TTFT", json!(1)),
            set("objective", json!("latency")),
            set("maxParallelEvals", json!(0)),
            set("search.beam", json!(0)),
            set("search.stopHopeless", json!("no")),
            set("search.stopHopless", json!(true)),
            set("seed", json!(0.5)),
        ],
        &[
            "sla.ttft: must be a number, got \"fast\"",
            "sla.p95TTFT: unknown key, did you mean `p95Ttft`?",
            "objective: must be throughput, throughput_per_gpu, goodput, mean_ttft, mean_e2e_latency, p99_ttft, p99_itl, \
             p99_e2e_latency, min_gpus or cost, got \"latency\"",
            "maxParallelEvals: must be a whole number of at least 1, got 0",
            "search.beam: must be a whole number of at least 1, got 0",
            "search.stopHopeless: must be true or false, got \"no\"",
            "search.stopHopless: unknown key, did you mean `stopHopeless`?",
            "seed: must be a whole number of at least 0, got 0.5",
        ],
    );
}

#[test]
fn what_belongs_to_a_sweep_is_no_part_of_a_run() {
    check_run(
        &[
            set("sla", json!({})),
            set("timing.provider", json!("aic")),
            set("timing.repair", json!("yes")),
        ],
        &[
            "timing.provider: must be table, roofline or polynomial, got \"aic\"",
            "timing.repair: must be true or false, got \"yes\"",
            "sla: unknown key; it belongs to a sweep, and this is a single run",
        ],
    );
}

#[test]
fn bounds_on_tpot_have_another_name() {
    check_sweep(
        &[set("sla", json!({"tpot": 30, "p95Tpot": 40}))],
        &[
            "sla.tpot: unknown key; `itl` bounds the mean TPOT",
            "sla.p95Tpot: unknown key; `p95Itl` bounds the 95th percentile of TPOT",
        ],
    );
}

#[test]
fn objectives_need_what_they_are_about() {
    check_sweep(
        &[set("objective", json!("goodput"))],
        &["sla.perRequest: is missing; objective goodput counts the requests that meet it"],
    );
    check_sweep(
        &[set("objective", json!("cost"))],
        &["hardware.gpuHourPrice: is missing; objective cost needs it"],
    );
    check_sweep(
        &[set("sla", json!({ "perRequest": {} }))],
        &["sla.perRequest: needs at least one of ttft, itl, e2eLatency"],
    );
}

#[test]
fn fronts_are_between_two_or_three_metrics() {
    check_sweep(
        &[set("pareto", json!(["mean_ttft_ms"]))],
        &["pareto: must name two or three metrics, got 1"],
    );
    check_sweep(
        &[set("pareto", json!(["mean_ttft_ms", "mean_tpot_ms", "mean_ttft_ms"]))],
        &["pareto: names mean_ttft_ms twice"],
    );
}

#[test]
fn axes_of_engine_arguments() {
    check_sweep(
        &[set(
            "search",
            json!({ "engineArgs": { "max_num_seqs": [64, null, 64], "block_size": [0], "max_num_token": [1] } }),
        )],
        &[
            "search.engineArgs.block_size[0]: must be a whole number of at least 1, got 0",
            "search.engineArgs.max_num_seqs: has a value twice",
            "search.engineArgs.max_num_token: unknown key, did you mean `max_num_seqs`?",
        ],
    );
    check_sweep(
        &[
            set("engine.backend", json!("sglang")),
            set("search", json!({ "engineArgs": { "max_num_seqs": [64, 128] } })),
        ],
        &["search.engineArgs.max_num_seqs: makes no difference to the SGLang-style scheduler; leave it out"],
    );
}
