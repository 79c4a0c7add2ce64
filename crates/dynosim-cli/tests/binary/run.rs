//! `dynosim run`.

use std::fs;

use serde_json::{Value, json};

use crate::command::{Folder, dynosim, dynosim_with_input, golden};

pub(crate) fn small_run() -> Value {
    json!({
        "engine": { "model": "some-model", "backend": "vllm", "baseEngineArgs": { "num_gpu_blocks": 1000 } },
        "hardware": { "system": "h200_sxm" },
        "topology": { "workers": 2, "tp": 1 },
        "workload": { "isl": 500, "osl": 10, "requestCount": 20, "concurrency": 4 },
        "timing": { "provider": "polynomial" },
    })
}

/// Every worked example, its requests in a file of their own.
#[test]
fn worked_examples_agree() {
    let mut compared = 0;
    for entry in fs::read_dir(golden("engine")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mut example: Value = serde_json::from_str(&fs::read_to_string(&path).expect("text")).expect("JSON");
        if example["check"] != "exact" {
            continue;
        }
        let folder = Folder::new();
        if let Value::Array(lines) = &example["trace_lines"] {
            let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            let trace = folder.write("trace.jsonl", &lines.join("\n"));
            example["run"]["workload"]["traceFile"] = trace.into();
        }
        let spec = folder.write("spec.json", &example["run"].to_string());
        let report = dynosim(&["run", &spec, "--report", "-"]).succeeds().stdout;
        let report: Value = serde_json::from_str(&report).expect("JSON");
        for (key, expected) in example["expected"].as_object().expect("figures") {
            let (Some(expected), Some(found)) = (expected.as_f64(), report[key].as_f64()) else {
                continue;
            };
            assert!(
                (found - expected).abs() <= 1e-9 + 1e-8 * expected.abs(),
                "{}: {key} is {found}, expected {expected}",
                path.display()
            );
            compared += 1;
        }
    }
    assert!(compared > 1000, "only {compared} figures were compared");
}

#[test]
fn a_table_is_printed_and_warnings_go_to_standard_error() {
    let mut spec = small_run();
    spec["hardware"]["totalGpus"] = 8.into();
    let ran = dynosim_with_input(&["run", "-"], &spec.to_string()).exits(0, "warning: hardware.totalGpus");
    assert!(ran.stdout.contains("20 of 20 completed"), "{}", ran.stdout);
    assert!(ran.stdout.contains("TTFT ms"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("warning"), "{}", ran.stdout);
}

#[test]
fn report_and_requests_are_written() {
    let folder = Folder::new();
    let spec = folder.write("spec.json", &small_run().to_string());
    let (report, requests) = (folder.path("report.json"), folder.path("requests.csv"));
    let ran = dynosim(&["run", &spec, "--report", &report, "--requests", &requests]).succeeds();
    assert_eq!(ran.stdout, "");
    assert_eq!(folder.json("report.json")["completed_requests"], 20);
    let lines = folder.read("requests.csv");
    assert_eq!(lines.lines().count(), 21);
    assert!(lines.starts_with("request,session,turn,input_tokens,output_tokens,arrival_ms,"));
    assert!(lines.lines().skip(1).all(|line| line.contains(",500,10,")), "{lines}");
}

#[test]
fn phases_of_requests_sum_up_to_their_time_to_first_token() {
    let mut spec = small_run();
    spec["topology"] = json!({ "prefillWorkers": 1, "prefillTp": 1, "decodeWorkers": 1, "decodeTp": 1 });
    spec["engine"]["baseEngineArgs"]["kv_bytes_per_token"] = 262_144.into();
    spec["engine"]["baseEngineArgs"]["kv_transfer_bandwidth"] = 25.into();
    let folder = Folder::new();
    let (report, requests) = (folder.path("report.json"), folder.path("requests.csv"));
    let args = ["run", "-", "--report", &report, "--requests", &requests];
    dynosim_with_input(&args, &spec.to_string()).succeeds();
    let text = folder.read("requests.csv");
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = rows.next().expect("a header");
    let phases = [
        "ingress_ms",
        "queue_ms",
        "prefill_ms",
        "transfer_ms",
        "decode_queue_ms",
        "first_step_ms",
        "egress_ms",
    ];
    assert_eq!(columns[17..24], phases);
    assert_eq!(columns[24..], ["second_token_ms"]);
    let mut ttst_ms = 0.0;
    for row in rows {
        let cell = |name: &str| -> f64 {
            let column = columns.iter().position(|column| *column == name).expect("the column");
            row[column].parse().expect("a figure")
        };
        let sum: f64 = phases.iter().map(|phase| cell(phase)).sum();
        assert!((sum - cell("ttft_ms")).abs() < 1e-9, "{row:?}");
        assert!(cell("transfer_ms") > 1.0 && cell("first_step_ms") > 1.0, "{row:?}");
        ttst_ms += (cell("second_token_ms") - cell("first_token_ms")) / 20.0;
    }
    let mean = folder.json("report.json")["mean_ttst_ms"].as_f64().expect("a figure");
    assert!((ttst_ms - mean).abs() < 1e-9, "{ttst_ms} instead of {mean}");
}

#[test]
fn what_time_is_spent_on_is_shown() {
    let spec = small_run().to_string();
    let shown = dynosim_with_input(&["run", "-", "--breakdown"], &spec)
        .succeeds()
        .stdout;
    let (_, parts) = shown.split_once("mean time to first token\n").expect("its parts");
    let names: Vec<&str> = parts
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let expected = [
        "ingress",
        "queue",
        "prefill",
        "transfer",
        "decode_queue",
        "first_step",
        "egress",
    ];
    assert_eq!(names, expected);
    assert!(shown.contains("step time of all workers\n"), "{shown}");
    let report = dynosim_with_input(&["run", "-", "--breakdown", "--report", "-"], &spec)
        .succeeds()
        .stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let parts = report["breakdown"]["mean_ttft_ms"].as_object().expect("parts");
    assert_eq!(
        parts
            .keys()
            .map(String::as_str)
            .collect::<std::collections::BTreeSet<_>>(),
        expected.into()
    );
    let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
    assert!((sum - report["mean_ttft_ms"].as_f64().expect("a figure")).abs() < 1e-9);
}

#[test]
fn a_report_says_what_pools_did() {
    let report = report_of(&small_run());
    let pool = &report["pools"][0];
    assert_eq!((&pool["role"], &pool["workers"]), (&json!("aggregated"), &json!(2)));
    let (busy_ms, duration_ms) = (pool["busy_ms"].as_f64(), report["duration_ms"].as_f64());
    let utilisation = busy_ms.expect("a time") / duration_ms.expect("a time") / 2.0;
    assert!(
        (pool["utilisation"].as_f64().expect("a share") - utilisation).abs() < 1e-12,
        "{pool}"
    );
    assert_eq!(pool["prompt_tokens"], report["total_input_tokens"]);
}

#[test]
fn rejected_requests_are_listed_with_their_reason() {
    let mut spec = small_run();
    let folder = Folder::new();
    let trace = "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 2, \"hash_ids\": [1]}\n\
                 {\"timestamp\": 1, \"input_length\": 90000, \"output_length\": 2, \"hash_ids\": [2]}\n";
    spec["workload"] = json!({ "traceFile": folder.write("trace.jsonl", trace), "traceBlockSize": 100_000 });
    let requests = folder.path("requests.csv");
    let ran = dynosim_with_input(&["run", "-", "--requests", &requests], &spec.to_string()).succeeds();
    assert!(ran.stdout.contains("1 of 2 completed, 1 rejected"), "{}", ran.stdout);
    assert!(folder.read("requests.csv").contains("blocks"), "the reason is there");
}

#[test]
fn tables_may_lie_elsewhere() {
    let mut spec = small_run();
    spec["engine"]["model"] = "Qwen/Qwen3-8B".into();
    spec["timing"] = json!({ "provider": "table" });
    let elsewhere = golden("../../perfdata");
    let elsewhere = elsewhere.to_str().expect("a plain path");
    let report = |args: &[&str]| dynosim_with_input(args, &spec.to_string()).succeeds().stdout;
    assert_eq!(
        report(&["run", "-", "--report", "-"]),
        report(&["run", "-", "--report", "-", "--perfdata", elsewhere])
    );
    let polynomial = small_run().to_string();
    dynosim_with_input(&["run", "-", "--perfdata", elsewhere], &polynomial)
        .exits(0, "warning: --perfdata has no effect");
}

fn report_of(spec: &Value) -> Value {
    let report = dynosim_with_input(&["run", "-", "--report", "-"], &spec.to_string()).succeeds();
    serde_json::from_str(&report.stdout).expect("JSON")
}

fn has_warning(report: &Value, start: &str) -> bool {
    let warnings = report["warnings"].as_array().expect("a list");
    warnings
        .iter()
        .any(|warning| warning.as_str().is_some_and(|text| text.starts_with(start)))
}

#[test]
fn requests_on_standard_output_are_alone_there() {
    let ran = dynosim_with_input(&["run", "-", "--requests", "-"], &small_run().to_string()).succeeds();
    assert_eq!(ran.stdout.lines().count(), 21, "{}", ran.stdout);
    assert!(ran.stderr.contains("20 of 20 completed") && ran.stderr.contains("TTFT ms"));
}

#[test]
fn step_times_are_named() {
    let ran = dynosim_with_input(&["run", "-"], &small_run().to_string()).succeeds();
    for line in [
        "step times      polynomial, the same for every model and GPU\n",
        "extrapolated    n/a: not from measurements\n",
        "preemptions     0\n",
    ] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
    assert!(has_warning(
        &report_of(&small_run()),
        "step times are estimates: polynomial"
    ));

    let mut spec = small_run();
    spec["engine"]["model"] = "Qwen/Qwen3-8B".into();
    spec["timing"] = json!({ "provider": "table" });
    spec["topology"] = json!({ "workers": 1, "tp": 1 });
    let ran = dynosim_with_input(&["run", "-"], &spec.to_string()).succeeds();
    assert!(
        ran.stdout.contains("measured tables of vllm 0.19.0 on h200_sxm"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("on 1 h200_sxm GPU:"), "{}", ran.stdout);
    assert!(!has_warning(&report_of(&spec), "step times"));

    spec["timing"] = json!({ "provider": "roofline" });
    assert!(!has_warning(&report_of(&spec), "step times"));
    spec["hardware"]["system"] = "h100_sxm".into();
    assert!(has_warning(
        &report_of(&spec),
        "step times are estimates: roofline of h100_sxm"
    ));
}

#[test]
fn transfers_are_described() {
    let mut spec = small_run();
    spec["topology"] = json!({ "prefillWorkers": 1, "prefillTp": 1, "decodeWorkers": 1, "decodeTp": 1 });
    let table = |spec: &Value| dynosim_with_input(&["run", "-"], &spec.to_string()).succeeds().stdout;
    assert!(table(&spec).contains("KV transfer     free (kv_bytes_per_token and"));
    spec["engine"]["baseEngineArgs"]["kv_bytes_per_token"] = 262_144.into();
    spec["engine"]["baseEngineArgs"]["kv_transfer_bandwidth"] = 25.into();
    assert!(table(&spec).contains("KV transfer     25 GB/s, 262144 bytes per token\n"));
    assert!(!table(&small_run()).contains("KV transfer"));
}

#[test]
fn single_tokens_have_no_gaps() {
    let mut spec = small_run();
    spec["workload"]["osl"] = 1.into();
    let table = dynosim_with_input(&["run", "-"], &spec.to_string()).succeeds().stdout;
    let cells = |name: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.starts_with(name)).expect("the row");
        line.split_whitespace().skip(2).collect()
    };
    assert_eq!(cells("TPOT ms"), ["-"; 6]);
    assert_eq!(cells("ITL ms"), ["-"; 6]);
    assert_ne!(cells("TTFT ms"), ["-"; 6]);
}

#[test]
fn arrivals_that_outrun_service_are_pointed_out() {
    let mut spec = small_run();
    let open_loop = |rate: f64| json!({ "isl": 500, "osl": 10, "requestCount": 200, "requestRate": rate });
    spec["workload"] = open_loop(5000.0);
    assert!(has_warning(&report_of(&spec), "arrivals outran service"));
    spec["workload"] = open_loop(2.0);
    assert!(!has_warning(&report_of(&spec), "arrivals outran service"));
    assert!(!has_warning(&report_of(&small_run()), "arrivals outran service"));
}
