//! Commands and expectations, and what stands above them.

use serde_json::{Value, json};

use super::{Simulated, aggregated, closed_loop, exported, file, parts, run, value_of};
use crate::export::Target;

#[test]
fn engines_are_told_what_was_simulated() {
    let mut spec = run("vllm", aggregated(), closed_loop());
    spec["engine"]["model"] = "nvidia/Llama-3.3-70B-Instruct-FP8".into();
    spec["engine"]["baseEngineArgs"] = json!({
        "num_gpu_blocks": 4000, "block_size": 64, "max_num_seqs": 33, "max_num_batched_tokens": 4444,
        "enable_prefix_caching": false, "enable_chunked_prefill": false, "preemption_mode": "fifo", "speedup_ratio": 2,
    });
    let handoff = exported(&spec, &Target::default());
    let serve = file(&handoff, "serve.sh");
    for part in [
        "--block-size 64",
        "--max-num-seqs 33",
        "--max-num-batched-tokens 4444",
        "--no-enable-prefix-caching",
        "--no-enable-chunked-prefill",
        "--kv-cache-dtype fp8",
        "--gpu-memory-utilization 0.9",
        "--max-model-len 666",
        "CUDA_VISIBLE_DEVICES=4,5 ",
    ] {
        assert!(serve.contains(part), "no {part} in {serve}");
    }
    for part in ["preemption_mode fifo", "speedup_ratio 2 "] {
        assert!(
            handoff.warnings.iter().any(|warning| warning.contains(part)),
            "{:?}",
            handoff.warnings
        );
        assert!(
            ["dgd.yaml", "serve.sh", "bench.sh"]
                .iter()
                .all(|name| file(&handoff, name).contains(part))
        );
    }
    let (_, pools) = parts(&serde_saphyr::from_str(file(&handoff, "dgd.yaml")).expect("YAML"));
    assert_eq!(
        value_of(&pools[0].args, "--kv-events-config"),
        None,
        "nothing is cached"
    );

    let mut spec = run("sglang", aggregated(), closed_loop());
    spec["engine"]["baseEngineArgs"] = json!({
        "sglang": { "page_size": 16, "schedule_policy": "lpm", "max_prefill_tokens": 9000, "chunked_prefill_size": 4096 },
        "num_gpu_blocks": 4000,
    });
    let handoff = exported(&spec, &Target::default());
    for part in [
        "--schedule-policy lpm",
        "--max-prefill-tokens 9000",
        "--chunked-prefill-size 4096",
        "--max-running-requests 4 ",
    ] {
        assert!(file(&handoff, "serve.sh").contains(part), "no {part}");
    }
    let (env, _) = parts(&serde_saphyr::from_str(file(&handoff, "dgd.yaml")).expect("YAML"));
    let threshold: f64 = env["DYN_ROUTER_QUEUE_THRESHOLD"].parse().expect("a number");
    assert!(
        (threshold - 4.0 * 8192.0 / 9000.0).abs() < 1e-9,
        "it counts prefill batches there"
    );
}

#[test]
fn what_no_engine_can_be_told_is_refused() {
    let mut spec = run("vllm", aggregated(), closed_loop());
    spec["engine"]["baseEngineArgs"]["max_num_batched_tokens"] = Value::Null;
    let error = Simulated::new(&spec)
        .hand_off(&Target::default())
        .expect_err("unlimited")
        .to_string();
    assert!(error.contains("max_num_batched_tokens is unlimited"), "{error}");
    let spec = run("vllm", json!({ "workers": 1, "tp": 12 }), closed_loop());
    let error = Simulated::new(&spec)
        .hand_off(&Target::default())
        .expect_err("a node and a half")
        .to_string();
    assert!(error.contains("12 GPUs does not fill nodes of 8"), "{error}");
}

#[test]
fn workers_may_span_nodes_and_fill_several() {
    let mut spec = run("vllm", json!({ "workers": 1, "tp": 16 }), closed_loop());
    spec["engine"]["model"] = "some-model".into();
    let handoff = exported(&spec, &Target::default());
    let whole: Value = serde_saphyr::from_str(file(&handoff, "dgd.yaml")).expect("YAML");
    let worker = &whole["spec"]["components"][1];
    assert_eq!(worker["multinode"]["nodeCount"], 2);
    assert_eq!(parts(&whole).1[0].gpus, "8");
    assert!(file(&handoff, "serve.sh").contains("exit 1"));
    assert!(
        handoff
            .warnings
            .iter()
            .any(|warning| warning.contains("some-model is not a name"))
    );

    let handoff = exported(
        &run("vllm", json!({ "workers": 5, "tp": 2 }), closed_loop()),
        &Target::default(),
    );
    let serve = file(&handoff, "serve.sh");
    assert!(
        serve.contains("if ((NODE == 1)); then\n    CUDA_VISIBLE_DEVICES=0,1 vllm serve"),
        "{serve}"
    );
    assert!(serve.contains("http://${HOSTS[1]}:8104"), "{serve}");
}

#[track_caller]
fn check_bench(workload: Value, default: &str, options: &[&str]) {
    let handoff = exported(&run("vllm", aggregated(), workload), &Target::default());
    let bench = file(&handoff, "bench.sh");
    assert!(bench.contains(&format!("FORM=${{1:-{default}}}")), "{bench}");
    for option in options {
        assert!(bench.contains(option), "no {option} in {bench}");
    }
}

#[test]
fn loads_are_asked_for_as_simulated() {
    check_bench(
        closed_loop(),
        "drawn",
        &[
            "--isl 400 --isl-stddev 0 --osl 10 --osl-stddev 0",
            "--concurrency 4\n",
            "--request-count 20 --num-dataset-entries 20",
            "--dataset-name random --random-input-len 400",
            "#       --max-concurrency 4 --num-prompts 20",
        ],
    );
    check_bench(
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "requestRate": 4, "arrivalSpeedupRatio": 2 }),
        "replay",
        &[
            "--request-rate 8 --arrival-pattern poisson",
            "--fixed-schedule --fixed-schedule-auto-offset",
        ],
    );
    check_bench(
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "arrivalIntervalMs": 50 }),
        "drawn",
        &["--request-rate 20 --arrival-pattern constant"],
    );
    // Half of 25 blocks, rounded: 13 of 16 tokens.
    check_bench(
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4, "sharedPrefixRatio": 0.5, "numPrefixGroups": 3 }),
        "replay",
        &[
            "--isl 192 ",
            "--num-prefix-prompts 3 --prefix-prompt-length 208",
            "--isl-block-size 208",
        ],
    );
    for inexpressible in [
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4, "lengthRangeRatio": 0.5 }),
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4, "turnsPerSession": 2 }),
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "arrivalIntervalMs": 0 }),
        json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4, "sharedPrefixRatio": 1, "numPrefixGroups": 3 }),
    ] {
        check_bench(inexpressible, "replay", &["the form must be replay,"]);
    }
}

#[test]
fn expectations_have_the_names_of_aiperf() {
    let simulated = Simulated::new(&run("vllm", aggregated(), closed_loop()));
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    let expected: Value = serde_json::from_str(file(&handoff, "expected.json")).expect("JSON");
    let report = &simulated.outcome.report;
    assert_eq!(expected["time_to_first_token"]["avg"], json!(report.ttft.mean));
    assert_eq!(expected["inter_token_latency"]["p95"], json!(report.tpot.p95));
    assert_eq!(expected["request_latency"]["p50"], json!(report.e2e_latency.median));
    assert_eq!(
        expected["output_token_throughput"]["avg"],
        json!(report.output_throughput_tok_s())
    );
    assert_eq!(expected["request_throughput"]["unit"], "requests/sec");
    assert_eq!(expected["simulation"]["model"], "Qwen/Qwen3-8B");
    assert!(
        expected["simulation"]["error_band"]
            .as_str()
            .expect("a text")
            .starts_with("none")
    );
    assert_eq!(expected["simulation"]["not_the_same"], json!(handoff.warnings));
}
