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
