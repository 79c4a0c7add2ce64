//! `dynosim validate`.

use serde_json::{Value, json};

use crate::command::{Folder, Ran, dynosim};

const MEASURED: &str = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms,gpu\n\
                        1,500,10,2,30,8,a\n1,500,10,4,50,9,a\n2,500,10,4,40,8,a\n";

fn small_setup() -> Value {
    json!({
        "engine": { "model": "some-model", "backend": "vllm", "baseEngineArgs": { "num_gpu_blocks": 1000 } },
        "hardware": { "system": "h200_sxm" },
        "workload": { "lengthRangeRatio": 0.8 },
        "timing": { "provider": "polynomial" },
    })
}

/// Validates a file of this text, with more arguments.
fn validate(folder: &Folder, text: &str, setup: &Value, more: &[&str]) -> Ran {
    let measured = folder.write("measured", text);
    let setup = folder.write("setup.json", &setup.to_string());
    let mut args = vec!["validate", &measured, "--setup", &setup];
    args.extend(more);
    dynosim(&args)
}

#[test]
fn tables_are_printed_and_files_written() {
    let folder = Folder::new();
    let out = folder.path("out");
    let ran = validate(&folder, MEASURED, &small_setup(), &["--out", &out, "--seeds", "3"]).succeeds();
    for part in [
        "some-model on h200_sxm, 3 points, means over 3 draws",
        "TTFT ms",
        "of 72 cases",
        "not used: column gpu",
    ] {
        assert!(ran.stdout.contains(part), "no {part} in {}", ran.stdout);
    }
    assert!(
        ran.stderr.contains("warning: step times are estimates: polynomial"),
        "{}",
        ran.stderr
    );
    assert_eq!(folder.json("out/validation.json")["seeds"], 3);
    assert_eq!(folder.read("out/validation.csv").lines().count(), 4);
    assert!(folder.read("out/validation.svg").starts_with("<svg "));

    let again = validate(&folder, MEASURED, &small_setup(), &["--seeds", "3"]).succeeds();
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn result_files_of_benchmarks_are_read() {
    let folder = Folder::new();
    let result = json!({
        "request_rate": "inf", "max_concurrency": 4, "completed": 40, "failed": 0, "total_input_tokens": 18000,
        "total_output_tokens": 360, "mean_ttft_ms": 50.0, "mean_tpot_ms": 9.0
    });
    let file = result.to_string();
    let ran = validate(&folder, &file, &small_setup(), &["--tp", "2"]).succeeds();
    assert!(ran.stdout.contains(" 2  500   10     4    50.00"), "{}", ran.stdout);
    validate(&folder, &file, &small_setup(), &[]).exits(2, "give --tp, or topology.tp in the setup");
    let mut setup = small_setup();
    setup["topology"] = json!({ "tp": 2 });
    validate(&folder, &file, &setup, &[]).succeeds();
}

#[test]
fn mistakes_say_where_they_are_and_what_to_do() {
    let folder = Folder::new();
    let with = |row: &str| format!("{MEASURED}{row}\n");
    validate(&folder, &with("1,x,10,2,3,4,a"), &small_setup(), &[])
        .exits(2, "measured, line 5, column 2 (isl): is `x`; it must be a whole number");
    validate(&folder, &with("1,500,10,2,3,4,a"), &small_setup(), &[])
        .exits(2, "measured, line 5: repeats tp 1, isl 500, osl 10, concurrency 2 of");
    validate(&folder, "a,b\n", &small_setup(), &[]).exits(2, "measured, line 1: no column tp, isl");
    validate(&folder, "{ }", &small_setup(), &[]).exits(2, "is neither a summary of AIPerf");
    let mut setup = small_setup();
    setup["workload"]["isl"] = 5.into();
    validate(&folder, MEASURED, &setup, &[]).exits(
        2,
        "setup.json: invalid spec: workload.isl: unknown key; the measured points say it",
    );
    validate(&folder, MEASURED, &small_setup(), &["--seeds", "0"]).exits(2, "--help");
    dynosim(&["validate", "--setup", "setup.json"]).exits(2, "--help");
    dynosim(&["validate", "no-such.csv", "--setup", "no-such.json"]).exits(2, "cannot read no-such.json");
    let mut setup = small_setup();
    setup["timing"] = json!({});
    validate(&folder, MEASURED, &setup, &[]).exits(2, "nothing is known about model `some-model`");
}
