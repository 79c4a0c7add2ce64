//! Mixtures of experts, from the command line.

use serde_json::{Value, json};

use crate::command::{Folder, dynosim_with_input};

/// The last cells of the rows of `dynosim timing` for these points.
fn predicted(args: &[&str], points: &str) -> Vec<String> {
    let ran = dynosim_with_input(&[&["timing"], args, &["-"]].concat(), points);
    let column = ran.stdout.lines().next().and_then(|header| {
        let mut names = header.split(',');
        names.position(|name| name == "predicted")
    });
    let column = column.expect("there is a column predicted");
    let cells = ran.stdout.lines().skip(1).map(|row| row.split(',').nth(column));
    cells.map(|cell| cell.expect("a cell").to_owned()).collect()
}

#[test]
fn step_times_of_the_reference_agree() {
    let points = "model,tp,moe_tp,moe_ep,dp,batch,isl,osl,ms\n\
                  Qwen/Qwen3-30B-A3B,1,1,4,4,21,12640,2,15.445260404239482\n\
                  Qwen/Qwen3-30B-A3B,4,4,1,1,64,7435,2,10.550627086366779\n\
                  openai/gpt-oss-120b,2,1,2,1,51,5587,2,22.3735466854997\n";
    let found = predicted(&["decode"], points);
    for (row, found) in points.lines().skip(1).zip(&found) {
        let expected: f64 = (row.rsplit(',').next())
            .and_then(|ms| ms.parse().ok())
            .expect("a number");
        let found: f64 = found.parse().expect("a number");
        assert!((found / expected - 1.0).abs() < 1e-7, "{row}: {found}");
    }
}

#[test]
fn options_fill_in_what_rows_leave_open() {
    let given = "model,tp,moe_ep,attention_dp,block_size\nQwen/Qwen3-30B-A3B,2,4,2,64\nQwen/Qwen3-30B-A3B,1,2,2,64\n";
    let open = "model,tp,moe_ep,block_size\nQwen/Qwen3-30B-A3B,2,,64\nQwen/Qwen3-30B-A3B,1,2,64\n";
    let options = ["capacity", "--attention-dp", "2", "--moe-ep", "4"];
    let found = predicted(&options, open);
    assert_eq!(found, predicted(&["capacity"], given));
    // Blocks of both groups together.
    assert!(
        found
            .iter()
            .all(|blocks| blocks.parse::<u64>().is_ok_and(|blocks| blocks % 2 == 0)),
        "{found:?}"
    );
    // Sizes of 1 are no news to a dense model.
    let dense = "model,tp,moe_tp,moe_ep,block_size\nQwen/Qwen3-32B,2,1,1,64\nQwen/Qwen3-32B,2,1,2,64\n";
    assert_eq!(predicted(&["capacity"], dense), ["11742", "ERR"]);
}

fn run(topology: &Value) -> Value {
    json!({
        "engine": { "model": "Qwen/Qwen3-30B-A3B", "backend": "vllm" },
        "hardware": { "system": "h200_sxm" },
        "topology": topology,
        "workload": { "isl": 500, "osl": 10, "requestCount": 20, "concurrency": 4 },
    })
}

#[test]
fn a_worker_spreads_its_experts() {
    let topology = json!({ "workers": 2, "tp": 1, "attentionDp": 2, "moeEp": 2 });
    let ran = dynosim_with_input(&["run", "-"], &run(&topology).to_string()).succeeds();
    let deployment = "on 4 h200_sxm GPUs: 2 x tp 1 attention_dp 2 moe_ep 2;";
    assert!(ran.stdout.contains(deployment), "{}", ran.stdout);
    for (topology, message) in [
        (
            json!({ "workers": 1, "tp": 2, "attentionDp": 2, "moeEp": 2 }),
            "vLLM does not cut experts (moe_tp 2)",
        ),
        (
            json!({ "workers": 1, "tp": 2, "moeTp": 4 }),
            "topology.tp: tp 2 times attention_dp 1 is 2, which must equal moe_tp times moe_ep",
        ),
        (
            json!({ "workers": 1, "tp": 8, "moeTp": 8 }),
            "does not cover Qwen/Qwen3-30B-A3B at tp 8 moe_tp 8",
        ),
    ] {
        dynosim_with_input(&["run", "-"], &run(&topology).to_string()).exits(2, message);
    }
    let mut dense = run(&json!({ "workers": 1, "tp": 2, "attentionDp": 2 }));
    dense["engine"]["model"] = "Qwen/Qwen3-8B".into();
    dynosim_with_input(&["run", "-"], &dense.to_string()).exits(2, "are for mixture-of-experts models");
}

#[test]
fn a_sweep_searches_spreads_of_experts() {
    let folder = Folder::new();
    let mut spec = run(&Value::Null);
    spec["hardware"]["totalGpus"] = 4.into();
    spec["router"] = json!({ "mode": "round_robin" });
    spec.as_object_mut().expect("an object").remove("topology");
    let out = folder.path("out");
    let ran = dynosim_with_input(&["sweep", "-", "--mode", "agg", "--out", &out], &spec.to_string()).succeeds();
    let evaluated = folder.read("out/evaluated.csv");
    assert!(
        evaluated.starts_with("tp,attention_dp,moe_tp,moe_ep,workers,router_mode,"),
        "{evaluated}"
    );
    let shapes: Vec<&str> = evaluated.lines().skip(1).filter_map(|row| row.get(..7)).collect();
    // All but the four on eight GPUs, which exceed the budget.
    for shape in ["1,1,1,1", "1,2,1,2", "2,1,2,1", "2,2,4,1", "4,1,1,4", "1,4,4,1"] {
        assert!(shapes.contains(&shape), "{shape}: {evaluated}");
    }
    assert!(ran.stdout.contains("tp 2 attention_dp 2 moe_ep 4"), "{}", ran.stdout);
    let result = folder.json("out/result.json");
    assert_eq!(result["left_out_tps"][0]["moe_tp"], 8);
    assert!(result["best_feasible"]["moe_ep"].is_u64(), "{result}");
}
