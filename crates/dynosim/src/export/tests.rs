//! What is handed off: manifests, scripts, and the requests.

use std::collections::HashMap;
use std::path::Path;

use dynosim_spec::{RunSpec, TraceWorkload, Workload, read_trace};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ApiVersion, ExportError, Handoff, Target, hand_off};
use crate::{Outcome, Run};

/// A run of a model that needs no tables.
fn run(backend: &str, topology: Value, workload: Value) -> Value {
    json!({
        "engine": { "model": "Qwen/Qwen3-8B", "backend": backend, "baseEngineArgs": { "num_gpu_blocks": 4000, "block_size": 16 } },
        "hardware": { "system": "h200_sxm" },
        "topology": topology,
        "workload": workload,
        "router": { "mode": "kv_router" },
        "timing": { "provider": "polynomial" },
    })
}

fn aggregated() -> Value {
    json!({ "workers": 3, "tp": 2 })
}

fn disaggregated() -> Value {
    json!({ "prefillWorkers": 3, "prefillTp": 2, "decodeWorkers": 1, "decodeTp": 4 })
}

fn closed_loop() -> Value {
    json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4 })
}

struct Simulated {
    spec: RunSpec,
    workload: Workload,
    outcome: Outcome,
}

impl Simulated {
    fn new(spec: &Value) -> Self {
        let spec = RunSpec::from_json(&spec.to_string()).expect("a spec").value;
        let role = spec.topology.pools()[0].role;
        let workload = Workload::load(&spec.workload, spec.engine.config(role).block_size).expect("a workload");
        let outcome = Run::new(&spec).workload(workload.clone()).simulate().expect("runs");
        Self {
            spec,
            workload,
            outcome,
        }
    }

    fn hand_off(&self, target: &Target) -> Result<Handoff, ExportError> {
        hand_off(&self.spec, &self.workload, &self.outcome, target)
    }
}

fn exported(spec: &Value, target: &Target) -> Handoff {
    Simulated::new(spec).hand_off(target).expect("can be handed off")
}

fn file<'a>(handoff: &'a Handoff, name: &str) -> &'a str {
    &handoff.files.iter().find(|file| file.name == name).expect("there").text
}

fn dynamo(version: &str) -> Target {
    Target::new(version.parse().expect("known"), None).expect("possible")
}

fn manifest(spec: &Value, target: &Target) -> Value {
    serde_saphyr::from_str(file(&exported(spec, target), "dgd.yaml")).expect("YAML")
}

/// A pool of either schema, reduced to what both must say.
#[derive(Debug, PartialEq)]
struct Pool {
    role: String,
    replicas: u64,
    gpus: String,
    command: Vec<String>,
    args: Vec<String>,
    image: String,
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|text| text.as_str().expect("all are texts").to_owned())
        .collect()
}

/// Environment of the frontend, and the pools.
fn parts(manifest: &Value) -> (HashMap<String, String>, Vec<Pool>) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let env = |list: &Value| -> HashMap<String, String> {
        let variables = list.as_array().expect("a list").iter();
        variables
            .map(|variable| (text(&variable["name"]), text(&variable["value"])))
            .collect()
    };
    let mut pools = Vec::new();
    if manifest["apiVersion"] == "nvidia.com/v1beta1" {
        let components = manifest["spec"]["components"].as_array().expect("a list");
        let main = |component: &Value| component["podTemplate"]["spec"]["containers"][0].clone();
        for component in &components[1..] {
            let main = main(component);
            assert_eq!(main["name"], "main");
            assert_eq!(main["resources"]["requests"]["ephemeral-storage"], "2Gi");
            pools.push(Pool {
                role: text(&component["type"]),
                replicas: component["replicas"].as_u64().expect("a number"),
                gpus: text(&main["resources"]["limits"]["nvidia.com/gpu"]),
                command: texts(&main["command"]),
                args: texts(&main["args"]),
                image: text(&main["image"]),
            });
        }
        assert_eq!(
            (&components[0]["type"], &components[0]["replicas"]),
            (&json!("frontend"), &json!(1))
        );
        assert!(main(&components[0])["image"].is_string());
        return (env(&main(&components[0])["env"]), pools);
    }
    assert_eq!(manifest["apiVersion"], "nvidia.com/v1alpha1");
    let services = manifest["spec"]["services"].as_object().expect("a map");
    for (name, service) in services {
        let main = &service["extraPodSpec"]["mainContainer"];
        if name == "Frontend" {
            assert_eq!(
                (&service["componentType"], &service["replicas"]),
                (&json!("frontend"), &json!(1))
            );
            assert!(main["image"].is_string());
            continue;
        }
        assert_eq!(service["componentType"], "worker");
        pools.push(Pool {
            role: service.get("subComponentType").map_or("worker".to_owned(), text),
            replicas: service["replicas"].as_u64().expect("a number"),
            gpus: text(&service["resources"]["limits"]["gpu"]),
            command: texts(&main["command"]),
            args: texts(&main["args"]),
            image: text(&main["image"]),
        });
    }
    (env(&services["Frontend"]["envs"]), pools)
}

fn value_of<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == flag)?;
    args.get(at + 1).map(String::as_str)
}

#[test]
fn manifests_have_all_required_fields() {
    for backend in ["vllm", "sglang"] {
        for api in [ApiVersion::V1alpha1, ApiVersion::V1beta1] {
            let target = Target::new("1.6.1".parse().expect("known"), Some(api)).expect("possible");
            let target = target
                .named("qwen")
                .and_then(|target| target.in_namespace("lab"))
                .expect("names");
            let whole = manifest(&run(backend, disaggregated(), closed_loop()), &target);
            assert_eq!(whole["kind"], "DynamoGraphDeployment");
            assert_eq!(whole["metadata"], json!({ "name": "qwen", "namespace": "lab" }));
            assert_eq!(whole["spec"]["backendFramework"], backend);
            assert_eq!(whole["spec"].get("restart"), None);
            let (env, pools) = parts(&whole);
            assert_eq!(
                (env["DYN_ROUTER_MODE"].as_str(), env["DYN_KV_CACHE_BLOCK_SIZE"].as_str()),
                ("kv", "16")
            );
            let shapes: Vec<_> = pools
                .iter()
                .map(|pool| (pool.role.as_str(), pool.replicas, pool.gpus.as_str()))
                .collect();
            assert_eq!(shapes, [("prefill", 3, "2"), ("decode", 1, "4")]);
            for pool in &pools {
                assert_eq!(pool.command, ["python3", "-m", &format!("dynamo.{backend}")]);
                assert_eq!(pool.image, format!("nvcr.io/nvidia/ai-dynamo/{backend}-runtime:1.6.1"));
                assert_eq!(value_of(&pool.args, "--served-model-name"), Some("Qwen/Qwen3-8B"));
                assert_eq!(value_of(&pool.args, "--disaggregation-mode"), Some(pool.role.as_str()));
                let events = value_of(&pool.args, "--kv-events-config");
                assert_eq!(
                    events.is_some(),
                    pool.role == "prefill",
                    "decode workers publish nothing"
                );
                let [tp, block, limit] = match backend {
                    "vllm" => ["--tensor-parallel-size", "--block-size", "--num-gpu-blocks-override"],
                    _ => ["--tp-size", "--page-size", "--max-total-tokens"],
                };
                assert_eq!(value_of(&pool.args, tp), Some(pool.gpus.as_str()));
                assert_eq!(value_of(&pool.args, block), Some("16"));
                assert_eq!(
                    value_of(&pool.args, limit),
                    Some(if backend == "vllm" { "4000" } else { "64000" })
                );
                if backend == "vllm" {
                    let transfer: Value =
                        serde_json::from_str(value_of(&pool.args, "--kv-transfer-config").expect("given"))
                            .expect("JSON");
                    assert_eq!(
                        transfer,
                        json!({ "kv_connector": "NixlConnector", "kv_role": "kv_both" })
                    );
                } else {
                    assert_eq!(value_of(&pool.args, "--disaggregation-transfer-backend"), Some("nixl"));
                }
            }

            let (_, pools) = parts(&manifest(&run(backend, aggregated(), closed_loop()), &target));
            let shapes: Vec<_> = pools
                .iter()
                .map(|pool| (pool.role.as_str(), pool.replicas, pool.gpus.as_str()))
                .collect();
            assert_eq!(shapes, [("worker", 3, "2")]);
            assert_eq!(value_of(&pools[0].args, "--kv-transfer-config"), None);
            assert_eq!(value_of(&pools[0].args, "--disaggregation-mode"), None);
            assert!(value_of(&pools[0].args, "--kv-events-config").is_some_and(|events| events.contains("zmq")));
        }
    }
}

#[track_caller]
fn check_env(version: &str, router: Value, expected: &[(&str, &str)], warning: Option<&str>) {
    let mut spec = run("vllm", aggregated(), closed_loop());
    spec["router"] = router;
    let handoff = exported(&spec, &dynamo(version));
    let (env, _) = parts(&serde_saphyr::from_str(file(&handoff, "dgd.yaml")).expect("YAML"));
    for (name, value) in expected {
        let found = env.get(*name).map_or("absent", String::as_str);
        assert_eq!(found, *value, "{name} of {version}");
    }
    if let Some(warning) = warning {
        assert!(
            handoff.warnings.iter().any(|found| found.contains(warning)),
            "{:?}",
            handoff.warnings
        );
        assert!(file(&handoff, "dgd.yaml").contains(warning), "it is a comment, too");
    }
}

#[test]
fn routers_are_asked_for_as_each_version_knows() {
    let half = json!({ "mode": "kv_router", "overlapScoreCredit": 0.5, "prefillLoadScale": 2 });
    let [credit, scale] = ["DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "DYN_ROUTER_PREFILL_LOAD_SCALE"];
    let [threshold, policy] = ["DYN_ROUTER_QUEUE_THRESHOLD", "DYN_ROUTER_QUEUE_POLICY"];
    check_env(
        "1.6.1",
        half.clone(),
        &[(credit, "0.5"), (scale, "2"), (threshold, "4"), (policy, "fcfs")],
        Some("gone in 1.7"),
    );
    check_env(
        "1.2.1",
        half.clone(),
        &[(credit, "0.5"), (scale, "2"), (threshold, "4")],
        None,
    );
    let weight = "DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT";
    check_env(
        "1.1.1",
        half.clone(),
        &[(weight, "2"), (credit, "absent"), (policy, "fcfs")],
        Some("has no overlap_score_credit"),
    );
    check_env(
        "1.0.2",
        half.clone(),
        &[(weight, "2"), (threshold, "4"), (policy, "absent")],
        None,
    );
    let old = [
        ("DYN_KV_OVERLAP_SCORE_WEIGHT", "2"),
        (weight, "absent"),
        (threshold, "absent"),
    ];
    check_env("0.9.1", half, &old, Some("never queues"));

    let mut base = json!({ "mode": "kv_router", "baseConfig": { "router_queue_threshold": null } });
    check_env("1.6.1", base.clone(), &[(threshold, "absent")], None);
    check_env("1.3.1", base.clone(), &[(threshold, "1000000")], None);
    base["baseConfig"] = json!({ "router_queue_policy": "lcfs", "router_assume_kv_reuse": false });
    let lcfs = [
        (policy, "absent"),
        ("DYN_ROUTER_ASSUME_KV_REUSE", "false"),
        ("DYN_ROUTER_TRACK_ACTIVE_BLOCKS", "absent"),
    ];
    check_env("1.6.1", base, &lcfs, Some("no queue policy lcfs"));
    check_env(
        "1.6.1",
        json!({ "mode": "round_robin" }),
        &[("DYN_ROUTER_MODE", "round-robin"), (scale, "absent")],
        None,
    );
}

#[test]
fn roles_are_told_as_each_version_knows() {
    let args = |version: &str| -> Vec<Vec<String>> {
        let (_, pools) = parts(&manifest(
            &run("vllm", disaggregated(), closed_loop()),
            &dynamo(version),
        ));
        pools.into_iter().map(|pool| pool.args).collect()
    };
    let has = |args: &[String], flag: &str| args.iter().any(|arg| arg == flag);
    let [prefill, decode] = <[_; 2]>::try_from(args("0.9.1")).expect("two pools");
    assert!(has(&prefill, "--is-prefill-worker") && has(&decode, "--is-decode-worker"));
    assert_eq!(value_of(&prefill, "--connector"), Some("nixl"));
    assert!(!has(&prefill, "--kv-events-config") && !has(&prefill, "--kv-transfer-config"));
    let [_, decode] = <[_; 2]>::try_from(args("0.6.0")).expect("two pools");
    assert!(!has(&decode, "--is-decode-worker"), "it came with 0.7");
    let [prefill, _] = <[_; 2]>::try_from(args("1.0.2")).expect("two pools");
    assert!(
        has(&prefill, "--kv-events-config") && has(&prefill, "--disaggregation-mode") && !has(&prefill, "--connector")
    );
}

#[test]
fn images_that_do_not_name_their_version_are_told_it() {
    let component = |version: &str, image: &str| {
        let whole = manifest(
            &run("vllm", aggregated(), closed_loop()),
            &dynamo(version).with_image(image),
        );
        whole["spec"]["components"][1].clone()
    };
    assert_eq!(component("1.6.1", "mine:latest")["runtimeVersionOverride"], "1.6.1");
    assert_eq!(component("1.6.1", "mine:1.6.1").get("runtimeVersionOverride"), None);
    assert_eq!(component("1.4.2", "mine:latest").get("runtimeVersionOverride"), None);
}

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

/// The exported requests, read again, and tokens per id.
fn read_again(simulated: &Simulated) -> (Workload, u32) {
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    let bench = file(&handoff, "bench.sh");
    let number = |option: &str| -> Option<u32> {
        let (_, rest) = bench.split_once(option)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let replay_concurrency = bench.split_once("replay)").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once(";;").map_or(("", rest), |(case, _)| ("", case));
        rest.split_once("--concurrency ")?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let block_tokens = number("--isl-block-size ").expect("given");
    let trace = TraceWorkload {
        trace_block_size: block_tokens,
        trace_replay_concurrency: replay_concurrency,
        ..TraceWorkload::new("trace.jsonl")
    };
    let workload = read_trace(file(&handoff, "trace.jsonl").as_bytes(), "trace.jsonl", &trace).expect("a trace");
    one_size_for_each_id(file(&handoff, "trace.jsonl"), block_tokens);
    (workload, block_tokens)
}

/// AIPerf's rule for `hash_ids`.
fn one_size_for_each_id(trace: &str, block_tokens: u32) {
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    for line in trace.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let mut left = row["input_length"].as_u64().expect("a number");
        for id in row["hash_ids"].as_array().expect("a list") {
            let size = left.min(u64::from(block_tokens));
            left -= size;
            assert!(size > 0, "more ids than blocks: {line}");
            let known = sizes.insert(id.as_u64().expect("a number"), size).unwrap_or(size);
            assert_eq!(known, size, "an id has two sizes: {line}");
        }
        assert_eq!(left, 0, "{line}");
    }
}

#[track_caller]
fn check_replay(spec: &Value) {
    let simulated = Simulated::new(spec);
    let (workload, _) = read_again(&simulated);
    let again = Run::new(&simulated.spec).workload(workload).simulate().expect("runs");
    assert_eq!(again.report.metrics(), simulated.outcome.report.metrics());
}

#[test]
fn replayed_traces_come_out_the_same() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/sample_trace.jsonl");
    let trace = json!({ "traceFile": sample, "arrivalSpeedupRatio": 2 });
    check_replay(&run("vllm", aggregated(), trace.clone()));
    check_replay(&run("vllm", disaggregated(), closed_loop()));
    check_replay(&run("sglang", disaggregated(), trace));
    check_replay(&run(
        "vllm",
        disaggregated(),
        json!({ "traceFile": sample, "traceReplayConcurrency": 7 }),
    ));
}

#[test]
fn blocks_become_smaller_where_prompts_cut_them_off() {
    let workload = json!({
        "isl": 400, "osl": 10, "requestCount": 40, "concurrency": 4,
        "sharedPrefixRatio": 0.75, "numPrefixGroups": 2, "lengthRangeRatio": 0.25,
    });
    let (_, block_tokens) = read_again(&Simulated::new(&run("vllm", aggregated(), workload.clone())));
    assert_eq!(block_tokens, 16);
    check_replay(&run("vllm", aggregated(), workload));
}

#[test]
fn turns_become_rows_at_their_simulated_times() {
    let workload = json!({
        "isl": 400, "osl": 10, "requestCount": 6, "requestRate": 2, "turnsPerSession": 3, "interTurnDelayMs": 500,
        "sharedPrefixRatio": 0.5, "numPrefixGroups": 2,
    });
    let simulated = Simulated::new(&run("vllm", aggregated(), workload));
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    assert!(
        handoff
            .warnings
            .iter()
            .any(|warning| warning.contains("later turns are sent at the times"))
    );
    let rows: Vec<Value> = file(&handoff, "trace.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let times: Vec<f64> = rows
        .iter()
        .map(|row| row["timestamp"].as_f64().expect("a number"))
        .collect();
    assert!(times.is_sorted() && rows.len() == 18 && rows.iter().all(|row| row.get("session_id").is_none()));
    let arrivals = simulated.outcome.requests.iter().filter_map(|record| record.arrival);
    let mut arrivals: Vec<f64> = arrivals.map(dynosim_spec::SimTime::as_ms).collect();
    arrivals.sort_by(f64::total_cmp);
    assert_eq!(times, arrivals);
}

#[test]
fn rejected_requests_are_left_out_and_said_to_be() {
    let mut spec = run("vllm", aggregated(), closed_loop());
    spec["engine"]["baseEngineArgs"] = json!({ "num_gpu_blocks": 20, "block_size": 16 });
    spec["workload"]["lengthRangeRatio"] = 0.5.into();
    let simulated = Simulated::new(&spec);
    let rejected = simulated.outcome.report.rejections.len();
    assert!(rejected > 0 && rejected < 20, "{rejected}");
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    assert_eq!(file(&handoff, "trace.jsonl").lines().count(), 20 - rejected);
    assert!(
        handoff
            .warnings
            .iter()
            .any(|warning| warning.contains("rejected in the simulation"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the workload, simulating the exported requests gives the same figures.
    #[test]
    fn oracle_exports_replay_to_the_same_report(
        (isl, osl, block) in (1_u32..600, 1_u32..20, 1_u32..70),
        (ratio, groups) in (prop_oneof![Just(0.0), 0.0_f64..1.0], 1_u32..4),
        range in prop_oneof![Just(1.0), 0.05_f64..1.0],
        load in prop_oneof![
            (1_u32..9).prop_map(|concurrency| json!({ "concurrency": concurrency })),
            (1_u32..50).prop_map(|rate| json!({ "requestRate": rate })),
            (0_u32..90).prop_map(|gap| json!({ "arrivalIntervalMs": gap })),
        ],
        disaggregate in any::<bool>(),
    ) {
        let mut workload = json!({
            "isl": isl, "osl": osl, "requestCount": 25, "lengthRangeRatio": range,
            "sharedPrefixRatio": ratio, "numPrefixGroups": groups,
        });
        workload.as_object_mut().expect("a map").extend(load.as_object().expect("a map").clone());
        let topology = if disaggregate { disaggregated() } else { aggregated() };
        let mut spec = run("vllm", topology, workload);
        spec["engine"]["baseEngineArgs"]["block_size"] = block.into();
        check_replay(&spec);
    }
}
