//! `dynosim sweep`.

use serde_json::{Value, json};

use crate::command::{Folder, dynosim, dynosim_with_input};

pub(crate) fn small_sweep() -> Value {
    json!({
        "engine": { "model": "some-model", "backend": "vllm", "baseEngineArgs": { "num_gpu_blocks": 1000 } },
        "hardware": { "system": "h200_sxm", "totalGpus": 6 },
        "workload": {
            "isl": 600, "osl": 12, "requestCount": 60, "concurrency": 12,
            "sharedPrefixRatio": 0.5, "numPrefixGroups": 3
        },
        "router": { "mode": "both", "overlapCredits": [0.5, 1.0], "prefillLoadScales": [0, 1] },
        "timing": { "provider": "polynomial" },
    })
}

#[test]
fn files_do_not_depend_on_parallelism() {
    let folder = Folder::new();
    let mut results: Vec<[String; 3]> = Vec::new();
    for parallel_evals in [1, 2, 8] {
        let mut spec = small_sweep();
        spec["maxParallelEvals"] = parallel_evals.into();
        let spec = folder.write("spec.json", &spec.to_string());
        let out = format!("out{parallel_evals}");
        let ran =
            dynosim(&["sweep", &spec, "--mode", "disagg", "--out", &folder.path(&out)]).exits(0, "simulations took");
        assert!(ran.stdout.contains("Best feasible states"), "{}", ran.stdout);
        assert!(ran.stdout.contains("KV capacity of a worker"), "{}", ran.stdout);
        let files = ["evaluated.csv", "feasible.csv", "result.json"];
        results.push(files.map(|file| folder.read(&format!("{out}/{file}"))));
    }
    assert!(results.iter().all(|files| *files == results[0]));
    let [evaluated, feasible, result] = &results[0];
    assert!(evaluated.starts_with("prefill_tp,decode_tp,prefill_workers,decode_workers,router_mode,"));
    assert_eq!(
        evaluated.lines().count(),
        feasible.lines().count(),
        "nothing is bounded"
    );
    let result: Value = serde_json::from_str(result).expect("JSON");
    assert_eq!(result["best_feasible"]["feasible"], true);
    assert!(result["spec"].get("maxParallelEvals").is_none());
}

#[test]
fn the_flag_wins_over_the_spec_and_changes_nothing() {
    let spec = small_sweep().to_string();
    let plain = dynosim_with_input(&["sweep", "-"], &spec).succeeds();
    let single = dynosim_with_input(&["sweep", "-", "--max-parallel-evals", "1"], &spec).succeeds();
    assert_eq!(plain.stdout, single.stdout);
}

#[test]
fn both_kinds_are_compared() {
    let folder = Folder::new();
    let out = folder.path("out");
    let spec = small_sweep().to_string();
    let ran = dynosim_with_input(&["sweep", "-", "--mode", "compare", "--out", &out], &spec).succeeds();
    assert!(ran.stdout.contains("== Aggregated =="), "{}", ran.stdout);
    assert!(
        ran.stdout
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("Chosen: "))
    );
    for mode in ["agg", "disagg"] {
        for file in ["evaluated.csv", "feasible.csv", "result.json"] {
            assert!(folder.has(&format!("out/{mode}/{file}")), "{mode}/{file}");
        }
    }
    let chosen = folder.json("out/result.json")["chosen_mode"].clone();
    assert!(chosen == "agg" || chosen == "disagg", "{chosen}");
}

#[test]
fn a_side_that_cannot_be_searched_leaves_the_other() {
    let mut spec = small_sweep();
    spec["hardware"]["totalGpus"] = 1.into();
    let folder = Folder::new();
    let args = ["sweep", "-", "--mode", "compare", "--out", &folder.path("out")];
    let ran = dynosim_with_input(&args, &spec.to_string()).succeeds();
    assert!(
        ran.stdout.contains("Not searched: a budget of 1 GPU is too small"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("Chosen: aggregated"), "{}", ran.stdout);
    assert!(folder.has("out/agg/result.json") && !folder.has("out/disagg"));
}

#[test]
fn the_aggregated_kind_has_its_own_columns() {
    let folder = Folder::new();
    let args = ["sweep", "-", "--mode", "agg", "--out", &folder.path("out")];
    dynosim_with_input(&args, &small_sweep().to_string()).succeeds();
    assert!(folder.read("out/evaluated.csv").starts_with("tp,workers,router_mode,"));
}

#[test]
fn bounds_that_nobody_meets_are_an_answer() {
    let mut spec = small_sweep();
    spec["sla"] = json!({ "ttft": 0.001 });
    let folder = Folder::new();
    let args = ["sweep", "-", "--out", &folder.path("out")];
    let ran = dynosim_with_input(&args, &spec.to_string()).succeeds();
    assert!(
        ran.stdout
            .contains("is feasible (a wider search.beam visits more, search.strategy exhaustive all); the closest is"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("sla.ttft: mean_ttft_ms"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Closest states"), "{}", ran.stdout);
    assert_eq!(folder.json("out/result.json")["best_feasible"], Value::Null);
    assert_eq!(folder.read("out/feasible.csv").lines().count(), 1);
}

#[test]
fn more_blocks_than_fit_are_pointed_out() {
    let mut spec = small_sweep();
    spec["engine"]["model"] = "Qwen/Qwen3-32B".into();
    spec["engine"]["baseEngineArgs"] = json!({ "block_size": 512, "num_gpu_blocks": 20000 });
    let ran = dynosim_with_input(&["sweep", "-"], &spec.to_string()).exits(0, "does not fit");
    assert!(
        ran.stdout.contains("20000 blocks of 512 tokens, pinned; about 488 fit"),
        "{}",
        ran.stdout
    );
}

#[test]
fn sizes_without_room_are_left_out_with_their_reason() {
    let mut spec = small_sweep();
    spec["engine"]["model"] = "meta-llama/Meta-Llama-3.1-70B".into();
    let ran = dynosim_with_input(&["sweep", "-", "--mode", "agg"], &spec.to_string()).succeeds();
    assert!(
        ran.stdout.contains("aggregated tp 1: no room for KV cache"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_question_and_what_results_rest_on_are_told() {
    let mut spec = small_sweep();
    spec["sla"] = json!({ "ttft": 90000 });
    let folder = Folder::new();
    let args = ["sweep", "-", "--out", &folder.path("out")];
    let ran = dynosim_with_input(&args, &spec.to_string()).exits(0, "warning: step times are estimates: polynomial");
    for line in [
        "some-model, disaggregated, on at most 6 h200_sxm GPUs: 60 requests of 600 prompt (50 % shared) and 12 output \
         tokens, 12 in flight\n",
        "Objective throughput, bounds ttft 90000 ms\n",
        "Step times: polynomial, the same for every model and GPU\n",
        "KV transfer: free (kv_bytes_per_token and kv_transfer_bandwidth not given)\n",
    ] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("Worth knowing"), "{}", ran.stdout);
    let warnings = folder.json("out/result.json")["warnings"].to_string();
    assert!(warnings.contains("step times are estimates"), "{warnings}");
    let aggregated = dynosim_with_input(&["sweep", "-", "--mode", "agg"], &spec.to_string()).succeeds();
    assert!(!aggregated.stdout.contains("KV transfer"), "{}", aggregated.stdout);
}

#[test]
fn open_loops_name_the_smallest_state_that_does() {
    let mut spec = small_sweep();
    spec["workload"] = json!({ "isl": 600, "osl": 12, "requestCount": 60, "requestRate": 20 });
    let ran = dynosim_with_input(&["sweep", "-", "--mode", "agg"], &spec.to_string()).succeeds();
    assert!(
        ran.stdout.contains("Worth knowing\nRequests arrive at given times"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("Fewest GPUs that meet the bounds: tp=1 workers=1 round_robin (1 GPU, "),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("within 1 % of it"), "{}", ran.stdout);
    spec["objective"] = "mean_ttft".into();
    let ran = dynosim_with_input(&["sweep", "-", "--mode", "agg"], &spec.to_string()).succeeds();
    assert!(!ran.stdout.contains("Worth knowing"), "{}", ran.stdout);
}

#[test]
fn arguments_of_other_roles_are_pointed_out() {
    let mut spec = small_sweep();
    spec["engine"]["prefillEngineArgs"] = json!({ "num_gpu_blocks": 1000 });
    let args = ["sweep", "-", "--mode", "agg"];
    dynosim_with_input(&args, &spec.to_string()).exits(0, "warning: engine.prefillEngineArgs: has no effect");
}

#[test]
fn one_reason_for_all_sizes_is_told_once() {
    let mut spec = small_sweep();
    spec["engine"]["model"] = "Qwen/Qwen3-32B-FP8".into();
    spec["hardware"]["system"] = "a100_sxm".into();
    spec["timing"] = json!({ "provider": "table" });
    let ran = dynosim_with_input(&["sweep", "-"], &spec.to_string()).exits(
        2,
        "prefill and decode tp 1, 2, 4, 8: a100_sxm has no units for 8-bit floats",
    );
    assert_eq!(ran.stderr.matches("has no units").count(), 1, "{}", ran.stderr);
}
