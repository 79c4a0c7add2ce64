//! `dynosim calibrate`.

use serde_json::{Value, json};

use crate::command::{Folder, Ran, dynosim};

const MEASURED: &str = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms\n\
                        1,1000,40,2,42,7.2\n1,1000,40,8,70,8.1\n1,300,40,8,40,7.4\n2,300,40,8,30,6\n";

fn async_setup() -> Value {
    json!({
        "engine": { "model": "Qwen/Qwen3-8B", "backend": "vllm", "rules": "vllm-v1-async" },
        "hardware": { "system": "h200_sxm" },
    })
}

fn calibrate(folder: &Folder, setup: &Value, more: &[&str]) -> Ran {
    let measured = folder.write("m.csv", MEASURED);
    let setup = folder.write("setup.json", &setup.to_string());
    let mut args = vec!["calibrate", &measured, "--setup", &setup];
    args.extend(more);
    dynosim(&args)
}

#[test]
fn a_record_is_written_that_the_setup_can_name() {
    let folder = Folder::new();
    let out = folder.path("mine.json");
    let ran = calibrate(&folder, &async_setup(), &["-o", &out, "--fit", "stepMs"]).succeeds();
    assert!(ran.stdout.contains("1 constant fitted to 4 points"), "{}", ran.stdout);
    assert!(ran.stdout.contains("each isl/osl by the others"), "{}", ran.stdout);
    let record = folder.json("mine.json");
    assert_eq!(record["name"], "mine");
    assert_eq!(record["date"].as_str().map(str::len), Some(10));
    assert!(
        record["constants"]["stepMs"]["value"]
            .as_f64()
            .is_some_and(|value| value > 0.0)
    );
    assert_eq!(record["constants"]["gemmDerate"]["value"], 1.13, "it stays as it was");

    let mut setup = async_setup();
    setup["timing"] = json!({ "calibration": out });
    let setup = folder.write("calibrated.json", &setup.to_string());
    let validated = dynosim(&["validate", &folder.path("m.csv"), "--setup", &setup]).succeeds();
    assert!(validated.stdout.contains("Calibration: mine\n"), "{}", validated.stdout);
    let after = ran
        .stdout
        .lines()
        .find(|line| line.starts_with("after"))
        .expect("the line");
    let all = validated
        .stdout
        .lines()
        .find(|line| line.starts_with("all"))
        .expect("the line");
    let figures = |line: &str| -> Vec<String> { line.split_whitespace().skip(1).map(str::to_owned).collect() };
    assert_eq!(figures(after), figures(all), "both draw lengths alike");
}

#[test]
fn a_record_on_standard_output_is_alone_there() {
    let folder = Folder::new();
    let args = [
        "-o",
        "-",
        "--fit",
        "stepMs",
        "--tp",
        "1",
        "--name",
        "n",
        "--date",
        "2026-01-31",
    ];
    let ran = calibrate(&folder, &async_setup(), &args).succeeds();
    let record: Value = serde_json::from_str(&ran.stdout).expect("JSON alone");
    assert_eq!((&record["name"], &record["date"]), (&json!("n"), &json!("2026-01-31")));
    assert!(ran.stderr.contains("1 constant fitted to 3 points"), "{}", ran.stderr);
    assert!(ran.stderr.contains("other tp, after"), "{}", ran.stderr);
}

#[test]
fn mistakes_are_told_before_the_work() {
    let folder = Folder::new();
    let out = folder.path("c.json");
    calibrate(&folder, &async_setup(), &["-o", &out, "--fit", "gemDerate"])
        .exits(2, "there is no constant `gemDerate`");
    calibrate(&folder, &async_setup(), &["-o", &folder.path("no/c.json")]).exits(1, "there is no folder");
    let mut plain = async_setup();
    plain["engine"]["rules"] = "vllm-v1".into();
    calibrate(&folder, &plain, &["-o", &out]).exits(2, "engine.rules vllm-v1-async");
    calibrate(&folder, &async_setup(), &[]).exits(2, "--help");
    assert!(!folder.has("c.json"));
}
