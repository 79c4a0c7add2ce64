//! Manifests of both schemas, for all versions.

use serde_json::{Value, json};

use super::{aggregated, closed_loop, disaggregated, exported, file, manifest, parts, run, value_of};
use crate::export::{ApiVersion, Target};

fn dynamo(version: &str) -> Target {
    Target::new(version.parse().expect("known"), None).expect("possible")
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
